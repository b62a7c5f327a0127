/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "lib/base/addr.h"
#include "lib/base/clock.h"
#include "lib/base/datagram.h"
#include "lib/base/fd.h"
#include "lib/base/os.h"

#ifndef SO_RCVPRIORITY
#define SO_RCVPRIORITY 82 /* from Linux 6.14 on */
#endif

/* ---- time and random numbers ---- */

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * INC_NSEC_PER_SEC + t.tv_nsec;
}

static int random_bytes(void *out, size_t size, bool wait)
{
	const ssize_t n = getrandom(out, size, wait ? 0 : GRND_NONBLOCK);

	if (n < 0)
		return -errno;
	return (size_t)n == size ? 0 : -EIO;
}

/* ---- datagrams ---- */

/* Bytes for the control messages of one datagram. A send has the length of its segments, its source
 * address and its TOS byte. A received datagram has the length of its segments, the place where it
 * has arrived, and its TOS byte. The struct of IPv6 is the longer one. */
#define CONTROL_BYTES (3 * CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(struct in6_pktinfo)))

static int set_option(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value)) ? -errno : 0;
}

static void grow_buffer(int fd, int force, int plain, int bytes)
{
	if (set_option(fd, SOL_SOCKET, force, bytes))
		set_option(fd, SOL_SOCKET, plain, bytes);
}

static int grow_udp(int fd, int bytes)
{
	socklen_t len = sizeof(int);
	int got = 0;

	grow_buffer(fd, SO_SNDBUFFORCE, SO_SNDBUF, bytes);
	grow_buffer(fd, SO_RCVBUFFORCE, SO_RCVBUF, bytes);
	getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &got, &len);
	return got;
}

/* Sets what the packets of an IPv6 socket need. Such a socket receives no IPv4 packets, so an IPv4
 * socket may have its port. */
static int set_ipv6(int fd, struct inc_err *err)
{
	int ret = set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);

	/* PROBE is that of IPv4 (below); DONTFRAG refuses what is longer than the MTU */
	ret = ret ?: set_option(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE);
	ret = ret ?: set_option(fd, IPPROTO_IPV6, IPV6_DONTFRAG, 1);
	if (ret)
		return inc_err_set(err, -ret, "IPV6_DONTFRAG: %s", strerror(-ret));
	ret = set_option(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
	return ret ? inc_err_set(err, -ret, "IPV6_RECVTCLASS: %s", strerror(-ret)) : 0;
}

static int set_ipv4(int fd, struct inc_err *err)
{
	/* With DF and without connect() the kernel sends IP ID 0, and the ICRC covers the ID. PROBE
	 * sets DF like DO, but ignores the path MTU in ICMP messages, which anyone can forge. */
	int ret = set_option(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE);

	if (ret)
		return inc_err_set(err, -ret, "IP_MTU_DISCOVER: %s", strerror(-ret));
	/* by the TOS byte a soft endpoint learns of congestion, and its peer's class */
	ret = set_option(fd, IPPROTO_IP, IP_RECVTOS, 1);
	return ret ? inc_err_set(err, -ret, "IP_RECVTOS: %s", strerror(-ret)) : 0;
}

static int bind_udp(int fd, const struct inc_addr *own, uint16_t *port, struct inc_err *err)
{
	union inc_sockaddr at;
	socklen_t len = inc_addr_to_sockaddr(*own, *port, &at);
	char text[INC_ADDR_TEXT];
	int ret;

	if (bind(fd, &at.any, len) || getsockname(fd, &at.any, &len)) {
		ret = -errno;
		/* an address that is still checked is shown, but serves only after a second */
		return inc_err_set(err, -ret, "UDP socket on %s: %s%s", inc_addr_text(*own, text),
				   strerror(-ret),
				   ret == -EADDRNOTAVAIL && !inc_addr_is_ipv4(*own)
					   ? " (the kernel checks a new IPv6 address for "
					     "duplicates: ip -6 addr)"
					   : "");
	}
	*port = inc_sockaddr_port(&at);
	return 0;
}

/* Whether the kernel accepts a control message with the priority of a send, as Linux from 6.14 on
 * does. On other kernels the socket has the priority of the present send, and a TOS byte in a
 * control message replaces it. */
