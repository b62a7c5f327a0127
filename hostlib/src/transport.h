/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a transport gives: one RC endpoint per communicator. The communicator (progress.c) cuts
 * collectives into messages and keeps the window; a transport carries a message there and
 * its result back. Every function runs under the communicator's lock and none blocks,
 * except open, connect and close, which may take a few milliseconds.
 *
 * The model is that of a queue pair in lock step with its mirror: message m is sent, and
 * its result, message m of the other direction, has the same shape or, where they keep in step
 * by messages, begins and ends with it (docs/protocol.md).
 *
 *	soft	post() makes packet descriptors, flush() sends them, progress() reads the
 *		socket, places results by packet number, keeps timers.
 *	verbs	post() posts the receive (msg->recv, or one without memory for WRITE with
 *		immediate), then the SEND or RDMA WRITE of msg->send (remote address and key:
 *		those of msg->recv, for the switch mirrors them); flush() rings the doorbell of a
 *		chain; progress() polls the completion queue; a receive completion is
 *		the end of a message, a send completion frees the send slot.
 */
#ifndef INCCL_TRANSPORT_H
#define INCCL_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "hostlib/include/inccl.h"
#include "lib/base/err.h"

/* Packets under way where nobody asks for a window: what a veth's ring holds. Where switches
 * terminate connections results come as whole messages, and the second one has room for 16. */
#define INCCL_DEFAULT_WINDOW  256
#define INCCL_MESSAGES_WINDOW 512

struct inccl_endpoint;

/* What the caller of open knows. */
struct inccl_open_opts {
	uint32_t addr;                /* own address on the fabric, network order */
	unsigned int payload;         /* wanted, 0: as large as the path carries */
	unsigned int message_packets; /* never 0 */
	unsigned int window_messages; /* 0: the transport's choice */
	uint32_t start_psn;           /* of the first packet sent */
	const char *options;          /* "key=value,..." of the transport's own, may be NULL */
	void (*log)(void *ctx, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
	void *log_ctx;
};

/* What the controller has to know of the endpoint (message C). */
struct inccl_own {
	uint32_t qpn;
	uint32_t psn;      /* of the first packet it sends */
	uint16_t udp_port; /* where it receives; INC_ROCE_UDP_PORT for a NIC */
	uint16_t pkey;
	bool udp_csum;                /* wants UDP checksums on results */
	unsigned int payload;         /* largest it can do */
	unsigned int window_messages; /* under way at most */
	/* default window in packets where switches terminate connections; used if it exceeds
	 * that of window_messages */
	unsigned int most_packets;
	char device[64]; /* for people */
};

/* What the controller says of the other end (its answer). */
struct inccl_peer {
	uint32_t addr; /* network order */
	uint16_t udp_port;
	uint32_t qpn;
	uint32_t psn;         /* of the first result */
	unsigned int payload; /* agreed: bytes per packet */
	unsigned int slots;   /* agreed: packets under way at most, a power of two */
	/* A message and its result may differ in their packets: a result tells that all of its
	 * message was kept, and may come as soon as that was. Else packet r of one is in step with
	 * packet r of the other. */
	bool by_message;
	unsigned int messages; /* agreed: under way at most */
	char name[80];         /* "s0 (10.77.0.254)" */
};

/* Memory made known to the device. Regions are made at the start of a request and given
 * back at its end; a transport may keep a cache behind it. */
struct inccl_region {
	void *addr;
	size_t len;
	uint32_t lkey;
	uint32_t rkey; /* names the region in a RETH */
	uint64_t va;   /* address in a RETH that means addr */
	void *priv;    /* the transport's */
};

/* One message and its result. */
struct inccl_message {
	const void *send; /* send_len bytes in send_region; stays until the result is there */
	void *recv;       /* recv_len bytes in recv_region */
	/* 0: nothing is given, or got. Where packets are in step only a message of one packet may
	 * have a length of 0. */
	uint32_t send_len, recv_len;
	const struct inccl_region *send_region; /* NULL where the length is 0 */
	const struct inccl_region *recv_region;
	uint32_t imm; /* host order, where has_imm */
	uint8_t mode; /* INCCL_MODE_SENDRECV or INCCL_MODE_WRITE */
	bool has_imm; /* the (last packet of the) message carries immediate data */
	bool last;    /* of its collective: ask for acknowledgement, flush without delay */
};

struct inccl_transport_stats {
#define _(name, unit, what) uint64_t name;
	INCCL_STATISTICS(_)
#undef _
};

/* The part of an endpoint that the communicator reads; a transport's own struct begins
 * with it. */
struct inccl_endpoint {
	const struct inccl_transport *ops;
	uint64_t posted;    /* messages taken by post() */
	uint64_t completed; /* messages whose results are there, in order: all before this number */
	/* When progress() must be called even if no caller waits for anything: an ACK of results is
	 * held back until then, and no longer. UINT64_MAX: none is. */
	uint64_t tell_at_ns;
	bool unattended; /* set by the communicator: no call is inside, nor expected to follow on
			  * the last one at once. What could be told later is told now. */
	struct inccl_transport_stats stats;
	char error[256]; /* why progress() failed */
	bool mismatch;   /* it failed because ranks called different collectives (NAK 63): the
			  * controller's notice will say which */
};

struct inccl_transport {
	const char *name; /* as in message C */
	enum inccl_transport_kind kind;

