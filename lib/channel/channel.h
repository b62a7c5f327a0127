/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One RC channel: a reliable connection that moves whole messages, as a queue pair does. There are
 * two kinds, a table of functions each. `soft` is the project's own RC endpoint on a UDP socket,
 * which every machine supports. `verbs` is a queue pair of an RDMA device. A further transport is
 * one more table.
 *
 * A device is where packets arrive and leave: for soft channels a UDP socket at an own address, for
 * verbs a port of an RDMA device. A channel is one end of a connection there. It is connected when
 * its peer is known. Messages are numbered from 0 in each direction.
 *
 * A channel works in one of two ways, which its owner chooses when it makes the channel:
 *
 *	posted		The owner posts buffers of one size, and each message that arrives fills
 *			one of them. Messages are sent independently of that. Switches in
 *			termination mode use it (userspace/term).
 *	mirrored	Each message sent, a contribution, is answered by one message, its result,
 *			which has the same shape. So the owner says with each message where its
 *			result goes (exchange()), and a soft channel stores results that arrive out
 *			of order. Hosts use it (hostlib/src/endpoint.c; docs/protocol.md).
 *
 * Threads: a device and its channels belong to one thread, or to one lock. Reports come from within
 * progress() and arm(). A handler may call any function but these two, close() and abandon(). No
 * function waits, except probe(), open() and close(), and connect() of a device that may block.
 */
#ifndef INC_CHANNEL_H
#define INC_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <netinet/in.h>
#include "lib/base/err.h"
#include "lib/proto/rc_end.h"
#include "lib/base/log.h"

struct inc_channel_ops;

/* RNR timer code of the RNR NAKs of posted channels: 164 ms. A peer that keeps to its window
 * receives one only if an ACK for a device of the switch was lost. That device requests the ACK
 * again after 0.54 s, and a host's device tries seven times. */
#define INC_CHANNEL_RNR_TIMER 28

/* The longest message of a posted channel on an RDMA device. */
#define INC_CHANNEL_VERBS_MAX_MESSAGE (1 << 20)

/* A kind's own device and channel begin with these. */
struct inc_channel_device {
	const struct inc_channel_ops *ops;
};

struct inc_channel {
	struct inc_channel_device *dev;
};

/* ---- reports ---- */

/* Why a channel is broken. */
enum inc_channel_reason {
	INC_CHANNEL_INVALID, /* the peer has sent an invalid request */
	INC_CHANNEL_REFUSED, /* the peer has refused a message as invalid */
	INC_CHANNEL_SILENT,  /* the peer does not acknowledge */
	INC_CHANNEL_ENDED,   /* the peer reports that the communicator has ended (NAK 63) */
	INC_CHANNEL_CUT,     /* the own end cannot go on: device, port, memory */
};

struct inc_channel_loss {
	enum inc_channel_reason reason;
	int error; /* a positive errno */
	char text[256];
};

/* A message that has arrived in a posted buffer. Of mirrored channels all is 0, because they
 * compare a result with what exchange() has described, and a result that differs breaks the
 * channel. */
struct inc_channel_message {
	bool has_imm; /* it has immediate data, in host order */
	uint32_t imm;
	uint32_t length; /* bytes */
	void *buffer;    /* one of the posted buffers */
};

/* ctx: as in the channel's options. */
struct inc_channel_handler {
	/* A message has arrived; messages come in the order of their numbers. The buffer is the
	 * handler's from now on, whatever the length. */
	void (*message)(void *ctx, const struct inc_channel_message *m);
	/* The peer has acknowledged the oldest message sent, so its memory is not read any more. */
	void (*sent)(void *ctx);
	/* The channel is broken for good, and neither sends nor receives any more. Buffers that
	 * were posted or sent are the owner's again when the channel is shut. loss->text is one
	 * line. */
	void (*lost)(void *ctx, const struct inc_channel_loss *loss);
};

/* ---- devices ---- */

