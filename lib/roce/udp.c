/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "lib/base/fd.h"
#include "lib/roce/udp.h"

/* Room for the control messages of a datagram: the size of its segments, and the interface. */
#define CONTROL_BYTES (CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(struct in_pktinfo)))

static int set_option(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value)) ? -errno : 0;
}

/* Makes a socket buffer as large as the kernel allows, up to bytes. Returns its size. */
static int grow_buffer(int fd, int force, int plain, int bytes)
{
	socklen_t len = sizeof(int);
	int got = 0;

	if (set_option(fd, SOL_SOCKET, force, bytes))
		set_option(fd, SOL_SOCKET, plain, bytes);
	getsockopt(fd, SOL_SOCKET, plain, &got, &len);
	return got;
}

int inc_udp_open(struct inc_udp *udp, struct in_addr own, uint16_t port, int bytes,
		 struct inc_err *err)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = own, .sin_port = htons(port)};
	socklen_t len = sizeof(at);
	char text[INET_ADDRSTRLEN];
	int ret;

	memset(udp, 0, sizeof(*udp));
	inet_ntop(AF_INET, &own, text, sizeof(text));
	udp->fd = inc_fd_high(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (udp->fd < 0)
		return inc_err_set(err, errno, "UDP socket: %s", strerror(errno));
	if (bind(udp->fd, (struct sockaddr *)&at, sizeof(at)) ||
	    getsockname(udp->fd, (struct sockaddr *)&at, &len))
		return inc_err_set(err, errno, "UDP socket on %s: %s", text, strerror(errno));
	/* With DF and without connect() the kernel sends IP ID 0, and the ICRC covers the ID. PROBE
	 * sets DF like DO, but ignores the path MTU in ICMP messages, which anyone can forge. */
	ret = set_option(udp->fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE);
	if (ret)
		return inc_err_set(err, -ret, "IP_MTU_DISCOVER: %s", strerror(-ret));
	udp->segment = !set_option(udp->fd, IPPROTO_UDP, UDP_SEGMENT, 0);
	udp->gro = !set_option(udp->fd, IPPROTO_UDP, UDP_GRO, 1);
	grow_buffer(udp->fd, SO_SNDBUFFORCE, SO_SNDBUF, bytes);
	udp->rcvbuf = grow_buffer(udp->fd, SO_RCVBUFFORCE, SO_RCVBUF, bytes);
	udp->port = ntohs(at.sin_port);
	return 0;
}

int inc_udp_show_ifindex(struct inc_udp *udp, struct inc_err *err)
{
	int ret = set_option(udp->fd, IPPROTO_IP, IP_PKTINFO, 1);

	return ret ? inc_err_set(err, -ret, "IP_PKTINFO: %s", strerror(-ret)) : 0;
}

void inc_udp_close(struct inc_udp *udp)
{
	if (udp->fd >= 0)
		close(udp->fd);
	udp->fd = -1;
}

bool inc_udp_writable(struct inc_udp *udp)
{
	struct pollfd pfd = {.fd = udp->fd, .events = POLLOUT};

	if (udp->blocked)
		udp->blocked = poll(&pfd, 1, 0) <= 0;
	return !udp->blocked;
}

void inc_udp_send_one(struct inc_udp *udp, const struct sockaddr_in *to, const void *packet,
		      size_t size)
{
	udp->send_calls++;
	if (sendto(udp->fd, packet, size, MSG_DONTWAIT, (const struct sockaddr *)to, sizeof(*to)) <
	    0)
		udp->send_error = errno; /* the packet is lost, so the peer will request it again */
}

int inc_udp_inbox_init(struct inc_udp_inbox *inbox)
{
	inbox->bytes = malloc(INC_UDP_RECVS * INC_UDP_RECV_BYTES);
	return inbox->bytes ? 0 : -ENOMEM;
}

void inc_udp_inbox_free(struct inc_udp_inbox *inbox)
{
	free(inbox->bytes);
	inbox->bytes = NULL;
}

static void describe(struct inc_datagram *d, const struct mmsghdr *m)
{
	const struct msghdr *msg = &m->msg_hdr;
	struct in_pktinfo info = {0};
	struct cmsghdr *cmsg;
	int step = 0;

	d->data = msg->msg_iov->iov_base;
	d->size = d->step = m->msg_len;
	if (msg->msg_flags & MSG_TRUNC || msg->msg_namelen < sizeof(d->from))
		d->size = 0;
	for (cmsg = CMSG_FIRSTHDR(msg); cmsg; cmsg = CMSG_NXTHDR((struct msghdr *)msg, cmsg))
		if (cmsg->cmsg_level == IPPROTO_UDP && cmsg->cmsg_type == UDP_GRO)
			memcpy(&step, CMSG_DATA(cmsg), sizeof(step));
		else if (cmsg->cmsg_level == IPPROTO_IP && cmsg->cmsg_type == IP_PKTINFO)
			memcpy(&info, CMSG_DATA(cmsg), sizeof(info));
	d->ifindex = info.ipi_ifindex;
	if (step > 0)
		d->step = step;
}

unsigned int inc_udp_receive(struct inc_udp *udp, struct inc_udp_inbox *inbox)
{
	char control[INC_UDP_RECVS][CONTROL_BYTES] __attribute__((aligned(8)));
	struct iovec iov[INC_UDP_RECVS];
	struct mmsghdr msg[INC_UDP_RECVS];
	int i, n;

	memset(msg, 0, sizeof(msg));
	for (i = 0; i < INC_UDP_RECVS; i++) {
		iov[i].iov_base = inbox->bytes + i * INC_UDP_RECV_BYTES;
		iov[i].iov_len = INC_UDP_RECV_BYTES;
		msg[i].msg_hdr.msg_iov = &iov[i];
		msg[i].msg_hdr.msg_iovlen = 1;
		msg[i].msg_hdr.msg_name = &inbox->datagram[i].from;
		msg[i].msg_hdr.msg_namelen = sizeof(inbox->datagram[i].from);
		msg[i].msg_hdr.msg_control = control[i];
		msg[i].msg_hdr.msg_controllen = sizeof(control[i]);
	}
	udp->recv_calls++;
	n = recvmmsg(udp->fd, msg, INC_UDP_RECVS, MSG_DONTWAIT, NULL);
	if (n < 0) {
		/* recvmmsg() also returns errors of earlier sends, whose packets the retransmission
		 * timer resends */
		if (errno != EAGAIN && errno != EINTR)
			udp->send_error = errno;
		return 0;
	}
	for (i = 0; i < n; i++)
		describe(&inbox->datagram[i], &msg[i]);
	return n;
}
