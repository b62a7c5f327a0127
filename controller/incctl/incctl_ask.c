/* SPDX-License-Identifier: BSD-2-Clause */
/* Asks one question and reads one answer, over TCP from the controller or from a switch's local
 * socket. Makes texts of peers safe for the terminal on which incctl prints them. Examines the way
 * to the controller for incctl check. */
#include <jansson.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include "lib/base/clock.h"
#include "lib/base/printable.h"
#include "lib/check/inspect.h"
#include "lib/conf/messages.h"
#include "controller/incctl/incctl.h"
#include "lib/net/hostport.h"
#include "lib/net/race.h"
#include "lib/net/stream_lines.h"
#include "lib/net/wait.h"

static int connect_within(int fd, const struct sockaddr *addr, socklen_t len, uint64_t deadline_ns)
{
	socklen_t size = sizeof(int);
	int code = 0, ret;

	if (connect(fd, addr, len) == 0)
		return 0;
	if (errno != EINPROGRESS && errno != EAGAIN)
		return -errno;
	ret = inc_wait_for(fd, POLLOUT, -1, deadline_ns);
	if (ret)
		return ret;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &size))
		return -errno;
	return -code;
}

static int connect_switch(const char *path, uint64_t deadline_ns, struct inc_err *err)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int fd, ret;

	if (strlen(path) >= sizeof(addr.sun_path))
		return inc_err_set(err, ENAMETOOLONG, "%s: path too long for a socket", path);
	strcpy(addr.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return inc_err_set(err, errno, "socket: %s", strerror(errno));
	ret = connect_within(fd, (struct sockaddr *)&addr, sizeof(addr), deadline_ns);
	if (!ret)
		return fd;
	close(fd);
	return inc_err_set(err, -ret, "switch at %s: %s", path, strerror(-ret));
}

static int write_line(struct inc_stream *stream, json_t *object, uint64_t deadline_ns)
{
	size_t len;
	char *text = inc_line_of(object, &len);
	int ret = text ? inc_stream_send(stream, text, len, deadline_ns) : -ENOMEM;

	free(text);
	return ret;
}

/* Makes the answer of a switch's own socket look like that of a controller with this switch alone.
 * Consumes the reference to the answer. */
static json_t *wrap(const struct incctl_target *target, json_t *answer)
{
	const char *base = strrchr(target->socket, '/');
	json_t *data = json_object_get(answer, "data");
	const char *name = json_string_value(json_object_get(answer, "switch"));
	char instance[128];
	json_t *pages;
	size_t n;

	snprintf(instance, sizeof(instance), "%s", base ? base + 1 : target->socket);
	n = strlen(instance);
	if (n > 5 && strcmp(instance + n - 5, ".sock") == 0)
		instance[n - 5] = '\0';
	pages = json_pack("{s:[{s:s, s:O, s:O*}]}", "data", "switch", name ? name : instance,
			  "data", data, "next", json_object_get(answer, "next"));
	json_decref(answer);
	return pages;
}

#define FIRST_PAGE (-1)

struct dialog {
	const struct incctl_target *target;
	const char *who;
	const char *what;
	/* number of the only communicator of interest in the question; 0: all */
	uint32_t communicator;
	struct inc_stream stream;
	struct inc_lines lines;
	uint64_t deadline_ns;
	int refusal; /* errno code with which the other side has refused the question; or 0 */
};

/* Makes the message of a question. `only` is the switch to ask, or NULL for all. `from` is
 * FIRST_PAGE, or the number with which the wanted page begins. */
static json_t *request(const struct dialog *d, const char *only, int64_t from)
{
	struct inc_msg_query said = {
		.has_node = only && !d->target->socket,
		.has_communicator = d->communicator,
		.communicator = d->communicator,
		.has_from = from != FIRST_PAGE,
		.from = from,
	};
	json_t *object;

	snprintf(said.what, sizeof(said.what), "%s", d->what);
	snprintf(said.node, sizeof(said.node), "%s", only ?: "");
	if (!d->target->socket)
		return inc_message_new(INC_MSG_QUESTION, &said);
	object = inc_message_new(INC_MSG_QUERY, &said);
	json_object_set_new(object, "seq", json_integer(1));
	return object;
}

