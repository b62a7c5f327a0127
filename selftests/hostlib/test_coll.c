/* SPDX-License-Identifier: BSD-2-Clause */
/* Collectives of up to four ranks in one process, with a test switch: results, the lengths of
 * contributions and results, and the packets on the wire. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lib/proto/desc.h"
#include "selftests/fakes/switch.h"

#define PACKET_ELEMENTS (FAKE_SWITCH_PAYLOAD / 4)
#define MOST_ELEMENTS   2000
#define GUARD           8
#define JUNK            ((void *)1) /* an address that no call may access */

static struct fake_switch sw;

/* One collective that all ranks run. */
struct run {
	enum inccl_collective collective;
	size_t count;
	int root;
	bool in_place;
	enum inccl_mode mode;
};

static struct buffers {
	int32_t send[FAKE_SWITCH_RANKS * MOST_ELEMENTS + GUARD];
	int32_t recv[FAKE_SWITCH_RANKS * MOST_ELEMENTS + GUARD];
	const void *given; /* arguments that the call was given */
	void *got;
} buffers[FAKE_SWITCH_RANKS];

static int32_t value(unsigned int rank, size_t i)
{
	return (int32_t)((uint32_t)i * 2654435761u + rank * 0x9e3779b9u) ^ 0x5a5a;
}

static int32_t sum(size_t i)
{
	uint32_t s = 0;

	for (unsigned int r = 0; r < sw.conf.ranks; r++)
		s += (uint32_t)value(r, i);
	return (int32_t)s;
}

static bool is_root(const struct run *run, unsigned int rank)
{
	return run->root == (int)rank;
}

/* send_count() and recv_count(): number of elements in the rank's buffers. */
static size_t send_count(const struct run *run, unsigned int rank)
{
	switch (run->collective) {
	case INCCL_BROADCAST:
		return is_root(run, rank) ? run->count : 0;
	case INCCL_REDUCE_SCATTER:
		return run->count * sw.conf.ranks;
	default:
		return run->count;
	}
}

static size_t recv_count(const struct run *run, unsigned int rank)
{
	switch (run->collective) {
	case INCCL_REDUCE:
		return is_root(run, rank) ? run->count : 0;
	case INCCL_ALL_GATHER:
		return run->count * sw.conf.ranks;
	default:
		return run->count;
	}
}

/* The expected value of element i in the rank's recv buffer. */
static int32_t want(const struct run *run, unsigned int rank, size_t i)
{
	switch (run->collective) {
	case INCCL_BROADCAST:
		return value(run->root, i);
	case INCCL_REDUCE_SCATTER:
		return sum(rank * run->count + i);
	case INCCL_ALL_GATHER:
		return value(i / run->count, i % run->count);
	default:
		return sum(i);
	}
}

static void fill(const struct run *run, unsigned int rank)
{
	size_t gives = send_count(run, rank), gets = recv_count(run, rank), i;
	struct buffers *b = &buffers[rank];
	int32_t *send = b->send, *recv = b->recv;

	if (run->in_place && run->collective == INCCL_ALL_GATHER)
		send = recv + rank * run->count;
	else if (run->in_place && gives && gets)
		recv = send + (run->collective == INCCL_REDUCE_SCATTER ? rank * run->count : 0);
	for (i = 0; i < sizeof(b->recv) / sizeof(*b->recv); i++) {
		b->send[i] = 0x11111111;
		b->recv[i] = 0x22222222;
	}
	for (i = 0; i < gives; i++)
		send[i] = value(rank, i);
	b->given = gives ? send : JUNK;
	b->got = gets ? recv : JUNK;
}

static struct inccl_request *start(const struct run *run, unsigned int rank)
{
	struct inccl_communicator *comm = sw.rank[rank].comm;
	INCCL_OPTS(inccl_collective_opts, opts, .mode = run->mode);
	const struct buffers *b = &buffers[rank];
	struct inccl_request *req = NULL;
	int ret = -ENOSYS;

