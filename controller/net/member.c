/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections on the member port: members of groups, and tools. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "controller/ctl.h"
#include "lib/base/log.h"

static void client_free(struct inc_client *client)
{
	inc_query_client_gone(client);
	TAILQ_REMOVE(&client->ctl->clients, client, entry);
	client->ctl->n_clients--;
	if (client->idle)
		event_free(client->idle);
	inc_ndjson_free(client->conn);
	free(client);
}

static void client_close(struct inc_client *client, bool clean, const char *reason)
{
	if (client->member) {
		inc_group_leave(client->member, clean, reason);
		client->member = NULL;
	}
	client_free(client);
}

static void on_idle(evutil_socket_t fd, short what, void *arg)
{
	struct inc_client *client = arg;

	if (client->queries) {
		inc_client_idle(client);
		return;
	}
	inc_debug("%s: silent, closed", inc_ndjson_peer(client->conn));
	inc_ndjson_send_error(client->conn, ETIMEDOUT, NULL, "no message within %u ms",
			      client->ctl->opt.client_timeout_ms);
	client_free(client);
}

/* Also after every message, so that the list stays in the order of silence. */
void inc_client_idle(struct inc_client *client)
{
	struct inc_ctl *ctl = client->ctl;

	TAILQ_REMOVE(&ctl->clients, client, entry);
	TAILQ_INSERT_TAIL(&ctl->clients, client, entry);
	if (client->member)
		event_del(client->idle);
	else
		inc_ctl_arm(client->idle, ctl->opt.client_timeout_ms);
}

static void take_ping(struct inc_client *client, json_t *object)
{
	inc_ndjson_send_new(client->conn, json_pack("{s:s}", "type", "pong"));
}

static void take_bye(struct inc_client *client, json_t *object)
{
	client->bye = true;
}

/* Errors and pongs: an answer to them would be answered in turn. */
static void take_nothing(struct inc_client *client, json_t *object)
{
}

static void take_comm(struct inc_client *client, json_t *object)
{
	inc_comm_ask(client->member, object);
}

static void take_ready(struct inc_client *client, json_t *object)
{
	inc_comm_ready(client->member, object);
}

static void take_destroy(struct inc_client *client, json_t *object)
{
	inc_comm_destroy(client->member, object);
}

static void take_failed(struct inc_client *client, json_t *object)
{
	inc_comm_report(client->member, object);
}

static const struct {
	const char *type;
	bool needs_group;
	void (*take)(struct inc_client *client, json_t *object);
} messages[] = {
	{"G", false, inc_group_join},   {"resume", false, inc_group_resume},
	{"C", true, take_comm},         {"ready", true, take_ready},
	{"D", true, take_destroy},      {"failed", true, take_failed},
	{"bye", false, take_bye},       {"A", false, inc_query_ask},
	{"ping", false, take_ping},     {"pong", false, take_nothing},
	{"error", false, take_nothing},
};

static void on_message(struct inc_ndjson *conn, json_t *object, void *arg)
{
	const char *type = inc_ctl_text(object, "type");
	struct inc_client *client = arg;

	for (size_t i = 0; i < sizeof(messages) / sizeof(messages[0]); i++) {
		if (strcmp(messages[i].type, type) != 0)
			continue;
		if (messages[i].needs_group && (!client->member || !client->member->group->formed))
			inc_ndjson_send_error(conn, ENOTCONN, NULL,
					      "'%s' before the group is formed", type);
		else
			messages[i].take(client, object);
		inc_client_idle(client);
		return;
	}
	if (strcmp(type, "hello") == 0)
		inc_ndjson_send_error(conn, EPROTO, NULL,
				      "'hello': this port is for members, and switches use port %u",
				      client->ctl->opt.switch_port);
	else
		inc_ndjson_send_error(conn, EPROTO, NULL, "unknown type '%.32s'", type);
	inc_client_idle(client);
}

static void on_closed(struct inc_ndjson *conn, int code, const char *reason, void *arg)
{
	struct inc_client *client = arg;

	if (code)
		inc_info("%s: %s", inc_ndjson_peer(conn), reason);
	client_close(client, client->bye && !code, reason);
}

/* Full: the longest silent client without a group makes room. False: all have one. */
static bool make_room(struct inc_ctl *ctl)
{
	struct inc_client *client;

	TAILQ_FOREACH(client, &ctl->clients, entry)
	{
		if (client->member)
			continue;
		inc_ctl_log_refused(ctl, "too many clients, those without a group make room");
		inc_ndjson_send_error(client->conn, EMFILE, NULL, "too many clients");
		client_free(client);
		return true;
	}
	return false;
}

void inc_client_accept(struct evconnlistener *l, evutil_socket_t fd, struct sockaddr *addr, int len,
		       void *arg)
{
	static const struct inc_ndjson_ops ops = {.message = on_message, .closed = on_closed};
	struct inc_ctl *ctl = arg;
	const struct inc_ndjson_limits limits = {
		.max_line = CTL_MEMBER_LINE_MAX,
		.max_write = CTL_WRITE_MAX,
		.message_timeout_ms = ctl->opt.client_timeout_ms,
	};
	struct inc_client *client;
	struct inc_err err;

	if (ctl->n_clients >= ctl->opt.max_clients && !make_room(ctl)) {
		inc_ctl_log_refused(ctl, "too many clients, all of them members of groups");
		close(fd);
		return;
	}
	client = calloc(1, sizeof(*client));
	if (!client) {
		close(fd);
		return;
	}
	client->ctl = ctl;
	client->idle = evtimer_new(ctl->base, on_idle, client);
	if (!client->idle)
		goto err;
	client->conn = inc_ndjson_new(ctl->base, fd, &limits, &ops, client, &err);
	if (!client->conn) {
		inc_warn("%s", err.msg);
		goto err_fd_closed;
	}
	TAILQ_INSERT_TAIL(&ctl->clients, client, entry);
	ctl->n_clients++;
	inc_client_idle(client);
	return;

err:
	close(fd);
err_fd_closed:
	if (client->idle)
		event_free(client->idle);
	free(client);
}

void inc_clients_free(struct inc_ctl *ctl)
{
	while (!TAILQ_EMPTY(&ctl->clients))
		client_close(TAILQ_FIRST(&ctl->clients), false, "the controller ends");
}
