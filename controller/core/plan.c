/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "controller/core/comm_config.h"
#include "controller/core/plan.h"
#include "controller/core/route.h"
#include "lib/base/err.h"
#include "lib/base/numbers.h"
#include "lib/proto/maps.h"
#include "lib/roce/wire.h"

/* Bytes that a packet needs on a link beside its payload. They are preamble, Ethernet header, gap
 * and FCS, and the headers of IPv4, UDP and BTH, and the ICRC. */
#define PACKET_BYTES (38 + 20 + 8 + 12 + 4)

#define PASSTHROUGH_MAX_PAYLOAD 2048

const struct inc_plan_table
	inc_plan_measured =
		{
			.alone =
				{
					[INC_PASSTHROUGH] =
						{
							[INC_PLAN_INT32] = {{7530, 2550, 0},
									    {3970, 1380, 0},
									    {0, 1220, 0}},
							[INC_PLAN_FLOAT32] = {{16000, 2750, 0},
									      {8400, 1500, 0},
									      {577, 1200, 0}},
						},
					[INC_TERMINATION] =
						{
							[INC_PLAN_INT32] = {{27700, 0, 0.533},
									    {23500, 0, 0.433},
									    {6500, 0, 0.12}},
							[INC_PLAN_FLOAT32] = {{35100, 0, 0.542},
									      {26900, 0, 0.467},
									      {9860, 0, 0.325}},
						},
				},
			.crowded =
				{
					[INC_PASSTHROUGH] =
						{
							[INC_PLAN_INT32] = {{14500, 2750, 0},
									    {7620, 1520, 0},
									    {479, 1360, 0}},
							[INC_PLAN_FLOAT32] = {{31000, 3780, 0},
									      {16500, 2090, 0},
									      {4570, 1780, 0}},
						},
					[INC_TERMINATION] =
						{
							[INC_PLAN_INT32] = {{40800, 0, 0.599},
									    {25800, 0, 0.447},
									    {7280, 0, 0.006}},
							[INC_PLAN_FLOAT32] = {{44700, 0, 0.716},
									      {31400, 0, 0.498},
									      {3110, 0, 0}},
						},
				},
			.packed =
				{
					[INC_PASSTHROUGH] =
						{
							[INC_PLAN_INT32] = {{16900, 3220, 0},
									    {8990, 1810, 0},
									    {14400, 1320, 0}},
							[INC_PLAN_FLOAT32] = {{47000, 4630, 0},
									      {25100, 2550, 0},
									      {9370, 0, 0}},
						},
					[INC_TERMINATION] =
						{
							[INC_PLAN_INT32] = {{45800, 0, 0.682},
									    {31500, 0, 0.507},
									    {6240, 0, 0}},
							[INC_PLAN_FLOAT32] = {{51300, 0, 0.668},
									      {31700, 0, 0.452},
									      {7230, 0, 0.084}},
						},
				},
};

/* A plan in the making. */
struct work {
	const struct inc_topology *topo;
	const struct inc_plan_job *job;
	const struct inc_plan_costs *costs;
	const struct inc_tree *tree;
	struct inc_plan *plan;
};

static double cost_us(const struct work *w, const struct inc_plan_cost *cost)
{
	return (cost->call_ns + cost->packet_ns * w->plan->packets +
		cost->byte_ns * w->job->bytes) /
	       1e3;
}

static enum inc_mode_of_switch mode_of(const struct inc_topo_switch *sw,
				       enum inc_mode_of_switch preset,
				       const struct inc_plan_job *job)
{
	const struct inc_msg_use use = {.bytes = job->bytes,
					.floats = job->type == INC_PLAN_FLOAT32};
	const char *why;

	if (sw->has_mode && sw->mode == INC_AUTO)
		return inc_mode_of_use(&use, true, job->ranks, &why);
	return sw->has_mode ? sw->mode : preset;
}

/* Sets the mode of the plan: termination if all switches of the tree are in that mode, otherwise
 * passthrough, because that mode has the stricter limits. */
