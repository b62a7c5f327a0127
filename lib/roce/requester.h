/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The requester of a soft RC endpoint. It sends the packets that its owner has described, sends
 * them again if they are lost, and frees them when the peer has acknowledged them. Packets are
 * counted in 64 bits; packet r has the PSN start_psn + r. A ring of `slots` descriptors, one for
 * each packet in flight, has all that is needed to send and resend it. In order:
 *
 *	acked <= next <= high <= posted <= acked + slots
 *
 * (For a host: posted <= the number of results received + slots, which is less.) Hosts (hostlib)
 * and switches in termination mode (userspace/term) use it, on the thread that owns the endpoint.
 * The caller passes the time, and owns the socket and the timers: inc_requester_deadline_ns() says
 * when to call. Packets may wait in a batch, because several requesters of one socket share its
 * system calls.
 */
#ifndef INC_ROCE_REQUESTER_H
#define INC_ROCE_REQUESTER_H

#include <stdbool.h>
#include <stdint.h>
#include "lib/base/clock.h"
#include "lib/base/datagram.h"
#include "lib/roce/congestion.h"
#include "lib/roce/parse.h"
#include "lib/roce/rto.h"
#include "lib/roce/segments.h"
#include "lib/roce/udp.h"

/* A requester requests an ACK in at least one of INC_ACK_EVERY packets, and a responder sends an
 * ACK after INC_ACK_EVERY packets. */
#define INC_ACK_EVERY 32
/* Limit of the time for which a responder holds back an ACK for fewer packets, so that small
 * messages that follow each other share an ACK. It counts from the first of these packets. It is
 * shorter than any retransmission timeout (SOFT_RTO_MIN_NS, INC_DEF_RTO_MIN_MS; inc-switchd's
 * options allow no less). */
#define INC_ACK_HOLD_NS INC_NSEC_PER_MSEC
/* The retransmission timeout before a requester has measured a round trip, within the requester's
 * bounds. The slow path has another one (sp_first_rto_ns()). */
#define INC_RTO_FIRST_NS (20 * INC_NSEC_PER_MSEC)
/* Number of timeouts in a row, without an acknowledgement between them, after which a requester
 * stops using UDP_SEGMENT and sends packets one by one. Generic XDP, for example, receives such a
 * send unsegmented and drops it. */
#define INC_UNCUT_TIMEOUTS 3
/* Bounds of the period in which packets are sent one by one. The period doubles each time that
 * UDP_SEGMENT fails again. */
#define INC_SINGLE_PAUSE_NS     INC_NSEC_PER_SEC
#define INC_SINGLE_PAUSE_MAX_NS (64 * INC_NSEC_PER_SEC)
/* Times of the probes of a selective requester. It sends a probe when it has received nothing for
 * INC_PROBE_SILENCE_NS. While a packet is known to be missing, it sends one INC_PROBE_PACE_NS after
 * the last. A probe counts as lost after INC_PROBE_LOST_NS plus twice the average time that probes
 * take. After INC_PROBE_TRIES probes without progress these times double with each one. */
#define INC_PROBE_SILENCE_NS (3 * INC_NSEC_PER_MSEC)
#define INC_PROBE_PACE_NS    INC_NSEC_PER_MSEC
#define INC_PROBE_LOST_NS    (2 * INC_NSEC_PER_MSEC)
#define INC_PROBE_TRIES      8
/* The last packets of all count as lost if they were sent before a probe that is at least this old,
 * and the answer to a later probe shows that they have not come. A probe may overtake packets,
 * because a network card or a veth may have a queue for each CPU. */
#define INC_PROBE_TAIL_NS (8 * INC_NSEC_PER_MSEC)

struct inc_requester_figures {
	uint64_t sent;   /* number of packets that were sent for the first time */
	uint64_t resent; /* number of packets that were sent again */
	uint64_t acks, naks, rnrs, timeouts;
	uint64_t congested; /* number of reports of congestion */
};

