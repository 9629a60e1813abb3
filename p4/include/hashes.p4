// Made by p4/generate.py from src/hopscope: change that, not this.
#pragma once

// CRC-32 by row of the polynomials of stores (`direct/hashing`), of keys of 4 bytes.

bit<32> key_hash_0(in bit<32> key) {
    return 32w0x2144df1c ^ (bit<32>)key[31:31] * 0xed59b63b ^ (bit<32>)key[30:30] * 0x9b14583d ^
        (bit<32>)key[29:29] * 0xa032af3e ^ (bit<32>)key[28:28] * 0x5019579f ^ (bit<32>)key[27:27] * 0xc5b428ef ^
        (bit<32>)key[26:26] * 0x8f629757 ^ (bit<32>)key[25:25] * 0xaa09c88b ^ (bit<32>)key[24:24] * 0xb8bc6765 ^
        (bit<32>)key[23:23] * 0xe1351b80 ^ (bit<32>)key[22:22] * 0x709a8dc0 ^ (bit<32>)key[21:21] * 0x384d46e0 ^
        (bit<32>)key[20:20] * 0x1c26a370 ^ (bit<32>)key[19:19] * 0xe1351b8 ^ (bit<32>)key[18:18] * 0x709a8dc ^
        (bit<32>)key[17:17] * 0x384d46e ^ (bit<32>)key[16:16] * 0x1c26a37 ^ (bit<32>)key[15:15] * 0x3b83984b ^
        (bit<32>)key[14:14] * 0xf0794f05 ^ (bit<32>)key[13:13] * 0x958424a2 ^ (bit<32>)key[12:12] * 0x4ac21251 ^
        (bit<32>)key[11:11] * 0xc8d98a08 ^ (bit<32>)key[10:10] * 0x646cc504 ^ (bit<32>)key[9:9] * 0x32366282 ^
        (bit<32>)key[8:8] * 0x191b3141 ^ (bit<32>)key[7:7] * 0xedb88320 ^ (bit<32>)key[6:6] * 0x76dc4190 ^
        (bit<32>)key[5:5] * 0x3b6e20c8 ^ (bit<32>)key[4:4] * 0x1db71064 ^ (bit<32>)key[3:3] * 0xedb8832 ^
        (bit<32>)key[2:2] * 0x76dc419 ^ (bit<32>)key[1:1] * 0xee0e612c ^ (bit<32>)key[0:0] * 0x77073096;
}

bit<32> key_hash_1(in bit<32> key) {
    return 32w0x65df080c ^ (bit<32>)key[31:31] * 0x8038ca6 ^ (bit<32>)key[30:30] * 0x401c653 ^
        (bit<32>)key[29:29] * 0xf889a4ca ^ (bit<32>)key[28:28] * 0x7c44d265 ^ (bit<32>)key[27:27] * 0xc4ab2ed1 ^
        (bit<32>)key[26:26] * 0x98dcd08b ^ (bit<32>)key[25:25] * 0xb6e72fa6 ^ (bit<32>)key[24:24] * 0x5b7397d3 ^
        (bit<32>)key[23:23] * 0x7f52e724 ^ (bit<32>)key[22:22] * 0x3fa97392 ^ (bit<32>)key[21:21] * 0x1fd4b9c9 ^
        (bit<32>)key[20:20] * 0xf5631b07 ^ (bit<32>)key[19:19] * 0x8038ca60 ^ (bit<32>)key[18:18] * 0x401c6530 ^
        (bit<32>)key[17:17] * 0x200e3298 ^ (bit<32>)key[16:16] * 0x1007194c ^ (bit<32>)key[15:15] * 0x9734589 ^
        (bit<32>)key[14:14] * 0xfe30e527 ^ (bit<32>)key[13:13] * 0x85913570 ^ (bit<32>)key[12:12] * 0x42c89ab8 ^
        (bit<32>)key[11:11] * 0x21644d5c ^ (bit<32>)key[10:10] * 0x10b226ae ^ (bit<32>)key[9:9] * 0x8591357 ^
        (bit<32>)key[8:8] * 0xfea5ce48 ^ (bit<32>)key[7:7] * 0xfa8947e3 ^ (bit<32>)key[6:6] * 0x87cde412 ^
        (bit<32>)key[5:5] * 0x43e6f209 ^ (bit<32>)key[4:4] * 0xdb7a3ee7 ^ (bit<32>)key[3:3] * 0x97345890 ^
        (bit<32>)key[2:2] * 0x4b9a2c48 ^ (bit<32>)key[1:1] * 0x25cd1624 ^ (bit<32>)key[0:0] * 0x12e68b12;
}

