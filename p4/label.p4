// INT-label on a v1model switch: Base A, Base B with all functions, Pro, tracked flows, and the last hop.
//
// A port writes a label of 32 bytes after the IP header of a packet, once per interval; the last hop restores packets
// and sends their labels to the controller. Tables are described in README.md.
#include <core.p4>
#include <v1model.p4>

#include "include/wire.p4"

#define EXPORT_LIST 1
const bit<32> EXPORT_SESSION = 2;       // clone session of what the last hop sends
const bit<32> EGRESS_CLONE = 2;         // instance type of simple_switch
const bit<16> ITEM_BYTES = 32;
const bit<16> OPTION_BYTES = 2;

#include "include/checksum.p4"
#include "include/forward.p4"
#include "include/label_headers.p4"
#include "include/label_parser.p4"
#include "include/label_rule.p4"
#include "include/outer.p4"
#include "include/label_export.p4"

control LabelIngress(inout headers_t hdr, inout facts_t facts, inout standard_metadata_t standard) {
    register<bit<32>>(1024) seen;
    bool from_host = false;
    bit<32> one_in = 0;
    bit<32> row = 0;

    // A port of hosts: this is the first switch of what comes in here.
    action hosts() {
        from_host = true;
    }

    table ingress_ports {
        key = { standard.ingress_port: exact; }
        actions = { hosts; NoAction; }
        default_action = NoAction();
        size = 512;
    }

    // Every switch labels one in `every` packets of this flow (3.3); `index`: another for each flow, below 1024.
    action track(bit<32> every, bit<32> index) {
        one_in = every;
        row = index;
    }

    table track_ipv4 {
        key = {
            hdr.ipv4.source: ternary;
            hdr.ipv4.destination: ternary;
            facts.protocol: ternary;
            facts.source_port: range;
            facts.destination_port: range;
        }
        actions = { track; NoAction; }
        default_action = NoAction();
        size = 1024;
    }

    table track_ipv6 {
        key = {
            hdr.ipv6.source: ternary;
            hdr.ipv6.destination: ternary;
            facts.protocol: ternary;
            facts.source_port: range;
            facts.destination_port: range;
        }
        actions = { track; NoAction; }
        default_action = NoAction();
        size = 1024;
    }

    Forward() forward;

    apply {
        ingress_ports.apply();
        if (from_host && !hdr.option.isValid()) {
            if (hdr.ipv4.isValid()) {
                track_ipv4.apply();
            } else if (hdr.ipv6.isValid()) {
                track_ipv6.apply();
            }
        }
        if (one_in != 0) {
            bit<32> number;
            seen.read(number, row);
            number = number + 1;
            if (number >= one_in) {
                number = 0;
                facts.to_track = 1;
            }
            seen.write(row, number);
        }
        bool dropped;
        forward.apply(hdr.ethernet, hdr.ipv4, hdr.ipv6, standard, dropped);
    }
}

