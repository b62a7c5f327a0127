// SPDX-License-Identifier: BSD-2-Clause
/* Passes the messages of members and switches to the core as events (core_peers.h). */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include "selftests/fakes/core_peers.h"

#define PAYLOAD 1024

static void fill_join(const struct core_peers *peers, unsigned int rank, struct inc_msg_join *join)
{
	*join = (struct inc_msg_join){.version = INC_CONTROL_VERSION,
				      .job = "job",
				      .rank = rank,
				      .world_size = PEERS_MEMBERS,
				      .n_addrs = 1,
				      .host = "node"};
	join->addrs[0] = peers->topo->hosts[rank].ip;
}

static void say_join(struct core_peers *peers, struct peers_member *m, unsigned int rank)
{
	struct inc_msg_join join;

	fill_join(peers, rank, &join);
	peers_step(peers, &(struct inc_core_event){
				  .kind = CORE_EVENT_JOIN, .client = &m->client, .join = &join});
}

static void say_ask(struct core_peers *peers, struct peers_member *m, unsigned int rank)
{
	const struct inc_msg_ask ask_for = {.transport = "soft",
					    .own.qpn = 0x100 + rank,
					    .own.psn = 1,
					    .own.udp_port = 5000,
					    .payload = PAYLOAD,
					    .message_packets = 1,
					    .window = 16,
					    .pkey = 0xffff};
	struct inc_err why;

	peers_step(peers, &(struct inc_core_event){.kind = CORE_EVENT_ASK,
						   .client = &m->client,
						   .ask = &ask_for,
						   .why = &why});
}

static void say_resume(struct core_peers *peers, struct peers_member *m, unsigned int rank)
{
	struct inc_msg_resume resume = {.group = m->group, .n_claims = 1};
	struct inc_msg_claim *claim = &resume.claims[0];

	fill_join(peers, rank, &resume.join);
	*claim = (struct inc_msg_claim){.communicator = m->made.communicator,
					.transport = "soft",
					.own.qpn = 0x100 + rank,
					.own.udp_port = 5000,
					.payload = m->made.payload,
					.slots = m->made.slots,
					.mode = m->made.mode,
					.floats = m->made.floats,
					.message_packets = m->made.message_packets,
					.messages = m->made.messages};
	strcpy(claim->node, peers->topo->switches[peers->topo->hosts[rank].sw].name);
	peers_step(peers, &(struct inc_core_event){.kind = CORE_EVENT_RESUME,
						   .client = &m->client,
						   .resume = &resume});
}

void peers_lose(struct core_peers *peers, struct peers_member *m, bool clean)
{
	m->queue.n = 0;
	m->state = MEMBER_GONE;
	peers_step(peers, &(struct inc_core_event){.kind = CORE_EVENT_LEFT,
						   .client = &m->client,
						   .clean = clean,
						   .reason = "closed"});
}

/* Is the member in a group? As in net/member.c, a message that needs a group is refused if the
 * member has none. */
static bool in_group(struct peers_member *m)
{
	if (m->client.member && inc_group_formed(m->client.member->group))
		return true;
	peers_refused(m);
	return false;
}

void peers_member_says(struct core_peers *peers, unsigned int rank)
{
	struct peers_member *m = &peers->members[rank];
	const struct peers_said said = peers_pop(&m->queue);

	switch (said.kind) {
	case SAYS_JOIN:
		say_join(peers, m, rank);
		break;
	case SAYS_RESUME:
		say_resume(peers, m, rank);
		break;
	case SAYS_ASK:
		if (in_group(m))
			say_ask(peers, m, rank);
		break;
	case SAYS_BYE:
		peers_lose(peers, m, true);
		break;
	default:
		if (said.kind == SAYS_DESTROY)
			m->state = MEMBER_DESTROYS;
		if (in_group(m))
			peers_step(peers,
				   &(struct inc_core_event){.kind = said.kind == SAYS_READY
									    ? CORE_EVENT_READY
									    : CORE_EVENT_DESTROY,
							    .client = &m->client,
							    .number = said.number});
		break;
	}
}

