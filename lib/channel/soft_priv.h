/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Soft channels: RC endpoints on UDP sockets, one socket for all channels of a device. Arriving
 * packets are given to the channel whose address and queue pair they name. Messages to be sent are
 * segmented into packets of the channel's requester (lib/roce).
 *
 *	soft.c		makes and ends devices and channels
 *	soft_port.c	places channels at addresses and ports
 *	soft_tx.c	sends, and runs the timers
 *	soft_rx.c	receives; assembles the messages of posted channels
 *	soft_mirror.c	mirrored channels: contributions, and results in any order
 *
 * A turn is one call of progress() or flush(). The channels that it has touched are in the list of
 * active channels, because they may owe an ACK or have something to send. One batch at the turn's
 * end sends all of that.
 */
#ifndef INC_CHANNEL_SOFT_PRIV_H
#define INC_CHANNEL_SOFT_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include "lib/base/addr.h"
#include "lib/base/clock.h"
#include "lib/base/err.h"
#include "lib/proto/frame.h"
#include "lib/roce/ip_id.h"
#include "lib/roce/requester.h"
#include "lib/roce/udp.h"
#include "lib/roce/wire.h"
#include "lib/channel/channel.h"
#include "lib/channel/ingress.h"
#include "lib/proto/roce.h"

#define SOFT_BUCKETS      1024
#define SOFT_BUFFER_BYTES (8 << 20) /* default size of the socket's buffer in each direction */
/* The most packets under way of a posted channel, enough for two of the longest messages. */
#define SOFT_MAX_RING 2048
/* Number of packets after which an ACK is sent to a soft endpoint that stores whole messages and
 * whose results acknowledge contributions. Other peers get an ACK after INC_ACK_EVERY packets. */
#define SOFT_ACK_MOST (SOFT_MAX_RING / 4)
/* Memory that one packet with a payload of INC_MAX_PAYLOAD at most needs in the socket's receive
 * buffer, which is a page and the kernel's struct. A larger packet needs less than twice as much.
 */
#define SOFT_RECV_TRUESIZE 4864
/* Time from a send that found the socket full to the next attempt. */
#define SOFT_BLOCKED_NS (200 * INC_NSEC_PER_USEC)
/* A channel that is shut reports this to its peer by closing NAKs. A NAK is not acknowledged, so
 * SOFT_CLOSING_NAKS of them are sent. The first wait between two is SOFT_CLOSING_NS, and each
 * further one is twice as long. A peer that goes on sending packets gets one more NAK for them, at
 * most every SOFT_CLOSING_PACE_NS. */
#define SOFT_CLOSING_NAKS 8
/* Number of closing NAKs to a peer that is a switch, because the switch may have nothing to send
 * for as long as an outage lasts. The waits between them grow to rto_max at most. */
#define SOFT_SWITCH_CLOSING_NAKS 120
#define SOFT_CLOSING_NS          (20 * INC_NSEC_PER_MSEC)
#define SOFT_CLOSING_PACE_NS     (10 * INC_NSEC_PER_MSEC)
/* Number of ended channels that a device remembers, so that their peers get closing NAKs. The
 * device forgets the oldest first. */
#define SOFT_MAX_ENDED 1024
/* When a collective ends, the ACK of its results may wait for the next collective, if that will
 * probably end within ack_hold_ns. The next collective is assumed to take up to SOFT_ACK_PATIENCE
 * times as long as the quicker of the last two. */
#define SOFT_ACK_PATIENCE 4
/* Limit of the time for which the ACK of results waits if the peer's retransmission timeout is
 * known. That timeout is longer, so the thread that sends the ACK may be woken late. */
#define SOFT_ACK_HOLD_MAX_NS (3 * INC_NSEC_PER_MSEC)
/* A missing result counts as lost, and not only late, after SOFT_GAP_NS, or when more than
 * SOFT_GAP_PACKETS later packets are here. */
#define SOFT_GAP_NS      (2 * INC_NSEC_PER_MSEC)
#define SOFT_GAP_PACKETS 128

/* The content of messages that are sent to several peers from one buffer, so that the CRCs of its
 * payloads are computed only once. The owner does not change the buffer while one of these messages
 * is unacknowledged. */
