/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Restores groups and communicators from the database when the controller starts: before any peer
 * can connect, and before any row is written again. Communicators that had not started when the
 * controller was killed are left out, because no member can claim them. Their members lost their
 * connections while they waited. The welcome to a switch does not list such a communicator, so the
 * switch removes it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "controller/core/comm.h"
#include "controller/core/core.h"
#include "controller/core/endpoint.h"
#include "controller/core/group.h"
#include "controller/core/route.h"
#include "controller/core/switch.h"
#include "controller/store/store_priv.h"
#include "lib/base/log.h"

/* A communicator of the database while its rows are read. Errors in them are found after all rows
 * are read. */
struct kept {
	struct inc_comm *comm;
	struct inc_kept_comm row;
	struct inc_tree_node *nodes;
	unsigned int n;
	unsigned int n_members;
	/* host or switch that the communicator needs and the topology lacks; "" if there is none */
	char lacks[80];
};

struct restoring {
	struct inc_core *core;
	const char *path;
	/* the communicators of the database, in the order of their numbers, which is that of the
	 * rows */
	struct kept *comms;
	size_t n, room;
	unsigned int n_groups, n_comms;
};

static int wrong(const struct restoring *r, struct inc_err *err, const char *what, uint32_t number,
		 const char *why)
{
	return inc_err_set(err, EIO, "database %s is damaged: %s %u: %s", r->path, what, number,
			   why);
}

static int take_numbers(const void *at, void *arg, struct inc_err *err)
{
	const struct inc_kept_numbers *row = at;
	struct restoring *r = arg;

	inc_number_allocator_restore(row->kind == INC_KEPT_GROUP_NUMBERS ? &r->core->group_numbers
									 : &r->core->comm_numbers,
				     row->first, row->next);
	return 0;
}

static int take_group(const void *at, void *arg, struct inc_err *err)
{
	const struct inc_kept_group *row = at;
	struct restoring *r = arg;
	const char *running = inc_group_phase_name(GROUP_RUNNING);
	const char *restored = inc_group_phase_name(GROUP_RESTORED);
	struct inc_group *group;

	if (!row->number || !row->world_size)
		return wrong(r, err, "group", row->number, "neither number nor size can be 0");
	group = inc_group_restore(r->core, row->job, row->world_size, row->number);
	if (!group)
		return inc_err_set(err, ENOMEM, "out of memory");
	group->of = row->of;
	group->how = row->how;
	group->derived[0] = row->derived;
	group->derived[1] = row->shrunk;
	for (unsigned int rank = 0; rank < row->world_size; rank++)
		group->members[rank].host = group->members[rank].nic = r->core->topo->n_hosts;
	if (strcmp(row->state, running) == 0 || strcmp(row->state, restored) == 0)
		return 0;
	inc_group_set_phase(group, GROUP_RETURNING);
	group->over_code = row->over_code;
	strcpy(group->over, row->over);
	return 0;
}

static int take_rank(const void *at, void *arg, struct inc_err *err)
{
	const struct inc_kept_rank *row = at;
	struct restoring *r = arg;
	struct inc_group *group = inc_group_find(r->core, row->number);
	const int host = inc_topology_host_by_name(r->core->topo, row->host);
	struct inc_member *member;

	if (!group || row->rank >= group->world_size || row->leader > row->rank)
		return wrong(r, err, "group", row->number, "a rank is not of it");
	member = &group->members[row->rank];
	if (host >= 0)
		member->host = member->nic = host;
	member->present = row->gone;
	member->leader = row->leader;
	strcpy(member->node, row->node);
	return 0;
}

static bool has_started(const struct inc_kept_comm *row)
{
	/* Switches may have a communicator that is CONFIGURED in the file, even one that has
	 * started. The row lacks the next phase if the disk was full. */
	return strcmp(row->state, inc_comm_phase_name(COMM_CONFIGURED)) == 0 ||
	       strcmp(row->state, inc_comm_phase_name(COMM_STARTED)) == 0 ||
	       strcmp(row->state, inc_comm_phase_name(COMM_FAILED)) == 0;
}

