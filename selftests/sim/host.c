// SPDX-License-Identifier: BSD-2-Clause
/* Hosts' networks (network.h). */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "hostlib/src/endpoint.h"
#include "lib/base/datagram.h"
#include "lib/channel/soft_priv.h"
#include "lib/proto/frame.h"
#include "network.h"
#include "process.h"
#include "selftests/unit/frame.h"
#include "sim.h"

#define HOSTS 96 /* limit of hosts, ports of switches, and sockets */
/* number of datagrams that a socket queues; it stands for a receive buffer of the default size */
#define QUEUED_MOST 512
#define FIRST_PORT  40000
#define TTL         64
#define LOOPBACK    1

struct datagram {
	struct datagram *next;
	unsigned int ifindex;
	enum host_from sender;
	union inc_sockaddr from;
	uint32_t to;
	uint8_t tos;
	size_t size;
	uint8_t bytes[WIRE_FRAME_MOST];
};

struct sock {
	struct process *process;
	struct host *host; /* NULL: the socket is at all addresses of its process */
	uint16_t port;
	uint64_t number;
	/* the process' descriptor, and the other socket of the pair; no datagram passes by them */
	int pair[2];
	bool is_full;
	struct datagram *first, **last;
	unsigned int queued, room; /* number of datagrams, and the most that the socket queues */
	/* datagrams that the last receive returned, which are valid until the next receive */
	struct datagram *given;
};

static struct host *hosts[HOSTS];
static unsigned int n_hosts;
static struct sock *socks[HOSTS]; /* the sockets of all hosts */
static unsigned int n_socks;      /* places of `socks` that were ever used in this run */
static struct datagram *idle;

int __real_close(int fd);

void host_add(struct host *host)
{
	sim_require(n_hosts < HOSTS, "more than %u hosts", HOSTS);
	host->ports = FIRST_PORT;
	hosts[n_hosts++] = host;
}

/* --- hosts and sockets --- */

static struct host *own_host(uint32_t addr)
{
	unsigned int i;

	for (i = 0; i < n_hosts; i++)
		if (hosts[i]->addr == addr)
			return hosts[i];
	sim_fail("no host has the address of a socket");
}

/* Whether a socket receives at the host's address. */
static bool is_at(const struct sock *s, const struct host *host)
{
	return s->host ? s->host == host : host->machine && s->process == host->machine;
}

static struct sock *find(const struct host *host, uint16_t port)
{
	unsigned int i;

	for (i = 0; i < n_socks; i++)
		if (socks[i] && is_at(socks[i], host) && socks[i]->port == port)
			return socks[i];
	return NULL;
}

/* The host from whose address a send leaves. */
static struct host *sender_of(const struct sock *s, const struct inc_udp_send *send)
{
	sim_require(!s->host || !inc_addr_given(send->source),
		    "a send from another address than the socket's");
	return s->host ?: own_host(inc_addr_in(send->source).s_addr);
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
	__real_close(s->pair[1]);
	free(s);
}

/* --- sending --- */

static void send_packet(const struct sock *s, const struct host *host, const union inc_sockaddr *to,
			const uint8_t *packet, size_t size, uint16_t id, uint8_t tos)
{
	uint8_t frame[WIRE_FRAME_MOST], *ip = frame + FRAME_IP, *udp = frame + FRAME_UDP;

	descriptor_sent(s->pair[0]);
	if (host->away)
		return;
	memset(frame, 0, FRAME_BTH);
	memcpy(frame, host->gateway, 6);
	memcpy(frame + 6, host->mac, 6);
	put16(frame + 12, 0x0800);
	ip[0] = 0x45;
	ip[1] = tos;
	put16(ip + 2, INC_IP_LEN + INC_UDP_LEN + size);
	put16(ip + 4, id);
	put16(ip + 6, 0x4000);
	ip[8] = TTL;
	ip[9] = IPPROTO_UDP;
	memcpy(ip + 12, &host->addr, 4);
	memcpy(ip + 16, &to->ipv4.sin_addr, 4);
	put16(ip + 10, ~frame_sum16(ip, INC_IP_LEN, 0));
	put16(udp, s->port);
	put16(udp + 2, inc_sockaddr_port(to));
	put16(udp + 4, INC_UDP_LEN + size);
	memcpy(frame + FRAME_BTH, packet, size);
	wire_send(host->up, frame, FRAME_BTH + size);
}

static size_t gather(const struct inc_udp_send *send, uint8_t *bytes, size_t room)
{
	size_t size = 0, i;

	for (i = 0; i < send->iovs; i++) {
		sim_require(size + send->iov[i].iov_len <= room, "a send of too many bytes");
		memcpy(bytes + size, send->iov[i].iov_base, send->iov[i].iov_len);
		size += send->iov[i].iov_len;
	}
	return size;
}

static struct sock *sock_of(int fd)
{
	struct sock *s = descriptor_arg(fd, forget);

	sim_require(s, "a datagram on a descriptor that is no socket");
	return s;
}

