/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include "lib/base/log.h"
#include "lib/base/notify.h"

/* Sends text as one datagram to the socket of the service manager. name: the absolute path of the
 * socket, or '@' and an abstract name. Returns 0 or -errno. */
static int send_to(const char *name, const char *text)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	const size_t len = strlen(name);
	int fd, ret = 0;

	if (*name != '/' && *name != '@')
		return -EAFNOSUPPORT;
	if (len >= sizeof(addr.sun_path))
		return -ENAMETOOLONG;
	memcpy(addr.sun_path, name, len);
	if (*name == '@')
		addr.sun_path[0] = 0;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&addr,
		   offsetof(struct sockaddr_un, sun_path) + len) < 0)
		ret = -errno;
	close(fd);
	return ret;
}

void inc_notify_ready(void)
{
	const char *name = getenv("NOTIFY_SOCKET");
	int ret;

	if (!name)
		return;
	ret = send_to(name, "READY=1");
	if (ret)
		inc_warn("NOTIFY_SOCKET %s: %s", name, strerror(-ret));
}
