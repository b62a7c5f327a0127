// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <event2/event.h>
#include "daemon.h"
#include "sim.h"
#include "userspace/config.h"
#include "userspace/xdp/packet.h"
#include "userspace/xdp/slowpath.h"
#include "userspace/xdp/xsk.h"

#define RX_FRAMES   64 /* frames in the fill ring, as in userspace/xdp/xsk.c */
#define TX_FRAMES   256
#define TURN_MIN_NS 1000
#define TURN_MAX_NS 30000
#define CONNS_MOST  64

/* --- libevent: timers and descriptors of one daemon --- */

struct event_base {
	struct daemon *daemon;
	/* number of the daemon's life; events that were scheduled in an earlier life are dropped */
	uint64_t life;
};

struct event {
	struct event_base *base;
	event_callback_fn fn;
	void *arg;
	evutil_socket_t fd;
	uint64_t armed; /* counts calls of event_add(); 0: the event is not pending */
	bool due;       /* for an event of a descriptor: its callback is scheduled */
	struct event *next;
	bool freed;
};

static struct event *events; /* list of the events of all daemons */
static uint64_t armings;

struct event *event_new(struct event_base *base, evutil_socket_t fd, short what,
			event_callback_fn fn, void *arg)
{
	struct event *e = calloc(1, sizeof(*e));

	sim_require(e, "no memory");
	*e = (struct event){.base = base, .fn = fn, .arg = arg, .fd = fd, .next = events};
	events = e;
	return e;
}

static void go_off(void *arg, uint64_t armed)
{
	struct event *e = arg;
	const struct process *process;

	if (e->freed || e->armed != armed)
		return;
	process = &e->base->daemon->process;
	if (sim_now_ns() < process->paused_until_ns) {
		sim_at(process->paused_until_ns, go_off, e, armed);
		return;
	}
	if (e->fd < 0)
		e->armed = 0;
	e->due = false;
	e->fn(e->fd, e->fd < 0 ? EV_TIMEOUT : EV_READ, e->arg);
}

int event_add(struct event *e, const struct timeval *tv)
{
	e->armed = ++armings;
	if (tv)
		sim_after(tv->tv_sec * INC_NSEC_PER_SEC + tv->tv_usec * INC_NSEC_PER_USEC +
				  sim_between(TURN_MIN_NS, TURN_MAX_NS),
			  go_off, e, e->armed);
	return 0;
}

int event_del(struct event *e)
{
	e->armed = 0;
	return 0;
}

void event_free(struct event *e)
{
	e->freed = true;
	e->armed = 0;
}

/* A descriptor has become readable. */
static void readable(int fd)
{
	struct event *e;

	for (e = events; e; e = e->next)
		if (!e->freed && e->armed && e->fd == fd && !e->due) {
			e->due = true;
			sim_after(sim_between(TURN_MIN_NS, TURN_MAX_NS), go_off, e, e->armed);
		}
}

/* Frees a daemon's events at the end of a run. Earlier that is not possible, because a freed event
 * may still be scheduled. */
static void free_events(const struct event_base *base)
{
	struct event **at = &events, *e;

	while ((e = *at)) {
		if (e->base == base) {
			*at = e->next;
			free(e);
		} else {
			at = &e->next;
		}
	}
}

/* --- libbpf's ring buffer --- */

struct ring_buffer {
	struct xdp *xdp;
	int fd;
	ring_buffer_sample_fn fn;
	void *arg;
};

struct ring_buffer *ring_buffer__new(int fd, ring_buffer_sample_fn fn, void *arg,
				     const struct ring_buffer_opts *opts)
{
	struct ring_buffer *ring = calloc(1, sizeof(*ring));

	sim_require(ring, "no memory");
	*ring = (struct ring_buffer){.xdp = xdp_of_fd(fd), .fd = fd, .fn = fn, .arg = arg};
	return ring;
}

void ring_buffer__free(struct ring_buffer *ring)
{
	free(ring);
}

int ring_buffer__epoll_fd(const struct ring_buffer *ring)
{
	return ring->fd;
}

int ring_buffer__consume(struct ring_buffer *ring)
{
	const struct inc_event *e;

	while ((e = xdp_take_event(ring->xdp)))
		if (ring->fn(ring->arg, (void *)e, sizeof(*e)) < 0)
			break;
	return 0;
}

