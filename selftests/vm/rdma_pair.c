/* SPDX-License-Identifier: BSD-2-Clause */
/* Two queue pairs of two devices, in one process: SEND, READ, WRITE, and rejected requests. */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "selftests/belongings.h"
#include "selftests/vm/rdma_side.h"

#define TIMEOUT 17

static void fill(uint8_t *p, size_t len, unsigned int seed)
{
	size_t i;

	for (i = 0; i < len; i++)
		p[i] = rand_r(&seed) >> 8;
}

static void done(struct rdma_side *s, uint64_t id)
{
	struct ibv_wc wc = rdma_side_next(s);

	if (wc.status != IBV_WC_SUCCESS || wc.wr_id != id)
		fail_msg("%s: request %llu: %s", s->qp.what, (unsigned long long)wc.wr_id,
			 ibv_wc_status_str(wc.status));
}

/* Messages of many lengths in both directions. Each message is received into its own buffer. */
void test_messages(void **state)
{
	static const uint32_t lengths[] = {1, 2048, 2049, 4096, 6000};
	unsigned int descriptors = open_descriptors();
	const uint32_t half = RDMA_SIDE_BYTES / 2, room = half / RDMA_SIDE_MESSAGES;
	struct rdma_side s[2];
	struct ibv_wc wc;
	int i, side, got;

	rdma_side_pair_open(s, IBV_ACCESS_LOCAL_WRITE, TIMEOUT);
	for (side = 0; side < 2; side++) {
		fill(s[side].mem, RDMA_SIDE_BYTES, side);
		for (i = 0; i < RDMA_SIDE_MESSAGES; i++)
			rdma_side_receive(&s[side], i, half + i * room, room);
	}
	for (i = 0; i < RDMA_SIDE_MESSAGES; i++)
		for (side = 0; side < 2; side++)
			rdma_side_post(&s[side], i, i % 2 ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND,
				       i * room, lengths[i % 5], &s[!side], 0);
	for (side = 0; side < 2; side++)
		for (i = got = 0; i < 2 * RDMA_SIDE_MESSAGES; i++) {
			wc = rdma_side_next(&s[side]);
			assert_int_equal(wc.status, IBV_WC_SUCCESS);
			if (!(wc.opcode & IBV_WC_RECV))
				continue;
			assert_int_equal(wc.wr_id, got);
			assert_int_equal(wc.byte_len, lengths[got % 5]);
			assert_int_equal(!!(wc.wc_flags & IBV_WC_WITH_IMM), got % 2);
			if (got % 2)
				assert_int_equal(ntohl(wc.imm_data), 0xbeef0000 | got);
			assert_memory_equal(s[side].mem + half + got * room,
					    s[!side].mem + got * room, wc.byte_len);
			got++;
		}
	rdma_side_pair_close(s);
	assert_int_equal(open_descriptors(), descriptors);
}

void test_read_and_write(void **state)
{
	const unsigned int access =
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
	const uint32_t len = 100001, half = RDMA_SIDE_BYTES / 2;
	struct rdma_side s[2];
	int i;

	rdma_side_pair_open(s, access, TIMEOUT);
	fill(s[0].mem, RDMA_SIDE_BYTES, 1);
	fill(s[1].mem, RDMA_SIDE_BYTES, 2);
	rdma_side_post(&s[0], 1, IBV_WR_RDMA_WRITE, 0, len, &s[1], half);
	done(&s[0], 1);
	assert_memory_equal(s[1].mem + half, s[0].mem, len);
	/* more READs than the queue pair may have in progress, so the device delays the rest */
	for (i = 0; i < 8; i++)
		rdma_side_post(&s[0], 10 + i, IBV_WR_RDMA_READ, half + i * 1000, 1000, &s[1],
			       i * 1000);
	for (i = 0; i < 8; i++)
		done(&s[0], 10 + i);
	assert_memory_equal(s[0].mem + half, s[1].mem, 8000);
	rdma_side_post(&s[1], 3, IBV_WR_RDMA_READ, half, len, &s[0], 0);
	done(&s[1], 3);
	assert_memory_equal(s[1].mem + half, s[0].mem, len);
	rdma_side_pair_close(s);
}

