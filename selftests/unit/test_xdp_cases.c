// SPDX-License-Identifier: BSD-2-Clause
// SIZE: check
/* The XDP program against the reference, case by case. */
#include <stdlib.h>
#include "cases.h"

/* Runs all cases, or only loads the program. how: a suffix for their names. */
static void run_all(bool order_stores, bool load_only, const char *how)
{
	static struct unit u;

	u.order_stores = order_stores;
	if (unit_start(&u, "xdp_cases", 16384, false))
		return;
	if (load_only)
		report_ok("load%s", how);
	else
		cases_run_all(&u, how);
	unit_stop(&u);
}

int main(void)
{
	run_all(false, false, "");
	/* The variant of the program for CPUs that reorder stores. vm/test_unit sets the
	 * environment variable, because an emulated machine is slow. */
	run_all(true, getenv("UNIT_LOAD_ORDERED"), ", stores in order");
	return report_exit();
}
