// SPDX-License-Identifier: BSD-2-Clause
// SIZE: check
/* The XDP program against the reference, case by case. */
#include "cases.h"

/* Runs all cases. how: a suffix for their names. */
static void run_all(bool order_stores, const char *how)
{
	static struct unit u;

	u.order_stores = order_stores;
	if (unit_start(&u, "xdp_cases", 16384, false))
		return;
	cases_run_all(&u, how);
	unit_stop(&u);
}

int main(void)
{
	run_all(false, "");
	/* the variant of the program for CPUs that reorder stores */
	run_all(true, ", stores in order");
	return report_exit();
}
