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
#include "controller/incctl.h"

#define ANSWER_MAX (64u << 20) /* several switches' connections fit */

static long long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000ll + now.tv_nsec / 1000000;
}

/* 0 once fd is ready, -ETIMEDOUT, -errno */
static int wait_for(int fd, short events, long long deadline_ms)
{
	struct pollfd p = {.fd = fd, .events = events};

	for (;;) {
		long long left = deadline_ms - now_ms();
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
	const char *port = "52200", *colon = strchr(where, ':');
	char host[256];
	int ret, fd = -1;

	if (colon)
		port = colon + 1;
	snprintf(host, sizeof(host), "%.*s", colon ? (int)(colon - where) : (int)strlen(where),
		 where);
	ret = getaddrinfo(host, port, &hints, &list);
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
	char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
	size_t len, done = 0;
	int ret = 0;

	if (!text)
		return -ENOMEM;
	len = strlen(text);
	text[len++] = '\n'; /* in the place of the terminator */
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

struct reader {
	int fd;
	char *buf;
	size_t len, room;
};

/* The next line as an object, NULL and *ret on failure. */
static json_t *read_line(struct reader *r, long long deadline_ms, int *ret)
{
	for (;;) {
		char *end = r->len ? memchr(r->buf, '\n', r->len) : NULL;
		ssize_t n;

		if (end) {
			json_t *object = json_loadb(r->buf, end - r->buf, 0, NULL);

			r->len -= end + 1 - r->buf;
			memmove(r->buf, end + 1, r->len);
			*ret = -EBADMSG;
			return object;
		}
		if (r->len == r->room) {
			size_t room = r->room ? r->room * 2 : 65536;
			char *more = room <= ANSWER_MAX ? realloc(r->buf, room) : NULL;

			if (!more) {
				*ret = room <= ANSWER_MAX ? -ENOMEM : -EMSGSIZE;
				return NULL;
			}
			r->buf = more;
			r->room = room;
		}
		*ret = wait_for(r->fd, POLLIN, deadline_ms);
		if (*ret)
			return NULL;
		n = recv(r->fd, r->buf + r->len, r->room - r->len, 0);
		if (n > 0) {
			r->len += n;
		} else if (n == 0) {
			*ret = -ECONNRESET;
			return NULL;
		} else if (errno != EAGAIN && errno != EINTR) {
			*ret = -errno;
			return NULL;
		}
	}
}

static bool is(const json_t *object, const char *key, const char *value)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text && strcmp(text, value) == 0;
}

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
	return json_pack("[{s:s, s:O}]", "switch", name ? name : instance, "data", data);
}

json_t *incctl_ask(const struct incctl_target *target, const char *what, struct inc_err *err)
{
	const char *who = target->socket ? target->socket : target->controller;
	const char *type = target->socket ? "answer" : "A";
	long long deadline_ms = now_ms() + target->timeout_ms;
	struct reader reader = {0};
	json_t *request, *answer = NULL, *data = NULL;
	int ret;

	reader.fd = target->socket ? connect_switch(target->socket, deadline_ms, err)
				   : connect_controller(target->controller, deadline_ms, err);
	if (reader.fd < 0)
		return NULL;
	request = target->socket
			  ? json_pack("{s:s, s:i, s:s}", "type", "query", "seq", 1, "what", what)
			  : json_pack("{s:s, s:s}", "type", "A", "what", what);
	ret = write_line(reader.fd, request, deadline_ms);
	json_decref(request);
	if (ret)
		goto fail;
	for (;;) {
		answer = read_line(&reader, deadline_ms, &ret);
		if (!answer)
			goto fail;
		if (is(answer, "type", type) || is(answer, "type", "error"))
			break;
		json_decref(answer); /* an event, a ping */
	}
	if (is(answer, "type", "error")) {
		const char *text = json_string_value(json_object_get(answer, "message"));

		inc_err_set(err, EIO, "%s: %s", who, text ? text : "error");
		goto out;
	}
	data = target->socket ? wrap(target, answer) : json_incref(json_object_get(answer, "data"));
	if (!json_is_array(data)) {
		inc_err_set(err, EBADMSG, "%s: an answer without data", who);
		json_decref(data);
		data = NULL;
	}
	goto out;
fail:
	inc_err_set(err, -ret, "%s: %s", who, strerror(-ret));
out:
	json_decref(answer);
	free(reader.buf);
	close(reader.fd);
	return data;
}