struct inc_requester {
	/* The owner sets the members before `posted`, before it describes any packet. */
	struct inc_tx_peer to;
	uint32_t start_psn;
	unsigned int slots; /* number of slots of the ring, a power of two */
	/* Packets that are sent for the first time request no ACK, because results acknowledge
	 * them. If no result comes for long, the owner sends a probe, which the peer answers with
	 * an ACK. So packets are not resent because the results are late. */
	bool quiet;
	/* The requester is quiet, and the peer keeps packets ahead of a gap. So only packets that
	 * are lost are sent again: those that a NAK or the answer to a probe names. */
	bool selective;
	struct inc_tx_packet *ring; /* ring of the packets' descriptors, one for each slot */
	void (*log)(void *ctx, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
	void *log_ctx;

	/* its window limits the packets under way if packets to the peer are of class ECT */
	struct inc_congestion congestion;

	uint64_t posted; /* all packets before this one are described */
	uint64_t next;   /* the next packet to send */
	uint64_t high;   /* all packets before this one were sent at least once */
	uint64_t acked;  /* the peer has acknowledged all packets before this one */
	/*
	 * Recovery from a timeout. Mostly only the ACK was late, and the packets before number
	 * `recover` have arrived. So only `burst` packets from acked on are sent again
	 * (inc_rto_probes()), and twice as many after each acknowledgement. recover 0: no recovery
	 * is under way.
	 */
	uint64_t recover, burst;
	/* packets are sent one by one, because the device on the way to the peer does not support
	 * UDP_SEGMENT */
	bool single;
	/* number of timeouts in a row for packets that one UDP_SEGMENT call had sent */
	unsigned int uncut;
	/* time until which packets are sent one by one; 0: packets are sent together */
	uint64_t together_at_ns;
	/* length of the next period in which packets are sent one by one */
	uint64_t single_pause_ns;
	struct inc_rto rto;
	/* time when the retransmission timer expires; UINT64_MAX: it is stopped, because no packet
	 * is in flight */
	uint64_t rto_at_ns;
	/* time when the owner of a quiet requester must send a probe; UINT64_MAX: no probe is to be
	 * sent */
	uint64_t probe_at_ns;
	/* The fields of a selective requester. A round ends when a probe is sent. A packet that was
	 * sent again in this round or before has arrived before the probe, or is lost. */
	struct {
		unsigned int lost; /* number of packets with INC_TX_LOST */
		/* one past the highest packet that the peer is known to keep behind a gap */
		uint64_t kept_high;
		uint64_t sent_high; /* one past the highest packet that was sent again */
		/* number of packets that were sent again since the last probe was answered */
		unsigned int again;
		bool hungry;  /* the owner knows of missing results */
		bool probing; /* a probe is not answered yet */
		/* a probe must follow at once, because packets were sent again */
		bool follow;
		uint32_t round;    /* number of the next probe */
		uint32_t answered; /* number of the probe that was answered last */
		/* the last probes; the index is the lowest bits of the number. high: value of
		 * `high` when the probe was sent */
		struct {
			uint32_t round;
			uint64_t high, at_ns;
		} probe[INC_STATUS_PROBES];
		/* time when a probe was last sent or answered, or a gap was first seen */
		uint64_t pace_at_ns;
		uint64_t probe_rtt_ns, heard_at_ns;
		/* number of probes since the peer was last known to have received another packet */
		unsigned int tries;
	} sel;
	uint64_t rnr_over_at_ns; /* end of the delay that an RNR NAK of the peer requested; 0:
				  * none */
	/* errno of a failure after which nothing can be sent to the peer; 0: none */
	int failed;
	struct inc_requester_figures figures;
};

void inc_requester_init(struct inc_requester *q, uint64_t rto_min_ns, uint64_t rto_max_ns);

static inline struct inc_tx_packet *inc_requester_packet(const struct inc_requester *q, uint64_t r)
{
	return &q->ring[r & (q->slots - 1)];
}

/* ---- sending ---- */

/* Sends to several peers by one socket, which are being put together. The sends of one requester
 * follow each other. */
struct inc_batch {
	struct inc_segments send[INC_UDP_SENDS];
	struct inc_udp_send ready[INC_UDP_SENDS]; /* the same sends, as the socket receives them */
	/* requester of each send; NULL: the send is an ACK packet */
	struct inc_requester *from[INC_UDP_SENDS];
	unsigned int n;
};

/* Returns how many packets may be under way. */
static inline uint64_t inc_requester_window(const struct inc_requester *q)
{
	return q->to.tos & INC_ECN_MASK ? inc_congestion_window(&q->congestion) : q->slots;
}

/* Returns the end of the packets that the window allows to send now. */
static inline uint64_t inc_requester_allowed(const struct inc_requester *q)
{
	const uint64_t end = q->acked + inc_requester_window(q);

	return q->to.tos & INC_ECN_MASK && end > q->congestion.burst_end ? q->congestion.burst_end
									 : end;
}

/* Returns how many packets are sent at a time. */
static inline uint64_t inc_requester_burst(const struct inc_requester *q)
{
	const uint64_t burst = inc_congestion_burst(&q->congestion);

	if (!(q->to.tos & INC_ECN_MASK))
		return q->slots;
	return burst < inc_requester_window(q) ? burst : inc_requester_window(q);
}

/* Returns the end of the packets that the requester may send now. If it is q->next, the requester
 * may send none. */
uint64_t inc_requester_limit(const struct inc_requester *q);
/* Adds the packets from q->next up to number `limit` to the batch, which has none of this requester
 * yet. The last packet requests an ACK. Returns false if the batch is full. The caller then sends
 * the batch and calls again for the rest. */
bool inc_requester_fill(struct inc_requester *q, const struct inc_udp *udp, struct inc_batch *batch,
			uint64_t limit, uint64_t now_ns);
/* Adds the first lost packet of a selective requester from number `from` on to the batch, which
 * must have room for it. If the packet cannot be sent, it stays lost. Returns the number of the
 * packet behind it, or UINT64_MAX if no packet is lost. */
uint64_t inc_requester_again(struct inc_requester *q, struct inc_batch *batch, uint64_t from);
/* Adds an ACK packet to the batch, which must have room for it. If it cannot be sent, it is not
 * sent again. */
void inc_batch_ack(struct inc_batch *batch, const struct inc_tx_peer *to, uint8_t syndrome,
		   uint32_t ackreq_psn, uint32_t msn);
/* Sends the batch and empties it. If packets could not be sent, because the socket is full or does
 * not support UDP_SEGMENT, they are in the state before they were added. If packets can never be
 * sent, `failed` of their requester is set. */
void inc_batch_send(struct inc_batch *batch, struct inc_udp *udp, uint64_t now_ns);

/* ---- receiving ---- */

/* Reports that the peer has received all packets before r, which counts as an acknowledgement. */
void inc_requester_kept(struct inc_requester *q, uint64_t r, uint64_t now_ns);

/* Reports that the peer of a selective requester has packet r, because its result has come. Other
 * packets before r may be missing. */
void inc_requester_kept_alone(struct inc_requester *q, uint64_t r, uint64_t now_ns);

enum inc_requester_heard {
	INC_HEARD,     /* the ACK packet is valid, or late and without effect */
	INC_HEARD_ODD, /* the ACK packet names a packet that was not sent, so it is ignored */
	/* the ACK packet is a NAK that ends the connection; *r is the packet that it names */
	INC_HEARD_NAK,
};
/* Processes a received ACK packet, that is an ACK or a NAK. */
enum inc_requester_heard inc_requester_hear(struct inc_requester *q,
					    const struct inc_roce_packet *pkt, uint64_t now_ns,
					    uint64_t *r);

/* Reports that packets meet congestion on their way, because the peer has sent a CNP, or the
 * network has marked their results. */
void inc_requester_congested(struct inc_requester *q);

/* Restarts the retransmission timer from now, or from the end of the delay that the peer has
 * requested. The timer runs only if packets are in flight. */
void inc_requester_restart_timer(struct inc_requester *q, uint64_t now_ns);
/* Returns when inc_requester_timers() must be called at the latest. */
uint64_t inc_requester_deadline_ns(const struct inc_requester *q);
void inc_requester_timers(struct inc_requester *q, uint64_t now_ns);
/* Whether a probe is due, which the owner must send now. Returns true once for each probe that is
 * due. */
bool inc_requester_probes(struct inc_requester *q, uint64_t now_ns);
/* Reports that the owner of a selective requester has sent a probe. */
void inc_requester_probed(struct inc_requester *q, uint64_t now_ns);
/* Sets whether the owner knows of missing results, because a selective requester then plans probes
 * that ask for them. */
void inc_requester_hunger(struct inc_requester *q, bool hungry, uint64_t now_ns);
/* Makes the next probe due at once, unless none is planned or one is under way. */
static inline void inc_requester_hurry(struct inc_requester *q)
{
	if (q->probe_at_ns != UINT64_MAX && !q->sel.probing)
		q->probe_at_ns = 0;
}

#endif
