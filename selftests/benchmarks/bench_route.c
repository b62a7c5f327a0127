/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Measures the controller's computations for communicators in a large fabric: their trees, the
 * configuration of each switch, and these configurations as messages. No daemon runs. 1,000
 * communicators exist at the same time, as in a controller that never removes one. Prints the CPU
 * seconds for all of them, the least of several runs.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <jansson.h>
#include "controller/core/route.h"
#include "lib/base/clock.h"
#include "lib/base/opt.h"
#include "lib/conf/messages.h"
#include "selftests/control/fabric.h"

#define JOBS 1000

struct bench {
	struct inc_topology *topo;
	/* the members of the communicator, in the order of ranks */
	struct inc_route_member *members;
	struct inc_msg_configure *said;
	uint32_t runs;
	bool json;
};

struct load {
	const char *name;
	unsigned int ranks; /* number of ranks in each communicator */
	bool scattered;     /* members are spread over all hosts; false: they are neighbours */
};

struct figure {
	double route_s, configure_s, print_s;
	size_t switches, connections, bytes;
};

static unsigned int host_of(const struct bench *b, const struct load *load, unsigned int job,
			    unsigned int rank)
{
	const uint64_t n = (uint64_t)job * load->ranks + rank;

	/* a stride that visits every host before it visits one again */
	return (load->scattered ? n * 5077 : n) % b->topo->n_hosts;
}

static const struct inc_route_member *get_member(const void *arg, unsigned int rank)
{
	const struct bench *b = arg;

	return &b->members[rank];
}

static const uint8_t *get_mac(const void *arg, unsigned int sw, unsigned int port)
{
	static const uint8_t mac[6] = {2, 0, 0, 0, 0, 1};

	return mac;
}

static double cpu_s(void)
{
	return (double)inc_clock_ns(CLOCK_PROCESS_CPUTIME_ID) / INC_NSEC_PER_SEC;
}

/* Computes the configuration that each switch of one communicator gets, and writes it as lines of
 * the protocol. */
static int tell(struct bench *b, const struct inc_tree *tree, struct figure *f)
{
	const struct inc_route_comm comm = {
		.payload = INC_DEF_PAYLOAD,
		.slots = INC_DEF_SLOTS,
		.topo = b->topo,
		.tree = tree,
		.member = get_member,
		.mac = get_mac,
		.arg = b,
	};

	for (unsigned int n = 0; n < tree->n; n++) {
		double start_s = cpu_s();
		json_t *message;
		int ret = inc_route_config(&comm, n, &b->said->config);

		f->configure_s += cpu_s() - start_s;
		if (ret)
			return ret;
		start_s = cpu_s();
		message = inc_message_new(INC_MSG_CONFIGURE, b->said);
		f->bytes += json_dumpb(message, NULL, 0, JSON_COMPACT);
		json_decref(message);
		f->print_s += cpu_s() - start_s;
		f->connections += b->said->config.n_conns;
	}
	f->switches += tree->n;
	return 0;
}

static int run(struct bench *b, const struct load *load, struct figure *f, struct inc_err *err)
{
	struct inc_msg_limits limits = {.children = INC_MAX_CHILDREN, .slots = INC_MAX_SLOTS};
	struct inc_tree **trees = calloc(JOBS, sizeof(*trees));
	struct inc_routes *routes = inc_routes_new(b->topo);
	unsigned int hosts[INC_MAX_RANKS];
	int ret = 0;

	*f = (struct figure){0};
	if (!trees || !routes)
		ret = inc_err_set(err, ENOMEM, "out of memory");
	for (unsigned int s = 0; s < b->topo->n_switches && !ret; s++)
		inc_routes_offer(routes, s, &limits);
	for (unsigned int job = 0; job < JOBS && !ret; job++) {
		double start_s;

		for (unsigned int rank = 0; rank < load->ranks; rank++)
			b->members[rank].host = hosts[rank] = host_of(b, load, job, rank);
		start_s = cpu_s();
		ret = inc_route_compute(routes, hosts, load->ranks, INC_DEF_SLOTS, &trees[job],
					err);
		f->route_s += cpu_s() - start_s;
		if (!ret && tell(b, trees[job], f))
			ret = inc_err_set(err, E2BIG, "a switch has too many connections");
	}
	for (unsigned int job = 0; routes && trees && job < JOBS; job++)
		inc_route_release(routes, trees[job]);
	inc_routes_free(routes);
	free(trees);
	return ret;
}

