/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Addresses of either family (struct inc_addr of lib/proto/roce.h): read, printed, compared, and
 * converted for sockets. Any thread may call these functions, because they share no data.
 */
#ifndef INC_ADDR_H
#define INC_ADDR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <netinet/in.h>
#include "lib/base/err.h"
#include "lib/proto/roce.h"

/* Room for the longest text of an address and its NUL. */
#define INC_ADDR_TEXT INET6_ADDRSTRLEN

/* A socket address of either family. */
union inc_sockaddr {
	struct sockaddr any;
	struct sockaddr_in ipv4;
	struct sockaddr_in6 ipv6;
};

static inline bool inc_addr_same(struct inc_addr a, struct inc_addr b)
{
	return !memcmp(&a, &b, sizeof(a));
}

/* Returns a number that depends on all bits of the address, for tables and sums. */
static inline uint64_t inc_addr_hash(struct inc_addr a)
{
	const uint64_t high = (uint64_t)a.word[0] << 32 | a.word[1];
	const uint64_t low = (uint64_t)a.word[2] << 32 | a.word[3];

	return (high * 0xc4ceb9fe1a85ec53 ^ low) * 0xff51afd7ed558ccd;
}

/* Whether it is an IPv4 address. */
static inline bool inc_addr_is_ipv4(struct inc_addr a)
{
	return !memcmp(&a, &(const struct inc_addr){.byte = {[10] = 0xff, [11] = 0xff}}, 12);
}

/* Whether it is an address at all, and neither zeros nor 0.0.0.0. */
static inline bool inc_addr_given(struct inc_addr a)
{
	return a.word[3] || (!inc_addr_is_ipv4(a) && (a.word[0] | a.word[1] | a.word[2]));
}

/* The address by which a socket receives at all addresses of one family: that of the argument. */
static inline struct inc_addr inc_addr_any(struct inc_addr a)
{
	return inc_addr_is_ipv4(a) ? inc_addr_of_ipv4(0) : (struct inc_addr){};
}

static inline struct inc_addr inc_addr_of_in(struct in_addr in)
{
	return inc_addr_of_ipv4(in.s_addr);
}

/* Returns the IPv4 address; 0.0.0.0 if it is none. */
static inline struct in_addr inc_addr_in(struct inc_addr a)
{
	return (struct in_addr){inc_addr_is_ipv4(a) ? a.word[3] : 0};
}

/* Returns the name of the address's family. */
static inline const char *inc_addr_family(struct inc_addr a)
{
	return inc_addr_is_ipv4(a) ? "IPv4" : "IPv6";
}

/* Whether the first `bits` bits are equal. The bits of an IPv4 address count from its first
 * byte. */
bool inc_addr_same_network(struct inc_addr a, struct inc_addr b, unsigned int bits);

/* Returns the first address of the network of `bits` bits that has the address. */
struct inc_addr inc_addr_network(struct inc_addr a, unsigned int bits);

/* Whether it can be the address of one host, at every interface of it: no address of a group, of
 * one link alone, or of none. */
bool inc_addr_is_host(struct inc_addr a);

/* Returns why an address is that of no host (inc_addr_is_host()), as "ADDRESS ..." goes on. */
const char *inc_addr_fault(struct inc_addr a);

/* Reads an address without a zone ("%eth0") and without a prefix length. Returns 0 or -EINVAL. */
int inc_addr_parse(const char *text, struct inc_addr *out);
/* Reads the address of a host. Returns 0; -EINVAL if the text is no address; or -ERANGE if *out is
 * that of no host (inc_addr_fault()). */
int inc_addr_parse_host(const char *text, struct inc_addr *out);

/* Writes the address as text, an IPv4 address as four numbers. Returns buf. */
const char *inc_addr_text(struct inc_addr a, char buf[INC_ADDR_TEXT]);

/* Fills in a socket address. port: in host order. Returns its length. */
socklen_t inc_addr_to_sockaddr(struct inc_addr a, uint16_t port, union inc_sockaddr *out);
/* Returns the address in a socket address; zeros if that is NULL or of another family. A list of
 * getifaddrs() has such entries, so who looks there for zeros finds one of them. */
struct inc_addr inc_addr_of_sockaddr(const struct sockaddr *from);

static inline uint16_t inc_sockaddr_port(const union inc_sockaddr *at)
{
	_Static_assert(offsetof(struct sockaddr_in, sin_port) ==
			       offsetof(struct sockaddr_in6, sin6_port),
		       "both families have the port at one place");
	return ntohs(at->ipv4.sin_port);
}

/* These check whether a text can be an address, by its form alone. They return 0, or -EINVAL and a
 * sentence that quotes the text, as option tables need it (opt.h). */
int inc_addr_check(const char *text, struct inc_err *err);
int inc_ipv4_check(const char *text, struct inc_err *err);

#endif