/* Sends a question, whose reference it consumes, and waits for the answer. Returns the answer,
 * whose type is id, or NULL after an error. */
static json_t *exchange(struct dialog *d, json_t *object, enum inc_message_id id,
			struct inc_err *err)
{
	int ret = write_line(&d->stream, object, d->deadline_ns);
	struct inc_err why;
	json_t *answer;

	json_decref(object);
	if (ret) {
		inc_err_set(err, -ret, "%s: %s", d->who, strerror(-ret));
		return NULL;
	}
	for (;;) {
		answer = inc_stream_next(&d->stream, &d->lines, d->deadline_ns, &why);
		if (!answer) {
			inc_err_set(err, EIO, "%s: %s", d->who, why.msg);
			return NULL;
		}
		if (inc_message_is(inc_message_type(answer), id))
			return answer;
		if (inc_message_is(inc_message_type(answer), INC_MSG_ERROR))
			break;
		json_decref(answer); /* an event or a ping, which is no answer */
	}
	inc_err_set(err, EIO, "%s: %s", d->who,
		    json_string_value(json_object_get(answer, "message")) ?: "error");
	d->refusal = inc_errno_from_name(incctl_text(answer, "errno") ?: "") ?: EIO;
	json_decref(answer);
	return NULL;
}

/* Asks for one page of an answer, and returns it in the form of a controller:
 * {"data":[…],"next":…}. `only` is the switch to ask, or NULL for the controller's own data or all
 * switches. Returns NULL with the reason in err after an error. */
static json_t *ask(struct dialog *d, const char *only, int64_t from, struct inc_err *err)
{
	enum inc_message_id id = d->target->socket ? INC_MSG_ANSWER : INC_MSG_TOLD;
	json_t *answer = exchange(d, request(d, only, from), id, err);

	if (answer && d->target->socket)
		answer = wrap(d->target, answer);
	if (!answer)
		return NULL;
	if (json_is_array(json_object_get(answer, "data")))
		return answer;
	json_decref(answer);
	inc_err_set(err, EBADMSG, "%s: an answer without data", d->who);
	return NULL;
}

/* Asks for the pages of an answer behind the first one, and appends their data to that of the first
 * one. Argument pages is the controller's answer, or a switch's part of it. It has "data", and
 * "next" if there are more pages. Argument name is the switch, or NULL for the controller. Returns
 * 0 or -errno. */
static int ask_rest(struct dialog *d, json_t *pages, const char *name, struct inc_err *err)
{
	json_t *next, *more, *page;
	/* Beginning of the last page. Page 0 may follow it, if the first answer had no data of the
	 * switch. */
	json_int_t last = FIRST_PAGE;

	while ((next = json_object_get(pages, "next"))) {
		if (!json_is_integer(next) || json_integer_value(next) <= last ||
		    json_integer_value(next) > UINT32_MAX)
			return inc_err_set(err, EBADMSG, "%s: an answer with a wrong next page",
					   d->who);
		last = json_integer_value(next);
		more = ask(d, name, last, err);
		if (!more)
			return -EIO;
		page = name ? json_array_get(json_object_get(more, "data"), 0) : more;
		json_array_extend(json_object_get(pages, "data"), json_object_get(page, "data"));
		if (json_object_get(page, "error"))
			json_object_set(pages, "error", json_object_get(page, "error"));
		if (json_object_get(page, "next"))
			json_object_set(pages, "next", json_object_get(page, "next"));
		else
			json_object_del(pages, "next");
		json_decref(more);
	}
	return 0;
}

static json_t *ask_all(struct dialog *d, struct inc_err *err)
{
	json_t *answer = ask(d, NULL, FIRST_PAGE, err), *data, *slot;
	int ret = answer ? ask_rest(d, answer, NULL, err) : -EIO;
	size_t i;

	data = ret ? NULL : json_incref(json_object_get(answer, "data"));
	json_decref(answer);
	json_array_foreach (data, i, slot) {
		if (!ask_rest(d, slot, incctl_text(slot, "switch"), err))
			continue;
		json_decref(data);
		return NULL;
	}
	return data;
}

