/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads the topology and the keys again, because SIGHUP asks for it, and reports what has changed.
 * Both are read before either is replaced, so a mistake in one of them changes nothing. Parts
 * that jobs use and that the file lacks drain, which means that they stay until no job uses them.
 * Runs on the controller's loop.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include "controller/core/comm.h"
#include "controller/core/core.h"
#include "controller/core/event.h"
#include "controller/core/group.h"
#include "controller/core/switch.h"
#include "controller/net/ctl.h"
#include "controller/net/link.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/net/tls.h"
#include "lib/topology/topology.h"

#define DRAIN_MS 1000 /* how often the controller looks for what has drained */

/* Closes the connections of switches that the new topology lacks and that nothing uses. They
 * connect again, and are refused with the reason. */
static void close_gone(struct inc_ctl *ctl, const struct inc_topo_map *map)
{
	for (unsigned int s = 0; s < ctl->topo->n_switches; s++) {
		if (map->switches[s] == INC_TOPO_NOWHERE)
			inc_switch_drop(ctl, ctl->core.switches[s],
					"the topology does not have it any more");
	}
}

/* Moves the net side of the switches to their new indexes in the array `to`. */
static void move_sides(struct inc_ctl *ctl, const struct inc_topo_map *map, unsigned int n_old,
		       struct inc_ctl_switch *to)
{
	for (unsigned int s = 0; s < n_old; s++) {
		if (map->switches[s] != INC_TOPO_NOWHERE) {
			to[map->switches[s]] = ctl->switches[s];
			continue;
		}
		json_decref(ctl->switches[s].ports);
		json_decref(ctl->switches[s].engines);
	}
	free(ctl->switches);
	ctl->switches = to;
}

/* Replaces the topology by this one, with what is in use appended. Returns 0, after which ctl owns
 * topo; or -ENOMEM, after which nothing has changed. */
static int replace(struct inc_ctl *ctl, struct inc_topology *topo)
{
	struct inc_topology *old = ctl->topo;
	struct inc_ctl_switch *sides = NULL;
	struct inc_topo_map map;
	int ret = inc_topo_map_init(&map, old);

	if (ret)
		goto out;
	inc_core_mark_used(&ctl->core, &map);
	ret = inc_topology_merge(topo, old, &map);
	if (ret)
		goto out;
	sides = calloc(topo->n_switches, sizeof(*sides));
	ret = sides ? 0 : -ENOMEM;
	if (ret)
		goto out;
	close_gone(ctl, &map);
	ret = inc_core_renumber(&ctl->core, topo, &map);
	if (ret)
		goto out;
	move_sides(ctl, &map, old->n_switches, sides);
	sides = NULL;
	inc_page_renumbered(ctl);
	ctl->topo = topo;
	inc_topology_free(old);
	if (inc_topology_drains(topo))
		inc_timeout_arm(ctl->drain, DRAIN_MS);
	inc_ctl_step(ctl, &(struct inc_core_event){.kind = CORE_EVENT_RENUMBERED});
out:
	free(sides);
	inc_topo_map_free(&map);
	return ret;
}

/* Replaces the topology of a controller that stands by. Nothing uses it yet. Returns 0 or
 * -ENOMEM. */
static int replace_unused(struct inc_ctl *ctl, struct inc_topology *topo)
{
	struct inc_ctl_switch *sides = calloc(topo->n_switches, sizeof(*sides));

	if (!sides)
		return -ENOMEM;
	free(ctl->switches);
	ctl->switches = sides;
	inc_topology_free(ctl->topo);
	ctl->topo = topo;
	return 0;
}

