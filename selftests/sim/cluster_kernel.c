// SPDX-License-Identifier: BSD-2-Clause
/* Stands for the kernel below a switch's daemon: the ring of events, AF_XDP, programs and ports.
 * The daemon's only thread calls this file, and so does the data path when it passes an event or a
 * packet to the daemon. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <event2/event.h>
#include "cluster_switch.h"
#include "sim.h"
#include "userspace/xdp/packet.h"
#include "userspace/links.h"
#include "userspace/xdp/xsk.h"
#include "xdp_priv.h"

#define RX_FRAMES 64 /* frames in the fill ring, as in userspace/xdp/xsk.c */
#define TX_FRAMES 256

static struct cluster_switch *the_switch;

/* --- libbpf's ring buffer --- */

struct ring_buffer {
	struct xdp *xdp;
	int fd;
	ring_buffer_sample_fn fn;
	void *arg;
};

static struct ring_buffer ring; /* ring of the running daemon */

static bool has_events(const void *arg)
{
	const struct ring_buffer *r = arg;

	return r->xdp->ring_put != r->xdp->ring_got;
}

struct ring_buffer *ring_buffer__new(int fd, ring_buffer_sample_fn fn, void *arg,
				     const struct ring_buffer_opts *opts)
{
	ring = (struct ring_buffer){.xdp = xdp_of_fd(fd), .fn = fn, .arg = arg};
	ring.fd = task_fd_new(has_events, &ring);
	return &ring;
}

void ring_buffer__free(struct ring_buffer *r)
{
	if (r)
		task_fd_close(r->fd);
}

int ring_buffer__epoll_fd(const struct ring_buffer *r)
{
	return r->fd;
}

int ring_buffer__consume(struct ring_buffer *r)
{
	const struct inc_event *e;

	while ((e = xdp_take_event(r->xdp)))
		if (r->fn(r->arg, (void *)e, sizeof(*e)) < 0)
			break;
	return 0;
}

static void on_event(void *arg)
{
	const struct cluster_switch *sw = arg;

	if (sw->running)
		task_fd_changed(ring.fd);
}

/* --- AF_XDP --- */

struct inc_xsk {
	unsigned int port;
	bool dead; /* the interface of this socket is gone */
	int fd;
	inc_xsk_rx_fn fn;
	void *arg;
	struct event *event;
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

static struct inc_xsk *sockets[XDP_PORTS];

static bool has_frames(const void *arg)
{
	const struct inc_xsk *x = arg;

	return x->rx_put != x->rx_got;
}

static void on_frame(evutil_socket_t fd, short what, void *arg)
{
	struct inc_xsk *x = arg;

	while (x->rx_got != x->rx_put) {
		unsigned int i = x->rx_got++ % RX_FRAMES;

		x->fn(x->rx[i].bytes, x->rx[i].len, x->arg);
	}
}

/* Removes a socket from the map, as the kernel does however the socket's process ends. */
static void forget_socket(void *arg)
{
	struct inc_xsk *x = arg;

	the_switch->xdp->xsk[x->port * INC_PORT_QUEUES] = 0;
	sockets[x->port] = NULL;
	free(x);
}

int inc_xsk_open(struct event_base *base, const char *ifname, uint32_t queue, inc_xsk_rx_fn fn,
		 void *arg, struct inc_xsk **out, struct inc_err *err)
{
	struct inc_xsk *x = malloc(sizeof(*x));

	sim_require(x, "no memory for an AF_XDP socket");
	x->rx_put = x->rx_got = x->tx_used = 0;
	x->port = ifname[1] - '0';
	x->dead = !xdp_ifindex_now(the_switch->xdp, x->port);
	x->fn = fn;
	x->arg = arg;
	x->event = NULL;
	x->fd = task_fd_new(has_frames, x);
	task_fd_more(x->fd, NULL, forget_socket);
	sockets[x->port] = x;
	x->event = event_new(base, x->fd, EV_READ | EV_PERSIST, on_frame, x);
	if (!x->event || event_add(x->event, NULL)) {
		inc_xsk_close(x);
		return inc_err_set(err, ENOMEM, "no memory for an AF_XDP socket");
	}
	*out = x;
	return 0;
}

void inc_xsk_close(struct inc_xsk *x)
{
	if (!x)
		return;
	if (x->event)
		event_free(x->event);
	task_fd_close(x->fd);
}

int inc_xsk_fd(const struct inc_xsk *x)
{
	return x->fd;
}

bool inc_xsk_lives(const struct inc_xsk *x)
{
	return !x->dead;
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
		wire_send(the_switch->down[x->port], x->tx[i].bytes, x->tx[i].len);
	x->tx_used = 0;
}

uint32_t inc_rx_queues(const char *ifname)
{
	return 1;
}

/* --- the loader's queries of the kernel --- */

void inc_switch_hush_libraries(void)
{
}

int inc_switch_possible(struct inc_err *err)
{
	return 0;
}

bool inc_switch_left(const char *instance)
{
	return the_switch->adopts;
}

/* A daemon that starts reads its state from the maps. Only the memory of the daemon is new, and the
 * maps remain. */
int inc_switch_open(const struct inc_switch_opts *opts, struct inc_switch **out,
		    struct inc_err *err)
{
	struct inc_switch *sw = xdp_switch(the_switch->xdp);
	unsigned int i;

