/* SPDX-License-Identifier: BSD-2-Clause */
/* One question, one answer, over TCP to the controller or a switch's local socket. */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include "lib/base/clock.h"
#include "controller/incctl/incctl.h"
#include "lib/net/hostport.h"
#include "lib/net/lines.h"

/* 0 once fd is ready, -ETIMEDOUT, -errno */
static int wait_for(int fd, short events, long long deadline_ms)
{
	struct pollfd p = {.fd = fd, .events = events};

	for (;;) {
		long long left = deadline_ms - inc_now_ms();
		int n;

		if (left <= 0)
			return -ETIMEDOUT;
		n = poll(&p, 1, left);
		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return -errno;
	}
}

static int connect_within(int fd, const struct sockaddr *addr, socklen_t len, long long deadline_ms)
{
	socklen_t size = sizeof(int);
	int code = 0, ret;

	if (connect(fd, addr, len) == 0)
		return 0;
	if (errno != EINPROGRESS && errno != EAGAIN)
		return -errno;
	ret = wait_for(fd, POLLOUT, deadline_ms);
	if (ret)
		return ret;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &size))
		return -errno;
	return -code;
}

static int connect_switch(const char *path, long long deadline_ms, struct inc_err *err)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int fd, ret;

	if (strlen(path) >= sizeof(addr.sun_path))
		return inc_err_set(err, ENAMETOOLONG, "%s: path too long for a socket", path);
	strcpy(addr.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return inc_err_set(err, errno, "socket: %s", strerror(errno));
	ret = connect_within(fd, (struct sockaddr *)&addr, sizeof(addr), deadline_ms);
	if (!ret)
		return fd;
	close(fd);
	return inc_err_set(err, -ret, "switch at %s: %s", path, strerror(-ret));
}

static int connect_controller(const char *where, long long deadline_ms, struct inc_err *err)
{
	struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
	struct addrinfo *list, *a;
	struct inc_hostport at;
	int ret, fd = -1;

	ret = inc_hostport_parse("controller", where, INC_PORT_MEMBERS, &at, err);
	if (ret)
		return ret;
	ret = getaddrinfo(at.host, at.port, &hints, &list);
	if (ret)
		return inc_err_set(err, EINVAL, "controller %s: %s", where, gai_strerror(ret));
	ret = -EHOSTUNREACH;
	for (a = list; a; a = a->ai_next) {
		fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (fd < 0) {
			ret = -errno;
			continue;
		}
		ret = connect_within(fd, a->ai_addr, a->ai_addrlen, deadline_ms);
		if (!ret)
			break;
		close(fd);
	}
	freeaddrinfo(list);
	if (ret)
		return inc_err_set(err, -ret, "controller %s: %s", where, strerror(-ret));
	return fd;
}

static int write_line(int fd, json_t *object, long long deadline_ms)
{
	size_t len, done = 0;
	char *text = inc_line_of(object, &len);
	int ret = 0;

	if (!text)
		return -ENOMEM;
	while (done < len && !ret) {
		ssize_t n = send(fd, text + done, len - done, MSG_NOSIGNAL);

		if (n > 0)
			done += n;
		else if (errno == EAGAIN)
			ret = wait_for(fd, POLLOUT, deadline_ms);
		else if (errno != EINTR)
			ret = -errno;
	}
	free(text);
	return ret;
}

/* The next object, NULL and *ret on failure. */
static json_t *read_line(int fd, struct inc_lines *lines, long long deadline_ms, int *ret)
{
	json_t *object;
	size_t room;
	char *space;
	ssize_t n;

	for (;;) {
		*ret = inc_lines_next(lines, &object, NULL);
		if (*ret)
			return *ret > 0 ? object : NULL;
		space = inc_lines_space(lines, &room);
		*ret = space ? wait_for(fd, POLLIN, deadline_ms) : -ENOMEM;
		if (*ret)
			return NULL;
		n = recv(fd, space, room, 0);
		if (n > 0)
			inc_lines_filled(lines, n);
		else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
			*ret = n ? -errno : -ECONNRESET;
			return NULL;
		}
	}
}

static bool is(const json_t *object, const char *key, const char *value)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text && strcmp(text, value) == 0;
}

/* The answer (stolen) as from a controller that has but this switch. */
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

