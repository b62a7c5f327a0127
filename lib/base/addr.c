/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include "lib/base/addr.h"

struct inc_addr inc_addr_network(struct inc_addr a, unsigned int bits)
{
	if (inc_addr_is_ipv4(a))
		bits += 96;
	for (unsigned int i = bits / 8; i < sizeof(a.byte); i++) {
		a.byte[i] &= i == bits / 8 ? 0xff00 >> bits % 8 : 0;
	}
	return a;
}

bool inc_addr_same_network(struct inc_addr a, struct inc_addr b, unsigned int bits)
{
	return inc_addr_is_ipv4(a) == inc_addr_is_ipv4(b) &&
	       inc_addr_same(inc_addr_network(a, bits), inc_addr_network(b, bits));
}

bool inc_addr_is_host(struct inc_addr a)
{
	if (inc_addr_is_ipv4(a))
		return inc_addr_unicast(ntohl(a.word[3]));
	/* ff00::/8 are groups, and an address of fe80::/10 means nothing without its link */
	return inc_addr_given(a) && a.byte[0] != 0xff &&
	       !(a.byte[0] == 0xfe && (a.byte[1] & 0xc0) == 0x80);
}

const char *inc_addr_fault(struct inc_addr a)
{
	return inc_addr_is_ipv4(a) || a.byte[0] != 0xfe
		       ? "is not a unicast address"
		       : "is link-local, and only an address that other links know serves";
}

int inc_addr_parse(const char *text, struct inc_addr *out)
{
	struct in_addr in;

	if (inet_pton(AF_INET, text, &in) == 1) {
		*out = inc_addr_of_in(in);
		return 0;
	}
	return inet_pton(AF_INET6, text, out->byte) == 1 ? 0 : -EINVAL;
}

int inc_addr_parse_host(const char *text, struct inc_addr *out)
{
	struct inc_addr addr;
	const int ret = inc_addr_parse(text, &addr);

	if (ret)
		return ret;
	*out = addr;
	return inc_addr_is_host(addr) ? 0 : -ERANGE;
}

const char *inc_addr_text(struct inc_addr a, char buf[INC_ADDR_TEXT])
{
	if (inc_addr_is_ipv4(a))
		return inet_ntop(AF_INET, &a.word[3], buf, INC_ADDR_TEXT);
	return inet_ntop(AF_INET6, a.byte, buf, INC_ADDR_TEXT);
}

socklen_t inc_addr_to_sockaddr(struct inc_addr a, uint16_t port, union inc_sockaddr *out)
{
	memset(out, 0, sizeof(*out));
	if (inc_addr_is_ipv4(a)) {
		out->ipv4.sin_family = AF_INET;
		out->ipv4.sin_port = htons(port);
		out->ipv4.sin_addr.s_addr = a.word[3];
		return sizeof(out->ipv4);
	}
	out->ipv6.sin6_family = AF_INET6;
	out->ipv6.sin6_port = htons(port);
	memcpy(&out->ipv6.sin6_addr, a.byte, sizeof(a.byte));
	return sizeof(out->ipv6);
}

struct inc_addr inc_addr_of_sockaddr(const struct sockaddr *from)
{
	struct inc_addr addr = {};

	if (from && from->sa_family == AF_INET)
		return inc_addr_of_in(((const struct sockaddr_in *)from)->sin_addr);
	if (from && from->sa_family == AF_INET6)
		memcpy(addr.byte, &((const struct sockaddr_in6 *)from)->sin6_addr,
		       sizeof(addr.byte));
	return addr;
}

int inc_addr_check(const char *text, struct inc_err *err)
{
	struct inc_addr addr;

	if (!inc_addr_parse(text, &addr))
		return 0;
	return inc_err_set(err, EINVAL, "'%.300s' is neither an IPv4 nor an IPv6 address", text);
}

int inc_ipv4_check(const char *text, struct inc_err *err)
{
	struct in_addr addr;

	if (inet_pton(AF_INET, text, &addr) == 1)
		return 0;
	return inc_err_set(err, EINVAL, "'%.300s' is not an IPv4 address", text);
}
