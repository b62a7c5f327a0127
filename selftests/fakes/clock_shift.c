/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The clocks of a machine that are set or stand still, for a real program (LD_PRELOAD). The
 * file that the variable CLOCK_SHIFT names has two numbers of 64 bits: nanoseconds that are added
 * to CLOCK_REALTIME, as if it was set, and to CLOCK_BOOTTIME, as if the machine was suspended.
 * The test changes them while the program runs. For `incctl check` the variable CLOCK_SYNC has
 * "yes" or "no", which is whether the kernel reports that its clock is synchronized.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/timex.h>
#include <time.h>

static int (*kernels)(clockid_t clock, struct timespec *at);
static const volatile int64_t *shifts;

static void __attribute__((constructor)) begin(void)
{
	const int fd = open(getenv("CLOCK_SHIFT") ?: "", O_RDONLY | O_CLOEXEC);

	*(void **)&kernels = dlsym(RTLD_NEXT, "clock_gettime");
	shifts = mmap(NULL, 2 * sizeof(*shifts), PROT_READ, MAP_SHARED, fd, 0);
	if (shifts == MAP_FAILED || !kernels)
		abort();
}

int __attribute__((visibility("default"))) clock_gettime(clockid_t clock, struct timespec *at)
{
	const int ret = kernels(clock, at);
	int64_t ns;

	if (ret || (clock != CLOCK_REALTIME && clock != CLOCK_BOOTTIME))
		return ret;
	ns = at->tv_sec * INT64_C(1000000000) + at->tv_nsec + shifts[clock == CLOCK_BOOTTIME];
	at->tv_sec = ns / 1000000000;
	at->tv_nsec = ns % 1000000000;
	return 0;
}

int __attribute__((visibility("default"))) adjtimex(struct timex *state)
{
	const char *sync = getenv("CLOCK_SYNC");
	int (*kernel)(struct timex * state);
	int ret;

	*(void **)&kernel = dlsym(RTLD_NEXT, "adjtimex");
	ret = kernel(state);
	if (sync)
		state->status =
			(state->status & ~STA_UNSYNC) | (strcmp(sync, "yes") ? STA_UNSYNC : 0);
	return ret;
}
