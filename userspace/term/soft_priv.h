/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Soft endpoints of a termination switch: RC endpoints on UDP sockets, one socket for all channels
 * of a device. Packets that come are given to the channel whose queue pair they name and put
 * together there, in the order of their numbers, in the buffer posted last; messages to be sent
 * are cut into packets of the requester of lib/roce. soft.c makes and ends devices and channels,
 * soft_tx.c sends, soft_rx.c receives; all on the device's thread.
 *
 * What a turn has touched is in the list of active channels: they may owe an ACK, or have something
 * to send, and all of it goes by one batch at the turn's end.
 */
#ifndef INC_TERM_SOFT_PRIV_H
#define INC_TERM_SOFT_PRIV_H

#include <stdbool.h>
#include <stdint.h>
#include <netinet/in.h>
#include <sys/queue.h>
#include "lib/base/clock.h"
#include "lib/proto/frame.h"
#include "lib/roce/ip_id.h"
#include "lib/roce/requester.h"
#include "lib/roce/udp.h"
#include "userspace/term/endpoint.h"
#include "userspace/term/ingress.h"
#include "userspace/term/node.h"

#define SOFT_BUCKETS      1024
#define SOFT_BUFFER_BYTES (8 << 20) /* of the socket, each way, where we are allowed */
/* Packets under way of a channel, at most: enough for two of the longest messages. */
#define SOFT_MAX_RING 2048
/* How long after a send that found the socket full the next one is tried. */
#define SOFT_BLOCKED_NS (200 * INC_NSEC_PER_USEC)
/* A channel that is shut tells its peer so by NAKs. Nobody acknowledges a NAK, so it is sent
 * SOFT_FAREWELLS times, the first wait SOFT_FAREWELL_NS long and each next one twice as long; and a
 * peer that goes on sending is told again, once per SOFT_FAREWELL_PACE_NS. */
#define SOFT_FAREWELLS 8
/* To a switch so many times, because it may have nothing to send for as long as an outage lasts;
 * the waits grow to rto_max at most. */
#define SOFT_SWITCH_FAREWELLS 120
#define SOFT_FAREWELL_NS      (20 * INC_NSEC_PER_MSEC)
#define SOFT_FAREWELL_PACE_NS (10 * INC_NSEC_PER_MSEC)
/* Channels that have ended and whose peers are told so if they ask: the oldest are forgotten. */
#define SOFT_MAX_ENDED 1024

/* The bytes of messages under way that are the same: one buffer, sent to many. While one of them is
 * not acknowledged nobody changes the buffer, so what its payloads' CRCs are stays true. */
struct soft_content {
	const uint8_t *buffer;
	uint32_t length, payload;
	uint32_t users;
	uint32_t crc[]; /* of each full payload, from state 0 */
};

struct soft_send {
	struct soft_content *content; /* NULL: length 0 */
	uint32_t length;
	uint32_t imm;
	bool has_imm;
	uint64_t end; /* one past its last packet, once described; counts the channel's */
};

enum soft_life {
	SOFT_MADE,
	SOFT_CONNECTED,
	SOFT_BROKEN, /* and its handler knows, unless `report` */
	SOFT_ENDED,  /* shut; its peer is told so */
};

struct soft_channel {
	struct inc_term_channel ch; /* first */
	enum soft_life life;        /* soft_go() */
	char what[64];
	void *ctx;
	uint32_t own_qpn, payload, max_message_bytes, messages;
	LIST_ENTRY(soft_channel) in_bucket;
	TAILQ_ENTRY(soft_channel) in_all; /* channels; ended; gone */
	bool active;
	SLIST_ENTRY(soft_channel) next_active;
	/* why it is broken */
	bool report; /* the handler has not heard it yet */
	enum inc_term_reason reason;
	char text[160];

	/* requester: messages are counted in 64 bits, sent <= cut <= queued <= sent + messages */
	struct inc_requester tx;
	struct soft_send *sends; /* messages of them */
	uint64_t queued;         /* by send() */
	uint64_t cut;            /* described as packets, wholly */
	uint64_t sent;           /* acknowledged, and the handler knows */
	uint32_t cut_bytes;      /* of message `cut`, described */

