/* SPDX-License-Identifier: BSD-2-Clause */
/* Communicators as the switches see them: route, configuration, removal. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include "controller/ctl.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"

static struct inc_ctl_switch *switch_of(const struct inc_comm *comm,
					const struct inc_tree_node *node)
{
	return &comm->group->ctl->switches[node->sw];
}

/* The switch's node in the communicator's tree, or -1. */
static int node_of(const struct inc_comm *comm, const struct inc_ctl_switch *sw)
{
	return comm->tree ? inc_tree_find(comm->tree, sw->index) : -1;
}

static void free_route(struct inc_comm *comm)
{
	inc_route_release(comm->group->ctl->routes, comm->tree);
	free(comm->configs);
	comm->tree = NULL;
	comm->configs = NULL;
}

void inc_comm_unconfigure(struct inc_comm *comm)
{
	struct inc_ctl *ctl = comm->group->ctl;

	if (!comm->tree)
		return;
	for (unsigned int i = 0; comm->configs && i < comm->tree->n; i++) {
		if (comm->configs[i] != CONFIG_ASKED && comm->configs[i] != CONFIG_THERE)
			continue;
		inc_comm_config_go(comm, i, CONFIG_NONE);
		inc_switch_remove(switch_of(comm, &comm->tree->nodes[i]), comm->number);
	}
	for (unsigned int i = 0; i < comm->tree->n; i++) {
		struct inc_tree_node *node = &comm->tree->nodes[i];

		if (node->parent < 0)
			continue;
		inc_switch_qpn_put(switch_of(comm, node), node->up.qpn);
		inc_switch_qpn_put(switch_of(comm, &comm->tree->nodes[node->parent]),
				   node->down.qpn);
	}
	for (unsigned int rank = 0; rank < comm->group->world_size; rank++) {
		struct inc_route_member *member = &comm->members[rank].route;

		inc_switch_qpn_put(&ctl->switches[ctl->topo->hosts[member->host].sw],
				   member->sw.qpn);
		member->sw.qpn = 0; /* another tree may follow, and fail before it has numbers */
	}
	free_route(comm);
}

static int new_end(struct inc_ctl_switch *sw, struct inc_route_end *end)
{
	int ret;

	if (getrandom(&end->psn, sizeof(end->psn), 0) != sizeof(end->psn))
		return -EIO;
	end->psn &= INC_PSN_MASK;
	ret = inc_switch_qpn_get(sw, &end->qpn);
	if (ret)
		end->qpn = 0;
	return ret;
}

static int number_connections(struct inc_comm *comm)
{
	struct inc_ctl *ctl = comm->group->ctl;
	int ret = 0;

	for (unsigned int rank = 0; rank < comm->group->world_size && !ret; rank++) {
		struct inc_route_member *member = &comm->members[rank].route;

		ret = new_end(&ctl->switches[ctl->topo->hosts[member->host].sw], &member->sw);
	}
	for (unsigned int i = 1; i < comm->tree->n && !ret; i++) {
		struct inc_tree_node *node = &comm->tree->nodes[i];

		ret = new_end(switch_of(comm, node), &node->up);
		if (!ret)
			ret = new_end(switch_of(comm, &comm->tree->nodes[node->parent]),
				      &node->down);
	}
	return ret;
}

static const struct inc_route_member *route_member(const void *arg, unsigned int rank)
{
	const struct inc_comm *comm = arg;

	return &comm->members[rank].route;
}

static unsigned int power_of_two(unsigned int n)
{
	unsigned int p = 1;

	while (p < n)
		p *= 2;
	return p;
}

static unsigned int min(unsigned int a, unsigned int b)
{
	return a < b ? a : b;
}

static const uint8_t *port_mac(const void *arg, unsigned int sw, unsigned int port)
{
	const struct inc_comm *comm = arg;
	const struct inc_ctl_port *has = &comm->group->ctl->switches[sw].has[port];

	return has->has_mac ? has->mac : NULL;
}

static void choose_slots(struct inc_comm *comm)
{
	unsigned int packets = 1;

	for (unsigned int rank = 0; rank < comm->group->world_size; rank++) {
		const struct inc_comm_member *m = &comm->members[rank];

		if (packets < m->window * m->message_packets)
			packets = m->window * m->message_packets;
	}
	comm->slots = power_of_two(packets);
}

/* The MTU of a port and its cable. */
static unsigned int port_mtu(const struct inc_ctl *ctl, unsigned int sw, unsigned int port)
{
	return min(ctl->topo->links[ctl->topo->switches[sw].ports[port].link].mtu,
		   ctl->switches[sw].has[port].mtu);
}

