/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The endpoint of a communicator: one mirrored RC channel (lib/channel) on a device of its own. The
 * communicator (progress.c) segments collectives into messages and observes the window. The
 * endpoint chooses payload and window for the device, and counts contributions and results.
 *
 * Every function runs under the communicator's lock, and none waits, except open, connect and
 * close, which may take a few milliseconds.
 */
#ifndef INCCL_ENDPOINT_H
#define INCCL_ENDPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "hostlib/include/inccl.h"
#include "lib/base/clock.h"
#include "lib/base/err.h"
#include "lib/channel/channel.h"
#include "lib/proto/rc_end.h"
#include "lib/proto/roce.h"

/* Default windows in packets. INCCL_DEFAULT_WINDOW packets fit into the ring of a veth. If switches
 * are in termination mode, results arrive as whole messages, and INCCL_MESSAGES_WINDOW has room for
 * 16 of these. */
#define INCCL_DEFAULT_WINDOW  256
#define INCCL_MESSAGES_WINDOW 512

/* A transport: a kind of channels that a caller of inccl.h can choose. */
struct inccl_transport {
	enum inccl_transport_kind kind;
	const struct inc_channel_ops *channel;
};

/* All transports of this build, in the order in which "auto" tries them. The last element has
 * channel NULL. */
extern const struct inccl_transport inccl_transports[];

/* Least and greatest retransmission timeout of soft channels. */
#define INCCL_RTO_MIN_NS (5 * INC_NSEC_PER_MSEC)
#define INCCL_RTO_MAX_NS INC_NSEC_PER_SEC

