// INT 2.1 on a v1model switch: source, transit and sink of INT-MD over UDP and TCP, and reports (Telemetry Report 2.0).
//
// A watched packet gets INT where it leaves towards a port of the INT domain, each further switch adds its values,
// and where a packet leaves towards a host it is restored and reported. Tables are described in README.md.
#include <core.p4>
#include <v1model.p4>

#include "include/wire.p4"

#define REPORT_LIST 1
const bit<32> REPORT_SESSION = 1;       // clone session of reports
const bit<32> EGRESS_CLONE = 2;         // instance types of simple_switch
const bit<32> INGRESS_CLONE = 1;

#include "include/checksum.p4"
#include "include/forward.p4"
#include "include/int_headers.p4"
#include "include/int_parser.p4"
#include "include/int_hop.p4"
#include "include/int_packet.p4"
#include "include/outer.p4"
#include "include/int_report.p4"

control IntIngress(inout headers_t hdr, inout facts_t facts, inout standard_metadata_t standard) {
    bit<32> share = 0xffffffff;
    bit<16> source_port = 0;
    bit<16> destination_port = 0;

    // INT-MD: `sample`, of 2^32, is the share of packets that get INT.
    action start(bit<16> instructions, bit<8> hop_limit, bit<32> sample) {
        facts.watched = 1;
        facts.instructions = instructions;
        facts.hop_limit = hop_limit;
        share = sample;
    }

    // INT-XD: this switch reports the packet, which stays as it is.
    action report_only(bit<16> instructions, bit<32> sample) {
        facts.watched = 1;
        facts.postcard = 1;
        facts.instructions = instructions;
        share = sample;
    }

    table watch_ipv4 {
        key = {
            hdr.ipv4.source: ternary;
            hdr.ipv4.destination: ternary;
            hdr.ipv4.protocol: ternary;
            source_port: range;
            destination_port: range;
        }
        actions = { start; report_only; NoAction; }
        default_action = NoAction();
        size = 1024;
    }

    table watch_ipv6 {
        key = {
            hdr.ipv6.source: ternary;
            hdr.ipv6.destination: ternary;
            hdr.ipv6.next_header: ternary;
            source_port: range;
            destination_port: range;
        }
        actions = { start; report_only; NoAction; }
        default_action = NoAction();
        size = 1024;
    }

    Forward() forward;

    apply {
        facts.length = standard.packet_length;
        if (hdr.udp.isValid()) {
            source_port = hdr.udp.sport;
            destination_port = hdr.udp.dport;
        } else if (hdr.tcp.isValid()) {
            source_port = hdr.tcp.sport;
            destination_port = hdr.tcp.dport;
        }
        if (hdr.udp.isValid() || hdr.tcp.isValid()) {
            if (hdr.ipv4.isValid()) {
                watch_ipv4.apply();
            } else {
                watch_ipv6.apply();
            }
        }
        if (facts.watched == 1 && share != 0xffffffff) {
            bit<32> drawn;
            random<bit<32>>(drawn, 0, 0xffffffff);
            if (drawn >= share) {
                facts.watched = 0;
            }
        }
        bool dropped;
        forward.apply(hdr.ethernet, hdr.ipv4, hdr.ipv6, standard, dropped);
        if (dropped && (facts.watched == 1 || hdr.md.isValid())) {
            facts.drop_reason = DROP_NO_ROUTE;
            facts.ingress_port = (bit<16>)standard.ingress_port;
            facts.egress_port = 0xffff;
            clone_preserving_field_list(CloneType.I2E, REPORT_SESSION, REPORT_LIST);
        }
    }
}