/* The largest packet must pass every port on the way. */
static void choose_payload(struct inc_comm *comm)
{
	const struct inc_ctl *ctl = comm->group->ctl;
	unsigned int mtu = UINT32_MAX;

	comm->payload = INC_MAX_PAYLOAD;
	comm->byte_order = comm->members[0].byte_order;
	for (unsigned int rank = 0; rank < comm->group->world_size; rank++) {
		const struct inc_topo_host *host =
			&ctl->topo->hosts[comm->members[rank].route.host];

		comm->payload = min(comm->payload, comm->members[rank].payload);
		mtu = min(mtu, ctl->topo->links[host->link].mtu);
		mtu = min(mtu, port_mtu(ctl, host->sw, host->port));
	}
	for (unsigned int i = 1; i < comm->tree->n; i++) {
		const struct inc_tree_node *node = &comm->tree->nodes[i];

		mtu = min(mtu, port_mtu(ctl, node->sw, node->up_port));
		mtu = min(mtu, port_mtu(ctl, comm->tree->nodes[node->parent].sw, node->down_port));
	}
	while (comm->payload > INC_MIN_PAYLOAD && comm->payload + INC_MAX_OVERHEAD > mtu)
		comm->payload /= 2;
}

static void send_configs(struct inc_comm *comm)
{
	const struct inc_route_comm route = {
		.communicator = comm->number,
		.payload = comm->payload,
		.slots = comm->slots,
		.byte_order = comm->byte_order,
		.topo = comm->group->ctl->topo,
		.tree = comm->tree,
		.member = route_member,
		.mac = port_mac,
		.arg = comm,
	};

	inc_comm_go(comm, COMM_CONFIGURING);
	comm->asked_at_ns = inc_now_ns();
	for (unsigned int i = 0; i < comm->tree->n; i++) {
		struct inc_ctl_switch *sw = switch_of(comm, &comm->tree->nodes[i]);
		struct inc_comm_conf conf;
		int ret;

		ret = inc_route_config(&route, i, &conf);
		if (!ret)
			ret = inc_switch_configure(sw, &conf);
		if (ret) {
			inc_comm_fail(comm, -1, -ret, "switch %s: %s", inc_switch_name(sw),
				      strerror(-ret));
			return;
		}
		inc_comm_config_go(comm, i, CONFIG_ASKED);
		comm->pending++;
	}
}

const struct inc_ctl_switch *inc_comm_absent(const struct inc_comm *comm)
{
	for (unsigned int i = 0; i < comm->tree->n; i++) {
		const struct inc_ctl_switch *sw = switch_of(comm, &comm->tree->nodes[i]);

		if (!sw->link)
			return sw;
	}
	return NULL;
}

/* A burst of configurations is more than a switch reads and makes before their deadlines. */
static bool waits_for_answers(const struct inc_comm *comm)
{
	for (unsigned int i = 0; i < comm->tree->n; i++) {
		struct inc_ctl_switch *sw = switch_of(comm, &comm->tree->nodes[i]);

		if (inc_switch_requests(sw) < CTL_MAX_REQUESTS)
			continue;
		sw->awaited = true;
		return true;
	}
	return false;
}

static bool is_taken(struct inc_ctl *ctl, uint32_t number)
{
	return inc_comm_find(ctl, number) || inc_orphan_known(ctl, number);
}

/* A tree for it, in place of the one it has waited with: what is connected may have changed. */
static int find_route(struct inc_comm *comm, struct inc_err *err)
{
	const struct inc_group *group = comm->group;
	unsigned int hosts[CTL_MAX_WORLD];
	int ret;

	for (unsigned int rank = 0; rank < group->world_size; rank++)
		hosts[rank] = group->members[rank].host;
	free_route(comm);
	choose_slots(comm);
	ret = inc_comm_admit(comm, err);
	if (ret)
		return ret;
	ret = inc_route_compute(group->ctl->routes, hosts, group->world_size, comm->slots,
				&comm->tree, err);
	if (ret == -ENOSPC)
		inc_comm_name_holder(comm, err);
	if (ret)
		return ret;
	comm->configs = calloc(comm->tree->n, sizeof(*comm->configs));
	return comm->configs ? 0 : inc_err_set(err, ENOMEM, "out of memory");
}

