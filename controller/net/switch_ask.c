/* SPDX-License-Identifier: BSD-2-Clause */
/* Sends the core's requests to switches, and makes events of the answers. Called by carry.c; the
 * answers come from the controller's loop. */
#include <errno.h>
#include <string.h>
#include "controller/core/action.h"
#include "controller/core/event.h"
#include "controller/core/switch.h"
#include "controller/net/ctl.h"

static void answer(struct inc_ctl *ctl, struct inc_core_switch *sw, enum inc_asked asked,
		   uint32_t number, int code, const char *text)
{
	inc_ctl_step(ctl, &(struct inc_core_event){.kind = CORE_EVENT_ANSWER,
						   .sw = sw,
						   .asked = asked,
						   .of = number,
						   .code = code,
						   .text = text});
}

/* Passes an event to the core, because a switch could not be asked. ret is -errno of the
 * attempt. */
static void cannot_ask(struct inc_ctl *ctl, struct inc_core_switch *sw, enum inc_asked asked,
		       uint32_t number, int ret)
{
	inc_ctl_step(ctl, &(struct inc_core_event){.kind = CORE_EVENT_ANSWER,
						   .sw = sw,
						   .asked = asked,
						   .of = number,
						   .code = -ret,
						   .unasked = true,
						   .text = strerror(-ret)});
}

static void on_configured(struct inc_ctl *ctl, struct inc_core_switch *sw, int code,
			  const char *text, json_t *object, uint64_t number)
{
	struct inc_msg_configured said = {0};
	struct inc_core_event event = {.kind = CORE_EVENT_ANSWER,
				       .sw = sw,
				       .asked = ASKED_CONFIGURE,
				       .of = number,
				       .code = code,
				       .text = text,
				       .configured = &said};
	struct inc_err err;

	if (!code && inc_message_read(INC_MSG_CONFIGURED, object, &said, &err)) {
		event.text = err.msg;
		event.configured = NULL;
	}
	inc_ctl_step(ctl, &event);
}

static void on_connected(struct inc_ctl *ctl, struct inc_core_switch *sw, int code,
			 const char *text, json_t *object, uint64_t number)
{
	struct inc_msg_number said = {0};
	const struct inc_core_event event = {.kind = CORE_EVENT_ANSWER,
					     .sw = sw,
					     .asked = ASKED_CONNECT,
					     .of = number,
					     .code = code,
					     .text = text,
					     .connected = &said};

	if (!code)
		inc_message_read(INC_MSG_CONNECTED, object, &said, NULL);
	inc_ctl_step(ctl, &event);
}

static void on_removed(struct inc_ctl *ctl, struct inc_core_switch *sw, int code, const char *text,
		       json_t *object, uint64_t number)
{
	answer(ctl, sw, ASKED_REMOVE, number, code, text);
}

static void on_waiting(struct inc_ctl *ctl, struct inc_core_switch *sw, int code, const char *text,
		       json_t *object, uint64_t arg)
{
	const uint32_t number = arg;
	uint32_t next = inc_page_next(object, arg);
	const json_t *entry;
	bool enough = false;
	size_t i;
	int ret;

	json_array_foreach (json_object_get(object, "data"), i, entry) {
		struct inc_msg_waiting said = {0};

		if (inc_schema_read_json(&inc_waiting_schema, entry, &said, NULL) ||
		    said.communicator != number)
			continue;
		inc_ctl_step(ctl, &(struct inc_core_event){.kind = CORE_EVENT_WAITING,
							   .sw = sw,
							   .waiting = &said,
							   .enough = &enough});
		if (enough) {
			next = 0;
			break;
		}
	}
	ret = next ? inc_switch_query(ctl, sw, "waiting", number, next, on_waiting) : 0;
	if (!next || ret)
		answer(ctl, sw, ASKED_WAITING, number, code ?: -ret, code ? text : strerror(-ret));
}

/* Finds the entry of a communicator in a switch's answer about results. Returns false if there is
 * none. */
static bool read_results(const json_t *object, uint32_t number, struct inc_msg_tally *out)
{
	const json_t *entry;
	size_t i;

	json_array_foreach (json_object_get(object, "data"), i, entry) {
		*out = (struct inc_msg_tally){0};
		if (!inc_schema_read_json(&inc_tally_schema, entry, out, NULL) &&
		    out->communicator == number)
			return true;
	}
	return false;
}

static void on_results(struct inc_ctl *ctl, struct inc_core_switch *sw, int code, const char *text,
		       json_t *object, uint64_t arg)
{
	const uint32_t number = arg, next = inc_page_next(object, arg);
	struct inc_msg_tally said;
	struct inc_core_event event = {.kind = CORE_EVENT_ANSWER,
				       .sw = sw,
				       .asked = ASKED_RESULTS,
				       .of = number,
				       .code = code,
				       .text = text};
	int ret;

	if (!code && read_results(object, number, &said)) {
		event.results = &said;
	} else if (!code && next) {
		ret = inc_switch_query(ctl, sw, "communicators", number, next, on_results);
		if (!ret)
			return;
		event.code = -ret;
		event.text = strerror(-ret);
	}
	inc_ctl_step(ctl, &event);
}

void inc_switch_ask(struct inc_ctl *ctl, const struct inc_action *action)
{
	struct inc_core_switch *sw = action->sw;
	const struct inc_msg_number number = {action->number};
	int ret = -EINVAL;

	switch (action->asked) {
	case ASKED_CONFIGURE:
		ret = inc_switch_request(ctl, sw, INC_MSG_CONFIGURE, action->payload, on_configured,
					 action->number);
		break;
	case ASKED_CONNECT:
		ret = inc_switch_request(ctl, sw, INC_MSG_CONNECT, action->payload, on_connected,
					 action->number);
		break;
	case ASKED_REMOVE:
		ret = inc_switch_request(ctl, sw, INC_MSG_REMOVE, &number, on_removed,
					 action->number);
		break;
	case ASKED_WAITING:
		ret = inc_switch_query(ctl, sw, "waiting", action->number, 0, on_waiting);
		break;
	case ASKED_RESULTS:
		ret = inc_switch_query(ctl, sw, "communicators", action->number, 0, on_results);
		break;
	default:
		break;
	}
	if (ret)
		cannot_ask(ctl, sw, action->asked, action->number, ret);
}
