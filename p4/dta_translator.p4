// DTA translator on a v1model switch: reports become RDMA writes and atomics into a collector's stores.
//
// The queue pair is a controller's work: it connects to the NIC from the translator's address, through this switch, and
// puts what the NIC answered into the tables. README.md describes them.
#include <core.p4>
#include <v1model.p4>

#include "include/wire.p4"
#include "include/checksum.p4"
#include "include/forward.p4"
#include "include/outer.p4"
#include "include/hashes.p4"
#include "include/crc.p4"
#include "include/roce.p4"
#include "include/sized.p4"
#include "include/translator_headers.p4"
#include "include/translator_parser.p4"
#include "include/translator_append.p4"
#include "include/translator_postcards.p4"

const bit<8> NAK_SEQUENCE = 0x60;

control TranslatorIngress(inout headers_t hdr, inout facts_t facts, inout standard_metadata_t standard) {
    // Packet numbers of each connection, after its first one.
    register<bit<24>>(256) sent;
    counter(5, CounterType.packets) rejected; // by opcode; 0: no report that this translator reads

    bit<32> slots = 0;
    bit<32> limit = 0;
    bit<32> generation = 0;
    bit<16> group = 0;
    bit<24> first = 0;
    bool ours = false;

    // A store: `group` + n is the multicast group of n copies to the port of its collector. `count`: slots of a
    // Key-Write or Key-Increment store, batches of a list, or chunks; `most`: copies, or lists.
    action to_store(
        bit<8> connection, bit<16> groups, bit<24> first_psn, bit<64> address, bit<32> memory_key, bit<32> count,
        bit<32> most, bit<32> epoch)
    {
        facts.connection = connection;
        facts.base = address;
        facts.memory_key = memory_key;
        group = groups;
        first = first_psn;
        slots = count;
        limit = most;
        generation = epoch;
        ours = true;
    }

    table store {
        key = { facts.opcode: exact; }
        actions = { to_store; NoAction; }
        default_action = NoAction();
        size = 16;
    }

    // An answer to this translator: a NAK sets the number of the next packet (DTA 5.2).
    action from_nic(bit<8> connection, bit<24> first_psn) {
        facts.connection = connection;
        first = first_psn;
        ours = true;
    }

    table answers {
        key = { hdr.ipv4.destination: exact; hdr.bth.queue_pair: exact; }
        actions = { from_nic; NoAction; }
        default_action = NoAction();
        size = 256;
    }

    Forward() forward;
    TakeEntry() take_entry;
    TakePostcard() take_postcard;

    apply {
        bit<8> writes = 0;
        bool report = hdr.udp.isValid() && hdr.udp.dport == DTA_PORT;
        if (report) {
            if (hdr.two.isValid() || hdr.three.isValid() || hdr.sized.isValid()) {
                store.apply();
            }
            if (ours) {
                if (facts.opcode == KEY_WRITE || facts.opcode == KEY_INCREMENT) {
                    if (facts.redundancy != 0 && (bit<32>)facts.redundancy <= limit && facts.redundancy <= 4) {
                        writes = facts.redundancy;
                        facts.slot_0 = reduced(key_hash_0(facts.key), slots);
                        facts.slot_1 = reduced(key_hash_1(facts.key), slots);
                        facts.slot_2 = reduced(key_hash_2(facts.key), slots);
                        facts.slot_3 = reduced(key_hash_3(facts.key), slots);
                    }
                    if (facts.opcode == KEY_WRITE) {
                        bit<32> high = key_hash_17(facts.key);
                        hdr.roce.w0.setValid();
                        hdr.roce.w0.value = swapped(not_zero(key_hash_16(facts.key), high));
                        hdr.roce.w1.setValid();
                        hdr.roce.w1.value = facts.data;
                    } else {
                        // a counter that two copies share is added to once
                        bool second = writes >= 2 && facts.slot_1 != facts.slot_0;
                        bool third = writes >= 3 && facts.slot_2 != facts.slot_0 && facts.slot_2 != facts.slot_1;
                        bool fourth = writes >= 4 && facts.slot_3 != facts.slot_0 &&
                            facts.slot_3 != facts.slot_1 && facts.slot_3 != facts.slot_2;
                        if (writes != 0) {
                            writes = 1;
                        }
                        if (second) {
                            writes = 2;
                        }
                        if (third) {
                            if (writes == 1) {
                                facts.slot_1 = facts.slot_2;
                            }
                            writes = writes + 1;
                        }
                        if (fourth) {
                            if (writes == 1) {
                                facts.slot_1 = facts.slot_3;
                            } else if (writes == 2) {
                                facts.slot_2 = facts.slot_3;
                            }
                            writes = writes + 1;
                        }
                    }
                    if (writes == 0) {
                        rejected.count((bit<32>)facts.opcode);
                    }
                } else {
                    bool full = false;
                    bit<64> offset = 0;
                    if (facts.opcode == APPEND && facts.key < limit && facts.key < MAX_LISTS) {
                        take_entry.apply(hdr.roce, facts.key, facts.data, slots, generation, full, offset);
                    } else if (facts.opcode == POSTCARDING && facts.hop != 0 && facts.hop <= HOPS &&
                        facts.path_length <= HOPS && (facts.path_length == 0 || facts.hop <= facts.path_length))
                    {
                        take_postcard.apply(
                            hdr.roce, facts.key, facts.hop, facts.path_length, facts.data, slots, full, offset);
                    } else {
                        rejected.count((bit<32>)facts.opcode);
                    }
                    facts.address = facts.base + offset;
                    if (full) {
                        writes = 1;
                    }
                }
            } else {
                rejected.count(0);
            }
            if (writes != 0) {
                bit<24> number;
                sent.read(number, (bit<32>)facts.connection);
                sent.write((bit<32>)facts.connection, number + (bit<24>)writes);
                facts.psn = first + number;
                standard.mcast_grp = group + (bit<16>)writes;
            } else {
                mark_to_drop(standard);
            }
        } else {
            if (hdr.aeth.isValid()) {
                answers.apply();
            }
            if (ours && hdr.aeth.syndrome == NAK_SEQUENCE) {
                sent.write((bit<32>)facts.connection, hdr.bth.psn - first);
            }
            if (ours && (hdr.aeth.syndrome == NAK_SEQUENCE || hdr.aeth.syndrome[7:5] == 0)) {
                mark_to_drop(standard); // other NAKs end the connection: they go to the controller
            } else {
                bool dropped;
                forward.apply(hdr.ethernet, hdr.ipv4, hdr.ipv6, standard, dropped);
            }
        }
    }
}

