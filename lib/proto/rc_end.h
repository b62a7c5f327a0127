/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One end of an RC connection. Everything that describes a connection has both ends, as members
 * that are called own and peer. The XDP programs have both ends in inc_conn_cfg (maps.h), in a form
 * whose address is IPv4 (struct inc_xdp_end). A switch has them in its configuration. The
 * controller has them in its trees, messages and database, and a rank in its endpoint. A switch's
 * own end is the rank's peer.
 */
#ifndef INC_PROTO_RC_END_H
#define INC_PROTO_RC_END_H

#include <linux/types.h>
#include "lib/proto/roce.h"

/* The kinds of an end of a connection: a UDP socket, or an RDMA device. A switch in passthrough
 * mode has neither, and its ends count as sockets. */
enum inc_endpoint_kind { INC_ENDPOINT_SOFT, INC_ENDPOINT_VERBS, INC_N_ENDPOINT_KINDS };

/* This enum says what becomes of a field where its end travels. */
enum inc_rc_end_travel {
	/* messages of the control plane have it, and the controller's database keeps it as a
	 * number */
	INC_RC_END_SENT,
	/* messages do not have it, so who receives an end in one keeps what it knew */
	INC_RC_END_KEPT,
	INC_RC_END_RESERVED, /* it is always 0 */
};

/*
 * The fields of an end behind its address, in the order of the struct: type, member, offset in
 * struct inc_xdp_end, greatest value, and what becomes of it (enum inc_rc_end_travel). Numbers are
 * in host byte order. Further arguments are passed on to each call of _. docs/house.md lists what
 * else a new field touches.
 */
/* clang-format off */
#define INC_RC_END_FIELDS(_, ...) \
	/* UDP port at which the end receives; a switch also sends from it. 0: not known yet */ \
	_(__u16, udp_port, 4, 0xffff, SENT, __VA_ARGS__) \
	/* kind of the end: enum inc_endpoint_kind */ \
	_(__u8, kind, 6, INC_N_ENDPOINT_KINDS - 1, KEPT, __VA_ARGS__) \
	_(__u8, resv, 7, 0, RESERVED, __VA_ARGS__) \
	/* queue pair number; 0: not known yet */ \
	_(__u32, qpn, 8, INC_QPN_MASK, SENT, __VA_ARGS__) \
	/* PSN of the first packet that this end sends */ \
	_(__u32, psn, 12, INC_PSN_MASK, SENT, __VA_ARGS__)
/* clang-format on */

/* Messages do not have the address in the end, but as a field of its own. */
struct inc_rc_end {
	struct inc_addr ip;
#define _(type, member, ...) type member;
	INC_RC_END_FIELDS(_)
#undef _
};

/* An end as the XDP programs have it. Both ends of a connection, with what else the programs need,
 * fit into one cache line. */
struct inc_xdp_end {
	__be32 ip;
#define _(type, member, ...) type member;
	INC_RC_END_FIELDS(_)
#undef _
};

#define _(type, member, at, most, ...)                                         \
	_Static_assert(__builtin_offsetof(struct inc_xdp_end, member) == (at), \
		       "offset of " #member);                                  \
	_Static_assert((most) <= (type)-1, "greatest value of " #member);
INC_RC_END_FIELDS(_)
#undef _
#define _(type, ...) +sizeof(type)
_Static_assert(sizeof(struct inc_xdp_end) == 16 && 4 INC_RC_END_FIELDS(_) == 16,
	       "size of struct inc_xdp_end, which has no padding");
#undef _

/* The number of fields that are not reserved. A place that a new field needs asserts the number, so
 * that the field does not compile before. */
#define _(type, member, at, most, travel, ...) +(INC_RC_END_##travel != INC_RC_END_RESERVED)
enum { INC_N_RC_END_FIELDS = 0 INC_RC_END_FIELDS(_) };
#undef _

/* Returns the end as the XDP programs have it. Its address must be IPv4. */
INC_INLINE struct inc_xdp_end inc_xdp_end_of(const struct inc_rc_end *end)
{
	struct inc_xdp_end out = {.ip = end->ip.word[3]};

#define _(type, member, ...) out.member = end->member;
	INC_RC_END_FIELDS(_)
#undef _
	return out;
}

/* The reverse of inc_xdp_end_of(). */
INC_INLINE struct inc_rc_end inc_rc_end_of(const struct inc_xdp_end *end)
{
	struct inc_rc_end out = {.ip = inc_addr_of_ipv4(end->ip)};

#define _(type, member, ...) out.member = end->member;
	INC_RC_END_FIELDS(_)
#undef _
	return out;
}

/* Replaces the fields of an end that messages have by those from a message. */
INC_INLINE void inc_rc_end_update(struct inc_rc_end *end, const struct inc_rc_end *from)
{
#define _(type, member, at, most, travel, ...)      \
	if (INC_RC_END_##travel == INC_RC_END_SENT) \
		end->member = from->member;
	INC_RC_END_FIELDS(_)
#undef _
}

#endif