/* Settings of RDMA devices. Names and units of attributes are those of ibv_modify_qp(3). */
struct inc_channel_verbs_settings {
	char device[64];   /* "": the device that has the address */
	int port;          /* 0: any */
	int gid_index;     /* -1: found by address */
	int timeout;       /* ACK timeout is 4.096 us * 2^timeout */
	int retry_cnt;     /* 7 is for ever on some devices (rxe) */
	int rnr_retry;     /* 7 is for ever on every device */
	int min_rnr_timer; /* code of the delay that our RNR NAKs request */
	int sl;            /* 802.1p priority on a VLAN */
	int traffic_class; /* TOS byte: DSCP * 4 + ECN */
	int hop_limit;     /* TTL */
	int flow_label;    /* 0: the device's choice; UDP source port of some devices */
	int pkey_index;    /* -1: the index of the channel's P_Key */
	int port_down_ms;  /* a port that stays down so long breaks its channels */
	int cache_mib;     /* registrations that are stored for reuse; 0: none */
};

struct inc_channel_device_opts {
	const char *ifname; /* the port: soft channels accept packets that arrive there only. NULL:
			     * packets may arrive at any interface, which suits a host. */
	struct in_addr own_ip;
	uint16_t udp_port;               /* soft: where to receive; 0: any free one */
	uint64_t rto_min_ns, rto_max_ns; /* soft: bounds of the retransmission timeout */
	int buffer_bytes; /* soft: of the socket, each way, where the kernel allows it; 0: 8 MiB */
	const struct inc_channel_handler *handler;
	/* Another device of this kind that the same thread serves, for memory that devices use in
	 * turn; NULL: none */
	const struct inc_channel_device *beside;
	/* verbs: connect() waits until the peer's Ethernet address is known. Otherwise a thread
	 * waits, and the channel is connected later. Also, only a device that does not block
	 * notices that its hardware was removed. */
	bool may_block;
	const struct inc_channel_verbs_settings *verbs; /* NULL: those of a switch */
	/* Logs one line without a newline; NULL: it goes to the program's log. */
	void (*log)(void *ctx, enum inc_log_level level, const char *fmt, ...)
		__attribute__((format(printf, 3, 4)));
	void *log_ctx;
};

/* The capabilities of a device. */
struct inc_channel_offer {
	char device[64];        /* "mlx5_0 port 1, GID 3"; of a soft device the address */
	uint32_t payload_bytes; /* that a packet can carry at most; 0: the device does not limit
				 * it, so the path decides */
	uint32_t max_message_bytes;
	uint32_t max_messages; /* under way at most in a mirrored channel */
	uint32_t
		receive_packets; /* that the device stores until progress(); UINT32_MAX: no limit */
	bool udp_csum;           /* packets should have UDP checksums */
};

/* A device's rights to memory. */
enum inc_channel_access {
	INC_CHANNEL_READ,    /* send from it */
	INC_CHANNEL_RECEIVE, /* also store messages in it */
	INC_CHANNEL_WRITE,   /* also let the peer write to it by RDMA WRITE */
};

/* Memory that a device knows. */
struct inc_channel_region {
	void *addr;
	size_t len;
	uint32_t lkey;
	uint32_t rkey; /* names the region in a RETH */
	uint64_t va;   /* address in a RETH that means addr */
	void *priv;    /* the device's */
};

/* Packets that belong to no channel. */
struct inc_channel_device_figures {
	uint64_t strangers;  /* for no channel, or of another sender than the channel's peer */
	uint64_t wrong_port; /* of a channel's peer, but from another interface than the port */
	uint64_t damaged;    /* malformed, contradictory, or with a wrong checksum */
	uint64_t send_calls, recv_calls; /* to the kernel or the device */
};

/* ---- channels ---- */

/* Requirement for the solicited event bit of the last packet of messages that arrive. */
enum inc_channel_se {
	INC_CHANNEL_SE_ANY,
	INC_CHANNEL_SE_LACKS, /* a message with the bit is an invalid request */
	INC_CHANNEL_SE_HAS,   /* a message without the bit is one */
};

