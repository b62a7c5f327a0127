/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tries a second connection to the controller, before switch_client.c closes the first one to send
 * a new hello. The controller may accept no new connection, for example because it has another key
 * for this switch by now. Then the first connection stays, because communicators in termination
 * mode end soon after a switch has closed its connection. The ping on the second connection names
 * the switch. So there is no pong if the keys of both sides do not match, and also if the key is
 * that of another identity, whose hello would be refused.
 *
 * It also reads the switch's key again, so that a new key needs no new daemon. Before a connection
 * is closed, it announces there that the switch will connect again. All functions run on the event
 * loop's thread.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/net/lines.h"
#include "lib/net/loop.h"
#include "lib/net/racing.h"
#include "userspace/addresses.h"
#include "userspace/switchd.h"

#define ANSWER_MS   5000 /* time limit for connecting, and then for the answer */
#define WAIT_MIN_MS 1000 /* wait after an attempt that has failed; it doubles each time */
#define WAIT_MAX_MS 30000
#define MAX_BYTES   65536

struct inc_renewal {
	struct inc_daemon *d;
	struct inc_renewal_owner owner;
	/* text that names what the last hello lacks; NULL: no attempt is under way */
	const char *why;
	const char *name; /* of the controller, as the user gave it */
	const char *host;
	struct inc_tls *tls; /* of the attempt, which is one of its owners; NULL: without TLS */
	struct inc_racing *racing;
	struct inc_ndjson *conn;
	struct inc_timer *timer; /* time limit of the attempt, or the wait for the next one */
	unsigned int wait_ms;
	char said[sizeof(((struct inc_err *)0)->msg)]; /* the last failure that was logged */
	char key_said[sizeof(((struct inc_err *)0)->msg)];
};

/* Ends the attempt that is under way. */
static void stop(struct inc_renewal *r)
{
	inc_racing_cancel(r->racing);
	r->racing = NULL;
	if (r->conn)
		inc_ndjson_free(r->conn);
	r->conn = NULL;
	inc_tls_free(r->tls);
	r->tls = NULL;
	r->why = NULL;
	inc_timer_stop(r->timer);
}

/* Sends a ping that names the switch, by which the controller learns that it will connect again. */
static void announce(const struct inc_renewal *r, struct inc_ndjson *conn)
{
	struct inc_msg_query trial = {.has_node = true};

	strcpy(trial.node, r->d->conf.name);
	inc_ndjson_send_new(conn, inc_message_new(INC_MSG_TRIAL, &trial));
}

void inc_renewal_end(struct inc_renewal *r, struct inc_ndjson *closing)
{
	if (closing)
		announce(r, closing);
	stop(r);
	r->wait_ms = WAIT_MIN_MS;
	r->said[0] = '\0';
}

/* Writes the command by which the controller accepts a new connection again. refused: the
 * controller and this switch do not accept each other's identity. */
static void print_remedy(const struct inc_renewal *r, bool refused, char *text, size_t size)
{
	const struct inc_tls_files *files = &r->d->opt.tls;

	if (!refused)
		snprintf(text, size, "incctl check --controller %s examines the way to it",
			 r->host);
	else if (files->key)
		snprintf(text, size,
			 "give this switch the key that the controller has for it, which "
			 "inc-switchd reads before it tries again: install -m 600 NEW-KEY %s",
			 files->key);
	else
		snprintf(text, size,
			 "replace the certificate, which inc-switchd reads before it tries again: "
			 "openssl x509 -noout -text -in %s shows it",
			 files->cert);
}

/* The attempt has failed with this errno. The next one comes after a wait. */
static void fail(struct inc_renewal *r, int code, const char *reason)
{
	char remedy[512];

	/* EPROTO is that of a handshake that fails (lib/net/tls.c), and EACCES that of a controller
	 * which accepts this key for another switch */
	print_remedy(r, r->tls && (code == EPROTO || code == EACCES), remedy, sizeof(remedy));
	if (strncmp(r->said, reason, sizeof(r->said) - 1) != 0)
		inc_error("controller %s: %s, but the controller accepts no new connection: %s; "
			  "the present one stays, so jobs go on, but new jobs lack the change; "
			  "%s",
			  r->name, r->why, reason, remedy);
	snprintf(r->said, sizeof(r->said), "%s", reason);
	stop(r); /* frees the connection, to which the reason may belong */
	inc_timer_arm(r->timer, r->wait_ms);
	r->wait_ms = r->wait_ms * 2 > WAIT_MAX_MS ? WAIT_MAX_MS : r->wait_ms * 2;
}

