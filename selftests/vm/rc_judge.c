/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hosts that use only libibverbs calls. So the switch is tested by the RC state machine of the
 * device, without libinccl in between. The hosts also behave in ways in which libinccl would not:
 * receives posted late, any start PSN, any window. All hosts are in one thread.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <infiniband/verbs.h>
#include "lib/base/clock.h"
#include "lib/proto/desc.h"
#include "lib/proto/roce.h"
#include "selftests/vm/rc_judge.h"

#define MAX_WINDOW 4096

struct host {
	unsigned int index;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *send_mr, *recv_mr;
	uint32_t *send, *recv;
	unsigned int gid_index;
	uint64_t posted;    /* number of messages for which sends were posted */
	uint64_t recvs;     /* number of receives posted */
	uint64_t completed; /* number of results received */
	uint64_t sent;      /* number of sends completed */
	uint64_t post_ns[MAX_WINDOW];
};

static struct judge_opts opts;
static struct host hosts[JUDGE_MAX_HOSTS];
static uint64_t messages; /* number of messages in one collective */
static char failure[400];

#define FAIL(...) (snprintf(failure, sizeof(failure), __VA_ARGS__), -1)

static uint32_t value(unsigned int host, uint64_t element)
{
	uint64_t x = (element + 1) * 0x9e3779b97f4a7c15ull ^ (host + 1) * 0xbf58476d1ce4e5b9ull;

	return x >> 29;
}

/* offset_of() and length_of(): where message m of a collective begins, and its length. The first
 * message has one packet, the others are full. */
static uint64_t offset_of(uint64_t m)
{
	return m ? opts.payload + (m - 1) * opts.payload * opts.message_packets : 0;
}

static uint32_t length_of(uint64_t m)
{
	uint64_t most = m ? opts.payload * opts.message_packets : opts.payload;
	uint64_t left = opts.bytes - offset_of(m);

	return left < most ? left : most;
}

static int find_gid(struct host *h)
{
	struct ibv_gid_entry table[64];
	char addr[INET6_ADDRSTRLEN], want[32];
	ssize_t i, n = ibv_query_gid_table(h->ctx, table, 64, 0);

	snprintf(want, sizeof(want), "::ffff:10.77.%u.1", h->index);
	for (i = 0; i < n; i++) {
		inet_ntop(AF_INET6, table[i].gid.raw, addr, sizeof(addr));
		if (table[i].gid_type == IBV_GID_TYPE_ROCE_V2 && !strcmp(addr, want)) {
			h->gid_index = table[i].gid_index;
			return 0;
		}
	}
	return FAIL("rxe%u has no GID %s", h->index, want);
}

static int open_device(struct host *h)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	char name[16];
	int i;

	snprintf(name, sizeof(name), "rxe%u", h->index);
	for (i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			h->ctx = ibv_open_device(list[i]);
	if (list)
		ibv_free_device_list(list);
	return h->ctx ? find_gid(h) : FAIL("no device %s", name);
}

