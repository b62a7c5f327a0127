/* SPDX-License-Identifier: BSD-2-Clause */
/* Two queue pairs of two devices, in one process: SEND, READ and WRITE, and what is refused. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>
#include "lib/base/clock.h"
#include "lib/rdma/completion.h"
#include "lib/rdma/gid.h"
#include "lib/rdma/qp.h"
#include "lib/rdma/region.h"
#include "selftests/descriptors.h"
#include "selftests/vm/rdma_live.h"

#define LEN      (1u << 20) /* of a side's memory */
#define MESSAGES 40

struct side {
	struct inc_rdma_device *device;
	struct inc_rdma_completions completions;
	struct inc_rdma_qp qp;
	struct inc_rdma_cache cache;
	struct inc_rdma_mr *mr;
	uint8_t *mem;
	uint8_t gid[16];
	uint8_t gid_index;
	unsigned int mtu_bytes;
	uint32_t psn;
};

/* ---- the pair ------------------------------------------------------------------------------- */

static void choose(struct inc_rdma_inventory *inventory, const struct end *end, struct side *s)
{
	const struct inc_rdma_list *list = inc_rdma_inventory_get(inventory);
	const struct inc_rdma_device_info *info = described(list, end->device);
	int index = gid_index(info, end->addr);

	assert_true(index >= 0);
	s->gid_index = index;
	inc_rdma_gid_of_ipv4(end->addr, s->gid);
	s->mtu_bytes = info->port[0].active_mtu_bytes;
	s->device = inc_rdma_inventory_device(inventory, info->index, info->name);
	assert_non_null(s->device);
	inc_rdma_list_put(list);
}

static void make(struct side *s, unsigned int access)
{
	struct inc_rdma_qp_opts opts = {
		.caps = {MESSAGES, MESSAGES, 2, 1, 0, 4, 4},
		.port = 1,
		.access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
	};
	struct inc_err err = {""};

	if (inc_rdma_completions_open(&s->completions, s->device, 2 * MESSAGES, 8, &err))
		fail_msg("%s", err.msg);
	opts.send_cq = opts.recv_cq = s->completions.cq;
	if (inc_rdma_qp_make(&s->qp, s->device, &opts, &err))
		fail_msg("%s", err.msg);
	s->mem = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(s->mem, MAP_FAILED);
	inc_rdma_regions_open(&s->cache, s->device->pd, LEN);
	assert_int_equal(inc_rdma_cache_get(&s->cache, s->mem, LEN, access, &s->mr), 0);
}

static void meet(struct side *s, const struct side *other)
{
	const struct inc_rdma_rts rts = {
		.psn = s->psn, .timeout = 17, .retry_cnt = 6, .rnr_retry = 6};
	struct inc_rdma_peer peer = {
		.name = other->device->name,
		.qpn = other->qp.ibv->qp_num,
		.psn = other->psn,
		.mtu_bytes = s->mtu_bytes < other->mtu_bytes ? s->mtu_bytes : other->mtu_bytes,
		.min_rnr_timer = 12,
		.link_layer = INC_RDMA_LINK_ETHERNET,
		.own_gid_index = s->gid_index,
		.hop_limit = 64,
	};
	struct inc_err err = {""};

	memcpy(peer.gid, other->gid, sizeof(peer.gid));
	if (inc_rdma_qp_to_rtr(&s->qp, &peer, &err) || inc_rdma_qp_to_rts(&s->qp, &rts, &err))
		fail_msg("%s", err.msg);
}

static void make_pair(struct side s[2], unsigned int access)
{
	struct inc_rdma_inventory *inventory = open_all();
	int i;

	memset(s, 0, 2 * sizeof(*s));
	for (i = 0; i < 2; i++) {
		choose(inventory, &ends[i], &s[i]);
		s[i].psn = 0xfffff0 + 7 * i; /* wraps under way */
		make(&s[i], access);
	}
	/* what they hold is held by reference */
	inc_rdma_inventory_close(inventory);
	meet(&s[0], &s[1]);
	meet(&s[1], &s[0]);
}

static void end_pair(struct side s[2])
{
	int i;

	for (i = 0; i < 2; i++) {
		inc_rdma_qp_destroy(&s[i].qp);
		inc_rdma_completions_close(&s[i].completions);
		inc_rdma_mr_put(&s[i].cache, s[i].mr);
		inc_rdma_cache_close(&s[i].cache);
		inc_rdma_device_put(s[i].device);
		munmap(s[i].mem, LEN);
	}
}

/* ---- work -------------------------------------------------------------------------------------
 */

/* The next completion, slept for. */
static struct ibv_wc next(struct side *s)
{
	struct pollfd pfd = {.fd = inc_rdma_completions_fd(&s->completions), .events = POLLIN};
	uint64_t deadline_at_ns = inc_now_ns() + DEADLINE_S * INC_NSEC_PER_SEC;
	struct ibv_wc wc;

	for (;;) {
		if (ibv_poll_cq(s->completions.cq, 1, &wc) == 1)
			return wc;
		assert_int_equal(inc_rdma_completions_arm(&s->completions), 0);
		if (ibv_poll_cq(s->completions.cq, 1, &wc) == 1)
			return wc;
		if (inc_now_ns() > deadline_at_ns)
			fail_msg("%s: no completion", s->qp.what);
		poll(&pfd, 1, 1000);
		inc_rdma_completions_take(&s->completions);
	}
}