static void has_room(void *unused, uint64_t number)
{
	unsigned int i;

	for (i = 0; i < n_socks; i++)
		if (socks[i] && socks[i]->number == number) {
			socks[i]->is_full = false;
			descriptor_drain(socks[i]->pair);
			descriptor_changed(socks[i]->pair[0]);
		}
}

/* At random the send buffer is full for a while. */
static bool is_full(struct sock *s)
{
	if (!s->is_full && sim_fault(20)) {
		sim_figures.full++;
		s->is_full = true;
		descriptor_fill(s->pair);
		sim_after(sim_between(1000, INC_NSEC_PER_MSEC), has_room, NULL, s->number);
	}
	return s->is_full;
}

/* Returns 0 if the send may pass, or -errno. */
static int may_send(struct sock *s, const struct host *host, const struct inc_udp_send *send)
{
	const bool is_lone = send->iovs == 1;

	if (is_full(s)) {
		/* a packet of inc_udp_send_one() is lost then, and no thread waits for room */
		if (!host->has_timer && !is_lone)
			descriptor_refused(s->pair[0], true);
		return -EAGAIN;
	}
	if (is_lone)
		return 0;
	/* a host whose interface is away may lack the route, too */
	if (host->away && sim_chance(500))
		return -ENETUNREACH;
	return sim_fault(5) ? -ENOBUFS : 0; /* the device's queue may be full */
}

static int send_udp(int fd, const struct inc_udp_send *sends, unsigned int n)
{
	static uint8_t bytes[1 << 16];
	struct sock *s = sock_of(fd);
	const struct host *host;
	size_t size, step, at;
	unsigned int i;
	uint16_t id;
	int ret;

	for (i = 0; i < n && i < INC_UDP_SENDS; i++) {
		host = sender_of(s, &sends[i]);
		ret = may_send(s, host, &sends[i]);
		if (ret)
			return i ? (int)i : ret;
		size = gather(&sends[i], bytes, sizeof(bytes));
		step = sends[i].segment_bytes ?: size;
		for (at = 0, id = 0; at < size; at += step)
			send_packet(s, host, sends[i].to, bytes + at,
				    size - at < step ? size - at : step, id++, sends[i].tos);
	}
	return (int)i;
}

static bool writable(int fd)
{
	const struct sock *s = sock_of(fd);

	if (!s->is_full)
		descriptor_refused(fd, false);
	return !s->is_full;
}

/* --- receiving --- */

/* Whether a socket at an address (0: all addresses of the calling process) is at the host's. */
static bool is_meant(uint32_t own, const struct host *host)
{
	return own ? host->addr == own : host->machine && host->machine == task_process();
}

/* Returns the port, or a free one if it is 0. Returns 0 if the port is in use. */
static uint16_t find_port(uint32_t own, uint16_t port)
{
	uint16_t free_port = 0;
	unsigned int i;

	for (i = 0; i < n_hosts; i++) {
		if (!is_meant(own, hosts[i]))
			continue;
		if (port && (find(hosts[i], port) || (hosts[i]->rdma && port == INC_ROCE_UDP_PORT)))
			return 0;
		if (hosts[i]->ports > free_port)
			free_port = hosts[i]->ports;
	}
	sim_require(free_port, "no host has the address of a socket");
	for (i = 0; !port && i < n_hosts; i++)
		if (is_meant(own, hosts[i]))
			hosts[i]->ports = free_port + 1;
	return port ?: free_port;
}

static int open_udp(const struct inc_addr *at, uint16_t port, int bytes, struct inc_udp_socket *out,
		    struct inc_err *err)
{
	const uint32_t own = inc_addr_in(*at).s_addr;
	const uint16_t found = find_port(own, port);
	static uint64_t numbers;
	struct sock *s;
	unsigned int i;

	if (!found)
		return inc_err_set(err, EADDRINUSE, "UDP port %u is in use", port);
	s = calloc(1, sizeof(*s));
	for (i = 0; i < HOSTS && socks[i]; i++)
		;
	sim_require(s && i < HOSTS, "no memory, or more than %u sockets", HOSTS);
	socks[i] = s;
	n_socks = i < n_socks ? n_socks : i + 1;
	s->host = own ? own_host(own) : NULL;
	s->process = task_process();
	s->number = ++numbers;
	s->port = found;
	s->room = QUEUED_MOST;
	s->last = &s->first;
	descriptor_pair(s->pair);
	descriptor_own(s->pair[0], task_process(), forget, s);
	descriptor_sends(s->pair[0]);
	*out = (struct inc_udp_socket){.fd = s->pair[0],
				       .port = s->port,
				       .segment = sim_chance(700),
				       .gro = sim_chance(500),
				       .rcvbuf = s->room * SOFT_RECV_TRUESIZE};
	return 0;
}

static int grow(int fd, int bytes)
{
	struct sock *s = sock_of(fd);

	s->room = QUEUED_MOST * (bytes / SOFT_BUFFER_BYTES);
	return s->room * SOFT_RECV_TRUESIZE;
}