struct inc_channel_opts {
	uint32_t qpn; /* own queue pair number; 0: any. Devices choose it themselves. */
	uint32_t psn; /* of the first packet sent */
	uint16_t pkey;
	uint32_t payload;           /* bytes of a packet at most */
	uint32_t max_message_bytes; /* the size of a posted buffer */
	/* posted: receives posted at most, and messages sent and not acknowledged at most.
	 * mirrored: messages whose results are not there at most. */
	uint32_t messages;
	bool mirrored; /* results mirror contributions: exchange() instead of post() and send() */
	bool se;       /* messages sent are solicited events, by their last packets at least */
	enum inc_channel_se peer_se; /* soft only, because a device does not report the bit */
	/* posted: the region of all buffers that are posted or sent */
	const struct inc_channel_region *memory;
	const char *what; /* for messages: "communicator 12, rank 3"; copied */
	void *ctx;        /* for the handler */
};

/* Numbers of the own end, which the peer must know. */
struct inc_channel_own {
	struct inc_rc_end end; /* without its address and kind */
	uint16_t pkey;
};

struct inc_channel_peer {
	const char *name; /* for messages; NULL: that of the channel's options */
	struct inc_rc_end end;
	/* soft: the peer is an RDMA device, whose IP IDs a UDP socket cannot know. So any IP ID is
	 * accepted, at the price of 16 of the ICRC's 32 bits. */
	bool any_ip_id;
	/* soft: the peer uses a result as the acknowledgement of its contribution, as soft hosts
	 * do, so no ACK need accompany the result. */
	bool results_acknowledge;
	/* soft: the peer is a switch. Each end may wait for the other with nothing to send. So a
	 * NAK 63 of the peer is accepted whatever packet it names, and the peer is told of the end
	 * of the channel for minutes. A host is told for seconds. */
	bool is_switch;
	/* mirrored only: */
	uint32_t payload; /* agreed bytes per packet, at most those of the options */
	uint32_t packets; /* under way at most, a power of two */
	/* A message and its result may differ in their packets, so a result acknowledges the whole
	 * message. Otherwise packet r of one corresponds to packet r of the other. */
	bool by_message;
	uint32_t messages; /* under way at most, if by_message */
};

/* A contribution and the place of its result (mirrored). */
struct inc_channel_exchange {
	const void *send; /* send_len bytes in send_region; unchanged until the result is there */
	void *recv;       /* recv_len bytes in recv_region */
	/* 0: nothing is sent, or received. If packets correspond to each other, only a message of
	 * one packet may have a length of 0. */
	uint32_t send_len, recv_len;
	const struct inc_channel_region *send_region, *recv_region; /* NULL if the length is 0 */
	uint32_t imm;                                               /* host order, if has_imm */
	bool has_imm; /* the last packet of the message has immediate data */
	bool write;   /* RDMA WRITE: the message names recv, and its result is written there */
	bool last;    /* of its collective: request an ACK, and send without delay */
};

/* Packets; all 0 if a device sends them and does not count them (verbs, posted). */
struct inc_channel_figures {
	uint64_t rx_packets, duplicates, reordered, naks_sent, naks_received, rnrs_sent,
		rnrs_received;
	uint64_t tx_packets, retransmits, acks_sent, acks_received, timeouts;
	uint64_t srtt_ns; /* smoothed round trip; 0: not measured */
};

struct inc_channel_ops {
	const char *name; /* "soft" */

	/* Finds out what a device would offer, without opening it. 0, or -ENODEV if there is none.
	 * why: one line for the log in both cases. */
	int (*probe)(const struct inc_channel_device_opts *opts, struct inc_channel_offer *out,
		     struct inc_err *why);
	int (*open)(const struct inc_channel_device_opts *opts, struct inc_channel_device **out,
		    struct inc_err *err);
	void (*offer)(const struct inc_channel_device *dev, struct inc_channel_offer *out);
	/* After all channels are shut and all memory is unmapped. */
	void (*close)(struct inc_channel_device *dev);
	/* close() in a forked child, with the channels: frees memory and closes descriptors, and
	 * does not disturb the parent's device. */
	void (*abandon)(struct inc_channel_device *dev);

	/* Makes memory known to the device. */
	int (*map)(struct inc_channel_device *dev, void *addr, size_t len,
		   enum inc_channel_access access, struct inc_channel_region *region,
		   struct inc_err *err);
	/* A mirrored channel that still awaits a result in a region breaks, because the device must
	 * not write to it any more. */
	void (*unmap)(struct inc_channel_device *dev, struct inc_channel_region *region);