	/* 0 where open() has a chance here, else -errno; why: one line for the log either way. */
	int (*probe)(const struct inccl_open_opts *opts, struct inc_err *why);

	/* Makes the endpoint: it has its numbers, and neither sends nor receives yet. */
	int (*open)(const struct inccl_open_opts *opts, struct inccl_endpoint **ep,
		    struct inccl_own *own, struct inc_err *err);
	/* Tells it who its peer is. From here on it can receive, and may send once the
	 * communicator has started. */
	int (*connect)(struct inccl_endpoint *ep, const struct inccl_peer *peer,
		       struct inc_err *err);
	void (*close)(struct inccl_endpoint *ep);
	/* close() in a forked child: frees memory and closes descriptors, and leaves alone what the
	 * parent's endpoint goes on using. */
	void (*abandon)(struct inccl_endpoint *ep);

	int (*map)(struct inccl_endpoint *ep, void *addr, size_t len, bool writable,
		   struct inccl_region *region);
	void (*unmap)(struct inccl_endpoint *ep, struct inccl_region *region);

	/* Packets of messages that were posted and whose results are not there. */
	uint64_t (*under_way)(const struct inccl_endpoint *ep);

	/* Takes the message, which is copied; the caller keeps what is under way within the
	 * window. 0, -EAGAIN (queue full: try after progress), or an error that is final. */
	int (*post)(struct inccl_endpoint *ep, const struct inccl_message *msg);
	/* Sends what was posted and is worth sending now. */
	int (*flush)(struct inccl_endpoint *ep);

	/* Does what can be done without blocking: takes results in, answers, resends, moves
	 * completed on. Positive: more may be there at once, call again; 0: nothing is left
	 * for now; -errno: the endpoint has failed for good (it keeps saying so), and
	 * ep->error says why. */
	int (*progress)(struct inccl_endpoint *ep);

	/* Before a sleep: *fd and *events are what to poll for, *deadline_ns the time
	 * (CLOCK_MONOTONIC) at which progress() wants to be called anyway, UINT64_MAX: none.
	 * Returns 1 where something came meanwhile, so that sleeping would be wrong (verbs: after
	 * asking for a notification), 0, or -errno. */
	int (*arm)(struct inccl_endpoint *ep, int *fd, short *events, uint64_t *deadline_ns);

	/* True once the peer is known to have kept everything that was posted: the other ranks can
	 * finish without this one. */
	bool (*kept)(const struct inccl_endpoint *ep);
	/* True once also all results are there, and the peer has been told of them. */
	bool (*quiet)(struct inccl_endpoint *ep);

	/* Grows with each thing that has come and is new: a result, or an acknowledgement that says
	 * more than those before it. */
	uint64_t (*moved)(const struct inccl_endpoint *ep);

	/* Writes what it waits for into buf: "contribution 17 is not acknowledged (40 sent, 3
	 * timeouts)". */
	void (*describe)(struct inccl_endpoint *ep, char *buf, size_t size);
};

extern const struct inccl_transport inccl_soft;
extern const struct inccl_transport inccl_verbs;

/* All that were built, the best first, NULL at the end. */
extern const struct inccl_transport *const inccl_transports[];

#endif
