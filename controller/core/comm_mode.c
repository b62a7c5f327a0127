/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The negotiation of a communicator: the largest messages, windows and the form of floats that all
 * switches of its tree and all members support. It is called by comm_config.c when all members have
 * asked, and again when there is a tree.
 */
#include <errno.h>
#include <stdio.h>
#include "lib/base/numbers.h"
#include "lib/base/printable.h"
#include "controller/core/admission.h"
#include "controller/core/comm.h"
#include "controller/core/comm_config.h"
#include "controller/core/core.h"
#include "controller/core/group.h"
#include "controller/core/switch.h"
#include "lib/proto/roce.h"
#include "lib/roce/segments.h"

/* Number of messages in a window, if members leave the size of messages to the controller and
 * messages are short. The number is small, because a switch needs as much memory for a short
 * message as for a long one. */
#define SUITABLE_MESSAGES 16

/* If no member asks for a number of channels, a communicator gets SUITABLE_CHANNELS at most, and
 * one for each CHANNEL_CPUS CPUs of its switches. So half of the CPUs are left for the kernel and
 * for other jobs. */
#define SUITABLE_CHANNELS 4
#define CHANNEL_CPUS      2

/* Returns the number of slots that a member's window needs on a passthrough switch. */
static unsigned int packets_of(const struct inc_comm_member *m)
{
	return m->window_messages *
	       inc_min(m->message_packets ?: 1, INC_MAX_PASSTHROUGH_MESSAGE_PACKETS);
}

void inc_comm_choose_slots(struct inc_comm *comm)
{
	unsigned int packets = 1;

	for (unsigned int rank = 0; rank < comm->group->world_size; rank++) {
		if (packets < packets_of(&comm->members[rank]))
			packets = packets_of(&comm->members[rank]);
	}
	comm->slots = inc_pow2_up(inc_min(packets, INC_MAX_SLOTS));
}

/* Checks that a port of a switch in termination mode has an endpoint, because connections end
 * there. Returns 0 or -EOPNOTSUPP. */
static int check_port(const struct inc_core_switch *sw, unsigned int port, struct inc_err *err)
{
	char lack[INC_SWITCH_LACK];

	for (unsigned int kind = 0; kind < INC_N_ENDPOINT_KINDS; kind++) {
		if (sw->ports[port].payload[kind])
			return 0;
	}
	inc_switch_print_lack(sw, port, lack, sizeof(lack));
	return inc_err_set(err, EOPNOTSUPP,
			   "switch %s: port %s has no endpoint, which termination mode needs: %s",
			   inc_switch_name(sw),
			   sw->core->topo->switches[sw->index].ports[port].name, lack);
}

unsigned int inc_comm_overhead(const struct inc_comm *comm)
{
	const struct inc_topology *topo = comm->group->core->topo;
	unsigned int most = INC_MAX_OVERHEAD;

	for (unsigned int n = 0; n < comm->tree->n; n++) {
		const struct inc_tree_node *node = &comm->tree->nodes[n];
		const struct inc_topo_port *ports = topo->switches[node->sw].ports;

		if (node->parent >= 0)
			most = inc_max(most, inc_roce_overhead(ports[node->up_port].ip));
		for (unsigned int i = 0; i < node->n_children; i++) {
			const unsigned int port = comm->tree->children[node->first_child + i].port;

			most = inc_max(most, inc_roce_overhead(ports[port].ip));
		}
	}
	return most;
}

/* Refuses an IPv6 connection of a switch in passthrough mode. host: NULL if the port leads to a
 * switch. */
static int check_family(const struct inc_core_switch *sw, unsigned int port,
			const struct inc_topo_host *host, struct inc_err *err)
{
	const struct inc_topo_port *at = &sw->core->topo->switches[sw->index].ports[port];
	const char *name = inc_switch_name(sw);
	char ip[INC_ADDR_TEXT];

	if (inc_addr_is_ipv4(at->ip))
		return 0;
	return inc_err_set(err, EAFNOSUPPORT,
			   "switch %s: port %s, which leads to %s, has the IPv6 address %s, and "
			   "passthrough mode reduces IPv4 alone: incctl mode %s termination",
			   name, at->name, host ? host->name : "another switch",
			   inc_addr_text(at->ip, ip), name);
}