static void on_event(void *arg)
{
	struct daemon *d = arg;

	readable(inc_switch_map_fd(xdp_switch(d->xdp), INC_MAP_EVENT));
}

/* --- AF_XDP --- */

struct inc_xsk {
	struct daemon *daemon;
	unsigned int port;
	bool dead; /* the interface of this socket is gone */
	int fd;
	inc_xsk_rx_fn fn;
	void *arg;
	struct event *readable;
	struct {
		size_t len;
		uint8_t bytes[WIRE_FRAME_MOST];
	} rx[RX_FRAMES];
	unsigned int rx_put, rx_got;
	struct {
		size_t len;
		uint8_t bytes[INC_FRAME_MAX];
	} tx[TX_FRAMES];
	unsigned int tx_used;
};

static void send_frame(struct daemon *d, unsigned int port, const uint8_t *frame, size_t len)
{
	if (d->away[port])
		return;
	if (d->watch)
		d->watch(d->watch_arg, port, frame, len);
	wire_send(d->down[port], frame, len);
}

static void on_frame(evutil_socket_t fd, short what, void *arg)
{
	struct inc_xsk *x = arg;

	while (x->rx_got != x->rx_put) {
		unsigned int i = x->rx_got++ % RX_FRAMES;

		x->fn(x->rx[i].bytes, x->rx[i].len, x->arg);
	}
}

static struct inc_xsk *sockets[XDP_PORTS * 8];

int inc_xsk_open(struct event_base *base, const char *ifname, uint32_t queue, inc_xsk_rx_fn rx,
		 void *arg, struct inc_xsk **out, struct inc_err *err)
{
	/* malloc() and not calloc(), because clearing the memory of the frames takes long */
	struct inc_xsk *x = malloc(sizeof(*x));
	int i;

	for (i = 0; sockets[i]; i++)
		;
	sim_require(x && i < XDP_PORTS * 8, "no room for an AF_XDP socket");
	sockets[i] = x;
	x->rx_put = x->rx_got = x->tx_used = 0;
	x->daemon = base->daemon;
	x->port = ifname[1] - '0';
	x->dead = !xdp_ifindex_now(base->daemon->xdp, x->port);
	x->fd = 1 + i;
	x->fn = rx;
	x->arg = arg;
	x->readable = event_new(base, x->fd, EV_READ | EV_PERSIST, on_frame, x);
	event_add(x->readable, NULL);
	*out = x;
	return 0;
}

void inc_xsk_close(struct inc_xsk *x)
{
	const int none = 0;
	uint32_t key;

	if (!x)
		return;
	key = x->port * INC_PORT_QUEUES;
	bpf_map_update_elem(inc_switch_map_fd(xdp_switch(x->daemon->xdp), INC_MAP_XSK), &key, &none,
			    0);
	event_free(x->readable);
	sockets[x->fd - 1] = NULL;
	free(x);
}

int inc_xsk_fd(const struct inc_xsk *x)
{
	return x->fd;
}

bool inc_xsk_lives(const struct inc_xsk *x)
{
	return !x->dead;
}

void daemon_lose_sockets(struct daemon *d, unsigned int port)
{
	unsigned int i;

	for (i = 0; i < XDP_PORTS * 8; i++)
		if (sockets[i] && sockets[i]->daemon == d && sockets[i]->port == port)
			sockets[i]->dead = true;
}

uint8_t *inc_xsk_tx_frame(struct inc_xsk *x)
{
	if (sim_fault(20)) {
		sim_figures.full++;
		return NULL;
	}
	if (x->tx_used == TX_FRAMES)
		inc_xsk_tx_flush(x);
	return x->tx[x->tx_used].bytes;
}

void inc_xsk_tx_put(struct inc_xsk *x, uint8_t *frame, size_t len)
{
	x->tx[x->tx_used].len = len;
	x->tx_used += !!len;
}

void inc_xsk_tx_flush(struct inc_xsk *x)
{
	unsigned int i;

	for (i = 0; i < x->tx_used && !x->dead; i++)
		send_frame(x->daemon, x->port, x->tx[i].bytes, x->tx[i].len);
	x->tx_used = 0;
}

uint32_t inc_rx_queues(const char *ifname)
{
	return 1;
}

/* --- the switch --- */

static void on_leaving(void *arg, unsigned int port, const uint8_t *frame, size_t len)
{
	send_frame(arg, port, frame, len);
}

