// SPDX-License-Identifier: BSD-2-Clause
/*
 * One data path, compiled twice: random packets through the XDP programs as the kernel runs them
 * and as they run natively, which must do the same. PACKETS=n of them; FULL=1: 10,000,000. An
 * argument: the first seed. TIMEOUT: 7200
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lib/base/clock.h"
#include "selftests/unit/misuse.h"
#include "twin.h"

#define USUAL    150000
#define FULL     10000000
#define ROUND    2400 /* packets */
#define GENERICS 8    /* of so many rounds one has copies that share their bytes */
#define ROWS     16384

static int run(void *arg, const struct frame *f, uint32_t ifindex, struct ref_comm *cm)
{
	struct twin *t = arg;
	struct ref_out followed;

	ref_input(&t->u->ref, f, ifindex, &followed);
	return twin_run(t, f, ifindex, followed.comm ?: cm);
}

static int opened(void *arg, struct ref_comm *cm)
{
	return twin_follow(arg, cm);
}

static int compare(void *arg)
{
	struct twin *t = arg;
	int ret = twin_compare_counters(t);
	uint32_t i;

	for (i = 0; i < REF_MAX_COMMS && !ret; i++)
		if (t->u->ref.comm[i])
			ret = twin_compare(t, t->u->ref.comm[i]);
	return ret;
}

/* How many packets of this number at least; 0: seeds until there are that many. */
static uint64_t wanted(void)
{
	const char *packets = getenv("PACKETS"), *full = getenv("FULL");

	if (packets)
		return strtoull(packets, NULL, 10);
	return full && !strcmp(full, "1") ? FULL : USUAL;
}

static int all_rounds(struct unit *u, struct twin *t, uint64_t seed)
{
	const struct misuse misuse = {
		.packets = ROUND, .run = run, .opened = opened, .compare = compare, .arg = t};
	const uint64_t packets = wanted(), since_ns = inc_now_ns();
	struct rng rng;

	for (; u->packets < packets; seed++) {
		rng = (struct rng){seed};
		u->ref.copies_shared = seed % GENERICS == 0;
		*inc_switch_copies_shared(u->sw) = u->ref.copies_shared;
		if (misuse_round(u, &rng, &misuse)) {
			report_fail("same", "seed %llu: %s", (unsigned long long)seed, u->why);
			return -1;
		}
	}
	report_ok("same (%llu packets, %llu copies, 0 differences, %.0f s)",
		  (unsigned long long)u->packets, (unsigned long long)t->copies,
		  (double)(inc_now_ns() - since_ns) / INC_NSEC_PER_SEC);
	return 0;
}

int main(int argc, char **argv)
{
	static struct unit u;
	static struct twin t;

	if (unit_start(&u, "same", ROWS, false))
		return report_exit();
	if (twin_open(&t, &u))
		report_fail("same", "%s", u.why);
	else
		all_rounds(&u, &t, argc > 1 ? strtoull(argv[1], NULL, 0) : 1);
	twin_close(&t);
	unit_stop(&u);
	return report_exit();
}