struct soft_content {
	const uint8_t *buffer;
	uint32_t length, payload;
	uint32_t users;
	uint32_t crc[]; /* CRC of each full payload, from state 0 */
};

struct soft_send {
	struct soft_content *content; /* bytes of the message; NULL: it has length 0 */
	uint32_t length;
	uint32_t imm;
	bool has_imm;
	/* number of the first packet after this message, where packets are counted over all
	 * messages of the channel; valid once all packets of the message are described */
	uint64_t end;
};

enum soft_life {
	SOFT_MADE,
	SOFT_CONNECTED,
	/* the channel has failed; its handler has received the report, unless `report` is set */
	SOFT_BROKEN,
	SOFT_ENDED, /* the owner has shut the channel; its peer gets closing NAKs */
};

/* A packet of a result that a mirrored channel expects. */
struct soft_result {
	uint8_t *recv;
	/* the arrival of this packet shows that the peer has all packets of contributions before
	 * number `kept` */
	uint64_t kept;
	uint32_t imm; /* the immediate that the packet must have, if the opcode has one */
	uint16_t recv_len;
	uint8_t opcode;
	uint8_t flags; /* SOFT_F_* of the packet */
	/* round of probes in which a NAK has last named the packet; 0: no NAK has */
	uint32_t round;
};

#define SOFT_F_GOT   0x1 /* the packet is here */
#define SOFT_F_LAST  0x2 /* the packet is the last one of its message */
#define SOFT_F_FLUSH 0x4 /* the packet is the last one of its collective */
#define SOFT_F_APART 0x8 /* the message's memory is not that of its contribution */

/* Payloads of at least so many bytes are copied while their CRC is computed. Shorter ones are
 * copied afterwards, because their ICRC is computed in one call with the headers. */
#define SOFT_COPY_LEAST 256

/*
 * The fields of a mirrored channel, beside those of soft_channel. Packets of contributions and
 * packets of results are counted in 64 bits each. In order:
 *
 *	tx_done <= tx.acked <= tx.high,  tx.next <= tx.high <= tx.posted <= tx_done + slots
 *	rx_next <= rx_high <= rx_posted <= rx_next + slots
 *
 * tx_done is `kept` of the last result before rx_next. If packets correspond to each other, `kept`
 * of result r is r + 1, and both directions count alike. If only messages do, it is the end of the
 * result's message among the contributions. So no packet is sent from memory that a result has
 * overwritten, even if a buffer is both.
 */
struct soft_mirror {
	struct soft_result *results; /* descriptions of expected results, tx.slots of them */
	bool by_message;             /* `by_message` of struct inc_channel_peer */
	/* The peer has reported in the answer to a probe that results before this one are complete.
	 * Those of them that are not here are lost. */
	uint64_t complete;
	/* The peer has probably retransmitted the last result, or the result closes a gap. So more
	 * results may be missing, and a probe must ask which. */
	bool unsure;
	/* the owner will not call again soon, so the last ACK must not wait for it */
	bool unattended;
	/* While results are due, flush() waits until it may send so many new packets.
	 * Retransmissions and packets before tx_flush do not wait. */
	unsigned int hold_packets;
	uint64_t tx_flush; /* packets of contributions before this one are sent at once */
	/* the results of all packets of contributions before this one are here */
	uint64_t tx_done;
	uint64_t rx_posted; /* packets of results before this one are described */
	/* number of the packet after the highest packet of a result that is here */
	uint64_t rx_high;
	uint32_t acked_msn; /* value of rx_msn when the last ACK was sent */
	/* longest time for which the ACK of results waits, which is less than the peer's
	 * retransmission timeout */
	uint64_t ack_hold_ns;
	/* number of completed messages after which an ACK is due */
	uint32_t ack_every_messages;
	bool ended;           /* this turn has received the last result of a collective */
	uint64_t ended_at_ns; /* time when a collective last ended */
	/* time between the ends of the last two collectives */
	uint64_t took_ns;
	/* number of the first missing packet of a result, and the time since when it is missing;
	 * UINT64_MAX: none is */
	uint64_t gap_r, gap_at_ns;
	bool gap_nak_sent; /* a NAK has requested the missing packet */
	uint64_t reordered;
};