static int check_families(const struct inc_comm *comm, const struct inc_tree_node *node,
			  struct inc_err *err)
{
	const struct inc_core_switch *sw = inc_comm_switch(comm, node);
	const struct inc_topology *topo = sw->core->topo;
	int ret = node->parent >= 0 ? check_family(sw, node->up_port, NULL, err) : 0;

	for (unsigned int i = 0; !ret && i < node->n_children; i++) {
		const struct inc_tree_child *child = &comm->tree->children[node->first_child + i];

		ret = check_family(sw, child->port,
				   child->to_switch ? NULL : &topo->hosts[child->host], err);
	}
	return ret;
}

int inc_comm_check_node(const struct inc_comm *comm, unsigned int n, enum inc_mode_of_switch mode,
			struct inc_err *err)
{
	const struct inc_tree_node *node = &comm->tree->nodes[n];
	const struct inc_core_switch *sw = inc_comm_switch(comm, &comm->tree->nodes[n]);
	int ret = inc_switch_can(sw, mode, err);

	if (ret)
		return ret;
	if (mode == INC_PASSTHROUGH)
		return check_families(comm, node, err);
	for (unsigned int i = 0; !ret && i < node->n_children; i++)
		ret = check_port(sw, comm->tree->children[node->first_child + i].port, err);
	if (!ret && node->parent >= 0)
		ret = check_port(sw, node->up_port, err);
	return ret;
}

static void choose_mode(struct inc_comm *comm)
{
	unsigned int ending = 0;

	for (unsigned int n = 0; n < comm->tree->n; n++)
		ending += comm->tree->nodes[n].mode == INC_TERMINATION;
	comm->mode = !ending                   ? INC_TREE_PASSTHROUGH
		     : ending == comm->tree->n ? INC_TREE_TERMINATION
					       : INC_TREE_MIXED;
}

static bool members_send_floats(const struct inc_comm *comm)
{
	for (unsigned int rank = 0; rank < comm->group->world_size; rank++) {
		if (!inc_group_is_led(comm->group, rank) &&
		    comm->members[rank].floats != INC_FLOATS_NATIVE)
			return false;
	}
	return true;
}

/* Chooses the form of floats. They are sent natively if all switches and members support that,
 * which a passthrough switch never does. */
static void choose_floats(struct inc_comm *comm)
{
	comm->floats = members_send_floats(comm) ? INC_FLOATS_NATIVE : INC_FLOATS_FIXED;
	for (unsigned int n = 0; n < comm->tree->n; n++) {
		if (!inc_comm_switch(comm, &comm->tree->nodes[n])
			     ->engines[comm->tree->nodes[n].mode]
			     .floats)
			comm->floats = INC_FLOATS_FIXED;
	}
}

/* Whether all switches of the tree could make the communicator in this mode. floats: and add floats
 * natively. */
static bool all_can(const struct inc_comm *comm, enum inc_mode_of_switch mode, bool floats)
{
	struct inc_err why;

	for (unsigned int n = 0; n < comm->tree->n; n++) {
		if (inc_comm_check_node(comm, n, mode, &why) ||
		    (floats && !inc_comm_switch(comm, &comm->tree->nodes[n])->engines[mode].floats))
			return false;
	}
	return true;
}

/* Prints the command that puts the switches of the tree that are in another mode into this one.
 * Switches with INC_AUTO follow the others. If there is no such switch, buf keeps its text. */
static void print_command(const struct inc_comm *comm, enum inc_mode_of_switch mode, char *buf,
			  size_t size)
{
	struct inc_list list = {.buf = buf, .size = size};

	for (unsigned int n = 0; n < comm->tree->n; n++) {
		const struct inc_tree_node *node = &comm->tree->nodes[n];
		const struct inc_core_switch *sw = inc_comm_switch(comm, node);

		if (node->mode == mode || inc_switch_setting(sw) == INC_AUTO)
			continue;
		if (list.used)
			inc_list_add(&list, "the same for %s", inc_switch_name(sw));
		else
			inc_list_add(&list, "incctl mode %s %s", inc_switch_name(sw),
				     inc_modes_of_switch[mode]);
	}
}

/* Whether the controller has chosen the mode of all switches of the tree. */
static bool all_auto(const struct inc_comm *comm)
{
	for (unsigned int n = 0; n < comm->tree->n; n++) {
		if (inc_switch_setting(inc_comm_switch(comm, &comm->tree->nodes[n])) != INC_AUTO)
			return false;
	}
	return true;
}

