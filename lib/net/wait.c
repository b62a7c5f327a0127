// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <poll.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include "lib/base/clock.h"
#include "lib/net/wait.h"

int inc_wait_for(int fd, short events, int stop_fd, uint64_t deadline_ns)
{
	struct pollfd pfd[2] = {{.fd = fd, .events = events}, {.fd = stop_fd, .events = POLLIN}};

	for (;;) {
		const uint64_t now_ns = inc_now_ns();

		if (now_ns >= deadline_ns)
			return -ETIMEDOUT;
		if (poll(pfd, 2, inc_ms_until(deadline_ns, now_ns)) <= 0)
			continue;
		if (pfd[1].revents)
			return -ECANCELED;
		if (pfd[0].revents)
			return 0;
	}
}

bool inc_wait_has_unread(int fd)
{
	int bytes = 0;

	return !ioctl(fd, FIONREAD, &bytes) && bytes;
}

int inc_wait_check_open(int fd, struct inc_err *err)
{
	struct tcp_info info = {0};
	socklen_t len = sizeof(info);

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len))
		return 0;
	switch (info.tcpi_state) {
	case TCP_CLOSE_WAIT:
	case TCP_LAST_ACK:
	case TCP_CLOSING:
	case TCP_TIME_WAIT:
	case TCP_CLOSE:
		return inc_err_set(err, ECONNRESET, "the peer has closed the connection");
	}
	return 0;
}