static void find_mode(struct work *w, enum inc_mode_of_switch preset)
{
	w->plan->mode = INC_TERMINATION;
	for (unsigned int n = 0; n < w->tree->n; n++) {
		if (mode_of(&w->topo->switches[w->tree->nodes[n].sw], preset, w->job) ==
		    INC_PASSTHROUGH)
			w->plan->mode = INC_PASSTHROUGH;
	}
}

/* Calls visit() with each link of the tree, to a host or between two switches. */
static void each_link(struct work *w, void (*visit)(struct work *w, unsigned int link))
{
	for (unsigned int i = 0; i < w->tree->n_children; i++)
		if (!w->tree->children[i].to_switch)
			visit(w, w->topo->hosts[w->tree->children[i].host].link);
	for (unsigned int n = 1; n < w->tree->n; n++) {
		const struct inc_tree_node *node = &w->tree->nodes[n];

		visit(w, w->topo->switches[node->sw].ports[node->up_port].link);
	}
}

static void limit_payload(struct work *w, unsigned int link)
{
	const struct inc_topo_end *end = &w->topo->links[link].end[0];
	const struct inc_addr ip = end->kind == INC_TOPO_HOST
					   ? w->topo->hosts[end->index].ip
					   : w->topo->switches[end->index].ports[end->port].ip;
	const unsigned int fits = inc_roce_payload(w->topo->links[link].mtu, inc_roce_overhead(ip));

	w->plan->payload = inc_min(w->plan->payload, fits);
}

static void find_packets(struct work *w)
{
	w->plan->payload =
		w->plan->mode == INC_PASSTHROUGH ? PASSTHROUGH_MAX_PAYLOAD : INC_MAX_RC_PAYLOAD;
	each_link(w, limit_payload);
	w->plan->packets = (w->job->bytes + w->plan->payload - 1) / w->plan->payload ?: 1;
	w->plan->slots = w->tree->slots;
}

/* Raises the plan's time to `us` if that is more, because the slowest part determines the time.
 * limit and index name that part. */
static void limit_time(struct inc_plan *plan, double us, enum inc_plan_limit limit,
		       unsigned int index)
{
	if (us <= plan->time_us)
		return;
	plan->time_us = us;
	plan->limit = limit;
	plan->limit_index = index;
}

/* Limits the time by a link, which carries the vector once in each direction. In a lab only a link
 * with a wire has a rate. */
static void limit_by_link(struct work *w, unsigned int index)
{
	const struct inc_topo_link *link = &w->topo->links[index];
	const double rate_mbit = !w->job->cores   ? link->rate_mbit
				 : link->has_wire ? link->wire.rate_mbit
						  : 0;

	if (rate_mbit > 0)
		limit_time(w->plan,
			   (w->job->bytes + w->plan->packets * PACKET_BYTES) * 8 / rate_mbit,
			   INC_PLAN_LINK, index);
}

/* Returns the time that the first packet needs from the farthest host to the root and back. Each
 * switch on the way also handles the packets of its other children. */
static double way_us(const struct work *w)
{
	const struct inc_plan_costs *costs = w->costs;
	double longest = 0, child_us = (costs->child.call_ns + costs->child.packet_ns) / 1e3;

	for (unsigned int n = 0; n < w->tree->n; n++) {
		double us = 0;

		for (int at = n; at >= 0; at = w->tree->nodes[at].parent)
			us += w->tree->nodes[at].n_children * child_us;
		longest = us > longest ? us : longest;
	}
	return longest + (costs->host.call_ns + costs->host.packet_ns) / 1e3;
}

/* Computes the CPU time of each switch, and returns the sum. A switch with a parent serves one
 * connection more than it has children. */
static double switches_us(struct work *w)
{
	double all_us = 0;

	for (unsigned int n = 0; n < w->tree->n; n++) {
		const struct inc_tree_node *node = &w->tree->nodes[n];
		struct inc_plan_switch *sw = &w->plan->switches[n];

		*sw = (struct inc_plan_switch){.sw = node->sw, .children = node->n_children};
		sw->cpu_us = (node->n_children + (n > 0)) * cost_us(w, &w->costs->child);
		all_us += sw->cpu_us;
	}
	return all_us;
}

