/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by link.c and switch_request.c: a connection on the switch port, and the requests under
 * way on it. */
#ifndef INC_LINK_H
#define INC_LINK_H

#include <stdbool.h>
#include <stdint.h>
#include <jansson.h>
#include <event2/event.h>
#include "controller/net/ctl.h"
#include "lib/conf/messages.h"

struct inc_request;

enum inc_link_state {
	LINK_GREETING, /* LINK_GREETING: the connection is new and has not sent its hello */
	LINK_SWITCH,   /* LINK_SWITCH: the connection has sent the hello of a switch */
	LINK_ASKED,    /* LINK_ASKED: the connection of a switch that has not answered a ping yet */
	LINK_CLOSED,
};

/* A connection on the switch port. Its hello makes it the connection of a switch. */
struct inc_switch_link {
	enum inc_link_state state; /* set by link_set_state() in link.c only */
	struct inc_ctl *ctl;
	struct inc_address_limit *address_limit;
	struct inc_ndjson *conn;
	/* switch that the connection belongs to; NULL before its hello */
	struct inc_core_switch *sw;
	bool peer_closed; /* the switch's machine has closed the connection */
	/* time limit of the peer, which runs in LINK_GREETING and LINK_ASKED */
	struct inc_timeout *silence;
	uint64_t next_seq;
	LIST_HEAD(request_list, inc_request) requests;
	LIST_ENTRY(inc_switch_link) entry;
};

/* Whether a switch's message of this type is the answer to a request. */
bool inc_request_answers(const char *type);
/* Handles a switch's message that answers a request. */
void inc_request_answered(struct inc_switch_link *link, json_t *object);
/* Ends all requests on a link that was closed, with an error. */
void inc_requests_fail(struct inc_switch_link *link, struct inc_core_switch *sw);

#endif
