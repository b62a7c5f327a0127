/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "lib/roce/udp.h"

int inc_udp_open(struct inc_udp *udp, struct inc_addr own, uint16_t port, int bytes,
		 struct inc_err *err)
{
	struct inc_udp_socket s = {.fd = -1};
	int ret = inc_os.udp.open(&own, port, bytes, &s, err);

	*udp = (struct inc_udp){.fd = s.fd,
				.ipv6 = !inc_addr_is_ipv4(own),
				.port = s.port,
				.segment = s.segment,
				.gro = s.gro,
				.rcvbuf = s.rcvbuf};
	return ret;
}

void inc_udp_grow(struct inc_udp *udp, int bytes)
{
	udp->rcvbuf = inc_os.udp.grow(udp->fd, bytes);
}

int inc_udp_show_arrival(struct inc_udp *udp, struct inc_err *err)
{
	int ret = inc_os.udp.show_arrival(udp->fd, udp->ipv6);

	return ret ? inc_err_set(err, -ret, "%s: %s", udp->ipv6 ? "IPV6_RECVPKTINFO" : "IP_PKTINFO",
				 strerror(-ret))
		   : 0;
}

void inc_udp_close(struct inc_udp *udp)
{
	if (udp->fd >= 0)
		inc_os.udp.close(udp->fd);
	udp->fd = -1;
}

bool inc_udp_writable(struct inc_udp *udp)
{
	if (udp->blocked)
		udp->blocked = !inc_os.udp.writable(udp->fd);
	return !udp->blocked;
}

void inc_udp_send_one(struct inc_udp *udp, const struct inc_udp_send *to, const void *packet,
		      size_t size)
{
	const struct iovec iov = {(void *)packet, size};
	struct inc_udp_send send = *to;
	int n;

	send.iov = &iov;
	send.iovs = 1;
	udp->send_calls++;
	n = inc_os.udp.send(udp->fd, &send, 1);
	if (n < 0)
		/* treat a packet that could not be sent as lost on the path, because the peer will
		 * request it again */
		udp->send_error = -n;
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

unsigned int inc_udp_receive(struct inc_udp *udp, struct inc_udp_inbox *inbox)
{
	int n;

	udp->recv_calls++;
	n = inc_os.udp.receive(udp->fd, inbox->bytes, inbox->datagram);
	if (n >= 0)
		return n;
	/* An error other than EAGAIN and EINTR belongs to an earlier send of this socket, whose
	 * packets the retransmission timer resends. */
	if (n != -EAGAIN && n != -EINTR)
		udp->send_error = -n;
	return 0;
}
