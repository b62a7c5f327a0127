// SPDX-License-Identifier: BSD-2-Clause
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include "hostlib/src/endpoint.h"
#include "lib/channel/soft_priv.h"
#include "lib/roce/udp.h"
#include "selftests/unit/frame.h"
#include "host.h"
#include "sim.h"

#define HOSTS 96 /* limit of hosts, ports of switches, and sockets */
/* number of datagrams that a socket queues; it stands for the size of a receive buffer */
#define QUEUED_MOST 512
#define FIRST_PORT  40000
#define TTL         64
#define LOOPBACK    1

struct datagram {
	struct datagram *next;
	unsigned int ifindex;
	enum host_from sender;
	struct sockaddr_in from;
	size_t size;
	uint8_t bytes[WIRE_FRAME_MOST];
};

struct sock {
	struct host *host;
	uint16_t port;
	int fd;
	struct datagram *first, **last;
	unsigned int queued;
	/* datagrams that the last receive returned, which are valid until the next receive */
	struct datagram *given;
};

static struct host *hosts[HOSTS];
static unsigned int n_hosts;
static struct sock *socks[HOSTS]; /* the sockets of all hosts */
static unsigned int n_socks;      /* places of `socks` that were ever used in this run */
static struct datagram *idle;

int __wrap_sendmmsg(int fd, struct mmsghdr *msg, unsigned int n, int flags);

void host_begin(void)
{
	n_hosts = n_socks = 0;
	memset(socks, 0, sizeof(socks));
}

void host_add(struct host *host)
{
	sim_require(n_hosts < HOSTS, "more than %u hosts", HOSTS);
	host->ports = FIRST_PORT;
	hosts[n_hosts++] = host;
}

/* --- sending --- */

static void send_packet(const struct sock *s, const struct sockaddr_in *to, const uint8_t *packet,
			size_t size, uint16_t id)
{
	uint8_t frame[WIRE_FRAME_MOST], *ip = frame + FRAME_IP, *udp = frame + FRAME_UDP;

	task_fd_sent(s->fd);
	if (s->host->away)
		return;
	memset(frame, 0, FRAME_BTH);
	memcpy(frame, s->host->gateway, 6);
	memcpy(frame + 6, s->host->mac, 6);
	put16(frame + 12, 0x0800);
	ip[0] = 0x45;
	put16(ip + 2, INC_IP_LEN + INC_UDP_LEN + size);
	put16(ip + 4, id);
	put16(ip + 6, 0x4000);
	ip[8] = TTL;
	ip[9] = IPPROTO_UDP;
	memcpy(ip + 12, &s->host->addr, 4);
	memcpy(ip + 16, &to->sin_addr, 4);
	put16(ip + 10, ~frame_sum16(ip, INC_IP_LEN, 0));
	put16(udp, s->port);
	put16(udp + 2, ntohs(to->sin_port));
	put16(udp + 4, INC_UDP_LEN + size);
	memcpy(frame + FRAME_BTH, packet, size);
	wire_send(s->host->up, frame, FRAME_BTH + size);
}

static size_t gather(const struct msghdr *msg, uint8_t *bytes, size_t room)
{
	size_t size = 0, i;

	for (i = 0; i < msg->msg_iovlen; i++) {
		sim_require(size + msg->msg_iov[i].iov_len <= room, "a send of too many bytes");
		memcpy(bytes + size, msg->msg_iov[i].iov_base, msg->msg_iov[i].iov_len);
		size += msg->msg_iov[i].iov_len;
	}
	return size;
}

static size_t segment_of(const struct msghdr *msg, size_t size)
{
	struct cmsghdr *cmsg;
	uint16_t step = 0;

	for (cmsg = CMSG_FIRSTHDR(msg); cmsg; cmsg = CMSG_NXTHDR((struct msghdr *)msg, cmsg))
		if (cmsg->cmsg_level == IPPROTO_UDP)
			memcpy(&step, CMSG_DATA(cmsg), sizeof(step));
	return step ?: size;
}

/* At random the send buffer is full for a while. */
static bool is_full(int fd)
{
	if (task_fd_takes(fd) && sim_fault(20)) {
		sim_figures.full++;
		task_fd_full(fd, sim_now_ns() + sim_between(1000, INC_NSEC_PER_MSEC));
	}
	return !task_fd_takes(fd);
}