bit<32> key_hash_2(in bit<32> key) {
    return 32w0x0d667483 ^ (bit<32>)key[31:31] * 0x71e17a15 ^ (bit<32>)key[30:30] * 0xe829a152 ^
        (bit<32>)key[29:29] * 0x7414d0a9 ^ (bit<32>)key[28:28] * 0xead3740c ^ (bit<32>)key[27:27] * 0x7569ba06 ^
        (bit<32>)key[26:26] * 0x3ab4dd03 ^ (bit<32>)key[25:25] * 0xcd8372d9 ^ (bit<32>)key[24:24] * 0xb618a534 ^
        (bit<32>)key[23:23] * 0xd5b3c332 ^ (bit<32>)key[22:22] * 0x6ad9e199 ^ (bit<32>)key[21:21] * 0xe5b5ec94 ^
        (bit<32>)key[20:20] * 0x72daf64a ^ (bit<32>)key[19:19] * 0x396d7b25 ^ (bit<32>)key[18:18] * 0xcc6fa1ca ^
        (bit<32>)key[17:17] * 0x6637d0e5 ^ (bit<32>)key[16:16] * 0xe3c2f42a ^ (bit<32>)key[15:15] * 0xaf73f926 ^
        (bit<32>)key[14:14] * 0x57b9fc93 ^ (bit<32>)key[13:13] * 0xfb05e211 ^ (bit<32>)key[12:12] * 0xad5bed50 ^
        (bit<32>)key[11:11] * 0x56adf6a8 ^ (bit<32>)key[10:10] * 0x2b56fb54 ^ (bit<32>)key[9:9] * 0x15ab7daa ^
        (bit<32>)key[8:8] * 0xad5bed5 ^ (bit<32>)key[7:7] * 0xd0d91c58 ^ (bit<32>)key[6:6] * 0x686c8e2c ^
        (bit<32>)key[5:5] * 0x34364716 ^ (bit<32>)key[4:4] * 0x1a1b238b ^ (bit<32>)key[3:3] * 0xddd48d9d ^
        (bit<32>)key[2:2] * 0xbe335a96 ^ (bit<32>)key[1:1] * 0x5f19ad4b ^ (bit<32>)key[0:0] * 0xff55cafd;
}

bit<32> key_hash_3(in bit<32> key) {
    return 32w0x5f56e531 ^ (bit<32>)key[31:31] * 0x52b0e625 ^ (bit<32>)key[30:30] * 0xad45ef41 ^
        (bit<32>)key[29:29] * 0xd2bf6bf3 ^ (bit<32>)key[28:28] * 0xed4229aa ^ (bit<32>)key[27:27] * 0x76a114d5 ^
        (bit<32>)key[26:26] * 0xbf4d1639 ^ (bit<32>)key[25:25] * 0xdbbb174f ^ (bit<32>)key[24:24] * 0xe9c017f4 ^
        (bit<32>)key[23:23] * 0x3d9b86b0 ^ (bit<32>)key[22:22] * 0x1ecdc358 ^ (bit<32>)key[21:21] * 0xf66e1ac ^
        (bit<32>)key[20:20] * 0x7b370d6 ^ (bit<32>)key[19:19] * 0x3d9b86b ^ (bit<32>)key[18:18] * 0x85f14066 ^
        (bit<32>)key[17:17] * 0x42f8a033 ^ (bit<32>)key[16:16] * 0xa561cc4a ^ (bit<32>)key[15:15] * 0x7e670934 ^
        (bit<32>)key[14:14] * 0x3f33849a ^ (bit<32>)key[13:13] * 0x1f99c24d ^ (bit<32>)key[12:12] * 0x8bd17d75 ^
        (bit<32>)key[11:11] * 0xc1f522e9 ^ (bit<32>)key[10:10] * 0xe4e70d27 ^ (bit<32>)key[9:9] * 0xf66e1ac0 ^
        (bit<32>)key[8:8] * 0x7b370d60 ^ (bit<32>)key[7:7] * 0x841d9c53 ^ (bit<32>)key[6:6] * 0xc613527a ^
        (bit<32>)key[5:5] * 0x6309a93d ^ (bit<32>)key[4:4] * 0xb59948cd ^ (bit<32>)key[3:3] * 0xded13835 ^
        (bit<32>)key[2:2] * 0xeb750049 ^ (bit<32>)key[1:1] * 0xf1a71c77 ^ (bit<32>)key[0:0] * 0xfcce1268;
}