bool inc_comm_find_slow(const struct inc_comm *comm, struct inc_msg_made *made)
{
	const bool mixed = comm->mode == INC_TREE_MIXED;
	const bool ends = all_can(comm, INC_TERMINATION, false);
	char command[200] = "no mode is known to all of them";

	if (mixed && (ends || all_can(comm, INC_PASSTHROUGH, false)))
		print_command(comm, ends ? INC_TERMINATION : INC_PASSTHROUGH, command,
			      sizeof(command));
	if (mixed)
		snprintf(made->slow, sizeof(made->slow),
			 "the switches of the tree have different modes, so messages have at most "
			 "%u packet%s, and floats are added as integers, in two passes%s: %s",
			 comm->message_packets, comm->message_packets == 1 ? "" : "s",
			 ends ? "; termination mode is 2.5 to 3 times as quick at 16 MiB "
				"(docs/modes.md)"
			      : "",
			 command);
	if (mixed || comm->mode == INC_TREE_TERMINATION || !members_send_floats(comm) ||
	    !all_can(comm, INC_TERMINATION, true))
		return mixed;
	/* The controller has chosen the mode of all switches, and knew of the floats, so there is
	 * nothing to advise. */
	if (all_auto(comm) && inc_comm_uses_floats(comm))
		return false;
	if (all_auto(comm))
		snprintf(command, sizeof(command), "name the type and size in INCCL_USE");
	else
		print_command(comm, INC_TERMINATION, command, sizeof(command));
	made->slow_floats = true;
	snprintf(
		made->slow, sizeof(made->slow),
		"floats are added as integers, in two passes; termination mode is 1.9 to 2.8 times "
		"as quick for 16 MiB of float32 (docs/modes.md): %s",
		command);
	return true;
}

/* Returns the largest payload that the member can use in the communicator's tree. */
static unsigned int most_of(const struct inc_comm *comm, unsigned int rank)
{
	const struct inc_comm_member *m = &comm->members[rank];

	return comm->mode == INC_TREE_TERMINATION ? m->termination_payload : m->payload;
}

/* Returns how many bytes a packet of the rank's connection has besides its payload. */
static unsigned int overhead_of(const struct inc_comm *comm, unsigned int rank)
{
	return inc_roce_overhead(comm->group->core->topo->hosts[comm->members[rank].route.host].ip);
}

bool inc_comm_find_narrow(const struct inc_comm *comm, char *buf, size_t size)
{
	unsigned int least = 0, wide = 0, need;

	/* rank 0 is always a leader */
	for (unsigned int rank = 1; rank < comm->group->world_size; rank++) {
		if (inc_group_is_led(comm->group, rank))
			continue;
		if (most_of(comm, rank) < most_of(comm, least))
			least = rank;
		if (most_of(comm, rank) > most_of(comm, wide))
			wide = rank;
	}
	if (most_of(comm, least) != comm->payload || most_of(comm, wide) == comm->payload)
		return false;
	need = most_of(comm, wide) + overhead_of(comm, least);
	snprintf(
		buf, size,
		"payload %u and not %u, because %s cannot use more: its NIC, or a route there, has "
		"an MTU below %u (ip link set dev NIC mtu %u), or it asks for this payload",
		comm->payload, most_of(comm, wide), inc_member_name(&comm->group->members[least]),
		need, need);
	return true;
}

/* Decides whether the switch keeps contributions that arrive ahead of a gap. It does so only in a
 * tree of one switch, because a partial sum must not overtake another one. All members must accept
 * results in any order. Messages must have one packet, because the switch keeps whole messages
 * only. */
static void choose_reorder(struct inc_comm *comm)
{
	comm->reorder =
		comm->mode == INC_TREE_PASSTHROUGH && comm->tree->n == 1 &&
		comm->message_packets == 1 &&
		inc_comm_switch(comm, &comm->tree->nodes[0])->engines[INC_PASSTHROUGH].reorder;
	for (unsigned int rank = 0; rank < comm->group->world_size; rank++)
		comm->reorder &= comm->members[rank].reorder || inc_group_is_led(comm->group, rank);
}

