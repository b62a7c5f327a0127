// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <sys/ioctl.h>
#include "lib/base/clock.h"
#include "lib/net/wait.h"

int inc_wait_poll(struct pollfd *pfd, unsigned int n, int timeout_ms)
{
	struct timespec timeout;

	if (timeout_ms < 0)
		return inc_os.wait.poll(pfd, n, NULL);
	timeout = inc_timespec_of_ns((unsigned int)timeout_ms * INC_NSEC_PER_MSEC);
	return inc_os.wait.poll(pfd, n, &timeout);
}

int inc_wait_for(int fd, short events, int stop_fd, uint64_t deadline_ns)
{
	struct pollfd pfd[2] = {{.fd = fd, .events = events}, {.fd = stop_fd, .events = POLLIN}};

	for (;;) {
		const uint64_t now_ns = inc_now_ns();

		if (now_ns >= deadline_ns)
			return -ETIMEDOUT;
		if (inc_wait_poll(pfd, 2, inc_ms_until(deadline_ns, now_ns)) <= 0)
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
	if (inc_os.stream.peer_ended(fd))
		return inc_err_set(err, ECONNRESET, "the peer has closed the connection");
	return 0;
}
