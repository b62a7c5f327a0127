/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections on the member port: members of groups, and tools. Called by the event loop and by
 * carry.c. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "controller/core/core.h"
#include "controller/core/event.h"
#include "controller/core/group.h"
#include "controller/core/switch.h"
#include "controller/net/ctl.h"
#include "controller/net/address_limit.h"
#include "controller/net/authorization.h"
#include "lib/base/log.h"
#include "lib/net/lines.h"
#include "lib/net/listen.h"

void inc_client_free(struct inc_client *client)
{
	inc_query_client_gone(client);
	TAILQ_REMOVE(&client->ctl->clients, client, entry);
	client->ctl->n_clients--;
	inc_timeout_free(client->idle);
	inc_ndjson_free(client->conn);
	inc_address_limit_release(client->address_limit);
	free(client);
}

/* Ends a client, and reports that to the core. clean: the client has sent a bye before its
 * connection ended. */
static void close_client(struct inc_client *client, bool clean, unsigned int silent_ms,
			 const char *reason)
{
	/* the step's actions may name the client, so it is freed after they are carried out */
	inc_ctl_step(client->ctl, &(struct inc_core_event){.kind = CORE_EVENT_LEFT,
							   .client = &client->core,
							   .clean = clean,
							   .silent_ms = silent_ms,
							   .reason = reason});
	inc_client_free(client);
}

void inc_client_close(struct inc_client *client, unsigned int silent_ms, const char *reason)
{
	close_client(client, false, silent_ms, reason);
}

static void on_idle(void *arg)
{
	struct inc_client *client = arg;

	if (client->core.message_lost) {
		inc_client_close(client, 0, "no memory for a message");
		return;
	}
	if (client->queries) {
		inc_client_idle(client);
		return;
	}
	inc_debug("%s: silent, closed", inc_ndjson_peer(client->conn));
	inc_ndjson_send_error(client->conn, ETIMEDOUT, NULL, "no message within %u ms",
			      client->ctl->opt.client_timeout_ms);
	inc_client_free(client);
}

/* This function is also called after every message, to move the client to the end of the list:
 * clients are in the order of silence. */
void inc_client_idle(struct inc_client *client)
{
	struct inc_ctl *ctl = client->ctl;

	TAILQ_REMOVE(&ctl->clients, client, entry);
	TAILQ_INSERT_TAIL(&ctl->clients, client, entry);
	if (client->core.message_lost)
		inc_timeout_arm(client->idle, 0);
	else if (client->core.member || client->core.derivation)
		inc_timeout_stop(client->idle);
	else
		inc_timeout_arm(client->idle, ctl->opt.client_timeout_ms);
}

void inc_client_send(const struct inc_client *client, enum inc_message_id id, const void *message)
{
	inc_persist_before_send(client->ctl->persist);
	inc_ndjson_send_new(client->conn, inc_message_new(id, message));
}

void inc_client_refuse(const struct inc_client *client, int code, const char *fmt, ...)
{
	struct inc_msg_error error = {.code = code};
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(error.message, sizeof(error.message), fmt, ap);
	va_end(ap);
	inc_client_send(client, INC_MSG_ERROR, &error);
}

static void refuse(const struct inc_client *client, const char *type, int ret,
		   const struct inc_err *err)
{
	inc_info("%s: %s refused: %s", client->core.peer, type, err->msg);
	inc_client_refuse(client, -ret, "%s", err->msg);
}

/* Whether the client is a member already, or waits for its group. If so, it receives an error,
 * because a client may join only once. */
static bool is_member(const struct inc_client *client)
{
	if (client->core.member)
		inc_client_refuse(client, EISCONN,
				  "this connection is a member of group %u already",
				  client->core.member->group->number);
	if (client->core.derivation)
		inc_client_refuse(client, EISCONN, "this connection waits for a group already");
	return client->core.member || client->core.derivation;
}

static void take_ping(struct inc_client *client, json_t *object)
{
	inc_client_send(client, INC_MSG_PONG, NULL);
}

static void take_bye(struct inc_client *client, json_t *object)
{
	client->bye = true;
}

/* Ignores messages error and pong, because the peer would answer an answer to them in turn. */
static void take_nothing(struct inc_client *client, json_t *object)
{
}

static void take_join(struct inc_client *client, json_t *object)
{
	struct inc_msg_join said = {0};
	struct inc_err err;
	int ret;

	if (is_member(client))
		return;
	ret = inc_first_message_read(client->conn, INC_MSG_JOIN, object, &said, &said.version,
				     &err);
	ret = ret ?: inc_authorize_member(inc_ndjson_identity(client->conn), said.job, &err);
	if (ret)
		refuse(client, inc_messages[INC_MSG_JOIN].type, ret, &err);
	else
		inc_ctl_step(client->ctl, &(struct inc_core_event){.kind = CORE_EVENT_JOIN,
								   .client = &client->core,
								   .join = &said});
}

