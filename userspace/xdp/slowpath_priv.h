/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the slow path share. */
#ifndef INC_SLOWPATH_PRIV_H
#define INC_SLOWPATH_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include <event2/event.h>
#include "lib/base/awake.h"
#include "lib/base/clock.h"
#include "lib/proto/maps.h"
#include "lib/roce/rto.h"
#include "loader/inc_state.h"
#include "userspace/call.h"
#include "userspace/engine.h"
#include "userspace/xdp/packet.h"
#include "userspace/xdp/slowpath.h"
#include "userspace/xdp/xsk.h"

/* A peer that is silent, or asks for the same again and again, is reported as unresponsive after so
 * many attempts in a row and INC_UNRESPONSIVE_S without progress (both); the report ends nothing
 * here. A peer in doubt (stale_nak.c) that is silent ends its communicator after as many probes and
 * as many seconds. */
#define UNRESPONSIVE 8

/*
 * A child asks by NAK for a result that it has acknowledged: perhaps the NAK is old, perhaps the
 * child contradicts itself. It is asked by results sent again (probes) until it says which.
 */
struct sp_stale_nak {
	unsigned int naks;       /* that asked so; 0: there is no doubt */
	unsigned int probes;     /* sent since the child was heard last */
	uint64_t r;              /* the result that it asks for */
	uint64_t end;            /* one past the last result that it had acknowledged by then */
	uint64_t first_at_ns;    /* the first NAK */
	uint64_t answered_at_ns; /* the first NAK, or an ACK after it */
	uint64_t probe_at_ns;    /* the next probe */
	/* The connection's state when the child was heard last. Where one of them has moved since,
	 * the child is alive and goes on: the NAK was old. */
	uint64_t rx_next;
	uint64_t tx_acked;
	uint64_t acks;
};

enum sp_conn_phase {
	SP_CONN_WELL,
	SP_CONN_UNRESPONSIVE, /* silent for long; may be heard again */
	SP_CONN_ENDED,        /* by a fatal NAK of the XDP path */
};

enum sp_comm_phase {
	SP_COMM_RUNNING,
	SP_COMM_TELLING, /* has ended; its children are told, several times */
	SP_COMM_ENDED,
};

/* One connection as its requester sees it: what it sends are results to a child, partial sums to
 * the parent. r counts as in lib/proto/maps.h. */
struct sp_conn {
	uint32_t id;
	bool outstanding;        /* at the last tick */
	uint64_t acked;          /* the peer is known to have all packets before this one */
	uint64_t progress_at_ns; /* when acked moved, or something became outstanding */
	uint64_t resent_at_ns;   /* of the last resend */
	uint64_t resend_next;    /* [resend_next, resend_end) is to be sent again */
	uint64_t resend_end;
	uint64_t probe_end; /* packets sent before the probe: lost unless its ACK covers them */
	uint64_t hold_ends_at_ns; /* the child asked for patience (RNR NAK) */
	struct inc_rto rto; /* its back-off: since the last progress, or the first NAKs after it */
	unsigned int asked; /* NAKs and RNR NAKs since the last progress */
	struct sp_stale_nak stale_nak;
	enum sp_conn_phase phase; /* sp_conn_go() */
	bool refusal_told;        /* the notice that the child has refused a result */
	uint64_t paid;            /* acknowledged by the slow path up to this r */
	uint64_t owed_r;          /* the oldest ACK owed, seen first at owed_at_ns; 0: none */
	uint64_t owed_at_ns;
	/* Where the kernel says that the peer is, as long as the peer's packets have not said it;
	 * the word 0: nothing. Attempts count from found_backoff, so the first one after it goes
	 * there. */
	union inc_mac found;
	unsigned int found_backoff;
	bool found_answered; /* the peer has answered since the kernel gave this address */
	uint64_t look_at_ns; /* while the peer is lost: when the kernel is asked again where it is,
			      */
	uint64_t look_wait_ns; /*   and how long after the last time that is; 0: it is not lost */
	struct {
		uint64_t retransmits, acks_paid, timeouts;
	} stats;
};

struct sp_comm {
	uint32_t index;
	struct inc_comm_cfg cfg;
	uint64_t wait_r; /* the incomplete chunk that is being watched, and since when */
	uint64_t wait_at_ns;
	enum sp_comm_phase phase; /* sp_comm_go() */
	unsigned int fatal_left;  /* TELLING: times that the children are still told */
	uint64_t fatal_at_ns, fatal_wait_ns;
	bool port_told; /* the notice that a port is lost */
	uint32_t n_conns;
	struct sp_conn conn[INC_MAX_CONNECTIONS]; /* the parent's behind the children's */
};