static bool on_slow_path(void *arg, unsigned int port, const uint8_t *frame, size_t len)
{
	const struct daemon *d = arg;
	struct inc_xsk *x = NULL;
	unsigned int i;

	for (i = 0; i < XDP_PORTS * 8; i++)
		if (sockets[i] && sockets[i]->daemon == d && sockets[i]->port == port)
			x = sockets[i];
	if (!x || x->dead || x->rx_put - x->rx_got == RX_FRAMES || sim_fault(20))
		return false;
	i = x->rx_put++ % RX_FRAMES;
	memcpy(x->rx[i].bytes, frame, len);
	x->rx[i].len = len;
	readable(x->fd);
	return true;
}

static void on_notice(void *arg, enum inc_event_kind kind, uint32_t comm, uint32_t mask, uint64_t r,
		      const char *text)
{
	struct daemon *d = arg;

	if (sim_tracing())
		printf("%12s     %-6s notice %s: %s\n", "", d->process.name,
		       inc_event_info[kind].name, text);
	sim_note(d->process.name, inc_event_info[kind].name, comm, mask, r);
	d->notice(d->watch_arg, kind, text);
}

void daemon_revive(struct daemon *d)
{
	const struct inc_slowpath_opts opts = {.rto_min_ms = INC_DEF_RTO_MIN_MS,
					       .rto_max_ms = INC_DEF_RTO_MAX_MS,
					       .ack_delay_ms = INC_DEF_ACK_DELAY_MS};
	struct inc_switch *sw = xdp_switch(d->xdp);
	struct inc_err err = {""};
	unsigned int i;
	int ret;

	sim_note(d->process.name, "starts", d->n_comms, 0, 0);
	ret = inc_slowpath_new(d->base, sw, &opts, on_notice, d, &d->slow_path, &err);
	for (i = 0; !ret && i < d->ports; i++)
		ret = inc_slowpath_add_port(d->slow_path, inc_switch_port_at(sw, i), &err);
	for (i = 0; !ret && i < d->n_comms; i++)
		ret = inc_slowpath_adopt_comm(d->slow_path, d->comm[i], &err);
	sim_require(!ret, "%s cannot start: %s", d->process.name, err.msg);
	if (d->follow)
		d->follow(d->watch_arg);
}

void daemon_kill(struct daemon *d)
{
	sim_note(d->process.name, "is killed", 0, 0, 0);
	sim_figures.crashes++;
	inc_slowpath_free(d->slow_path);
	d->slow_path = NULL;
	d->process.paused_until_ns = 0;
}

void daemon_start(struct daemon *d, const char *name, unsigned int ports, uint32_t max_rows)
{
	const struct xdp_out out = {
		.frame = on_leaving, .slow_path = on_slow_path, .event = on_event, .arg = d};

	snprintf(d->process.name, sizeof(d->process.name), "%s", name);
	d->ports = ports;
	d->xdp = xdp_new(4, CONNS_MOST, max_rows, ports, &out);
	d->base = calloc(1, sizeof(*d->base));
	sim_require(d->base, "no memory");
	d->base->daemon = d;
	daemon_revive(d);
}

void daemon_stop(struct daemon *d)
{
	inc_slowpath_free(d->slow_path);
	xdp_free(d->xdp);
	free_events(d->base);
	free(d->base);
}

uint32_t daemon_add(struct daemon *d, const struct inc_comm_conf *conf)
{
	struct inc_err err = {""};
	int comm = inc_switch_add_comm(xdp_switch(d->xdp), conf, &err), ret;

	sim_require(comm >= 0, "no communicator: %s", err.msg);
	ret = d->slow_path ? inc_slowpath_add_comm(d->slow_path, comm, &err) : 0;
	ret = ret ?: inc_switch_start_comm(xdp_switch(d->xdp), comm, &err);
	sim_require(!ret, "no communicator: %s", err.msg);
	d->comm[d->n_comms++] = comm;
	return comm;
}

void daemon_remove(struct daemon *d, uint32_t comm)
{
	struct inc_err err = {""};

	sim_require(!inc_switch_remove_comm(xdp_switch(d->xdp), comm, &err), "%s", err.msg);
	if (d->slow_path)
		inc_slowpath_remove_comm(d->slow_path, comm);
	d->n_comms--;
}

void daemon_receive(void *arg, const uint8_t *frame, size_t len)
{
	const struct daemon_port *at = arg;

	xdp_receive(at->daemon->xdp, at->port, frame, len);
}
