/* SPDX-License-Identifier: BSD-2-Clause */
/* Parses the address of a controller: HOST, HOST:PORT, [IPv6]:PORT, [IPv6] or IPv6; and a list of
 * controllers, of which one leads. */
#ifndef INC_HOSTPORT_H
#define INC_HOSTPORT_H

#include <net/if.h>
#include <netinet/in.h>
#include <stddef.h>
#include "lib/base/err.h"

#define INC_PORT_MEMBERS  52200 /* port where a controller listens for members and tools */
#define INC_PORT_SWITCHES 52311 /* port where a controller listens for switches */

struct inc_hostport {
	char host[256]; /* host name or address, without brackets */
	char port[6];   /* port in the form for getaddrinfo(): "1" to "65535", or "0" if any port is
			   wanted */
};

/* Room for the longest text of an address, "[host]:port" and its NUL. */
#define INC_HOSTPORT_TEXT_BYTES (256 + sizeof("[]:65535"))

/*
 * Splits text into host and port. If the text has no port, the result gets default_port. what is
 * the name of the text in error messages ("controller"). Returns 0, or -EINVAL with a message.
 */
int inc_hostport_parse(const char *what, const char *text, unsigned int default_port,
		       struct inc_hostport *out, struct inc_err *err);

/* Checks that text has the form of a controller's address, without looking up its name. */
int inc_hostport_check(const char *text, struct inc_err *err);

/* The controllers of a list HOST[:PORT][,HOST[:PORT]...]. */
#define INC_HOSTPORTS_MAX 8
struct inc_hostports {
	unsigned int n;
	struct inc_hostport at[INC_HOSTPORTS_MAX];
};

/* Parses a list of controllers, like inc_hostport_parse(). */
int inc_hostports_parse(const char *what, const char *text, unsigned int default_port,
			struct inc_hostports *out, struct inc_err *err);
/* Checks that text is a list of controllers, without looking up their names. */
int inc_hostports_check(const char *text, struct inc_err *err);

/* Checks for a path that fits into the address of a UNIX socket. */
int inc_socket_path_check(const char *text, struct inc_err *err);

struct addrinfo;
struct sockaddr;

/* Converts a socket address to numeric texts. It writes an IPv4 address as IPv4 even if a
 * socket for both families has mapped it into IPv6. Returns 0, or -EINVAL if it is neither
 * IPv4 nor IPv6. */
int inc_hostport_name(const struct sockaddr *addr, size_t len, struct inc_hostport *out);

/* Room for the longest text of inc_hostport_peer_text(), "[IPv6%interface]:port" and its NUL. */
#define INC_PEER_TEXT_BYTES (INET6_ADDRSTRLEN + IF_NAMESIZE + sizeof("[]:65535"))

/* Writes the address of a connected socket's peer to out, as "10.77.0.1:40312" or
 * "[fd00::1]:40312". Returns 0. If the peer has no IP address, or the connection is already reset,
 * it writes "unix" and returns -EINVAL. */
int inc_hostport_peer_text(int fd, char *out, size_t size);

/*
 * Parses an address to listen on for TCP: ADDRESS or ADDRESS:PORT, numeric, so that no name is
 * looked up. Port 0: any free port. The caller frees *out by freeaddrinfo(). Returns 0, or -EINVAL
 * with a message.
 */
int inc_hostport_listen(const char *what, const char *text, unsigned int default_port,
			struct addrinfo **out, struct inc_err *err);

#endif
