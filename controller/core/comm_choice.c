/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The tree of a communicator, and the mode that the switches with INC_AUTO have in it. The mode
 * follows from what the members will use the communicator for, by the tables of docs/modes.md. It
 * is the same at all these switches, because a tree with switches of both modes is the slowest.
 * Called by comm_config.c, whenever the communicator gets a tree.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include "controller/core/comm.h"
#include "controller/core/comm_config.h"
#include "controller/core/core.h"
#include "controller/core/group.h"
#include "controller/core/route.h"
#include "controller/core/switch.h"

/* From these sizes on termination mode is the quicker one (docs/modes.md, "Mode auto"). */
#define LARGE_BYTES       (64 << 10)
#define LARGE_FLOAT_BYTES (4 << 10)
#define MANY_HOSTS        4

static void explain(struct inc_comm *comm, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Stores for people why the communicator has its mode. */
static void explain(struct inc_comm *comm, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(comm->choice, sizeof(comm->choice), fmt, ap);
	va_end(ap);
}

/* Finds what the members together will use the communicator for: all that one of them has named.
 * Returns false if one of them has named nothing. */
static bool find_use(const struct inc_comm *comm, struct inc_msg_use *use)
{
	bool known = true;

	*use = (struct inc_msg_use){0};
	for (unsigned int rank = 0; rank < comm->group->world_size; rank++) {
		const struct inc_comm_member *m = &comm->members[rank];

		if (inc_group_is_led(comm->group, rank))
			continue;
		known &= m->has_use;
		use->bytes = use->bytes > m->use.bytes ? use->bytes : m->use.bytes;
		use->floats |= m->use.floats;
		use->products |= m->use.products;
		use->writes |= m->use.writes;
	}
	return known;
}

bool inc_comm_uses_floats(const struct inc_comm *comm)
{
	struct inc_msg_use use;

	return !find_use(comm, &use) || use.floats;
}

enum inc_mode_of_switch inc_mode_of_use(const struct inc_msg_use *use, bool known,
					unsigned int n_hosts, const char **why)
{
	const struct {
		bool applies;
		enum inc_mode_of_switch mode;
		const char *why;
	} rules[] =
		{
			{use->writes, INC_PASSTHROUGH, "hosts send with RDMA WRITE"},
			{use->floats && use->products, INC_TERMINATION, "products of floats"},
			{!known, INC_TERMINATION, "its use is not known (INCCL_USE)"},
			{use->bytes >= LARGE_BYTES, INC_TERMINATION, "vectors of 64 KiB or more"},
			{use->floats && use->bytes >= LARGE_FLOAT_BYTES && n_hosts >= MANY_HOSTS,
			 INC_TERMINATION, "floats of 4 KiB or more, 4 hosts or more"},
			{true, INC_PASSTHROUGH, "small vectors"},
		},
	  *rule = rules;

	while (!rule->applies)
		rule++;
	*why = rule->why;
	return rule->mode;
}

static enum inc_mode_of_switch mode_of_members(struct inc_comm *comm, unsigned int n_hosts)
{
	struct inc_msg_use use;
	const bool known = find_use(comm, &use);
	const char *why;
	const enum inc_mode_of_switch mode = inc_mode_of_use(&use, known, n_hosts, &why);

	explain(comm, "%s", why);
	return mode;
}

/* Returns the mode for a further channel: that of channel 0, without which the library could not
 * use the channel. Returns INC_N_MODES if channel 0 has no mode for all its switches. */
static enum inc_mode_of_switch mode_of_first_channel(struct inc_comm *comm)
{
	const uint32_t index = inc_channel_comm(comm->index);
	const struct inc_comm *first;

	LIST_FOREACH (first, &comm->group->comms, entry) {
		if (first == comm || first->index != index || !first->tree ||
		    first->mode == INC_TREE_MIXED)
			continue;
		explain(comm, "channel 0 has it");
		return first->mode == INC_TREE_TERMINATION ? INC_TERMINATION : INC_PASSTHROUGH;
	}
	return INC_N_MODES;
}

static bool is_auto(const struct inc_comm *comm, unsigned int node)
{
	return inc_switch_setting(inc_comm_switch(comm, &comm->tree->nodes[node])) == INC_AUTO;
}

/* Finds the first switch with INC_AUTO that cannot make the communicator in the mode. Returns NULL
 * if each of them can. */
static const struct inc_core_switch *unable(const struct inc_comm *comm,
					    enum inc_mode_of_switch mode)
{
	struct inc_err why;

	for (unsigned int n = 0; n < comm->tree->n; n++) {
		if (is_auto(comm, n) && inc_comm_check_node(comm, n, mode, &why))
			return inc_comm_switch(comm, &comm->tree->nodes[n]);
	}
	return NULL;
}

/* Finds the first switch of the tree whose mode is fixed to this one, or NULL. */
static const struct inc_core_switch *fixed_to(const struct inc_comm *comm,
					      enum inc_mode_of_switch mode)
{
	for (unsigned int n = 0; n < comm->tree->n; n++) {
		if (inc_switch_setting(inc_comm_switch(comm, &comm->tree->nodes[n])) == mode)
			return inc_comm_switch(comm, &comm->tree->nodes[n]);
	}
	return NULL;
}

static bool has_auto(const struct inc_comm *comm)
{
	for (unsigned int n = 0; n < comm->tree->n; n++) {
		if (is_auto(comm, n))
			return true;
	}
	return false;
}

static enum inc_mode_of_switch other_than(enum inc_mode_of_switch mode)
{
	return mode == INC_PASSTHROUGH ? INC_TERMINATION : INC_PASSTHROUGH;
}

/* Returns whether the switches of the tree demand the other mode than the one in which it was
 * found: some cannot have that one, or the fixed ones all have the other one. */
static bool must_change(struct inc_comm *comm, enum inc_mode_of_switch mode)
{
	const enum inc_mode_of_switch other = other_than(mode);
	const struct inc_core_switch *cannot = unable(comm, mode), *fixed = fixed_to(comm, other);

	if (!has_auto(comm) || unable(comm, other))
		return false;
	if (cannot)
		explain(comm, "switch %s cannot do %s mode", inc_switch_name(cannot),
			inc_modes_of_switch[mode]);
	else if (fixed && !fixed_to(comm, mode))
		explain(comm, "the mode of switch %s", inc_switch_name(fixed));
	else
		return false;
	return true;
}

/* Finds a tree in which switches with INC_AUTO have this mode. */
static int compute(struct inc_comm *comm, const unsigned int *hosts, unsigned int n_hosts,
		   enum inc_mode_of_switch mode, struct inc_err *err)
{
	struct inc_routes *routes = comm->group->core->routes;

	inc_routes_choose(routes, mode);
	return inc_route_compute(routes, hosts, n_hosts, comm->slots, &comm->tree, err);
}

static void release(struct inc_comm *comm)
{
	inc_route_release(comm->group->core->routes, comm->tree);
	comm->tree = NULL;
}

/* Finds a tree in the other mode, because the switches of the one that was found demand it. If
 * there is none, the first tree is found again. */
static int change(struct inc_comm *comm, const unsigned int *hosts, unsigned int n_hosts,
		  enum inc_mode_of_switch mode, struct inc_err *err)
{
	release(comm);
	if (!compute(comm, hosts, n_hosts, other_than(mode), err)) {
		if (!unable(comm, other_than(mode)))
			return 0;
		/* the search took another switch, which cannot do the other mode */
		release(comm);
	}
	explain(comm, "%s mode has no room", inc_modes_of_switch[other_than(mode)]);
	return compute(comm, hosts, n_hosts, mode, err);
}

/* Passthrough mode has no tree with room for the communicator, so tries termination mode, which
 * needs no rows of the switches and has more children. If that fails as well, the first search is
 * repeated for its error. */
static int try_termination(struct inc_comm *comm, const unsigned int *hosts, unsigned int n_hosts,
			   struct inc_err *err)
{
	if (!compute(comm, hosts, n_hosts, INC_TERMINATION, err)) {
		if (!unable(comm, INC_TERMINATION)) {
			explain(comm, "passthrough mode has no room");
			return 0;
		}
		release(comm);
	}
	return compute(comm, hosts, n_hosts, INC_PASSTHROUGH, err);
}

static bool any_auto(const struct inc_core *core)
{
	for (unsigned int s = 0; s < core->topo->n_switches; s++) {
		if (inc_switch_setting(core->switches[s]) == INC_AUTO)
			return true;
	}
	return false;
}

int inc_comm_find_tree(struct inc_comm *comm, const unsigned int *hosts, unsigned int n_hosts,
		       struct inc_err *err)
{
	enum inc_mode_of_switch mode = INC_N_MODES;
	int ret;

	if (inc_channel_of(comm->index))
		mode = mode_of_first_channel(comm);
	if (mode == INC_N_MODES)
		mode = mode_of_members(comm, n_hosts);
	ret = compute(comm, hosts, n_hosts, mode, err);
	if ((ret == -E2BIG || ret == -ENOSPC) && mode == INC_PASSTHROUGH &&
	    any_auto(comm->group->core))
		ret = try_termination(comm, hosts, n_hosts, err);
	else if (!ret && must_change(comm, mode))
		ret = change(comm, hosts, n_hosts, mode, err);
	if (ret || !has_auto(comm))
		comm->choice[0] = '\0';
	return ret;
}
