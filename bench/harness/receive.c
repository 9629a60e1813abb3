/* Receives datagrams of a UDP socket that it is given, in one of several ways, with the pauses of a worker: addresses and
 * control messages are asked for, and a byte of each cache line is read. Prints what it received and its time. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/io_uring.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define CALL 512       /* datagrams of a recvmmsg() */
#define ROOM 9280      /* bytes for each of them */
#define BUFFERS 4096   /* of io_uring */
#define BUFFER 2048    /* bytes of each */
#define GATHERED 2048  /* datagrams that a pause waits for */
#define SHORTEST 0.0005
#define LONGEST 0.01

static double seconds_of(clockid_t clock)
{
	struct timespec at;
	clock_gettime(clock, &at);
	return at.tv_sec + at.tv_nsec / 1e9;
}

static unsigned long touched;

static void touch(const char *from, int size)
{
	for (int at = 0; at < size; at += 64)
		touched += from[at];
}

/* recvmmsg(). */
static struct mmsghdr messages[CALL];
static struct iovec parts[CALL];
static char names[CALL][28], controls[CALL][64], *arena;

static int calls_open(int file)
{
	(void)file;
	arena = mmap(NULL, (size_t)CALL * ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	for (int i = 0; i < CALL; i++) {
		parts[i] = (struct iovec){arena + (size_t)i * ROOM, ROOM - 64};
		messages[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
	}
	return arena == MAP_FAILED;
}

static int calls_take(int file)
{
	for (int i = 0; i < CALL; i++) {
		messages[i].msg_hdr.msg_name = names[i];
		messages[i].msg_hdr.msg_namelen = sizeof(names[i]);
		messages[i].msg_hdr.msg_control = controls[i];
		messages[i].msg_hdr.msg_controllen = sizeof(controls[i]);
	}
	int got = recvmmsg(file, messages, CALL, MSG_DONTWAIT, NULL);
	for (int i = 0; i < got; i++)
		touch(parts[i].iov_base, messages[i].msg_len);
	return got > 0 ? got : 0;
}

/* recvfrom(), one call for each. */
static int each_take(int file)
{
	static char datagram[65536];
	int taken = 0;
	for (; taken < CALL; taken++) {
		socklen_t length = sizeof(names[0]);
		int size = recvfrom(file, datagram, sizeof(datagram), MSG_DONTWAIT, (struct sockaddr *)names[0], &length);
		if (size < 0)
			break;
		touch(datagram, size);
	}
	return taken;
}

/* io_uring: one multishot IORING_OP_RECVMSG, buffers from a ring, work done when it is entered. */
static int uring, armed;
static struct io_uring_buf_ring *buffers;
static struct io_uring_sqe *entries;
static struct io_uring_cqe *completions;
static unsigned *sent_tail, *sent_array, sent_mask, *done_head, *done_tail, done_mask;
static unsigned short next_buffer;
static struct msghdr wanted = {.msg_namelen = 28, .msg_controllen = 64};

static void give_back(int number)
{
	struct io_uring_buf *buffer = &buffers->bufs[next_buffer++ & (BUFFERS - 1)];
	buffer->addr = (unsigned long)(arena + (size_t)number * BUFFER);
	buffer->len = BUFFER;
	buffer->bid = number;
}

static int uring_open(int file)
{
	struct io_uring_params made = {.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
						IORING_SETUP_CQSIZE,
				       .cq_entries = BUFFERS};
	int kind = PROT_READ | PROT_WRITE, shared = MAP_SHARED | MAP_POPULATE;
	int own = MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE;
	(void)file;
	uring = syscall(SYS_io_uring_setup, 8, &made);
	if (uring < 0)
		return 1;
	char *sent = mmap(NULL, made.sq_off.array + made.sq_entries * 4, kind, shared, uring, IORING_OFF_SQ_RING);
	char *done = mmap(NULL, made.cq_off.cqes + made.cq_entries * sizeof(*completions), kind, shared, uring,
			  IORING_OFF_CQ_RING);
	entries = mmap(NULL, made.sq_entries * sizeof(*entries), kind, shared, uring, IORING_OFF_SQES);
	buffers = mmap(NULL, BUFFERS * sizeof(struct io_uring_buf), kind, own, -1, 0);
	arena = mmap(NULL, (size_t)BUFFERS * BUFFER, kind, own, -1, 0);
	if (sent == MAP_FAILED || done == MAP_FAILED || (void *)entries == MAP_FAILED)
		return 1;
	struct io_uring_buf_reg ring = {.ring_addr = (unsigned long)buffers, .ring_entries = BUFFERS};
	if (syscall(SYS_io_uring_register, uring, IORING_REGISTER_PBUF_RING, &ring, 1))
		return 1;
	sent_tail = (unsigned *)(sent + made.sq_off.tail), sent_array = (unsigned *)(sent + made.sq_off.array);
	sent_mask = *(unsigned *)(sent + made.sq_off.ring_mask), done_mask = *(unsigned *)(done + made.cq_off.ring_mask);
	done_head = (unsigned *)(done + made.cq_off.head), done_tail = (unsigned *)(done + made.cq_off.tail);
	completions = (struct io_uring_cqe *)(done + made.cq_off.cqes);
	for (int i = 0; i < BUFFERS; i++)
		give_back(i);
	__atomic_store_n(&buffers->tail, next_buffer, __ATOMIC_RELEASE);
	return 0;
}

static int uring_take(int file)
{
	int taken = 0, found;
	do {
		int submitted = !armed;
		if (submitted) {
			unsigned tail = *sent_tail & sent_mask;
			entries[tail] = (struct io_uring_sqe){.opcode = IORING_OP_RECVMSG, .fd = file, .len = 1,
							      .addr = (unsigned long)&wanted,
							      .ioprio = IORING_RECV_MULTISHOT,
							      .flags = IOSQE_BUFFER_SELECT};
			sent_array[tail] = tail;
			__atomic_store_n(sent_tail, *sent_tail + 1, __ATOMIC_RELEASE);
			armed = 1;
		}
		syscall(SYS_io_uring_enter, uring, submitted, 0, IORING_ENTER_GETEVENTS, NULL, 0);
		unsigned head = *done_head, tail = __atomic_load_n(done_tail, __ATOMIC_ACQUIRE);
		for (found = 0; head != tail; head++) {
			struct io_uring_cqe *one = &completions[head & done_mask];
			if (one->flags & IORING_CQE_F_BUFFER) {
				int number = one->flags >> IORING_CQE_BUFFER_SHIFT;
				touch(arena + (size_t)number * BUFFER, one->res);
				give_back(number);
				found++;
			}
			if (!(one->flags & IORING_CQE_F_MORE))
				armed = 0;
		}
		__atomic_store_n(&buffers->tail, next_buffer, __ATOMIC_RELEASE);
		__atomic_store_n(done_head, head, __ATOMIC_RELEASE);
		taken += found;
	} while (found); /* the kernel takes at most 32 at a time */
	return taken;
}

int main(int count, char **words)
{
	if (count != 4)
		return 2;
	const char *way = words[1];
	int file = atoi(words[2]), busy = 50, yes = 1, use_uring = !strcmp(way, "io_uring"), each = !strcmp(way, "recvfrom");
	double length = atof(words[3]), pause = SHORTEST, begin = 0, spent = 0;
	long got = 0, since = 0;
	if (!strcmp(way, "recvmmsg, busy polling") &&
	    (setsockopt(file, SOL_SOCKET, SO_BUSY_POLL, &busy, sizeof(busy)) ||
	     setsockopt(file, SOL_SOCKET, SO_PREFER_BUSY_POLL, &yes, sizeof(yes))))
		return 1;
	if (use_uring ? uring_open(file) : calls_open(file))
		return 1;
	while (!begin || seconds_of(CLOCK_MONOTONIC) - begin < length) {
		int found = use_uring ? uring_take(file) : each ? each_take(file) : calls_take(file);
		got += found, since += found;
		if (!begin && found) {
			begin = seconds_of(CLOCK_MONOTONIC), spent = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
			got = since = 0;
		}
		if (found >= CALL && !use_uring)
			continue;
		pause *= (double)GATHERED / (since ? since : 1);
		pause = pause < SHORTEST ? SHORTEST : pause > LONGEST ? LONGEST : pause;
		since = 0;
		nanosleep(&(struct timespec){0, (long)(pause * 1e9)}, NULL);
	}
	spent = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - spent;
	printf("%ld %.0f\n", got, spent * 1e9);
	return touched == 1;
}