/* Connects to the controller that leads, with TLS if there are keys. Returns 0 or -errno. */
static int begin_controller(struct dialog *d, unsigned int default_port, struct inc_err *err)
{
	const struct incctl_target *target = d->target;
	struct inc_tls *tls = NULL;
	struct inc_hostports all;
	unsigned int at = 0;
	struct inc_err why;
	int ret = inc_hostports_parse("controller", target->controller, default_port, &all, err);

	if (ret)
		return ret;
	if (inc_tls_wanted(&target->tls)) {
		tls = inc_tls_client(&target->tls, err);
		if (!tls)
			return -EINVAL;
	}
	ret = inc_stream_reach(&d->stream, &all, &at, tls, d->deadline_ns, true, &why);
	if (ret)
		inc_err_set(err, -ret, "controller %s: %s", target->controller, why.msg);
	inc_tls_free(tls);
	return ret;
}

/* Connects to the controller or to a switch's socket. Returns 0, or -errno, after which end() must
 * not be called. */
static int begin(struct dialog *d, const struct incctl_target *target, struct inc_err *err)
{
	int fd;

	*d = (struct dialog){
		.target = target,
		.who = target->socket ? target->socket : target->controller,
		.lines = {.max_line = INC_ANSWER_MAX},
		.deadline_ns = inc_now_ns() + target->timeout_ms * INC_NSEC_PER_MSEC,
	};
	if (!target->socket)
		return begin_controller(d, INC_PORT_MEMBERS, err);
	fd = connect_switch(target->socket, d->deadline_ns, err);
	return fd < 0 ? fd : inc_stream_open(&d->stream, fd, NULL, NULL, d->deadline_ns, -1, err);
}

static void end(struct dialog *d)
{
	inc_lines_free(&d->lines);
	inc_stream_close(&d->stream);
}

int incctl_reach(const struct incctl_target *target, unsigned int default_port, struct inc_err *err)
{
	struct dialog d = {
		.target = target,
		.deadline_ns = inc_now_ns() + target->timeout_ms * INC_NSEC_PER_MSEC,
	};
	const int ret = begin_controller(&d, default_port, err);

	if (!ret)
		end(&d);
	return ret;
}

/* Asks a question. Returns 0 and the data of the answer. Otherwise *data is NULL, and it returns
 * the negative errno code with which the question was refused, or another -errno. */
static int ask_question(const struct incctl_target *target, const char *what, uint32_t communicator,
			json_t **data, struct inc_err *err)
{
	struct dialog d;
	int ret = begin(&d, target, err);

	*data = NULL;
	if (ret)
		return ret;
	d.what = what;
	d.communicator = communicator;
	*data = ask_all(&d, err);
	end(&d);
	return *data ? 0 : -(d.refusal ?: EIO);
}

json_t *incctl_ask(const struct incctl_target *target, const char *what, uint32_t communicator,
		   struct inc_err *err)
{
	json_t *data;

	ask_question(target, what, communicator, &data, err);
	return data;
}

int incctl_set_mode(const struct incctl_target *target, const char *sw, const char *mode,
		    struct inc_err *err)
{
	struct dialog d;
	json_t *answer;
	int ret;

	if (!inc_is_word(sw))
		return inc_err_set(err, EINVAL, "'%.300s' is not the name of a switch", sw);
	ret = begin(&d, target, err);
	if (ret)
		return ret;
	answer = exchange(&d,
			  json_pack("{s:s, s:s, s:s}", "type", inc_messages[INC_MSG_SET_MODE].type,
				    "switch", sw, "mode", mode),
			  INC_MSG_MODE_SET, err);
	end(&d);
	json_decref(answer);
	return answer ? 0 : -EIO;
}

int incctl_sample(const struct incctl_target *target, const char *what, uint32_t communicator,
		  struct incctl_sample *out, struct inc_err *err)
{
	const uint64_t asked_at_ns = inc_now_ns();

	out->data = incctl_ask(target, what, communicator, err);
	if (!out->data)
		return -EIO;
	out->at_ns = asked_at_ns + (inc_now_ns() - asked_at_ns) / 2;
	return 0;
}

json_t *incctl_rate(const json_t *now, const json_t *before, uint64_t ns)
{
	const json_int_t grown = json_integer_value(now) - json_integer_value(before);

	if (!now || !before || grown < 0 || !ns)
		return json_null();
	return json_real((double)grown * INC_NSEC_PER_SEC / ns);
}

/* ---- texts of peers ---- */

