// SPDX-License-Identifier: BSD-2-Clause
/*
 * The XDP program against the reference with random packets. There are several communicators at
 * once, whose children mostly follow the protocol and otherwise break it in every way. The same
 * seeds make the same packets. An argument is the only seed to run.
 */
#include <stdio.h>
#include <stdlib.h>
#include "stream.h"

#define ROUNDS  8    /* sets of communicators for each seed */
#define PACKETS 1200 /* least number of packets in each round */

static const uint64_t seeds[] = {1,     2,     3,        20240,    4711,
				 65537, 99991, 0xabcdef, 31415926, 0x5eed5eed};

static int run(void *arg, const struct frame *f, uint32_t ifindex, struct ref_comm *cm)
{
	return unit_run(arg, f, ifindex);
}

static int compare(void *arg)
{
	return unit_compare_all(arg);
}

static int one_seed(struct unit *u, uint64_t seed)
{
	struct rng rng = {seed};
	const struct misuse misuse = {.packets = PACKETS, .run = run, .compare = compare, .arg = u};
	uint64_t packets = u->packets, copies = u->copies;
	uint32_t i;

	for (i = 0; i < ROUNDS; i++) {
		/* in some rounds the kernel's copies share their bytes */
		u->ref.copies_shared = i % 8 == 7;
		*inc_switch_copies_shared(u->sw) = u->ref.copies_shared;
		if (misuse_round(u, &rng, &misuse)) {
			report_fail("xdp_random", "seed %llu round %u: %s",
				    (unsigned long long)seed, i, u->why);
			return -1;
		}
	}
	report_ok("xdp_random_seed_%llu (%llu packets, %llu copies)", (unsigned long long)seed,
		  (unsigned long long)(u->packets - packets),
		  (unsigned long long)(u->copies - copies));
	return 0;
}

/* Checks that the random packets have reached every counter that a packet can reach here. */
static void coverage(const struct unit *u)
{
	uint32_t id;

	for (id = 0; id < INC_CTR_MAX; id++) {
		if (id == INC_CTR_DROP_NO_ROOM || id == INC_CTR_DROP_CONFIG ||
		    id == INC_CTR_ABS_SLOWPATH || id == INC_CTR_X_EVENT_LOST ||
		    id == INC_CTR_DROP_BUSY || id == INC_CTR_DROP_NO_MAC ||
		    /* no communicator has a CPU here (test_xdp_cases) */
		    id == INC_CTR_DROP_QUEUE_FULL || id == INC_CTR_X_STEERED ||
		    /* no peer sends CNPs or is an RDMA device (test_xdp_cases) */
		    id == INC_CTR_ABS_CNP || id == INC_CTR_ANS_CNP ||
		    /* no port has an address here (test_xdp_cases) */
		    id == INC_CTR_ANS_ECHO)
			continue;
		if (!u->ref.counter[id]) {
			report_fail("xdp_random_coverage", "no packet ended on %s",
				    inc_counter_info[id].name);
			return;
		}
	}
	report_ok("xdp_random_coverage");
}

int main(int argc, char **argv)
{
	static struct unit u;
	uint32_t i, n = sizeof(seeds) / sizeof(seeds[0]);

	if (unit_start(&u, "xdp_random", 16384, false))
		return report_exit();
	if (argc > 1) {
		one_seed(&u, strtoull(argv[1], NULL, 0));
	} else {
		for (i = 0; i < n && !one_seed(&u, seeds[i]); i++)
			;
		if (i == n)
			coverage(&u);
	}
	unit_stop(&u);
	return report_exit();
}