static void on_message(struct inc_ndjson *conn, json_t *object, void *arg)
{
	const char *type = inc_message_type(object);
	struct inc_msg_error said = {.message = "refused"};
	struct inc_renewal *r = arg;
	const char *why = r->why;

	if (inc_message_is(type, INC_MSG_PONG)) {
		inc_renewal_end(r, NULL);
		r->owner.accepted(r->owner.arg, why);
	} else if (inc_message_is(type, INC_MSG_ERROR)) {
		inc_message_read(INC_MSG_ERROR, object, &said, NULL);
		fail(r, said.code, said.message);
	}
}

static void on_closed(struct inc_ndjson *conn, int code, const char *reason, void *arg)
{
	fail(arg, code, reason);
}

static void on_reached(void *arg, int fd)
{
	static const struct inc_ndjson_ops ops = {.message = on_message, .closed = on_closed};
	static const struct inc_ndjson_limits limits = {
		.max_line = MAX_BYTES, .max_write = MAX_BYTES, .message_timeout_ms = ANSWER_MS};
	struct inc_renewal *r = arg;
	struct inc_err err = {};

	r->racing = NULL;
	if (fd < 0) {
		fail(r, -fd, strerror(-fd));
		return;
	}
	r->conn = inc_ndjson_new(r->d->base, fd, &limits, &ops, r, &err);
	if (!r->conn || (r->tls && inc_ndjson_secure(r->conn, r->tls, r->host, &err))) {
		fail(r, EIO, err.msg);
		return;
	}
	announce(r, r->conn);
	inc_timer_arm(r->timer, ANSWER_MS);
}

static void on_timer(void *arg)
{
	struct inc_renewal *r = arg;

	if (r->why)
		fail(r, ETIMEDOUT, "no answer");
	else
		r->owner.due(r->owner.arg);
}

void inc_renewal_try(struct inc_renewal *r, const char *name, struct inc_addresses *addresses,
		     struct inc_tls **tls, const char *why)
{
	const struct addrinfo *list;
	const char *reason;
	int ret;

	if (r->why || inc_timer_runs(r->timer))
		return;
	r->why = why;
	r->name = name;
	r->host = inc_addresses_host(addresses);
	inc_renewal_read_key(r, tls);
	r->tls = *tls ? inc_tls_hold(*tls) : NULL;
	list = inc_addresses_take(addresses, &reason);
	if (!list) {
		fail(r, EHOSTUNREACH, reason);
		return;
	}
	ret = inc_racing_start(r->d->base, list, inc_now_ns() + ANSWER_MS * INC_NSEC_PER_MSEC,
			       on_reached, r, &r->racing);
	if (ret)
		fail(r, -ret, strerror(-ret));
}

void inc_renewal_read_key(struct inc_renewal *r, struct inc_tls **tls)
{
	struct inc_err err = {};
	struct inc_tls *fresh = *tls ? inc_tls_client(&r->d->opt.tls, &err) : NULL;

	if (fresh) {
		inc_tls_free(*tls);
		*tls = fresh;
	} else if (*tls && strcmp(r->key_said, err.msg) != 0) {
		inc_warn("%s; the key that was read before stays in use", err.msg);
	}
	snprintf(r->key_said, sizeof(r->key_said), "%s", err.msg);
}

struct inc_renewal *inc_renewal_new(struct inc_daemon *d, const struct inc_renewal_owner *owner)
{
	struct inc_renewal *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->d = d;
	r->owner = *owner;
	r->wait_ms = WAIT_MIN_MS;
	r->timer = inc_timer_new(d->base, on_timer, r);
	if (r->timer)
		return r;
	free(r);
	return NULL;
}

void inc_renewal_free(struct inc_renewal *r)
{
	if (!r)
		return;
	stop(r);
	inc_timer_free(r->timer);
	free(r);
}
