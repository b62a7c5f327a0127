/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One end of an RC connection. Everything that describes a connection has both ends, as members
 * that are called own and peer. The XDP programs have both ends in inc_conn_cfg (maps.h), and a
 * switch has them in its configuration. The controller has them in its trees, messages and
 * database, and a rank in its endpoint. A switch's own end is the rank's peer.
 */
#ifndef INC_PROTO_RC_END_H
#define INC_PROTO_RC_END_H

#include <linux/types.h>
#include "lib/proto/roce.h"

/* The kinds of an end of a connection: a UDP socket, or an RDMA device. A switch in passthrough
 * mode has neither, and its ends count as sockets. */
enum inc_endpoint_kind { INC_ENDPOINT_SOFT, INC_ENDPOINT_VERBS, INC_N_ENDPOINT_KINDS };

/* One end of a connection. Its address is in network byte order, and all numbers are in host byte
 * order. */
struct inc_rc_end {
	__be32 ip;
	/* UDP port at which the end receives; a switch also sends from it. 0: not known yet */
	__u16 udp_port;
	__u8 kind; /* kind of the end: enum inc_endpoint_kind */
	__u8 resv; /* always 0 */
	__u32 qpn; /* queue pair number; 0: not known yet */
	__u32 psn; /* PSN of the first packet that this end sends */
};

/* A row for each field of struct inc_rc_end. A table with a row for each field can assert by their
 * number that it has all of them. */
#define INC_RC_END_FIELDS(_) _(ip) _(udp_port) _(kind) _(qpn) _(psn)

enum inc_rc_end_field {
#define _(field) INC_RC_END_FIELD_##field,
	INC_RC_END_FIELDS(_)
#undef _
		INC_N_RC_END_FIELDS
};

#define _(field) +sizeof(((struct inc_rc_end *)0)->field)
_Static_assert(sizeof(((struct inc_rc_end *)0)->resv)
			       INC_RC_END_FIELDS(_) == sizeof(struct inc_rc_end),
	       "INC_RC_END_FIELDS has each field of struct inc_rc_end");
#undef _
_Static_assert(sizeof(struct inc_rc_end) == 16, "size of struct inc_rc_end");
_Static_assert(__builtin_offsetof(struct inc_rc_end, udp_port) == 4, "offset of udp_port");
_Static_assert(__builtin_offsetof(struct inc_rc_end, kind) == 6, "offset of kind");
_Static_assert(__builtin_offsetof(struct inc_rc_end, qpn) == 8, "offset of qpn");
_Static_assert(__builtin_offsetof(struct inc_rc_end, psn) == 12, "offset of psn");

/* Replaces the fields of an end by those from a message. The end keeps its address and its kind,
 * because messages do not have them. */
_Static_assert(INC_N_RC_END_FIELDS == 5,
	       "a new field of an end is kept or replaced by inc_rc_end_update()");
INC_INLINE void inc_rc_end_update(struct inc_rc_end *end, const struct inc_rc_end *from)
{
	const struct inc_rc_end before = *end;

	*end = *from;
	end->ip = before.ip;
	end->kind = before.kind;
}

#endif
