/* SPDX-License-Identifier: BSD-2-Clause */
/* inc-controller --plan: reads a topology and the costs, and prints what a job would cost.
 * inc-controller --check: reads a topology, and prints what it has. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include "controller/core/plan.h"
#include "controller/ctl_options.h"
#include "lib/base/log.h"
#include "lib/base/stdout.h"
#include "lib/conf/schema.h"
#include "lib/conf/yaml.h"

#define MOST_NS 1e12

static const struct inc_opt_word types[] = {
	{"int32", INC_PLAN_INT32}, {"float32", INC_PLAN_FLOAT32}, {}};
static const struct inc_opt_word modes[] = {
	{"passthrough", INC_PASSTHROUGH}, {"termination", INC_TERMINATION}, {}};

const struct inc_opt inc_plan_options[] = {
	INC_OPT_HEADING("A plan"),
	{.name = "plan",
	 .value = "TOPOLOGY",
	 .help = "predict the time of an AllReduce on this topology, print it and end; the costs "
		 "of soft "
		 "endpoints and of the switch are those of docs/modes.md",
	 INC_OPT_TEXT(struct inc_plan_command, topology, inc_path_check)},
	{.name = "ranks",
	 .value = "N",
	 .preset = "0",
	 .help = "of the job, on the first hosts of the topology; 0: on all hosts",
	 INC_OPT_NUMBER(struct inc_plan_command, ranks, 0, INC_MAX_RANKS)},
	{.name = "bytes",
	 .value = "SIZE",
	 .preset = "1M",
	 .help = "of the vector, with a suffix K, M or G",
	 INC_OPT_SIZE(struct inc_plan_command, bytes)},
	{.name = "type",
	 .preset = "int32",
	 .help = "of the elements",
	 INC_OPT_WORD(struct inc_plan_command, type, types)},
	{.name = "mode",
	 .preset = "passthrough",
	 .help = "of switches for which the topology names none; with auto there, type and size "
		 "decide",
	 INC_OPT_WORD(struct inc_plan_command, mode, modes)},
	{.name = "cores",
	 .value = "N",
	 .preset = "0",
	 .help = "cores that all hosts and switches share, as in a lab; 0: each is a machine of "
		 "its own",
	 INC_OPT_NUMBER(struct inc_plan_command, cores, 0, 4096)},
	{.name = "costs",
	 .value = "FILE",
	 .help = "other costs, in the form in which selftests/bench modes prints those of a "
		 "machine",
	 INC_OPT_TEXT(struct inc_plan_command, costs, inc_path_check)},
	{.name = "json",
	 .help = "print the plan, or what --check or --discover has found, as a JSON object",
	 INC_OPT_FLAG(struct inc_plan_command, json)},
	{},
};

#define NS(type, member) \
	.kind = INC_REAL, .need = INC_OPTIONAL, .max = MOST_NS, INC_AT(type, member)
#define MAP(type, member, schema) \
	.kind = INC_MAP, .need = INC_OPTIONAL, INC_AT(type, member), .of = (schema)

static const struct inc_field cost_fields[] = {
	{"call_ns", NS(struct inc_plan_cost, call_ns)},
	{"packet_ns", NS(struct inc_plan_cost, packet_ns)},
	{"byte_ns", NS(struct inc_plan_cost, byte_ns)},
};
static const struct inc_schema cost_schema = INC_SCHEMA(struct inc_plan_cost, cost_fields);
static const struct inc_field end_fields[] = {
	{"host", MAP(struct inc_plan_costs, host, &cost_schema)},
	{"child", MAP(struct inc_plan_costs, child, &cost_schema)},
	{"rest", MAP(struct inc_plan_costs, rest, &cost_schema)},
};
static const struct inc_schema end_schema = INC_SCHEMA(struct inc_plan_costs, end_fields);
static const struct inc_field table_fields[] = {
#define COSTS(when, mode, MODE, type, TYPE)                                       \
	{                                                                         \
#when "_" #mode "_" #type,                                        \
			MAP(struct inc_plan_table, when[MODE][TYPE], &end_schema) \
	}
#define COSTS_OF(when)                                                                \
	COSTS(when, passthrough, INC_PASSTHROUGH, int32, INC_PLAN_INT32),             \
		COSTS(when, passthrough, INC_PASSTHROUGH, float32, INC_PLAN_FLOAT32), \
		COSTS(when, termination, INC_TERMINATION, int32, INC_PLAN_INT32),     \
		COSTS(when, termination, INC_TERMINATION, float32, INC_PLAN_FLOAT32)
	COSTS_OF(alone),
	COSTS_OF(crowded),
	COSTS_OF(packed),
};
static const struct inc_schema table_schema = INC_SCHEMA(struct inc_plan_table, table_fields);

static int read_costs(const char *path, struct inc_plan_table *table, struct inc_err *err)
{
	struct inc_yaml *doc;
	int ret = inc_yaml_load(path, &doc, err);

	if (ret)
		return ret;
	ret = inc_schema_read_yaml(&table_schema, inc_yaml_root(doc), table, err);
	inc_yaml_free(doc);
	return ret;
}

/* Describes, as text, the resource that limits the time of a plan. */
static void limit_text(const struct inc_topology *topo, const struct inc_plan *plan,
		       unsigned int cores, char *text, size_t size)
{
	const struct inc_topo_link *link = &topo->links[plan->limit_index];

	switch (plan->limit) {
	case INC_PLAN_CORES:
		snprintf(text, size, "the %u cores that all share", cores);
		break;
	case INC_PLAN_HOST:
		snprintf(text, size, "the CPU of each host");
		break;
	case INC_PLAN_SWITCH:
		snprintf(text, size, "the CPU of switch %s",
			 topo->switches[plan->switches[plan->limit_index].sw].name);
		break;
	case INC_PLAN_LINK:
		if (link->end[0].kind == INC_TOPO_HOST)
			snprintf(text, size, "the link of host %s",
				 topo->hosts[link->end[0].index].name);
		else
			snprintf(text, size, "the link of switch %s",
				 topo->switches[link->end[0].index].name);
		break;
	}
}

