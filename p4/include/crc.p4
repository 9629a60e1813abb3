// What is made of the hash functions of stores (`direct/hashing`, crc).
#pragma once

bit<32> swapped(in bit<32> word) {
    return word[7:0] ++ word[15:8] ++ word[23:16] ++ word[31:24];
}

// A number below `slots` from a hash.
bit<32> reduced(in bit<32> code, in bit<32> slots) {
    return (bit<32>)(((bit<64>)code * (bit<64>)slots) >> 32);
}

// A key's checksum of 32 bits is never 0: `high` is what stands above `low` in 64 bits.
bit<32> not_zero(in bit<32> low, in bit<32> high) {
    return low == 0 ? 1 + reduced(high, 0xffffffff) : low;
}