control TranslatorEgress(inout headers_t hdr, inout facts_t facts, inout standard_metadata_t standard) {
    connection_t to = { 0, 0, 0, 0, 0, 0 };
    bool known = false;

    action to_nic(
        bit<48> source_mac, bit<48> destination_mac, bit<32> source, bit<32> destination, bit<16> source_port,
        bit<24> queue_pair)
    {
        to.source_mac = source_mac;
        to.destination_mac = destination_mac;
        to.source = source;
        to.destination = destination;
        to.source_port = source_port;
        to.queue_pair = queue_pair;
        known = true;
    }

    table connections {
        key = { facts.connection: exact; }
        actions = { to_nic; NoAction; }
        default_action = NoAction();
        size = 256;
    }

    PutWrite() put_write;
    PutFetchAdd() put_fetch_add;
    PutIcrc() put_icrc;

    apply {
        if (standard.egress_rid != 0) {
            connections.apply();
            bit<16> copy = standard.egress_rid - 1;
            bit<32> slot = facts.slot_0;
            if (copy == 1) {
                slot = facts.slot_1;
            } else if (copy == 2) {
                slot = facts.slot_2;
            } else if (copy == 3) {
                slot = facts.slot_3;
            }
            bit<24> psn = facts.psn + (bit<24>)copy;
            if (!known) {
                mark_to_drop(standard);
            } else if (facts.opcode == KEY_INCREMENT) {
                put_fetch_add.apply(
                    hdr.roce, to, psn, facts.base + ((bit<64>)slot << 3), facts.memory_key, facts.counter);
            } else {
                bit<16> words = 2;
                bit<64> address = facts.base + ((bit<64>)slot << 3);
                if (facts.opcode == APPEND) {
                    words = 8;
                    address = facts.address;
                } else if (facts.opcode == POSTCARDING) {
                    words = 5;
                    address = facts.address;
                }
                put_write.apply(hdr.roce, to, ROCE_WRITE_ONLY, psn, address, facts.memory_key, words);
            }
            put_icrc.apply(hdr.roce);
            bit<32> bytes = (bit<32>)hdr.roce.ipv4.total_length + 14;
            hdr.ethernet.setInvalid();
            hdr.ipv4.setInvalid();
            hdr.udp.setInvalid();
            hdr.two.setInvalid();
            hdr.three.setInvalid();
            hdr.sized.setInvalid();
            hdr.key_write.setInvalid();
            hdr.append.setInvalid();
            hdr.key_increment.setInvalid();
            hdr.postcard.setInvalid();
            hdr.sized_4.setInvalid();
            hdr.sized_8.setInvalid();
            truncate(bytes);
        }
    }
}

control TranslatorVerify(inout headers_t hdr, inout facts_t facts) {
    apply { }
}

control TranslatorChecksums(inout headers_t hdr, inout facts_t facts) {
    apply {
        IPV4_CHECKSUM(hdr.roce.ipv4)
    }
}

V1Switch(
    TranslatorParser(), TranslatorVerify(), TranslatorIngress(), TranslatorEgress(), TranslatorChecksums(),
    TranslatorDeparser()) main;