struct dialog {
	const struct incctl_target *target;
	const char *who;
	const char *what;
	uint32_t communicator; /* 0: of all */
	int fd;
	struct inc_lines lines;
	long long deadline_ms;
};

static json_t *request(const struct dialog *d, const char *only, json_t *from)
{
	json_t *object = d->target->socket ? json_pack("{s:s, s:i, s:s}", "type", "query", "seq", 1,
						       "what", d->what)
					   : json_pack("{s:s, s:s, s:s*}", "type", "A", "what",
						       d->what, "switch", only);

	if (d->communicator)
		json_object_set_new(object, "communicator", json_integer(d->communicator));
	if (from)
		json_object_set(object, "from", from);
	return object;
}

/* Sends the request (stolen); its answer, of this type. NULL on failure. */
static json_t *exchange(struct dialog *d, json_t *object, const char *type, struct inc_err *err)
{
	int ret = write_line(d->fd, object, d->deadline_ms);
	json_t *answer;

	json_decref(object);
	if (ret)
		goto fail;
	for (;;) {
		answer = read_line(d->fd, &d->lines, d->deadline_ms, &ret);
		if (!answer)
			goto fail;
		if (is(answer, "type", type))
			return answer;
		if (is(answer, "type", "error"))
			break;
		json_decref(answer); /* an event, a ping */
	}
	inc_err_set(err, EIO, "%s: %s", d->who,
		    json_string_value(json_object_get(answer, "message")) ?: "error");
	json_decref(answer);
	return NULL;
fail:
	inc_err_set(err, -ret, "%s: %s", d->who, strerror(-ret));
	return NULL;
}

/* One request, one answer, as from a controller: {"data":[…],"next":…}. only and from: the rest of
 * what one switch, or the controller (NULL), has. */
static json_t *ask(struct dialog *d, const char *only, json_t *from, struct inc_err *err)
{
	const char *type = d->target->socket ? "answer" : "A";
	json_t *answer = exchange(d, request(d, only, from), type, err);

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

/* What is answered in pages has its data and where the next one begins, as the controller's answer
 * and a switch's part of one: asks for the others, and puts them behind the first. name: the
 * switch's, NULL for the controller. */
static int ask_rest(struct dialog *d, json_t *pages, const char *name, struct inc_err *err)
{
	json_t *next, *more, *page;
	json_int_t last = -1; /* 0: nothing of it was in the first answer */

	while ((next = json_object_get(pages, "next"))) {
		if (!json_is_integer(next) || json_integer_value(next) <= last)
			return inc_err_set(err, EBADMSG, "%s: an answer that goes on nowhere",
					   d->who);
		last = json_integer_value(next);
		more = ask(d, name, next, err);
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
	json_t *answer = ask(d, NULL, NULL, err), *data, *slot;
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

/* 0 or -errno; then there is nothing to end. */
static int begin(struct dialog *d, const struct incctl_target *target, struct inc_err *err)
{
	*d = (struct dialog){
		.target = target,
		.who = target->socket ? target->socket : target->controller,
		.lines = {.max_line = INC_ANSWER_MAX},
		.deadline_ms = inc_now_ms() + target->timeout_ms,
	};
	d->fd = target->socket ? connect_switch(target->socket, d->deadline_ms, err)
			       : connect_controller(target->controller, d->deadline_ms, err);
	return d->fd < 0 ? d->fd : 0;
}

static void end(struct dialog *d)
{
	inc_lines_free(&d->lines);
	close(d->fd);
}

json_t *incctl_ask(const struct incctl_target *target, const char *what, uint32_t communicator,
		   struct inc_err *err)
{
	struct dialog d;
	json_t *data;

	if (begin(&d, target, err))
		return NULL;
	d.what = what;
	d.communicator = communicator;
	data = ask_all(&d, err);
	end(&d);
	return data;
}

int incctl_set_mode(const struct incctl_target *target, const char *sw, const char *mode,
		    struct inc_err *err)
{
	struct dialog d;
	json_t *answer;
	int ret = begin(&d, target, err);

	if (ret)
		return ret;
	answer = exchange(&d,
			  json_pack("{s:s, s:s, s:s}", "type", "mode", "switch", sw, "mode", mode),
			  "mode", err);
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
