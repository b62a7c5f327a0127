// SPDX-License-Identifier: BSD-2-Clause
/* The XDP program against the reference, case by case. */
#include <stdio.h>
#include <string.h>
#include "cases.h"

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

	if (unit_start(&u, "xdp_cases", 16384, false))
		return report_exit();
	run_cases(&u, cases_header);
	run_cases(&u, cases_protocol);
	run_cases(&u, cases_reduce);
	run_cases(&u, cases_edges);
	unit_stop(&u);
	return report_exit();
}