/* A port that a device's channels use. The channels share the kernel's answers about the port. So
 * packets of unknown senders cause few questions to the kernel, however many channels the port has.
 * The socket's buffers grow with the number of ports. */
struct soft_port {
	struct inc_channel_ingress ingress;
	unsigned int users; /* number of channels at the port, ended ones as well */
	LIST_ENTRY(soft_port) entry;
};

struct soft_channel {
	struct inc_channel ch; /* the public part, which must be the first member */
	enum soft_life life;   /* changed by soft_go() only */
	char what[64];
	void *ctx;
	struct inc_addr own_ip;
	uint32_t own_qpn, payload, max_message_bytes, messages;
	LIST_ENTRY(soft_channel) in_bucket;
	/* link in the device's list of channels, of ended ones, or of those to be freed */
	TAILQ_ENTRY(soft_channel) in_all;
	bool active;
	SLIST_ENTRY(soft_channel) next_active;
	bool report; /* `loss` was not reported to the handler yet */
	struct inc_channel_loss loss;
	struct soft_mirror *mirror; /* state of a mirrored channel; NULL: the channel is posted */

	/* Requester. Messages are counted in 64 bits: sent <= described <= queued <= sent +
	 * messages */
	struct inc_requester tx;
	struct soft_send *sends; /* ring of queued messages, `messages` of them */
	uint64_t queued;         /* number of messages that send() or exchange() has queued */
	uint64_t described;      /* number of messages that are wholly described as packets */
	/* number of messages that are acknowledged and reported to the handler */
	uint64_t sent;
	/* how many bytes of message number `described` are described as packets already */
	uint32_t described_bytes;

	/* responder */
	struct inc_udp_path from_peer;
	/* port at which the peer's packets must arrive; NULL: any interface */
	struct soft_port *port;
	struct inc_ip_ids ids;
	uint8_t rx_tos;                             /* TOS byte of the peer's last packet */
	void (*class_seen)(void *ctx, uint8_t tos); /* that of the options */
	bool to_switch;                             /* the peer is a switch */
	bool port_logged; /* the log has reported that packets of the peer arrive at another port */
	enum inc_channel_se peer_se;
	uint32_t peer_psn; /* PSN of the peer's packet 0 */
	/* stack of posted buffers, n_posted of at most `messages`. It is a stack, so that used
	 * memory stays in caches */
	void **buffers;
	uint32_t n_posted;
	uint8_t *filling;  /* buffer of the message that is arriving; NULL: none is arriving */
	uint64_t rx_next;  /* number of the expected packet; all packets before it are here */
	uint64_t rx_acked; /* all packets before this one are acknowledged to the peer */
	/* number of packets after which an ACK is due at the latest */
	uint32_t ack_every;
	/* time when an ACK that is held back must be sent; UINT64_MAX: none is held back */
	uint64_t ack_at_ns;
	uint32_t rx_msn; /* number of messages that have arrived completely */
	uint32_t filled; /* bytes of the arriving message that are here */
	bool asked;      /* a packet of the arriving message has requested an ACK */
	bool owes;       /* the peer has requested an ACK, which is not sent yet */
	/* an ACK that the peer has requested leaves behind the packets that this channel sends
	 * next */
	bool ack_behind;
	bool ack_now; /* an ACK is due, and is sent at the end of this turn */
	/* a NAK or RNR NAK has requested rx_next, so later packets cause no further NAK */
	bool nak_sent;
	uint64_t cnp_at_ns; /* time before which no CNP is sent */
	uint64_t rx_packets, duplicates, acks_sent, naks_sent, rnrs_sent, cnps_sent;

	/* members of an ended channel */
	uint8_t syndrome;
	unsigned int closing_naks; /* number of closing NAKs that are still to be sent */
	uint64_t closing_at_ns, closing_wait_ns, closing_sent_at_ns;
};

/* The receive memory of all devices of a thread. They use it in turn, so it stays in the CPU's
 * caches, however many devices there are. */
