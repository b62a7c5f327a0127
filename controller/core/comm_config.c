/* SPDX-License-Identifier: BSD-2-Clause */
/* Communicators as the switches see them: route, configuration, removal, events. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include "controller/ctl.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"

static struct inc_switch *switch_of(const struct inc_comm *comm, const struct inc_tree_node *node)
{
	return &comm->group->ctl->switches[node->sw];
}

/* The switch's node in the communicator's tree, or -1. */
static int node_of(const struct inc_comm *comm, const struct inc_switch *sw)
{
	for (unsigned int i = 0; comm->tree && i < comm->tree->n; i++) {
		if (comm->tree->nodes[i].sw == sw->index)
			return i;
	}
	return -1;
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
		const struct inc_route_member *member = &comm->members[rank].route;

		inc_switch_qpn_put(&ctl->switches[ctl->topo->hosts[member->host].sw],
				   member->sw.qpn);
	}
	free(comm->tree);
	free(comm->configs);
	comm->tree = NULL;
	comm->configs = NULL;
}

static int new_end(struct inc_switch *sw, struct inc_route_end *end)
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

/* The largest packet must pass every port on the way. */
static void choose_sizes(struct inc_comm *comm)
{
	const struct inc_ctl *ctl = comm->group->ctl;
	unsigned int mtu = UINT32_MAX, packets = 1;

	comm->payload = INC_MAX_PAYLOAD;
	comm->byte_order = comm->members[0].byte_order;
	for (unsigned int rank = 0; rank < comm->group->world_size; rank++) {
		const struct inc_comm_member *m = &comm->members[rank];
		const struct inc_topo_host *host = &ctl->topo->hosts[m->route.host];

		comm->payload = min(comm->payload, m->payload);
		if (packets < m->window * m->message_packets)
			packets = m->window * m->message_packets;
		mtu = min(mtu, ctl->topo->links[host->link].mtu);
		mtu = min(mtu, inc_switch_port_mtu(&ctl->switches[host->sw], host->port));
	}
	for (unsigned int i = 1; i < comm->tree->n; i++) {
		const struct inc_tree_node *node = &comm->tree->nodes[i];
		const struct inc_topo_port *up =
			&ctl->topo->switches[node->sw].ports[node->up_port];

		mtu = min(mtu, ctl->topo->links[up->link].mtu);
		mtu = min(mtu, inc_switch_port_mtu(switch_of(comm, node), node->up_port));
		mtu = min(mtu, inc_switch_port_mtu(&ctl->switches[up->peer], up->peer_port));
	}
	while (comm->payload > INC_MIN_PAYLOAD && comm->payload + INC_MAX_OVERHEAD > mtu)
		comm->payload /= 2;
	comm->slots = power_of_two(packets);
}

static void list_switches(const struct inc_comm *comm, char *buf, size_t size)
{
	size_t used = 0;

	buf[0] = '\0';
	for (unsigned int i = 0; i < comm->tree->n && used + INC_TOPO_NAME_MAX + 2 < size; i++)
		used += snprintf(buf + used, size - used, "%s%s", i ? ", " : "",
				 inc_switch_name(switch_of(comm, &comm->tree->nodes[i])));
}

/* A switch adds up what hosts send it; it has no parent yet. */
static int check_tree(const struct inc_comm *comm, struct inc_err *err)
{
	char names[200];

	if (comm->tree->n == 1)
		return 0;
	list_switches(comm, names, sizeof(names));
	return inc_err_set(
		err, EOPNOTSUPP,
		"job %s needs a tree of %u switches (%s), which switches do not form yet",
		comm->group->job, comm->tree->n, names);
}