static void post_recv(struct side *s, uint64_t id, uint32_t at, uint32_t len)
{
	struct ibv_sge sge = {(uintptr_t)s->mem + at, len, s->mr->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(ibv_post_recv(s->qp.ibv, &wr, &bad), 0);
}

/* What is sent from, or read to, our memory at `at`; the other's at `there`. */
static void post(struct side *s, uint64_t id, enum ibv_wr_opcode opcode, uint32_t at, uint32_t len,
		 const struct side *other, uint32_t there)
{
	struct ibv_sge sge = {(uintptr_t)s->mem + at, len, s->mr->mr->lkey};
	struct ibv_send_wr wr =
				   {
					   .wr_id = id,
					   .sg_list = &sge,
					   .num_sge = 1,
					   .opcode = opcode,
					   .imm_data = htonl(0xbeef0000 | id),
					   .send_flags = IBV_SEND_SIGNALED,
				   },
			   *bad;

	wr.wr.rdma.remote_addr = (uintptr_t)other->mem + there;
	wr.wr.rdma.rkey = other->mr->mr->rkey;
	assert_int_equal(ibv_post_send(s->qp.ibv, &wr, &bad), 0);
}

static void fill(uint8_t *p, size_t len, unsigned int seed)
{
	size_t i;

	for (i = 0; i < len; i++)
		p[i] = rand_r(&seed) >> 8;
}

static void done(struct side *s, uint64_t id)
{
	struct ibv_wc wc = next(s);

	if (wc.status != IBV_WC_SUCCESS || wc.wr_id != id)
		fail_msg("%s: request %llu: %s", s->qp.what, (unsigned long long)wc.wr_id,
			 ibv_wc_status_str(wc.status));
}

/* Messages of many lengths in both directions, each into a place of its own. */
void test_messages(void **state)
{
	static const uint32_t lengths[] = {1, 2048, 2049, 4096, 6000};
	unsigned int descriptors = open_descriptors();
	const uint32_t half = LEN / 2, room = half / MESSAGES;
	struct side s[2];
	struct ibv_wc wc;
	int i, side, got;

	make_pair(s, IBV_ACCESS_LOCAL_WRITE);
	for (side = 0; side < 2; side++) {
		fill(s[side].mem, LEN, side);
		for (i = 0; i < MESSAGES; i++)
			post_recv(&s[side], i, half + i * room, room);
	}
	for (i = 0; i < MESSAGES; i++)
		for (side = 0; side < 2; side++)
			post(&s[side], i, i % 2 ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND, i * room,
			     lengths[i % 5], &s[!side], 0);
	for (side = 0; side < 2; side++)
		for (i = got = 0; i < 2 * MESSAGES; i++) {
			wc = next(&s[side]);
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
	end_pair(s);
	assert_int_equal(open_descriptors(), descriptors);
}

void test_read_and_write(void **state)
{
	const unsigned int access =
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
	const uint32_t len = 100001, half = LEN / 2;
	struct side s[2];
	int i;

	make_pair(s, access);
	fill(s[0].mem, LEN, 1);
	fill(s[1].mem, LEN, 2);
	post(&s[0], 1, IBV_WR_RDMA_WRITE, 0, len, &s[1], half);
	done(&s[0], 1);
	assert_memory_equal(s[1].mem + half, s[0].mem, len);
	for (i = 0; i < 8; i++) /* more than may be under way: the device holds them back */
		post(&s[0], 10 + i, IBV_WR_RDMA_READ, half + i * 1000, 1000, &s[1], i * 1000);
	for (i = 0; i < 8; i++)
		done(&s[0], 10 + i);
	assert_memory_equal(s[0].mem + half, s[1].mem, 8000);
	post(&s[1], 3, IBV_WR_RDMA_READ, half, len, &s[0], 0);
	done(&s[1], 3);
	assert_memory_equal(s[1].mem + half, s[0].mem, len);
	end_pair(s);
}

/* Memory that was registered for less. */
void test_what_a_peer_may_not(void **state)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		unsigned int access;
	} tried[] = {
		{IBV_WR_RDMA_READ, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE},
		{IBV_WR_RDMA_WRITE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ},
	};
	struct side s[2];
	struct ibv_wc wc;
	size_t i;

	for (i = 0; i < sizeof(tried) / sizeof(tried[0]); i++) {
		make_pair(s, tried[i].access);
		post(&s[0], 1, tried[i].opcode, 0, 100, &s[1], 0);
		wc = next(&s[0]);
		assert_int_equal(wc.status, IBV_WC_REM_ACCESS_ERR);
		end_pair(s);
	}
}

void test_stop_flushes(void **state)
{
	struct side s[2];
	struct inc_err err = {""};
	struct ibv_wc wc;
	int i;

	make_pair(s, IBV_ACCESS_LOCAL_WRITE);
	for (i = 0; i < 5; i++)
		post_recv(&s[0], i, 0, 100);
	assert_int_equal(inc_rdma_qp_to_err(&s[0].qp, &err), 0);
	for (i = 0; i < 5; i++) {
		wc = next(&s[0]);
		assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
		assert_int_equal(wc.wr_id, i);
	}
	end_pair(s);
}

/* What the device cannot do, and what no peer can be, each with its name. */
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
	struct side s[2];

	make_pair(s, 0);
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
	end_pair(s);
	assert_int_equal(open_descriptors(), descriptors);
}
