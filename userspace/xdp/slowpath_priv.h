/* SPDX-License-Identifier: BSD-2-Clause */
/* Declarations that the files of the slow path share. */
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

/* A peer that does not answer, or sends NAKs for the same packet again and again, is reported as
 * unresponsive after UNRESPONSIVE attempts in a row, if INC_UNRESPONSIVE_S have passed without
 * progress. The report does not end the communicator. A peer that has sent a stale NAK
 * (stale_nak.c) ends the communicator, if it answers none of UNRESPONSIVE probes for the same
 * time. */
#define UNRESPONSIVE 8

/*
 * A stale NAK: the peer NAKs a packet that it has acknowledged before. Either the NAK is old, or
 * the peer contradicts itself. The switch retransmits packets as probes until the peer's answers
 * show which it is.
 */
struct sp_stale_nak {
	unsigned int naks;   /* number of stale NAKs received; 0: none is being checked */
	unsigned int probes; /* number of probes sent since the peer's last answer */
	uint64_t r;          /* number of the packet that the NAK names */
	/* one past the last packet that the peer had acknowledged when the stale NAK came */
	uint64_t end;
	uint64_t first_at_ns; /* time when the first stale NAK came */
	/* time of the peer's last answer to a probe; at first that of the first stale NAK */
	uint64_t answered_at_ns;
	uint64_t probe_at_ns; /* time of the next probe */
	/* The connection's state at the peer's last answer. If one of these numbers has changed,
	 * the peer goes on, so the NAK was old. */
	uint64_t rx_next;
	uint64_t tx_acked;
	uint64_t acks;
};

/* Trials of whether the first copies of packets arrive (delivery.c). */
struct sp_trial {
	bool under_way;
	uint64_t r; /* number of the packet whose first copy may be lost */
	/* The slow path retransmits nothing to the peer until this time. */
	uint64_t hold_ends_at_ns;
	uint64_t resent_at_ns; /* time when packet r was first retransmitted; 0: it was not */
	unsigned int lost;     /* number of trials in a row in which the first copy was lost */
	uint64_t next_at_ns;   /* time when the next trial may begin */
};

enum sp_conn_phase {
	SP_CONN_WELL,
	SP_CONN_UNRESPONSIVE, /* the peer has not answered for long; it may answer again */
	SP_CONN_ENDED,        /* the XDP path has ended the connection with a fatal NAK */
};

enum sp_comm_phase {
	SP_COMM_RUNNING,
	/* the communicator has ended, and its peers are being sent closing NAKs */
	SP_COMM_TELLING,
	SP_COMM_ENDED,
};

/* A connection as the slow path's requester sees it, which sends results to a child, or partial
 * sums to the parent. Packets are numbered as r in lib/proto/maps.h. */
struct sp_conn {
	uint32_t id;
	/* at the last tick there were packets that the peer had not acknowledged */
	bool outstanding;
	uint64_t acked; /* the peer has all packets before this one */
	/* time when acked last changed, or when packets became outstanding */
	uint64_t progress_at_ns;
	uint64_t resent_at_ns; /* time when a packet was last retransmitted */
	/* packets from resend_next up to, but not including, resend_end are to be retransmitted */
	uint64_t resend_next;
	uint64_t resend_end;
	/* end of the packets that had been sent when a timeout sent its probe; those that the ACK
	 * of the probe does not cover are lost */
	uint64_t probe_end;
	uint64_t hold_ends_at_ns; /* end of the wait that an RNR NAK requested */
	/* estimator of the retransmission timeout; its backoff is reset by progress, and by the
	 * first NAKs after progress */
	struct inc_rto rto;
	unsigned int asked; /* number of NAKs and RNR NAKs since the last progress */
	/* Bursts are that many times halved, because the peer has sent CNPs; and the number of its
	 * CNPs that were counted. */
	unsigned int halved;
	uint16_t cnps;
	struct sp_stale_nak stale_nak;
	uint64_t resent_end; /* one past the last packet that was retransmitted */
	uint64_t clean; /* number of packets that were acknowledged after they were sent once */
	struct sp_trial trial;
	struct inc_delivery delivery;
	enum sp_conn_phase phase; /* phase of the connection, which only sp_conn_go() changes */
	bool refusal_told;        /* the notice that the peer has refused a packet was sent */
	/* time when the connection's state first showed a refusal of the peer; 0: it has not */
	uint64_t refusal_seen_at_ns;
	uint64_t paid; /* the slow path has acknowledged all packets before this one */
	/* value of ack_asked at owed_at_ns, when an ACK was first seen to be owed; 0: none is
	 * owed */
	uint64_t owed_r;
	uint64_t owed_at_ns;
	/*
	 * The peer's MAC address from the kernel's neighbour table, until the peer's packets show
	 * an address; word is 0 if there is none. found_backoff is the timeout's backoff when the
	 * address was read. Attempts are counted from there, so that the first attempt afterwards
	 * uses this address.
	 */
	union inc_mac found;
	unsigned int found_backoff;
	bool found_answered; /* the peer has answered since the kernel gave this address */
	/* while the peer does not answer: time when the kernel is asked again for its address */
	uint64_t look_at_ns;
	uint64_t look_wait_ns; /* length of the wait that ends at look_at_ns; 0: the peer answers */
	struct {
		uint64_t retransmits, acks_paid, timeouts;
	} stats;
};