static _Atomic bool has_priority_message;
static _Atomic bool has_set_priority; /* a socket has, or had, a priority in that way */

/* Finds out has_priority_message. The option by which a socket shows the priority of what it
 * receives is as old as the message. */
static void find_priority_message(int fd)
{
	socklen_t len = sizeof(int);
	int on;

	has_priority_message = !getsockopt(fd, SOL_SOCKET, SO_RCVPRIORITY, &on, &len);
}

/* Gives the socket the priority of the first of the n sends. Returns how many of the first sends
 * have this priority. */
static unsigned int set_priority(int fd, const struct inc_udp_send *sends, unsigned int n)
{
	unsigned int same = 1;

	has_set_priority |= sends->priority != 0;
	if (has_set_priority)
		set_option(fd, SOL_SOCKET, SO_PRIORITY, sends->priority);
	while (same < n && sends[same].priority == sends->priority)
		same++;
	return same;
}

static int open_udp(const struct inc_addr *own, uint16_t port, int bytes,
		    struct inc_udp_socket *out, struct inc_err *err)
{
	const bool ipv6 = !inc_addr_is_ipv4(*own);
	const int fd = inc_fd_high(
		socket(ipv6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	int ret;

	if (fd < 0)
		return inc_err_set(err, errno, "UDP socket: %s", strerror(errno));
	ret = ipv6 ? set_ipv6(fd, err) : set_ipv4(fd, err);
	ret = ret ?: bind_udp(fd, own, &port, err);
	if (ret) {
		close(fd);
		return ret;
	}
	find_priority_message(fd);
	*out = (struct inc_udp_socket){
		.fd = fd,
		.port = port,
		.segment = !set_option(fd, IPPROTO_UDP, UDP_SEGMENT, 0),
		.gro = !set_option(fd, IPPROTO_UDP, UDP_GRO, 1),
		.rcvbuf = grow_udp(fd, bytes),
	};
	return 0;
}

static int show_arrival(int fd, bool ipv6)
{
	return ipv6 ? set_option(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1)
		    : set_option(fd, IPPROTO_IP, IP_PKTINFO, 1);
}

/* Appends a control message to those of a send. */
static void add_control(struct msghdr *msg, char *control, int level, int type, const void *data,
			size_t size)
{
	struct cmsghdr *cmsg = (struct cmsghdr *)(control + msg->msg_controllen);

	cmsg->cmsg_level = level;
	cmsg->cmsg_type = type;
	cmsg->cmsg_len = CMSG_LEN(size);
	memcpy(CMSG_DATA(cmsg), data, size);
	msg->msg_control = control;
	msg->msg_controllen += CMSG_SPACE(size);
}

/* Adds the control messages with the source address and the class of an IPv4 send. The address
 * comes without an interface, so the kernel chooses the route as for a socket that is bound to the
 * address. */
static void add_ipv4(struct msghdr *msg, char *control, const struct inc_udp_send *s)
{
	const struct in_pktinfo info = {.ipi_spec_dst.s_addr = s->source.word[3]};
	const int tos = s->tos;

	if (s->source.word[3])
		add_control(msg, control, IPPROTO_IP, IP_PKTINFO, &info, sizeof(info));
	if (tos)
		add_control(msg, control, IPPROTO_IP, IP_TOS, &tos, sizeof(tos));
}

/* Does the same for an IPv6 send. */
static void add_ipv6(struct msghdr *msg, char *control, const struct inc_udp_send *s)
{
	const int tos = s->tos;
	struct in6_pktinfo info = {};

	if (inc_addr_given(s->source)) {
		memcpy(&info.ipi6_addr, s->source.byte, sizeof(s->source.byte));
		add_control(msg, control, IPPROTO_IPV6, IPV6_PKTINFO, &info, sizeof(info));
	}
	if (tos)
		add_control(msg, control, IPPROTO_IPV6, IPV6_TCLASS, &tos, sizeof(tos));
}

static int send_udp(int fd, const struct inc_udp_send *sends, unsigned int n)
{
	char control[INC_UDP_SENDS][CONTROL_BYTES] __attribute__((aligned(8)));
	struct mmsghdr msg[INC_UDP_SENDS];
	unsigned int i;
	int sent;

	if (n > INC_UDP_SENDS)
		n = INC_UDP_SENDS;
	if (!has_priority_message)
		n = set_priority(fd, sends, n);
	for (i = 0; i < n; i++) {
		const struct inc_udp_send *s = &sends[i];
		const bool ipv6 = s->to->any.sa_family == AF_INET6;
		const uint32_t priority = s->priority;

		msg[i].msg_hdr = (struct msghdr){.msg_name = (void *)s->to,
						 .msg_namelen = ipv6 ? sizeof(s->to->ipv6)
								     : sizeof(s->to->ipv4),
						 .msg_iov = (struct iovec *)s->iov,
						 .msg_iovlen = s->iovs};
		if (s->segment_bytes)
			add_control(&msg[i].msg_hdr, control[i], IPPROTO_UDP, UDP_SEGMENT,
				    &s->segment_bytes, sizeof(s->segment_bytes));
		if (ipv6)
			add_ipv6(&msg[i].msg_hdr, control[i], s);
		else
			add_ipv4(&msg[i].msg_hdr, control[i], s);
		/* this message stands behind the TOS byte, from which the kernel derives a
		 * priority, too */
		if (priority && has_priority_message)
			add_control(&msg[i].msg_hdr, control[i], SOL_SOCKET, SO_PRIORITY, &priority,
				    sizeof(priority));
	}
	sent = sendmmsg(fd, msg, n, MSG_DONTWAIT);
	return sent < 0 ? -errno : sent;
}

/* Reads where an IPv6 datagram has arrived, and its class. */
static void describe_ipv6(struct inc_datagram *d, const struct cmsghdr *cmsg)
{
	struct in6_pktinfo info;
	int class;

	if (cmsg->cmsg_type == IPV6_PKTINFO) {
		memcpy(&info, CMSG_DATA(cmsg), sizeof(info));
		memcpy(d->to.byte, &info.ipi6_addr, sizeof(d->to.byte));
		d->ifindex = info.ipi6_ifindex;
	} else if (cmsg->cmsg_type == IPV6_TCLASS) {
		memcpy(&class, CMSG_DATA(cmsg), sizeof(class));
		d->tos = class;
	}
}

static void describe_ipv4(struct inc_datagram *d, const struct cmsghdr *cmsg)
{
	struct in_pktinfo info;

	if (cmsg->cmsg_type == IP_PKTINFO) {
		memcpy(&info, CMSG_DATA(cmsg), sizeof(info));
		d->to = inc_addr_of_in(info.ipi_addr);
		d->ifindex = info.ipi_ifindex;
	} else if (cmsg->cmsg_type == IP_TOS) {
		d->tos = *CMSG_DATA(cmsg);
	}
}

static void describe(struct inc_datagram *d, const struct mmsghdr *m)
{
	const struct msghdr *msg = &m->msg_hdr;
	struct cmsghdr *cmsg;
	int step = 0;

	d->tos = 0;
	d->ifindex = 0;
	d->to = (struct inc_addr){};
	d->data = msg->msg_iov->iov_base;
	d->size = d->step = m->msg_len;
	if (msg->msg_flags & MSG_TRUNC || msg->msg_namelen < sizeof(d->from.ipv4))
		d->size = 0;
	for (cmsg = CMSG_FIRSTHDR(msg); cmsg; cmsg = CMSG_NXTHDR((struct msghdr *)msg, cmsg))
		if (cmsg->cmsg_level == IPPROTO_UDP && cmsg->cmsg_type == UDP_GRO)
			memcpy(&step, CMSG_DATA(cmsg), sizeof(step));
		else if (cmsg->cmsg_level == IPPROTO_IP)
			describe_ipv4(d, cmsg);
		else if (cmsg->cmsg_level == IPPROTO_IPV6)
			describe_ipv6(d, cmsg);
	if (step > 0)
		d->step = step;
}

static int receive_udp(int fd, uint8_t *room, struct inc_datagram *datagrams)
{
	char control[INC_UDP_RECVS][CONTROL_BYTES] __attribute__((aligned(8)));
	struct iovec iov[INC_UDP_RECVS];
	struct mmsghdr msg[INC_UDP_RECVS];
	int i, n;

	memset(msg, 0, sizeof(msg));
	for (i = 0; i < INC_UDP_RECVS; i++) {
		iov[i].iov_base = room + i * INC_UDP_RECV_BYTES;
		iov[i].iov_len = INC_UDP_RECV_BYTES;
		msg[i].msg_hdr.msg_iov = &iov[i];
		msg[i].msg_hdr.msg_iovlen = 1;
		msg[i].msg_hdr.msg_name = &datagrams[i].from;
		msg[i].msg_hdr.msg_namelen = sizeof(datagrams[i].from);
		msg[i].msg_hdr.msg_control = control[i];
		msg[i].msg_hdr.msg_controllen = sizeof(control[i]);
	}
	n = recvmmsg(fd, msg, INC_UDP_RECVS, MSG_DONTWAIT, NULL);
	if (n < 0)
		return -errno;
	for (i = 0; i < n; i++)
		describe(&datagrams[i], &msg[i]);
	return n;
}

static bool writable(int fd)
{
	struct pollfd pfd = {.fd = fd, .events = POLLOUT};

	return poll(&pfd, 1, 0) > 0;
}

static void close_udp(int fd)
{
	close(fd);
}

static int source_of(const struct inc_addr *to, struct inc_addr *out)
{
	union inc_sockaddr at;
	socklen_t len = inc_addr_to_sockaddr(*to, IPPORT_DISCARD, &at);
	const int fd = inc_fd_high(socket(at.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
	int ret = 0;

	if (fd < 0)
		return -errno;
	/* connect() of a UDP socket sends nothing, but chooses the route and with it the source
	 * address */
	if (connect(fd, &at.any, len) || getsockname(fd, &at.any, &len))
		ret = -errno;
	close(fd);
	*out = inc_addr_of_sockaddr(&at.any);
	return ret;
}

/* Sends a question to a port where nothing listens. type: SOCK_DGRAM, or SOCK_STREAM for a
 * connection. Returns the socket, or -1. */
static int ask_port(const struct inc_addr *own, const struct inc_addr *to, uint16_t port, int type)
{
	union inc_sockaddr from, at;
	const socklen_t len = inc_addr_to_sockaddr(*own, 0, &from);
	const socklen_t to_len = inc_addr_to_sockaddr(*to, port, &at);
	const int fd =
		inc_fd_high(socket(from.any.sa_family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
	char byte = 0;

	if (fd < 0)
		return -1;
	if (!bind(fd, &from.any, len) && (!connect(fd, &at.any, to_len) || errno == EINPROGRESS) &&
	    (type == SOCK_STREAM || send(fd, &byte, sizeof(byte), 0) == sizeof(byte)))
		return fd;
	close(fd);
	return -1;
}

/* Whether a question that has an event was answered, by an error that means "nothing listens", or
 * by a program that listens there after all. */
static bool is_answer(const struct pollfd *pfd)
{
	int error = 0;
	socklen_t len = sizeof(error);

	return pfd->revents && !getsockopt(pfd->fd, SOL_SOCKET, SO_ERROR, &error, &len) &&
	       (!error || error == ECONNREFUSED);
}

static bool refuses(const struct inc_addr *own, const struct inc_addr *to, uint16_t port,
		    unsigned int ms)
{
	struct pollfd pfd = {.fd = ask_port(own, to, port, SOCK_DGRAM), .events = POLLIN};
	bool refused;

	if (pfd.fd < 0)
		return false;
	refused = poll(&pfd, 1, ms) > 0 && is_answer(&pfd);
	close(pfd.fd);
	return refused;
}

/* Asks by a datagram and by a connection. Kernels send few ICMP errors to one address, Linux six at
 * once and then one a second, and the ranks of a machine share its addresses. They refuse every
 * connection, however many there are. A firewall may drop either question. */
static bool answers(const struct inc_addr *own, const struct inc_addr *to, unsigned int ms)
{
	struct pollfd pfd[] = {
		{.fd = ask_port(own, to, IPPORT_DISCARD, SOCK_DGRAM), .events = POLLIN},
		{.fd = ask_port(own, to, IPPORT_DISCARD, SOCK_STREAM), .events = POLLOUT},
	};
	const uint64_t end_ns = clock_ns(CLOCK_MONOTONIC) + ms * 1000000ull;
	uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
	bool answered = false;

	while (!answered && now_ns < end_ns && (pfd[0].fd >= 0 || pfd[1].fd >= 0) &&
	       poll(pfd, 2, (int)((end_ns - now_ns) / 1000000) + 1) >= 0) {
		for (int i = 0; i < 2; i++) {
			answered |= is_answer(&pfd[i]);
			if (pfd[i].revents) {
				close(pfd[i].fd);
				pfd[i].fd = -1;
			}
		}
		now_ns = clock_ns(CLOCK_MONOTONIC);
	}
	for (int i = 0; i < 2; i++)
		if (pfd[i].fd >= 0)
			close(pfd[i].fd);
	return answered;
}

/* ---- streams ---- */

static int open_stream(int family)
{
	const int fd = inc_fd_high(socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));

	return fd < 0 ? -errno : fd;
}

static int listen_at(const struct sockaddr *at, socklen_t len, int backlog)
{
	const int fd = open_stream(at->sa_family);
	int ret;

	if (fd < 0)
		return fd;
	/* accepted connections inherit keepalive */
	ret = set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1)
		      ?: set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	if (!ret && (bind(fd, at, len) || listen(fd, backlog)))
		ret = -errno;
	if (!ret)
		return fd;
	close(fd);
	return ret;
}

static int begin_connect(const struct sockaddr *to, socklen_t len)
{
	const int fd = open_stream(to->sa_family);
	int ret;

	if (fd < 0 || !connect(fd, to, len) || errno == EINPROGRESS)
		return fd;
	ret = -errno;
	close(fd);
	return ret;
}

static int result_of(int fd)
{
	socklen_t len = sizeof(int);
	int error;

	return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) ? -errno : -error;
}

static int own_address(int fd, struct sockaddr_storage *out, socklen_t *len)
{
	*len = sizeof(*out);
	return getsockname(fd, (struct sockaddr *)out, len) ? -errno : 0;
}

static int peer_address(int fd, struct sockaddr_storage *out, socklen_t *len)
{
	*len = sizeof(*out);
	return getpeername(fd, (struct sockaddr *)out, len) ? -errno : 0;
}

static bool peer_ended(int fd)
{
	struct tcp_info info = {0};
	socklen_t len = sizeof(info);

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len))
		return false;
	switch (info.tcpi_state) {
	case TCP_CLOSE_WAIT:
	case TCP_LAST_ACK:
	case TCP_CLOSING:
	case TCP_TIME_WAIT:
	case TCP_CLOSE:
		return true;
	}
	return false;
}

/* ---- waits ---- */

static int wait_poll(struct pollfd *pfd, unsigned int n, const struct timespec *timeout)
{
	return ppoll(pfd, n, timeout, NULL);
}

static int make_alarm(void)
{
	const int fd = inc_fd_high(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));