bit<32> key_hash_8(in bit<32> key) {
    return 32w0x5f967cee ^ (bit<32>)key[31:31] * 0xd1396703 ^ (bit<32>)key[30:30] * 0xa2ce391b ^
        (bit<32>)key[29:29] * 0x9b359617 ^ (bit<32>)key[28:28] * 0x87c84191 ^ (bit<32>)key[27:27] * 0x89b6aa52 ^
        (bit<32>)key[26:26] * 0x44db5529 ^ (bit<32>)key[25:25] * 0xe83f200e ^ (bit<32>)key[24:24] * 0x741f9007 ^
        (bit<32>)key[23:23] * 0x9c53f58f ^ (bit<32>)key[22:22] * 0x847b705d ^ (bit<32>)key[21:21] * 0x886f32b4 ^
        (bit<32>)key[20:20] * 0x4437995a ^ (bit<32>)key[19:19] * 0x221bccad ^ (bit<32>)key[18:18] * 0xdb5f6ccc ^
        (bit<32>)key[17:17] * 0x6dafb666 ^ (bit<32>)key[16:16] * 0x36d7db33 ^ (bit<32>)key[15:15] * 0x283deb55 ^
        (bit<32>)key[14:14] * 0xde4c7f30 ^ (bit<32>)key[13:13] * 0x6f263f98 ^ (bit<32>)key[12:12] * 0x37931fcc ^
        (bit<32>)key[11:11] * 0x1bc98fe6 ^ (bit<32>)key[10:10] * 0xde4c7f3 ^ (bit<32>)key[9:9] * 0xcca0e963 ^
        (bit<32>)key[8:8] * 0xac02fe2b ^ (bit<32>)key[7:7] * 0xca528a9a ^ (bit<32>)key[6:6] * 0x6529454d ^
        (bit<32>)key[5:5] * 0xf8c6283c ^ (bit<32>)key[4:4] * 0x7c63141e ^ (bit<32>)key[3:3] * 0x3e318a0f ^
        (bit<32>)key[2:2] * 0xd54a4f9d ^ (bit<32>)key[1:1] * 0xa0f7ad54 ^ (bit<32>)key[0:0] * 0x507bd6aa;
}

bit<32> key_hash_9(in bit<32> key) {
    return 32w0x5993987c ^ (bit<32>)key[31:31] * 0xa9c95d73 ^ (bit<32>)key[30:30] * 0xc0b5998b ^
        (bit<32>)key[29:29] * 0xf40bfbf7 ^ (bit<32>)key[28:28] * 0xee54cac9 ^ (bit<32>)key[27:27] * 0xe37b5256 ^
        (bit<32>)key[26:26] * 0x71bda92b ^ (bit<32>)key[25:25] * 0xac8fe3a7 ^ (bit<32>)key[24:24] * 0xc216c6e1 ^
        (bit<32>)key[23:23] * 0x3af4aaf7 ^ (bit<32>)key[22:22] * 0x892b6249 ^ (bit<32>)key[21:21] * 0xd0c48616 ^
        (bit<32>)key[20:20] * 0x6862430b ^ (bit<32>)key[19:19] * 0xa06016b7 ^ (bit<32>)key[18:18] * 0xc4613c69 ^
        (bit<32>)key[17:17] * 0xf661a906 ^ (bit<32>)key[16:16] * 0x7b30d483 ^ (bit<32>)key[15:15] * 0x8d5b174c ^
        (bit<32>)key[14:14] * 0x46ad8ba6 ^ (bit<32>)key[13:13] * 0x2356c5d3 ^ (bit<32>)key[12:12] * 0x85fa55db ^
        (bit<32>)key[11:11] * 0xd6ac1ddf ^ (bit<32>)key[10:10] * 0xff0739dd ^ (bit<32>)key[9:9] * 0xebd2abdc ^
        (bit<32>)key[8:8] * 0x75e955ee ^ (bit<32>)key[7:7] * 0x94513732 ^ (bit<32>)key[6:6] * 0x4a289b99 ^
        (bit<32>)key[5:5] * 0xb1457afe ^ (bit<32>)key[4:4] * 0x58a2bd7f ^ (bit<32>)key[3:3] * 0xb800698d ^
        (bit<32>)key[2:2] * 0xc85103f4 ^ (bit<32>)key[1:1] * 0x642881fa ^ (bit<32>)key[0:0] * 0x321440fd;
}