struct soft_inbox {
	struct inc_udp_inbox in;
	unsigned int users;
};

struct soft_device {
	struct inc_channel_device dev; /* the public part, which must be the first member */
	const struct inc_channel_handler *handler;
	void (*log)(void *ctx, enum inc_log_level level, const char *fmt, ...)
		__attribute__((format(printf, 3, 4)));
	void *log_ctx;
	uint64_t rto_min_ns, rto_max_ns;
	struct inc_udp udp;
	struct soft_inbox *inbox;
	struct inc_batch batch;
	/* inc_addr_any(): the socket receives at all addresses of this family */
	struct inc_addr own_ip;
	bool shows_arrival; /* the kernel reports where datagrams arrive */
	LIST_HEAD(, soft_port) ports;
	int n_ports; /* number of ports in the list */
	/* size of the socket's buffers for one port, and for the most ports so far */
	int buffer_bytes, granted_bytes;
	unsigned int n_mirrored; /* number of mirrored channels */
	uint32_t next_rkey;
	/* channels by own_qpn, ended ones as well */
	LIST_HEAD(, soft_channel) bucket[SOFT_BUCKETS];
	TAILQ_HEAD(, soft_channel) channels, ended, gone;
	unsigned int n_ended;
	SLIST_HEAD(, soft_channel) active;
	/* handlers are being called, so channels that are closed are freed later */
	bool in_progress;
	uint64_t due_at_ns; /* no timer of a channel expires before this time */
	/* the latest content that was made, as long as a message uses it */
	struct soft_content *latest;
	struct inc_crc32_jump *jump[INC_N_RC_PAYLOADS]; /* tables by payload size */
	uint64_t strangers, wrong_port, damaged;
};

#define SOFT_DEV(d) ((struct soft_device *)(d))
#define SOFT_CH(c)  ((struct soft_channel *)(c))

static inline struct soft_device *soft_device_of(const struct soft_channel *ch)
{
	return SOFT_DEV(ch->ch.dev);
}

/* Puts the channel into the list of active channels, which flush() goes through. */
static inline void soft_activate(struct soft_channel *ch)
{
	if (ch->active)
		return;
	ch->active = true;
	SLIST_INSERT_HEAD(&soft_device_of(ch)->active, ch, next_active);
}

/* Stores that a timer of the device may expire at at_ns, so that its deadline is not later. */
static inline void soft_due(struct soft_device *dev, uint64_t at_ns)
{
	if (at_ns < dev->due_at_ns)
		dev->due_at_ns = at_ns;
}

/* PSN of the last packet that has arrived from the peer in order. */
static inline uint32_t inc_soft_kept(const struct soft_channel *ch)
{
	return ch->peer_psn + (uint32_t)(ch->rx_next ? ch->rx_next - 1 : 0);
}

/* The earliest time at which a timer of the channel may expire. */
static inline uint64_t soft_deadline_of(const struct soft_channel *ch)
{
	const struct soft_mirror *m = ch->mirror;
	uint64_t at_ns = inc_requester_deadline_ns(&ch->tx);

	if (ch->ack_at_ns < at_ns)
		at_ns = ch->ack_at_ns;
	if (m && m->gap_r != UINT64_MAX && !m->gap_nak_sent && m->gap_at_ns + SOFT_GAP_NS < at_ns)
		at_ns = m->gap_at_ns + SOFT_GAP_NS;
	return at_ns;
}

/* soft.c */
/* Breaks the channel. The handler receives the report at the end of progress(), this call or the
 * next. error: a positive errno. */
