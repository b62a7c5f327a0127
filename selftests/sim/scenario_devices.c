// SPDX-License-Identifier: BSD-2-Clause
/* Draws RDMA devices for a scenario that has all other lines. */
#include "lib/base/clock.h"
#include "lib/conf/comm_conf.h"
#include "scenario.h"
#include "selftests/unit/report.h"

#define DRAW_DEVICES      0x61 /* beside the numbers of scenario_draw.c */
#define DEVICES_ONE_OF    2
#define BROKEN_ONE_OF     3 /* of the switches with devices */
#define BROKEN_MOST_MS    3000
#define FAULTS_MOST_NS    (2 * INC_NSEC_PER_SEC) /* devices retransmit for 3.8 s */
#define DELAY_SHIFT_LEAST 16
#define DELAY_SHIFTS      9

/* How many ports the switch has. */
static unsigned int ports_of(const struct scenario *s, uint64_t sw)
{
	unsigned int i, n = 0;

	for (i = 0; i < s->n; i++) {
		const struct scenario_line *l = &s->line[i];

		n += (l->kind == SCENARIO_HOST && l->value[1] == sw) ||
		     (l->kind == SCENARIO_SWITCH && (l->value[0] == sw || l->value[1] == sw)) ||
		     (l->kind == SCENARIO_STRANGER && l->value[0] == sw);
	}
	return n;
}

static void draw_switch(struct scenario *s, struct rng *rng, uint64_t sw)
{
	const uint64_t port = rng_below(rng, ports_of(s, sw));
	const uint64_t at_ns =
		rng_below(rng, 1u << (DELAY_SHIFT_LEAST + rng_below(rng, DELAY_SHIFTS)));
	const uint64_t for_ns = rng_below(rng, BROKEN_MOST_MS) * INC_NSEC_PER_MSEC;
	const bool breaks = !rng_below(rng, BROKEN_ONE_OF);

	scenario_add(s, SCENARIO_DEVICES, sw);
	if (breaks)
		scenario_add(s, SCENARIO_BREAK, at_ns, SCENARIO_PORT(sw, port), for_ns);
}

void scenario_draw_devices(struct scenario *s, uint64_t seed)
{
	struct rng rng = {.state = rng_mix(seed, DRAW_DEVICES)};
	const unsigned int n = s->n;
	unsigned int i;

	if (rng_below(&rng, DEVICES_ONE_OF))
		return;
	for (i = 0; i < n; i++) {
		struct scenario_line *l = &s->line[i];

		if (l->kind == SCENARIO_FAULTS && l->value[0] > FAULTS_MOST_NS)
			l->value[0] = FAULTS_MOST_NS;
		if (l->kind == SCENARIO_HOST && rng_below(&rng, 2))
			scenario_add(s, SCENARIO_DEVICE, l->value[0]);
		if (l->kind == SCENARIO_MODE && l->value[1] == INC_TERMINATION &&
		    rng_below(&rng, 2))
			draw_switch(s, &rng, l->value[0]);
	}
}