/* Offers members that the switch answers probes, so that they need request no ACKs. In a tree of
 * several switches there is no offer. There a child switch's partial sum requests an ACK only if a
 * contribution did. So without requests the child switch would resend the sum while its parent
 * waits for a late rank. */
void inc_comm_offer_probes(const struct inc_comm *comm, struct inc_msg_made *made)
{
	const struct inc_core_engine *engine =
		&inc_comm_switch(comm, &comm->tree->nodes[0])->engines[INC_PASSTHROUGH];

	made->probes = comm->mode == INC_TREE_PASSTHROUGH && comm->tree->n == 1 && engine->probes;
	made->rto_min_ms = made->probes ? engine->rto_min_ms : 0;
}

/* Returns the size of the largest message that all endpoints of a switch's port accept. */
static unsigned int port_bytes(const struct inc_core_switch *sw, unsigned int port)
{
	unsigned int bytes = UINT32_MAX;

	for (unsigned int kind = 0; kind < INC_N_ENDPOINT_KINDS; kind++)
		bytes = inc_min(bytes, sw->ports[port].message_bytes[kind] ?: UINT32_MAX);
	return bytes;
}

/* Returns whether the node's switch may receive only messages of one packet. A passthrough switch
 * accepts a partial sum in network byte order only from a packet that names this order, and a
 * device names it only in the last packet of a message. */
static bool takes_last_packets_only(const struct inc_comm *comm, const struct inc_tree_node *node)
{
	const struct inc_tree_child *child = &comm->tree->children[node->first_child];

	for (unsigned int i = 0; i < node->n_children; i++) {
		if (child[i].to_switch && comm->tree->nodes[child[i].node].mode == INC_TERMINATION)
			return comm->byte_order == INC_ORDER_NETWORK;
	}
	return false;
}

/* Returns how many packets a message to the switch of a node may have. */
static unsigned int most_packets(const struct inc_comm *comm, unsigned int n)
{
	const struct inc_tree_node *node = &comm->tree->nodes[n];
	const struct inc_core_switch *sw = inc_comm_switch(comm, &comm->tree->nodes[n]);
	unsigned int bytes = INC_MAX_MESSAGE_BYTES;

	if (node->mode == INC_PASSTHROUGH)
		return takes_last_packets_only(comm, node) ? 1
							   : INC_MAX_PASSTHROUGH_MESSAGE_PACKETS;
	bytes = inc_min(bytes, sw->engines[INC_TERMINATION].limits.message_bytes ?: bytes);
	for (unsigned int i = 0; i < node->n_children; i++) {
		const struct inc_tree_child *child = &comm->tree->children[node->first_child + i];

		/* a passthrough switch sends partial sums to its parent as messages of one
		 * packet */
		if (child->to_switch && comm->tree->nodes[child->node].mode == INC_PASSTHROUGH)
			return 1;
		bytes = inc_min(bytes, port_bytes(sw, child->port));
	}
	if (node->parent >= 0)
		bytes = inc_min(bytes, port_bytes(sw, node->up_port));
	return inc_min(bytes / comm->payload ?: 1, INC_MAX_MESSAGE_PACKETS);
}

static void choose_message(struct inc_comm *comm)
{
	/* rank 0 is always a leader, and comm.c has checked that all leaders want the same
	 * number */
	const unsigned int asked = comm->members[0].message_packets;

	comm->message_packets = asked ?: 1;
	/* Messages become as large as a soft endpoint can send with one system call. */
	if (!asked && comm->mode == INC_TREE_TERMINATION)
		comm->message_packets =
			inc_segments_most(INC_BTH_LEN + comm->payload + INC_ICRC_LEN);
	for (unsigned int n = 0; n < comm->tree->n; n++)
		comm->message_packets = inc_min(comm->message_packets, most_packets(comm, n));
}

/* Checks the windows in passthrough and mixed trees, where each member has the window that it asked
 * for. A switch has slots for the largest of them. Returns 0, or -EINVAL if a window needs too many
 * slots. */
static int check_windows(struct inc_comm *comm, struct inc_err *err)
{
	for (unsigned int rank = 0; rank < comm->group->world_size; rank++) {
		const struct inc_comm_member *m = &comm->members[rank];

		if (packets_of(m) > INC_MAX_SLOTS)
			return inc_err_set(err, EINVAL,
					   "rank %u: a window of %u messages of %u packets is more "
					   "than %d slots",
					   rank, m->window_messages,
					   packets_of(m) / m->window_messages, INC_MAX_SLOTS);
	}
	return 0;
}