bit<32> key_hash_10(in bit<32> key) {
    return 32w0x63ee0482 ^ (bit<32>)key[31:31] * 0x14d78620 ^ (bit<32>)key[30:30] * 0xa6bc310 ^
        (bit<32>)key[29:29] * 0x535e188 ^ (bit<32>)key[28:28] * 0x29af0c4 ^ (bit<32>)key[27:27] * 0x14d7862 ^
        (bit<32>)key[26:26] * 0xa6bc31 ^ (bit<32>)key[25:25] * 0xae8244a9 ^ (bit<32>)key[24:24] * 0xf99038e5 ^
        (bit<32>)key[23:23] * 0x50074353 ^ (bit<32>)key[22:22] * 0x86d2bb18 ^ (bit<32>)key[21:21] * 0x43695d8c ^
        (bit<32>)key[20:20] * 0x21b4aec6 ^ (bit<32>)key[19:19] * 0x10da5763 ^ (bit<32>)key[18:18] * 0xa6bc3100 ^
        (bit<32>)key[17:17] * 0x535e1880 ^ (bit<32>)key[16:16] * 0x29af0c40 ^ (bit<32>)key[15:15] * 0xa202b48a ^
        (bit<32>)key[14:14] * 0x51015a45 ^ (bit<32>)key[13:13] * 0x8651b793 ^ (bit<32>)key[12:12] * 0xedf9c178 ^
        (bit<32>)key[11:11] * 0x76fce0bc ^ (bit<32>)key[10:10] * 0x3b7e705e ^ (bit<32>)key[9:9] * 0x1dbf382f ^
        (bit<32>)key[8:8] * 0xa00e86a6 ^ (bit<32>)key[7:7] * 0xaed11ab1 ^ (bit<32>)key[6:6] * 0xf9b997e9 ^
        (bit<32>)key[5:5] * 0xd20dd145 ^ (bit<32>)key[4:4] * 0xc7d7f213 ^ (bit<32>)key[3:3] * 0xcd3ae3b8 ^
        (bit<32>)key[2:2] * 0x669d71dc ^ (bit<32>)key[1:1] * 0x334eb8ee ^ (bit<32>)key[0:0] * 0x19a75c77;
}

bit<32> key_hash_11(in bit<32> key) {
    return 32w0x68fecc8b ^ (bit<32>)key[31:31] * 0xc76f4591 ^ (bit<32>)key[30:30] * 0x9b19b4c5 ^
        (bit<32>)key[29:29] * 0xb522cc6f ^ (bit<32>)key[28:28] * 0xa23f703a ^ (bit<32>)key[27:27] * 0x511fb81d ^
        (bit<32>)key[26:26] * 0xd021ca03 ^ (bit<32>)key[25:25] * 0x90bef30c ^ (bit<32>)key[24:24] * 0x485f7986 ^
        (bit<32>)key[23:23] * 0x1b8a33fb ^ (bit<32>)key[22:22] * 0xf56b0ff0 ^ (bit<32>)key[21:21] * 0x7ab587f8 ^
        (bit<32>)key[20:20] * 0x3d5ac3fc ^ (bit<32>)key[19:19] * 0x1ead61fe ^ (bit<32>)key[18:18] * 0xf56b0ff ^
        (bit<32>)key[17:17] * 0xff054e72 ^ (bit<32>)key[16:16] * 0x7f82a739 ^ (bit<32>)key[15:15] * 0xb839d2ea ^
        (bit<32>)key[14:14] * 0x5c1ce975 ^ (bit<32>)key[13:13] * 0xd6a062b7 ^ (bit<32>)key[12:12] * 0x93fe2756 ^
        (bit<32>)key[11:11] * 0x49ff13ab ^ (bit<32>)key[10:10] * 0xdc519fd8 ^ (bit<32>)key[9:9] * 0x6e28cfec ^
        (bit<32>)key[8:8] * 0x371467f6 ^ (bit<32>)key[7:7] * 0xf8ae160d ^ (bit<32>)key[6:6] * 0x84f91d0b ^
        (bit<32>)key[5:5] * 0xbad29888 ^ (bit<32>)key[4:4] * 0x5d694c44 ^ (bit<32>)key[3:3] * 0x2eb4a622 ^
        (bit<32>)key[2:2] * 0x175a5311 ^ (bit<32>)key[1:1] * 0xf3033f85 ^ (bit<32>)key[0:0] * 0x812f89cf;
}