static int take_comm(const void *at, void *arg, struct inc_err *err)
{
	const struct inc_kept_comm *row = at;
	struct restoring *r = arg;
	struct inc_group *group = inc_group_find(r->core, row->of);
	const size_t room = r->room ? r->room * 2 : 64;

	if (!row->number || !group)
		return wrong(r, err, "communicator", row->number, "its group is not there");
	if (r->n == r->room) {
		struct kept *more = reallocarray(r->comms, room, sizeof(*more));

		if (!more)
			return inc_err_set(err, ENOMEM, "out of memory");
		r->comms = more;
		r->room = room;
	}
	r->comms[r->n++] = (struct kept){.row = *row};
	if (!has_started(row))
		return 0;
	r->comms[r->n - 1].comm = inc_comm_restore(group, row->comm);
	return r->comms[r->n - 1].comm ? 0 : inc_err_set(err, ENOMEM, "out of memory");
}

static int compare_numbers(const void *a, const void *b)
{
	const struct kept *x = a, *y = b;

	return x->row.number < y->row.number ? -1 : x->row.number > y->row.number;
}

/* Finds the communicator of this number; NULL if there is none. */
static struct kept *find(const struct restoring *r, uint32_t number)
{
	const struct kept key = {.row.number = number};

	return r->n ? bsearch(&key, r->comms, r->n, sizeof(key), compare_numbers) : NULL;
}

static struct inc_route_end end_of(const struct inc_kept_end *end)
{
	return (struct inc_route_end){.end = end->end, .given = end->given};
}

/* Reads from a node's row the two ports of the connection to its parent. Returns false if the
 * topology does not have them any more. */
static bool take_ports(const struct inc_topology *topo, const struct kept *k,
		       const struct inc_kept_node *row, struct inc_tree_node *node)
{
	int up, down;

	if (!row->parent)
		return true;
	up = inc_topology_port_by_name(&topo->switches[node->sw], row->up_port);
	down = inc_topology_port_by_name(&topo->switches[k->nodes[node->parent].sw],
					 row->down_port);
	if (up < 0 || down < 0)
		return false;
	node->up_port = up;
	node->down_port = down;
	return true;
}

static int take_node(const void *at, void *arg, struct inc_err *err)
{
	const struct inc_kept_node *row = at;
	struct restoring *r = arg;
	struct kept *k = find(r, row->number);
	const int sw = inc_topology_switch_by_name(r->core->topo, row->sw);
	struct inc_tree_node *more, *node;

	if (!k || row->node != k->n || row->parent > row->node)
		return wrong(r, err, "communicator", row->number, "its switches are no tree");
	more = reallocarray(k->nodes, k->n + 1, sizeof(*more));
	if (!more)
		return inc_err_set(err, ENOMEM, "out of memory");
	k->nodes = more;
	node = &k->nodes[k->n++];
	*node = (struct inc_tree_node){
		.sw = sw < 0 ? 0 : sw,
		.mode = row->mode,
		.parent = (int)row->parent - 1,
		.first_rank = row->first_rank,
		.size = 1,
		.own = end_of(&row->own),
		.peer = end_of(&row->peer),
	};
	if (sw < 0 || !take_ports(r->core->topo, k, row, node))
		snprintf(k->lacks, sizeof(k->lacks), "switch %s with the ports of its tree",
			 row->sw);
	return 0;
}

/* Finds the NIC of a member's connection. Returns n_hosts if the topology has it no more. */
static unsigned int find_nic(const struct inc_topology *topo, unsigned int host, unsigned int rail)
{
	const int nic = host < topo->n_hosts ? inc_topology_nic(topo, host, rail) : -1;

	return nic < 0 ? topo->n_hosts : (unsigned int)nic;
}

