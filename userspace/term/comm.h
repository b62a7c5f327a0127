/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A communicator of termination mode. It has a node, which decides what is done, a channel to each
 * peer, which sends and receives, and the buffers of its messages. Peers have the node's numbers.
 * The children come first, in the order of their ranks, because floats are added in this order,
 * whatever the children's ports are. The parent comes last.
 *
 * All functions are called on the thread of the worker that the communicator belongs to.
 */
#ifndef INC_TERM_COMM_H
#define INC_TERM_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lib/base/err.h"
#include "lib/channel/channel.h"
#include "lib/conf/comm_conf.h"
#include "lib/conf/messages.h"
#include "userspace/engine.h"
#include "userspace/term/devices.h"
#include "userspace/term/node.h"

struct inc_term_comm;

/* Options of a communicator, from its owner, a worker. */
struct inc_term_comm_opts {
	struct inc_term_devices *devices;
	/* Functions of each kind of channels, indexed by enum inc_endpoint_kind. NULL: the switch
	 * has no channels of this kind. */
	const struct inc_channel_ops *const *kinds;
	inc_notice_fn notice;
	void *arg;
};

/* The handler that receives the reports of communicators' channels, which every device gets when it
 * is opened. */
extern const struct inc_channel_handler inc_term_comm_handler;

/*
 * Creates a communicator, or nothing if that fails. The queue pair numbers, PSNs and UDP ports of
 * the switch's own ends that conf leaves open are chosen and written to conf.
 */
int inc_term_comm_new(const struct inc_term_comm_opts *opts, struct inc_comm_conf *conf,
		      struct inc_term_comm **out, struct inc_err *err);
/* Connects a communicator to those peers whose numbers its configuration has. */
int inc_term_comm_start(struct inc_term_comm *cm, struct inc_err *err);
/* Connects a communicator to peers whose numbers are now known. Returns -ENOENT if there is no such
 * connection, and -EALREADY if the connection has its peer. */
int inc_term_comm_connect(struct inc_term_comm *cm, const struct inc_msg_peer *peer, uint32_t n,
			  struct inc_err *err);
/* Frees the communicator. Peers that are still connected receive no notice of it. */
void inc_term_comm_free(struct inc_term_comm *cm);

/* Checks a communicator's time limits. A worker calls this about four times a second. */
void inc_term_comm_tick(struct inc_term_comm *cm, uint64_t now_ns);
/* Stores the condition of the switch's own port on the way to a peer. Peers are numbered as in
 * struct inc_term_view. reason: why the port is not up, as in struct inc_engine_port. */
void inc_term_comm_port(struct inc_term_comm *cm, uint32_t peer, enum inc_port_condition condition,
			const char *reason);
/* Closes the channels of a communicator that has ended. The caller waits for a moment when no
 * device is at work, because the handler that reports the end may still be using one of these
 * channels. */
void inc_term_comm_settle(struct inc_term_comm *cm);

/*
 * Counters since the communicator was created. They have the names of the XDP engine's counters, if
 * there are such, because a message here is what a packet is there. Each received message is
 * stored, dropped, or completes something that is sent. _(class of struct inc_engine_counter,
 * field, name, text)
 */
#define INC_TERM_COUNTERS(_)                                                                  \
	_(R, received, rx, "messages received")                                               \
	_(A, kept, absorbed_stored, "messages of children kept until the others have come")   \
	_(D, dropped, drop_connection_error, "messages for what has ended, or that ended it") \
	_(M, results, multicast_result, "last arriver became the result")                     \
	_(M, from_parent, multicast_from_parent, "result of the parent, passed on")           \
	_(M, partials, partial_to_parent, "last arriver became the partial sum")              \
	_(X, copies, copies_sent, "results and partial sums, to each peer one")               \
	_(X, reduced_bytes, reduced_bytes,                                                    \
	  "bytes of contributions that a result or a partial sum was made of")                \
	_(X, mismatches, mismatches, "chunks whose children called different collectives")    \
	_(X, rx_packets, term_packets_received, "packets of peers, by soft endpoints")        \
	_(X, tx_packets, term_packets_sent, "packets to peers, by soft endpoints")            \
	_(X, retransmits, term_packets_resent, "of them, sent again")                         \
	_(X, duplicates, term_duplicates, "packets that had been received before")            \
	_(X, strangers, term_strangers, "packets of no connection, or of another sender")     \
	_(X, wrong_port, term_wrong_port, "right connection, wrong ingress port")             \
	_(X, damaged, term_damaged, "packets that make no sense, or with a wrong ICRC")

struct inc_term_counters {
#define _(class, name, shown, text) uint64_t name;
	INC_TERM_COUNTERS(_)
#undef _
};
void inc_term_counters_add(struct inc_term_counters *sum, const struct inc_term_counters *more);

/* All figures of a communicator at one moment. */
struct inc_term_view {
	struct inc_engine_comm comm;
	struct inc_engine_conn conn[INC_COMM_MAX_CONNECTIONS];
	bool waits;
	struct inc_engine_waiting waiting;
	struct inc_term_counters counters;
	uint32_t buffers_taken;
};
void inc_term_comm_view(const struct inc_term_comm *cm, struct inc_term_view *out);

/* Bytes of memory that the communicator's buffers take. */
size_t inc_term_comm_bytes(const struct inc_comm_conf *conf);

#endif