	memset(sw->comm, 0, sw->opts.max_comms * sizeof(*sw->comm));
	memset(sw->conn, 0, sw->opts.max_connections * sizeof(*sw->conn));
	memset(sw->root, 0, inc_switch_root_rows(sw->opts.max_comms) * sizeof(*sw->root));
	for (i = 0; i < INC_MAX_PORTS; i++)
		sw->slot[i].used = NULL;
	/* the predecessor's maps remain until this daemon has adopted them */
	sw->adopted = sw->leaving = the_switch->adopts;
	*out = sw;
	return 0;
}

/* A daemon that ends removes its programs and maps, so that the next one starts with an empty
 * switch. A killed daemon does not remove its maps, and the next daemon adopts them. sw: NULL if
 * nothing was opened. */
void inc_switch_close(struct inc_switch *sw)
{
	if (sw && !sw->leaving)
		the_switch->closed = true;
}

void inc_switch_leave(struct inc_switch *sw)
{
	sw->leaving = true;
}

void inc_forget_ports(struct inc_switch *sw)
{
}

int inc_switch_attach_port(struct inc_switch *sw, const char *ifname, struct inc_err *err)
{
	struct inc_port_slot *slot = &sw->slot[ifname[1] - '0'];
	const uint32_t ifindex = if_nametoindex(ifname);
	int ret;

	if (!ifindex)
		return inc_err_set(err, ENODEV, "interface %s does not exist here", ifname);
	slot->port.ifindex = ifindex;
	slot->left_ifindex = 0;
	ret = inc_attach_slot(sw, slot, err);
	slot->used = ret ? NULL : &slot->port;
	return ret;
}

bool inc_is_port(const struct inc_switch *sw, uint32_t ifindex)
{
	unsigned int i;

	for (i = 0; i < the_switch->ports; i++)
		if (sw->slot[i].used && sw->slot[i].port.ifindex == ifindex)
			return true;
	return false;
}

int inc_attach_can_share(struct inc_err *why)
{
	return 0;
}

int inc_switch_read_counters(const struct inc_switch *sw, struct inc_counters *out,
			     struct inc_err *err)
{
	unsigned int i;