static int take_member(const void *at, void *arg, struct inc_err *err)
{
	const struct inc_kept_member *row = at;
	struct restoring *r = arg;
	struct kept *k = find(r, row->number);
	struct inc_comm_member *m;
	struct inc_group *group;

	if (k && !k->comm)
		return 0;
	if (!k || row->rank >= k->comm->group->world_size)
		return wrong(r, err, "communicator", row->number, "a member is not of its group");
	group = k->comm->group;
	m = &k->comm->members[row->rank];
	strcpy(m->transport, row->transport);
	m->byte_order = k->row.byte_order;
	m->route.pkey = row->pkey;
	m->route.udp_csum = row->udp_csum;
	m->route.own = end_of(&row->own);
	m->route.peer = end_of(&row->peer);
	m->route.host = find_nic(r->core->topo, group->members[row->rank].host, row->rail);
	/* a member that left the group before the restart had destroyed the communicator */
	m->destroyed = group->members[row->rank].present;
	k->n_members++;
	if (m->route.host == r->core->topo->n_hosts)
		snprintf(k->lacks, sizeof(k->lacks), "the host of rank %u, or its NIC", row->rank);
	else
		inc_endpoint_take(r->core, m);
	return 0;
}

static int take_switch(const void *at, void *arg, struct inc_err *err)
{
	const struct inc_kept_switch *row = at;
	const struct restoring *r = arg;
	const int index = inc_topology_switch_by_name(r->core->topo, row->name);
	struct inc_core_switch *sw;

	if (index < 0)
		return 0;
	sw = r->core->switches[index];
	sw->mode_set = row->mode_set;
	sw->mode = row->mode;
	sw->gone = row->gone;
	if (sw->mode_set)
		inc_info("switch %s: mode %s, which incctl mode has set", row->name,
			 inc_mode_settings[sw->mode]);
	inc_switch_offer(sw);
	return 0;
}

static int known_tree(const struct kept *k, struct inc_tree **tree, struct inc_err *err)
{
	*tree = inc_route_known(k->nodes[0].sw);
	for (unsigned int i = 1; *tree && i < k->n; i++) {
		if (inc_route_known_add(tree, k->nodes[i].sw))
			return inc_err_set(err, ENOMEM, "out of memory");
	}
	for (unsigned int i = 0; *tree && i < k->n; i++)
		(*tree)->nodes[i].mode = k->nodes[i].mode;
	return *tree ? 0 : inc_err_set(err, ENOMEM, "out of memory");
}

static int make_tree(struct inc_core *core, const struct kept *k, struct inc_err *err)
{
	struct inc_comm *comm = k->comm;
	unsigned int hosts[CTL_MAX_WORLD], n = 0;
	int ret;

	if (!k->n)
		return inc_err_set(err, EINVAL, "it has no switch");
	if (*k->lacks)
		return inc_err_set(err, EINVAL, "the topology lacks %s", k->lacks);
	if (!k->row.counted)
		return known_tree(k, &comm->tree, err);
	for (unsigned int rank = 0; rank < comm->group->world_size; rank++) {
		if (!inc_group_is_led(comm->group, rank))
			hosts[n++] = comm->members[rank].route.host;
	}
	if (k->n_members != n)
		return inc_err_set(err, EINVAL, "%u of its members are known", k->n_members);
	ret = inc_route_restore(core->routes, hosts, n, k->row.slots, k->nodes, k->n, &comm->tree,
				err);
	return ret || n == comm->group->world_size
		       ? ret
		       : inc_group_lead_tree(comm->group, comm->tree, err);
}

/* Marks the queue pair numbers of a restored communicator as used, if the controller has allocated
 * them. Returns 0 or -errno. */
static int take_given(struct inc_core *core, const struct inc_comm *comm, struct inc_err *err)
{
	const struct inc_topo_host *hosts = core->topo->hosts;
	int ret = 0;

	for (unsigned int rank = 0; !ret && rank < comm->group->world_size; rank++) {
		const struct inc_route_member *route = &comm->members[rank].route;

		if (route->peer.given)
			ret = inc_switch_qpn_take(core->switches[hosts[route->host].sw],
						  route->peer.given);
	}
	for (unsigned int i = 0; !ret && i < comm->tree->n; i++) {
		const struct inc_tree_node *node = &comm->tree->nodes[i];

		if (node->own.given)
			ret = inc_switch_qpn_take(core->switches[node->sw], node->own.given);
		if (!ret && node->peer.given)
			ret = inc_switch_qpn_take(
				core->switches[comm->tree->nodes[node->parent].sw],
				node->peer.given);
	}
	return ret ? inc_err_set(err, -ret, "its queue pairs: %s", strerror(-ret)) : 0;
}

