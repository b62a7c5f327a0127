// SPDX-License-Identifier: BSD-2-Clause
/*
 * RUNS: 60000
 *
 * Target: values of command lines and of the environment. The input is read as HOST:PORT, an
 * address to listen at, an address of a host, ranks, numbers, sizes and seconds. The error of a
 * rejected value is one line. Ranks and addresses print as they were read.
 */
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include "lib/base/addr.h"
#include "lib/base/opt.h"
#include "lib/conf/ranks.h"
#include "lib/net/hostport.h"
#include "selftests/fuzz/fuzz.h"

static void check_hostport(const char *text)
{
	struct inc_hostport hp;
	struct inc_err err = {""};
	char *end;

	if (inc_hostport_parse("controller", text, INC_PORT_MEMBERS, &hp, &err)) {
		fuzz_check_refusal(&err, "controller");
		return;
	}
	fuzz_require(*hp.host && memchr(hp.host, 0, sizeof(hp.host)), "no host");
	fuzz_require(strtoul(hp.port, &end, 10) - 1 < 65535 && !*end, "port %s", hp.port);
	fuzz_require(!inc_hostport_check(text, &err), "and yet it is none: %s", err.msg);
}

static void check_listen(const char *text)
{
	struct addrinfo *list = NULL;
	struct inc_err err = {""};

	if (inc_hostport_listen("address", text, 0, &list, &err)) {
		fuzz_check_refusal(&err, "address");
		return;
	}
	fuzz_require(list && (list->ai_family == AF_INET || list->ai_family == AF_INET6),
		     "another family");
	freeaddrinfo(list);
}

static void check_address(const char *text)
{
	struct inc_addr addr = {}, again = {};
	char print[INC_ADDR_TEXT];
	struct inc_err err = {""};
	const int ret = inc_addr_parse_host(text, &addr);

	fuzz_require(!ret || ret == -EINVAL || ret == -ERANGE, "error %d", ret);
	if (inc_addr_check(text, &err)) {
		fuzz_check_refusal(&err, NULL);
		fuzz_require(ret == -EINVAL, "'%s' is an address and none", text);
		return;
	}
	fuzz_require(inc_addr_is_host(addr) == !ret, "'%s' is a host's address and none", text);
	fuzz_require(!strchr(text, '%') && !strchr(text, '/'), "a zone or length in '%s'", text);
	inc_addr_text(addr, print);
	fuzz_require(!inc_addr_parse(print, &again) && inc_addr_same(addr, again),
		     "'%s' prints as '%s'", text, print);
}

static void check_ranks(const char *text)
{
	static char print[INC_RANKS_TEXT + 1];
	struct inc_ranks ranks = {}, again = {};

	if (inc_ranks_parse(text, &ranks))
		return;
	inc_ranks_print(&ranks, print, sizeof(print));
	fuzz_require(!inc_ranks_parse(print, &again) && !memcmp(&ranks, &again, sizeof(ranks)),
		     "'%s' prints as '%s'", text, print);
}

static void check_numbers(const char *text)
{
	struct inc_err err = {""};
	const char *end = text;
	uint64_t value;
	double seconds;

	if (inc_opt_number(text, 3, 4000000000ull, &value, &err))
		fuzz_check_refusal(&err, NULL);
	else
		fuzz_require(value >= 3 && value <= 4000000000ull, "out of bounds");
	if (inc_opt_seconds(text, 0.01, 3600, &seconds, &err))
		fuzz_check_refusal(&err, NULL);
	else
		fuzz_require(seconds >= 0.01 && seconds <= 3600, "%g s", seconds);
	if (!inc_opt_size(text, &end, &value))
		fuzz_require(end > text && end <= text + strlen(text), "an end elsewhere");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_bytes bytes = {data, size};
	char *text = fuzz_take_text(&bytes);

	check_hostport(text);
	check_listen(text);
	check_address(text);
	check_ranks(text);
	check_numbers(text);
	free(text);
	return 0;
}
