// SPDX-License-Identifier: BSD-2-Clause
/* The XDP program against the reference, case by case. */
#include <stdio.h>
#include <string.h>
#include "cases.h"

struct ref_group *case_group(struct unit *u, uint32_t children, uint32_t ports, uint32_t payload,
			     uint32_t slots)
{
	static uint32_t communicator = 1;
	struct inc_group_spec spec;

	unit_spec(u, &spec, communicator++, children, ports, payload, slots);
	return unit_add_group(u, &spec);
}

int case_data(struct unit *u, struct ref_group *g, uint32_t child, uint64_t r, uint8_t opcode,
	      uint32_t len, uint32_t desc, bool ackreq)
{
	struct unit_packet p = {
		.r = r, .opcode = opcode, .len = len, .desc = desc, .ackreq = ackreq};
	struct frame f;

	unit_data(g, child, &p, &f);
	return unit_run(u, &f, g->conn[child].cfg.ifindex);
}

int case_ack(struct unit *u, struct ref_group *g, uint32_t child, uint8_t syndrome, uint32_t psn)
{
	struct frame f;

	unit_ack(g, child, syndrome, psn, &f);
	return unit_run(u, &f, g->conn[child].cfg.ifindex);
}

int case_expect(struct unit *u, enum inc_counter_id counter)
{
	if (u->want.counter == counter)
		return 0;
	snprintf(u->why, sizeof(u->why), "packet %llu ended on %s, meant for %s",
		 (unsigned long long)u->packets, inc_counter_info[u->want.counter].name,
		 inc_counter_info[counter].name);
	return -1;
}

static void run_cases(struct unit *u, const struct unit_case *c)
{
	uint32_t i;

	for (; c->name; c++) {
		uint64_t before = u->packets;
		int ret = c->run(u);

		if (!ret)
			ret = unit_compare_all(u);
		for (i = 0; i < REF_MAX_GROUPS; i++)
			if (u->ref.group[i] && unit_remove_group(u, u->ref.group[i]))
				ret = -1;
		if (ret) {
			report_fail(c->name, "%s", u->why);
			unit_forgive(u);
			continue;
		}
		report_ok("%s (%llu packets)", c->name, (unsigned long long)(u->packets - before));
	}
}

int main(void)
{
	static struct unit u;

	if (unit_start(&u, "xdp_cases", 16384))
		return report_exit();
	run_cases(&u, cases_header);
	run_cases(&u, cases_protocol);
	run_cases(&u, cases_reduce);
	unit_stop(&u);
	return report_exit();
}
