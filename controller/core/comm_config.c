/* SPDX-License-Identifier: BSD-2-Clause */
/* Communicators as their switches see them: tree, configuration and removal (comm_config.h). Called
 * by the rest of core/, in the controller's one loop. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "controller/core/admission.h"
#include "controller/core/comm.h"
#include "controller/core/comm_config.h"
#include "controller/core/core.h"
#include "controller/core/group.h"
#include "controller/core/orphan.h"
#include "controller/core/route.h"
#include "controller/core/switch.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/numbers.h"

struct inc_core_switch *inc_comm_switch(const struct inc_comm *comm,
					const struct inc_tree_node *node)
{
	return comm->group->core->switches[node->sw];
}

/* Finds the index of the switch's node in the communicator's tree, or -1. */
static int node_of(const struct inc_comm *comm, const struct inc_core_switch *sw)
{
	return comm->tree ? inc_tree_find(comm->tree, sw->index) : -1;
}

/* Counts one request more at each switch of the communicator. These requests are sent as soon as
 * the database has the communicator, so no other communicator may use up their place. */
static void reserve(struct inc_comm *comm)
{
	comm->storing = true;
	for (unsigned int i = 0; i < comm->tree->n; i++)
		inc_comm_switch(comm, &comm->tree->nodes[i])->asked++;
}

static void unreserve(struct inc_comm *comm)
{
	if (!comm->storing)
		return;
	comm->storing = false;
	for (unsigned int i = 0; i < comm->tree->n; i++)
		inc_comm_switch(comm, &comm->tree->nodes[i])->asked--;
}

static void free_route(struct inc_comm *comm)
{
	unreserve(comm);
	inc_route_release(comm->group->core->routes, comm->tree);
	free(comm->configs);
	comm->tree = NULL;
	comm->configs = NULL;
}

void inc_comm_unconfigure(struct inc_comm *comm)
{
	if (!comm->tree)
		return;
	inc_act_delete_comm(comm);
	for (unsigned int i = 0; comm->configs && i < comm->tree->n; i++) {
		if (comm->configs[i] == CONFIG_NONE || comm->configs[i] == CONFIG_REFUSED)
			continue;
		inc_comm_set_config_state(comm, i, CONFIG_NONE);
		inc_act_remove(inc_comm_switch(comm, &comm->tree->nodes[i]), comm->number);
	}
	inc_comm_drop_ends(comm);
	free_route(comm);
}

int inc_comm_adopt_switch(struct inc_comm *comm, struct inc_core_switch *sw)
{
	const size_t n = comm->tree->n + 1;
	enum inc_config_state *more = realloc(comm->configs, n * sizeof(*more));

	if (!more)
		return -ENOMEM;
	comm->configs = more;
	more[n - 1] = CONFIG_NONE;
	if (inc_route_known_add(&comm->tree, sw->index))
		return -ENOMEM;
	inc_comm_adopt_mode(comm, sw);
	inc_comm_set_config_state(comm, n - 1, CONFIG_THERE);
	inc_act_store_comm(comm);
	return 0;
}

static const struct inc_route_member *route_member(const void *arg, unsigned int rank)
{
	const struct inc_comm *comm = arg;

	return &comm->members[rank].route;
}

static const uint8_t *port_mac(const void *arg, unsigned int sw, unsigned int port)
{
	const struct inc_comm *comm = arg;
	const struct inc_core_port *has = &comm->group->core->switches[sw]->ports[port];

	return has->has_mac ? has->mac : NULL;
}

/* Returns the smaller MTU of a port and its cable. */
static unsigned int port_mtu(const struct inc_core *core, unsigned int sw, unsigned int port)
{
	return inc_min(core->topo->links[core->topo->switches[sw].ports[port].link].mtu,
		       core->switches[sw]->ports[port].mtu);
}

/* Returns the largest payload of a packet that all endpoints of a port accept. A port of a switch
 * in passthrough mode has no endpoints, so it accepts any payload. */
static unsigned int port_payload(const struct inc_comm *comm, const struct inc_tree_node *node,
				 unsigned int port)
{
	const unsigned int *payload = inc_comm_switch(comm, node)->ports[port].payload;
	unsigned int most = INC_MAX_RC_PAYLOAD;

	if (node->mode == INC_PASSTHROUGH)
		return most;
	for (unsigned int kind = 0; kind < INC_N_ENDPOINT_KINDS; kind++)
		most = inc_min(most, payload[kind] ?: most);
	return most;
}

