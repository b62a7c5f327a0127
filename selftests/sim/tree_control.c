// SPDX-License-Identifier: BSD-2-Clause
/* Replaces hostlib/src/control.c: a controller in the same process as all ranks, which answers as
 * the real one and never fails. The library calls it in a rank's task. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "lib/base/pow2.h"
#include "sim.h"
#include "tree_priv.h"

/* Queue pair numbers of the switches in a communicator. The first numbers are those of ports with
 * hosts. Then come those of cables between switches, where the lower end precedes the upper end. */
#define QPNS             32
#define FIRST_QPN(life)  (INC_MIN_QPN + QPNS * (life))
#define SWITCH_QPN(life) (FIRST_QPN(life) + XDP_PORTS)

#define REMOVE_MOST_NS (5 * INC_NSEC_PER_MSEC)

#define COMMUNICATOR 7 /* the number of the first communicator */

unsigned int tree_life_of(uint32_t communicator)
{
	return communicator - COMMUNICATOR;
}

uint32_t tree_number_of(unsigned int life)
{
	return COMMUNICATOR + life;
}

unsigned int tree_life_of_qpn(uint32_t qpn)
{
	return (qpn - INC_MIN_QPN) / QPNS;
}

static uint32_t draw_psn(void)
{
	return sim_chance(500) ? INC_PSN_MASK - sim_below(64) : sim_below(1 << 24);
}

static void describe_port(const struct daemon_port *port, struct inc_conn_conf *c)
{
	c->own.ip = tree_port_addr(port);
	c->own.udp_port = INC_ROCE_UDP_PORT;
	snprintf(c->port, sizeof(c->port), "p%u", port->port);
	tree_port_mac(port, c->own_mac);
}

static void describe_host(const struct tree_rank *rank, unsigned int life, struct inc_conn_conf *c)
{
	*c = (struct inc_conn_conf){
		.rank = rank->number,
		.own.qpn = FIRST_QPN(life) + rank->port.port,
		.has_own_psn = true,
		.own.psn = draw_psn(),
		.peer.ip = rank->host.addr,
		.peer.udp_port = rank->asked.own.udp_port,
		.peer.qpn = rank->asked.own.qpn,
		.has_peer_psn = true,
		.peer.psn = rank->asked.own.psn,
		.pkey = rank->asked.pkey,
		.udp_csum = rank->asked.udp_csum,
	};
	describe_port(&rank->port, c);
}

static bool is_below(const struct tree_switch *sw, const struct tree_switch *top)
{
	while (sw && sw != top)
		sw = sw->parent;
	return sw;
}

static void ranks_below(const struct tree_switch *sw, struct inc_ranks *ranks)
{
	unsigned int r;

	*ranks = (struct inc_ranks){};
	for (r = 0; r < tree.n_ranks; r++)
		if (is_below(tree.rank[r].at, sw))
			inc_ranks_add(ranks, r);
}

/* Describes the connection between a switch and its parent, as seen by the switch (up) or by the
 * parent. */
static void describe_cable(const struct tree_switch *sw, bool up, unsigned int life,
			   struct inc_conn_conf *c)
{
	const struct daemon_port *own = up ? &sw->port : &sw->there;
	const struct daemon_port *peer = up ? &sw->there : &sw->port;

	*c = (struct inc_conn_conf){
		.up = up,
		.has_ranks = !up,
		.own.qpn = SWITCH_QPN(life) + 2 * sw->number + !up,
		.has_own_psn = true,
		.own.psn = up ? sw->up_psn : sw->down_psn,
		.peer.ip = tree_port_addr(peer),
		.peer.udp_port = INC_ROCE_UDP_PORT,
		.peer.qpn = SWITCH_QPN(life) + 2 * sw->number + up,
		.has_peer_psn = true,
		.peer.psn = up ? sw->down_psn : sw->up_psn,
		.pkey = INC_PKEY_DEFAULT,
		.has_peer_mac = sw->macs_known,
	};
	ranks_below(sw, &c->ranks);
	c->rank = inc_ranks_next(&c->ranks, 0);
	if (sw->macs_known)
		tree_port_mac(peer, c->peer_mac);
	describe_port(own, c);
}

static void make_at(struct tree_switch *sw, unsigned int life)
{
	static struct inc_comm_conf conf;
	unsigned int i;

	conf = (struct inc_comm_conf){.communicator = tree_number_of(life),
				      .mode = sw->mode,
				      .root = !sw->parent,
				      .slots = tree.slots,
				      .message_packets = tree.message_packets,
				      .messages = tree.messages,
				      .floats = tree.floats};
	conf.payload = tree.rank[0].asked.payload;
	for (i = 0; i < tree.n_ranks; i++) {
		struct tree_rank *rank = &tree.rank[i];

		if (rank->at != sw)
			continue;
		describe_host(rank, life, &rank->made[life % tree.n_comms]);
		conf.conn[conf.n_conns++] = rank->made[life % tree.n_comms];
	}
	for (i = 0; i < tree.n_switches; i++)
		if (tree.sw[i].parent == sw)
			describe_cable(&tree.sw[i], false, life, &conf.conn[conf.n_conns++]);
	if (sw->parent)
		describe_cable(sw, true, life, &conf.conn[conf.n_conns++]);
	if (sw->mode == INC_TERMINATION)
		tree_term_add(sw, life, &conf);
	else
		sw->comm[sw->n_comms++] = daemon_add(&sw->daemon, &conf);
}

