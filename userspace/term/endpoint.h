/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Termination mode: what carries messages between a switch and its peers. There are two kinds, a
 * table of functions each: the project's own RC endpoint on a UDP socket (soft), which every
 * machine can, and RDMA devices (verbs).
 *
 * A device is where packets come in and go out: for soft endpoints a UDP socket at an address of
 * the switch, for verbs a device's port. A channel is one end of a reliable connection there, as a
 * queue pair is; one whose peer is known is connected, and carries whole messages, numbered from 0
 * in both directions.
 *
 * Memory comes from a pool, which belongs to one communicator and whose buffers are all of one
 * size; a device that must know of memory is told of the pool before a channel uses it. Who posts a
 * buffer does not touch it until it comes back, with a message or when the channel is closed.
 *
 * Threads: a device, its channels and their pools belong to one thread, a worker of the engine
 * (engine's worker.h), which calls all of this; what is reported is reported from within
 * progress(), and a handler may call anything but progress() and the close functions.
 */
#ifndef INC_TERM_ENDPOINT_H
#define INC_TERM_ENDPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <netinet/in.h>
#include "lib/base/err.h"
#include "userspace/term/node.h"

struct inc_term_endpoint_ops;

/* RNR timer code of their RNR NAKs: 164 ms. A peer that keeps to its window hears one only where an
 * ACK for a device of the switch is lost, which asks again after 0.54 s; a host's device tries
 * seven times. */
#define INC_TERM_RNR_TIMER 28

/* An endpoint kind's own device and channel begin with these. */
struct inc_term_device {
	const struct inc_term_endpoint_ops *ops;
};

struct inc_term_channel {
	struct inc_term_device *dev;
};

/* What a port offers by a kind of endpoints, for "hello" and for checks. */
struct inc_term_offer {
	char device[64];        /* "mlx5_0 port 1, GID 3"; of soft ones the address */
	uint32_t payload_bytes; /* that a packet can carry at most */
	uint32_t max_message_bytes;
};

/* The solicited event bit of what a peer sends. */
enum inc_term_se {
	INC_TERM_SE_ANY,
	INC_TERM_SE_LACKS, /* with it a message is an invalid request */
	INC_TERM_SE_HAS,   /* without it is */
};

struct inc_term_channel_opts {
	uint32_t qpn; /* own, where the caller wants a certain one; 0: any */
	uint32_t psn; /* of the first packet sent */
	uint16_t pkey;
	uint32_t payload;           /* bytes of a packet */
	uint32_t max_message_bytes; /* the size of a posted buffer */
	uint32_t messages;          /* posted at most, and sent and not acknowledged at most */
	bool se; /* messages sent are solicited events, by their last packets at least */
	/* Of the last packet of messages that come; a device does not tell, so only soft endpoints
	 * look. */
	enum inc_term_se peer_se;
	const char *what; /* for messages: "communicator 12, rank 3"; copied */
	void *ctx;        /* the handler's: whose channel this is */
};

/* What the other end has to know of this one. */
struct inc_term_numbers {
	uint32_t qpn;
	uint32_t psn;
	uint16_t udp_port; /* where it receives */
};

struct inc_term_peer_addr {
	struct in_addr ip;
	uint16_t udp_port;
	uint32_t qpn;
	uint32_t psn; /* of its first packet */
	/* It is an RDMA device, whose IP IDs a UDP socket cannot know: any is accepted, at the
	 * price of 16 of the ICRC's 32 bits (soft only). */
	bool any_ip_id;
	/* It takes a result for the acknowledgement of its contribution, as soft hosts do: no ACK
	 * need go with one (soft only). */
	bool results_acknowledge;
	/* It may wait for this end without anything to send, and the other way round: what it says
	 * of its end is believed whatever packet it names, and it is told of the end of the channel
	 * for minutes, where others are for seconds (soft only). */
	bool is_switch;
};

/* What comes of channels. ctx: as in their options. */
struct inc_term_handler {
	/* A message, in the order of their numbers. m->buffer is one that was posted, any of them,
	 * and the handler's now, whatever the length. */
	void (*message)(void *ctx, const struct inc_term_message *m);
	/* The oldest message sent is acknowledged: its buffer is not read any more. */
	void (*sent)(void *ctx);
	/* The channel is broken for good: nothing is sent or received any more; what was posted or
	 * sent comes back when it is closed. reason: from INC_TERM_INVALID on; text: one line. */
	void (*lost)(void *ctx, enum inc_term_reason reason, const char *text);
};

/* Of packets; all 0 where a device has them and does not say (verbs). */
struct inc_term_channel_figures {
	uint64_t rx_packets, duplicates, naks_sent, naks_received, rnrs_sent, rnrs_received;
	uint64_t tx_packets, retransmits, acks_sent, acks_received, timeouts;
	uint64_t srtt_ns; /* smoothed round trip; 0: not measured */
};

/* What comes to a device and is no channel's. */
struct inc_term_device_figures {
	uint64_t strangers; /* packets for no channel, or of another sender than its peer */
	/* packets of a channel's peer that arrived at another interface than the device's port */
	uint64_t wrong_port;
	uint64_t damaged; /* packets that make no sense, or whose checksum is wrong */
};

struct inc_term_device_opts {
	const char *ifname; /* the port */
	struct in_addr own_ip;
	uint16_t udp_port; /* soft: where to receive; 0: any free one */
	uint64_t rto_min_ns, rto_max_ns;
	const struct inc_term_handler *handler;
	/* One of this kind that the same thread serves, for what devices use in turn; NULL: none */
	const struct inc_term_device *beside;
};

struct inc_term_endpoint_ops {
	/* What a port could offer; -ENODEV where it has nothing of this kind, with the reason. */
	int (*probe)(const char *ifname, struct in_addr own_ip, struct inc_term_offer *out,
		     struct inc_err *why);

	int (*open)(const struct inc_term_device_opts *opts, struct inc_term_device **out,
		    struct inc_err *err);
	/* After all its channels are closed and its memory is forgotten. */
	void (*close)(struct inc_term_device *dev);

	/* Memory that buffers of its channels will lie in. */
	int (*map)(struct inc_term_device *dev, void *memory, size_t bytes, struct inc_err *err);
	void (*unmap)(struct inc_term_device *dev, void *memory);

	/* A channel that can receive as soon as it is connected; own: what its peer is to know. */
	int (*make)(struct inc_term_device *dev, const struct inc_term_channel_opts *opts,
		    struct inc_term_channel **out, struct inc_term_numbers *own,
		    struct inc_err *err);
	/* -EALREADY: it has its peer. */
	int (*connect)(struct inc_term_channel *ch, const struct inc_term_peer_addr *peer,
		       struct inc_err *err);
	/* Ends it, and ch is gone. Buffers posted and messages sent are the caller's again when
	 * this returns; nothing is reported. syndrome: what the peer is told, as soft endpoints
	 * can: at once, several times, and at each packet that it goes on sending
	 * (INC_AETH_NAK_OPERATION: the communicator has ended); 0: nothing. */
	void (*shut)(struct inc_term_channel *ch, uint8_t syndrome);

	/* One more receive. Before connect() too. */
	int (*post)(struct inc_term_channel *ch, void *buffer);
	/* Sends; length 0: buffer NULL. 0, or -errno: then the channel is lost, which is reported.
	 * Bytes go out at flush() at the latest. */
	int (*send)(struct inc_term_channel *ch, const void *buffer, uint32_t length, bool has_imm,
		    uint32_t imm);
	/* The peer's own messages prove that it has the first n messages sent to it (n counts from
	 * the channel's first one, so it may have acknowledged them already): taken for an ACK of
	 * them. NULL: a device reads what it sends until the ACK itself has come. */
	void (*shown)(struct inc_term_channel *ch, uint64_t n);
	void (*flush)(struct inc_term_device *dev);

	/* What to poll for (readable), and when progress() is wanted at the latest
	 * (CLOCK_MONOTONIC; UINT64_MAX: never). */
	int (*fd)(const struct inc_term_device *dev);
	uint64_t (*deadline_ns)(const struct inc_term_device *dev);
	/* Takes in what is there, a bounded amount, answers, resends. True: more may be there. */
	bool (*progress)(struct inc_term_device *dev);

	void (*figures)(const struct inc_term_channel *ch, struct inc_term_channel_figures *out);
	void (*device_figures)(const struct inc_term_device *dev,
			       struct inc_term_device_figures *out);
};

extern const struct inc_term_endpoint_ops inc_term_soft;
extern const struct inc_term_endpoint_ops inc_term_verbs;

#endif