/* Returns the largest payload that all members can use. A switch in passthrough mode bounds the
 * payload of the whole tree, because each packet passes from hosts to the root and back. */
static unsigned int members_payload(const struct inc_comm *comm)
{
	const struct inc_core_switch *passes = NULL;
	unsigned int most = INC_MAX_PAYLOAD, terminated = INC_MAX_RC_PAYLOAD;

	for (unsigned int i = 0; i < comm->tree->n && !passes; i++)
		if (comm->tree->nodes[i].mode == INC_PASSTHROUGH)
			passes = inc_comm_switch(comm, &comm->tree->nodes[i]);
	for (unsigned int rank = 0; rank < comm->group->world_size; rank++) {
		if (inc_group_is_led(comm->group, rank))
			continue;
		most = inc_min(most, comm->members[rank].payload);
		terminated = inc_min(terminated, comm->members[rank].termination_payload);
	}
	if (!passes)
		return terminated;
	if (terminated > most)
		inc_info("group %u (%s): payloads of %u bytes at most and not of %u, because "
			 "switch %s is in passthrough mode",
			 comm->group->number, comm->group->job, most, terminated,
			 inc_switch_name(passes));
	return most;
}

/* Chooses the payload of the communicator's packets. A packet of that size must pass every port on
 * its way. */
static void choose_payload(struct inc_comm *comm)
{
	const struct inc_core *core = comm->group->core;
	unsigned int mtu = UINT32_MAX;

	comm->payload = members_payload(comm);
	comm->byte_order = comm->members[0].byte_order;
	for (unsigned int rank = 0; rank < comm->group->world_size; rank++) {
		const struct inc_topo_host *host =
			&core->topo->hosts[comm->members[rank].route.host];

		if (inc_group_is_led(comm->group, rank))
			continue;
		mtu = inc_min(mtu, core->topo->links[host->link].mtu);
	}
	for (unsigned int i = 0; i < comm->tree->n; i++) {
		const struct inc_tree_node *node = &comm->tree->nodes[i];

		for (unsigned int k = 0; k < node->n_children; k++) {
			const unsigned int port = comm->tree->children[node->first_child + k].port;

			mtu = inc_min(mtu, port_mtu(core, node->sw, port));
			comm->payload = inc_min(comm->payload, port_payload(comm, node, port));
		}
		if (node->parent < 0)
			continue;
		mtu = inc_min(mtu, port_mtu(core, node->sw, node->up_port));
		comm->payload = inc_min(comm->payload, port_payload(comm, node, node->up_port));
	}
	while (comm->payload > INC_MIN_PAYLOAD && comm->payload + inc_comm_overhead(comm) > mtu)
		comm->payload /= 2;
}

/* Sends configure to the switch of a node. Returns 0 or -errno. */
static int configure_node(struct inc_comm *comm, unsigned int node)
{
	struct inc_core_switch *sw = inc_comm_switch(comm, &comm->tree->nodes[node]);
	const struct inc_route_comm route = {
		.communicator = comm->number,
		.payload = comm->payload,
		.slots = comm->slots,
		.byte_order = comm->byte_order,
		.reorder = comm->reorder,
		.message_packets = comm->message_packets,
		.messages = comm->messages,
		.floats = comm->floats,
		.has_classes = sw->engines[INC_PASSTHROUGH].verbs,
		.topo = comm->group->core->topo,
		.tree = comm->tree,
		.member = route_member,
		.mac = port_mac,
		.arg = comm,
	};
	struct inc_comm_conf conf;
	int ret = inc_route_config(&route, node, &conf);

	ret = ret ?: inc_act_configure(sw, &conf);
	if (ret)
		return ret;
	inc_comm_set_config_state(comm, node, CONFIG_ASKED);
	comm->pending++;
	return 0;
}

/* Sends a switch in termination mode the numbers of its neighbours in termination mode, if it has
 * any. Returns 0 or -errno. */
