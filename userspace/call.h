/* SPDX-License-Identifier: BSD-2-Clause */
/* Both engines use these functions for their reports about peers. They are about the names of
 * peers, the collective that each peer has called, and whether packets arrive at a peer. The
 * functions keep no state of their own and may be called on any thread. */
#ifndef INC_CALL_H
#define INC_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lib/base/addr.h"

/* Time without an acknowledgement after which a peer that owes one is reported as unresponsive. */
#define INC_UNRESPONSIVE_S 10ull

/* Writes "rank 3" for a host, or "the switch of rank 4" for a switch, of which 4 is the lowest rank
 * behind it. Returns buf. */
#define INC_PEER_TEXT 48
const char *inc_child_name(char buf[INC_PEER_TEXT], bool is_switch, uint32_t rank);

struct inc_call {
	char who[INC_PEER_TEXT];
	uint32_t desc;  /* descriptor of the call: INC_DESC */
	uint32_t bytes; /* length of the rank's contribution */
};

/*
 * Writes "rank 0 called reduce (sum of int32, root 0, sequence 7) with 1024 bytes, but rank 1
 * called ...; different: root, size" into text, truncated to size. If other is NULL, only the first
 * call is described.
 */
#define INC_CALL_TEXT 320
void inc_call_text(char *text, size_t size, const struct inc_call *call,
		   const struct inc_call *other);

/* How much of what the switch sends to a peer is lost. */
enum inc_loss {
	INC_LOSS_NONE, /* little or nothing, as far as the switch knows */
	/* nearly all that is sent once; what is sent again arrives. In passthrough mode XDP sends
	 * once, and an AF_XDP socket sends again. */
	INC_LOSS_ONCE,
	INC_LOSS_ALL, /* nearly all */
};

/* Counters of a connection since it was made. */
struct inc_delivery_seen {
	uint64_t acknowledged; /* packets or messages that the peer has acknowledged */
	uint64_t clean;        /* of them, those that were sent once */
	uint64_t fresh;        /* packets that were sent for the first time */
	uint64_t resent;       /* packets that were sent again */
	uint64_t timeouts;
	uint64_t in_a_row; /* timeouts since the last answer of the peer; 0: not known */
	uint64_t naks;     /* NAKs and RNR NAKs of the peer */
	uint64_t heard;    /* all packets of the peer */
	bool outstanding;  /* the peer has something to acknowledge */
};

/*
 * Notices that nearly nothing arrives at a peer which itself sends. The counters of a connection
 * are compared in windows of INC_DELIVERY_WINDOW_NS. A peer that sends nothing is not judged,
 * because it may be stopped or slow.
 */
struct inc_delivery {
	struct inc_delivery_seen since; /* at the begin of the present window */
	uint64_t since_at_ns;           /* 0: there was no window yet */
	/* at the begin of the first window in a row in which nearly nothing arrived; first_at_ns 0:
	 * in the last window the peer has acknowledged as usual */
	struct inc_delivery_seen first;
	uint64_t first_at_ns;
	unsigned int heard; /* number of windows since then in which the peer has sent */
	/* nearly all that the peer acknowledged in the last window had been sent again */
	bool suspect;
	enum inc_loss loss; /* as it was last reported */
	uint64_t reported_at_ns;
};

#define INC_DELIVERY_WINDOW_NS 200000000ull

/* Looks at a connection's counters. Returns true if `loss` has changed, which the caller reports.
 * now_ns is a clock that excludes time in which the switch stood still. */
bool inc_delivery_look(struct inc_delivery *d, const struct inc_delivery_seen *seen,
		       uint64_t now_ns);
/* Sets the loss that the caller has found by itself. Returns true if the caller reports it; false
 * if the last report of a loss is so recent that this one must wait. */
bool inc_delivery_lost(struct inc_delivery *d, enum inc_loss loss, uint64_t now_ns);
/* Writes what has been found, as "rank 1 (10.0.0.1) receives ...". who: the peer's name. ip: its
 * address. */
void inc_delivery_text(char *text, size_t size, const struct inc_delivery *d, const char *who,
		       struct inc_addr ip, uint64_t now_ns);

#endif