/* Returns the window of a member in messages. If the member leaves the size of messages to the
 * controller, its window counts packets. */
static unsigned int window_of(const struct inc_comm *comm, const struct inc_comm_member *m)
{
	const unsigned int packets = m->window_messages * (m->message_packets ?: 1);
	const unsigned int few = m->message_packets ? 1 : inc_min(packets, SUITABLE_MESSAGES);
	const unsigned int messages = packets / comm->message_packets;

	return messages > few ? messages : few;
}

/* Chooses the window in messages for all members. A switch in termination mode allocates buffers
 * for a whole window on each connection, so its memory limits the window. */
static void choose_window(struct inc_comm *comm)
{
	const unsigned int message = comm->message_packets * comm->payload;
	unsigned int bytes = INC_MAX_WINDOW_BYTES, window = INC_MAX_SLOTS;

	for (unsigned int rank = 0; rank < comm->group->world_size; rank++) {
		if (!inc_group_is_led(comm->group, rank))
			window = inc_min(window, window_of(comm, &comm->members[rank]));
	}
	for (unsigned int n = 0; n < comm->tree->n; n++) {
		const struct inc_msg_limits *limits = &inc_comm_switch(comm, &comm->tree->nodes[n])
							       ->engines[comm->tree->nodes[n].mode]
							       .limits;

		if (comm->tree->nodes[n].mode == INC_TERMINATION)
			bytes = inc_min(bytes, limits->window_bytes ?: bytes);
	}
	comm->messages = inc_pow2_down(inc_min(window, bytes / message ?: 1));
}

/* Returns the number of channels that suits the CPUs of the tree's switches, and what the job and
 * the switches have left. */
static unsigned int suitable_channels(const struct inc_comm *comm)
{
	unsigned int n = SUITABLE_CHANNELS;

	for (unsigned int i = 0; i < comm->tree->n; i++)
		n = inc_min(n, inc_comm_switch(comm, &comm->tree->nodes[i])
					       ->engines[comm->tree->nodes[i].mode]
					       .cpus /
				       CHANNEL_CPUS);
	return 1 + inc_comm_spare(comm, n > 1 ? n - 1 : 0);
}

/* Returns the number of channels if no member wants a certain one. Each rail has one channel at
 * least, and all rails have the same number of them. */
static unsigned int default_channels(const struct inc_comm *comm)
{
	const unsigned int n = suitable_channels(comm);
	unsigned int rails = 0;

	for (unsigned int rail = 0; rail < INC_MAX_RAILS; rail++)
		rails += comm->rails >> rail & 1;
	if (!rails)
		return n;
	return n < rails ? rails : n / rails * rails;
}

/* Chooses the number of channels: the least that a member wants. A further channel is as large as
 * the one with number 0, and may still be refused. Ranks that share memory have one channel,
 * because their leader's thread would be the only one to serve the others. */
static void choose_channels(struct inc_comm *comm)
{
	unsigned int n = UINT32_MAX;

	for (unsigned int rank = 0; rank < comm->group->world_size; rank++)
		n = inc_min(n, comm->members[rank].channels ?: n);
	if (inc_channel_of(comm->index) || comm->tree->leader)
		comm->channels = 1;
	else
		comm->channels = n < UINT32_MAX ? n : default_channels(comm);
}

int inc_comm_agree(struct inc_comm *comm, struct inc_err *err)
{
	int ret = 0;

	for (unsigned int n = 0; !ret && n < comm->tree->n; n++)
		ret = inc_comm_check_node(comm, n, comm->tree->nodes[n].mode, err);
	if (ret)
		return ret;
	choose_mode(comm);
	choose_floats(comm);
	choose_message(comm);
	choose_reorder(comm);
	comm->messages = 0;
	if (comm->mode != INC_TREE_TERMINATION) {
		ret = check_windows(comm, err);
		if (comm->mode == INC_TREE_MIXED)
			comm->messages = inc_pow2_down(comm->slots / comm->message_packets ?: 1);
	} else {
		choose_window(comm);
		comm->slots =
			inc_pow2_up(inc_min(comm->messages * comm->message_packets, INC_MAX_SLOTS));
	}
	if (!ret)
		choose_channels(comm);
	return ret;
}