static int connect_node(struct inc_comm *comm, unsigned int node)
{
	struct inc_msg_connect peers;
	int ret;

	if (!inc_comm_list_peers(comm, node, &peers))
		return 0;
	ret = inc_act_connect(inc_comm_switch(comm, &comm->tree->nodes[node]), &peers);
	if (ret)
		return ret;
	inc_comm_set_config_state(comm, node, CONFIG_TOLD);
	comm->pending++;
	return 0;
}

/* Sends the switch of a node the request of the current step, if the step has one for it. */
static int ask_node(struct inc_comm *comm, unsigned int node)
{
	const bool ends = comm->tree->nodes[node].mode == INC_TERMINATION;

	if (comm->chosen != ends)
		return configure_node(comm, node);
	return ends ? connect_node(comm, node) : 0;
}

/*
 * Switches in termination mode are configured first, because they choose their numbers, and their
 * neighbours need these. In a second step the other switches are configured, and neighbours in
 * termination mode receive each other's numbers.
 */
static void ask_switches(struct inc_comm *comm)
{
	for (;;) {
		for (unsigned int i = 0; i < comm->tree->n; i++) {
			const struct inc_tree_node *node = &comm->tree->nodes[i];
			int ret = ask_node(comm, i);

			if (!ret)
				continue;
			inc_comm_fail(comm, -1, -ret, "switch %s: %s",
				      inc_switch_name(inc_comm_switch(comm, node)), strerror(-ret));
			return;
		}
		if (comm->pending)
			return;
		if (comm->chosen)
			break;
		comm->chosen = true;
	}
	inc_comm_configured(comm);
}

static void answered(struct inc_comm *comm)
{
	if (--comm->pending)
		return;
	if (comm->chosen) {
		inc_comm_configured(comm);
		return;
	}
	comm->chosen = true;
	ask_switches(comm);
}

const struct inc_core_switch *inc_comm_absent(const struct inc_comm *comm)
{
	for (unsigned int i = 0; i < comm->tree->n; i++) {
		const struct inc_core_switch *sw = inc_comm_switch(comm, &comm->tree->nodes[i]);

		if (!sw->connected)
			return sw;
	}
	return NULL;
}

/* Returns whether a switch of the tree has so many requests under way that it could not answer
 * another one within its time limit. */
static bool waits_for_answers(const struct inc_comm *comm)
{
	for (unsigned int i = 0; i < comm->tree->n; i++) {
		struct inc_core_switch *sw = inc_comm_switch(comm, &comm->tree->nodes[i]);

		if (sw->asked < CTL_MAX_REQUESTS)
			continue;
		sw->awaited = true;
		return true;
	}
	return false;
}

static bool is_taken(struct inc_core *core, uint32_t number)
{
	return inc_comm_find(core, number) || inc_orphan_known(core, number);
}

/* Finds a new tree for a communicator that has waited, because switches may have connected or left
 * since the last tree was found. */
static int find_route(struct inc_comm *comm, struct inc_err *err)
{
	const struct inc_group *group = comm->group;
	unsigned int hosts[CTL_MAX_WORLD];
	const unsigned int n = inc_comm_leader_hosts(comm, hosts);
	int ret;

	free_route(comm);
	inc_comm_choose_slots(comm);
	ret = inc_comm_admit(comm, err);
	if (ret)
		return ret;
	ret = inc_comm_find_tree(comm, hosts, n, err);
	if (!ret && n < group->world_size)
		ret = inc_group_lead_tree(group, comm->tree, err);
	if (ret == -ENOSPC)
		inc_comm_name_holder(comm, err);
	if (ret)
		return ret;
	comm->configs = calloc(comm->tree->n, sizeof(*comm->configs));
	return comm->configs ? 0 : inc_err_set(err, ENOMEM, "out of memory");
}

/* Goes on with a communicator that has a tree. It waits until its switches are ready; then it is
 * negotiated and stored. */
