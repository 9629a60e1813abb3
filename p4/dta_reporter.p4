// DTA reporter on a v1model switch: what it knows of a packet becomes a report to a translator, by any primitive.
#include <core.p4>
#include <v1model.p4>

#include "include/wire.p4"

#define REPORT_LIST 1
const bit<32> REPORT_SESSION = 3;       // clone session of reports
const bit<32> EGRESS_CLONE = 2;         // instance type of simple_switch
const bit<8> VALUE_NODE = 0;
const bit<8> VALUE_LATENCY = 1;         // ns, lower 32 bits
const bit<8> VALUE_OCCUPANCY = 2;       // of the packet's queue
const bit<8> VALUE_BYTES = 3;           // of its IP packet
const bit<8> VALUE_ONE = 4;
const bit<8> VALUE_PORTS = 5;           // ingress and egress, 16 bits each
const bit<8> VALUE_TIME = 6;            // when it left its queue, ns, lower 32 bits
const bit<8> VALUE_FLOW = 7;            // the key

#include "include/checksum.p4"
#include "include/forward.p4"
#include "include/outer.p4"
#include "include/crc.p4"
#include "include/roce.p4"
#include "include/sized.p4"
#include "include/reporter_headers.p4"
#include "include/reporter_parser.p4"
#include "include/reporter_values.p4"
#include "include/reporter_policy.p4"
#include "include/dta_report.p4"

control ReporterIngress(inout headers_t hdr, inout facts_t facts, inout standard_metadata_t standard) {
    Forward() forward;
    apply {
        bool dropped;
        forward.apply(hdr.ethernet, hdr.ipv4, hdr.ipv6, standard, dropped);
    }
}

control ReporterEgress(inout headers_t hdr, inout facts_t facts, inout standard_metadata_t standard) {
    LearnValues() learn_values;
    ChooseReport() choose_report;
    PutDta() put_dta;
    apply {
        if (standard.instance_type == EGRESS_CLONE) {
            put_dta.apply(hdr, facts, standard);
        } else {
            learn_values.apply(facts, standard);
            choose_report.apply(hdr, facts);
            if (facts.opcode != 0) {
                clone_preserving_field_list(CloneType.E2E, REPORT_SESSION, REPORT_LIST);
            }
        }
    }
}

V1Switch(
    ReporterParser(), ReporterVerify(), ReporterIngress(), ReporterEgress(), ReporterChecksums(),
    ReporterDeparser()) main;
