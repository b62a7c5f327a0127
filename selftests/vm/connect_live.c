/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The connection service on rxe. Arguments: first for the client's device and then for the
 * service's, the device's name, the other end of its cable in namespace sw, and its address. The
 * name of one test may follow. With FULL=1 in the environment each test runs completely.
 */
#include <fcntl.h>
#include <malloc.h>
#include <net/if.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>
#include "lib/base/clock.h"
#include "selftests/vm/connect_live.h"

struct end ends[SIDES];
bool full;

/* ---- cables --------------------------------------------------------------------------------- */

static void plug(int side, bool in)
{
	const int own = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	const int sw = open("/run/netns/sw", O_RDONLY | O_CLOEXEC);
	struct ifreq ifr = {0};
	int fd;

	assert_true(own >= 0 && sw >= 0);
	assert_int_equal(setns(sw, CLONE_NEWNET), 0);
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0); /* stays in namespace sw */
	assert_int_equal(setns(own, CLONE_NEWNET), 0);
	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", ends[side].port);
	assert_int_equal(ioctl(fd, SIOCGIFFLAGS, &ifr), 0);
	ifr.ifr_flags = in ? ifr.ifr_flags | IFF_UP : ifr.ifr_flags & ~IFF_UP;
	assert_int_equal(ioctl(fd, SIOCSIFFLAGS, &ifr), 0);
	close(fd);
	close(own);
	close(sw);
}

void cable(int side, bool in)
{
	static struct inc_connect_devices devices;

	plug(side, in);
	UNTIL((inc_connect_devices(sides.ctx[side], &devices), devices.n_devices == in));
}

static uint64_t began_at_ns;

static int begin(void **state)
{
	began_at_ns = inc_now_ns();
	return 0;
}

/* A failed test may have left a cable unplugged. */
static int end(void **state)
{
	plug(CLIENT, true);
	plug(SERVICE, true);
	printf("# %.1f s\n", (inc_now_ns() - began_at_ns) / 1e9);
	return 0;
}

/* ---- main ----------------------------------------------------------------------------------- */

/* Makes the heap countable: the allocator's caches for threads and its additional arenas would look
 * like leaks. malloc() reads the setting for the caches from the environment before main(), so the
 * program starts itself again. */
static void count_heap(char **argv)
{
	static const char name[] = "GLIBC_TUNABLES", value[] = "glibc.malloc.tcache_count=0";
	const char *have = getenv(name);

	if (!have || strcmp(have, value)) {
		setenv(name, value, 1);
		execv("/proc/self/exe", argv);
	}
	mallopt(M_ARENA_MAX, 1);
}

int main(int argc, char **argv)
{
#define _(name) cmocka_unit_test_setup_teardown(name, begin, end),
	const struct CMUnitTest tests[] = {CONNECT_TESTS(_)};
#undef _
	const char *whole = getenv("FULL");
	int i;

	if (argc < 7 || argc > 8) {
		fprintf(stderr,
			"usage: connect_live DEVICE PORT ADDRESS DEVICE PORT ADDRESS [TEST]\n");
		return 2;
	}
	for (i = 0; i < SIDES; i++)
		ends[i] = (struct end){argv[1 + 3 * i], argv[2 + 3 * i], argv[3 + 3 * i]};
	full = whole && !strcmp(whole, "1");
	if (argc == 8)
		cmocka_set_test_filter(argv[7]);
	count_heap(argv);
	setvbuf(stdout, NULL, _IOLBF, 0);
	return cmocka_run_group_tests_name("connect", tests, NULL, NULL) ? 1 : 0;
}
