/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <string.h>
#include <sys/un.h>
#include "lib/base/printable.h"
#include "lib/net/check.h"

int inc_ifname_check(const char *text, struct inc_err *err)
{
	/* a name must be printable ASCII, because messages of the control plane allow no other
	 * bytes in names of interfaces, although the kernel does */
	if (inc_is_word(text) && strlen(text) < IF_NAMESIZE && !strchr(text, '/'))
		return 0;
	return inc_err_set(err, EINVAL, "'%.300s' is not an interface name of printable ASCII",
			   text);
}

int inc_ipv4_check(const char *text, struct inc_err *err)
{
	struct in_addr addr;

	if (inet_pton(AF_INET, text, &addr) == 1)
		return 0;
	return inc_err_set(err, EINVAL, "'%.300s' is not an IPv4 address", text);
}

int inc_socket_path_check(const char *text, struct inc_err *err)
{
	if (*text && strlen(text) < sizeof((struct sockaddr_un){}.sun_path))
		return 0;
	return inc_err_set(err, EINVAL, "'%.300s' is not the path of a socket", text);
}
