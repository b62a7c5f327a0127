/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "lib/base/clock.h"
#include "lib/base/datagram.h"
#include "selftests/fakes/memory_os.h"

#define SOCKETS      8
#define QUEUED       64 /* number of datagrams for which a socket has room */
#define FIRST_PORT   4000
#define LOOPBACK     1 /* number of the loopback interface */
#define BEGIN_NS     (1000 * INC_NSEC_PER_SEC)
#define RCVBUF_BYTES (1 << 20)

struct datagram {
	union inc_sockaddr from;
	struct inc_addr to;
	size_t size, step;
	uint8_t tos;
	uint8_t bytes[];
};

static struct sock {
	/* a descriptor on which ioctl() works, but by which no datagram passes; 0: not open */
	int fd;
	union inc_sockaddr at;
	struct datagram *queue[QUEUED];
	unsigned int queued;
} socks[SOCKETS];
static uint64_t now_ns, drawn;
static uint16_t next_port;

static uint64_t clock_ns(clockid_t clock)
{
	return now_ns;
}

static int random_bytes(void *out, size_t size, bool wait)
{
	uint8_t *at = out;
	size_t i;

	for (i = 0; i < size; i++) {
		drawn = drawn * 6364136223846793005ull + 1442695040888963407ull;
		at[i] = drawn >> 56;
	}
	return 0;
}

static struct sock *sock_of(int fd)
{
	unsigned int i;

	for (i = 0; i < SOCKETS && socks[i].fd != fd; i++)
		;
	assert_in_range(i, 0, SOCKETS - 1);
	return &socks[i];
}

static int open_udp(const struct inc_addr *own, uint16_t port, int bytes,
		    struct inc_udp_socket *out, struct inc_err *err)
{
	struct sock *s = sock_of(0);

	*s = (struct sock){.fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
	inc_addr_to_sockaddr(*own, port ?: next_port, &s->at);
	assert_true(s->fd > 0);
	if (!port)
		next_port = next_port < UINT16_MAX ? next_port + 1 : FIRST_PORT;
	*out = (struct inc_udp_socket){.fd = s->fd,
				       .port = inc_sockaddr_port(&s->at),
				       .segment = true,
				       .gro = true,
				       .rcvbuf = RCVBUF_BYTES};
	return 0;
}

static int grow(int fd, int bytes)
{
	return RCVBUF_BYTES;
}

static int show_arrival(int fd, bool ipv6)
{
	return 0;
}

/* A socket at all addresses receives what no other socket receives. */
static struct sock *receiver_of(const union inc_sockaddr *to)
{
	const struct inc_addr addr = inc_addr_of_sockaddr(&to->any);
	struct sock *s, *all = NULL;

	for (s = socks; s < socks + SOCKETS; s++) {
		const struct inc_addr own = inc_addr_of_sockaddr(&s->at.any);

		if (!s->fd || inc_sockaddr_port(&s->at) != inc_sockaddr_port(to))
			continue;
		if (inc_addr_same(own, addr))
			return s;
		if (inc_addr_same(own, inc_addr_any(addr)))
			all = s;
	}
	return all;
}

static void deliver(const struct sock *from, const struct inc_udp_send *send)
{
	size_t size = 0, at = 0;
	struct sock *s = receiver_of(send->to);
	struct datagram *d;
	unsigned int i;

	if (!s || s->queued == QUEUED)
		return;
	for (i = 0; i < send->iovs; i++)
		size += send->iov[i].iov_len;
	d = malloc(sizeof(*d) + size);
	assert_non_null(d);
	for (i = 0; i < send->iovs; i++) {
		if (send->iov[i].iov_len)
			memcpy(d->bytes + at, send->iov[i].iov_base, send->iov[i].iov_len);
		at += send->iov[i].iov_len;
	}
	d->from = from->at;
	if (inc_addr_given(send->source))
		inc_addr_to_sockaddr(send->source, inc_sockaddr_port(&from->at), &d->from);
	d->to = inc_addr_of_sockaddr(&send->to->any);
	d->tos = send->tos;
	d->size = size;
	d->step = send->segment_bytes ?: size;
	s->queue[s->queued++] = d;
}

static int send_udp(int fd, const struct inc_udp_send *sends, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		deliver(sock_of(fd), &sends[i]);
	return n;
}

static int receive_udp(int fd, uint8_t *room, struct inc_datagram *out)
{
	struct sock *s = sock_of(fd);
	unsigned int i, n = s->queued < INC_UDP_RECVS ? s->queued : INC_UDP_RECVS;

	for (i = 0; i < n; i++, room += INC_UDP_RECV_BYTES) {
		const struct datagram *d = s->queue[i];

		memcpy(room, d->bytes, d->size);
		out[i] = (struct inc_datagram){.from = d->from,
					       .data = room,
					       .size = d->size,
					       .step = d->step,
					       .ifindex = LOOPBACK,
					       .to = d->to,
					       .tos = d->tos};
		free(s->queue[i]);
	}
	s->queued -= n;
	memmove(s->queue, s->queue + n, s->queued * sizeof(*s->queue));
	return n ? (int)n : -EAGAIN;
}

static bool writable(int fd)
{
	return true;
}

static void close_udp(int fd)
{
	struct sock *s = sock_of(fd);
	unsigned int i;

	for (i = 0; i < s->queued; i++)
		free(s->queue[i]);
	close(fd);
	s->fd = 0;
}

/* All addresses are this machine's own, so a packet to one of them leaves from that one. */
static int source(const struct inc_addr *to, struct inc_addr *out)
{
	*out = *to;
	return 0;
}

void memory_os_begin(void)
{
	static const struct inc_os memory = {
		.clock_ns = clock_ns,
		.random = random_bytes,
		.udp = {open_udp, grow, show_arrival, send_udp, receive_udp, writable, close_udp,
			source, NULL, NULL},
	};

	unsigned int i;

	for (i = 0; i < SOCKETS; i++)
		assert_int_equal(socks[i].fd, 0);
	inc_os = memory;
	now_ns = BEGIN_NS;
	drawn = 0;
	next_port = FIRST_PORT;
}

void memory_os_pass_ns(uint64_t ns)
{
	now_ns += ns;
}
