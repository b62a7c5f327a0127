/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include "hostlib/nccl/choose.h"
#include "hostlib/nccl/tcp.h"
#include "lib/base/fd.h"

#define BACKLOG 128

static socklen_t size_of(const union ha_address *address)
{
	return address->sa.sa_family == AF_INET6 ? sizeof(address->in6) : sizeof(address->in4);
}

/* Whether another machine can reach this end by the address alone, which is all that a handle
 * contains. A link-local address also needs the index of an interface, which each machine assigns
 * itself. */
static bool is_usable(const struct ifaddrs *entry)
{
	const struct in6_addr *in6;

	if (!entry->ifa_addr || !(entry->ifa_flags & IFF_UP) || !(entry->ifa_flags & IFF_RUNNING))
		return false;
	if (entry->ifa_addr->sa_family == AF_INET)
		return true;
	if (entry->ifa_addr->sa_family != AF_INET6)
		return false;
	in6 = &((const struct sockaddr_in6 *)entry->ifa_addr)->sin6_addr;
	return !IN6_IS_ADDR_LOOPBACK(in6) && !IN6_IS_ADDR_LINKLOCAL(in6);
}

static bool find_address(const struct ifaddrs *own, const char *ifname, union ha_address *address)
{
	for (; own; own = own->ifa_next) {
		if (!is_usable(own) ||
		    !ha_iflist_passes(ifname, HA_IFLIST_INTERFACES, own->ifa_name, -1))
			continue;
		memset(address, 0, sizeof(*address));
		if (own->ifa_addr->sa_family == AF_INET6)
			memcpy(&address->in6, own->ifa_addr, sizeof(address->in6));
		else
			memcpy(&address->in4, own->ifa_addr, sizeof(address->in4));
		return true;
	}
	return false;
}

static int choose_address(const char *ifname, union ha_address *address, struct inc_err *err)
{
	/* bridges of containers and virtual machines come last, because other machines can rarely
	 * reach their addresses */
	static const char *const usual[] = {HA_IFLIST_USUAL, "docker", "lo", "virbr"};
	struct ifaddrs *own;
	bool found = false;
	unsigned int i;

	if (getifaddrs(&own))
		return inc_err_set(err, errno, "addresses of interfaces: %s", strerror(errno));
	if (ifname)
		found = find_address(own, ifname, address);
	for (i = 0; !ifname && !found && i < sizeof(usual) / sizeof(usual[0]); i++)
		found = find_address(own, usual[i], address);
	freeifaddrs(own);
	if (!found)
		return inc_err_set(err, EADDRNOTAVAIL,
				   "%s%s: no interface that is up has an address other machines "
				   "can reach",
				   ifname ? "NCCL_SOCKET_IFNAME=" : "sockets", ifname ?: "");
	return 0;
}