/* Logs what was draining and is no part of the next topology. Returns whether there is any. */
static bool log_drained(const struct inc_topology *topo, const struct inc_topo_map *map)
{
	bool any = false;

	for (unsigned int h = topo->n_live_hosts; h < topo->n_hosts; h++) {
		if (map->hosts[h] != INC_TOPO_NOWHERE || topo->hosts[h].of != h)
			continue;
		inc_info("topology: host %s has drained", topo->hosts[h].name);
		any = true;
	}
	for (unsigned int s = 0; s < topo->n_switches; s++) {
		const struct inc_topo_switch *sw = &topo->switches[s];

		if (map->switches[s] == INC_TOPO_NOWHERE) {
			inc_info("topology: switch %s has drained", sw->name);
			any = true;
			continue;
		}
		for (unsigned int p = sw->n_live_ports; p < sw->n_ports; p++) {
			if (*inc_topo_map_port(map, s, p) != INC_TOPO_NOWHERE)
				continue;
			any = true;
			if (s < topo->n_live_switches)
				inc_info("topology: port %s of %s has drained", sw->ports[p].name,
					 sw->name);
		}
	}
	return any;
}

/* Whether something that drains is not in use any more. Returns false if there is no memory. */
static bool has_drained(const struct inc_ctl *ctl)
{
	struct inc_topology *next = inc_topology_copy(ctl->topo);
	struct inc_topo_map map = {};
	bool any = false;

	if (next && !inc_topo_map_init(&map, ctl->topo)) {
		inc_core_mark_used(&ctl->core, &map);
		any = !inc_topology_merge(next, ctl->topo, &map) && log_drained(ctl->topo, &map);
	}
	inc_topo_map_free(&map);
	inc_topology_free(next);
	return any;
}

static void on_drain(void *arg)
{
	struct inc_ctl *ctl = arg;
	struct inc_topology *next = NULL;

	if (has_drained(ctl)) {
		next = inc_topology_copy(ctl->topo);
		if (!next || replace(ctl, next))
			inc_topology_free(next);
		else if (!inc_topology_drains(ctl->topo))
			inc_info("topology: nothing drains any more");
	}
	if (inc_topology_drains(ctl->topo))
		inc_timeout_arm(ctl->drain, DRAIN_MS);
}

int inc_reload_start(struct inc_ctl *ctl)
{
	ctl->drain = inc_timeout_new(&ctl->timeouts, on_drain, ctl);
	return ctl->drain ? 0 : -ENOMEM;
}

void inc_reload_stop(struct inc_ctl *ctl)
{
	inc_timeout_free(ctl->drain);
}

/* Counts the changes, and logs each of them. */
static void on_change(void *arg, enum inc_topo_change change, const char *text)
{
	++((unsigned int *)arg)[change];
	inc_info("topology: %s", text);
}

/* Finds a job that uses the host; NULL if there is none. */
static const struct inc_group *user_of(const struct inc_core *core, unsigned int host)
{
	const struct inc_group *group;

	LIST_FOREACH (group, &core->groups, entry) {
		for (unsigned int rank = 0; rank < group->world_size; rank++) {
			if (group->members[rank].present && group->members[rank].host == host)
				return group;
		}
	}
	return NULL;
}

/* Logs what is draining. Returns the number of such hosts, switches and ports. */
static unsigned int log_draining(const struct inc_ctl *ctl)
{
	const struct inc_topology *topo = ctl->topo;
	unsigned int n = 0;

	for (unsigned int h = topo->n_live_hosts; h < topo->n_hosts; h++) {
		const struct inc_group *group = user_of(&ctl->core, h);

		if (topo->hosts[h].of != h) /* a further NIC of a host */
			continue;
		n++;
		inc_info("topology: host %s drains: %s%s uses it", topo->hosts[h].name,
			 group ? "job " : "", group ? group->job : "a communicator");
	}
	for (unsigned int s = 0; s < topo->n_switches; s++) {
		const struct inc_topo_switch *sw = &topo->switches[s];

		if (s >= topo->n_live_switches) {
			inc_info("topology: switch %s drains: a communicator uses it", sw->name);
			n++;
			continue;
		}
		for (unsigned int p = sw->n_live_ports; p < sw->n_ports; p++, n++)
			inc_info("topology: port %s of %s drains: a communicator uses it",
				 sw->ports[p].name, sw->name);
	}
	return n;
}

