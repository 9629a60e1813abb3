// What a switch knows of a packet that leaves it, for a report.
#pragma once

control LearnValues(inout facts_t facts, in standard_metadata_t standard) {
    bit<64> epoch = 0;
    bit<32> unit = 1;

    // `epoch_ns`: when this switch's clock was 0, ns since 1970; `queue_unit`: of a packet in a queue, mean bytes.
    action set_node(bit<32> id, bit<64> epoch_ns, bit<32> queue_unit) {
        facts.node_id = id;
        epoch = epoch_ns;
        unit = queue_unit;
    }

    table node {
        actions = { set_node; NoAction; }
        default_action = NoAction();
    }

    apply {
        node.apply();
        facts.ingress_port = (bit<16>)standard.ingress_port;
        facts.egress_port = (bit<16>)standard.egress_port;
        facts.latency = ((bit<32>)(standard.egress_global_timestamp - standard.ingress_global_timestamp)) * 1000;
        facts.occupancy = (bit<32>)standard.enq_qdepth * unit;
        facts.time = (bit<32>)(epoch + (bit<64>)standard.egress_global_timestamp * 1000);
    }
}