	return fd < 0 ? -errno : fd;
}

static void set_alarm(int fd, uint64_t at_ns)
{
	struct itimerspec when = {};

	if (at_ns != UINT64_MAX)
		when.it_value = inc_timespec_of_ns(at_ns);
	timerfd_settime(fd, TFD_TIMER_ABSTIME, &when, NULL);
}

/* ---- the table ---- */

static void give_way(void)
{
	sched_yield();
}

#define KERNEL                                                \
	{                                                     \
		.clock_ns = clock_ns, .random = random_bytes, \
		.udp =                                        \
			{                                     \
				.open = open_udp,             \
				.grow = grow_udp,             \
				.show_arrival = show_arrival, \
				.send = send_udp,             \
				.receive = receive_udp,       \
				.writable = writable,         \
				.close = close_udp,           \
				.source = source_of,          \
				.answers = answers,           \
				.refuses = refuses,           \
			},                                    \
		.stream =                                     \
			{                                     \
				.listen = listen_at,          \
				.connect = begin_connect,     \
				.result = result_of,          \
				.own = own_address,           \
				.peer = peer_address,         \
				.peer_ended = peer_ended,     \
			},                                    \
		.wait = {                                     \
			.poll = wait_poll,                    \
			.epoll = epoll_wait,                  \
			.alarm = make_alarm,                  \
			.set_alarm = set_alarm,               \
			.give_way = give_way,                 \
		},                                            \
	}

const struct inc_os inc_os_kernel = KERNEL;
struct inc_os inc_os = KERNEL;
