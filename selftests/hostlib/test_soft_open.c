/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/* A soft endpoint is opened. The test supplies the random numbers that the endpoint draws. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <string.h>
#include <arpa/inet.h>
#include "hostlib/src/endpoint.h"
#include "lib/base/os.h"
#include "lib/proto/roce.h"

static const uint32_t *lots; /* values of the random numbers; the last one repeats */
static unsigned int n_lots, drawn;

/* Replaces the function of inc_os, and returns the values of `lots`. */
static int random_lots(void *buf, size_t len, bool wait)
{
	uint32_t lot = lots[drawn < n_lots ? drawn : n_lots - 1];

	drawn++;
	assert_int_equal(len, sizeof(lot));
	memcpy(buf, &lot, len);
	return 0;
}

static void no_log(void *ctx, const char *fmt, ...)
{
}

static const struct inccl_transport soft = {INCCL_TRANSPORT_SOFT, &inc_channel_soft};

static uint32_t qpn_drawn(const uint32_t *from, unsigned int n)
{
	struct inccl_open_opts opts = {
		.addr = htonl(INADDR_LOOPBACK),
		.payload = 1024,
		.message_packets = 1,
		.window_messages = 8,
		.log = no_log,
	};
	struct inccl_endpoint *ep;
	struct inccl_own local;
	struct inc_err err = {""};

	lots = from;
	n_lots = n;
	drawn = 0;
	inc_os.random = random_lots;
	if (inccl_endpoint_open(&soft, &opts, &ep, &local, &err))
		fail_msg("%s", err.msg);
	inccl_endpoint_close(ep);
	return local.end.qpn;
}

/* Peers reject the queue pair numbers 0 and 1 (management) and 0xffffff (multicast). */
static void usable_queue_pairs(void **state)
{
	static const uint32_t all[] = {0xffffff, 0, 1, 0xff000001, 0xfffffffe};
	static const uint32_t least[] = {2}, most[] = {0xfffffe};

	assert_int_equal(qpn_drawn(all, 5), 0xfffffe);
	assert_true(drawn >= 5);
	assert_int_equal(qpn_drawn(least, 1), INC_MIN_QPN);
	assert_int_equal(qpn_drawn(most, 1), INC_MAX_QPN);
}

/* A channel of an endpoint has no name, so the errors of opening it begin with the name of the
 * transport. */
static void errors_name_the_transport(void **state)
{
	const struct inccl_open_opts opts = {.addr = htonl(INADDR_LOOPBACK),
					     .payload = 300,
					     .message_packets = 1,
					     .log = no_log};
	struct inccl_endpoint *ep;
	struct inccl_own local;
	struct inc_err err = {""};

	assert_int_equal(inccl_endpoint_open(&soft, &opts, &ep, &local, &err), -EINVAL);
	assert_int_equal(strncmp(err.msg, "soft: payload 300: ", 19), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(usable_queue_pairs),
		cmocka_unit_test(errors_name_the_transport),
	};

	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
