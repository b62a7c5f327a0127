/* SPDX-License-Identifier: BSD-2-Clause */
/* What switch.c and switch_request.c share: a switch's connection and the requests under way on it.
 */
#ifndef INC_SWITCH_PRIV_H
#define INC_SWITCH_PRIV_H

#include <stdbool.h>
#include <stdint.h>
#include <jansson.h>
#include <event2/event.h>
#include "controller/ctl.h"
#include "lib/conf/messages.h"

struct inc_request;

enum inc_link_state {
	LINK_GREETING, /* no hello yet */
	LINK_SWITCH,   /* said hello: it is a switch's */
	LINK_ASKED,    /* the same, asked whether it is still there */
	LINK_CLOSED,
};

/* A connection on the switch port; says hello to become a switch's. */
struct inc_switch_link {
	enum inc_link_state state; /* link_go() in switch.c */
	struct inc_ctl *ctl;
	struct inc_remote *remote; /* its address */
	struct inc_ndjson *conn;
	struct inc_ctl_switch *sw;   /* NULL before hello */
	struct inc_timeout *silence; /* while GREETING or ASKED, or it is to be closed */
	bool to_close;               /* it could not be told something that it must know */
	uint64_t next_seq;
	LIST_HEAD(request_list, inc_request) requests;
	unsigned int n_requests;
	LIST_ENTRY(inc_switch_link) entry;
};

/* Is this the type of what a switch answers requests with? */
bool inc_request_answers(const char *type);
/* Such a message. */
void inc_request_answered(struct inc_switch_link *link, json_t *object);
/* Ends all requests; the link is not its switch's any more. */
void inc_requests_fail(struct inc_switch_link *link, struct inc_ctl_switch *sw);

/* switch_mode.c: the modes that the switch knows, as its hello has them; behind its ports. */
void inc_switch_take_engines(struct inc_ctl_switch *sw, const struct inc_msg_hello *said);
/* Tells the routes what it can in its mode, if it is there. */
void inc_switch_offer(struct inc_ctl_switch *sw);

#endif
