/* A bare forwarder between two interfaces: TPACKET_V3 in, a transmit ring out. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BLOCK (1 << 14)
#define BLOCKS 2048
#define SLOT 2048
#define SLOTS 4096

static volatile sig_atomic_t stopped;

static void stop(int number)
{
	(void)number;
	stopped = 1;
}

static int ring(const char *interface, int kind, char **memory, size_t *size)
{
	int handle = socket(AF_PACKET, SOCK_RAW, 0), version = TPACKET_V3, one = 1;
	struct tpacket_req3 request = {0};
	if (kind == PACKET_RX_RING) {
		request.tp_block_size = BLOCK;
		request.tp_block_nr = BLOCKS;
		request.tp_retire_blk_tov = 1;
	} else {
		request.tp_block_size = SLOT * 64;
		request.tp_block_nr = SLOTS / 64;
	}
	request.tp_frame_size = SLOT;
	*size = (size_t)request.tp_block_size * request.tp_block_nr;
	request.tp_frame_nr = *size / SLOT;
	struct sockaddr_ll to = {.sll_family = AF_PACKET, .sll_ifindex = if_nametoindex(interface)};
	to.sll_protocol = kind == PACKET_RX_RING ? htons(ETH_P_ALL) : 0;
	if (handle < 0 || setsockopt(handle, SOL_PACKET, PACKET_VERSION, &version, sizeof(version)) ||
	    (kind == PACKET_RX_RING && setsockopt(handle, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof(one))) ||
	    setsockopt(handle, SOL_PACKET, kind, &request, sizeof(request)) ||
	    bind(handle, (struct sockaddr *)&to, sizeof(to)))
		return -1;
	*memory = mmap(NULL, *size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, handle, 0);
	return *memory == MAP_FAILED ? -1 : handle;
}

int main(int count, char **words)
{
	char *in, *out;
	size_t in_size, out_size;
	if (count != 3)
		return 2;
	int from = ring(words[1], PACKET_RX_RING, &in, &in_size);
	int to = ring(words[2], PACKET_TX_RING, &out, &out_size);
	if (from < 0 || to < 0) {
		perror("ring");
		return 1;
	}
	signal(SIGTERM, stop);
	puts("ready");
	fflush(stdout);
	uint64_t forwarded = 0, dropped = 0;
	unsigned block = 0, slot = 0;
	while (!stopped) {
		struct tpacket_block_desc *filled = (void *)(in + (size_t)block * BLOCK);
		if (!(filled->hdr.bh1.block_status & TP_STATUS_USER)) {
			send(to, NULL, 0, MSG_DONTWAIT);
			struct timespec pause = {.tv_nsec = 1000000};
			nanosleep(&pause, NULL);
			continue;
		}
		struct tpacket3_hdr *frame = (void *)((char *)filled + filled->hdr.bh1.offset_to_first_pkt);
		for (unsigned i = 0; i < filled->hdr.bh1.num_pkts; i++) {
			struct tpacket3_hdr *free_slot = (void *)(out + (size_t)slot * SLOT);
			if (free_slot->tp_status != TP_STATUS_AVAILABLE)
				send(to, NULL, 0, MSG_DONTWAIT);
			if (free_slot->tp_status == TP_STATUS_AVAILABLE && frame->tp_snaplen <= SLOT - 48) {
				memcpy((char *)free_slot + TPACKET_ALIGN(sizeof(*free_slot)), (char *)frame + frame->tp_mac,
				       frame->tp_snaplen);
				free_slot->tp_len = free_slot->tp_snaplen = frame->tp_snaplen;
				free_slot->tp_next_offset = 0;
				__sync_synchronize();
				free_slot->tp_status = TP_STATUS_SEND_REQUEST;
				slot = (slot + 1) % SLOTS;
				forwarded++;
			} else
				dropped++;
			frame = (void *)((char *)frame + frame->tp_next_offset);
		}
		filled->hdr.bh1.block_status = TP_STATUS_KERNEL;
		block = (block + 1) % BLOCKS;
		send(to, NULL, 0, MSG_DONTWAIT);
	}
	printf("%lu forwarded, %lu dropped\n", (unsigned long)forwarded, (unsigned long)dropped);
	return 0;
}
