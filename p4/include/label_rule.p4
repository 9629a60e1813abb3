// Whether a port labels a packet (INT-label, sections 3 and 5): the rule of `labels/rule_kernel`, in us.
#pragma once

const bit<8> EVERY = 255;     // Reg2 of a port that labels every packet
const bit<8> NEVER = 0;       // Base A; the others are Base B's functions, numbered as `labels.records.Chance`
const bit<8> F1 = 1;
const bit<8> F2 = 2;
const bit<8> F2_LISTING = 3;
const bit<8> F3 = 4;
const bit<8> TABLE = 6;

struct label_rule_t {
    bit<32> interval; // T, us
    bit<8> shift;     // Reg2: the interval is T / 2^shift
    bit<32> rest;     // T1, us: no label by chance so soon after the last one
    bit<8> chance;
}

control WantsLabel(inout facts_t facts, in label_rule_t rule, in bit<48> now, in bit<48> last, out bool wants) {
    bit<64> threshold = 0;
    bit<32> scaled = 0;

    // A custom function: `share`, of 2^32, of the packets of this row get a label.
    action label_share(bit<32> share) {
        threshold = (bit<64>)share;
    }

    // By labels in the packet, and by the time since the port's last one, in us of an interval that is not shifted.
    table chance_table {
        key = {
            facts.count: range;
            scaled: range;
        }
        actions = { label_share; NoAction; }
        default_action = NoAction();
        size = 1024;
    }

    apply {
        bit<48> interval = (bit<48>)rule.interval >> rule.shift;
        bit<48> elapsed = now - last;
        if (rule.shift == EVERY || facts.count >= MAX_HOP || elapsed > interval || interval == 0) {
            wants = true;
        } else if (rule.chance == NEVER || elapsed < (bit<48>)rule.rest) {
            wants = false;
        } else {
            bit<32> drawn;
            random<bit<32>>(drawn, 0, 0xffffffff);
            bit<128> left = (bit<128>)drawn;
            bit<128> right = (bit<128>)facts.count << 32;
            if (rule.chance == F2) {
                left = left * (bit<128>)(MAX_HOP - 1);
            } else if (rule.chance == F2_LISTING) {
                left = left * (bit<128>)MAX_HOP;
            } else if (rule.chance == F3) {
                left = left * (bit<128>)(MAX_HOP - 1) * (bit<128>)interval;
                right = right * (bit<128>)elapsed;
            } else if (rule.chance == TABLE) {
                scaled = (bit<32>)(elapsed << rule.shift);
                chance_table.apply();
                right = (bit<128>)threshold;
            }
            wants = left < right; // F1: 1 from the first label on
        }
    }
}