	switch (run->collective) {
	case INCCL_ALLREDUCE:
		ret = inccl_allreduce_start(comm, b->given, b->got, run->count, INCCL_INT32,
					    INCCL_SUM, &opts, &req);
		break;
	case INCCL_REDUCE:
		ret = inccl_reduce_start(comm, b->given, b->got, run->count, INCCL_INT32, INCCL_SUM,
					 run->root, &opts, &req);
		break;
	case INCCL_BROADCAST:
		ret = inccl_broadcast_start(comm, b->given, b->got, run->count, INCCL_INT32,
					    run->root, &opts, &req);
		break;
	case INCCL_REDUCE_SCATTER:
		ret = inccl_reduce_scatter_start(comm, b->given, b->got, run->count, INCCL_INT32,
						 INCCL_SUM, &opts, &req);
		break;
	case INCCL_ALL_GATHER:
		ret = inccl_all_gather_start(comm, b->given, b->got, run->count, INCCL_INT32, &opts,
					     &req);
		break;
	case INCCL_BARRIER:
		ret = inccl_barrier_start(comm, &opts, &req);
		break;
	}
	assert_int_equal(ret, 0);
	return req;
}

/* Checks every element of the rank's recv buffer. The bytes around that buffer, and the send
 * buffer, must be unchanged. */
static void verify(const struct run *run, unsigned int rank)
{
	const size_t gives = send_count(run, rank), gets = recv_count(run, rank);
	const struct buffers *b = &buffers[rank];
	const int32_t *send = b->given, *recv = b->got;
	size_t i;

	for (i = 0; i < gets; i++)
		if (recv[i] != want(run, rank, i))
			fail_msg("%s of %zu: rank %u: recv[%zu] is %d, not %d",
				 inccl_collective_name(run->collective), run->count, rank, i,
				 recv[i], want(run, rank, i));
	for (i = 0; i < gives; i++)
		if (&send[i] < recv || &send[i] >= recv + gets)
			assert_int_equal(send[i], value(rank, i));
	for (i = 0; i < sizeof(b->recv) / sizeof(*b->recv); i++) {
		if (!gives || &b->send[i] < send || &b->send[i] >= send + gives)
			assert_int_equal(b->send[i], 0x11111111);
		if (!gets || &b->recv[i] < recv || &b->recv[i] >= recv + gets)
			assert_int_equal(b->recv[i], 0x22222222);
	}
}

static void carry_out(const struct run *run)
{
	struct inccl_request *requests[FAKE_SWITCH_RANKS];
	unsigned int i;

	fake_switch_reset(&sw);
	for (i = 0; i < sw.conf.ranks; i++) {
		fill(run, i);
		requests[i] = start(run, i);
	}
	fake_switch_finish(&sw, requests);
	for (i = 0; i < sw.conf.ranks; i++)
		verify(run, i);
}

/* Checks how many elements each rank sends and receives. A rank must get no elements that it does
 * not need. */
static void check_traffic(const struct run *run)
{
	const unsigned int ranks = sw.conf.ranks;
	const size_t count = run->count;

	for (unsigned int i = 0; i < ranks; i++) {
		size_t gives = count, gets = count;

		switch (run->collective) {
		case INCCL_REDUCE:
			gets = is_root(run, i) ? count : 0;
			break;
		case INCCL_BROADCAST:
			gives = is_root(run, i) ? count : 0;
			gets = count - gives;
			break;
		case INCCL_REDUCE_SCATTER:
			gives = ranks * count;
			break;
		case INCCL_ALL_GATHER:
			gets = (ranks - 1) * count;
			break;
		default:
			break;
		}
		assert_int_equal(sw.rank[i].gave, 4 * gives);
		assert_int_equal(sw.rank[i].got, 4 * gets);
	}
}

/* Checks the lengths of messages. They are as long as the data of the collective allow. A rank that
 * contributes no data sends an empty packet for each message. */
static void check_messages(const struct run *run)
{
	const unsigned int packets = (run->count + PACKET_ELEMENTS - 1) / PACKET_ELEMENTS;
	/* the first message has only one packet */
	const unsigned int most =
		sw.conf.agreed_packets < packets - 1 ? sw.conf.agreed_packets : packets - 1;
	bool gives;

	for (unsigned int i = 0; i < sw.conf.ranks; i++) {
		assert_true(sw.rank[i].most_under_way <= sw.conf.messages);
		gives = run->collective != INCCL_BROADCAST || is_root(run, i);
		if (packets > 1)
			assert_int_equal(sw.rank[i].longest, gives ? most : 0);
	}
}

