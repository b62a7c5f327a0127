/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A bad network in front of every recvmmsg() of the program. The linker replaces that function. The
 * network splits datagrams that the kernel has merged. It loses, repeats, delays and damages
 * packets, as its seed decides. Packets keep the IP IDs with which they were sent, so that a lost
 * packet leaves a gap in the IDs, as on a wire.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include "selftests/term/harness_device_pair.h"

#define HELD     4096
#define MAX_SIZE 65536

struct held {
	struct held *next;
	int fd;
	unsigned int later; /* number of calls of recvmmsg() until the packet is delivered */
	struct sockaddr_storage from;
	socklen_t from_len;
	size_t size;
	int step; /* size of the datagram's segments; 0: it has one packet */
	uint8_t data[];
};

static struct net_faults faults;
static uint64_t state, done;
static struct held *first, **last = &first;
static unsigned int n_held;

int __real_recvmmsg(int fd, struct mmsghdr *msg, unsigned int n, int flags, struct timespec *t);
int __wrap_recvmmsg(int fd, struct mmsghdr *msg, unsigned int n, int flags, struct timespec *t);

void net_set(const struct net_faults *f, uint64_t seed)
{
	struct held *h;

	faults = *f;
	state = seed * 2 + 1;
	done = 0;
	while ((h = first)) {
		first = h->next;
		free(h);
	}
	last = &first;
	n_held = 0;
}

uint64_t net_done(void)
{
	return done;
}

static uint64_t draw(void)
{
	state = state * 6364136223846793005ull + 1442695040888963407ull;
	return state >> 33;
}

static bool chance(unsigned int of_1000)
{
	return draw() % 1000 < of_1000;
}

static void hold(int fd, const struct msghdr *msg, const uint8_t *data, size_t size, int step,
		 unsigned int later)
{
	struct held *h = malloc(sizeof(*h) + size);

	assert_non_null(h);
	h->next = NULL;
	h->fd = fd;
	h->later = later;
	memcpy(&h->from, msg->msg_name, msg->msg_namelen);
	h->from_len = msg->msg_namelen;
	h->size = size;
	h->step = step;
	memcpy(h->data, data, size);
	*last = h;
	last = &h->next;
	n_held++;
}

static void pass_packet(int fd, const struct msghdr *msg, uint8_t *data, size_t size)
{
	unsigned int later = 0;

	if (chance(faults.lose)) {
		done++;
		return;
	}
	if (chance(faults.damage)) {
		done++;
		data[draw() % size] ^= 1 << draw() % 8;
	}
	if (chance(faults.delay)) {
		done++;
		later = 1 + draw() % 3;
	}
	if (chance(faults.repeat)) {
		done++;
		hold(fd, msg, data, size, 0, draw() % 4);
	}
	hold(fd, msg, data, size, 0, later);
}

static void pass_datagram(int fd, struct mmsghdr *m)
{
	struct msghdr *msg = &m->msg_hdr;
	uint8_t *data = msg->msg_iov->iov_base;
	size_t left = m->msg_len, n;
	struct cmsghdr *cmsg;
	int step = 0;

	for (cmsg = CMSG_FIRSTHDR(msg); cmsg; cmsg = CMSG_NXTHDR(msg, cmsg))
		if (cmsg->cmsg_level == IPPROTO_UDP && cmsg->cmsg_type == UDP_GRO)
			memcpy(&step, CMSG_DATA(cmsg), sizeof(step));
	if (step && !chance(faults.part)) {
		hold(fd, msg, data, left, step, 0);
		return;
	}
	for (; left; left -= n, data += n) {
		n = step && left > (size_t)step ? (size_t)step : left;
		pass_packet(fd, msg, data, n);
	}
}

/* Writes the control messages that the kernel adds to a datagram. step: its segments' size, 0: it
 * is one packet. */
static void put_control(struct msghdr *msg, int step)
{
	const struct in_pktinfo info = {.ipi_ifindex = 1 /* number of the loopback interface */};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(msg);

	cmsg->cmsg_level = IPPROTO_IP;
	cmsg->cmsg_type = IP_PKTINFO;
	cmsg->cmsg_len = CMSG_LEN(sizeof(info));
	memcpy(CMSG_DATA(cmsg), &info, sizeof(info));
	if (step) {
		cmsg = CMSG_NXTHDR(msg, cmsg);
		cmsg->cmsg_level = IPPROTO_UDP;
		cmsg->cmsg_type = UDP_GRO;
		cmsg->cmsg_len = CMSG_LEN(sizeof(step));
		memcpy(CMSG_DATA(cmsg), &step, sizeof(step));
	}
	msg->msg_controllen = CMSG_SPACE(sizeof(info)) + (step ? CMSG_SPACE(sizeof(step)) : 0);
}

static void give(struct mmsghdr *m, struct held *h)
{
	struct msghdr *msg = &m->msg_hdr;

	memcpy(msg->msg_iov->iov_base, h->data, h->size);
	memcpy(msg->msg_name, &h->from, h->from_len);
	msg->msg_namelen = h->from_len;
	msg->msg_flags = 0;
	m->msg_len = h->size;
	put_control(msg, h->step);
}

/* Delivers up to n held datagrams of fd that are due. */
static int give_held(int fd, struct mmsghdr *msg, unsigned int n)
{
	struct held **at = &first, *h;
	unsigned int given = 0;

	while ((h = *at)) {
		if (h->fd != fd || given == n || (h->later && h->later--)) {
			at = &h->next;
			continue;
		}
		give(&msg[given++], h);
		*at = h->next;
		if (last == &h->next)
			last = at;
		free(h);
		n_held--;
	}
	return given;
}

int __wrap_recvmmsg(int fd, struct mmsghdr *msg, unsigned int n, int flags, struct timespec *t)
{
	static uint8_t bytes[MAX_SIZE];
	static struct sockaddr_storage from;
	char control[128] __attribute__((aligned(8)));
	struct iovec iov = {bytes, sizeof(bytes)};
	int got;

	while (n_held < HELD) {
		struct mmsghdr one = {.msg_hdr = {.msg_iov = &iov,
						  .msg_iovlen = 1,
						  .msg_name = &from,
						  .msg_namelen = sizeof(from),
						  .msg_control = control,
						  .msg_controllen = sizeof(control)}};

		if (__real_recvmmsg(fd, &one, 1, MSG_DONTWAIT, NULL) != 1)
			break;
		pass_datagram(fd, &one);
	}
	got = give_held(fd, msg, n);
	if (got)
		return got;
	errno = EAGAIN;
	return -1;
}
