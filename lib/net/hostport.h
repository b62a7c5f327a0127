/* SPDX-License-Identifier: BSD-2-Clause */
/* HOST, HOST:PORT, [IPv6]:PORT, [IPv6] or IPv6, as users name a controller. */
#ifndef INC_HOSTPORT_H
#define INC_HOSTPORT_H

#include <net/if.h>
#include <netinet/in.h>
#include <stddef.h>
#include "lib/base/err.h"

#define INC_PORT_MEMBERS  52200 /* of a controller, for members and tools */
#define INC_PORT_SWITCHES 52311 /* of a controller, for switches */

struct inc_hostport {
	char host[256]; /* without brackets */
	char port[6];   /* "1" to "65535", as getaddrinfo() wants it */
};

/*
 * what names the text in the error ("controller"). default_port stands where the text has
 * none. 0, or -EINVAL with a message.
 */
int inc_hostport_parse(const char *what, const char *text, unsigned int default_port,
		       struct inc_hostport *out, struct inc_err *err);

/* The same of a text alone: nothing is looked up, nothing is kept. */
int inc_hostport_check(const char *text, struct inc_err *err);

struct addrinfo;
struct sockaddr;

/* An address that the system tells, in numbers; who comes by IPv4 to a socket of both families is
 * named as elsewhere. 0, or -EINVAL: it is neither IPv4 nor IPv6. */
int inc_hostport_name(const struct sockaddr *addr, size_t len, struct inc_hostport *out);

/* Room for the longest text of inc_hostport_peer_text(), "[IPv6%interface]:port" and its NUL. */
#define INC_PEER_TEXT_BYTES (INET6_ADDRSTRLEN + IF_NAMESIZE + sizeof("[]:65535"))

/* Writes the address of a connected socket's peer to out, as "10.77.0.1:40312" or
 * "[fd00::1]:40312". 0; -EINVAL: the peer has no IP address, or the connection is already reset.
 * out is "unix" then. */
int inc_hostport_peer_text(int fd, char *out, size_t size);

/*
 * Where to listen for TCP: ADDRESS or ADDRESS:PORT, numbers alone, so that nobody is asked. Port 0
 * is any that is free. *out is for freeaddrinfo(). 0, or -EINVAL with a message.
 */
int inc_hostport_listen(const char *what, const char *text, unsigned int default_port,
			struct addrinfo **out, struct inc_err *err);

#endif