bit<32> key_hash_12(in bit<32> key) {
    return 32w0x96067205 ^ (bit<32>)key[31:31] * 0xcab1608b ^ (bit<32>)key[30:30] * 0x97c84be6 ^
        (bit<32>)key[29:29] * 0x4be425f3 ^ (bit<32>)key[28:28] * 0xd762e95a ^ (bit<32>)key[27:27] * 0x6bb174ad ^
        (bit<32>)key[26:26] * 0xc74841f5 ^ (bit<32>)key[25:25] * 0x9134db59 ^ (bit<32>)key[24:24] * 0xba0a960f ^
        (bit<32>)key[23:23] * 0xdb61f3f2 ^ (bit<32>)key[22:22] * 0x6db0f9f9 ^ (bit<32>)key[21:21] * 0xc448875f ^
        (bit<32>)key[20:20] * 0x90b4b80c ^ (bit<32>)key[19:19] * 0x485a5c06 ^ (bit<32>)key[18:18] * 0x242d2e03 ^
        (bit<32>)key[17:17] * 0xe0866ca2 ^ (bit<32>)key[16:16] * 0x70433651 ^ (bit<32>)key[15:15] * 0x70e244ba ^
        (bit<32>)key[14:14] * 0x3871225d ^ (bit<32>)key[13:13] * 0xeea86a8d ^ (bit<32>)key[12:12] * 0x85c4cee5 ^
        (bit<32>)key[11:11] * 0xb0729cd1 ^ (bit<32>)key[10:10] * 0xaaa9b5cb ^ (bit<32>)key[9:9] * 0xa7c42146 ^
        (bit<32>)key[8:8] * 0x53e210a3 ^ (bit<32>)key[7:7] * 0xf290fba3 ^ (bit<32>)key[6:6] * 0x8bd88672 ^
        (bit<32>)key[5:5] * 0x45ec4339 ^ (bit<32>)key[4:4] * 0xd066da3f ^ (bit<32>)key[3:3] * 0x9aa396bc ^
        (bit<32>)key[2:2] * 0x4d51cb5e ^ (bit<32>)key[1:1] * 0x26a8e5af ^ (bit<32>)key[0:0] * 0xe1c48974;
}

bit<32> key_hash_16(in bit<32> key) {
    return 32w0x7ed73e65 ^ (bit<32>)key[31:31] * 0xab4d9edc ^ (bit<32>)key[30:30] * 0x55a6cf6e ^
        (bit<32>)key[29:29] * 0x2ad367b7 ^ (bit<32>)key[28:28] * 0xa5a88204 ^ (bit<32>)key[27:27] * 0x52d44102 ^
        (bit<32>)key[26:26] * 0x296a2081 ^ (bit<32>)key[25:25] * 0xa474219f ^ (bit<32>)key[24:24] * 0xe2fb2110 ^
        (bit<32>)key[23:23] * 0xbc150fb5 ^ (bit<32>)key[22:22] * 0xeecbb605 ^ (bit<32>)key[21:21] * 0xc7a4eadd ^
        (bit<32>)key[20:20] * 0xd31344b1 ^ (bit<32>)key[19:19] * 0xd9489387 ^ (bit<32>)key[18:18] * 0xdc65781c ^
        (bit<32>)key[17:17] * 0x6e32bc0e ^ (bit<32>)key[16:16] * 0x37195e07 ^ (bit<32>)key[15:15] * 0x9d203efa ^
        (bit<32>)key[14:14] * 0x4e901f7d ^ (bit<32>)key[13:13] * 0x97893e61 ^ (bit<32>)key[12:12] * 0xfb05aeef ^
        (bit<32>)key[11:11] * 0xcd43e6a8 ^ (bit<32>)key[10:10] * 0x66a1f354 ^ (bit<32>)key[9:9] * 0x3350f9aa ^
        (bit<32>)key[8:8] * 0x19a87cd5 ^ (bit<32>)key[7:7] * 0xb0c131df ^ (bit<32>)key[6:6] * 0xe8a1a930 ^
        (bit<32>)key[5:5] * 0x7450d498 ^ (bit<32>)key[4:4] * 0x3a286a4c ^ (bit<32>)key[3:3] * 0x1d143526 ^
        (bit<32>)key[2:2] * 0xe8a1a93 ^ (bit<32>)key[1:1] * 0xb7843c96 ^ (bit<32>)key[0:0] * 0x5bc21e4b;
}