static int make_host(struct host *h)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 2 * opts.window + 64,
			.max_recv_wr = opts.window + 1,
			.max_send_sge = 1,
			.max_recv_sge = 1},
		.sq_sig_all = 1,
	};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
				   .port_num = 1,
				   .qp_access_flags =
					   IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE};
	uint64_t i;

	if (open_device(h))
		return -1;
	h->send = aligned_alloc(4096, (opts.bytes + 4095) & ~4095ull);
	h->recv = aligned_alloc(4096, (opts.bytes + 4095) & ~4095ull);
	if (!h->send || !h->recv)
		return FAIL("out of memory");
	for (i = 0; i < opts.bytes / 4; i++)
		h->send[i] = value(h->index, i);
	h->pd = ibv_alloc_pd(h->ctx);
	h->cq = ibv_create_cq(h->ctx, 3 * opts.window + 100, NULL, NULL, 0);
	if (!h->pd || !h->cq)
		return FAIL("rxe%u: %s", h->index, strerror(errno));
	init.send_cq = init.recv_cq = h->cq;
	h->qp = ibv_create_qp(h->pd, &init);
	h->send_mr = ibv_reg_mr(h->pd, h->send, opts.bytes, 0);
	h->recv_mr = ibv_reg_mr(h->pd, h->recv, opts.bytes,
				IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	if (!h->qp || !h->send_mr || !h->recv_mr)
		return FAIL("rxe%u: %s", h->index, strerror(errno));
	if (ibv_modify_qp(h->qp, &attr,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		return FAIL("rxe%u to INIT: %s", h->index, strerror(errno));
	return 0;
}

static uint32_t switch_qpn(const struct host *h)
{
	return 0x100 + opts.communicator * JUDGE_MAX_HOSTS + h->index;
}

static uint32_t psn_of(uint32_t base, const struct host *h)
{
	return (base + 1000 * h->index) & INC_PSN_MASK;
}

/* Prints the communicators in the form of the switch's configuration file, as one line. */
static void print_config(void)
{
	printf("{\"communicators\": [{\"communicator\": %u, \"payload\": %u, \"slots\": %u}], "
	       "\"connections\": [",
	       opts.communicator, opts.payload, opts.slots);
	for (unsigned int i = 0; i < opts.hosts; i++)
		printf("%s{\"up\": false, \"communicator\": %u, \"host_id\": %u, "
		       "\"own_name\": \"p%u\", \"own_ip\": \"10.77.%u.254\", \"own_port\": 4791, "
		       "\"own_qp\": %u, \"own_psn\": %u, \"peer_ip\": \"10.77.%u.1\", "
		       "\"peer_port\": 4791, \"peer_qp\": %u, \"peer_psn\": %u}",
		       i ? ", " : "", opts.communicator, i, i, i, switch_qpn(&hosts[i]),
		       psn_of(opts.result_psn, &hosts[i]), i, hosts[i].qp->qp_num,
		       psn_of(opts.psn, &hosts[i]));
	printf("]}\n");
	fflush(stdout);
}

static int connect_host(struct host *h)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = opts.payload == 256    ? IBV_MTU_256
			    : opts.payload == 512  ? IBV_MTU_512
			    : opts.payload == 1024 ? IBV_MTU_1024
						   : IBV_MTU_2048,
		.dest_qp_num = switch_qpn(h),
		.rq_psn = psn_of(opts.result_psn, h),
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = opts.min_rnr_timer,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.sgid_index = h->gid_index, .hop_limit = 64}},
	};
	uint8_t *gid = attr.ah_attr.grh.dgid.raw;
	char addr[32];

	snprintf(addr, sizeof(addr), "10.77.%u.254", h->index);
	gid[10] = gid[11] = 0xff;
	inet_pton(AF_INET, addr, gid + 12);
	if (ibv_modify_qp(h->qp, &attr,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		return FAIL("rxe%u to RTR: %s", h->index, strerror(errno));
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
				    .timeout = opts.timeout,
				    .retry_cnt = opts.retry_cnt,
				    .rnr_retry = 6,
				    .sq_psn = psn_of(opts.psn, h),
				    .max_rd_atomic = 1};
	if (ibv_modify_qp(h->qp, &attr,
			  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
		return FAIL("rxe%u to RTS: %s", h->index, strerror(errno));
	return 0;
}

static int post_recv(struct host *h)
{
	uint64_t m = h->recvs % messages;
	struct ibv_sge sge = {.addr = (uintptr_t)h->recv + offset_of(m),
			      .length = length_of(m),
			      .lkey = h->recv_mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = h->recvs << 1 | 1,
				 .sg_list = &sge,
				 .num_sge = !opts.write},
			   *bad;
	int ret = ibv_post_recv(h->qp, &wr, &bad);

	if (ret)
		return FAIL("rxe%u: post receive: %s", h->index, strerror(ret));
	h->recvs++;
	return 0;
}

static int post_send(struct host *h)
{
	uint64_t m = h->posted % messages;
	struct ibv_sge sge = {.addr = (uintptr_t)h->send + offset_of(m),
			      .length = length_of(m),
			      .lkey = h->send_mr->lkey};
	struct ibv_send_wr wr = {.wr_id = h->posted << 1, .sg_list = &sge, .num_sge = 1}, *bad;
	int ret;

	wr.imm_data = htonl(INC_DESC(0, 0, 0, 0, h->posted / messages));
	if (opts.write) {
		/* each WRITE has an immediate, because other WRITEs cause no completion at the
		 * target */
		wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
		wr.wr.rdma.remote_addr = (uintptr_t)h->recv + offset_of(m);
		wr.wr.rdma.rkey = h->recv_mr->rkey;
	} else {
		wr.opcode = m ? IBV_WR_SEND : IBV_WR_SEND_WITH_IMM;
	}
	ret = ibv_post_send(h->qp, &wr, &bad);
	if (ret)
		return FAIL("rxe%u: post send: %s", h->index, strerror(ret));
	h->post_ns[h->posted % opts.window] = inc_now_ns();
	h->posted++;
	return 0;
}

static bool recv_due(const struct host *h)
{
	return h->recvs < h->posted &&
	       inc_now_ns() - h->post_ns[h->recvs % opts.window] >= opts.late_us * 1000ull;
}

static uint64_t wrong;

/* Checks the sums of a complete collective, before the next one may overwrite them. */
static void check(struct host *h)
{
	uint64_t i;
	unsigned int k;
	uint32_t sum;

	for (i = 0; i < opts.bytes / 4; i++) {
		for (sum = 0, k = 0; k < opts.hosts; k++)
			sum += value(k, i);
		wrong += h->recv[i] != sum;
	}
	memset(h->recv, 0xee, opts.bytes);
}

static int poll_host(struct host *h)
{
	struct ibv_wc wc[16];
	int i, n = ibv_poll_cq(h->cq, 16, wc);

	for (i = 0; i < n; i++) {
		if (wc[i].status != IBV_WC_SUCCESS)
			return FAIL("host %u: %s, %s %llu", h->index,
				    ibv_wc_status_str(wc[i].status),
				    wc[i].wr_id & 1 ? "receive" : "send",
				    (unsigned long long)(wc[i].wr_id >> 1));
		if (!(wc[i].wr_id & 1)) {
			h->sent++;
			continue;
		}
		if (wc[i].wr_id >> 1 != h->completed ||
		    wc[i].byte_len != length_of(h->completed % messages))
			return FAIL("host %u: receive %llu of %u bytes where %llu of %u is due",
				    h->index, (unsigned long long)(wc[i].wr_id >> 1),
				    wc[i].byte_len, (unsigned long long)h->completed,
				    length_of(h->completed % messages));
		if (++h->completed % messages == 0)
			check(h);
	}
	return n < 0 ? FAIL("host %u: completion queue", h->index) : 0;
}

/* Makes one step of a host. Returns 1 when the host has finished and all its sends are
 * acknowledged. */
static int step(struct host *h, uint64_t total)
{
	uint64_t limit = (h->completed / messages + 1) * messages;
	bool late = opts.late_us && !h->index;

	/* the receive buffer holds one collective, so the next one starts after the check */
	if (limit > total)
		limit = total;
	while (h->posted < limit && h->posted - h->completed < opts.window &&
	       h->posted - h->sent < 2 * opts.window) {
		if (!late && post_recv(h))
			return -1;
		if (post_send(h))
			return -1;
	}
	while (late && recv_due(h))
		if (post_recv(h))
			return -1;
	if (poll_host(h))
		return -1;
	return h->completed == total && h->sent == total;
}

static int run(uint64_t total)
{
	uint64_t deadline = inc_now_ns() + opts.limit_s * 1000000000ull;
	unsigned int i, done;
	int ret;

	do {
		for (done = i = 0; i < opts.hosts; i++) {
			ret = step(&hosts[i], total);
			if (ret < 0)
				return -1;
			done += ret;
		}
		if (inc_now_ns() > deadline)
			return FAIL("not done after %u s: host 0 has %llu of %llu results",
				    opts.limit_s, (unsigned long long)hosts[0].completed,
				    (unsigned long long)total);
	} while (done < opts.hosts);
	return 0;
}

int main(int argc, char **argv)
{
	uint64_t full, started = 0, total;
	unsigned int i;
	char line[16];
	int ret;

	ret = judge_parse(argc, argv, &opts);
	if (ret >= 0)
		return ret;
	ret = 0;
	full = opts.payload * opts.message_packets;
	messages =
		opts.bytes <= opts.payload ? 1 : 1 + (opts.bytes - opts.payload + full - 1) / full;
	total = messages * opts.collectives;
	for (i = 0; i < opts.hosts && !ret; i++) {
		hosts[i].index = i;
		ret = make_host(&hosts[i]);
	}
	if (!ret) {
		print_config();
		ret = fgets(line, sizeof(line), stdin) ? 0 : FAIL("no word to start");
	}
	for (i = 0; i < opts.hosts && !ret; i++)
		ret = connect_host(&hosts[i]);
	started = inc_now_ns();
	if (!ret)
		ret = run(total);
	printf("{\"error\": \"%s\", \"wrong\": %llu, \"messages\": %llu, \"completed\": [", failure,
	       (unsigned long long)wrong, (unsigned long long)total);
	for (i = 0; i < opts.hosts; i++)
		printf("%s%llu", i ? ", " : "", (unsigned long long)hosts[i].completed);
	printf("], \"seconds\": %.3f}\n", (inc_now_ns() - started) / 1e9);
	fflush(stdout);
	/* the program destroys its queue pairs only after it has read a line, because the last ACK
	 * may be lost; the switch then retransmits its result, and the device acknowledges that
	 * without the program */
	if (!ret && !fgets(line, sizeof(line), stdin))
		return 1;
	return ret || wrong ? 1 : 0;
}