/* Records what SIGHUP has done, unless the controller stands by and has no core yet. */
static void record(struct inc_ctl *ctl, const char *what, const char *text)
{
	if (!ctl->core.topo)
		return;
	/* SIGHUP comes between the steps of the core, each of which begins with the time */
	ctl->core.now.wall_ns = inc_wall_ns();
	inc_core_record(&ctl->core, INC_RECORD_RELOAD, 0, "%s%s", what, text);
	inc_page_take_records(ctl);
}

/* Counts the switches of two topologies. All of them may be connected until those that the new one
 * lacks have drained. */
static unsigned int count_all(const struct inc_topology *topo, const struct inc_topology *old)
{
	unsigned int n = topo->n_switches;

	for (unsigned int s = 0; s < old->n_switches; s++)
		n += inc_topology_switch_by_name(topo, old->switches[s].name) < 0;
	return n;
}

/* Reads the topology again. Returns 0, or -errno with the reason. */
static int reload_topology(struct inc_ctl *ctl, struct inc_topology *topo, int signal,
			   struct inc_err *err)
{
	unsigned int changes[INC_N_TOPO_CHANGES] = {};
	char text[200];
	struct inc_topology *before = inc_topology_copy(ctl->topo);
	const unsigned int listed = topo->n_hosts - topo->n_nics, switches = topo->n_switches;
	int ret;

	ret = inc_links_share_descriptors(ctl, count_all(topo, ctl->topo), err);
	if (ret) {
		inc_topology_free(before);
		return ret;
	}
	ret = -ENOMEM;
	if (before)
		ret = ctl->core.topo ? replace(ctl, topo) : replace_unused(ctl, topo);
	if (ret) {
		inc_topology_free(before);
		return inc_err_set(err, -ret, "reloading the topology: out of memory");
	}
	inc_topology_compare(before, ctl->topo, on_change, changes);
	inc_topology_free(before);
	snprintf(text, sizeof(text),
		 "%u hosts, %u switches: %u added, %u removed, %u changed, %u draining", listed,
		 switches, changes[INC_TOPO_ADDED], changes[INC_TOPO_REMOVED],
		 changes[INC_TOPO_CHANGED], log_draining(ctl));
	inc_info("signal %d: topology %s: %s", signal, ctl->opt.topology, text);
	record(ctl, "topology: ", text);
	return 0;
}

void inc_reload(struct inc_ctl *ctl, int signal)
{
	const bool keys = inc_tls_wanted(&ctl->opt.tls);
	char doubt[INC_TOPO_DOUBT_TEXT];
	struct inc_topology *topo = NULL;
	struct inc_tls *tls = NULL;
	struct inc_err err;
	int ret = 0;

	if (keys) {
		tls = inc_tls_server(&ctl->opt.tls, &err);
		ret = tls ? 0 : -EINVAL;
	}
	ret = ret ?: inc_topology_load(ctl->opt.topology, &topo, &err);
	if (!ret && *inc_topology_doubt(topo, doubt))
		inc_warn("%s: %s", ctl->opt.topology, doubt);
	ret = ret ?: reload_topology(ctl, topo, signal, &err);
	if (ret) {
		inc_error("%s", err.msg);
		inc_warn("signal %d: topology and keys are as before", signal);
		record(ctl, "topology and keys are as before: ", err.msg);
		inc_topology_free(topo);
		inc_tls_free(tls);
		return;
	}
	if (!keys)
		return;
	/* new connections use the new keys, and existing ones keep theirs */
	inc_tls_free(ctl->tls);
	ctl->tls = tls;
	inc_info("signal %d: keys are read again", signal);
	record(ctl, "keys are read again", "");
}