control LabelEgress(inout headers_t hdr, inout facts_t facts, inout standard_metadata_t standard) {
    register<bit<48>>(512) last_label; // Reg1
    bit<32> node_id = 0;
    bit<64> epoch = 0;
    bit<32> unit = 1;
    bit<16> mtu = 0;
    bool to_host = false;
    label_rule_t rule = { 0, 0, 0, 0 };

    // This switch; `epoch_ns`: when its clock was 0, ns since 1970; `queue_unit`: of a packet in a queue, mean bytes.
    action set_node(bit<32> id, bit<64> epoch_ns, bit<32> queue_unit) {
        node_id = id;
        epoch = epoch_ns;
        unit = queue_unit;
    }

    table node {
        actions = { set_node; NoAction; }
        default_action = NoAction();
    }

    // A port that labels; `bytes`: MTU of IP.
    action label_port(bit<32> interval, bit<8> shift, bit<32> rest, bit<8> chance, bit<16> bytes) {
        rule.interval = interval;
        rule.shift = shift;
        rule.rest = rest;
        rule.chance = chance;
        mtu = bytes;
    }

    // A port towards hosts: packets are restored, and their labels go to the controller, with the port's own.
    action last_hop(bit<32> interval, bit<8> shift, bit<32> rest, bit<8> chance) {
        rule.interval = interval;
        rule.shift = shift;
        rule.rest = rest;
        rule.chance = chance;
        to_host = true;
    }

    table label_ports {
        key = { standard.egress_port: exact; }
        actions = { label_port; last_hop; NoAction; }
        default_action = NoAction();
        size = 512;
    }

    WantsLabel() wants_label;
    PutExport() put_export;

    apply {
        if (standard.instance_type == EGRESS_CLONE) {
            put_export.apply(
                hdr.outer_ethernet, hdr.outer_ipv4, hdr.outer_udp, hdr.flow, hdr.ipv4, hdr.ipv6, facts, standard);
            hdr.option = hdr.kept_option;
            hdr.item = hdr.kept_item;
            hdr.items = hdr.kept_items;
            hdr.ethernet.setInvalid();
            hdr.vlan.setInvalid();
            hdr.ipv4.setInvalid();
            hdr.ipv4_options.setInvalid();
            hdr.ipv6.setInvalid();
        } else {
            bool wants = false;
            bit<48> now = standard.egress_global_timestamp;
            node.apply();
            bool ip = hdr.ipv4.isValid() || hdr.ipv6.isValid();
            bool damaged = hdr.option.isValid() && facts.whole == 0;
            if (node_id != 0 && ip && !damaged && label_ports.apply().hit) {
                bit<32> port = (bit<32>)standard.egress_port;
                bit<48> last;
                if (facts.to_track == 1 && facts.count == 0) {
                    facts.count = MAX_HOP;
                    facts.tracked = 1;
                }
                last_label.read(last, port);
                wants_label.apply(facts, rule, now, last, wants);
                bit<8> full = facts.tracked == 1 ? 255 - MAX_HOP : MAX_HOP;
                if (facts.carried >= full || (hdr.ipv4.isValid() && hdr.ipv4.checksum == 0xffff)) {
                    wants = false;
                }
                bit<16> carries = hdr.option.isValid() ? OPTION_BYTES + ((bit<16>)facts.carried << 5) : 0;
                bit<16> ip_length = hdr.ipv4.isValid() ? hdr.ipv4.total_length : hdr.ipv6.payload_length + 40;
                bit<16> added = ITEM_BYTES + (hdr.option.isValid() ? 16w0 : OPTION_BYTES);
                if (!to_host && (ip_length > mtu || mtu - ip_length < added)) {
                    wants = false;
                }
                bool labelled = hdr.option.isValid();
                if (wants) {
                    last_label.write(port, now);
                    facts.count = facts.count + 1;
                    hdr.item.setValid();
                    hdr.item.node_id = node_id;
                    hdr.item.ingress_port = (bit<16>)standard.ingress_port;
                    hdr.item.egress_port = (bit<16>)standard.egress_port;
                    hdr.item.time_ns = epoch + (bit<64>)now * 1000;
                    hdr.item.latency_ns = ((bit<32>)(now - standard.ingress_global_timestamp)) * 1000;
                    hdr.item.occupancy = (bit<32>)standard.enq_qdepth * unit;
                    hdr.item.reserved_1 = 0;
                    hdr.option.setValid();
                    hdr.option.next_header = facts.protocol;
                    hdr.option.count = facts.count;
                }
                if (to_host && hdr.option.isValid()) {
                    hdr.kept_option = hdr.option;
                    hdr.kept_item = hdr.item;
                    hdr.kept_items = hdr.items;
                    facts.exported = facts.carried + (wants ? 8w1 : 8w0);
                    hdr.option.setInvalid();
                    hdr.item.setInvalid();
                    hdr.items.i8_5.setInvalid();
                    hdr.items.i8_4.setInvalid();
                    hdr.items.i8_3.setInvalid();
                    hdr.items.i8_2.setInvalid();
                    hdr.items.i8_1.setInvalid();
                    hdr.items.i4.setInvalid();
                    hdr.items.i2.setInvalid();
                    hdr.items.i1.setInvalid();
                    if (facts.exported != 0) {
                        clone_preserving_field_list(CloneType.E2E, EXPORT_SESSION, EXPORT_LIST);
                    }
                }
                if (to_host && labelled) {
                    if (hdr.ipv4.isValid()) {
                        carry_ipv4(hdr.ipv4, hdr.ipv4.total_length - carries, facts.protocol);
                    } else {
                        hdr.ipv6.payload_length = hdr.ipv6.payload_length - carries;
                        hdr.ipv6.next_header = facts.protocol;
                    }
                } else if (!to_host && wants) {
                    if (hdr.ipv4.isValid()) {
                        carry_ipv4(hdr.ipv4, hdr.ipv4.total_length + added, LABEL_PROTOCOL);
                    } else {
                        hdr.ipv6.payload_length = hdr.ipv6.payload_length + added;
                        hdr.ipv6.next_header = LABEL_PROTOCOL;
                    }
                }
            }
        }
    }
}

control LabelVerify(inout headers_t hdr, inout facts_t facts) {
    apply { }
}

control LabelChecksums(inout headers_t hdr, inout facts_t facts) {
    apply {
        IPV4_CHECKSUM(hdr.outer_ipv4)
    }
}

V1Switch(
    LabelParser(), LabelVerify(), LabelIngress(), LabelEgress(), LabelChecksums(), LabelDeparser()) main;