int ha_socket_listen(const char *ifname, union ha_address *address, struct inc_err *err)
{
	socklen_t size;
	int fd, ret = choose_address(ifname, address, err);

	if (ret)
		return ret;
	size = size_of(address);
	address->in4.sin_port = 0; /* sin6_port is at the same offset, so this sets it, too */
	fd = inc_fd_high(
		socket(address->sa.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
	if (fd < 0)
		return inc_err_set(err, errno, "socket: %s", strerror(errno));
	if (bind(fd, &address->sa, size) || listen(fd, BACKLOG) ||
	    getsockname(fd, &address->sa, &size)) {
		ret = inc_err_set(err, errno, "listen: %s", strerror(errno));
		close(fd);
		return ret;
	}
	return fd;
}

static void begin(struct ha_socket *socket, int fd, bool connected)
{
	const int on = 1;

	socket->fd = fd;
	socket->watcher = 0;
	socket->connected = connected;
	socket->error = 0;
	socket->in_bytes = socket->out_at = socket->out_bytes = 0;
	/* an error is ignored, because without TCP_NODELAY messages are only delayed */
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

int ha_socket_accept(int listen_fd, struct ha_socket *socket, struct inc_err *err)
{
	int fd = inc_fd_high(accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));

	if (fd >= 0) {
		begin(socket, fd, true);
		return 1;
	}
	socket->fd = -1;
	/* it is no error if the peer has closed the connection before accept() */
	if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)
		return 0;
	return inc_err_set(err, errno, "accept: %s", strerror(errno));
}

int ha_socket_connect(struct ha_socket *sock, const union ha_address *address, struct inc_err *err)
{
	int fd = inc_fd_high(
		socket(address->sa.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));

	sock->fd = -1;
	if (fd < 0)
		return inc_err_set(err, errno, "socket: %s", strerror(errno));
	if (connect(fd, &address->sa, size_of(address)) && errno != EINPROGRESS && errno != EINTR) {
		int ret = inc_err_set(err, errno, "connect: %s", strerror(errno));

		close(fd);
		return ret;
	}
	begin(sock, fd, false);
	return 0;
}

int ha_socket_connected(struct ha_socket *socket, struct inc_err *err)
{
	struct pollfd poller = {.fd = socket->fd, .events = POLLOUT};
	socklen_t size = sizeof(socket->error);
	int error = 0;

	if (socket->error)
		return inc_err_set(err, -socket->error, "connect: %s", strerror(-socket->error));
	if (socket->connected)
		return 1;
	if (poll(&poller, 1, 0) <= 0)
		return 0;
	if (getsockopt(socket->fd, SOL_SOCKET, SO_ERROR, &error, &size))
		error = errno;
	if (error) {
		socket->error = -error;
		return inc_err_set(err, error, "connect: %s", strerror(error));
	}
	socket->connected = true;
	return 1;
}

/* Sends queued messages until the kernel accepts no more bytes. */
static void flush(struct ha_socket *socket)
{
	ssize_t n;

	while (!socket->error && socket->connected && socket->out_bytes) {
		n = send(socket->fd, socket->out + socket->out_at, socket->out_bytes,
			 MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n >= 0) {
			socket->out_at += n;
			socket->out_bytes -= n;
		} else if (errno == EAGAIN) {
			return;
		} else if (errno != EINTR) {
			socket->error = errno == EPIPE ? -ECONNRESET : -errno;
		}
	}
}

int ha_socket_send(struct ha_socket *socket, const uint8_t msg[HA_MSG_BYTES])
{
	if (socket->fd < 0)
		return -ENOTCONN;
	flush(socket);
	if (socket->error)
		return socket->error;
	memmove(socket->out, socket->out + socket->out_at, socket->out_bytes);
	socket->out_at = 0;
	/* a full queue is an error, because a peer that has not read so many messages will not
	 * answer either */
	if (socket->out_bytes + HA_MSG_BYTES > sizeof(socket->out))
		return socket->error = -ENOBUFS;
	memcpy(socket->out + socket->out_bytes, msg, HA_MSG_BYTES);
	socket->out_bytes += HA_MSG_BYTES;
	flush(socket);
	return socket->error;
}

int ha_socket_receive(struct ha_socket *socket, uint8_t msg[HA_MSG_BYTES])
{
	ssize_t n;

	if (socket->fd < 0)
		return -ENOTCONN;
	flush(socket);
	/* messages that the peer has sent before it closed still count, so an error is returned
	 * only after them */
	while (socket->connected && socket->in_bytes < HA_MSG_BYTES) {
		n = recv(socket->fd, socket->in + socket->in_bytes, HA_MSG_BYTES - socket->in_bytes,
			 MSG_DONTWAIT);
		if (n > 0) {
			socket->in_bytes += n;
			continue;
		}
		if (n < 0 && errno == EINTR)
			continue;
		if ((!n || errno != EAGAIN) && !socket->error)
			socket->error = n ? -errno : -ECONNRESET;
		return socket->error;
	}
	if (!socket->connected)
		return socket->error;
	memcpy(msg, socket->in, HA_MSG_BYTES);
	socket->in_bytes = 0;
	return 1;
}

void ha_socket_close(struct ha_socket *socket)
{
	if (socket->fd >= 0 && socket->watcher)
		epoll_ctl(socket->watcher, EPOLL_CTL_DEL, socket->fd, NULL);
	if (socket->fd >= 0)
		close(socket->fd);
	socket->fd = -1;
	socket->connected = false;
}
