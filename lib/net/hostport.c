/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include "lib/base/opt.h"
#include "lib/base/os.h"
#include "lib/net/hostport.h"

/* Splits a text into host and port, without checking either. *port becomes NULL if there is none. A
 * text with several colons and no brackets is a host alone. Returns false if the host is empty or
 * the brackets are wrong. */
static bool split(const char *text, const char **host, size_t *len, const char **port)
{
	const char *colon = strrchr(text, ':'), *end;

	*host = text;
	*port = NULL;
	if (*text == '[') {
		end = strchr(text, ']');
		if (!end || (end[1] && end[1] != ':'))
			return false;
		*host = text + 1;
		*len = end - text - 1;
		*port = end[1] ? end + 2 : NULL;
	} else if (colon && strchr(text, ':') == colon) {
		*len = colon - text;
		*port = colon + 1;
	} else {
		*len = strlen(text); /* the text is a name, or an IPv6 address without brackets */
	}
	return *len > 0;
}

/* Parses a port from least to 65535. getaddrinfo() is no check, because it accepts larger numbers
 * and lets them wrap. */
static bool take_port(const char *text, unsigned int least, unsigned int *out)
{
	unsigned int v = 0;
	const char *p;

	for (p = text; *p >= '0' && *p <= '9' && v <= 65535; p++)
		v = v * 10 + (*p - '0');
	*out = v;
	return p != text && !*p && v >= least && v <= 65535;
}

/* Parses HOST or HOST:PORT into out. least: the least port that is allowed. Returns the reason why
 * the text is invalid; NULL: it is valid. */
static const char *take_text(const char *text, unsigned int least, unsigned int default_port,
			     struct inc_hostport *out)
{
	unsigned int port = default_port;
	const char *host, *port_text;
	size_t len;

	if (!split(text, &host, &len, &port_text) || len >= sizeof(out->host))
		return "not HOST or HOST:PORT";
	if (port_text && !take_port(port_text, least, &port))
		return least ? "the port is not a number from 1 to 65535"
			     : "the port is not a number from 0 to 65535";
	memcpy(out->host, host, len);
	out->host[len] = 0;
	snprintf(out->port, sizeof(out->port), "%u", port);
	return NULL;
}

int inc_hostport_parse(const char *what, const char *text, unsigned int default_port,
		       struct inc_hostport *out, struct inc_err *err)
{
	const char *why = take_text(text, 1, default_port, out);

	return why ? inc_err_set(err, EINVAL, "%s '%.300s': %s", what, text, why) : 0;
}

int inc_hostport_check(const char *text, struct inc_err *err)
{
	struct inc_hostport at;
	const char *why = take_text(text, 1, INC_PORT_MEMBERS, &at);

	return why ? inc_err_set(err, EINVAL, "'%.300s': %s", text, why) : 0;
}

/* Parses the list of controllers. Returns the reason why the text is invalid; NULL: it is valid. */
static const char *take_list(const char *text, unsigned int default_port, struct inc_hostports *out)
{
	char one[INC_HOSTPORT_TEXT_BYTES];
	const char *why = NULL;

	for (out->n = 0; !why && text; out->n++) {
		const char *comma = strchrnul(text, ',');

		if (out->n == INC_HOSTPORTS_MAX)
			return "more than " INC_STR(INC_HOSTPORTS_MAX) " controllers";
		if ((size_t)snprintf(one, sizeof(one), "%.*s", (int)(comma - text), text) >=
		    sizeof(one))
			return "not HOST or HOST:PORT";
		why = take_text(one, 1, default_port, &out->at[out->n]);
		text = *comma ? comma + 1 : NULL;
	}
	return why;
}

int inc_hostports_parse(const char *what, const char *text, unsigned int default_port,
			struct inc_hostports *out, struct inc_err *err)
{
	const char *why = take_list(text, default_port, out);

	return why ? inc_err_set(err, EINVAL, "%s '%.300s': %s", what, text, why) : 0;
}

int inc_hostports_check(const char *text, struct inc_err *err)
{
	struct inc_hostports all;
	const char *why = take_list(text, INC_PORT_MEMBERS, &all);

	return why ? inc_err_set(err, EINVAL, "'%.300s': %s", text, why) : 0;
}

int inc_hostport_listen(const char *what, const char *text, unsigned int default_port,
			struct addrinfo **out, struct inc_err *err)
{
	const struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV,
				       .ai_socktype = SOCK_STREAM};
	struct inc_hostport at;
	const char *why = take_text(text, 0, default_port, &at);

	if (!why && getaddrinfo(at.host, at.port, &hints, out))
		why = "not an IPv4 or IPv6 address";
	return why ? inc_err_set(err, EINVAL, "%s '%.300s': %s", what, text, why) : 0;
}

int inc_hostport_name(const struct sockaddr *addr, size_t len, struct inc_hostport *out)
{
	struct sockaddr_in in = {.sin_family = AF_INET};
	struct sockaddr_in6 in6;

	if (addr->sa_family == AF_INET6 && len >= sizeof(in6)) {
		memcpy(&in6, addr, sizeof(in6));
		if (IN6_IS_ADDR_V4MAPPED(&in6.sin6_addr)) {
			in.sin_port = in6.sin6_port;
			memcpy(&in.sin_addr, in6.sin6_addr.s6_addr + 12, sizeof(in.sin_addr));
			addr = (const struct sockaddr *)&in;
			len = sizeof(in);
		}
	} else if (addr->sa_family != AF_INET) {
		return -EINVAL;
	}
	return getnameinfo(addr, len, out->host, sizeof(out->host), out->port, sizeof(out->port),
			   NI_NUMERICHOST | NI_NUMERICSERV)
		       ? -EINVAL
		       : 0;
}

int inc_hostport_peer_text(int fd, char *out, size_t size)
{
	struct sockaddr_storage addr = {0};
	struct inc_hostport peer;
	socklen_t len;

	snprintf(out, size, "unix");
	if (inc_os.stream.peer(fd, &addr, &len) ||
	    inc_hostport_name((struct sockaddr *)&addr, len, &peer))
		return -EINVAL;
	snprintf(out, size, strchr(peer.host, ':') ? "[%s]:%s" : "%s:%s", peer.host, peer.port);
	return 0;
}

int inc_socket_path_check(const char *text, struct inc_err *err)
{
	if (*text && strlen(text) < sizeof((struct sockaddr_un){}.sun_path))
		return 0;
	return inc_err_set(err, EINVAL, "'%.300s' is not the path of a socket", text);
}
