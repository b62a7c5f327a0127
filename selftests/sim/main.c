// SPDX-License-Identifier: BSD-2-Clause
/*
 * The whole system in one process, on a simulated clock and simulated cables: runs seeds, each of
 * which is one run, the same every time (docs/simulation.md).
 */
#include <stdio.h>
#include <time.h>
#include "lib/base/clock.h"
#include "lib/base/opt.h"
#include "sim.h"
#include "star.h"
#include "xdp.h"

struct settings {
	uint64_t seed, seeds;
	bool hashes, trace;
};

static const struct inc_opt options[] = {
	{"seed", 0, "N", "the first seed", "1",
	 INC_OPT_NUMBER(struct settings, seed, 0, INT64_MAX)},
	{"seeds", 0, "N", "how many, one after the other", "1",
	 INC_OPT_NUMBER(struct settings, seeds, 1, INT64_MAX)},
	{"hashes", .help = "print the hash of each seed's run, as it is where there is one alone",
	 INC_OPT_FLAG(struct settings, hashes)},
	{"trace", .help = "print what happens, line by line: when, where, what",
	 INC_OPT_FLAG(struct settings, trace)},
	{},
};

static const struct inc_program program = {
	.name = "sim",
	.about = "Runs the hosts' library and the switch's data path and slow path in one process, "
		 "on "
		 "a simulated clock and on cables that lose, repeat, damage and delay frames. A "
		 "seed is "
		 "one run, the same every time. A seed in which something is wrong ends it: the "
		 "seed, "
		 "the time and the reason are printed.",
	.groups = {{options, 0}},
	.exits = "0 all is well, 1 something is wrong in a seed, 2 wrong command line",
};

int __real_clock_gettime(clockid_t clock, struct timespec *t);

static uint64_t real_ns(void)
{
	struct timespec t;

	__real_clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * INC_NSEC_PER_SEC + t.tv_nsec;
}

static void print_figures(uint64_t seeds, uint64_t simulated_ns, uint64_t took_ns)
{
	const struct sim_figures *f = &sim_figures;
	const double s = took_ns / 1e9;

	printf("%llu seeds in %.1f s (%.1f ms each), %.2f simulated hours; %llu packets (%.0f a "
	       "second), %llu events\n",
	       (unsigned long long)seeds, s, 1000 * s / seeds, simulated_ns / 3600e9,
	       (unsigned long long)f->packets, f->packets / s, (unsigned long long)f->events);
	printf("lost %llu, repeated %llu, damaged %llu, delayed %llu; daemons killed %llu, "
	       "processes stopped %llu, cables cut %llu, queues full %llu\n",
	       (unsigned long long)f->lost, (unsigned long long)f->repeated,
	       (unsigned long long)f->damaged, (unsigned long long)f->delayed,
	       (unsigned long long)f->crashes, (unsigned long long)f->pauses,
	       (unsigned long long)f->cuts, (unsigned long long)f->full);
}

int main(int argc, char **argv)
{
	uint64_t simulated_ns = 0, begin_ns, i;
	struct settings settings = {};
	int exit_code;

	exit_code = inc_opt_parse(&program, argc, argv, &settings, NULL);
	if (exit_code >= 0)
		return exit_code;
	sim_catch_crashes();
	xdp_open();
	begin_ns = real_ns();
	for (i = 0; i < settings.seeds; i++) {
		sim_begin(settings.seed + i, settings.trace);
		simulated_ns -= sim_now_ns();
		star_run();
		simulated_ns += sim_now_ns();
		if (settings.hashes || settings.seeds == 1)
			printf("seed %llu: hash %016llx\n", (unsigned long long)sim_seed(),
			       (unsigned long long)sim_hash());
	}
	print_figures(settings.seeds, simulated_ns, real_ns() - begin_ns);
	return 0;
}