/* The communicator has a tree. */
static void begin(struct inc_comm *comm)
{
	const struct inc_group *group = comm->group;
	const struct inc_ctl_switch *absent = inc_comm_absent(comm);
	int ret;

	if (absent)
		inc_info("group %u (%s) waits for switch %s", group->number, group->job,
			 inc_switch_name(absent));
	if (absent || waits_for_answers(comm)) {
		if (comm->phase != COMM_WAIT_SWITCH)
			inc_comm_go(comm, COMM_WAIT_SWITCH);
		return;
	}
	choose_payload(comm);
	comm->number = inc_number_give(&group->ctl->comm_numbers, is_taken, group->ctl);
	if (!comm->number) {
		inc_comm_fail(comm, -1, ENOMEM, "out of memory");
		return;
	}
	ret = number_connections(comm);
	if (ret)
		inc_comm_fail(comm, -1, -ret, "no queue pair number: %s", strerror(-ret));
	else
		send_configs(comm);
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

/* A switch has no room for what only it counts: once, the communicator gets a tree without it, if
 * there is one now. False: there is none. */
static bool go_around(struct inc_comm *comm, struct inc_ctl_switch *sw, const char *text)
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
	inc_info("group %u (%s), communicator %u: switch %s: %s: another tree", group->number,
		 group->job, comm->index, inc_switch_name(sw), text);
	begin(comm);
	return true;
}

void inc_comm_answered(struct inc_ctl_switch *sw, uint32_t number, int code, const char *text,
		       uint32_t confirmed)
{
	struct inc_comm *comm = inc_comm_find(sw->ctl, number);
	int node = comm ? node_of(comm, sw) : -1;
	char holder[200] = "";

	if (node < 0 || comm->phase != COMM_CONFIGURING || comm->configs[node] != CONFIG_ASKED)
		return;
	if (code) {
		/* without an answer it may have the communicator: the remove will tell it */
		if (code != ETIMEDOUT && code != ECONNRESET)
			inc_comm_config_go(comm, node, CONFIG_REFUSED);
		if (code == ENOSPC) {
			inc_switch_holder(sw, holder, sizeof(holder));
			if (go_around(comm, sw, text))
				return;
		}
		inc_comm_fail(comm, -1, code, "switch %s: %s%s", inc_switch_name(sw), text, holder);
		return;
	}
	if (confirmed != comm->number) {
		inc_comm_fail(comm, -1, EPROTO, "switch %s confirms another communicator",
			      inc_switch_name(sw));
		return;
	}
	inc_comm_config_go(comm, node, CONFIG_THERE);
	if (--comm->pending == 0)
		inc_comm_configured(comm);
}

/* Nothing but the switch's answers has kept it from being configured, and they do so no more. */
static bool was_held_by(const struct inc_comm *comm, const struct inc_ctl_switch *sw)
{
	return node_of(comm, sw) >= 0 && !inc_comm_absent(comm) && !waits_for_answers(comm);
}

/* Comm by comm, from the start again after each: configuring one may end it, and others. back: the
 * switch has connected, so that there are other trees now. */
static void go_on(struct inc_ctl_switch *sw, bool back)
{
	const unsigned int look = ++sw->ctl->looks;
	struct inc_group *group;
	struct inc_comm *comm;
again:
	LIST_FOREACH (group, &sw->ctl->groups, entry) {
		LIST_FOREACH (comm, &group->comms, entry) {
			if (comm->phase != COMM_WAIT_SWITCH || comm->look == look)
				continue;
			comm->look = look;
			if (!back && !was_held_by(comm, sw))
				continue;
			inc_comm_configure(comm);
			goto again;
		}
	}
}

void inc_comm_switch_connected(struct inc_ctl_switch *sw)
{
	go_on(sw, true);
}

void inc_comm_switch_answered(struct inc_ctl_switch *sw)
{
	go_on(sw, false);
}

bool inc_comm_keeps(const struct inc_comm *comm, const struct inc_ctl_switch *sw)
{
	int node = node_of(comm, sw);

	return node >= 0 && comm->configs[node] == CONFIG_THERE;
}

bool inc_comm_takes(struct inc_comm *comm, struct inc_ctl_switch *sw)
{
	if (node_of(comm, sw) >= 0)
		return inc_comm_keeps(comm, sw);
	return inc_group_resumed(comm->group) && comm->phase == COMM_STARTED &&
	       !inc_comm_adopt_switch(comm, sw);
}

static bool lists(const uint32_t *listed, size_t n, uint32_t number)
{
	for (size_t i = 0; i < n; i++) {
		if (listed[i] == number)
			return true;
	}
	return false;
}

void inc_comm_check_kept(struct inc_ctl_switch *sw, const uint32_t *listed, size_t n)
{
	struct inc_group *group;
	struct inc_comm *comm;
again:
	LIST_FOREACH (group, &sw->ctl->groups, entry) {
		LIST_FOREACH (comm, &group->comms, entry) {
			if (!inc_comm_keeps(comm, sw) || lists(listed, n, comm->number))
				continue;
			inc_comm_config_go(comm, node_of(comm, sw), CONFIG_REFUSED);
			if (comm->phase == COMM_FAILED)
				continue;
			inc_comm_fail(comm, -1, ENETRESET,
				      "switch %s has restarted without communicator %u",
				      inc_switch_name(sw), comm->number);
			goto again;
		}
	}
}