static void take_resume(struct inc_client *client, json_t *object)
{
	struct inc_msg_resume said = {0};
	struct inc_err err;
	int ret;

	if (is_member(client))
		return;
	ret = inc_first_message_read(client->conn, INC_MSG_RESUME, object, &said,
				     &said.join.version, &err);
	ret = ret ?: inc_authorize_member(inc_ndjson_identity(client->conn), said.join.job, &err);
	if (ret)
		refuse(client, inc_messages[INC_MSG_RESUME].type, ret, &err);
	else
		inc_ctl_step(client->ctl, &(struct inc_core_event){.kind = CORE_EVENT_RESUME,
								   .client = &client->core,
								   .resume = &said});
}

static void take_comm(struct inc_client *client, json_t *object)
{
	struct inc_msg_ask said = {.comm = UINT32_MAX};
	struct inc_err why;
	int wrong = inc_message_read(INC_MSG_ASK, object, &said, &why);

	/* An error in message C that names its communicator fails this communicator, because all
	 * members that ask for it must learn of that. */
	if (said.comm != UINT32_MAX) {
		inc_ctl_step(client->ctl, &(struct inc_core_event){.kind = CORE_EVENT_ASK,
								   .client = &client->core,
								   .ask = &said,
								   .wrong = wrong,
								   .why = &why});
		return;
	}
	inc_info("%s: C refused: %s", client->core.peer, why.msg);
	inc_client_refuse(client, -wrong, "C: %s", why.msg);
}

/* Reads the communicator's number from message ready or D. Returns 0 if there is none; then the
 * client has received an error. */
static uint32_t number_of(struct inc_client *client, enum inc_message_id id, json_t *object)
{
	struct inc_msg_number said = {0};
	struct inc_err err;

	if (!inc_message_read(id, object, &said, &err))
		return said.communicator;
	inc_client_refuse(client, EINVAL, "%s: %s", inc_messages[id].type, err.msg);
	return 0;
}

static void take_number(struct inc_client *client, enum inc_message_id id, json_t *object,
			enum inc_core_event_kind kind)
{
	const uint32_t number = number_of(client, id, object);

	if (number)
		inc_ctl_step(client->ctl, &(struct inc_core_event){.kind = kind,
								   .client = &client->core,
								   .number = number});
}

static void take_ready(struct inc_client *client, json_t *object)
{
	take_number(client, INC_MSG_READY, object, CORE_EVENT_READY);
}

static void take_destroy(struct inc_client *client, json_t *object)
{
	take_number(client, INC_MSG_DESTROY, object, CORE_EVENT_DESTROY);
}

static void take_failed(struct inc_client *client, json_t *object)
{
	struct inc_msg_report said = {0};
	struct inc_err why;
	int wrong = inc_message_read(INC_MSG_REPORT, object, &said, &why);

	inc_ctl_step(client->ctl, &(struct inc_core_event){.kind = CORE_EVENT_REPORT,
							   .client = &client->core,
							   .report = &said,
							   .wrong = wrong,
							   .why = &why});
}

static const char *name_switch(const void *topo, unsigned int number)
{
	return ((const struct inc_topology *)topo)->switches[number].name;
}

int inc_client_find_switch(const struct inc_client *client, const char *name, struct inc_err *err)
{
	const struct inc_topology *topo = client->ctl->topo;
	const int sw = inc_topology_switch_by_name(topo, name);
	char names[300];

	if (sw >= 0)
		return sw;
	inc_list_ranks(topo->n_switches, name_switch, topo, names, sizeof(names));
	return inc_err_set(err, ENOENT, "no switch '%.32s': the topology %s has %s", name,
			   topo->name, names);
}

/* A tool sets the mode of a switch for communicators that are made later. */
static void take_mode(struct inc_client *client, json_t *object)
{
	struct inc_msg_mode said = {};
	struct inc_err err;
	int sw, ret;

	ret = inc_authorize_change(inc_ndjson_identity(client->conn), &err);
	ret = ret ?: inc_message_read(INC_MSG_SET_MODE, object, &said, &err);
	sw = ret ?: inc_client_find_switch(client, said.node, &err);
	ret = sw < 0 ? sw : 0;
	if (!ret)
		inc_ctl_step(client->ctl,
			     &(struct inc_core_event){.kind = CORE_EVENT_SET_MODE,
						      .sw = client->ctl->core.switches[sw],
						      .mode = said.mode,
						      .error = &ret,
						      .said = &err});
	if (ret)
		inc_client_refuse(client, -ret, "%s", err.msg);
	else
		inc_client_send(client, INC_MSG_MODE_SET, &said);
}

static const struct {
	enum inc_message_id id;
	bool needs_group;
	void (*take)(struct inc_client *client, json_t *object);
} messages[] = {
	{INC_MSG_JOIN, false, take_join},      {INC_MSG_RESUME, false, take_resume},
	{INC_MSG_ASK, true, take_comm},        {INC_MSG_READY, true, take_ready},
	{INC_MSG_DESTROY, true, take_destroy}, {INC_MSG_REPORT, true, take_failed},
	{INC_MSG_BYE, false, take_bye},        {INC_MSG_QUESTION, false, inc_query_ask},
	{INC_MSG_PING, false, take_ping},      {INC_MSG_PONG, false, take_nothing},
	{INC_MSG_ERROR, false, take_nothing},  {INC_MSG_SET_MODE, false, take_mode},
};