static void report(const struct bench *b, const struct load *load, const struct figure *f)
{
	const double total_s = f->route_s + f->configure_s + f->print_s;

	if (!b->json) {
		printf("%-20s %6u %9zu %11zu %9.3f %11.3f %10.3f %8.3f\n", load->name, load->ranks,
		       f->switches, f->connections, f->route_s, f->configure_s, f->print_s,
		       total_s);
		return;
	}
	printf("{\"bench\":\"%s\",\"communicators\":%d,\"ranks\":%u,\"switches\":%zu,"
	       "\"connections\":%zu,\"bytes\":%zu,\"route_s\":%.6f,\"configure_s\":%.6f,"
	       "\"print_s\":%.6f,\"total_s\":%.6f}\n",
	       load->name, JOBS, load->ranks, f->switches, f->connections, f->bytes, f->route_s,
	       f->configure_s, f->print_s, total_s);
}

static int run_all(struct bench *b, struct inc_err *err)
{
	static const struct load loads[] = {
		{"side by side", 16, false},
		{"scattered", 16, true},
		{"scattered", 64, true},
	};

	for (size_t i = 0; i < sizeof(loads) / sizeof(loads[0]); i++) {
		struct figure best = {0}, f;

		for (uint32_t r = 0; r < b->runs; r++) {
			int ret = run(b, &loads[i], &f, err);

			if (ret)
				return ret;
			if (!r || f.route_s + f.configure_s + f.print_s <
					  best.route_s + best.configure_s + best.print_s)
				best = f;
		}
		report(b, &loads[i], &best);
	}
	return 0;
}

static int make_topology(struct bench *b, struct inc_err *err)
{
	static const struct fabric shape = {
		.pods = 16, .edges = 32, .hosts = 32, .aggs = 16, .cores = 16};
	double start_s;
	size_t len;
	char *text = fabric_text(&shape, &len);
	int ret;

	if (!text)
		return inc_err_set(err, ENOMEM, "out of memory");
	start_s = cpu_s();
	ret = inc_topology_parse("fabric", text, len, &b->topo, err);
	free(text);
	if (!ret && !b->json)
		printf("   %u switches, %u hosts, %u links; %zu bytes of YAML are read in %.3f s\n"
		       "%-20s %6s %9s %11s %9s %11s %10s %8s\n",
		       b->topo->n_switches, b->topo->n_hosts, b->topo->n_links, len,
		       cpu_s() - start_s, "1000 communicators", "ranks", "switches", "connections",
		       "route_s", "configure_s", "message_s", "total_s");
	return ret;
}

static const struct inc_opt options[] = {
	{.name = "runs",
	 .value = "N",
	 .preset = "3",
	 .help = "of which the fastest counts",
	 INC_OPT_NUMBER(struct bench, runs, 1, 1000)},
	{.name = "json", .help = "a line of JSON per row", INC_OPT_FLAG(struct bench, json)},
	{},
};

static const struct inc_program program = {
	.name = "bench_route",
	.man_section = 1,
	.brief = "what routes and configurations cost",
	.about = "Trees and configurations of 1,000 communicators on 1,024 switches with 16,384 "
		 "hosts, computed without any daemon.",
	.groups = {{options, 0}},
};

int main(int argc, char **argv)
{
	struct bench b = {0};
	struct inc_err err;
	int ret = inc_opt_parse(&program, argc, argv, &b, NULL);

	if (ret >= 0)
		return ret;
	b.members = calloc(INC_MAX_RANKS, sizeof(*b.members));
	b.said = calloc(1, sizeof(*b.said));
	ret = b.members && b.said ? make_topology(&b, &err)
				  : inc_err_set(&err, ENOMEM, "out of memory");
	if (!ret)
		ret = run_all(&b, &err);
	if (ret)
		fprintf(stderr, "bench_route: %s\n", err.msg);
	inc_topology_free(b.topo);
	free(b.members);
	free(b.said);
	return ret ? 1 : 0;
}