bit<32> key_hash_17(in bit<32> key) {
    return 32w0xd21f99bb ^ (bit<32>)key[31:31] * 0x7a915c3e ^ (bit<32>)key[30:30] * 0x3d48ae1f ^
        (bit<32>)key[29:29] * 0xfd3664d8 ^ (bit<32>)key[28:28] * 0x7e9b326c ^ (bit<32>)key[27:27] * 0x3f4d9936 ^
        (bit<32>)key[26:26] * 0x1fa6cc9b ^ (bit<32>)key[25:25] * 0xec41559a ^ (bit<32>)key[24:24] * 0x7620aacd ^
        (bit<32>)key[23:23] * 0x349bdef5 ^ (bit<32>)key[22:22] * 0xf9dfdcad ^ (bit<32>)key[21:21] * 0x9f7ddd81 ^
        (bit<32>)key[20:20] * 0xac2cdd17 ^ (bit<32>)key[19:19] * 0xb5845d5c ^ (bit<32>)key[18:18] * 0x5ac22eae ^
        (bit<32>)key[17:17] * 0x2d611757 ^ (bit<32>)key[16:16] * 0xf522b87c ^ (bit<32>)key[15:15] * 0xf1d9569 ^
        (bit<32>)key[14:14] * 0xe41cf963 ^ (bit<32>)key[13:13] * 0x919c4f66 ^ (bit<32>)key[12:12] * 0x48ce27b3 ^
        (bit<32>)key[11:11] * 0xc7f5200e ^ (bit<32>)key[10:10] * 0x63fa9007 ^ (bit<32>)key[9:9] * 0xd26f7bd4 ^
        (bit<32>)key[8:8] * 0x6937bdea ^ (bit<32>)key[7:7] * 0xe39233d7 ^ (bit<32>)key[6:6] * 0x925b2a3c ^
        (bit<32>)key[5:5] * 0x492d951e ^ (bit<32>)key[4:4] * 0x2496ca8f ^ (bit<32>)key[3:3] * 0xf1d95690 ^
        (bit<32>)key[2:2] * 0x78ecab48 ^ (bit<32>)key[1:1] * 0x3c7655a4 ^ (bit<32>)key[0:0] * 0x1e3b2ad2;
}

bit<32> key_hash_18(in bit<32> key) {
    return 32w0x1828526b ^ (bit<32>)key[31:31] * 0x7a262766 ^ (bit<32>)key[30:30] * 0x3d1313b3 ^
        (bit<32>)key[29:29] * 0xaba82c3f ^ (bit<32>)key[28:28] * 0xe0f5b3f9 ^ (bit<32>)key[27:27] * 0xc55b7c1a ^
        (bit<32>)key[26:26] * 0x62adbe0d ^ (bit<32>)key[25:25] * 0x84777ae0 ^ (bit<32>)key[24:24] * 0x423bbd70 ^
        (bit<32>)key[23:23] * 0xbb4e41eb ^ (bit<32>)key[22:22] * 0xe8868513 ^ (bit<32>)key[21:21] * 0xc162e76f ^
        (bit<32>)key[20:20] * 0xd590d651 ^ (bit<32>)key[19:19] * 0xdfe9cece ^ (bit<32>)key[18:18] * 0x6ff4e767 ^
        (bit<32>)key[17:17] * 0x82dbd655 ^ (bit<32>)key[16:16] * 0xf44c4ecc ^ (bit<32>)key[15:15] * 0x94f37cdc ^
        (bit<32>)key[14:14] * 0x4a79be6e ^ (bit<32>)key[13:13] * 0x253cdf37 ^ (bit<32>)key[12:12] * 0xa7bfca7d ^
        (bit<32>)key[11:11] * 0xe6fe40d8 ^ (bit<32>)key[10:10] * 0x737f206c ^ (bit<32>)key[9:9] * 0x39bf9036 ^
        (bit<32>)key[8:8] * 0x1cdfc81b ^ (bit<32>)key[7:7] * 0xb521a5e6 ^ (bit<32>)key[6:6] * 0x5a90d2f3 ^
        (bit<32>)key[5:5] * 0x9869cc9f ^ (bit<32>)key[4:4] * 0xf91543a9 ^ (bit<32>)key[3:3] * 0xc9ab0432 ^
        (bit<32>)key[2:2] * 0x64d58219 ^ (bit<32>)key[1:1] * 0x874b64ea ^ (bit<32>)key[0:0] * 0x43a5b275;
}
