// SPDX-License-Identifier: BSD-2-Clause
/*
 * The whole system in one process, on a simulated clock and simulated cables. Runs seeds; each seed
 * is one run, which is the same every time (docs/simulation.md).
 */
#include <stdio.h>
#include "seeds.h"
#include "sim.h"
#include "tree_priv.h"
#include "xdp.h"

static const struct inc_program program = {
	.name = "sim",
	.about = "Runs the hosts' library and the switch's data path and slow path in one process, "
		 "on "
		 "a simulated clock and on cables that lose, repeat, damage and delay frames. A "
		 "seed is "
		 "one run, the same every time. A seed in which something is wrong ends it: the "
		 "seed, "
		 "the time and the reason are printed.",
	.groups = {{seeds_options, 0}},
	.exits = "0 all is well, 1 something is wrong in a seed, 2 wrong command line",
};

int main(int argc, char **argv)
{
	const struct sim_figures *f = &sim_figures;
	struct seeds seeds = {};
	int exit_code = inc_opt_parse(&program, argc, argv, &seeds, NULL);

	if (exit_code >= 0)
		return exit_code;
	sim_catch_crashes();
	xdp_open();
	seeds_run(&seeds, tree_run);
	printf("lost %llu, repeated %llu, damaged %llu, delayed %llu; daemons killed %llu, "
	       "communicators ended by that %llu, "
	       "processes stopped %llu, cables cut %llu, queues full %llu, MAC addresses changed "
	       "%llu\n"
	       "stops of more than 8 s %llu, packets forged %llu, ports lost for less than 8 s "
	       "%llu, for longer %llu\n",
	       (unsigned long long)f->lost, (unsigned long long)f->repeated,
	       (unsigned long long)f->damaged, (unsigned long long)f->delayed,
	       (unsigned long long)f->crashes, (unsigned long long)f->ends,
	       (unsigned long long)f->pauses, (unsigned long long)f->cuts,
	       (unsigned long long)f->full, (unsigned long long)f->moves,
	       (unsigned long long)f->long_stops, (unsigned long long)f->forged,
	       (unsigned long long)f->short_losses, (unsigned long long)f->long_losses);
	return 0;
}
