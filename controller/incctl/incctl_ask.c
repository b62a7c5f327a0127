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

/* The answer as from a controller that has but this switch. */
static json_t *wrap(const struct incctl_target *target, const json_t *answer)
{
	const char *base = strrchr(target->socket, '/');
	json_t *data = json_object_get(answer, "data");
	const char *name = json_string_value(json_object_get(answer, "switch"));
	char instance[128];
	size_t n;

	snprintf(instance, sizeof(instance), "%s", base ? base + 1 : target->socket);
	n = strlen(instance);
	if (n > 5 && strcmp(instance + n - 5, ".sock") == 0)
		instance[n - 5] = '\0';
	return json_pack("[{s:s, s:O, s:O*}]", "switch", name ? name : instance, "data", data,
			 "next", json_object_get(answer, "next"));
}

struct dialog {
	const struct incctl_target *target;
	const char *who;
	int fd;
	struct inc_lines lines;
	long long deadline_ms;
};

/* One request, one answer: its data as from a controller. only and from: the rest of what one
 * switch has, or NULL. */
static json_t *ask(struct dialog *d, const char *what, const char *only, json_t *from,
		   struct inc_err *err)
{
	const char *type = d->target->socket ? "answer" : "A";
	json_t *request, *answer, *data = NULL;
	int ret;

	request = d->target->socket ? json_pack("{s:s, s:i, s:s, s:O*}", "type", "query", "seq", 1,
						"what", what, "from", from)
				    : json_pack("{s:s, s:s, s:s*, s:O*}", "type", "A", "what", what,
						"switch", only, "from", from);
	ret = write_line(d->fd, request, d->deadline_ms);
	json_decref(request);
	if (ret)
		goto fail;
	for (;;) {
		answer = read_line(d->fd, &d->lines, d->deadline_ms, &ret);
		if (!answer)
			goto fail;
		if (is(answer, "type", type) || is(answer, "type", "error"))
			break;
		json_decref(answer); /* an event, a ping */
	}
	if (is(answer, "type", "error")) {
		const char *text = json_string_value(json_object_get(answer, "message"));

		inc_err_set(err, EIO, "%s: %s", d->who, text ? text : "error");
		json_decref(answer);
		return NULL;
	}
	data = d->target->socket ? wrap(d->target, answer)
				 : json_incref(json_object_get(answer, "data"));
	json_decref(answer);
	if (json_is_array(data))
		return data;
	json_decref(data);
	inc_err_set(err, EBADMSG, "%s: an answer without data", d->who);
	return NULL;
fail:
	inc_err_set(err, -ret, "%s: %s", d->who, strerror(-ret));
	return NULL;
}

/* A switch answers in pages: asks for the others, and puts them behind the first. */
static int ask_rest(struct dialog *d, const char *what, json_t *slot, struct inc_err *err)
{
	const char *name = json_string_value(json_object_get(slot, "switch"));
	json_t *next, *more, *page;
	json_int_t last = 0;

	while ((next = json_object_get(slot, "next"))) {
		if (!name || !json_is_integer(next) || json_integer_value(next) <= last)
			return inc_err_set(err, EBADMSG, "%s: an answer that goes on nowhere",
					   d->who);
		last = json_integer_value(next);
		more = ask(d, what, name, next, err);
		if (!more)
			return -EIO;
		page = json_array_get(more, 0);
		json_array_extend(json_object_get(slot, "data"), json_object_get(page, "data"));
		if (json_object_get(page, "error"))
			json_object_set(slot, "error", json_object_get(page, "error"));
		if (json_object_get(page, "next"))
			json_object_set(slot, "next", json_object_get(page, "next"));
		else
			json_object_del(slot, "next");
		json_decref(more);
	}
	return 0;
}

json_t *incctl_ask(const struct incctl_target *target, const char *what, struct inc_err *err)
{
	struct dialog d = {
		.target = target,
		.who = target->socket ? target->socket : target->controller,
		.lines = {.max_line = INC_ANSWER_MAX},
		.deadline_ms = inc_now_ms() + target->timeout_ms,
	};
	json_t *data, *slot;
	size_t i;

	d.fd = target->socket ? connect_switch(target->socket, d.deadline_ms, err)
			      : connect_controller(target->controller, d.deadline_ms, err);
	if (d.fd < 0)
		return NULL;
	data = ask(&d, what, NULL, NULL, err);
	json_array_foreach (data, i, slot) {
		if (ask_rest(&d, what, slot, err)) {
			json_decref(data);
			data = NULL;
			break;
		}
	}
	inc_lines_free(&d.lines);
	close(d.fd);
	return data;
}
