/* SPDX-License-Identifier: BSD-2-Clause */
/* HOST, HOST:PORT, [IPv6]:PORT, [IPv6] or IPv6, as users name a controller. */
#ifndef INC_HOSTPORT_H
#define INC_HOSTPORT_H

#include "lib/base/err.h"

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

#endif
