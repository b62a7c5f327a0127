// SPDX-License-Identifier: BSD-2-Clause
/*
 * The whole system in one process (docs/simulation.md): hosts, switches with their daemons, and the
 * controller with its database. The seeds run in a child process, so that the
 * parent removes the database's directory however the child ends.
 */
#include <errno.h>
#include <ftw.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <event2/event.h>
#include "cluster.h"
#include "lib/base/opt.h"
#include "lib/base/os.h"
#include "network.h"
#include "process.h"
#include "sim.h"

/* The seeds that the command line names. */
struct seeds {
	uint64_t first, count;
	bool hashes, trace;
};

static const struct inc_opt seeds_options[] = {
	{"seed", 0, "N", "the first seed", "1", INC_OPT_NUMBER(struct seeds, first, 0, INT64_MAX)},
	{"seeds", 0, "N", "how many, one after the other", "1",
	 INC_OPT_NUMBER(struct seeds, count, 1, INT64_MAX)},
	{"hashes", .help = "print the hash of each seed's run, as it is where there is one alone",
	 INC_OPT_FLAG(struct seeds, hashes)},
	{"trace", .help = "print what happens, line by line: when, where, what",
	 INC_OPT_FLAG(struct seeds, trace)},
	{},
};

static double real_s(clockid_t clock)
{
	return inc_os_kernel.clock_ns(clock) / 1e9;
}

/* Runs all seeds: for each calls sim_begin() and run(). Afterwards prints one line with their
 * number, their time and the packets. */
static void seeds_run(const struct seeds *seeds, void (*run)(void))
{
	const struct sim_figures *f = &sim_figures;
	const double begin_s = real_s(CLOCK_MONOTONIC);
	const double cpu_begin_s = real_s(CLOCK_PROCESS_CPUTIME_ID);
	uint64_t simulated_ns = 0, i;
	double s, cpu_s;

	for (i = 0; i < seeds->count; i++) {
		sim_begin(seeds->first + i, seeds->trace);
		simulated_ns -= sim_now_ns();
		run();
		simulated_ns += sim_now_ns();
		if (seeds->hashes || seeds->count == 1)
			printf("seed %llu: hash %016llx\n", (unsigned long long)sim_seed(),
			       (unsigned long long)sim_hash());
	}
	s = real_s(CLOCK_MONOTONIC) - begin_s;
	cpu_s = real_s(CLOCK_PROCESS_CPUTIME_ID) - cpu_begin_s;
	printf("%llu seeds in %.1f s (%.1f ms of CPU time each), %.2f simulated hours; %llu "
	       "packets (%.0f a "
	       "second), %llu events\n",
	       (unsigned long long)seeds->count, s, 1000 * cpu_s / seeds->count,
	       simulated_ns / 3600e9, (unsigned long long)f->packets, f->packets / s,
	       (unsigned long long)f->events);
}

struct options {
	struct seeds seeds; /* the first member, because seeds_options fill it */
	const char *scenario;
	uint64_t each_packet;
	bool print;
};

static const struct inc_opt options[] = {
	{"scenario", 0, "FILE",
	 "run this scenario, not that of a seed (docs/simulation.md); its line 'seed N' is the "
	 "seed",
	 NULL, INC_OPT_TEXT(struct options, scenario, inc_path_check)},
	{"each-packet", 0, "N",
	 "run the scenario again and again, where its lines 'before packet' have the numbers 1, "
	 "1 + N and so on, until the job has no such packet",
	 NULL, INC_OPT_NUMBER(struct options, each_packet, 1, INT64_MAX)},
	{"print", .help = "print the scenario of each seed before it runs",
	 INC_OPT_FLAG(struct options, print)},
	{},
};

static const struct inc_program program = {
	.name = "sim",
	.about = "Runs hosts, switches with their daemons and the controller in one process, on a "
		 "simulated clock and simulated networks, and lets processes die. A seed is one "
		 "run, the same every time. A seed in which something is wrong ends it: the seed, "
		 "the time, the reason and the scenario are printed.",
	.groups = {{seeds_options, offsetof(struct options, seeds)}, {options, 0}},
	.exits = "0 all is well, 1 something is wrong in a seed, 2 wrong command line",
};

static void no_log(int severity, const char *text)
{
}

static bool prints;

static void print_scenario(void)
{
	scenario_print(&cluster_scenario, stdout);
}

static void run(void)
{
	if (!cluster_scenario.path)
		scenario_draw(&cluster_scenario, sim_seed());
	if (prints)
		print_scenario();
	cluster_run();
}

/* Runs the scenario for each packet of its job. */
static void packets_run(const struct options *opt)
{
	const struct cluster_figures *c = &cluster_figures;
	uint64_t packet, runs = 0, repeated = 0, before;
	struct scenario_line *l;

	for (packet = 1;; packet += opt->each_packet) {
		for (l = cluster_scenario.line; l < cluster_scenario.line + cluster_scenario.n; l++)
			if (scenario_is_at_packet(l->kind))
				l->value[0] = packet;
		sim_begin(opt->seeds.first, opt->seeds.trace);
		before = c->calls_repeated;
		run();
		if (!cluster.faults_at_packets)
			break;
		runs++;
		repeated += c->calls_repeated > before;
	}
	printf("%llu runs, of a job with %llu packets: ", (unsigned long long)runs,
	       (unsigned long long)packet - 1);
	printf("the framework repeated calls in %llu; ranks lost the switch %llu times, and had "
	       "that call's result all the same %llu times\n",
	       (unsigned long long)repeated, (unsigned long long)c->switch_lost,
	       (unsigned long long)c->results_of_others);
}

