// Postcarding: the postcards of a key become one chunk of five words (`direct/primitives/postcarding_layout`).
#pragma once

const bit<32> CACHE_ROWS = 1024;
const bit<8> HOPS = 5;
const bit<32> BLANK = 0xffffffff;   // of a hop after the path
const bit<32> MISSING = 0xfffffffe; // of a hop on the path without a value
const bit<64> CHUNK_STRIDE = 32;

// Ethernet's CRC-32 of what a chunk has for a hop, from 0: its code. `value` counts if the hop's bit in `seen` is set.
control CodeOf(in bit<8> seen, in bit<8> length, in bit<8> hop, in bit<32> value, out bit<32> code) {
    apply {
        bit<32> word = value;
        if ((seen & (8w1 << hop)) == 0) {
            word = hop < length ? MISSING : BLANK;
        } else if (value == BLANK) {
            word = MISSING;
        }
        code = 0;
        hash(code, HashAlgorithm.crc32, 32w0, { word }, 64w0x100000000);
    }
}

// Take a postcard; `full`: `roce` has the words of a chunk, to be written `offset` bytes into the store.
control TakePostcard(
    inout roce_t roce, in bit<32> key, in bit<8> hop, in bit<8> path_length, in bit<32> value, in bit<32> chunks,
    out bool full, out bit<64> offset)
{
    register<bit<32>>(CACHE_ROWS) keys;
    register<bit<8>>(CACHE_ROWS) seen;    // bit i: hop i + 1; 0: the row is empty
    register<bit<8>>(CACHE_ROWS) lengths; // of the path, 0: unknown
    register<bit<32>>(CACHE_ROWS) value_0;
    register<bit<32>>(CACHE_ROWS) value_1;
    register<bit<32>>(CACHE_ROWS) value_2;
    register<bit<32>>(CACHE_ROWS) value_3;
    register<bit<32>>(CACHE_ROWS) value_4;

    CodeOf() code_0;
    CodeOf() code_1;
    CodeOf() code_2;
    CodeOf() code_3;
    CodeOf() code_4;

    apply {
        bit<32> row = 0;
        bit<32> row_key;
        bit<8> row_seen;
        bit<8> row_length;
        bit<32> v0;
        bit<32> v1;
        bit<32> v2;
        bit<32> v3;
        bit<32> v4;
        full = false;
        offset = 0;
        hash(row, HashAlgorithm.crc32, 32w0, { key }, (bit<64>)CACHE_ROWS);
        keys.read(row_key, row);
        seen.read(row_seen, row);
        lengths.read(row_length, row);
        value_0.read(v0, row);
        value_1.read(v1, row);
        value_2.read(v2, row);
        value_3.read(v3, row);
        value_4.read(v4, row);
        bit<8> one = 8w1 << (hop - 1);
        bool evicts = row_seen != 0 && row_key != key;
        bit<8> next_seen = evicts ? one : row_seen | one;
        bit<8> next_length = path_length != 0 ? path_length : (evicts ? 8w0 : row_length);
        if (!evicts) {
            // the postcard is part of what may leave now
            if (hop == 1) {
                v0 = value;
            } else if (hop == 2) {
                v1 = value;
            } else if (hop == 3) {
                v2 = value;
            } else if (hop == 4) {
                v3 = value;
            } else {
                v4 = value;
            }
            bit<8> whole = (8w1 << (next_length != 0 ? next_length : HOPS)) - 1;
            if ((next_seen & whole) == whole) {
                full = true;
                row_key = key;
                row_seen = next_seen;
                row_length = next_length;
                next_seen = 0;
                next_length = 0;
            }
        } else {
            full = true;
        }
        if (full) {
            bit<32> code;
            code_0.apply(row_seen, row_length, 8w0, v0, code);
            roce.w0.setValid();
            roce.w0.value = swapped(code ^ key_hash_8(row_key));
            code_1.apply(row_seen, row_length, 8w1, v1, code);
            roce.w1.setValid();
            roce.w1.value = swapped(code ^ key_hash_9(row_key));
            code_2.apply(row_seen, row_length, 8w2, v2, code);
            roce.w2.setValid();
            roce.w2.value = swapped(code ^ key_hash_10(row_key));
            code_3.apply(row_seen, row_length, 8w3, v3, code);
            roce.w3.setValid();
            roce.w3.value = swapped(code ^ key_hash_11(row_key));
            code_4.apply(row_seen, row_length, 8w4, v4, code);
            roce.w4.setValid();
            roce.w4.value = swapped(code ^ key_hash_12(row_key));
            offset = (bit<64>)reduced(key_hash_0(row_key), chunks) * CHUNK_STRIDE;
        }
        keys.write(row, key);
        seen.write(row, next_seen);
        lengths.write(row, next_length);
        if (hop == 1) {
            value_0.write(row, value);
        } else if (hop == 2) {
            value_1.write(row, value);
        } else if (hop == 3) {
            value_2.write(row, value);
        } else if (hop == 4) {
            value_3.write(row, value);
        } else {
            value_4.write(row, value);
        }
    }
}