/* Does this switch, in passthrough mode, send packets to a parent in termination mode? */
static bool sends_packets_up(const struct tree_switch *sw)
{
	return sw->parent && sw->mode == INC_PASSTHROUGH && sw->parent->mode == INC_TERMINATION;
}

/* Negotiates the mode and message size, as controller/core/comm_mode.c does. */
static void agree(void)
{
	uint32_t most = 0, least = UINT32_MAX, i;

	for (i = 0; i < tree.n_ranks; i++) {
		most = tree.rank[i].asked.window > most ? tree.rank[i].asked.window : most;
		least = tree.rank[i].asked.window < least ? tree.rank[i].asked.window : least;
	}
	tree.slots = tree_slots(most);
	if (tree.mode == INC_TREE_PASSTHROUGH)
		return;
	tree.message_packets = tree.opts.message_packets;
	for (i = 0; i < tree.n_switches; i++)
		if (sends_packets_up(&tree.sw[i]))
			tree.message_packets = 1;
	tree.messages = inc_pow2_down(tree.slots / tree.message_packets);
	if (tree.mode == INC_TREE_MIXED)
		return;
	tree.messages = inc_pow2_down(least);
	tree.slots = inc_pow2_up(tree.messages * tree.message_packets);
}

static void make(unsigned int life)
{
	unsigned int i;

	for (i = 0; i < tree.n_switches; i++)
		tree_look_at_ports(&tree.sw[i]);
	agree();
	for (i = 1; i < tree.n_switches; i++) {
		tree.sw[i].up_psn = draw_psn();
		tree.sw[i].down_psn = draw_psn();
	}
	for (i = 0; i < tree.n_switches; i++)
		make_at(&tree.sw[i], life);
	tree.life[life].made = true;
	tree_wake_ranks();
}

void tree_make_if_asked(void)
{
	unsigned int i;

	for (i = 0; i < ROUNDS_MOST * tree.n_comms; i++)
		if (!tree.life[i].made && tree.life[i].asked == tree.n_ranks &&
		    tree_switches_are_there())
			make(i);
}

static void answer(const struct tree_rank *rank, unsigned int life, struct inc_msg_made *made)
{
	const struct inc_conn_conf *conn = &rank->made[life % tree.n_comms];

	*made = (struct inc_msg_made){.communicator = tree_number_of(life),
				      .payload = tree.rank[0].asked.payload,
				      .slots = tree.slots,
				      .mode = tree.mode,
				      .message_packets = tree.message_packets,
				      .messages = tree.messages,
				      .floats = tree.floats,
				      .tree = "simulated"};
	made->connection = (struct inc_msg_endpoint){.own.ip = rank->host.addr, .peer = conn->own};
	snprintf(made->connection.node, sizeof(made->connection.node), "%s",
		 rank->at->daemon.process.name);
}

static void wait_until_made(struct tree_rank *rank, struct tree_life *life)
{
	life->asked++;
	tree_make_if_asked();
	rank->waits = task_self();
	while (!life->made)
		task_sleep();
	rank->waits = NULL;
}

static void remove_at(void *sw, uint64_t life)
{
	tree_term_remove(sw, life);
	tree.removing--;
	tree_make_if_asked();
}

/* The switches that still exist keep the communicator until its last rank has destroyed it. They
 * may receive the removal at different times. */
static void destroyed(unsigned int life)
{
	unsigned int i;

	if (++tree.life[life].destroyed < tree.n_ranks)
		return;
	for (i = 0; i < tree.n_switches; i++) {
		if (tree.sw[i].mode != INC_TERMINATION)
			continue;
		tree.removing++;
		sim_after(sim_between(0, REMOVE_MOST_NS), remove_at, &tree.sw[i], life);
	}
}

int inccl_control_call(struct inccl_group *group, enum inc_message_id id, const void *said,
		       struct control_wait *wait, struct inccl_limit *limit, struct inc_err *err)
{
	struct tree_rank *rank = &tree.rank[group->rank];
	struct tree_life *life;

	switch (id) {
	case INC_MSG_ASK:
		rank->asked = *(const struct inc_msg_ask *)said;
		wait_until_made(rank, &tree.life[rank->asked.comm]);
		answer(rank, rank->asked.comm, &wait->answer.made);
		return 0;
	case INC_MSG_READY:
		life = &tree.life[tree_life_of(
			((const struct inc_msg_number *)said)->communicator)];
		tree_meet(rank, &life->ready, life);
		wait->refused = life->told[0];
		return wait->refused ? inc_err_set(err, ENETRESET, "%s", life->told) : 0;
	case INC_MSG_DESTROY:
		destroyed(tree_life_of(((const struct inc_msg_number *)said)->communicator));
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
	const unsigned int life = tree_life_of(comm->number);

	if (comm->report != REPORT_DUE)
		return;
	if (!tree.life[life].told[0])
		tree_check_reason(&tree.rank[group->rank], life, comm->error_text);
	tree_report_failure(life, comm->error_text);
}

void inccl_control_report_creation(struct inccl_group *group, long long index, long long number,
				   int error, const char *text)
{
	if (number >= 0)
		destroyed(tree_life_of(number));
}