void inc_comm_answered(struct inc_switch *sw, uint32_t number, int code, const char *text,
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
		if (code == ENOSPC)
			inc_switch_holder(sw, holder, sizeof(holder));
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
		.arg = comm,
		.n_members = comm->group->world_size,
	};

	inc_comm_go(comm, COMM_CONFIGURING);
	comm->asked_at_ns = inc_now_ns();
	for (unsigned int i = 0; i < comm->tree->n; i++) {
		struct inc_switch *sw = switch_of(comm, &comm->tree->nodes[i]);
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

static const struct inc_switch *first_absent(const struct inc_comm *comm)
{
	for (unsigned int i = 0; i < comm->tree->n; i++) {
		const struct inc_switch *sw = switch_of(comm, &comm->tree->nodes[i]);

		if (!sw->link)
			return sw;
	}
	return NULL;
}

static uint32_t next_number(struct inc_ctl *ctl)
{
	uint32_t number;

	do {
		number = ctl->next_communicator++;
	} while (!number || inc_comm_find(ctl, number) || inc_orphan_known(ctl, number));
	return number;
}

void inc_comm_configure(struct inc_comm *comm)
{
	const struct inc_group *group = comm->group;
	struct inc_ctl *ctl = group->ctl;
	unsigned int hosts[CTL_MAX_WORLD];
	const struct inc_switch *absent;
	struct inc_err err;
	int ret;

	for (unsigned int rank = 0; rank < group->world_size; rank++)
		hosts[rank] = group->members[rank].host;
	if (!comm->tree) {
		ret = inc_route_compute(ctl->topo, hosts, group->world_size, &comm->tree, &err);
		if (!ret)
			comm->configs = calloc(comm->tree->n, sizeof(*comm->configs));
		if (!ret && !comm->configs)
			ret = inc_err_set(&err, ENOMEM, "out of memory");
		if (!ret)
			ret = check_tree(comm, &err);
		if (ret)
			goto fail;
	}
	absent = first_absent(comm);
	if (absent) {
		inc_info("group %u (%s) waits for switch %s", group->number, group->job,
			 inc_switch_name(absent));
		if (comm->phase != COMM_WAIT_SWITCH)
			inc_comm_go(comm, COMM_WAIT_SWITCH);
		return;
	}
	choose_sizes(comm);
	ret = inc_comm_admit(comm, &err);
	if (ret)
		goto fail;
	comm->number = next_number(ctl);
	ret = number_connections(comm);
	if (ret) {
		inc_err_set(&err, -ret, "no queue pair number: %s", strerror(-ret));
		goto fail;
	}
	send_configs(comm);
	return;
fail:
	inc_comm_fail(comm, -1, -ret, "%s", err.msg);
}

/* Comm by comm, from the start again after each: configuring one may end it. */
void inc_comm_switch_connected(struct inc_switch *sw)
{
	struct inc_group *group;
	struct inc_comm *comm;
again:
	LIST_FOREACH(group, &sw->ctl->groups, entry)
	{
		LIST_FOREACH(comm, &group->comms, entry)
		{
			if (comm->phase != COMM_WAIT_SWITCH || first_absent(comm))
				continue;
			inc_comm_configure(comm); /* leaves WAIT_SWITCH in any case */
			goto again;
		}
	}
}

bool inc_comm_keeps(const struct inc_comm *comm, const struct inc_switch *sw)
{
	int node = node_of(comm, sw);

	return node >= 0 && comm->configs[node] == CONFIG_THERE;
}

static bool lists(const uint32_t *listed, size_t n, uint32_t number)
{
	for (size_t i = 0; i < n; i++) {
		if (listed[i] == number)
			return true;
	}
	return false;
}

void inc_comm_check_kept(struct inc_switch *sw, const uint32_t *listed, size_t n)
{
	struct inc_group *group;
	struct inc_comm *comm;
again:
	LIST_FOREACH(group, &sw->ctl->groups, entry)
	{
		LIST_FOREACH(comm, &group->comms, entry)
		{
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

/* Kept where it is not known yet whether the rank had left before it fell silent. True: done. */
static bool accuse(struct inc_switch *sw, struct inc_comm *comm, uint32_t number, int rank,
		   int code, const char *text)
{
	if (inc_orphan_fail(sw, number, rank, code, text))
		return true;
	if (!comm || rank < 0 || node_of(comm, sw) < 0 || comm->phase != COMM_STARTED ||
	    !inc_group_awaits(comm->group, rank))
		return false;
	comm->accused.code = code;
	comm->accused.rank = rank;
	snprintf(comm->accused.text, sizeof(comm->accused.text), "%s", text);
	return true;
}

const struct inc_event_info inc_event_info[EVENT_MAX] = {
	[EVENT_MISMATCH] = {"mismatch", EREMOTEIO},
	[EVENT_CONNECTION_ERROR] = {"connection_error", ECONNABORTED},
	[EVENT_PEER_NAK] = {"peer_nak", ECONNABORTED},
	[EVENT_UNRESPONSIVE] = {"unresponsive", ETIMEDOUT},
	[EVENT_OTHER] = {"other", 0},
};

static enum inc_event_kind kind_of(const char *event)
{
	enum inc_event_kind kind = 0;

	while (kind < EVENT_OTHER && strcmp(inc_event_info[kind].name, event) != 0)
		kind++;
	return kind;
}

void inc_comm_event(struct inc_switch *sw, const struct inc_msg_event *said)
{
	const enum inc_event_kind kind = kind_of(said->event);
	const bool mismatch = kind == EVENT_MISMATCH;
	const int code = inc_event_info[kind].code;
	const int rank = said->has_rank ? (int)said->rank : -1;
	const char *text = *said->message ? said->message : said->event;
	struct inc_comm *comm = inc_comm_find(sw->ctl, said->communicator);

	sw->ctl->events[kind]++;
	if (comm && rank >= (int)comm->group->world_size) {
		inc_warn("switch %s: event of communicator %u ignored: rank: %d is not below %u",
			 inc_switch_name(sw), said->communicator, rank, comm->group->world_size);
		return;
	}
	inc_warn("switch %s: event %s, communicator %u: %s", inc_switch_name(sw), said->event,
		 said->communicator, said->message);
	if (!code || accuse(sw, comm, said->communicator, mismatch ? -1 : rank, code, text))
		return;
	if (!comm || node_of(comm, sw) < 0 || comm->phase < COMM_CONFIGURED ||
	    comm->phase == COMM_FAILED)
		return;
	/* a rank that is through with the communicator owes nobody an acknowledgement, unless
	 * the others still wait for it; a mismatch is the end for everybody */
	if (rank >= 0 && comm->members[rank].destroyed && !mismatch) {
		inc_comm_check_waiting(sw, comm);
		return;
	}
	inc_comm_fail(comm, rank, code, "switch %s: %s", inc_switch_name(sw), text);
}