	*out = (struct inc_counters){};
	for (i = 0; i < INC_CTR_MAX; i++)
		out->value[i] = xdp_counter(the_switch->xdp, i);
	return 0;
}

const struct inc_counter_info inc_counter_info[INC_CTR_MAX] = {
#define _(ID, name, class, text) [INC_CTR_##ID] = {#name, class, text},
	INC_COUNTERS(_)
#undef _
};

int inc_links_read(struct inc_link **out)
{
	struct inc_link *list = calloc(the_switch->ports, sizeof(*list));
	int i, n = 0;

	*out = list;
	if (!list)
		return -ENOMEM;
	for (i = 0; i < (int)the_switch->ports; i++) {
		const uint32_t ifindex = xdp_ifindex_now(the_switch->xdp, i);

		if (!ifindex)
			continue;
		list[n] = (struct inc_link){.ifindex = ifindex,
					    .up = true,
					    .xdp_id = xdp_program_id(the_switch->xdp, i)};
		snprintf(list[n++].name, sizeof(list[n].name), "p%d", i);
	}
	return n;
}

const struct inc_link *inc_link_at(const struct inc_link *list, int n, uint32_t ifindex)
{
	while (n-- > 0)
		if (list[n].ifindex == ifindex)
			return &list[n];
	return NULL;
}

const struct inc_link *inc_link_called(const struct inc_link *list, int n, const char *name)
{
	while (n-- > 0)
		if (!strcmp(list[n].name, name))
			return &list[n];
	return NULL;
}

struct inc_links_watch {
	int fd;
	bool changed;
	void (*fn)(void *arg);
	void *arg;
	struct event *event;
};

static struct inc_links_watch watch; /* the running daemon's watch for changes of interfaces */

static bool has_changed(const void *arg)
{
	return ((const struct inc_links_watch *)arg)->changed;
}

static void on_change(evutil_socket_t fd, short what, void *arg)
{
	watch.changed = false;
	watch.fn(watch.arg);
}

static void forget_watch(void *arg)
{
	watch.fn = NULL;
}

int inc_links_watch_start(struct event_base *base, void (*fn)(void *arg), void *arg,
			  struct inc_links_watch **out, struct inc_err *err)
{
	watch = (struct inc_links_watch){.fn = fn, .arg = arg};
	watch.fd = task_fd_new(has_changed, &watch);
	task_fd_more(watch.fd, NULL, forget_watch);
	watch.event = event_new(base, watch.fd, EV_READ | EV_PERSIST, on_change, NULL);
	if (!watch.event || event_add(watch.event, NULL)) {
		inc_links_watch_stop(&watch);
		return inc_err_set(err, ENOMEM, "no memory to watch interfaces");
	}
	*out = &watch;
	return 0;
}

void inc_links_watch_stop(struct inc_links_watch *w)
{
	if (!w)
		return;
	if (w->event)
		event_free(w->event);
	task_fd_close(w->fd);
}

static void links_change(void)
{
	if (!watch.fn)
		return;
	watch.changed = true;
	task_fd_changed(watch.fd);
}

static void port_is_gone(unsigned int port)
{
	if (sockets[port])
		sockets[port]->dead = true;
	links_change();
}

void cluster_port_delete(struct cluster_switch *sw, unsigned int port)
{
	sim_note(sw->process.name, "loses the interface of a port", port, 0, 0);
	xdp_delete(sw->xdp, port);
	port_is_gone(port);
}

void cluster_port_move(struct cluster_switch *sw, unsigned int port)
{
	sim_note(sw->process.name, "has the interface of a port moved away", port, 0, 0);
	xdp_move(sw->xdp, port);
	port_is_gone(port);
}

void cluster_port_return(struct cluster_switch *sw, unsigned int port)
{
	sim_note(sw->process.name, "gets an interface again", port, 0, 0);
	xdp_make(sw->xdp, port);
	links_change();
}

unsigned int __wrap_if_nametoindex(const char *name);
unsigned int __wrap_if_nametoindex(const char *name)
{
	return xdp_ifindex_now(the_switch->xdp, name[1] - '0');
}

/* --- the data path --- */

static void on_leaving(void *arg, unsigned int port, const uint8_t *frame, size_t len)
{
	const struct cluster_switch *sw = arg;

	wire_send(sw->down[port], frame, len);
}

static bool on_slow_path(void *arg, unsigned int port, const uint8_t *frame, size_t len)
{
	struct inc_xsk *x = sockets[port];
	unsigned int i;

	if (!x || x->dead || x->rx_put - x->rx_got == RX_FRAMES || sim_fault(20))
		return false;
	i = x->rx_put++ % RX_FRAMES;
	memcpy(x->rx[i].bytes, frame, len);
	x->rx[i].len = len;
	task_fd_changed(x->fd);
	return true;
}

/* If a communicator is removed before it has started, for example because memory is short, it must
 * leave nothing behind. */
static void check_taken_back(struct xdp *xdp)
{
	const struct inc_comm_conf conf = {.communicator = 1,
					   .root = true,
					   .n_conns = 1,
					   .payload = 256,
					   .slots = 1,
					   .conn[0] = {.port = "p0",
						       .own.ip = htonl(CLUSTER_PORT_ADDR(0)),
						       .own.udp_port = INC_ROCE_UDP_PORT,
						       .own.qpn = INC_MIN_QPN,
						       .peer.ip = htonl(CLUSTER_PORT_ADDR(0) - 1),
						       .peer.udp_port = INC_ROCE_UDP_PORT,
						       .peer.qpn = INC_MIN_QPN,
						       .pkey = 0xffff}};
	struct inc_err err = {""};
	int comm = inc_switch_add_comm(xdp_switch(xdp), &conf, &err);

	sim_require(comm >= 0 && !inc_switch_remove_comm(xdp_switch(xdp), comm, &err), "%s",
		    err.msg);
	sim_require(!xdp_entries(xdp), "a communicator that is taken back leaves look-ups");
}

void cluster_xdp_open(struct cluster_switch *sw)
{
	const struct xdp_out out = {
		.frame = on_leaving, .slow_path = on_slow_path, .event = on_event, .arg = sw};

	the_switch = sw;
	sw->xdp = xdp_new(CLUSTER_COMMS, CLUSTER_COMMS * XDP_PORTS, CLUSTER_ROWS, sw->ports, &out);
	memset(sockets, 0, sizeof(sockets));
	check_taken_back(sw->xdp);
}