/* A peer accesses memory that was registered without the permission that the access needs. */
void test_what_a_peer_may_not(void **state)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		unsigned int access;
	} tried[] = {
		{IBV_WR_RDMA_READ, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE},
		{IBV_WR_RDMA_WRITE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ},
	};
	struct rdma_side s[2];
	struct ibv_wc wc;
	size_t i;

	for (i = 0; i < sizeof(tried) / sizeof(tried[0]); i++) {
		rdma_side_pair_open(s, tried[i].access, TIMEOUT);
		rdma_side_post(&s[0], 1, tried[i].opcode, 0, 100, &s[1], 0);
		wc = rdma_side_next(&s[0]);
		assert_int_equal(wc.status, IBV_WC_REM_ACCESS_ERR);
		rdma_side_pair_close(s);
	}
}

void test_stop_flushes(void **state)
{
	struct rdma_side s[2];
	struct inc_err err = {""};
	struct ibv_wc wc;
	int i;

	rdma_side_pair_open(s, IBV_ACCESS_LOCAL_WRITE, TIMEOUT);
	for (i = 0; i < 5; i++)
		rdma_side_receive(&s[0], i, 0, 100);
	assert_int_equal(inc_rdma_qp_to_err(&s[0].qp, &err), 0);
	for (i = 0; i < 5; i++) {
		wc = rdma_side_next(&s[0]);
		assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
		assert_int_equal(wc.wr_id, i);
	}
	rdma_side_pair_close(s);
}

/* Requests that the device does not support, and impossible addresses of peers. Each error must
 * name the reason. */
void test_refusals(void **state)
{
	unsigned int descriptors = open_descriptors();
	struct inc_rdma_peer peer = {
		.name = "nobody",
		.qpn = 17,
		.mtu_bytes = 1024,
		.link_layer = INC_RDMA_LINK_ETHERNET,
		.own_gid_index = 250,
		.hop_limit = 1,
	};
	struct inc_rdma_completions none;
	struct inc_rdma_qp_opts opts = {.port = 9};
	struct inc_rdma_qp qp;
	struct inc_err err = {""};
	struct rdma_side s[2];

	rdma_side_pair_open(s, 0, TIMEOUT);
	assert_int_equal(inc_rdma_completions_open(&none, s[0].device,
						   s[0].device->limits.max_cqe + 1, 1, &err),
			 -EINVAL);
	assert_non_null(strstr(err.msg, "completion queue of "));
	opts.send_cq = opts.recv_cq = s[0].completions.cq;
	opts.caps = (struct inc_rdma_qp_caps){1, 1, s[0].device->limits.max_sge + 1, 1, 0, 1, 1};
	assert_int_equal(inc_rdma_qp_make(&qp, s[0].device, &opts, &err), -EINVAL);
	assert_non_null(strstr(err.msg, "send_sge is "));
	opts.caps.send_sge = 1;
	assert_true(inc_rdma_qp_make(&qp, s[0].device, &opts, &err) < 0);
	assert_ptr_equal(strstr(err.msg, ends[0].device), err.msg);
	assert_non_null(strstr(err.msg, "/9: queue pair to INIT: "));
	opts.port = 1;
	assert_int_equal(inc_rdma_qp_make(&qp, s[0].device, &opts, &err), 0);
	assert_true(inc_rdma_qp_to_rtr(&qp, &peer, &err) < 0);
	assert_non_null(strstr(err.msg, "/1 to nobody: queue pair to RTR: "));
	peer.mtu_bytes = 255;
	assert_int_equal(inc_rdma_qp_to_rtr(&qp, &peer, &err), -EINVAL);
	assert_non_null(strstr(err.msg, "mtu_bytes"));
	peer.qpn = 1 << 24;
	assert_int_equal(inc_rdma_qp_to_rtr(&qp, &peer, &err), -EINVAL);
	assert_non_null(strstr(err.msg, "qpn"));
	inc_rdma_qp_destroy(&qp);
	rdma_side_pair_close(s);
	assert_int_equal(open_descriptors(), descriptors);
}