static void begin(struct inc_comm *comm)
{
	const struct inc_group *group = comm->group;
	const struct inc_core_switch *absent = inc_comm_absent(comm);
	struct inc_err err;
	int ret;

	if (absent)
		inc_info("group %u (%s) waits for switch %s", group->number, group->job,
			 inc_switch_name(absent));
	if (absent || waits_for_answers(comm)) {
		if (comm->phase != COMM_WAIT_SWITCH)
			inc_comm_set_phase(comm, COMM_WAIT_SWITCH);
		return;
	}
	choose_payload(comm);
	ret = inc_comm_agree(comm, &err);
	if (ret) {
		inc_comm_fail(comm, -1, -ret, "%s", err.msg);
		return;
	}
	comm->number = inc_number_allocate(&group->core->comm_numbers, is_taken, group->core);
	if (!comm->number) {
		inc_comm_fail(comm, -1, ENOMEM, "out of memory");
		return;
	}
	ret = inc_comm_number_ends(comm);
	if (ret) {
		inc_comm_fail(comm, -1, -ret, "no queue pair number: %s", strerror(-ret));
		return;
	}
	inc_comm_set_phase(comm, COMM_CONFIGURING);
	reserve(comm);
	if (inc_act_commit(group->core, group->number, comm->number))
		inc_comm_fail(comm, -1, ENOMEM, "out of memory");
}

void inc_comm_stored(struct inc_core *core, uint32_t number, int stored,
		     const struct inc_err *because)
{
	struct inc_comm *comm = inc_comm_find(core, number);

	if (!comm || !comm->storing)
		return;
	unreserve(comm);
	if (stored) {
		inc_comm_fail(comm, -1, -stored, "%s", because->msg);
		return;
	}
	comm->asked_at_ns = core->now.awake_ns;
	comm->chosen = false;
	ask_switches(comm);
}

void inc_comm_configure(struct inc_comm *comm)
{
	struct inc_err err;
	int ret = find_route(comm, &err);

	if (ret)
		inc_comm_fail(comm, -1, -ret, "%s", err.msg);
	else
		begin(comm);
}

/* Tries another tree for the communicator, because a switch has refused it for lack of a resource
 * that only the switch counts. That is done once for each communicator. Returns false if there is
 * no tree without that switch. */
static bool go_around(struct inc_comm *comm, struct inc_core_switch *sw, const char *text)
{
	const struct inc_group *group = comm->group;
	struct inc_err err;

	inc_switch_avoid(sw);
	if (comm->went_around)
		return false;
	comm->went_around = true;
	inc_comm_unconfigure(comm);
	comm->number = 0;
	comm->pending = 0;
	if (find_route(comm, &err) || node_of(comm, sw) >= 0 || inc_comm_absent(comm))
		return false;
	inc_info("group %u (%s), communicator %u: switch %s: %s: trying another tree",
		 group->number, group->job, comm->index, inc_switch_name(sw), text);
	begin(comm);
	return true;
}

/* Checks whether the switch's answer names this communicator. If it names another one, this
 * communicator fails. */
static bool confirms(struct inc_comm *comm, const struct inc_core_switch *sw, uint32_t confirmed)
{
	if (confirmed == comm->number)
		return true;
	inc_comm_fail(comm, -1, EPROTO, "switch %s confirms another communicator",
		      inc_switch_name(sw));
	return false;
}

void inc_comm_answered(struct inc_core_switch *sw, uint32_t number, int code, const char *text,
		       const struct inc_msg_configured *made)
{
	struct inc_comm *comm = inc_comm_find(sw->core, number);
	int node = comm ? node_of(comm, sw) : -1;
	char holder[200] = "";
	struct inc_err err;
	int ret;

	if (node < 0 || comm->phase != COMM_CONFIGURING || comm->configs[node] != CONFIG_ASKED)
		return;
	if (code) {
		/* A switch that has not answered may have made the communicator, so a remove
		 * follows. */
		if (code != ETIMEDOUT && code != ECONNRESET)
			inc_comm_set_config_state(comm, node, CONFIG_REFUSED);
		if (code == ENOSPC) {
			inc_switch_holder(sw, holder, sizeof(holder));
			if (go_around(comm, sw, text))
				return;
		}
		inc_comm_fail(comm, -1, code, "switch %s: %s%s", inc_switch_name(sw), text, holder);
		return;
	}
	if (!made) {
		inc_comm_fail(comm, -1, EPROTO, "switch %s: configured: %s", inc_switch_name(sw),
			      text);
		return;
	}
	if (!confirms(comm, sw, made->communicator))
		return;
	ret = inc_comm_take_ends(comm, node, made, &err);
	if (ret) {
		inc_comm_fail(comm, -1, -ret, "switch %s %s", inc_switch_name(sw), err.msg);
		return;
	}
	inc_comm_set_config_state(comm, node, CONFIG_THERE);
	answered(comm);
}

