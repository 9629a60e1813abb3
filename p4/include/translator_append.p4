// Append: four entries of a list become one slot of its ring (`direct/primitives/append_layout`).
#pragma once

const bit<32> MAX_LISTS = 1024;
const bit<8> BATCH = 4;
const bit<64> SLOT_BYTES = 32; // head of 12, four entries of 4, stamp of 4

// Take an entry; `full`: `roce` has the words of a slot, to be written `offset` bytes into the store.
control TakeEntry(
    inout roce_t roce, in bit<32> row, in bit<32> data, in bit<32> batches, in bit<32> generation,
    out bool full, out bit<64> offset)
{
    register<bit<8>>(MAX_LISTS) waiting;
    register<bit<32>>(MAX_LISTS) number; // of a list's next batch
    register<bit<32>>(MAX_LISTS) entry_0;
    register<bit<32>>(MAX_LISTS) entry_1;
    register<bit<32>>(MAX_LISTS) entry_2;

    apply {
        bit<8> count;
        full = false;
        offset = 0;
        waiting.read(count, row);
        if (count == 0) {
            entry_0.write(row, data);
        } else if (count == 1) {
            entry_1.write(row, data);
        } else if (count == 2) {
            entry_2.write(row, data);
        } else {
            bit<32> batch;
            full = true;
            number.read(batch, row);
            number.write(row, batch + 1);
            bit<32> stamp = swapped(0x80000000 | batch);
            roce.w0.setValid();
            roce.w0.value = stamp;
            roce.w1.setValid();
            roce.w1.value = swapped(batch << 2);
            roce.w2.setValid();
            roce.w2.value = swapped((generation << 8) | (bit<32>)BATCH);
            roce.w3.setValid();
            entry_0.read(roce.w3.value, row);
            roce.w4.setValid();
            entry_1.read(roce.w4.value, row);
            roce.w5.setValid();
            entry_2.read(roce.w5.value, row);
            roce.w6.setValid();
            roce.w6.value = data;
            roce.w7.setValid();
            roce.w7.value = stamp;
            offset = ((bit<64>)row * (bit<64>)batches + (bit<64>)(batch & (batches - 1))) * SLOT_BYTES;
        }
        waiting.write(row, full ? 8w0 : count + 1);
    }
}
