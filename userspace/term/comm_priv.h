/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of a communicator in termination mode share. */
#ifndef INC_TERM_COMM_PRIV_H
#define INC_TERM_COMM_PRIV_H

#include <stdbool.h>
#include <stdint.h>
#include "lib/conf/comm_conf.h"
#include "userspace/term/arithmetic.h"
#include "userspace/term/comm.h"
#include "userspace/term/endpoint.h"
#include "userspace/term/node.h"
#include "userspace/term/pool.h"

/* This end of the connection to a peer. */
struct comm_end {
	struct inc_term_comm *cm;
	uint32_t peer;             /* the node's number of it */
	struct inc_conn_conf conf; /* own numbers filled in, the peer's as they come */
	struct inc_term_device *dev;
	struct inc_term_channel *ch;          /* NULL: it has been shut */
	struct inc_term_channel_figures last; /* when it was */
	char port_reason[INC_CALL_TEXT];      /* why the switch's own port is not up; "": it is */
	bool connected;
	bool lost; /* its own connection has broken, which ended all */
	enum inc_term_reason lost_for;
	uint64_t received, sent, acknowledged; /* messages */
};

struct inc_term_comm {
	struct inc_term_comm_opts opts;
	struct inc_comm_conf conf; /* connections are in ends */
	struct inc_term *node;
	struct inc_term_form form; /* of the elements that it adds */
	struct inc_term_pool *pool;
	uint32_t n_children, n_ends;
	uint32_t receives; /* that are posted with each peer */
	bool ended;
	enum inc_term_reason ended_for;
	const char *why;        /* while a channel reports that it is lost: its words */
	bool settled;           /* channels are shut */
	uint64_t kept, dropped; /* messages that made nothing */
	uint64_t reduced_bytes, mismatches;
	struct comm_end end[INC_COMM_MAX_CONNECTIONS]; /* by peer */
};

/* "communicator 12, rank 3". Returns buf. */
#define COMM_WHAT 64
const char *comm_what(const struct comm_end *end, char buf[COMM_WHAT]);

#endif