static int finish(struct inc_core *core, const struct kept *k, struct inc_err *err)
{
	struct inc_comm *comm = k->comm;
	int ret = make_tree(core, k, err);

	if (ret)
		return ret;
	comm->configs = calloc(comm->tree->n, sizeof(*comm->configs));
	if (!comm->configs)
		return inc_err_set(err, ENOMEM, "out of memory");
	if (comm->tree->counted)
		ret = take_given(core, comm, err);
	if (ret)
		return ret;
	comm->number = k->row.number;
	comm->payload = k->row.payload;
	comm->slots = comm->tree->slots = k->row.slots;
	comm->byte_order = k->row.byte_order;
	comm->mode = k->row.mode;
	comm->floats = k->row.floats;
	comm->message_packets = k->row.message_packets;
	comm->messages = k->row.messages;
	comm->code = k->row.code;
	strcpy(comm->reason, k->row.reason);
	for (unsigned int i = 0; i < comm->tree->n; i++)
		inc_comm_set_config_state(comm, i, CONFIG_THERE);
	inc_comm_set_phase(comm, comm->code ? COMM_FAILED : COMM_STARTED);
	return 0;
}

/* Compares two communicators by the order in which they began, because answers to tools have that
 * order. */
static int compare_places(const void *a, const void *b)
{
	const struct kept *x = a, *y = b;

	return x->row.place < y->row.place ? -1 : x->row.place > y->row.place;
}

static int finish_all(struct restoring *r, struct inc_err *err)
{
	struct inc_group *group, *next;
	struct inc_err why;
	int ret;

	if (r->n)
		qsort(r->comms, r->n, sizeof(*r->comms), compare_places);
	for (size_t i = 0; i < r->n; i++) {
		struct kept *k = &r->comms[i];

		if (!k->comm)
			continue;
		k->comm->place = ++r->core->last_place;
		ret = finish(r->core, k, &why);
		if (ret == -ENOMEM)
			return inc_err_set(err, ENOMEM, "%s", why.msg);
		if (!ret) {
			r->n_comms++;
			continue;
		}
		inc_warn("communicator %u is not restored: %s", k->row.number, why.msg);
		inc_comm_end(k->comm);
	}
	for (group = LIST_FIRST(&r->core->groups); group; group = next) {
		next = LIST_NEXT(group, entry);
		/* members of a group without communicators have nothing to resume, so they do not
		 * come back */
		if (LIST_EMPTY(&group->comms))
			inc_group_free(group);
		else
			r->n_groups++;
	}
	for (unsigned int s = 0; s < r->core->topo->n_switches; s++)
		if (r->core->switches[s]->gone)
			inc_switch_await(r->core->switches[s], true);
	return 0;
}

int inc_restore(struct inc_core *core, const char *path, struct inc_store *store,
		struct inc_err *err)
{
	static const inc_store_row take[INC_N_KEPT_TABLES] = {
		[INC_KEPT_NUMBERS] = take_numbers, [INC_KEPT_GROUPS] = take_group,
		[INC_KEPT_RANKS] = take_rank,      [INC_KEPT_COMMS] = take_comm,
		[INC_KEPT_NODES] = take_node,      [INC_KEPT_MEMBERS] = take_member,
		[INC_KEPT_SWITCHES] = take_switch,
	};
	struct restoring r = {.core = core, .path = path};
	int ret = 0;

	for (unsigned int t = 0; !ret && t < INC_N_KEPT_TABLES; t++)
		ret = inc_store_each(store, t, take[t], &r, err);
	ret = ret ?: finish_all(&r, err);
	for (size_t i = 0; i < r.n; i++)
		free(r.comms[i].nodes);
	free(r.comms);
	if (!ret && r.n)
		inc_info("database %s: %u groups with %u communicators may come back", path,
			 r.n_groups, r.n_comms);
	return ret;
}
