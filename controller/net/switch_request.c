/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests to switches: numbered, answered in any order, each with its own time limit. The limit
 * begins when the request is sent, so a caller with many requests first checks how many are under
 * way. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "controller/core/switch.h"
#include "controller/net/link.h"

struct inc_request {
	struct inc_switch_link *link;
	uint64_t seq;
	/* type of the message by which the switch confirms the request */
	enum inc_message_id answer;
	inc_switch_reply reply;
	uint64_t arg;
	struct inc_timeout *timer;
	LIST_ENTRY(inc_request) entry;
};

static void request_free(struct inc_request *request)
{
	inc_timeout_free(request->timer);
	free(request);
}

/* Ends a request and calls its reply function. That may even close the switch's connection, so
 * request and link are not used after it. */
static void finish(struct inc_request *request, struct inc_core_switch *sw, int code,
		   const char *text, json_t *answer)
{
	struct inc_ctl *ctl = request->link->ctl;
	inc_switch_reply reply = request->reply;
	uint64_t arg = request->arg;

	LIST_REMOVE(request, entry);
	request_free(request);
	reply(ctl, sw, code, text, answer, arg);
}

static void on_timeout(void *arg)
{
	struct inc_request *request = arg;
	char text[64];

	snprintf(text, sizeof(text), "no answer within %u ms",
		 request->link->ctl->opt.switch_timeout_ms);
	finish(request, request->link->sw, ETIMEDOUT, text, NULL);
}

/* For each request to a switch, the message that confirms it. */
static const enum inc_message_id answers[INC_MSG_MAX] = {
	[INC_MSG_CONFIGURE] = INC_MSG_CONFIGURED,
	[INC_MSG_CONNECT] = INC_MSG_CONNECTED,
	[INC_MSG_REMOVE] = INC_MSG_REMOVED,
	[INC_MSG_QUERY] = INC_MSG_ANSWER,
};

bool inc_request_answers(const char *type)
{
	for (size_t id = 0; id < INC_MSG_MAX; id++) {
		if (answers[id] && inc_message_is(type, answers[id]))
			return true;
	}
	return inc_message_is(type, INC_MSG_ERROR);
}

int inc_switch_request(struct inc_ctl *ctl, struct inc_core_switch *sw, enum inc_message_id id,
		       const void *fields, inc_switch_reply reply, uint64_t arg)
{
	struct inc_switch_link *link = ctl->switches[sw->index].link;
	struct inc_request *request = NULL;
	int ret = -ENOMEM;
	json_t *object;

	if (!link)
		return -ENOTCONN;
	object = inc_message_new(id, fields);
	if (!object)
		return -ENOMEM;
	request = calloc(1, sizeof(*request));
	if (!request)
		goto err;
	request->timer = inc_timeout_new(&ctl->timeouts, on_timeout, request);
	if (!request->timer)
		goto err;
	request->link = link;
	request->seq = ++link->next_seq;
	request->reply = reply;
	request->arg = arg;
	request->answer = answers[id];
	if (json_object_set_new(object, "seq", json_integer(request->seq)))
		goto err;
	inc_persist_before_send(ctl->persist);
	ret = inc_ndjson_send(link->conn, object);
	if (ret)
		goto err;
	json_decref(object);
	LIST_INSERT_HEAD(&link->requests, request, entry);
	inc_timeout_arm(request->timer, ctl->opt.switch_timeout_ms);
	return 0;
err:
	if (request)
		request_free(request);
	json_decref(object);
	return ret;
}

int inc_switch_query(struct inc_ctl *ctl, struct inc_core_switch *sw, const char *what,
		     uint32_t number, uint32_t from, inc_switch_reply reply)
{
	struct inc_msg_query query = {.has_from = from, .from = from};

	snprintf(query.what, sizeof(query.what), "%s", what);
	return inc_switch_request(ctl, sw, INC_MSG_QUERY, &query, reply,
				  inc_page_arg(number, from));
}

uint32_t inc_page_next(const json_t *answer, uint64_t arg)
{
	struct inc_msg_answer said = {0};

	inc_message_read(INC_MSG_ANSWER, answer, &said, NULL);
	return said.next > arg >> 32 ? said.next : 0;
}

void inc_request_answered(struct inc_switch_link *link, json_t *object)
{
	const char *type = inc_message_type(object);
	struct inc_request *request;
	struct inc_msg_error error = {.code = EIO};
	char text[64];

	/* fields of the switch's message that are not readable keep the defaults of error */
	inc_message_read(INC_MSG_ERROR, object, &error, NULL);
	LIST_FOREACH (request, &link->requests, entry) {
		if (request->seq == error.seq)
			break;
	}
	if (!request) /* the request has timed out */
		return;
	if (inc_message_is(type, request->answer)) {
		finish(request, link->sw, 0, "", object);
		return;
	}
	if (!inc_message_is(type, INC_MSG_ERROR)) {
		snprintf(text, sizeof(text), "answered with '%.32s'", type);
		finish(request, link->sw, EPROTO, text, NULL);
		return;
	}
	/* The callers understand these two codes as "the switch has not answered, so its state is
	 * unknown". But this switch has answered and refused, which needs another code. */
	if (error.code == ETIMEDOUT || error.code == ECONNRESET)
		error.code = EIO;
	finish(request, link->sw, error.code, *error.message ? error.message : strerror(error.code),
	       NULL);
}

void inc_requests_fail(struct inc_switch_link *link, struct inc_core_switch *sw)
{
	while (!LIST_EMPTY(&link->requests))
		finish(LIST_FIRST(&link->requests), sw, ECONNRESET, "connection lost", NULL);
}