struct sp_port {
	uint32_t queues; /* 0: not a port, or its sockets cannot be opened */
	uint32_t ifindex;
	struct inc_xsk *xsk[INC_PORT_QUEUES];
	enum inc_port_condition condition;
	uint64_t lost_at_ns;       /* since when it is not up */
	char why[INC_PORT_REASON]; /* what the operator is told of it, as long as it is not up */
};

struct inc_slowpath {
	struct event_base *base;
	struct inc_switch *sw;
	struct inc_slowpath_opts opts;
	inc_slowpath_notice_fn notice;
	void *arg;
	struct sp_port port[INC_MAX_PORTS];
	struct sp_comm **comm; /* [max_comms] */
	uint32_t max_comms, n_comms;
	struct inc_awake awake; /* sp_now() */
	struct event *tick;
	uint64_t tick_at_ns; /* UINT64_MAX: not armed */
	unsigned int ring_budget;
	struct ring_buffer *ring;
	struct event *ring_readable;
	struct inc_slowpath_stats stats;
};

/* The time of all that happens to connections and communicators: retransmissions, patience, round
 * trips. While the daemon stands still it does not pass, so no peer is blamed for that; the data
 * path goes on meanwhile. Figures of the clock (since when a chunk waits) are inc_now_ns()'s. */
static inline uint64_t sp_now(struct inc_slowpath *sp)
{
	return inc_awake_now_ns(&sp->awake);
}

/* How long to wait where nothing has been measured yet, within the bounds; of soft endpoints:
 * INC_RTO_FIRST_NS. */
static inline uint64_t sp_first_rto_ns(const struct inc_slowpath *sp)
{
	const uint64_t first_ns = 4 * INC_NSEC_PER_MSEC * sp->opts.rto_min_ms;
	const uint64_t max_ns = INC_NSEC_PER_MSEC * sp->opts.rto_max_ms;

	return first_ns < max_ns ? first_ns : max_ns;
}

static inline struct inc_conn_state conn_state(const struct inc_slowpath *sp,
					       const struct sp_conn *c)
{
	struct inc_conn_state now;

	inc_switch_read_conn(sp->sw, c->id, &now);
	return now;
}

static inline struct inc_comm_state comm_state(const struct inc_slowpath *sp,
					       const struct sp_comm *cm)
{
	struct inc_comm_state now;

	inc_switch_read_comm(sp->sw, cm->index, &now);
	return now;
}

static inline bool is_parent(const struct sp_comm *cm, uint32_t peer)
{
	return peer == cm->cfg.children;
}

/* One past the last packet that the switch has sent, or could have. */
static inline uint64_t sent_end(const struct inc_slowpath *sp, const struct sp_comm *cm,
				uint32_t peer)
{
	const struct inc_comm_state now = comm_state(sp, cm);

	return is_parent(cm, peer) ? now.up_next : now.tx_next;
}

static inline const struct inc_conn_cfg *conn_cfg(const struct inc_slowpath *sp,
						  const struct sp_conn *c)
{
	return inc_switch_conn(sp->sw, c->id);
}

static inline bool is_switch(const struct inc_slowpath *sp, const struct sp_conn *c)
{
	return conn_cfg(sp, c)->flags & INC_CONN_F_SWITCH;
}

/* A peer is a child, by its ordinal, or the parent: cfg.children. */

/* resend.c */

/* Looks after one connection; true while it has something outstanding. */
bool sp_conn_tick(struct inc_slowpath *sp, struct sp_comm *cm, uint32_t peer, uint64_t now);
/* Queues packet r for one peer: the result to a child, the partial sum to the parent. 0, -ESTALE
 * where the row moved on, -EAGAIN without room, -ENOENT where the peer's MAC address is not known.
 */
int sp_send(struct inc_slowpath *sp, struct sp_comm *cm, uint32_t peer, uint64_t r, bool ackreq);
/* Queues an ACK or NAK; -ENOENT where the peer's MAC address is not known. */
int sp_send_aeth(struct inc_slowpath *sp, struct sp_comm *cm, uint32_t peer, uint8_t syndrome,
		 uint32_t psn);