static void take(struct inc_client *client, json_t *object)
{
	const char *type = inc_message_type(object);
	struct inc_ndjson *conn = client->conn;
	struct inc_err err;

	if (inc_authorize_client(inc_ndjson_identity(conn), &err)) {
		refuse(client, type, -EACCES, &err);
		close_client(client, false, 0, err.msg);
		return;
	}
	client->silent_ticks = 0;
	client->ctl->figures.member_messages++;
	for (size_t i = 0; i < sizeof(messages) / sizeof(messages[0]); i++) {
		if (!inc_message_is(type, messages[i].id))
			continue;
		if (messages[i].needs_group &&
		    (!client->core.member || !inc_group_formed(client->core.member->group)))
			inc_ndjson_send_error(conn, ENOTCONN, NULL,
					      "'%s' before the group is formed", type);
		else
			messages[i].take(client, object);
		inc_client_idle(client);
		return;
	}
	if (inc_message_is(type, INC_MSG_HELLO))
		inc_ndjson_send_error(conn, EPROTO, NULL,
				      "'%s': this port is for members, and switches use port %u",
				      type, client->ctl->opt.switch_port);
	else
		inc_ndjson_send_error(conn, EPROTO, NULL, "unknown type '%.32s'", type);
	inc_client_idle(client);
}

static void on_message(struct inc_ndjson *conn, json_t *object, void *arg)
{
	struct inc_client *client = arg;
	struct inc_log_account *before = inc_log_on(&client->address_limit->log);

	take(client, object);
	inc_log_on(before);
}

static unsigned int waits(struct inc_ndjson *conn, void *arg)
{
	const struct inc_client *client = arg;

	return inc_address_limit_wait_ms(client->address_limit);
}

static void on_closed(struct inc_ndjson *conn, int code, const char *reason, void *arg)
{
	struct inc_client *client = arg;
	struct inc_log_account *before = inc_log_on(&client->address_limit->log);

	if (code)
		inc_info("%s: %s", inc_ndjson_peer(conn), reason);
	close_client(client, client->bye, 0, reason);
	inc_log_on(before);
}

/* Closes the client without a group that has been silent for longest, because there are too many
 * clients. Returns false if all clients have a group. */
static bool make_room(struct inc_ctl *ctl)
{
	struct inc_client *client;

	TAILQ_FOREACH (client, &ctl->clients, entry) {
		if (client->core.member || client->core.derivation)
			continue;
		inc_listener_refused("too many clients, those without a group make room");
		inc_ndjson_send_error(client->conn, EMFILE, NULL, "too many clients");
		inc_client_free(client);
		return true;
	}
	return false;
}

void inc_client_accept(struct evconnlistener *l, evutil_socket_t fd, struct sockaddr *addr, int len,
		       void *arg)
{
	static const struct inc_ndjson_ops ops = {
		.message = on_message, .closed = on_closed, .waits = waits};
	struct inc_ctl *ctl = arg;
	const struct inc_ndjson_limits limits = {
		.max_line = INC_MEMBER_LINE_MAX,
		.max_write = CTL_WRITE_MAX,
		.message_timeout_ms = ctl->opt.client_timeout_ms,
		.before_write = inc_ctl_before_write,
		.before_write_arg = ctl,
	};
	struct inc_client *client = calloc(1, sizeof(*client));
	struct inc_err err;

	if (!client) {
		close(fd);
		return;
	}
	client->ctl = ctl;
	/* The limit of the peer's address is checked first. So a peer whose address is above its
	 * limit makes no connection of other addresses close. */
	client->address_limit = inc_address_limit_admit(ctl, fd, addr);
	if (!client->address_limit)
		goto err;
	if (ctl->n_clients >= ctl->opt.max_clients && !make_room(ctl)) {
		inc_listener_refused("too many clients, all of them members of groups");
		goto err;
	}
	client->idle = inc_timeout_new(&ctl->timeouts, on_idle, client);
	if (!client->idle)
		goto err;
	client->conn = inc_ndjson_new(ctl->base, fd, &limits, &ops, client, &err);
	if (!client->conn || (ctl->tls && inc_ndjson_secure(client->conn, ctl->tls, NULL, &err))) {
		inc_warn("%s", err.msg);
		goto err_fd_closed;
	}
	client->core = (struct inc_core_client){.core = &ctl->core,
						.address = client->address_limit->name,
						.peer = inc_ndjson_peer(client->conn)};
	TAILQ_INSERT_TAIL(&ctl->clients, client, entry);
	ctl->n_clients++;
	inc_client_idle(client);
	return;

err:
	close(fd);
err_fd_closed:
	inc_ndjson_free(client->conn);
	inc_timeout_free(client->idle);
	inc_address_limit_release(client->address_limit);
	free(client);
}

void inc_clients_free(struct inc_ctl *ctl)
{
	while (!TAILQ_EMPTY(&ctl->clients))
		close_client(TAILQ_FIRST(&ctl->clients), false, 0, "the controller ends");
}
