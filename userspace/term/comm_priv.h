/* SPDX-License-Identifier: BSD-2-Clause */
/* Declarations that the files of a communicator in termination mode share. */
#ifndef INC_TERM_COMM_PRIV_H
#define INC_TERM_COMM_PRIV_H

#include <stdbool.h>
#include <stdint.h>
#include "lib/conf/comm_conf.h"
#include "userspace/call.h"
#include "userspace/term/comm.h"
#include "lib/channel/channel.h"
#include "userspace/term/node.h"
#include "userspace/term/pool.h"

/* The switch's end of the connection to a peer of the communicator. */
struct comm_end {
	struct inc_term_comm *cm;
	uint32_t peer; /* number of the peer in the communicator's node */
	/* configuration of the connection, in which the switch's own numbers are filled in, and the
	 * peer's as soon as they are known */
	struct inc_conn_conf conf;
	struct inc_verbs_conf verbs; /* the settings in use of the end's queue pair */
	struct inc_channel_device *dev;
	/* if owns_memory is set: the communicator's pool of buffers, registered with dev */
	struct inc_channel_region memory;
	/* this end has registered the pool with its device; false: an end with a lower number has,
	 * which uses the same device */
	bool owns_memory;
	struct inc_channel *ch;          /* channel of the connection; NULL: it has been closed */
	struct inc_channel_figures last; /* figures of ch when it was closed */
	char port_reason[INC_CALL_TEXT]; /* why the switch's own port is not up; "": it is up */
	bool connected;
	bool lost; /* the connection of this end has failed, which has ended the communicator */
	enum inc_term_reason lost_for;
	/* numbers of messages received, sent and acknowledged */
	uint64_t received, sent, acknowledged;
	struct inc_delivery delivery; /* whether what is sent to the peer arrives */
};

struct inc_term_comm {
	struct inc_term_comm_opts opts;
	/* configuration of the communicator; its connections were copied to end[], and only the
	 * copies are used */
	struct inc_comm_conf conf;
	struct inc_term *node;
	struct inc_term_form form; /* form of the elements that the communicator reduces */
	struct inc_term_pool *pool;
	uint32_t n_children, n_ends;
	uint32_t receives; /* number of receives posted with each peer */
	bool ended;
	enum inc_term_reason ended_for;
	/* text that is added to the report that the communicator has ended; NULL: none */
	const char *why;
	bool settled; /* the channels are closed, because the communicator has ended */
	/* kept: number of messages that were only stored, because others are missing. dropped:
	 * number of messages dropped. */
	uint64_t kept, dropped;
	uint64_t reduced_bytes, mismatches;
	struct comm_end end[INC_COMM_MAX_CONNECTIONS]; /* ends by the peer's number */
};

/* Writes a name for messages, such as "communicator 12, rank 3". Returns buf. */
#define COMM_WHAT 64
const char *comm_what(const struct comm_end *end, char buf[COMM_WHAT]);

/* Receives the TOS byte of a peer's packets, which has changed. ctx: the end. The class of a
 * child's packets is that of what is sent to the child. The first child's is also that of partial
 * sums, as in passthrough mode. */
void comm_on_class(void *ctx, uint8_t tos);

#endif
