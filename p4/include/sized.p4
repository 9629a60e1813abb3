// After the sized form's header: a key of 4 bytes, and data of 4 or 8.
#pragma once

header sized_4_t {
    bit<32> key;
    bit<32> data;
}

header sized_8_t {
    bit<32> key;
    bit<64> data;
}
