/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Gives the core another topology while jobs run (inc_core_renumber() in event.h). All indexes that
 * groups and communicators have are replaced by those of the new topology. Nothing else of a
 * communicator changes, so its switches and members need no message. Called by net/reload.c.
 */
#include <errno.h>
#include <stdlib.h>
#include "controller/core/comm.h"
#include "controller/core/comm_config.h"
#include "controller/core/core.h"
#include "controller/core/derive.h"
#include "controller/core/event.h"
#include "controller/core/group.h"
#include "controller/core/orphan.h"
#include "controller/core/route.h"
#include "controller/core/switch.h"

/* Whether a member's host is known. While a group forms, a rank that was here and has left keeps
 * its host for messages. A group from the database may have hosts that its topology lacks. */
static bool has_host(const struct inc_member *member)
{
	return (member->present || *member->node) &&
	       member->host < member->group->core->topo->n_hosts;
}

static void mark_tree(const struct inc_tree *tree, struct inc_topo_map *map)
{
	for (unsigned int i = 0; i < tree->n; i++) {
		const struct inc_tree_node *node = &tree->nodes[i];
		const unsigned int first = map->first_port[node->sw];

		map->switch_used[node->sw] = true;
		for (unsigned int k = 0; k < node->n_children; k++) {
			const struct inc_tree_child *child = &tree->children[node->first_child + k];

			map->port_used[first + child->port] = true;
			if (!child->to_switch)
				map->host_used[child->host] = true;
		}
		if (node->parent >= 0)
			map->port_used[first + node->up_port] = true;
	}
}

static void mark_comm(const struct inc_comm *comm, struct inc_topo_map *map)
{
	const struct inc_failure_report *r;
	const struct inc_standing *s;

	for (unsigned int rank = 0; rank < comm->group->world_size; rank++)
		if (comm->members[rank].has_endpoint)
			map->host_used[comm->members[rank].route.host] = true;
	/* a communicator that waits gets another tree, so it uses none */
	if (comm->tree && comm->phase != COMM_WAIT_SWITCH)
		mark_tree(comm->tree, map);
	if (comm->ended)
		map->switch_used[comm->ended->index] = true;
	LIST_FOREACH (r, &comm->failure_reports, entry)
		if (r->by)
			map->switch_used[r->by->index] = true;
	LIST_FOREACH (s, &comm->standings, entry)
		map->switch_used[s->by->index] = true;
}

static void mark_orphan(const struct inc_core_switch *sw, uint32_t number, void *map)
{
	((struct inc_topo_map *)map)->switch_used[sw->index] = true;
}

void inc_core_mark_used(const struct inc_core *core, struct inc_topo_map *map)
{
	const struct inc_derivation *d;
	const struct inc_group *group;
	const struct inc_comm *comm;

	LIST_FOREACH (group, &core->groups, entry) {
		for (unsigned int rank = 0; rank < group->world_size; rank++)
			if (has_host(&group->members[rank]))
				map->host_used[group->members[rank].host] = true;
		LIST_FOREACH (comm, &group->comms, entry)
			mark_comm(comm, map);
	}
	LIST_FOREACH (d, &core->derivations, entry) {
		for (unsigned int rank = 0; rank < d->world_size; rank++)
			if (d->members[rank].client)
				map->host_used[d->members[rank].join.host] = true;
	}
	inc_orphans_each(core, mark_orphan, map);
}

/* The memory that the core needs for the new topology, allocated before anything changes. */
struct parts {
	struct inc_routes *routes;
	struct inc_core_switch **switches; /* the new array; those that stay are NULL at first */
	struct inc_core_port **ports;      /* by the new index; NULL for a new switch */
};

static void free_parts(struct parts *parts, unsigned int n)
{
	for (unsigned int s = 0; s < n; s++) {
		if (parts->switches)
			inc_switch_free(parts->switches[s]);
		if (parts->ports)
			free(parts->ports[s]);
	}
	inc_routes_free(parts->routes);
	free(parts->switches);
	free(parts->ports);
}

static int make_parts(struct inc_core *core, const struct inc_topology *topo,
		      const struct inc_topo_map *map, struct parts *parts)
{
	bool ok;

	parts->routes = inc_routes_new(topo);
	parts->switches = calloc(topo->n_switches, sizeof(*parts->switches));
	parts->ports = calloc(topo->n_switches, sizeof(*parts->ports));
	ok = parts->routes && parts->switches && parts->ports;
	for (unsigned int s = 0; ok && s < core->topo->n_switches; s++) {
		const unsigned int to = map->switches[s];

		if (to == INC_TOPO_NOWHERE)
			continue;
		parts->ports[to] =
			calloc(topo->switches[to].n_ports + 1, sizeof(*parts->ports[to]));
		ok = parts->ports[to];
	}
	for (unsigned int s = 0; ok && s < topo->n_switches; s++) {
		if (parts->ports[s])
			continue;
		parts->switches[s] = inc_switch_new(core, s, topo->switches[s].n_ports);
		ok = parts->switches[s];
	}
	if (ok)
		return 0;
	free_parts(parts, topo->n_switches);
	return -ENOMEM;
}

