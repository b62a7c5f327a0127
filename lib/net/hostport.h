/* SPDX-License-Identifier: BSD-2-Clause */
/* HOST, HOST:PORT, [IPv6]:PORT, [IPv6] or IPv6, as users name a controller. */
#ifndef INC_HOSTPORT_H
#define INC_HOSTPORT_H

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

/* The same for the value of a command-line option, checked for its form alone: nothing is looked
 * up. 0, or -EINVAL after a message as lib/base/opt.h has them. */
int inc_hostport_opt(const char *option, const char *text);

#endif
