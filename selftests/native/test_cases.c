// SPDX-License-Identifier: BSD-2-Clause
/*
 * The cases of unit/test_xdp_cases, run natively beside the kernel's programs. TIMEOUT: 600
 */
#include "selftests/unit/cases.h"
#include "harness_native_twin.h"

#define ROWS 16384

static void run_all(bool order_stores, const char *how)
{
	static struct unit u;
	static struct native_twin t;

	u.order_stores = order_stores;
	if (unit_start(&u, "cases", ROWS, false))
		return;
	if (native_twin_open(&t, &u)) {
		report_fail("cases", "%s", u.why);
	} else {
		native_twin_watch(&t);
		cases_run_all(&u, how);
	}
	native_twin_close(&t);
	unit_stop(&u);
}

int main(void)
{
	if (native_open())
		report_fail("cases", "no room for frames, or constants that cannot be set");
	else
		run_all(false, ", natively too");
	return report_exit();
}
