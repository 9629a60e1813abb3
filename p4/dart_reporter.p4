// DART reporter on a v1model switch: it writes into the memory of collectors by itself, one copy of a key per report.
//
// The key is the CRC-32 of the packet's 5-tuple (IPv4), the data are node id, latency (ns), queue occupancy, both ports,
// and the lower half of the time (ns). Slot, checksum and collector come from the hash functions of stores
// (`direct/hashing`, crc).
#include <core.p4>
#include <v1model.p4>

#include "include/wire.p4"

#define REPORT_LIST 1
const bit<32> REPORT_SESSION = 16;      // clone session of collector 0; that of collector n is 16 + n
const bit<32> EGRESS_CLONE = 2;         // instance type of simple_switch
const bit<64> DART_STRIDE = 24;         // a checksum of 4 bytes and data of 20

#include "include/checksum.p4"
#include "include/forward.p4"
#include "include/outer.p4"
#include "include/hashes.p4"
#include "include/crc.p4"
#include "include/roce.p4"
#include "include/sized.p4"
#include "include/reporter_headers.p4"
#include "include/reporter_parser.p4"
#include "include/reporter_values.p4"
#include "include/dart_report.p4"

control ReporterIngress(inout headers_t hdr, inout facts_t facts, inout standard_metadata_t standard) {
    Forward() forward;
    apply {
        bool dropped;
        forward.apply(hdr.ethernet, hdr.ipv4, hdr.ipv6, standard, dropped);
    }
}

control ReporterEgress(inout headers_t hdr, inout facts_t facts, inout standard_metadata_t standard) {
    LearnValues() learn_values;
    ChooseSlot() choose_slot;
    PutDart() put_dart;
    apply {
        if (standard.instance_type == EGRESS_CLONE) {
            put_dart.apply(hdr, facts, standard);
        } else {
            learn_values.apply(facts, standard);
            choose_slot.apply(hdr, facts);
            if (facts.opcode != 0) {
                clone_preserving_field_list(CloneType.E2E, REPORT_SESSION + facts.collector, REPORT_LIST);
            }
        }
    }
}

V1Switch(
    ReporterParser(), ReporterVerify(), ReporterIngress(), ReporterEgress(), ReporterChecksums(),
    ReporterDeparser()) main;
