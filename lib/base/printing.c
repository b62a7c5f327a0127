/* SPDX-License-Identifier: BSD-2-Clause */
#include <signal.h>
#include <stddef.h>
#include <unistd.h>
#include "lib/base/printing.h"

static volatile sig_atomic_t printing, stopping;

static void give_up(int number)
{
	if (printing)
		_exit(1);
}

void inc_printing_begin(void)
{
	const struct sigaction action = {.sa_handler = give_up};

	sigaction(SIGALRM, &action, NULL);
	printing = 1;
	if (stopping)
		/* the signal came before this write to stdout began, so its handler has not set the
		 * alarm */
		alarm(1);
}

void inc_printing_end(void)
{
	printing = 0;
}

void inc_printing_stop(void)
{
	stopping = 1;
	if (printing)
		alarm(1);
}
