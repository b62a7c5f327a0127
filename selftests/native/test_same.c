// SPDX-License-Identifier: BSD-2-Clause
// SIZE: check
/*
 * Two builds of one data path: random packets go through the XDP programs in the kernel and
 * natively, and both must do the same. PACKETS=n sets the number of packets; FULL=1 sets
 * 10,000,000. An argument is the first seed. TIMEOUT: 1200
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lib/base/clock.h"
#include "selftests/unit/stream.h"
#include "harness_native_twin.h"

#define USUAL    150000
#define FULL     10000000
#define ROUND    2400 /* packets in one round */
#define GENERICS 8    /* one of so many rounds has copies of frames that share their bytes */
#define ROWS     16384

static int run(void *arg, const struct frame *f, uint32_t ifindex, struct ref_comm *cm)
{
	struct native_twin *t = arg;
	struct ref_out followed;

	ref_input(&t->u->ref, f, ifindex, &followed);
	return native_twin_run(t, f, ifindex, followed.comm ?: cm);
}

static int opened(void *arg, struct ref_comm *cm)
{
	return native_twin_follow(arg, cm);
}

static int compare(void *arg)
{
	struct native_twin *t = arg;
	int ret = native_twin_compare_counters(t);
	uint32_t i;

	for (i = 0; i < REF_MAX_COMMS && !ret; i++)
		if (t->u->ref.comm[i])
			ret = native_twin_compare(t, t->u->ref.comm[i]);
	return ret;
}

/* The least number of packets. 0: the number of seeds decides. */
static uint64_t wanted(void)
{
	const char *packets = getenv("PACKETS"), *full = getenv("FULL");

	if (packets)
		return strtoull(packets, NULL, 10);
	return full && !strcmp(full, "1") ? FULL : USUAL;
}

/* Runs rounds, beginning with this seed, until at least that many packets have been compared. */
static int all_rounds(struct unit *u, struct native_twin *t, const char *how, uint64_t seed,
		      uint64_t packets)
{
	const struct misuse misuse = {
		.packets = ROUND, .run = run, .opened = opened, .compare = compare, .arg = t};
	const uint64_t since_ns = inc_now_ns();
	struct rng rng;

	for (; u->packets < packets; seed++) {
		rng = (struct rng){seed};
		u->ref.copies_shared = seed % GENERICS == 0;
		*inc_switch_copies_shared(u->sw) = u->ref.copies_shared;
		if (misuse_round(u, &rng, &misuse)) {
			report_fail("same", "%s: seed %llu: %s", how, (unsigned long long)seed,
				    u->why);
			return -1;
		}
	}
	report_ok("same, %s (%llu packets, %llu copies, 0 differences, %.0f s)", how,
		  (unsigned long long)u->packets, (unsigned long long)t->copies,
		  (double)(inc_now_ns() - since_ns) / INC_NSEC_PER_SEC);
	return 0;
}

/* Variants in which the loader sets up the programs, depending on the switch, each with its share
 * of all packets. */
static const struct way {
	const char *how;
	bool order_stores, generic;
	uint32_t percent;
} ways[] = {
	{"stores as they come", false, false, 60},
	{"stores in order", true, false, 20},
	{"generic mode", false, true, 20},
};

static int one_way(const struct way *way, uint64_t seed)
{
	static struct unit u;
	static struct native_twin t;
	int ret;

	u.order_stores = way->order_stores;
	if (unit_start(&u, "same", ROWS, way->generic))
		return -1;
	ret = native_twin_open(&t, &u);
	if (ret)
		report_fail("same", "%s: %s", way->how, u.why);
	else
		ret = all_rounds(&u, &t, way->how, seed, wanted() * way->percent / 100);
	native_twin_close(&t);
	unit_stop(&u);
	return ret;
}

int main(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
	uint32_t i;

	if (native_open()) {
		report_fail("same", "no room for frames, or constants that cannot be set");
		return report_exit();
	}
	for (i = 0; i < sizeof(ways) / sizeof(ways[0]) && !one_way(&ways[i], seed); i++)
		;
	return report_exit();
}