/* Replaces the characters of a text that a terminal must not receive. Whole characters are
 * replaced, so that valid UTF-8 stays valid. */
static void clean_string(json_t *value)
{
	char *copy = strdup(json_string_value(value));

	if (!copy) {
		json_string_set(value, "?");
		return;
	}
	inc_printable(copy);
	json_string_set(value, copy);
	free(copy);
}

void incctl_printable(json_t *value)
{
	const char *key;
	json_t *v;
	size_t i;

	if (json_is_string(value))
		clean_string(value);
	json_array_foreach (value, i, v)
		incctl_printable(v);
	json_object_foreach (value, key, v)
		incctl_printable(v);
}

/* ---- incctl check: the controller and the keys ------------------------------------------- */

static const char *fix_of(int error)
{
	if (error == ECONNREFUSED)
		return "start it there (systemctl start inc-controller), or name all controllers "
		       "if it "
		       "stands by (--controller HOST,HOST)";
	if (error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH)
		return "examine the route and the firewalls on the way: its TCP port must be open";
	return "give the address and the key that this controller accepts (--controller, --key)";
}

/* Whether the identity is that of a switch, which has a port of its own and asks no questions. */
static bool is_switch(const char *identity)
{
	return !strncmp(identity, "switch:", strlen("switch:"));
}

/* Examines what the controller lets this identity do, after it has accepted a connection. */
static void examine_identity(const struct incctl_target *target, struct inc_findings *f,
			     const char *where, const char *identity)
{
	struct inc_err err;
	json_t *data;
	int ret;

	if (is_switch(identity)) {
		inc_find(f, INC_FINDING_OK, where, "identity", "it accepts %.128s", identity);
		return;
	}
	ret = ask_question(target, "switches", 0, &data, &err);
	json_decref(data);
	if (ret == -ENOTCONN || ret == -EACCES)
		inc_find_fix(
			inc_find(f, INC_FINDING_PROBLEM, where, "identity", "%.250s", err.msg),
			"No job can begin.", "%s",
			ret == -ENOTCONN
				? "name the controller with its port for members (--controller)"
				: "use the key of a job, a member or an admin (docs/control.md, "
				  "\"Keys\")");
	else if (ret)
		inc_find_fix(inc_find(f, INC_FINDING_WARNING, where, "identity", "%.250s", err.msg),
			     "It does not answer questions of this identity.",
			     "read the log of inc-controller, which has the reason");
	else if (*identity)
		inc_find(f, INC_FINDING_OK, where, "identity", "it accepts %.128s", identity);
	else if (inc_tls_wanted(&target->tls))
		inc_find(f, INC_FINDING_OK, where, "identity", "it accepts this certificate");
	else
		inc_find_fix(
			inc_find(f, INC_FINDING_WARNING, where, "identity", "it accepts everybody"),
			"Any machine that reaches the controller can control its switches.",
			"start inc-controller with --key FILE (docs/control.md, \"Keys\")");
}

void incctl_check_controller(const struct incctl_target *target, bool named, struct inc_findings *f)
{
	char identity[INC_TLS_IDENTITY_MAX + 1] = "", where[80];
	struct inc_listener here;
	struct inc_err err;
	uint64_t begin_ns;
	int ret;

	if (target->tls.key)
		inc_inspect_key(f, target->tls.key, identity);
	inc_listener_find(false, INC_PORT_MEMBERS, &here);
	if (!named && !here.found) {
		inc_find(f, INC_FINDING_SKIPPED, "controller", "answers",
			 "none runs here, and neither --controller nor INCCL_CONTROLLER names one");
		return;
	}
	snprintf(where, sizeof(where), "controller %.60s", target->controller);
	begin_ns = inc_now_ns();
	ret = incctl_reach(target, is_switch(identity) ? INC_PORT_SWITCHES : INC_PORT_MEMBERS,
			   &err);
	if (ret) {
		inc_find_fix(inc_find(f, INC_FINDING_PROBLEM, where, "answers", "%.250s", err.msg),
			     "No job can begin.", "%s", fix_of(-ret));
		return;
	}
	inc_find(f, INC_FINDING_OK, where, "answers", "connected within %.1f ms",
		 (inc_now_ns() - begin_ns) / 1e6);
	examine_identity(target, f, where, identity);
}