int __wrap_sendmmsg(int fd, struct mmsghdr *msg, unsigned int n, int flags)
{
	static uint8_t bytes[1 << 16];
	const struct sock *s = task_fd_arg(fd);
	size_t size, step, at;
	unsigned int i;
	uint16_t id;

	sim_require(s, "sendmmsg() on a descriptor that is no socket");
	for (i = 0; i < n; i++) {
		if (is_full(fd)) {
			if (!s->host->has_timer)
				task_fd_refused(fd, true);
			errno = EAGAIN;
			return i ? (int)i : -1;
		}
		/* a host whose interface is away may lack the route, too */
		if (s->host->away && sim_chance(500)) {
			errno = ENETUNREACH;
			return i ? (int)i : -1;
		}
		if (sim_fault(5)) { /* the device's queue is full */
			errno = ENOBUFS;
			return i ? (int)i : -1;
		}
		size = gather(&msg[i].msg_hdr, bytes, sizeof(bytes));
		step = segment_of(&msg[i].msg_hdr, size);
		for (at = 0, id = 0; at < size; at += step)
			send_packet(s, msg[i].msg_hdr.msg_name, bytes + at,
				    size - at < step ? size - at : step, id++);
	}
	return (int)n;
}

void inc_udp_send_one(struct inc_udp *udp, const struct sockaddr_in *to, const void *packet,
		      size_t size)
{
	udp->send_calls++;
	if (is_full(udp->fd))
		udp->send_error = EAGAIN;
	else
		send_packet(task_fd_arg(udp->fd), to, packet, size, 0);
}

bool inc_udp_writable(struct inc_udp *udp)
{
	if (udp->blocked)
		udp->blocked = !task_fd_takes(udp->fd);
	if (!udp->blocked)
		task_fd_refused(udp->fd, false);
	return !udp->blocked;
}

/* --- receiving --- */

static bool is_readable(const void *arg)
{
	return ((const struct sock *)arg)->first;
}

static struct host *own_host(uint32_t addr)
{
	unsigned int i;

	for (i = 0; i < n_hosts; i++)
		if (hosts[i]->addr == addr)
			return hosts[i];
	sim_fail("no host has the address of a socket");
}

static struct sock *find(const struct host *host, uint16_t port)
{
	unsigned int i;

	for (i = 0; i < n_socks; i++)
		if (socks[i] && socks[i]->host == host && socks[i]->port == port)
			return socks[i];
	return NULL;
}

static void release(struct datagram **list)
{
	struct datagram *d;

	while ((d = *list)) {
		*list = d->next;
		d->next = idle;
		idle = d;
	}
}

/* Called when a socket was closed, or when its process was killed. */
static void forget(void *arg)
{
	struct sock *s = arg;
	unsigned int i;

	for (i = 0; i < n_socks; i++)
		if (socks[i] == s)
			socks[i] = NULL;
	release(&s->first);
	release(&s->given);
	free(s);
}

int inc_udp_open(struct inc_udp *udp, struct in_addr own, uint16_t port, int bytes,
		 struct inc_err *err)
{
	struct host *host = own_host(own.s_addr);
	struct sock *s;
	unsigned int i;

	udp->fd = -1;
	if (port && (find(host, port) || (host->rdma && port == INC_ROCE_UDP_PORT)))
		return inc_err_set(err, EADDRINUSE, "UDP port %u is in use", port);
	s = calloc(1, sizeof(*s));
	for (i = 0; i < HOSTS && socks[i]; i++)
		;
	sim_require(s && i < HOSTS, "no memory, or more than %u sockets", HOSTS);
	socks[i] = s;
	n_socks = i < n_socks ? n_socks : i + 1;
	s->host = host;
	s->port = port ?: host->ports++;
	s->last = &s->first;
	s->fd = task_fd_new(is_readable, s);
	task_fd_more(s->fd, NULL, forget);
	*udp = (struct inc_udp){.fd = s->fd,
				.port = s->port,
				.segment = sim_chance(700),
				.gro = sim_chance(500),
				.rcvbuf = QUEUED_MOST * SOFT_RECV_TRUESIZE};
	return 0;
}

int inc_udp_show_ifindex(struct inc_udp *udp, struct inc_err *err)
{
	return 0;
}