static int print_json(const struct inc_topology *topo, const struct inc_plan_job *job,
		      const struct inc_plan *plan, const char *limit)
{
	json_t *switches = json_array(), *all;
	int ret;

	for (unsigned int n = 0; n < plan->n_switches; n++)
		json_array_append_new(switches,
				      json_pack("{ss, si, sf}", "name",
						topo->switches[plan->switches[n].sw].name,
						"children", (int)plan->switches[n].children,
						"cpu_us", plan->switches[n].cpu_us));
	all = json_pack("{si, sI, ss, ss, si, sI, si, sf, sf, ss, so}", "ranks", (int)job->ranks,
			"bytes", (json_int_t)job->bytes, "type", types[job->type].word, "mode",
			inc_modes_of_switch[plan->mode], "payload", (int)plan->payload, "packets",
			(json_int_t)plan->packets, "slots", (int)plan->slots, "time_us",
			plan->time_us, "host_cpu_us", plan->host_cpu_us, "limit", limit, "switches",
			switches);
	ret = all ? json_dumpf(all, stdout, JSON_COMPACT) : -1;
	json_decref(all);
	putchar('\n');
	return ret ? -ENOMEM : 0;
}

static void print_text(const struct inc_topology *topo, const struct inc_plan_job *job,
		       const struct inc_plan *plan, const char *limit)
{
	printf("%u ranks, %llu bytes of %s, mode %s, %llu packets of %u bytes\n", job->ranks,
	       (unsigned long long)job->bytes, types[job->type].word,
	       inc_modes_of_switch[plan->mode], (unsigned long long)plan->packets, plan->payload);
	printf("time    %.1f us, %.2f Gbit/s of the vector\n", plan->time_us,
	       job->bytes * 8 / plan->time_us / 1e3);
	printf("limit   %s\n", limit);
	printf("slots   %u of each switch\n", plan->slots);
	printf("host    %.1f us of CPU\n", plan->host_cpu_us);
	for (unsigned int n = 0; n < plan->n_switches; n++)
		printf("switch  %s: %u children, %.1f us of CPU\n",
		       topo->switches[plan->switches[n].sw].name, plan->switches[n].children,
		       plan->switches[n].cpu_us);
}

static int make_plan(const struct inc_plan_command *cmd, const struct inc_topology *topo,
		     struct inc_err *err)
{
	const struct inc_plan_job job = {.ranks = cmd->ranks ?: topo->n_hosts - topo->n_nics,
					 .bytes = cmd->bytes,
					 .type = cmd->type,
					 .cores = cmd->cores};
	struct inc_plan_table costs = inc_plan_measured;
	struct inc_plan plan;
	char limit[64];
	int ret;

	ret = cmd->costs ? read_costs(cmd->costs, &costs, err) : 0;
	if (ret)
		return ret;
	ret = inc_plan_make(topo, &costs, &job, cmd->mode, &plan, err);
	if (ret)
		return ret;
	limit_text(topo, &plan, job.cores, limit, sizeof(limit));
	if (!cmd->json)
		print_text(topo, &job, &plan, limit);
	else if (print_json(topo, &job, &plan, limit))
		ret = inc_err_set(err, ENOMEM, "out of memory");
	inc_plan_free(&plan);
	return ret ?: inc_stdout_flush(err);
}

int inc_plan_run(const struct inc_plan_command *cmd)
{
	struct inc_topology *topo = NULL;
	struct inc_err err;
	int ret = inc_topology_load(cmd->topology, &topo, &err);

	if (!ret)
		ret = make_plan(cmd, topo, &err);
	if (ret)
		inc_error("%s", err.msg);
	inc_topology_free(topo);
	return ret ? 1 : 0;
}

static int print_topology(const char *path, const struct inc_topology *topo, bool json)
{
	unsigned int roots = 0;
	json_t *all;
	int ret;

	for (unsigned int i = 0; i < topo->n_switches; i++)
		roots += topo->switches[i].root;
	if (!json) {
		printf("%s: ok: %u hosts, %u switches (%u may be roots), %u bridges, %u links\n",
		       path, topo->n_hosts - topo->n_nics, topo->n_switches, roots, topo->n_bridges,
		       topo->n_links);
		return 0;
	}
	all = json_pack("{ss, si, si, si, si, si}", "topology", path, "hosts",
			(int)(topo->n_hosts - topo->n_nics), "switches", (int)topo->n_switches,
			"roots", (int)roots, "bridges", (int)topo->n_bridges, "links",
			(int)topo->n_links);
	ret = all ? json_dumpf(all, stdout, JSON_COMPACT) : -1;
	json_decref(all);
	putchar('\n');
	return ret ? -ENOMEM : 0;
}

int inc_topology_check(const char *path, bool json)
{
	char doubt[INC_TOPO_DOUBT_TEXT];
	struct inc_topology *topo;
	struct inc_err err;
	int ret = inc_topology_load(path, &topo, &err);

	if (!ret) {
		if (*inc_topology_doubt(topo, doubt))
			inc_warn("%s: %s", path, doubt);
		if (print_topology(path, topo, json))
			ret = inc_err_set(&err, ENOMEM, "out of memory");
		inc_topology_free(topo);
	}
	ret = ret ?: inc_stdout_flush(&err);
	if (ret)
		inc_error("%s", err.msg);
	return ret ? 1 : 0;
}
