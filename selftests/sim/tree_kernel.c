// SPDX-License-Identifier: BSD-2-Clause
/* Calls of a daemon that makes its kernel look for the parent (userspace/xdp/parent.c): an empty
 * datagram to it. The linker puts these in the place of the C library's. */
#include <netinet/in.h>
#include <sys/socket.h>
#include "neighbour.h"
#include "sim.h"
#include "task.h"

int __wrap_socket(int domain, int type, int protocol);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t size);
ssize_t __wrap_sendto(int fd, const void *data, size_t size, int flags, const struct sockaddr *to,
		      socklen_t to_size);

int __wrap_socket(int domain, int type, int protocol)
{
	sim_require(domain == AF_INET && (type & 0xf) == SOCK_DGRAM, "a socket of another kind");
	return task_fd_new(NULL, NULL);
}

int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t size)
{
	sim_require(level == SOL_SOCKET && name == SO_BINDTODEVICE, "an unknown socket option");
	return 0;
}

ssize_t __wrap_sendto(int fd, const void *data, size_t size, int flags, const struct sockaddr *to,
		      socklen_t to_size)
{
	neighbour_ask(((const struct sockaddr_in *)to)->sin_addr.s_addr);
	return size;
}