struct sp_comm {
	uint32_t index;
	struct inc_comm_cfg cfg;
	/* the oldest incomplete chunk that has contributions, first seen at wait_at_ns; none if
	 * that is 0 */
	uint64_t wait_r;
	uint64_t wait_at_ns;
	enum sp_comm_phase phase; /* phase of the communicator, which only sp_comm_go() changes */
	/* in the phase SP_COMM_TELLING: number of closing NAKs that each peer still gets */
	unsigned int closing_naks;
	uint64_t closing_nak_at_ns, closing_wait_ns;
	bool port_told; /* the notice that a port is lost was sent */
	uint32_t n_conns;
	/* the connections: the children's in the order of their ordinals, then the parent's */
	struct sp_conn conn[INC_MAX_CONNECTIONS];
};

struct sp_port {
	/* number of AF_XDP sockets of the port; 0: there is no such port, or its sockets cannot be
	 * opened */
	uint32_t queues;
	uint32_t ifindex;
	struct inc_xsk *xsk[INC_PORT_QUEUES];
	enum inc_port_condition condition;
	uint64_t lost_at_ns;       /* time when the port stopped being up */
	char why[INC_PORT_REASON]; /* why the port is not up, for the notice */
};

struct inc_slowpath {
	struct event_base *base;
	struct inc_switch *sw;
	struct inc_slowpath_opts opts;
	inc_slowpath_notice_fn notice;
	void *arg;
	struct sp_port port[INC_MAX_PORTS];
	struct sp_comm **comm; /* [max_comms]: the communicators */
	uint32_t max_comms, n_comms;
	struct inc_awake awake; /* the clock that sp_now() reads */
	struct inc_timer *tick;
	uint64_t tick_at_ns; /* time of the next tick; UINT64_MAX: the timer is not armed */
	unsigned int ring_budget;
	struct ring_buffer *ring;
	struct event *ring_readable;
	struct inc_slowpath_stats stats;
};

/* The clock of connections and communicators: retransmissions, waits and round trips. It stops
 * while the daemon stands still, so that no peer is blamed for that time, although the data path
 * runs on. How long a chunk has been incomplete is measured by inc_now_ns() instead. */
static inline uint64_t sp_now(struct inc_slowpath *sp)
{
	return inc_awake_now_ns(&sp->awake);
}

/* The first retransmission timeout, before a round trip has been measured. The timeout is within
 * the configured bounds. Soft endpoints have INC_RTO_FIRST_NS instead. */
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

/* Returns one past the last packet that the switch has sent to the peer, or has tried to send. */
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

/* The parameter peer of the functions below is the ordinal of a child, or cfg.children for the
 * parent. */

/* resend.c */

/* Runs the timers of one connection. Returns true while a packet is outstanding, an ACK is owed, or
 * a stale NAK is being checked. */
bool sp_conn_tick(struct inc_slowpath *sp, struct sp_comm *cm, uint32_t peer, uint64_t now);
/* Queues packet r for a peer: the result for a child, or the partial sum for the parent. Returns
 * -ESTALE if the packet's row has been reused, and -EAGAIN if no frame of the socket is free.
 * -ENOENT: the peer's MAC address is not known. */
int sp_send(struct inc_slowpath *sp, struct sp_comm *cm, uint32_t peer, uint64_t r, bool ackreq);
/* Queues an ACK or NAK. Returns -ENOENT if the peer's MAC address is not known. */
int sp_send_aeth(struct inc_slowpath *sp, struct sp_comm *cm, uint32_t peer, uint8_t syndrome,
		 uint32_t psn);
/* Sends the ACK that the switch owes the peer, if it owes one, without the usual delay. */
void sp_pay_at_once(struct inc_slowpath *sp, struct sp_comm *cm, uint32_t peer);
/* Schedules all packets that the peer has not acknowledged for retransmission. */
void sp_go_back(struct inc_slowpath *sp, struct sp_comm *cm, uint32_t peer);
/* Handles a NAK of the peer for packet r, or an RNR NAK that requests a wait of hold_ns. Returns
 * true if the retransmission is scheduled. */
bool sp_asked(struct inc_slowpath *sp, struct sp_comm *cm, uint32_t peer, uint64_t r,
	      uint64_t hold_ns);
/* Handles a NAK of the peer that names a gap, which begins INC_GAP_OFFSET(gap) packets behind r:
 * retransmits the packets that are missing there, and no others. */
void sp_serve_gap(struct inc_slowpath *sp, struct sp_comm *cm, uint32_t peer, int64_t r,
		  uint32_t gap);