/*
 * Computes the time of an AllReduce. Hosts, links and switches work at the same time on different
 * packets, so the busiest of them determines the time. The way of the first packet is added, unless
 * all share the same cores.
 */
static void find_time(struct work *w)
{
	struct inc_plan *plan = w->plan;
	const double all_us = switches_us(w), way = way_us(w);

	plan->host_cpu_us = cost_us(w, &w->costs->host);
	limit_time(plan, plan->host_cpu_us, INC_PLAN_HOST, 0);
	for (unsigned int n = 0; n < plan->n_switches; n++)
		limit_time(plan, plan->switches[n].cpu_us, INC_PLAN_SWITCH, n);
	each_link(w, limit_by_link);
	if (w->job->cores)
		limit_time(plan,
			   (all_us +
			    w->job->ranks * (plan->host_cpu_us + cost_us(w, &w->costs->rest))) /
				   w->job->cores,
			   INC_PLAN_CORES, 0);
	else if (w->plan->packets == 1)
		plan->time_us = way;
	else
		plan->time_us += way;
}

static const struct inc_plan_costs *find_costs(const struct work *w,
					       const struct inc_plan_table *table)
{
	const enum inc_mode_of_switch mode = w->plan->mode;
	const unsigned int cores = w->job->cores;

	if (!cores || w->job->ranks + w->tree->n <= cores + 1)
		return &table->alone[mode][w->job->type];
	return w->job->ranks <= 2 * cores ? &table->crowded[mode][w->job->type]
					  : &table->packed[mode][w->job->type];
}

static int make(struct work *w, const struct inc_plan_table *table, enum inc_mode_of_switch preset,
		struct inc_err *err)
{
	w->plan->n_switches = w->tree->n;
	w->plan->switches = calloc(w->tree->n, sizeof(*w->plan->switches));
	if (!w->plan->switches)
		return inc_err_set(err, ENOMEM, "out of memory");
	find_mode(w, preset);
	w->costs = find_costs(w, table);
	find_packets(w);
	find_time(w);
	return 0;
}

int inc_plan_make(const struct inc_topology *topo, const struct inc_plan_table *costs,
		  const struct inc_plan_job *job, enum inc_mode_of_switch mode,
		  struct inc_plan *plan, struct inc_err *err)
{
	const struct inc_msg_limits limits = {.children = inc_most_children(mode),
					      .slots = INC_MAX_SLOTS};
	struct work w = {.topo = topo, .job = job, .plan = plan};
	unsigned int *hosts = calloc(job->ranks, sizeof(*hosts));
	struct inc_routes *routes = inc_routes_new(topo);
	struct inc_tree *tree = NULL;
	int ret;

	*plan = (struct inc_plan){0};
	if (!hosts || !routes) {
		ret = inc_err_set(err, ENOMEM, "out of memory");
		goto out;
	}
	if (job->ranks > topo->n_hosts - topo->n_nics) {
		ret = inc_err_set(err, EINVAL,
				  "%u ranks need as many hosts, and the topology has %u",
				  job->ranks, topo->n_hosts - topo->n_nics);
		goto out;
	}
	/* each rank uses its host's first NIC; the further ones stand behind the listed hosts */
	for (unsigned int rank = 0; rank < job->ranks; rank++)
		hosts[rank] = rank < topo->n_listed_hosts ? rank : rank + topo->n_nics;
	for (unsigned int sw = 0; sw < topo->n_switches; sw++) {
		inc_routes_offer(routes, sw, &limits);
		inc_routes_set_mode(routes, sw, mode_of(&topo->switches[sw], mode, job), 0);
	}
	ret = inc_route_compute(routes, hosts, job->ranks, INC_DEF_SLOTS, &tree, err);
	if (ret)
		goto out;
	w.tree = tree;
	ret = make(&w, costs, mode, err);
out:
	inc_route_release(routes, tree);
	inc_routes_free(routes);
	free(hosts);
	return ret;
}

void inc_plan_free(struct inc_plan *plan)
{
	free(plan->switches);
	plan->switches = NULL;
}