static void say_hello(struct core_peers *peers, unsigned int s)
{
	struct inc_msg_hello hello = {
		.version = INC_CONTROL_VERSION,
		.mode = peers->mode,
		.limits = {.children = INC_MAX_CHILDREN, .slots = INC_MAX_SLOTS}};
	const struct inc_topo_switch *own = &peers->topo->switches[s];
	struct inc_msg_port ports[4] = {};

	for (unsigned int p = 0; p < own->n_ports; p++) {
		strcpy(ports[p].name, own->ports[p].name);
		inc_addr_text(own->ports[p].ip, ports[p].ip);
		hello.engines[0].endpoints[p] =
			(struct inc_msg_offer){.payload = 4096, .message_bytes = 65536};
		strcpy(hello.engines[0].endpoints[p].port, own->ports[p].name);
	}
	if (peers->mode == INC_TERMINATION) {
		hello.n_engines = 1;
		hello.engines[0].mode = INC_TERMINATION;
		hello.engines[0].n_endpoints = own->n_ports;
		hello.engines[0].has_limits = true;
		hello.engines[0].limits =
			(struct inc_msg_limits){.children = 64, .slots = INC_MAX_SLOTS};
	}
	peers->switches[s].connected = true;
	peers_step(peers, &(struct inc_core_event){.kind = CORE_EVENT_HELLO,
						   .sw = peers->core.switches[s],
						   .hello = &hello,
						   .from = "a switch",
						   .ports = ports,
						   .n_ports = own->n_ports,
						   .listed = peers->switches[s].has,
						   .n_listed = peers->switches[s].n});
}

/* Fills in the connections that a switch has made as requested. The controller lists them in the
 * order of its tree. */
static void fill_configured(const struct core_peers *peers, unsigned int s, uint32_t number,
			    struct inc_msg_configured *out)
{
	const struct inc_comm *comm = inc_comm_find((struct inc_core *)&peers->core, number);
	const struct inc_tree *tree = comm ? comm->tree : NULL;
	const int n = tree ? inc_tree_find(tree, s) : -1;
	const struct inc_tree_node *node = n < 0 ? NULL : &tree->nodes[n];

	*out = (struct inc_msg_configured){.communicator = number};
	for (unsigned int i = 0; node && i < node->n_children; i++) {
		const struct inc_tree_child *child = &tree->children[node->first_child + i];

		out->conn[out->n_conns++] = (struct inc_msg_own){
			.rank = child->to_switch ? tree->nodes[child->node].first_rank
						 : child->rank,
			.own.qpn = 0x1000 + i,
			.own.psn = 7,
			.own.udp_port = 6000 + i};
	}
	if (node && node->parent >= 0)
		out->conn[out->n_conns++] = (struct inc_msg_own){.rank = node->first_rank,
								 .up = true,
								 .own.qpn = 0x2000,
								 .own.psn = 7,
								 .own.udp_port = 7000};
}

static void answer(struct core_peers *peers, unsigned int s, struct peers_said said, int code)
{
	static struct inc_msg_configured configured;
	const struct inc_msg_number number = {said.number};
	const struct inc_msg_tally results = {.communicator = said.number};
	struct inc_core_event event = {.kind = CORE_EVENT_ANSWER,
				       .sw = peers->core.switches[s],
				       .asked = said.asked,
				       .of = said.number,
				       .code = code,
				       .text = code ? "connection lost" : ""};

	if (said.asked == ASKED_CONFIGURE) {
		fill_configured(peers, s, said.number, &configured);
		event.configured = &configured;
	} else if (said.asked == ASKED_CONNECT) {
		event.connected = &number;
	} else if (said.asked == ASKED_RESULTS && peers_has(&peers->switches[s], said.number)) {
		event.results = &results;
	}
	peers_step(peers, &event);
}

void peers_switch_says(struct core_peers *peers, unsigned int s)
{
	const struct peers_said said = peers_pop(&peers->switches[s].queue);

	if (said.kind == SAYS_HELLO)
		say_hello(peers, s);
	else
		answer(peers, s, said, 0);
}

/* Breaks the connection of a switch. The switch does not answer its pending requests, and connects
 * again. */
void peers_cut(struct core_peers *peers, unsigned int s, enum peers_what how)
{
	struct peers_switch *sw = &peers->switches[s];
	struct peers_queue lost = sw->queue;

	sw->connected = false;
	sw->queue = (struct peers_queue){.n = 1, .said = {{.kind = SAYS_HELLO}}};
	if (how == PEERS_CRASH)
		sw->n = 0;
	peers_step(peers, &(struct inc_core_event){.kind = CORE_EVENT_SWITCH_LOST,
						   .sw = peers->core.switches[s],
						   .renews = how == PEERS_RENEW});
	while (lost.n)
		answer(peers, s, peers_pop(&lost), ECONNRESET);
}