static void renumber_tree(struct inc_tree *tree, const struct inc_topo_map *map)
{
	/* the ports of a connection belong to two switches, so no switch changes before all ports
	 * have */
	for (unsigned int i = 0; i < tree->n; i++) {
		struct inc_tree_node *node = &tree->nodes[i];

		for (unsigned int k = 0; k < node->n_children; k++) {
			struct inc_tree_child *child = &tree->children[node->first_child + k];

			child->port = *inc_topo_map_port(map, node->sw, child->port);
			if (!child->to_switch)
				child->host = map->hosts[child->host];
		}
		if (node->parent < 0)
			continue;
		node->up_port = *inc_topo_map_port(map, node->sw, node->up_port);
		node->down_port =
			*inc_topo_map_port(map, tree->nodes[node->parent].sw, node->down_port);
	}
	for (unsigned int i = 0; i < tree->n; i++)
		tree->nodes[i].sw = map->switches[tree->nodes[i].sw];
}

static void renumber_group(struct inc_group *group, const struct inc_topology *topo,
			   const struct inc_topo_map *map)
{
	const unsigned int n_old = group->core->topo->n_hosts;
	struct inc_comm *comm;

	for (unsigned int rank = 0; rank < group->world_size; rank++) {
		struct inc_member *member = &group->members[rank];

		if (has_host(member)) {
			member->host = map->hosts[member->host];
			member->nic = map->hosts[member->nic];
		} else { /* a rank that has not come has no host, one of the database none here */
			member->host = member->host == n_old ? topo->n_hosts : 0;
			member->nic = member->host;
		}
	}
	LIST_FOREACH (comm, &group->comms, entry) {
		for (unsigned int rank = 0; rank < group->world_size; rank++) {
			struct inc_route_member *route = &comm->members[rank].route;

			route->host = comm->members[rank].has_endpoint ? map->hosts[route->host]
								       : group->members[rank].nic;
		}
		if (comm->tree)
			renumber_tree(comm->tree, map);
	}
}

static void renumber_join(struct inc_join *join, const struct inc_topo_map *map)
{
	join->host = map->hosts[join->host];
	join->nic = map->hosts[join->nic];
}

static void renumber_all(struct inc_core *core, const struct inc_topology *topo,
			 const struct inc_topo_map *map)
{
	struct inc_derivation *d;
	struct inc_group *group;

	LIST_FOREACH (group, &core->groups, entry)
		renumber_group(group, topo, map);
	LIST_FOREACH (d, &core->derivations, entry) {
		for (unsigned int rank = 0; rank < d->world_size; rank++)
			if (d->members[rank].client)
				renumber_join(&d->members[rank].join, map);
	}
}

/* Moves the switches to their new indexes, and frees those that are gone. Their rows leave the
 * database, because a switch of the same name that is added later is another one. */
static void move_switches(struct inc_core *core, const struct inc_topo_map *map,
			  struct parts *parts)
{
	for (unsigned int s = 0; s < core->topo->n_switches; s++) {
		struct inc_core_switch *sw = core->switches[s];
		const unsigned int to = map->switches[s];

		if (to == INC_TOPO_NOWHERE) {
			inc_act_store_switch(sw);
			inc_switch_free(sw);
			continue;
		}
		for (unsigned int p = 0; p < core->topo->switches[s].n_ports; p++) {
			const unsigned int port = *inc_topo_map_port(map, s, p);

			if (port != INC_TOPO_NOWHERE)
				parts->ports[to][port] = sw->ports[p];
		}
		free(sw->ports);
		sw->ports = parts->ports[to];
		sw->index = to;
		parts->switches[to] = sw;
	}
	free(core->switches);
	core->switches = parts->switches;
}

int inc_core_renumber(struct inc_core *core, const struct inc_topology *topo,
		      const struct inc_topo_map *map)
{
	struct inc_group *group;
	struct parts parts = {};
	struct inc_comm *comm;
	int ret = make_parts(core, topo, map, &parts);

	if (ret)
		return ret;
	inc_comms_drop_waiting(core);
	renumber_all(core, topo, map);
	move_switches(core, map, &parts);
	inc_routes_free(core->routes);
	core->routes = parts.routes;
	core->topo = topo;
	for (unsigned int s = 0; s < topo->n_switches; s++)
		inc_switch_reread(core->switches[s]);
	LIST_FOREACH (group, &core->groups, entry) {
		LIST_FOREACH (comm, &group->comms, entry)
			inc_route_recount(core->routes, comm->tree);
	}
	free(parts.ports);
	return 0;
}