/* Checks the greatest number of packets in flight. It must be the window, or for the root of a
 * Broadcast a quarter of the window. */
static void check_windows(const struct run *run)
{
	const unsigned int window = sw.conf.window * sw.conf.message_packets;
	unsigned int packets = (run->count + PACKET_ELEMENTS - 1) / PACKET_ELEMENTS, want, i;

	for (i = 0; i < sw.conf.ranks; i++) {
		assert_true(sw.rank[i].most_under_way <= window);
		if (run->collective != INCCL_BROADCAST)
			continue;
		want = is_root(run, i) ? (window + 3) / 4 : window;
		assert_int_equal(sw.rank[i].most_under_way, packets < want ? packets : want);
	}
}

/* Checks the packets in flight in a mixed tree, whose switches limit the messages. In an AllReduce
 * a message has the agreed number of packets. In other collectives it has one. */
static void check_few_messages(const struct run *run)
{
	const unsigned int packets =
		run->collective == INCCL_ALLREDUCE ? sw.conf.agreed_packets : 1;

	for (unsigned int i = 0; i < sw.conf.ranks; i++)
		assert_true(sw.rank[i].most_under_way <= sw.conf.messages * packets);
}

static void all_of(const struct fake_switch_conf *conf)
{
	static const size_t counts[] = {0,
					1,
					PACKET_ELEMENTS - 1,
					PACKET_ELEMENTS,
					PACKET_ELEMENTS + 1,
					9 * PACKET_ELEMENTS + 3,
					MOST_ELEMENTS};
	static const enum inccl_collective which[] = {INCCL_ALLREDUCE, INCCL_REDUCE,
						      INCCL_BROADCAST, INCCL_REDUCE_SCATTER,
						      INCCL_ALL_GATHER};
	unsigned int c, i, how;

	fake_switch_up(&sw, conf);
	for (c = 0; c < sizeof(which) / sizeof(*which); c++)
		for (i = 0; i < sizeof(counts) / sizeof(*counts); i++)
			for (how = 0; how < 4; how++) {
				struct run run = {
					.collective = which[c],
					.count = counts[i],
					.root = (i + how) % conf->ranks,
					.in_place = how & 1,
					.mode = how & 2 && conf->mode == INC_TREE_PASSTHROUGH
							? INCCL_MODE_WRITE
							: INCCL_MODE_SENDRECV,
				};

				carry_out(&run);
				check_traffic(&run);
				if (conf->mode == INC_TREE_TERMINATION)
					check_messages(&run);
				else if (!conf->messages)
					check_windows(&run);
				else
					check_few_messages(&run);
			}
	fake_switch_down(&sw);
}

static void one_rank(void **state)
{
	all_of(&(struct fake_switch_conf){.ranks = 1, .window = 7, .message_packets = 1});
}

static void two_ranks_one_packet_at_a_time(void **state)
{
	all_of(&(struct fake_switch_conf){.ranks = 2, .window = 1, .message_packets = 1});
}

static void three_ranks(void **state)
{
	all_of(&(struct fake_switch_conf){.ranks = 3, .window = 7, .message_packets = 1});
}

static void four_ranks_messages_of_four(void **state)
{
	all_of(&(struct fake_switch_conf){.ranks = 4, .window = 8, .message_packets = 4});
}

static void four_ranks_wide_window(void **state)
{
	all_of(&(struct fake_switch_conf){.ranks = 4, .window = 64, .message_packets = 1});
}

/* In termination mode, messages are whole for every combination of contributors and receivers. */
static void termination_mode(void **state)
{
	struct fake_switch_conf conf = {.ranks = 4,
					.window = 8,
					.message_packets = 4,
					.mode = INC_TREE_TERMINATION,
					.agreed_packets = 4,
					.messages = 8};

	all_of(&conf);
	conf = (struct fake_switch_conf){.ranks = 2,
					 .window = 1,
					 .message_packets = 1,
					 .mode = INC_TREE_TERMINATION,
					 .agreed_packets = 1,
					 .messages = 1};
	all_of(&conf);
}

/* Ranks that request no size of messages get messages of the agreed size. */
static void termination_mode_with_default_sizes(void **state)
{
	all_of(&(struct fake_switch_conf){.ranks = 3,
					  .window = 64,
					  .byte_order = INCCL_ORDER_NETWORK,
					  .mode = INC_TREE_TERMINATION,
					  .agreed_packets = 16,
					  .messages = 32});
	all_of(&(struct fake_switch_conf){.ranks = 1,
					  .window = 5,
					  .mode = INC_TREE_TERMINATION,
					  .agreed_packets = 3,
					  .messages = 4});
}

