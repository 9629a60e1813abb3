"""Kernels that keep the tables of the XDP program equal to the detector's, and add its counts.

===================== ==========================================================================
`reports`, `hops`     REPORT [n], HOP [m]: a batch that the detector has seen
`marks`               uint8 [frames]: Mark of each datagram of the batch
`tags`, `flows`       uint32 [rows * 16], FLOW [rows * WAYS]: the detector's, see `flow_cache_kernel`
`states`              HOP_STATE: the hops of flow f from f * INLINE on
`ports`, `sources`    PORT and SOURCE [power of two]: the detector's
`limits`, `overrides` THRESHOLD and uint64, see `detect_kernel.update_kernel`
`knobs`               uint64 [event_kernel.KNOBS]
`k_…`                 the program's tables: TAGS, FLOW, PORT, SOURCE of `layout`, with the same rows
`k_more`              HOP: the blocks of the pool
`watched`             uint64 [n, 2]: rows installed last, and their decisive state at that time
`seen`, `seen_hops`   the program's counts at the last merge: uint64 [flows, 4] packets, sum and number of
                      latencies, time of the last push; uint64 [as `states`, 2] sum and number
`merged`              uint64 [sources, MERGED], see `sources_kernel`
`seen_ports`          uint64 [ports, 2]: samples merged, time of the last push
===================== ==========================================================================
"""
