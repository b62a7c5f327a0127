// SPDX-License-Identifier: BSD-2-Clause
/* The XDP program against the reference, case by case. */
#include <stdio.h>
#include <string.h>
#include "cases.h"

static void run_cases(struct unit *u, const struct unit_case *c, const char *how)
{
	char name[64];
	uint32_t i;

	for (; c->name; c++) {
		uint64_t before = u->packets;
		int ret = c->run(u);

		if (!ret)
			ret = unit_compare_all(u);
		for (i = 0; i < REF_MAX_COMMS; i++)
			if (u->ref.comm[i] && unit_remove_comm(u, u->ref.comm[i]))
				ret = -1;
		if (ret) {
			snprintf(name, sizeof(name), "%s%s", c->name, how);
			report_fail(name, "%s", u->why);
			unit_forgive(u);
			continue;
		}
		report_ok("%s%s (%llu packets)", c->name, how,
			  (unsigned long long)(u->packets - before));
	}
}

/* how: what the names of the cases end in. */
static void run_all(bool order_stores, const char *how)
{
	static struct unit u;

	u.order_stores = order_stores;
	if (unit_start(&u, "xdp_cases", 16384, false))
		return;
	run_cases(&u, cases_header, how);
	run_cases(&u, cases_protocol, how);
	run_cases(&u, cases_link, how);
	run_cases(&u, cases_reduce, how);
	run_cases(&u, cases_types, how);
	run_cases(&u, cases_tree, how);
	run_cases(&u, cases_edges, how);
	unit_stop(&u);
}

int main(void)
{
	run_all(false, "");
	/* the program that CPUs get which reorder stores */
	run_all(true, ", stores in order");
	return report_exit();
}