void inc_comm_connected(struct inc_core_switch *sw, uint32_t number, int code, const char *text,
			uint32_t confirmed)
{
	struct inc_comm *comm = inc_comm_find(sw->core, number);
	int node = comm ? node_of(comm, sw) : -1;

	if (node < 0 || comm->phase != COMM_CONFIGURING || comm->configs[node] != CONFIG_TOLD)
		return;
	if (code) {
		inc_comm_fail(comm, -1, code, "switch %s: %s", inc_switch_name(sw), text);
		return;
	}
	if (!confirms(comm, sw, confirmed))
		return;
	inc_comm_set_config_state(comm, node, CONFIG_THERE);
	answered(comm);
}

/* Whether a waiting communicator that uses this switch can go on now. That is so if all its
 * switches are connected, and none has too many requests under way. */
static bool was_held_by(const struct inc_comm *comm, const struct inc_core_switch *sw)
{
	return node_of(comm, sw) >= 0 && !inc_comm_absent(comm) && !waits_for_answers(comm);
}

/* Configures the communicators that wait. After each one the loop begins anew, because configuring
 * may end communicators. If sw is NULL, each of them may find another tree, because a switch has
 * connected or the topology has changed. Otherwise sw has answered. */
static void go_on(struct inc_core *core, const struct inc_core_switch *sw)
{
	const unsigned int pass = ++core->passes;
	struct inc_group *group;
	struct inc_comm *comm;
again:
	LIST_FOREACH (group, &core->groups, entry) {
		LIST_FOREACH (comm, &group->comms, entry) {
			if (comm->phase != COMM_WAIT_SWITCH || comm->pass == pass)
				continue;
			comm->pass = pass;
			if (sw && !was_held_by(comm, sw))
				continue;
			inc_comm_configure(comm);
			goto again;
		}
	}
}

void inc_comm_switch_answered(struct inc_core_switch *sw)
{
	go_on(sw->core, sw);
}

void inc_comms_drop_waiting(struct inc_core *core)
{
	struct inc_group *group;
	struct inc_comm *comm;

	LIST_FOREACH (group, &core->groups, entry) {
		LIST_FOREACH (comm, &group->comms, entry) {
			if (comm->phase == COMM_WAIT_SWITCH)
				free_route(comm);
		}
	}
}

void inc_comms_retry(struct inc_core *core)
{
	go_on(core, NULL);
}

bool inc_comm_keeps(const struct inc_comm *comm, const struct inc_core_switch *sw)
{
	int node = node_of(comm, sw);

	return node >= 0 &&
	       (comm->configs[node] == CONFIG_THERE || comm->configs[node] == CONFIG_TOLD);
}

bool inc_comm_takes(struct inc_comm *comm, struct inc_core_switch *sw)
{
	if (node_of(comm, sw) >= 0) {
		inc_comm_adopt_mode(comm, sw);
		return inc_comm_keeps(comm, sw);
	}
	/* a complete tree of known shape has all its switches, so a switch that is not in it is no
	 * part of it */
	return inc_group_resumed(comm->group) && comm->phase == COMM_STARTED &&
	       !comm->tree->counted && !inc_comm_adopt_switch(comm, sw);
}

static bool lists(const uint32_t *listed, size_t n, uint32_t number)
{
	for (size_t i = 0; i < n; i++) {
		if (listed[i] == number)
			return true;
	}
	return false;
}

void inc_comm_check_kept(struct inc_core_switch *sw, const uint32_t *listed, size_t n)
{
	struct inc_group *group;
	struct inc_comm *comm;
again:
	LIST_FOREACH (group, &sw->core->groups, entry) {
		LIST_FOREACH (comm, &group->comms, entry) {
			if (!inc_comm_keeps(comm, sw) || lists(listed, n, comm->number))
				continue;
			inc_comm_set_config_state(comm, node_of(comm, sw), CONFIG_REFUSED);
			if (comm->phase == COMM_FAILED)
				continue;
			inc_comm_fail(comm, -1, ENETRESET,
				      "switch %s has restarted without communicator %u",
				      inc_switch_name(sw), comm->number);
			goto again;
		}
	}
}
