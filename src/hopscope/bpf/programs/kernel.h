// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* The fields of kernel structures that programs read; CO-RE finds their offsets (BTF). */
#pragma once

#include <linux/types.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct ns_common {
	unsigned int inum;
};

struct net {
	struct ns_common ns;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct sock_common {
	possible_net_t skc_net;
};

struct sock {
	struct sock_common __sk_common;
};

struct gnet_stats_queue {
	__u32 qlen;
	__u32 backlog;
};

struct qdisc_skb_head {
	__u32 qlen;
};

struct Qdisc {
	unsigned int flags;
	struct qdisc_skb_head q;
	struct gnet_stats_queue qstats;
	struct gnet_stats_queue *cpu_qstats; /* for each CPU, at its own offset */
};

struct netdev_queue {
	struct Qdisc *qdisc;
};

struct net_device {
	int ifindex;
	possible_net_t nd_net;
	struct netdev_queue *_tx;
	unsigned int real_num_tx_queues;
};

struct sk_buff {
	struct net_device *dev;
	unsigned char *head;
	unsigned int tail;
	int skb_iif;
	__be16 protocol;
	__u16 network_header;
};

#pragma clang attribute pop