control IntEgress(inout headers_t hdr, inout facts_t facts, inout standard_metadata_t standard) {
    bit<32> node_id = 0;
    bit<64> epoch = 0;
    bit<24> unit = 1;
    bit<16> mtu = 0;
    bit<24> congested_from = 0xffffff;
    bool to_host = false;

    // This switch; `epoch_ns`: when its clock was 0, ns since 1970; `queue_unit`: of a packet in a queue, mean bytes.
    action set_node(bit<32> id, bit<64> epoch_ns, bit<24> queue_unit, bit<24> congestion) {
        node_id = id;
        epoch = epoch_ns;
        unit = queue_unit;
        congested_from = congestion;
    }

    table node {
        actions = { set_node; NoAction; }
        default_action = NoAction();
    }

    // A port of the INT domain: INT stays, and a packet with it must fit its MTU (of IP, bytes).
    action domain(bit<16> bytes) {
        mtu = bytes;
    }

    // A port towards hosts: packets leave without INT.
    action host() {
        to_host = true;
    }

    table egress_ports {
        key = { standard.egress_port: exact; }
        actions = { domain; host; NoAction; }
        default_action = NoAction();
        size = 512;
    }

    AmendHeaders() amend;
    PutHop() put_hop;
    PutReport() put_report;

    apply {
        node.apply();
        if (standard.instance_type == EGRESS_CLONE || standard.instance_type == INGRESS_CLONE) {
            if (hdr.kept_md.isValid()) {
                hdr.shim = hdr.kept_shim;
                hdr.md = hdr.kept_md;
                hdr.stack = hdr.kept_stack;
                hdr.udp = hdr.kept_udp;
                hdr.tcp = hdr.kept_tcp;
                hdr.ipv4 = hdr.kept_ipv4;
                hdr.ipv6 = hdr.kept_ipv6;
            }
            put_report.apply(
                hdr.outer_ethernet, hdr.outer_ipv4, hdr.outer_udp, hdr.group, hdr.report, hdr.main, hdr.own, hdr.drop,
                facts, standard, node_id);
        } else {
            egress_ports.apply();
            facts.ingress_port = (bit<16>)standard.ingress_port;
            facts.egress_port = (bit<16>)standard.egress_port;
            facts.ingress_ns = epoch + (bit<64>)standard.ingress_global_timestamp * 1000;
            facts.egress_ns = epoch + (bit<64>)standard.egress_global_timestamp * 1000;
            facts.latency = (bit<32>)(facts.egress_ns - facts.ingress_ns);
            facts.occupancy = (bit<24>)standard.enq_qdepth * unit;
            facts.congested = facts.occupancy >= congested_from ? 1w1 : 1w0;
            bit<16> ip_length = hdr.ipv4.isValid() ? hdr.ipv4.total_length : hdr.ipv6.payload_length + 40;
            bit<16> room = ip_length - (hdr.ipv4.isValid() ? 16w20 : 40);
            bool whole = true;
            if (hdr.udp.isValid()) {
                whole = hdr.udp.length == room && room >= 8;
                room = room - 8;
            } else {
                whole = room >= (bit<16>)hdr.tcp.header_words << 2;
                room = room - ((bit<16>)hdr.tcp.header_words << 2);
            }
            bool carries = hdr.md.isValid() && hdr.md.version == 2 && hdr.shim.length >= 3 &&
                hdr.md.hop_words == words_of(hdr.md.instructions) && hdr.md.instructions != 0 &&
                ((bit<16>)hdr.shim.length << 2) + 4 <= room;
            if (node_id == 0 || !whole) {
                // not configured, or lengths contradict each other: the packet passes
            } else if (to_host && carries) {
                bit<16> before = 0;
                bit<16> size = ((bit<16>)hdr.shim.length << 2) + 4;
                SUM_INT(before)
                hdr.kept_shim = hdr.shim;
                hdr.kept_md = hdr.md;
                hdr.kept_stack = hdr.stack;
                hdr.kept_udp = hdr.udp;
                hdr.kept_tcp = hdr.tcp;
                hdr.kept_ipv4 = hdr.ipv4;
                hdr.kept_ipv6 = hdr.ipv6;
                facts.instructions = hdr.md.instructions;
                amend.apply(hdr.ipv4, hdr.ipv6, hdr.udp, hdr.tcp, 0 - size, hdr.shim.original[7:2], before, 16w0);
                hdr.shim.setInvalid();
                hdr.md.setInvalid();
                hdr.stack.w128.setInvalid();
                hdr.stack.w128_more.setInvalid();
                hdr.stack.w64.setInvalid();
                hdr.stack.w32.setInvalid();
                hdr.stack.w16.setInvalid();
                hdr.stack.w8.setInvalid();
                hdr.stack.w4.setInvalid();
                hdr.stack.w2.setInvalid();
                hdr.stack.w1.setInvalid();
                clone_preserving_field_list(CloneType.E2E, REPORT_SESSION, REPORT_LIST);
            } else if (facts.watched == 1 && !hdr.md.isValid() && (to_host || facts.postcard == 1)) {
                clone_preserving_field_list(CloneType.E2E, REPORT_SESSION, REPORT_LIST);
            } else if (facts.watched == 1 && !hdr.md.isValid() && mtu != 0) {
                bit<5> words = words_of(facts.instructions);
                bit<16> size = ((bit<16>)words << 2) + 16;
                if (ip_length + size <= mtu && ip_length + size > size) {
                    bit<16> after = 0;
                    hdr.shim.setValid();
                    hdr.shim.type = 1;
                    hdr.shim.next_protocol_type = 0;
                    hdr.shim.reserved_1 = 0;
                    hdr.shim.length = 3 + (bit<8>)words;
                    hdr.shim.original = 8w0 ++ facts.dscp ++ 2w0;
                    hdr.md.setValid();
                    hdr.md.version = 2;
                    hdr.md.discard = 0;
                    hdr.md.hops_exceeded = 0;
                    hdr.md.mtu_exceeded = 0;
                    hdr.md.reserved_1 = 0;
                    hdr.md.hop_words = words;
                    hdr.md.remaining_hops = facts.hop_limit - 1;
                    hdr.md.instructions = facts.instructions;
                    hdr.md.domain_id = 0;
                    hdr.md.ds_instruction = 0;
                    hdr.md.ds_flags = 0;
                    put_hop.apply(hdr.hop, facts, node_id, facts.instructions);
                    SUM_INT(after)
                    amend.apply(hdr.ipv4, hdr.ipv6, hdr.udp, hdr.tcp, size, INT_DSCP, 16w0, after);
                }
            } else if (carries && mtu != 0) {
                bit<16> before = 0;
                bit<16> after = 0;
                bit<16> size = (bit<16>)hdr.md.hop_words << 2;
                bit<16> longer = (bit<16>)hdr.shim.length + (bit<16>)hdr.md.hop_words;
                SUM_INT(before)
                if (hdr.md.remaining_hops == 0) {
                    hdr.md.hops_exceeded = 1;
                    size = 0;
                } else if (longer > 255) {
                    size = 0; // its INT is as long as a shim can say
                } else if (ip_length + size > mtu) {
                    hdr.md.mtu_exceeded = 1;
                    size = 0;
                } else {
                    hdr.md.remaining_hops = hdr.md.remaining_hops - 1;
                    hdr.shim.length = (bit<8>)longer;
                    put_hop.apply(hdr.hop, facts, node_id, hdr.md.instructions);
                }
                SUM_INT(after)
                amend.apply(hdr.ipv4, hdr.ipv6, hdr.udp, hdr.tcp, size, INT_DSCP, before, after);
            }
        }
    }
}

control IntVerify(inout headers_t hdr, inout facts_t facts) {
    apply { }
}

control IntChecksums(inout headers_t hdr, inout facts_t facts) {
    apply {
        IPV4_CHECKSUM(hdr.outer_ipv4)
    }
}

V1Switch(IntParser(), IntVerify(), IntIngress(), IntEgress(), IntChecksums(), IntDeparser()) main;