/* Only some of the switches are in termination mode. They limit the number of messages, however
 * short the messages are. */
static void mixed_tree(void **state)
{
	all_of(&(struct fake_switch_conf){.ranks = 3,
					  .window = 16,
					  .message_packets = 1,
					  .mode = INC_TREE_MIXED,
					  .agreed_packets = 1,
					  .messages = 4});
	all_of(&(struct fake_switch_conf){.ranks = 2,
					  .window = 4,
					  .message_packets = 4,
					  .mode = INC_TREE_MIXED,
					  .agreed_packets = 4,
					  .messages = 4});
}

static void network_order(void **state)
{
	const struct fake_switch_conf conf = {
		.ranks = 3, .window = 2, .message_packets = 3, .byte_order = INCCL_ORDER_NETWORK};
	struct run run = {.collective = INCCL_BROADCAST, .count = 1, .root = 2};
	uint32_t element;

	all_of(&conf);
	/* the order of bytes matters for a Broadcast, too, because hosts may differ in it */
	fake_switch_up(&sw, &conf);
	carry_out(&run);
	memcpy(&element, sw.rank[2].trace[0].payload, sizeof(element));
	assert_int_equal(be32toh(element), (uint32_t)value(2, 0));
	fake_switch_down(&sw);
}

/* Checks the packets of one rank's block. Each packet is a whole message, and carries the
 * descriptor, so that all but the last have the same length. */
static void check_block(const struct fake_switch_packet *p, unsigned int packets, bool write,
			uint32_t desc, size_t bytes, bool gives)
{
	unsigned int k;

	for (k = 0; k < packets; k++, p++) {
		size_t len = bytes - k * FAKE_SWITCH_PAYLOAD;

		assert_int_equal(p->head.opcode,
				 write ? INC_OP_WRITE_ONLY_IMM : INC_OP_SEND_ONLY_IMM);
		assert_int_equal(p->desc, desc);
		assert_int_equal(p->head.len, !gives                      ? 0
					      : len < FAKE_SWITCH_PAYLOAD ? len
									  : FAKE_SWITCH_PAYLOAD);
	}
}

/* The blocks of the ranks have three packets each, and follow each other. Each block has its rank
 * as root, and all blocks have the same sequence number. */
static void blocks_on_the_wire(void **state)
{
	static const enum inccl_collective which[] = {INCCL_REDUCE, INCCL_BROADCAST,
						      INCCL_REDUCE_SCATTER, INCCL_ALL_GATHER};
	const struct fake_switch_conf conf = {.ranks = 3, .window = 4, .message_packets = 4};
	unsigned int c, r, b, blocks, write, seq = 0;

	fake_switch_up(&sw, &conf);
	for (c = 0; c < 4; c++)
		for (write = 0; write < 2; write++, seq++) {
			struct run run = {
				.collective = which[c],
				.count = 2 * PACKET_ELEMENTS + 5,
				.root = 1,
				.mode = write ? INCCL_MODE_WRITE : INCCL_MODE_SENDRECV,
			};

			blocks = which[c] >= INCCL_REDUCE_SCATTER ? 3 : 1;
			carry_out(&run);
			for (r = 0; r < 3; r++) {
				assert_int_equal(sw.rank[r].traced, 3 * blocks);
				for (b = 0; b < blocks; b++) {
					unsigned int root = blocks > 1 ? b : 1;
					uint32_t desc = INC_DESC(which[c], INC_OPERATOR_SUM,
								 INC_DTYPE_INT32, root, seq);

					check_block(&sw.rank[r].trace[3 * b], 3, write, desc,
						    4 * run.count,
						    which[c] == INCCL_REDUCE ||
							    which[c] == INCCL_REDUCE_SCATTER ||
							    root == r);
				}
			}
		}
	fake_switch_down(&sw);
}

/* If all ranks contribute and all receive, messages have the length that was agreed for the
 * communicator. */
