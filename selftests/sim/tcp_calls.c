// SPDX-License-Identifier: BSD-2-Clause
/* The system calls on streams, in the form in which the product and libevent use them. Calls for
 * descriptors that are not the simulation's go to the kernel. */
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
#include "cluster_switch.h"
#include "neighbour.h"
#include "sim.h"
#include "tcp.h"

int __wrap_poll(struct pollfd *pfd, nfds_t n, int timeout_ms);
int __wrap_socket(int domain, int type, int protocol);
int __wrap_bind(int fd, const struct sockaddr *at, socklen_t len);
int __wrap_listen(int fd, int backlog);
int __wrap_accept4(int fd, struct sockaddr *from, socklen_t *len, int flags);
int __wrap_connect(int fd, const struct sockaddr *to, socklen_t len);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t len);
int __wrap_getsockname(int fd, struct sockaddr *out, socklen_t *len);
int __wrap_getpeername(int fd, struct sockaddr *out, socklen_t *len);
int __wrap_shutdown(int fd, int how);
int __wrap_fcntl(int fd, int what, ...);
int __wrap_ioctl(int fd, unsigned long what, ...);
int __wrap_pipe2(int fd[2], int flags);
ssize_t __wrap_send(int fd, const void *bytes, size_t size, int flags);
ssize_t __wrap_sendto(int fd, const void *bytes, size_t size, int flags, const struct sockaddr *to,
		      socklen_t len);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *msg, int flags);
ssize_t __wrap_recv(int fd, void *bytes, size_t size, int flags);
ssize_t __wrap_write(int fd, const void *bytes, size_t size);
ssize_t __wrap_read(int fd, void *bytes, size_t size);
ssize_t __wrap_writev(int fd, const struct iovec *iov, int n);
ssize_t __wrap_readv(int fd, const struct iovec *iov, int n);
int __real_fcntl(int fd, int what, ...);
ssize_t __real_write(int fd, const void *bytes, size_t size);
ssize_t __real_read(int fd, void *bytes, size_t size);

static int fail(int error)
{
	errno = error;
	return -1;
}

static struct tcp_end *end_of(int fd)
{
	return fd < TASK_FD_FIRST ? NULL : task_fd_arg(fd);
}

int __wrap_poll(struct pollfd *pfd, nfds_t n, int timeout_ms)
{
	const struct timespec ts = {.tv_sec = timeout_ms / 1000,
				    .tv_nsec = timeout_ms % 1000 * INC_NSEC_PER_MSEC};

	return ppoll(pfd, n, timeout_ms < 0 ? NULL : &ts, NULL);
}

static int open_end(struct tcp_end *e)
{
	e->fd = task_fd_new(tcp_readable, e);
	task_fd_more(e->fd, tcp_writable, tcp_closed);
	return e->fd;
}

int __wrap_socket(int domain, int type, int protocol)
{
	sim_require(domain == AF_INET, "socket(%d, %d)", domain, type);
	if ((type & 0xf) != SOCK_STREAM)
		/* a socket of the kernel, which the product uses for ioctl() about interfaces */
		return task_fd_new(NULL, NULL);
	return open_end(tcp_new(task_process()->addr));
}

int __wrap_pipe2(int fd[2], int flags)
{
	struct tcp_end *to = tcp_new(0), *from = tcp_new(0);

	to->pipe = from->pipe = true;
	to->state = from->state = TCP_UP;
	tcp_pair(to, from);
	fd[0] = open_end(to);
	fd[1] = open_end(from);
	return 0;
}

int __wrap_bind(int fd, const struct sockaddr *at, socklen_t len)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)at;
	struct tcp_end *e = end_of(fd);

	e->port = in->sin_port ? ntohs(in->sin_port) : tcp_free_port();
	return tcp_listener(e->addr, e->port) ? fail(EADDRINUSE) : 0;
}

int __wrap_listen(int fd, int backlog)
{
	end_of(fd)->state = TCP_LISTENING;
	return 0;
}

static int tell_address(uint32_t addr, uint16_t port, struct sockaddr *out, socklen_t *len)
{
	const struct sockaddr_in in = {
		.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = addr};

	memcpy(out, &in, *len < sizeof(in) ? *len : sizeof(in));
	*len = sizeof(in);
	return 0;
}

int __wrap_accept4(int fd, struct sockaddr *from, socklen_t *len, int flags)
{
	struct tcp_end *l = end_of(fd), *e;

	if (!l->n_waiting)
		return fail(EAGAIN);
	e = l->waiting[0];
	memmove(l->waiting, l->waiting + 1, --l->n_waiting * sizeof(l->waiting[0]));
	tell_address(e->peer_addr, e->peer_port, from, len);
	return open_end(e);
}

int __wrap_connect(int fd, const struct sockaddr *to, socklen_t len)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)to;
	struct tcp_end *e = end_of(fd);

	/* a host with an RDMA device asks for the route with a socket for datagrams, which the
	 * simulation does not have */
	if (!e)
		return fail(ENETUNREACH);
	sim_require(e->state == TCP_NEW, "a socket connects twice");
	e->port = tcp_free_port();
	e->peer_addr = in->sin_addr.s_addr;
	e->peer_port = ntohs(in->sin_port);
	e->state = TCP_TRYING;
	tcp_start_connect(e);
	return fail(EINPROGRESS);
}

int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
	struct tcp_end *e = end_of(fd);

	if (e && level == IPPROTO_TCP && name == TCP_INFO) {
		((struct tcp_info *)value)->tcpi_state =
			e->state == TCP_UP && !e->ended ? TCP_ESTABLISHED : TCP_CLOSE_WAIT;
		return 0;
	}
	sim_require(e && level == SOL_SOCKET && name == SO_ERROR, "getsockopt(%d, %d)", level,
		    name);
	*(int *)value = e->error;
	e->error = 0;
	return 0;
}

