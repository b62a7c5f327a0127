// SPDX-License-Identifier: BSD-2-Clause
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include "sim.h"
#include "star_priv.h"

#define CREATE_NS (60 * INC_NSEC_PER_SEC)

const struct inccl_transport *const inccl_transports[] = {&inccl_soft, NULL};

static void on_log(void *ctx, const char *line)
{
	if (sim_tracing())
		printf("%12s     %-6s %s\n", "", ((struct star_rank *)ctx)->host.process.name,
		       line);
}

static void think(uint64_t ns)
{
	const struct timespec ts = {.tv_sec = ns / INC_NSEC_PER_SEC,
				    .tv_nsec = ns % INC_NSEC_PER_SEC};

	ppoll(NULL, 0, &ts, NULL);
}

/* --- the calls --- */

static void begin(struct star_rank *rank, unsigned int i)
{
	const struct star_call *call = &star.call[i];
	const struct inccl_collective_opts opts = {.sz = sizeof(opts), .mode = call->mode};
	int ret;

	if (sim_chance(200))
		think(sim_between(0, sim_chance(100) ? 30 * INC_NSEC_PER_MSEC : 100000));
	sim_note(rank->host.process.name, "calls", i, call->bytes, 0);
	ret = inccl_allreduce_start(rank->comm, rank->call[i].send, rank->call[i].recv, call->count,
				    call->dtype, call->op, &opts, &rank->call[i].request);
	sim_require(!ret, "rank %u, call %u: %s", rank->number, i, strerror(-ret));
}

static void end(struct star_rank *rank, unsigned int i)
{
	int ret = inccl_wait(rank->call[i].request, -1);
	const char *why = inccl_communicator_error(rank->comm);

	sim_require(!ret, "rank %u, call %u: %s (%s)", rank->number, i, strerror(-ret),
		    why ?: "no reason");
	sim_note(rank->host.process.name, "has its result of call", i, 0, 0);
	star_check_result(rank, i);
}

/* The last one wakes the others. */
static void meet(struct star_rank *rank, unsigned int *count)
{
	unsigned int i;

	if (++*count < star.n_ranks) {
		rank->waits = task_self();
		while (*count < star.n_ranks)
			task_sleep();
		rank->waits = NULL;
		return;
	}
	for (i = 0; i < star.n_ranks; i++)
		if (star.rank[i].waits)
			task_wake(star.rank[i].waits);
}

void star_rank_run(void *arg)
{
	struct star_rank *rank = arg;
	struct inc_err err = {""};
	unsigned int i;
	int ret;

	ret = inccl_group_new("job", rank->number, star.n_ranks, on_log, rank, &rank->group);
	sim_require(!ret, "no group: %s", strerror(-ret));
	rank->group->addr = rank->host.addr;
	ret = inccl_comm_create(rank->group, 0, &star.opts, sim_now_ns() + CREATE_NS, &rank->comm,
				&err);
	sim_require(!ret, "rank %u: no communicator: %s", rank->number, err.msg);
	for (i = 0; i < star.n_calls + star.at_once; i++) {
		if (i >= star.at_once && i - star.at_once < star.n_calls)
			end(rank, i - star.at_once);
		if (i < star.n_calls)
			begin(rank, i);
	}
	meet(rank, &star.finished);
	ret = inccl_communicator_destroy(rank->comm);
	sim_require(!ret, "rank %u: the communicator's end: %s", rank->number, strerror(-ret));
	inccl_group_destroy(rank->group);
}

/* --- the controller, which is where all ranks are, and loses nothing --- */

static void describe_conn(const struct star_rank *rank, struct inc_conn_conf *c)
{
	*c = (struct inc_conn_conf){
		.rank = rank->number,
		.own_ip.s_addr = htonl(STAR_SWITCH_ADDR),
		.own_port = INC_ROCE_UDP_PORT,
		.own_qp = INC_MIN_QPN + rank->number,
		.own_psn = sim_chance(500) ? INC_PSN_MASK - sim_below(64) : sim_below(1 << 24),
		.peer_ip.s_addr = rank->host.addr,
		.peer_port = rank->asked.udp_port,
		.peer_qp = rank->asked.qpn,
		.peer_psn = rank->asked.psn,
		.pkey = rank->asked.pkey,
		.udp_csum = rank->asked.udp_csum,
	};
	snprintf(c->port, sizeof(c->port), "p%u", rank->number);
	memcpy(c->own_mac, rank->host.gateway, sizeof(c->own_mac));
}

static void make(void)
{
	static struct inc_comm_conf conf;
	uint32_t window = 0, i;

	conf = (struct inc_comm_conf){.communicator = 7, .root = true, .n_conns = star.n_ranks};
	conf.payload = star.rank[0].asked.payload;
	for (i = 0; i < star.n_ranks; i++) {
		describe_conn(&star.rank[i], &conf.conn[i]);
		if (star.rank[i].asked.window > window)
			window = star.rank[i].asked.window;
	}
	for (conf.slots = 1; conf.slots < window * star.opts.message_packets; conf.slots *= 2)
		;
	star.comm = daemon_add(&star.daemon, &conf);
}

static void answer(const struct star_rank *rank, struct inc_msg_made *made)
{
	const struct inc_switch *sw = xdp_switch(star.daemon.xdp);
	const struct inc_comm_cfg *cfg = inc_switch_comm(sw, star.comm);
	const struct inc_conn_cfg *conn = inc_switch_conn(sw, cfg->conn_base + rank->number);

	*made = (struct inc_msg_made){.communicator = cfg->communicator,
				      .payload = cfg->payload,
				      .slots = 1u << cfg->log2_slots,
				      .mode = INC_TREE_PASSTHROUGH,
				      .tree = "s0"};
	made->connection = (struct inc_msg_endpoint){.node = "s0",
						     .peer_ip.s_addr = conn->own_addr,
						     .peer_port = INC_ROCE_UDP_PORT,
						     .peer_qp = conn->own_qpn,
						     .peer_psn = conn->tx_start_psn,
						     .my_ip.s_addr = rank->host.addr};
}

int inccl_control_call(struct inccl_group *group, enum inc_message_id id, const void *said,
		       struct control_wait *wait, uint64_t deadline_ns, struct inc_err *err)
{
	struct star_rank *rank = &star.rank[group->rank];

	switch (id) {
	case INC_MSG_ASK:
		rank->asked = *(const struct inc_msg_ask *)said;
		if (star.asked + 1 == star.n_ranks)
			make();
		meet(rank, &star.asked);
		answer(rank, &wait->answer.made);
		return 0;
	case INC_MSG_READY:
		meet(rank, &star.ready);
		return 0;
	case INC_MSG_DESTROY:
		return 0;
	default:
		sim_fail("rank %d says message %d", group->rank, id);
	}
}

int inccl_control_send(struct inccl_group *group, enum inc_message_id id, const void *said)
{
	return 0;
}

int inccl_control_connect(struct inccl_group *group, const struct inccl_place *place,
			  unsigned int timeout_ms, struct inc_err *err)
{
	return -ENOTSUP;
}

int inccl_control_start(struct inccl_group *group)
{
	return -ENOTSUP;
}

void inccl_control_stop(struct inccl_group *group)
{
}

void inccl_control_bye(struct inccl_group *group)
{
}

void inccl_control_report(struct inccl_group *group, struct inccl_communicator *comm)
{
}

void inccl_control_report_creation(struct inccl_group *group, long long index, long long number,
				   int error, const char *text)
{
}