	/* Makes a channel, which can receive as soon as it is connected. */
	int (*make)(struct inc_channel_device *dev, const struct inc_channel_opts *opts,
		    struct inc_channel **out, struct inc_channel_own *own, struct inc_err *err);
	/* -EALREADY: it has its peer. */
	int (*connect)(struct inc_channel *ch, const struct inc_channel_peer *peer,
		       struct inc_err *err);
	/* Ends a channel and frees ch. Buffers posted and messages sent are the owner's again when
	 * this returns, and nothing is reported. If syndrome is not 0, a soft channel sends closing
	 * NAKs with it to its peer: at once, several times, and in answer to each further packet.
	 * INC_AETH_NAK_OPERATION reports that the communicator has ended. */
	void (*shut)(struct inc_channel *ch, uint8_t syndrome);

	/* Posts one more receive; allowed before connect() as well. 0 or -ENOBUFS. */
	int (*post)(struct inc_channel *ch, void *buffer);
	/* Sends; length 0: buffer NULL. 0, or -errno: then the channel is broken, which is
	 * reported. Bytes leave at flush() at the latest. */
	int (*send)(struct inc_channel *ch, const void *buffer, uint32_t length, bool has_imm,
		    uint32_t imm);
	/* Sends a contribution and expects its result; x is copied. 0, -EAGAIN: the queue is full,
	 * so call again after progress(), or -ENOTCONN: the channel is broken. */
	int (*exchange)(struct inc_channel *ch, const struct inc_channel_exchange *x);
	/* The peer's own messages prove that it has the first n messages sent to it, so this counts
	 * as an ACK of them. n counts from the channel's first message. NULL: a device reads what
	 * it sends until the ACK itself has come. */
	void (*shown)(struct inc_channel *ch, uint64_t n);
	/* Sends what is queued. A mirrored soft channel may wait for more, while results are due
	 * that will open its window. */
	void (*flush)(struct inc_channel_device *dev);

	/* Receives what is there, a bounded amount, answers it and retransmits. True: more may be
	 * there. The caller calls flush() afterwards. */
	bool (*progress)(struct inc_channel_device *dev);
	/* Before a wait. True: something has come meanwhile, which may have been reported, so call
	 * progress() instead. */
	bool (*arm)(struct inc_channel_device *dev);
	/* The descriptor to wait for, and what to wait for: *events is POLLIN, with POLLOUT while
	 * the send buffer is full. A caller of many devices may wait for POLLIN alone, because
	 * the deadline of posted channels considers a full buffer. events may be NULL. */
	int (*fd)(const struct inc_channel_device *dev, short *events);
	/* The time at which progress() must be called at the latest (CLOCK_MONOTONIC; UINT64_MAX:
	 * none). */
	uint64_t (*deadline_ns)(const struct inc_channel_device *dev);

	/* Mirrored. Packets of contributions whose results are not there. */
	uint64_t (*under_way)(const struct inc_channel *ch);
	/* Mirrored. When progress() must be called to send an ACK of results that is held back;
	 * UINT64_MAX: none is. */
	uint64_t (*ack_at_ns)(const struct inc_channel *ch);
	/* Mirrored. Whether the owner is about to call again soon. If not, ACKs are not held back
	 * when all results are there. */
	void (*attend)(struct inc_channel *ch, bool attended);
	/* Mirrored. Grows with everything new that arrives: a result, or an ACK of more than
	 * before. */
	uint64_t (*moved)(const struct inc_channel *ch);
	/* Mirrored. Writes what the channel waits for: "contribution 17 is not acknowledged (40
	 * sent, 3 timeouts)". */
	void (*describe)(const struct inc_channel *ch, char *buf, size_t size);

	void (*figures)(const struct inc_channel *ch, struct inc_channel_figures *out);
	void (*device_figures)(const struct inc_channel_device *dev,
			       struct inc_channel_device_figures *out);
};

/* The program's log (lib/base/log.h), which is the default of a device's log. */
void inc_channel_log(void *ctx, enum inc_log_level level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

extern const struct inc_channel_ops inc_channel_soft;
extern const struct inc_channel_ops inc_channel_verbs;

#endif