int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
	if (level == SOL_SOCKET && name == SO_LINGER)
		end_of(fd)->at_once = true;
	return 0;
}

/* The daemon makes its kernel resolve a peer's address with an empty datagram
 * (userspace/xdp/whereabouts.c). */
ssize_t __wrap_sendto(int fd, const void *bytes, size_t size, int flags, const struct sockaddr *to,
		      socklen_t len)
{
	neighbour_ask(((const struct sockaddr_in *)to)->sin_addr.s_addr);
	return (ssize_t)size;
}

int __wrap_getsockname(int fd, struct sockaddr *out, socklen_t *len)
{
	return tell_address(end_of(fd)->addr, end_of(fd)->port, out, len);
}

int __wrap_getpeername(int fd, struct sockaddr *out, socklen_t *len)
{
	const struct tcp_end *e = end_of(fd);

	return e->state == TCP_UP ? tell_address(e->peer_addr, e->peer_port, out, len)
				  : fail(ENOTCONN);
}

int __wrap_shutdown(int fd, int how)
{
	struct tcp_end *e = end_of(fd);

	if (e->state == TCP_UP && how != SHUT_RD && !e->shut)
		tcp_send(e->peer, TCP_END, NULL, 0);
	e->shut |= how != SHUT_RD;
	return 0;
}

int __wrap_fcntl(int fd, int what, ...)
{
	va_list ap;
	void *arg;

	va_start(ap, what);
	arg = va_arg(ap, void *);
	va_end(ap);
	return fd < TASK_FD_FIRST ? __real_fcntl(fd, what, arg) : what == F_GETFL ? O_NONBLOCK : 0;
}

int __wrap_ioctl(int fd, unsigned long what, ...)
{
	struct cluster_port *port;
	struct ifreq *ifr;
	va_list ap;
	void *arg;

	va_start(ap, what);
	arg = va_arg(ap, void *);
	va_end(ap);
	if (what == FIONREAD) {
		*(int *)arg = (int)end_of(fd)->n_received;
		return 0;
	}
	sim_require(what == SIOCGIFHWADDR, "ioctl %lx", what);
	ifr = arg; /* the product asks about the interface of a switch's port */
	ifr->ifr_hwaddr.sa_family = ARPHRD_ETHER;
	port = cluster_port_here(ifr->ifr_name);
	port->followed = port->host.mac[2];
	memcpy(ifr->ifr_hwaddr.sa_data, port->host.mac, 6);
	return 0;
}

/* --- sending and receiving bytes --- */

ssize_t __wrap_writev(int fd, const struct iovec *iov, int n)
{
	uint8_t bytes[4096];
	struct tcp_end *e = end_of(fd);
	size_t size = 0, part;
	int i;

	sim_require(e, "a write into a descriptor that is no stream");
	task_fd_sent(fd);
	if (e->state == TCP_BROKEN || e->shut) {
		const int error = e->error;

		e->error = 0;
		return fail(error ?: EPIPE);
	}
	if (e->state != TCP_UP)
		return fail(ENOTCONN);
	if (e->under_way >= TCP_BUFFER)
		return fail(EAGAIN);
	for (i = 0; i < n && size < sizeof(bytes); i++, size += part) {
		part = iov[i].iov_len < sizeof(bytes) - size ? iov[i].iov_len
							     : sizeof(bytes) - size;
		memcpy(bytes + size, iov[i].iov_base, part);
	}
	if (size > 1 && sim_fault(50))
		size = sim_between(1, size);
	e->under_way += size;
	tcp_send(e->peer, TCP_BYTES, bytes, size);
	return (ssize_t)size;
}

ssize_t __wrap_readv(int fd, const struct iovec *iov, int n)
{
	struct tcp_end *e = end_of(fd);
	size_t got = 0, part, most;
	int i;

	sim_require(e, "a read of a descriptor that is no stream");
	if (e->state == TCP_BROKEN && !e->n_received) {
		const int error = e->error;

		e->error = 0;
		return error ? fail(error) : 0;
	}
	if (!e->n_received)
		return e->ended ? 0 : fail(EAGAIN);
	most = e->n_received > 1 && sim_fault(50) ? sim_between(1, e->n_received) : e->n_received;
	for (i = 0; i < n && got < most; i++, got += part) {
		part = iov[i].iov_len < most - got ? iov[i].iov_len : most - got;
		memcpy(iov[i].iov_base, e->received + got, part);
	}
	e->n_received -= got;
	memmove(e->received, e->received + got, e->n_received);
	return (ssize_t)got;
}

ssize_t __wrap_send(int fd, const void *bytes, size_t size, int flags)
{
	return __wrap_writev(fd, &(struct iovec){(void *)bytes, size}, 1);
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *msg, int flags)
{
	return __wrap_writev(fd, msg->msg_iov, (int)msg->msg_iovlen);
}

ssize_t __wrap_recv(int fd, void *bytes, size_t size, int flags)
{
	return __wrap_readv(fd, &(struct iovec){bytes, size}, 1);
}

ssize_t __wrap_write(int fd, const void *bytes, size_t size)
{
	return end_of(fd) ? __wrap_send(fd, bytes, size, 0) : __real_write(fd, bytes, size);
}

ssize_t __wrap_read(int fd, void *bytes, size_t size)
{
	return end_of(fd) ? __wrap_recv(fd, bytes, size, 0) : __real_read(fd, bytes, size);
}