struct inccl_open_opts {
	struct inc_addr addr; /* own address on the fabric */
	/* largest payload that the caller allows; 0: as large as the path carries */
	unsigned int payload;
	unsigned int message_packets; /* never 0 */
	unsigned int window_messages; /* window in messages; 0: the endpoint chooses */
	uint32_t start_psn;           /* PSN of the first packet that this end sends */
	/* settings of the verbs transport, "key=value,...", of which soft endpoints have
	 * traffic_class and sl; may be NULL */
	const char *options;
	void (*log)(void *ctx, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
	void *log_ctx;
};

/* The properties of an endpoint that the controller must know, because message C has them. */
struct inccl_own {
	/* numbers of this end of the connection, without its address and kind */
	struct inc_rc_end end;
	uint16_t pkey;
	bool udp_csum; /* the endpoint wants UDP checksums on results */
	/* the endpoint can send contributions and receive results in any order */
	bool reorder;
	unsigned int payload;         /* largest payload that the endpoint supports */
	unsigned int window_messages; /* most messages under way */
	/* Default window in packets of INC_MAX_PAYLOAD at most, if all switches are in termination
	 * mode. */
	unsigned int most_packets;
	char device[64]; /* name of the device, for log lines and tools */
};

struct inccl_transport_stats {
#define _(name, unit, what) uint64_t name;
	INCCL_STATISTICS(_)
#undef _
};

struct inccl_endpoint {
	const struct inccl_transport *transport;
	const struct inc_channel_ops *ops; /* functions of dev and ch */
	struct inc_channel_device *dev;
	struct inc_channel *ch;
	struct inc_addr addr; /* own address */
	bool by_path;         /* the device has no limit of the payload, so the path has one */
	uint32_t payload;     /* payload bytes of a packet, as agreed with the switch */
	void (*log)(void *ctx, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
	void *log_ctx;
	uint64_t posted; /* messages that post() has accepted */
	/* number of messages whose results have arrived, counted from the first one without a
	 * gap */
	uint64_t completed;
	/* number of messages that the peer has, counted from the first one without a gap */
	uint64_t acknowledged;
	/* The longest contribution and the longest result of the messages under way. */
	uint32_t longest_sent, longest_result;
	/* Time of the next look at the interface's MTU, because results are missing; 0: none is.
	 * looked_completed: `completed` when that time was set. */
	uint64_t look_at_ns, looked_completed;
	unsigned int small_looks; /* last looks in a row at which the MTU was too small */
	bool noted_mtu;           /* the log has reported that results do not fit the interface */
	int failed;               /* 0, or a positive errno: the endpoint has failed for good */
	char error[256];          /* why */
	/* The endpoint has failed because ranks have called different collectives (NAK 63). The
	 * controller's notice will name them. */
	bool mismatch;
	bool on_node; /* the endpoint is shared memory (hostlib/node) */
	/* The endpoint has failed because the network endpoint of this machine's leader has. */
	bool network_failed;
	int failed_rank; /* of an endpoint on a node that has failed: the rank to blame, or -1 */
};

/* Checks whether a transport can be opened here. Returns 0 or -errno, in both cases with one line
 * for the log in why. */
int inccl_endpoint_probe(const struct inccl_transport *transport,
			 const struct inccl_open_opts *opts, struct inc_err *why);
/* Opens a transport and makes an endpoint. The endpoint has its numbers, but neither sends nor
 * receives yet. */
int inccl_endpoint_open(const struct inccl_transport *transport, const struct inccl_open_opts *opts,
			struct inccl_endpoint **ep, struct inccl_own *own, struct inc_err *err);
/* Connects the endpoint to its peer, which is the switch. The endpoint can receive from now on, and
 * may send as soon as the communicator has started. */
int inccl_endpoint_connect(struct inccl_endpoint *ep, const struct inc_channel_peer *peer,
			   struct inc_err *err);
void inccl_endpoint_close(struct inccl_endpoint *ep);
/* Frees an endpoint in a forked child, without an effect on the parent's endpoint. */
void inccl_endpoint_abandon(struct inccl_endpoint *ep);

int inccl_endpoint_map(struct inccl_endpoint *ep, void *addr, size_t len, bool writable,
		       struct inc_channel_region *region);
void inccl_endpoint_unmap(struct inccl_endpoint *ep, struct inc_channel_region *region);

/* Returns the number of packets of messages whose results have not arrived. */
uint64_t inccl_endpoint_under_way(const struct inccl_endpoint *ep);
/* Posts a message, which is copied, on the endpoint. The caller observes the window. Returns 0;
 * -EAGAIN if the queue is full, so that the caller tries again after progress; or an error that is
 * final. */
int inccl_endpoint_post(struct inccl_endpoint *ep, const struct inc_channel_exchange *x);
/* Sends those posted messages that are worth sending now. Returns 0 or -errno. */
int inccl_endpoint_flush(struct inccl_endpoint *ep);
/* Lets the endpoint progress without blocking: receives results, answers and retransmits. Returns a
 * positive number if more may be there, so that the caller calls again, or 0 if nothing is left for
 * now. Returns -errno if the endpoint has failed for good; ep->error has the reason, and each
 * further call returns the same. */
int inccl_endpoint_progress(struct inccl_endpoint *ep);
/* Prepares the endpoint for a sleep of its caller. It returns what to poll for, and when progress()
 * must be called at the latest (CLOCK_MONOTONIC; UINT64_MAX: never). Returns 1 if something has
 * arrived meanwhile, so that the caller must not sleep; otherwise 0 or -errno. */
int inccl_endpoint_arm(struct inccl_endpoint *ep, int *fd, short *events, uint64_t *deadline_ns);

/* Whether the peer is known to have everything that this end has posted, so that the other ranks
 * can finish without this one. */
bool inccl_endpoint_kept(const struct inccl_endpoint *ep);
/* Whether, in addition, all results have arrived here, and the peer knows that. */
bool inccl_endpoint_quiet(const struct inccl_endpoint *ep);

void inccl_endpoint_stats(const struct inccl_endpoint *ep, struct inccl_transport_stats *out);

/* verbs_config.c: reads settings of verbs from INCCL_VERBS, and then from options, which take
 * precedence. Both have the form "key=value,key=value". */
int inccl_verbs_settings(const char *options, struct inc_channel_verbs_settings *settings,
			 struct inc_err *err);

/* path_mtu.c: finds the payload that a soft channel offers to the controller, and checks whether
 * the agreed one fits the route to the peer. fd is any socket. */
int inccl_path_payload(int fd, const struct inccl_open_opts *opts, unsigned int *payload,
		       struct inc_err *err);
int inccl_path_check(int fd, struct inc_addr saddr, struct inc_addr daddr, unsigned int payload,
		     struct inc_err *err);

#endif