static void run_seeds(const struct options *opt)
{
	const struct cluster_figures *c = &cluster_figures;
	const struct sim_figures *f = &sim_figures;

	/* makes libevent use epoll, which reports descriptors in the order in which they have
	 * become ready; for poll() and select() libevent begins at a random one */
	setenv("INCCL_NODE", "off", 1); /* memory that processes share is not simulated */
	setenv("EVENT_NOPOLL", "1", 1);
	setenv("EVENT_NOSELECT", "1", 1);
	unsetenv("NOTIFY_SOCKET"); /* a service manager's socket is not simulated */
	event_set_log_callback(no_log);
	sim_catch_crashes();
	/* makes calloc() use mmap() for a switch's maps, because such memory is already cleared and
	 * mostly never touched */
	mallopt(M_MMAP_THRESHOLD, 1 << 20);
	memory_open();
	database_open();
	xdp_open();
	sim_on_failure(print_scenario);
	if (opt->each_packet) {
		packets_run(opt);
		return;
	}
	seeds_run(&opt->seeds, run);
	printf("what happened: processes stopped %llu, connections cut %llu, frames lost %llu, "
	       "repeated %llu, damaged %llu, delayed %llu, queues full %llu, "
	       "ranks killed %llu, hosts off %llu, ranks silent %llu, calls failed %llu, "
	       "groups shrunk %llu, controllers killed %llu, daemons killed %llu, "
	       "daemons terminated %llu, ports lost %llu, ports lost without a daemon %llu, "
	       "ports lost for long %llu, MAC addresses changed %llu, packets forged %llu, "
	       "standstills %llu, hostile peers %llu, their connections %llu, "
	       "seeds with keys %llu, trees of switches %llu, switches in termination mode %llu, "
	       "communicators ended with a daemon %llu, patient seeds %llu, allocations failed "
	       "%llu, RDMA devices %llu, devices broken %llu, their queue pairs %llu, timeouts "
	       "%llu, negative acknowledgements %llu, queue pairs given up %llu, ended with their "
	       "process %llu, communicators with channels %llu, waits reported %llu\n",
	       (unsigned long long)f->pauses, (unsigned long long)f->cuts,
	       (unsigned long long)f->lost, (unsigned long long)f->repeated,
	       (unsigned long long)f->damaged, (unsigned long long)f->delayed,
	       (unsigned long long)f->full, (unsigned long long)c->ranks_killed,
	       (unsigned long long)c->hosts_off, (unsigned long long)c->ranks_silent,
	       (unsigned long long)c->failed, (unsigned long long)c->shrunk,
	       (unsigned long long)c->controllers_killed, (unsigned long long)c->daemons_killed,
	       (unsigned long long)c->daemons_terminated, (unsigned long long)c->ports_lost,
	       (unsigned long long)c->ports_lost_blind, (unsigned long long)c->ports_lost_long,
	       (unsigned long long)f->moves, (unsigned long long)f->forged,
	       (unsigned long long)c->standstills, (unsigned long long)c->hostile_peers,
	       (unsigned long long)c->hostile_connections, (unsigned long long)c->with_keys,
	       (unsigned long long)c->trees, (unsigned long long)c->terminating,
	       (unsigned long long)c->struck, (unsigned long long)c->patient,
	       (unsigned long long)memory_failures, (unsigned long long)c->devices,
	       (unsigned long long)c->devices_broken, (unsigned long long)rdma_figures.queue_pairs,
	       (unsigned long long)rdma_figures.timeouts, (unsigned long long)rdma_figures.naks,
	       (unsigned long long)rdma_figures.given_up,
	       (unsigned long long)rdma_figures.ended_with_process, (unsigned long long)c->wide,
	       (unsigned long long)c->waits_reported);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	return remove(path);
}

/* Reads the scenario, and its seed, before the program changes its directory. */
static int read_scenario(struct options *opt)
{
	struct scenario *s = &cluster_scenario;
	struct inc_err err = {""};
	unsigned int i;
	int ret = scenario_read(s, opt->scenario, &err);

	ret = ret ?: cluster_check(s, &err);
	if (ret)
		fprintf(stderr, "%s\n", err.msg);
	opt->seeds.count = 1;
	for (i = 0; i < s->n; i++)
		if (s->line[i].kind == SCENARIO_SEED)
			opt->seeds.first = s->line[i].value[0];
	return ret;
}

static pid_t child;

/* On a signal that ends this program, ends the child as well. The directory is removed
 * afterwards. */
static void on_end(int number)
{
	kill(child, SIGKILL);
}

int main(int argc, char **argv)
{
	const char *tmp = getenv("TMPDIR");
	struct options opt = {};
	char directory[200];
	int ret, status = 0;

	ret = inc_opt_parse(&program, argc, argv, &opt, NULL);
	if (ret >= 0)
		return ret;
	if (opt.scenario && read_scenario(&opt))
		return 2;
	prints = opt.print;
	snprintf(directory, sizeof(directory), "%s/sim.XXXXXX",
		 tmp
			 ?: access("/dev/shm", W_OK) ? "/tmp"
						     : "/dev/shm");
	if (!mkdtemp(directory)) {
		fprintf(stderr, "%s: %s\n", directory, strerror(errno));
		return 1;
	}
	child = fork();
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (chdir(directory)) {
			fprintf(stderr, "%s: %s\n", directory, strerror(errno));
			exit(1);
		}
		run_seeds(&opt);
		exit(0);
	}
	if (child > 0) {
		signal(SIGTERM, on_end);
		signal(SIGINT, on_end);
	}
	while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	nftw(directory, remove_one, 4, FTW_DEPTH | FTW_PHYS);
	if (child > 0 && WIFEXITED(status))
		return WEXITSTATUS(status);
	printf("the run has died of signal %d\n", WTERMSIG(status));
	return 1;
}
