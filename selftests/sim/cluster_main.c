// SPDX-License-Identifier: BSD-2-Clause
/*
 * The system with its control plane in one process (docs/simulation.md): hosts, a switch with its
 * daemon, and the controller with its database. The seeds run in a child process, so that the
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
#include <unistd.h>
#include <event2/event.h>
#include "cluster.h"
#include "memory.h"
#include "seeds.h"
#include "sim.h"

static const struct inc_program program = {
	.name = "sim-cluster",
	.about = "Runs hosts, a switch with its daemon and the controller in one process, on a "
		 "simulated clock and simulated networks, and lets processes die. A seed is one "
		 "run, the same every time. A seed in which something is wrong ends it: the seed, "
		 "the time and the reason are printed.",
	.groups = {{seeds_options, 0}},
	.exits = "0 all is well, 1 something is wrong in a seed, 2 wrong command line",
};

static void no_log(int severity, const char *text)
{
}

static void run_seeds(const struct seeds *seeds)
{
	const struct cluster_figures *c = &cluster_figures;
	const struct sim_figures *f = &sim_figures;

	/* makes libevent sleep in poll(), and pass descriptors in an order that does not depend on
	 * a hash */
	setenv("EVENT_NOEPOLL", "1", 1);
	setenv("EVENT_NOSELECT", "1", 1);
	unsetenv("NOTIFY_SOCKET"); /* a service manager's socket is not simulated */
	event_set_log_callback(no_log);
	sim_catch_crashes();
	/* makes calloc() use mmap() for a switch's maps, because such memory is already cleared and
	 * mostly never touched */
	mallopt(M_MMAP_THRESHOLD, 1 << 20);
	memory_open();
	xdp_open();
	seeds_run(seeds, cluster_run);
	printf("what happened: processes stopped %llu, connections cut %llu, frames lost %llu, "
	       "ranks killed %llu, hosts off %llu, ranks silent %llu, calls failed %llu, "
	       "groups shrunk %llu, controllers killed %llu, daemons killed %llu, "
	       "daemons terminated %llu, ports lost %llu, ports lost without a daemon %llu, "
	       "standstills %llu, hostile peers %llu, their connections %llu, "
	       "seeds with keys %llu, allocations failed %llu\n",
	       (unsigned long long)f->pauses, (unsigned long long)f->cuts,
	       (unsigned long long)f->lost, (unsigned long long)c->ranks_killed,
	       (unsigned long long)c->hosts_off, (unsigned long long)c->ranks_silent,
	       (unsigned long long)c->failed, (unsigned long long)c->shrunk,
	       (unsigned long long)c->controllers_killed, (unsigned long long)c->daemons_killed,
	       (unsigned long long)c->daemons_terminated, (unsigned long long)c->ports_lost,
	       (unsigned long long)c->ports_lost_blind, (unsigned long long)c->standstills,
	       (unsigned long long)c->hostile_peers, (unsigned long long)c->hostile_connections,
	       (unsigned long long)c->with_keys, (unsigned long long)memory_failures);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	return remove(path);
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
	struct seeds seeds = {};
	char directory[200];
	int ret, status = 0;

	ret = inc_opt_parse(&program, argc, argv, &seeds, NULL);
	if (ret >= 0)
		return ret;
	snprintf(directory, sizeof(directory), "%s/sim-cluster.XXXXXX",
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
		run_seeds(&seeds);
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