/* Retransmits packet r. Returns what sp_send() returns. */
int sp_resend(struct inc_slowpath *sp, struct sp_comm *cm, uint32_t peer, uint64_t r, bool ackreq);
/* Retransmits the oldest packet that the peer has not acknowledged, if there is one, and requests
 * an ACK. */
void sp_probe(struct inc_slowpath *sp, struct sp_comm *cm, uint32_t peer, uint64_t now);
void sp_flush(struct inc_slowpath *sp);

/* port.c */

/* Returns the port of a connection, or NULL if its interface is not a port. */
struct sp_port *sp_port_of(struct inc_slowpath *sp, const struct sp_conn *c);
/* Whether the connection's port is lost or down, in which case the peer is not blamed for its
 * silence. */
bool sp_port_is_away(struct inc_slowpath *sp, const struct sp_conn *c);
/* Reports once that a port of the communicator has been lost for INC_PORT_LOST_S. */
void sp_watch_ports(struct inc_slowpath *sp, struct sp_comm *cm, uint64_t now);
void sp_close_port(struct sp_port *port);

/* whereabouts.c */

/* Asks the kernel for the peer's MAC address, while no address is known or the peer does not answer
 * at the known ones. */
void sp_find_peer(struct inc_slowpath *sp, struct sp_comm *cm, uint32_t peer,
		  const struct inc_conn_state *st, uint64_t now);
/* Chooses the MAC address for the next frame to the peer. Each timeout in a row tries the next
 * known address, because the peer may have moved, or a damaged frame may have shown a wrong one.
 * Returns -ENOENT if no address is known. */
int sp_peer_mac(const struct sp_conn *c, const struct inc_conn_state *st, union inc_mac *mac);

/* delivery.c */

/* Looks whether what is sent to the peer arrives, and reports when that changes. */
void sp_watch_delivery(struct inc_slowpath *sp, struct sp_comm *cm, uint32_t peer,
		       const struct inc_conn_state *st, uint64_t sent, uint64_t now);
/* Whether a trial holds back the retransmissions of the connection. */
bool sp_trial_holds(const struct sp_conn *c, uint64_t now);
/* Stores that packets arrive at the peer, because it has sent a NAK. */
void sp_trial_refute(struct sp_conn *c, uint64_t now);
/* Stores that packet r was retransmitted. */
void sp_trial_resent(struct inc_slowpath *sp, struct sp_conn *c, uint64_t r);
/* Counts the packets before number acked that the peer acknowledges now. Called before c->acked
 * becomes acked. */
void sp_trial_acked(struct sp_conn *c, uint64_t acked);

/* stale_nak.c */

/* Handles a stale NAK: the peer requests packet r, although it has acknowledged all packets before
 * number acked, which is above r. */
void sp_note_stale_nak(struct inc_slowpath *sp, struct sp_comm *cm, uint32_t peer, uint64_t r,
		       uint64_t acked);
/* Probes a peer that has sent a stale NAK, and decides whether the communicator ends. Returns true
 * while it probes. */
bool sp_stale_nak_tick(struct inc_slowpath *sp, struct sp_comm *cm, uint32_t peer, uint64_t now);

/* failure.c */

/* Reports each failure in a communicator once. After the end of the communicator, repeats the
 * closing NAKs to its peers. */
void sp_watch_failures(struct inc_slowpath *sp, struct sp_comm *cm, uint64_t now);
/* Only these functions change the phases of connections and communicators. */
void sp_conn_go(const struct sp_comm *cm, struct sp_conn *c, enum sp_conn_phase to);
void sp_comm_go(struct sp_comm *cm, enum sp_comm_phase to);
/* Reports that the peer has refused packet r with a fatal NAK. */
void sp_tell_refusal(struct inc_slowpath *sp, struct sp_comm *cm, uint32_t peer, uint64_t r,
		     uint8_t syndrome);
/* Ends the communicator at chunk r. The caller has reported the reason. */
void sp_end_comm(struct inc_slowpath *sp, struct sp_comm *cm, uint64_t r);
/* Reports an event of a peer. fmt: what the peer did. The text begins with its name: "rank 3", "the
 * switch of rank 4", or "the parent 10.0.0.1". */
void sp_notice_peer(struct inc_slowpath *sp, const struct sp_comm *cm, uint32_t peer,
		    enum inc_event_kind kind, uint64_t r, const char *fmt, ...)
	__attribute__((format(printf, 6, 7)));
/* Names what the switch sends to the peer: "result" or "partial sum". */
const char *sp_thing(const struct sp_comm *cm, uint32_t peer);
/* Writes the peer's name, as above, to buf, and returns buf. */
const char *sp_peer_name(const struct inc_slowpath *sp, const struct sp_comm *cm, uint32_t peer,
			 char buf[INC_PEER_TEXT]);

/* response.c */
void sp_on_frame(const uint8_t *frame, size_t len, void *arg);
int sp_on_event(void *arg, void *data, size_t size);

/* slowpath.c: makes the next tick come soon, because the caller has work that cannot wait for the
 * idle tick. Never delays a tick. */
void sp_hurry(struct inc_slowpath *sp);

#endif