/* Pays the ACK that the peer is owed, if there is one, without the delay. */
void sp_pay_at_once(struct inc_slowpath *sp, struct sp_comm *cm, uint32_t peer);
/* From now on all that the peer has not acknowledged is to be sent again. */
void sp_go_back(struct inc_slowpath *sp, struct sp_comm *cm, uint32_t peer);
/* The peer asks for packet r, after hold_ns if it is an RNR NAK. True where it is served. */
bool sp_asked(struct inc_slowpath *sp, struct sp_comm *cm, uint32_t peer, uint64_t r,
	      uint64_t hold_ns);
/* Sends packet r, which was sent before. As sp_send. */
int sp_resend(struct inc_slowpath *sp, struct sp_comm *cm, uint32_t peer, uint64_t r, bool ackreq);
/* Sends the oldest packet that the peer lacks, if there is one, and asks for an ACK. */
void sp_probe(struct inc_slowpath *sp, struct sp_comm *cm, uint32_t peer, uint64_t now);
void sp_flush(struct inc_slowpath *sp);

/* port.c */

/* The port of a connection; NULL where its interface is none. */
struct sp_port *sp_port_of(struct inc_slowpath *sp, const struct sp_conn *c);
/* Is the port of the connection lost, or down? Then no peer behind it is to blame for silence. */
bool sp_port_is_away(struct inc_slowpath *sp, const struct sp_conn *c);
/* Tells, once, that a port of the communicator is lost, and has been for INC_PORT_LOST_S. */
void sp_watch_ports(struct inc_slowpath *sp, struct sp_comm *cm, uint64_t now);
void sp_close_port(struct sp_port *port);

/* whereabouts.c */

/* Asks the kernel where the peer is, as long as that is not known, or the peer is silent there. */
void sp_find_peer(struct inc_slowpath *sp, struct sp_comm *cm, uint32_t peer,
		  const struct inc_conn_state *st, uint64_t now);
/* Where the next frame to the peer goes: each timeout in a row tries the next address that is
 * known, because the peer may have moved, or what a frame said of it was damaged. -ENOENT: none is
 * known. */
int sp_peer_mac(const struct sp_conn *c, const struct inc_conn_state *st, union inc_mac *mac);

/* stale_nak.c */

/* The peer asks for packet r, and has acknowledged all before acked. */
void sp_note_stale_nak(struct inc_slowpath *sp, struct sp_comm *cm, uint32_t peer, uint64_t r,
		       uint64_t acked);
/* Asks a peer in doubt, and settles it. True while it is asked. */
bool sp_stale_nak_tick(struct inc_slowpath *sp, struct sp_comm *cm, uint32_t peer, uint64_t now);

/* failure.c */

/* Tells what has failed in a communicator, each thing once, and its peers while they may not
 * have heard. */
void sp_watch_failures(struct inc_slowpath *sp, struct sp_comm *cm, uint64_t now);
/* The only places where these states change. */
void sp_conn_go(const struct sp_comm *cm, struct sp_conn *c, enum sp_conn_phase to);
void sp_comm_go(struct sp_comm *cm, enum sp_comm_phase to);
/* The peer has refused packet r with a fatal NAK. */
void sp_tell_refusal(struct inc_slowpath *sp, struct sp_comm *cm, uint32_t peer, uint64_t r,
		     uint8_t syndrome);
/* Ends the communicator at chunk r. The caller has told why. */
void sp_end_comm(struct inc_slowpath *sp, struct sp_comm *cm, uint64_t r);
/* Tells what has happened with a peer. fmt: what it did, behind its name ("rank 3", "the switch of
 * rank 4", "the parent 10.0.0.1"). */
void sp_notice_peer(struct inc_slowpath *sp, const struct sp_comm *cm, uint32_t peer,
		    const char *event, uint64_t r, const char *fmt, ...)
	__attribute__((format(printf, 6, 7)));
/* What is sent to the peer: "result" or "partial sum". */
const char *sp_thing(const struct sp_comm *cm, uint32_t peer);
/* Its name, as above, in buf. */
const char *sp_peer_name(const struct inc_slowpath *sp, const struct sp_comm *cm, uint32_t peer,
			 char buf[INC_PEER_TEXT]);

/* response.c */
void sp_on_frame(const uint8_t *frame, size_t len, void *arg);
int sp_on_event(void *arg, void *data, size_t size);

/* slowpath.c: has the next tick come soon, because the caller has learned something that cannot
 * wait for the idle tick. Never puts a tick off. */
void sp_hurry(struct inc_slowpath *sp);

#endif