	/* responder */
	struct inc_roce_path from_peer;
	struct inc_ip_ids ids;
	bool to_switch; /* the peer is one */
	bool port_told; /* the log has said that packets of the peer come behind another port */
	enum inc_term_se peer_se;
	uint32_t peer_psn; /* of its packet 0 */
	void **buffers;    /* n_posted of messages: a stack, so that what is used stays in caches */
	uint32_t n_posted;
	uint8_t *filling;    /* where the message that is coming goes; NULL: none is coming */
	uint64_t rx_next;    /* packet expected: all before this are kept */
	uint64_t rx_told;    /* acknowledged to the peer: all before this */
	uint64_t tell_at_ns; /* when the peer is to hear of what it has not been told */
	uint32_t rx_msn;     /* messages completed */
	uint32_t filled;     /* bytes of the message that is coming */
	bool asked;          /* a packet of it has asked for an ACK */
	bool owes;           /* the peer has asked for an ACK, */
	bool ack_behind;     /* which goes behind what is sent there next */
	bool tell;           /* an ACK is sent at the end of this turn */
	bool nak_told;       /* a NAK or RNR NAK asks for rx_next: what is ahead draws none */
	uint64_t rx_packets, duplicates, acks_sent, naks_sent, rnrs_sent;

	/* ended */
	uint8_t syndrome;
	unsigned int farewells; /* to go */
	uint64_t farewell_at_ns, farewell_wait_ns, told_at_ns;
};

/* Of all devices of a thread, each of which is done with it when the next one's turn comes: so it
 * stays in the CPU's caches, however many ports there are. */
struct soft_inbox {
	struct inc_udp_inbox in;
	unsigned int users;
};

struct soft_device {
	struct inc_term_device dev; /* first */
	const struct inc_term_handler *handler;
	uint64_t rto_min_ns, rto_max_ns;
	struct inc_udp udp;
	struct soft_inbox *inbox;
	struct inc_batch batch;
	struct in_addr own_ip;
	struct inc_term_ingress ingress;
	LIST_HEAD(, soft_channel) bucket[SOFT_BUCKETS]; /* by own_qpn; ended ones, too */
	TAILQ_HEAD(, soft_channel) channels, ended, gone;
	unsigned int n_ended;
	SLIST_HEAD(, soft_channel) active;
	bool in_progress;            /* handlers are called, and channels that go are freed later */
	uint64_t due_at_ns;          /* no timer runs out before this */
	struct soft_content *latest; /* the content made last, while anybody uses it */
	struct inc_crc32_jump *jump[4]; /* by payload */
	uint64_t strangers, wrong_port, damaged;
};

#define SOFT_DEV(d) ((struct soft_device *)(d))
#define SOFT_CH(c)  ((struct soft_channel *)(c))

static inline struct soft_device *soft_device_of(const struct soft_channel *ch)
{
	return SOFT_DEV(ch->ch.dev);
}

/* The turn's end looks at the channel. */
static inline void soft_activate(struct soft_channel *ch)
{
	if (ch->active)
		return;
	ch->active = true;
	SLIST_INSERT_HEAD(&soft_device_of(ch)->active, ch, next_active);
}

/* A timer may run out then. */
static inline void soft_due(struct soft_device *dev, uint64_t at_ns)
{
	if (at_ns < dev->due_at_ns)
		dev->due_at_ns = at_ns;
}

/* PSN of the last packet of the peer that was kept. */
static inline uint32_t inc_soft_kept(const struct soft_channel *ch)
{
	return ch->peer_psn + (uint32_t)(ch->rx_next ? ch->rx_next - 1 : 0);
}

/* soft.c */
/* Breaks the channel; its handler hears so at the end of progress(), this one or the next. */
void inc_soft_lose(struct soft_channel *ch, enum inc_term_reason reason, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Forgets a channel; within progress() it is freed at the end of that. */
void inc_soft_forget(struct soft_channel *ch);
void inc_soft_free_gone(struct soft_device *dev);
/* The channel of that number, ended ones, too; NULL: there is none. */
struct soft_channel *inc_soft_find(struct soft_device *dev, uint32_t qpn);

/* soft_tx.c */
int inc_soft_send(struct inc_term_channel *ch, const void *buffer, uint32_t length, bool has_imm,
		  uint32_t imm);
void inc_soft_shown(struct inc_term_channel *ch, uint64_t n);
/* The peer has acknowledged more: tells the handler of the messages that it has now. */
void inc_soft_sent(struct soft_channel *ch);
/* Gives up what is not acknowledged. */
void inc_soft_drop_sends(struct soft_channel *ch);
/* Sends what active channels have and owe. */
void inc_soft_flush(struct inc_term_device *dev);
/* What runs out by now. */
void inc_soft_timers(struct soft_device *dev, uint64_t now_ns);
/* Tells the peer of a channel that has ended that it has. */
void inc_soft_farewell(struct soft_channel *ch, uint32_t psn, uint64_t now_ns);

/* soft_rx.c */
bool inc_soft_progress(struct inc_term_device *dev);

#endif
