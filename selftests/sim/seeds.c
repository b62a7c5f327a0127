// SPDX-License-Identifier: BSD-2-Clause
#include <stdio.h>
#include <time.h>
#include "lib/base/os.h"
#include "sim.h"

const struct inc_opt seeds_options[] = {
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

void seeds_run(const struct seeds *seeds, void (*run)(void))
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
