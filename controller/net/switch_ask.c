/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the core asks of switches, as messages, and their answers for the core. The core calls
 * these; the answers come from the controller's loop.
 */
#include <errno.h>
#include <string.h>
#include "controller/core/comm_config.h"
#include "controller/core/orphan.h"
#include "lib/base/log.h"

static void on_configured(struct inc_ctl_switch *sw, int code, const char *text, json_t *answer,
			  uint64_t number)
{
	struct inc_msg_configured said = {0};
	struct inc_err err;

	if (!code && inc_message_read(INC_MSG_CONFIGURED, answer, &said, &err))
		inc_comm_answered(sw, number, 0, err.msg, NULL);
	else
		inc_comm_answered(sw, number, code, text, &said);
}

int inc_switch_configure(struct inc_ctl_switch *sw, const struct inc_comm_conf *conf)
{
	struct inc_msg_configure said = {.config = *conf};

	return inc_switch_request(sw, INC_MSG_CONFIGURE, &said, on_configured, conf->communicator);
}

static void on_connected(struct inc_ctl_switch *sw, int code, const char *text, json_t *answer,
			 uint64_t number)
{
	struct inc_msg_number said = {0};

	if (!code)
		inc_message_read(INC_MSG_CONNECTED, answer, &said, NULL);
	inc_comm_connected(sw, number, code, text, said.communicator);
}

int inc_switch_connect(struct inc_ctl_switch *sw, const struct inc_msg_connect *peers)
{
	return inc_switch_request(sw, INC_MSG_CONNECT, peers, on_connected, peers->communicator);
}

static void on_removed(struct inc_ctl_switch *sw, int code, const char *text, json_t *answer,
		       uint64_t number)
{
	if (!code || code == ECONNRESET) /* a lost switch is told on its return what to keep */
		return;
	inc_warn("switch %s does not remove communicator %llu: %s", inc_switch_name(sw),
		 (unsigned long long)number, text);
	/* what it has is unknown now: its next hello will tell */
	if (code == ETIMEDOUT)
		inc_switch_drop(sw, "did not answer remove");
}

void inc_switch_remove(struct inc_ctl_switch *sw, uint32_t number)
{
	const struct inc_msg_number said = {number};
	int ret = inc_switch_request(sw, INC_MSG_REMOVE, &said, on_removed, number);

	if (!ret || ret == -ENOTCONN)
		return;
	inc_warn("switch %s cannot be asked to remove communicator %u: %s", inc_switch_name(sw),
		 number, strerror(-ret));
	inc_switch_drop_soon(sw);
}

static void on_waiting(struct inc_ctl_switch *sw, int code, const char *text, json_t *answer,
		       uint64_t arg)
{
	const uint32_t number = arg, next = inc_page_next(answer, arg);
	const json_t *entry;
	size_t i;

	if (code)
		inc_warn("switch %s does not say what communicator %u waits for: %s",
			 inc_switch_name(sw), number, text);
	if (code == ETIMEDOUT) /* a lost switch is asked on its return */
		inc_comm_ask_again(sw, number);
	json_array_foreach (json_object_get(answer, "data"), i, entry) {
		struct inc_msg_waiting said = {0};

		if (inc_schema_read_json(&inc_waiting_schema, entry, &said, NULL) ||
		    said.communicator != number)
			continue;
		if (inc_comm_waits(sw, &said))
			return;
	}
	if (next)
		inc_switch_query(sw, "waiting", number, next, on_waiting);
}

int inc_switch_ask_waiting(struct inc_ctl_switch *sw, uint32_t number)
{
	return inc_switch_query(sw, "waiting", number, 0, on_waiting);
}

/* What the switch says of one communicator; false: it has none of this number. */
static bool read_results(const json_t *answer, uint32_t number, uint64_t *results)
{
	const json_t *entry;
	size_t i;

	json_array_foreach (json_object_get(answer, "data"), i, entry) {
		struct inc_msg_tally said = {0};

		if (inc_schema_read_json(&inc_tally_schema, entry, &said, NULL) ||
		    said.communicator != number)
			continue;
		*results = said.results;
		return true;
	}
	return false;
}

static void on_results(struct inc_ctl_switch *sw, int code, const char *text, json_t *answer,
		       uint64_t arg)
{
	const uint32_t number = arg, next = inc_page_next(answer, arg);
	uint64_t results = 0;
	bool found;
	int ret = 0;

	found = !code && read_results(answer, number, &results);
	if (!code && !found && next) {
		ret = inc_switch_query(sw, "communicators", number, next, on_results);
		if (!ret)
			return;
	}
	inc_orphan_looked(sw, number, code ?: -ret, code ? text : strerror(-ret), found, results);
}

int inc_switch_ask_results(struct inc_ctl_switch *sw, uint32_t number)
{
	return inc_switch_query(sw, "communicators", number, 0, on_results);
}