void inc_soft_lose(struct soft_channel *ch, enum inc_channel_reason reason, int error,
		   const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* Frees a channel at once, or at the end of progress() if that is running. */
void inc_soft_forget(struct soft_channel *ch);
void inc_soft_free_gone(struct soft_device *dev);
/* Finds the channel with that queue pair number at an own address, even if it has ended. NULL:
 * there is none. */
struct soft_channel *inc_soft_find(struct soft_device *dev, uint32_t qpn, struct inc_addr own_ip);

/* soft_tx.c */
/* Returns the opcode of a packet of a message by its place: the first, the last, both or
 * neither. */
uint8_t inc_soft_opcode(bool write, bool has_imm, bool first, bool last);
int inc_soft_send(struct inc_channel *ch, const void *buffer, uint32_t length, bool has_imm,
		  uint32_t imm);
void inc_soft_shown(struct inc_channel *ch, uint64_t n);
/* Called when the peer has acknowledged more packets. Reports the messages that the peer has
 * now. */
void inc_soft_sent(struct soft_channel *ch);
/* Gives up all messages that are not acknowledged. */
void inc_soft_drop_sends(struct soft_channel *ch);
/* Sends what active channels have queued, and the ACKs that they owe. */
void inc_soft_flush(struct inc_channel_device *dev);
/* Runs the timers that are due, of all channels. */
void inc_soft_timers(struct soft_device *dev, uint64_t now_ns);
/* Sends a closing NAK, which reports the end of the channel to its peer. */
void inc_soft_closing_nak(struct soft_channel *ch, uint32_t psn, uint64_t now_ns);
/* Sends an ACK packet with PSN psn at once. Of the PSN the lowest 24 bits count. */
void inc_soft_send_aeth(struct soft_channel *ch, uint8_t syndrome, uint32_t psn);

/* Reacts to a packet of the peer that has met congestion on its way. */
void inc_soft_congested(struct soft_channel *ch, uint64_t now_ns);
/* Sends a NAK 60 that names a gap of results (INC_GAP). */
void inc_soft_send_nak(struct soft_channel *ch, uint32_t gap);

/* soft_port.c */
/* Sets the address and the port of a new channel. */
int inc_soft_place(struct soft_channel *ch, const struct inc_channel_opts *opts,
		   struct inc_err *err);
/* Sets what the packets to the peer and those of the peer have in their headers. */
void inc_soft_set_paths(struct soft_channel *ch, const struct inc_rc_end *peer);
/* Ends the channel's use of its port, if it has one. */
void inc_soft_leave_port(struct soft_channel *ch);

/* soft_rx.c */
/* Receives the packets that one system call returns. Returns whether there may be more. */
bool inc_soft_receive(struct soft_device *dev);
bool inc_soft_progress(struct inc_channel_device *dev);

/* soft_mirror.c */
/* Allocates what a mirrored channel needs, before connect(). Returns 0 or -ENOMEM. */
int inc_soft_mirror_new(struct soft_channel *ch);
/* Called when the peer is known. Stores the peer's window, and whether it counts by messages.
 * Returns 0 or -ENOMEM. */
int inc_soft_mirror_connect(struct soft_channel *ch, const struct inc_channel_peer *peer);
void inc_soft_mirror_free(struct soft_channel *ch);
int inc_soft_exchange(struct inc_channel *ch, const struct inc_channel_exchange *x);
/* Returns where the packet's payload may be stored before its ICRC is checked. NULL: nowhere. */
uint8_t *inc_soft_mirror_place(const struct soft_channel *ch, const struct inc_roce_packet *pkt);
/* Processes a packet of the peer that is no ACK packet. */
void inc_soft_mirror_receive(struct soft_channel *ch, const struct inc_roce_packet *pkt,
			     uint64_t now_ns);
/* Processes the MSN in the peer's answer to a probe, which has three numbers (INC_STATUS). */
void inc_soft_mirror_status(struct soft_channel *ch, uint32_t status, uint64_t now_ns);
/* Sends the ACK or NAK that is due. */
void inc_soft_mirror_answer(struct soft_channel *ch, uint64_t now_ns);
/* Whether flush() should wait until the channel may send more packets, because they are few now.
 * limit: end of the packets that it may send. */
bool inc_soft_mirror_holds(const struct soft_channel *ch, uint64_t limit);
uint64_t inc_soft_mirror_under_way(const struct inc_channel *ch);
uint64_t inc_soft_mirror_ack_at_ns(const struct inc_channel *ch);
void inc_soft_mirror_attend(struct inc_channel *ch, bool attended);
uint64_t inc_soft_mirror_moved(const struct inc_channel *ch);
void inc_soft_mirror_describe(const struct inc_channel *ch, char *buf, size_t size);

#endif