void inc_udp_close(struct inc_udp *udp)
{
	if (udp->fd >= 0)
		task_fd_close(udp->fd);
	udp->fd = -1;
}

int inc_udp_inbox_init(struct inc_udp_inbox *inbox)
{
	inbox->bytes = NULL; /* the caller copies no datagrams */
	return 0;
}

void inc_udp_inbox_free(struct inc_udp_inbox *inbox)
{
}

unsigned int inc_udp_receive(struct inc_udp *udp, struct inc_udp_inbox *inbox)
{
	struct sock *s = task_fd_arg(udp->fd);
	unsigned int n = 0;

	udp->recv_calls++;
	release(&s->given);
	while (s->first && n < INC_UDP_RECVS) {
		struct datagram *d = s->first;

		s->first = d->next;
		if (!s->first)
			s->last = &s->first;
		s->queued--;
		d->next = s->given;
		s->given = d;
		s->host->given_elsewhere += d->sender == HOST_FROM_ELSEWHERE;
		s->host->given_strange += d->sender == HOST_FROM_STRANGER;
		inbox->datagram[n++] = (struct inc_datagram){.from = d->from,
							     .data = d->bytes,
							     .size = d->size,
							     .step = d->size,
							     .ifindex = d->ifindex ?: LOOPBACK};
	}
	return n;
}

/* Is this a UDP datagram for this host that a kernel would accept? */
static bool is_good(const struct host *host, const uint8_t *frame, size_t len)
{
	const uint8_t *ip = frame + FRAME_IP, *udp = frame + FRAME_UDP;
	struct frame copy;

	if (len < FRAME_BTH || get16(frame + 12) != 0x0800 || ip[0] != 0x45 ||
	    ip[9] != IPPROTO_UDP || memcmp(ip + 16, &host->addr, 4) ||
	    frame_sum16(ip, INC_IP_LEN, 0) != 0xffff || (get16(ip + 6) & 0x3fff) ||
	    get16(ip + 2) > len - FRAME_IP || get16(udp + 4) + INC_IP_LEN != get16(ip + 2))
		return false;
	if (!get16(udp + 6))
		return true;
	copy.len = len;
	memcpy(copy.data, frame, len);
	return frame_udp_csum_ok(&copy);
}

unsigned int host_sockets(const struct host *host)
{
	unsigned int i, n = 0;

	for (i = 0; i < n_socks; i++)
		n += socks[i] && socks[i]->host == host;
	return n;
}

void host_receive(void *arg, const uint8_t *frame, size_t len)
{
	struct host *host = arg;

	if (len >= FRAME_IP && !memcmp(frame, host->mac, sizeof(host->mac)))
		host_take(host, frame, len, host->ifindex, HOST_FROM_PEER);
}

void host_take(struct host *host, const uint8_t *frame, size_t len, unsigned int ifindex,
	       enum host_from sender)
{
	struct datagram *d;
	struct sock *s;

	if (!is_good(host, frame, len))
		return;
	s = find(host, get16(frame + FRAME_UDP + 2));
	if (!s || s->queued == QUEUED_MOST)
		return;
	d = idle;
	if (d)
		idle = d->next;
	else
		d = malloc(sizeof(*d));
	sim_require(d, "no memory");
	d->next = NULL;
	d->ifindex = ifindex;
	d->sender = sender;
	d->from = (struct sockaddr_in){.sin_family = AF_INET,
				       .sin_port = htons(get16(frame + FRAME_UDP))};
	memcpy(&d->from.sin_addr, frame + FRAME_IP + 12, 4);
	d->size = get16(frame + FRAME_UDP + 4) - INC_UDP_LEN;
	memcpy(d->bytes, frame + FRAME_BTH, d->size);
	*s->last = d;
	s->last = &d->next;
	s->queued++;
	task_fd_changed(s->fd);
}

/* --- replaces path_mtu.c, which asks the kernel for the MTU of a path --- */

int inccl_path_payload(int fd, const struct inccl_open_opts *opts, unsigned int *payload,
		       struct inc_err *err)
{
	*payload = opts->payload ?: 1024;
	return 0;
}

int inccl_path_check(int fd, uint32_t saddr, uint32_t daddr, unsigned int payload,
		     struct inc_err *err)
{
	return 0;
}