static int show_arrival(int fd, bool ipv6)
{
	return 0;
}

/* The product asks for it only to log a warning, which the simulation does without. */
static int source(const struct inc_addr *to, struct inc_addr *out)
{
	return -ENETUNREACH;
}

static void close_udp(int fd)
{
	close(fd);
}

/* The socket is readable while one byte waits in it, as long as it has a datagram. */
static int receive_udp(int fd, uint8_t *room, struct inc_datagram *datagrams)
{
	struct sock *s = sock_of(fd);
	int n = 0;

	release(&s->given);
	while (s->first && n < INC_UDP_RECVS) {
		struct datagram *d = s->first;

		s->first = d->next;
		if (!s->first)
			s->last = &s->first;
		s->queued--;
		d->next = s->given;
		s->given = d;
		own_host(d->to)->given_elsewhere += d->sender == HOST_FROM_ELSEWHERE;
		own_host(d->to)->given_strange += d->sender == HOST_FROM_STRANGER;
		datagrams[n++] = (struct inc_datagram){.from = d->from,
						       .data = d->bytes,
						       .size = d->size,
						       .step = d->size,
						       .ifindex = d->ifindex ?: LOOPBACK,
						       .to = inc_addr_of_ipv4(d->to),
						       .tos = d->tos};
	}
	if (n && !s->first)
		sim_require(recv(fd, &(char){0}, 1, 0) == 1, "a socket has lost its byte");
	return n ?: -EAGAIN;
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

unsigned int host_sockets(const struct process *process)
{
	unsigned int i, n = 0;

	for (i = 0; i < n_socks; i++)
		n += socks[i] && socks[i]->process == process;
	return n;
}

void host_receive(void *arg, const uint8_t *frame, size_t len)
{
	struct host *host = arg;

	if (len >= FRAME_IP && !memcmp(frame, host->mac, sizeof(host->mac)))
		host_take(host, frame, len, host->ifindex, HOST_FROM_PEER);
}

static bool any_device(void)
{
	for (unsigned int i = 0; i < n_hosts; i++)
		if (hosts[i]->rdma)
			return true;
	return false;
}

/* Contributions, partial sums and results have the class of the ranks' packets. An ACK or NAK may
 * come before the switch has received a packet of its receiver. */
static void check_class(const struct host *host, const uint8_t *frame)
{
	const uint8_t tos = frame[FRAME_IP + 1];

	sim_require(frame[FRAME_BTH] == INC_OP_ACK || any_device() ||
			    (tos & ~INC_ECN_MASK) == (NETWORK_CLASS & ~INC_ECN_MASK),
		    "%s: a packet of opcode %u has the TOS byte %#x", host->process.name,
		    frame[FRAME_BTH], tos);
}

void host_take(struct host *host, const uint8_t *frame, size_t len, unsigned int ifindex,
	       enum host_from sender)
{
	struct datagram *d;
	struct sock *s;

	if (!is_good(host, frame, len))
		return;
	s = find(host, get16(frame + FRAME_UDP + 2));
	if (!s || s->queued == s->room)
		return;
	if (sender == HOST_FROM_PEER)
		check_class(host, frame);
	d = idle;
	if (d)
		idle = d->next;
	else
		d = malloc(sizeof(*d));
	sim_require(d, "no memory");
	d->next = NULL;
	d->ifindex = ifindex;
	d->sender = sender;
	d->from.ipv4 = (struct sockaddr_in){.sin_family = AF_INET,
					    .sin_port = htons(get16(frame + FRAME_UDP))};
	memcpy(&d->from.ipv4.sin_addr, frame + FRAME_IP + 12, 4);
	d->to = host->addr;
	d->tos = frame[FRAME_IP + 1];
	d->size = get16(frame + FRAME_UDP + 4) - INC_UDP_LEN;
	memcpy(d->bytes, frame + FRAME_BTH, d->size);
	*s->last = d;
	s->last = &d->next;
	if (!s->queued++)
		sim_require(send(s->pair[1], "", 1, 0) == 1, "send: %s", strerror(errno));
	descriptor_changed(s->pair[0]);
}

void host_begin(void)
{
	n_hosts = n_socks = 0;
	memset(socks, 0, sizeof(socks));
	inc_os.udp = (struct inc_os_udp){.open = open_udp,
					 .grow = grow,
					 .show_arrival = show_arrival,
					 .send = send_udp,
					 .receive = receive_udp,
					 .writable = writable,
					 .close = close_udp,
					 .source = source};
}

/* --- replaces path_mtu.c, which asks the kernel for the MTU of a path --- */

int inccl_path_payload(int fd, const struct inccl_open_opts *opts, unsigned int *payload,
		       struct inc_err *err)
{
	*payload = opts->payload ?: 1024;
	return 0;
}

int inccl_path_check(int fd, struct inc_addr saddr, struct inc_addr daddr, unsigned int payload,
		     struct inc_err *err)
{
	return 0;
}
