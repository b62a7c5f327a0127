/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>
#include "lib/base/clock.h"
#include "lib/rdma/gid.h"
#include "selftests/vm/rdma_ends.h"
#include "selftests/vm/rdma_side.h"

static void choose(struct inc_rdma_inventory *inventory, const struct end *end, struct rdma_side *s)
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

static void make(struct rdma_side *s, unsigned int access)
{
	struct inc_rdma_qp_opts opts = {
		.caps = {RDMA_SIDE_MESSAGES, RDMA_SIDE_MESSAGES, 2, 1, 0, 4, 4},
		.port = 1,
		.access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
	};
	struct inc_err err = {""};

	if (inc_rdma_completions_open(&s->completions, s->device, 2 * RDMA_SIDE_MESSAGES, 8, &err))
		fail_msg("%s", err.msg);
	opts.send_cq = opts.recv_cq = s->completions.cq;
	if (inc_rdma_qp_make(&s->qp, s->device, &opts, &err))
		fail_msg("%s", err.msg);
	s->mem = mmap(NULL, RDMA_SIDE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		      -1, 0);
	assert_ptr_not_equal(s->mem, MAP_FAILED);
	inc_rdma_regions_open(&s->cache, s->device->pd, RDMA_SIDE_BYTES);
	assert_int_equal(inc_rdma_cache_get(&s->cache, s->mem, RDMA_SIDE_BYTES, access, &s->mr), 0);
}

static void meet(struct rdma_side *s, const struct rdma_side *other, uint8_t timeout)
{
	const struct inc_rdma_rts rts = {
		.psn = s->psn, .timeout = timeout, .retry_cnt = 6, .rnr_retry = 6};
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

void rdma_side_pair_open(struct rdma_side s[2], unsigned int access, uint8_t timeout)
{
	struct inc_rdma_inventory *inventory = open_all();
	int i;

	memset(s, 0, 2 * sizeof(*s));
	for (i = 0; i < 2; i++) {
		choose(inventory, &ends[i], &s[i]);
		s[i].psn = 0xfffff0 + 7 * i; /* PSNs wrap during the test */
		make(&s[i], access);
	}
	/* the queue pairs hold references to the objects that they need */
	inc_rdma_inventory_close(inventory);
	meet(&s[0], &s[1], timeout);
	meet(&s[1], &s[0], timeout);
}

void rdma_side_pair_close(struct rdma_side s[2])
{
	int i;

	for (i = 0; i < 2; i++) {
		inc_rdma_qp_destroy(&s[i].qp);
		inc_rdma_completions_close(&s[i].completions);
		inc_rdma_mr_put(&s[i].cache, s[i].mr);
		inc_rdma_cache_close(&s[i].cache);
		inc_rdma_device_put(s[i].device);
		munmap(s[i].mem, RDMA_SIDE_BYTES);
	}
}

bool rdma_side_next_within(struct rdma_side *s, unsigned int limit_ms, struct ibv_wc *wc)
{
	struct pollfd pfd = {.fd = inc_rdma_completions_fd(&s->completions), .events = POLLIN};
	uint64_t deadline_at_ns = inc_now_ns() + limit_ms * INC_NSEC_PER_MSEC;

	for (;;) {
		if (ibv_poll_cq(s->completions.cq, 1, wc) == 1)
			return true;
		assert_int_equal(inc_rdma_completions_arm(&s->completions), 0);
		if (ibv_poll_cq(s->completions.cq, 1, wc) == 1)
			return true;
		if (inc_now_ns() > deadline_at_ns)
			return false;
		poll(&pfd, 1, 1000);
		inc_rdma_completions_take(&s->completions);
	}
}

struct ibv_wc rdma_side_next(struct rdma_side *s)
{
	struct ibv_wc wc;

	if (!rdma_side_next_within(s, DEADLINE_S * 1000, &wc))
		fail_msg("%s: no completion", s->qp.what);
	return wc;
}

void rdma_side_receive(struct rdma_side *s, uint64_t id, uint32_t at, uint32_t len)
{
	struct ibv_sge sge = {(uintptr_t)s->mem + at, len, s->mr->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(ibv_post_recv(s->qp.ibv, &wr, &bad), 0);
}

void rdma_side_post(struct rdma_side *s, uint64_t id, enum ibv_wr_opcode opcode, uint32_t at,
		    uint32_t len, const struct rdma_side *other, uint32_t there)
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