static void messages_on_the_wire(void **state)
{
	static const uint8_t shape[] = {INC_OP_SEND_ONLY_IMM, INC_OP_SEND_FIRST, INC_OP_SEND_MIDDLE,
					INC_OP_SEND_LAST,     INC_OP_SEND_FIRST, INC_OP_SEND_LAST};
	const struct fake_switch_conf conf = {.ranks = 2, .window = 4, .message_packets = 3};
	struct run run = {.collective = INCCL_ALLREDUCE, .count = 5 * PACKET_ELEMENTS + 1};
	unsigned int k;

	fake_switch_up(&sw, &conf);
	carry_out(&run);
	assert_int_equal(sw.rank[1].traced, sizeof(shape));
	assert_true(fake_switch_logged(&sw,
				       "allreduce (sum of int32): 1 blocks, messages of 3 packets, "
				       "12 packets under way, through s0"));
	for (k = 0; k < sizeof(shape); k++)
		assert_int_equal(sw.rank[1].trace[k].head.opcode, shape[k]);
	fake_switch_down(&sw);
}

/* A WRITE carries the address of its result in recv, even if its contribution is empty. It carries
 * no address if no result follows. */
static void addresses_on_the_wire(void **state)
{
	const struct fake_switch_conf conf = {.ranks = 2, .window = 4, .message_packets = 1};
	struct run run = {.collective = INCCL_ALL_GATHER,
			  .count = PACKET_ELEMENTS + 1,
			  .mode = INCCL_MODE_WRITE};
	const struct fake_switch_packet *p = sw.rank[1].trace;

	fake_switch_up(&sw, &conf);
	carry_out(&run);
	assert_int_equal(sw.rank[1].traced, 4);
	assert_int_equal(p[1].head.va - p[0].head.va, FAKE_SWITCH_PAYLOAD);
	assert_int_equal(p[0].head.rkey, p[1].head.rkey);
	assert_int_equal(p[0].head.len, 0);
	assert_int_equal(p[2].head.len, FAKE_SWITCH_PAYLOAD);
	assert_int_equal(p[2].head.va, 0);
	assert_int_equal(p[2].head.rkey, 0);
	fake_switch_down(&sw);
}

/* Several different collectives are in flight, and some of them are empty. Each one ends with its
 * own result. */
static void several_at_once(void **state)
{
	static const struct run runs[] = {
		{.collective = INCCL_REDUCE_SCATTER, .count = 500},
		{.collective = INCCL_REDUCE, .count = 0, .root = 1},
		{.collective = INCCL_BARRIER},
		{.collective = INCCL_ALL_GATHER, .count = 0},
		{.collective = INCCL_BROADCAST, .count = 1, .root = 2},
	};
	const struct fake_switch_conf conf = {.ranks = 3, .window = 2, .message_packets = 1};
	struct inccl_request *requests[5][FAKE_SWITCH_RANKS];
	const struct run *first = &runs[0], *last = &runs[4];
	int32_t news[FAKE_SWITCH_RANKS] = {0, 0, 77};
	unsigned int i, k;

	fake_switch_up(&sw, &conf);
	for (i = 0; i < conf.ranks; i++) {
		fill(first, i);
		for (k = 0; k < 4; k++)
			requests[k][i] = start(&runs[k], i);
		assert_int_equal(inccl_broadcast_start(sw.rank[i].comm, &news[i], &news[i],
						       last->count, INCCL_INT32, last->root, NULL,
						       &requests[4][i]),
				 0);
	}
	for (k = 5; k-- > 0;)
		fake_switch_finish(&sw, requests[k]);
	for (i = 0; i < conf.ranks; i++) {
		verify(first, i);
		assert_int_equal(news[i], 77);
	}
	fake_switch_down(&sw);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_rank),
		cmocka_unit_test(two_ranks_one_packet_at_a_time),
		cmocka_unit_test(three_ranks),
		cmocka_unit_test(four_ranks_messages_of_four),
		cmocka_unit_test(four_ranks_wide_window),
		cmocka_unit_test(termination_mode),
		cmocka_unit_test(termination_mode_with_default_sizes),
		cmocka_unit_test(mixed_tree),
		cmocka_unit_test(network_order),
		cmocka_unit_test(blocks_on_the_wire),
		cmocka_unit_test(messages_on_the_wire),
		cmocka_unit_test(addresses_on_the_wire),
		cmocka_unit_test(several_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
