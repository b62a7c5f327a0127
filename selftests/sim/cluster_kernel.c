// SPDX-License-Identifier: BSD-2-Clause
/* Stands for the kernel below a switch's daemon: the ring of events, AF_XDP, programs and ports.
 * The daemon's only thread calls this file, and so does the data path when it passes an event or a
 * packet to the daemon. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <event2/event.h>
#include "cluster_switch.h"
#include "lib/check/inspect.h"
#include "network.h"
#include "process.h"
#include "sim.h"
#include "userspace/links.h"
#include "userspace/xdp/packet.h"
#include "userspace/xdp/xsk.h"
#include "xdp.h"
#include "xdp_priv.h"

#define RX_FRAMES 64 /* frames in the fill ring, as in userspace/xdp/xsk.c */
#define TX_FRAMES 256

/* --- the kernel's state for each switch --- */

struct ring_buffer {
	struct xdp *xdp;
	int fd;
	ring_buffer_sample_fn fn;
	void *arg;
};

struct inc_links_watch {
	int fd;
	void (*fn)(void *arg);
	void *arg;
	struct event *event;
};

/* The ring of events, the AF_XDP sockets, and the watch for changes of interfaces, all of the
 * running daemon. */
static struct kernel {
	struct ring_buffer ring;
	struct inc_xsk *socket[XDP_PORTS];
	struct inc_links_watch watch;
} kernels[CLUSTER_SWITCHES_MOST];

static struct kernel *kernel_of(const struct cluster_switch *sw)
{
	return &kernels[sw->number];
}

static struct cluster_switch *here(void)
{
	return cluster_switch_here();
}

/* --- libbpf's ring buffer --- */

struct ring_buffer *ring_buffer__new(int fd, ring_buffer_sample_fn fn, void *arg,
				     const struct ring_buffer_opts *opts)
{
	struct ring_buffer *r = &kernel_of(here())->ring;

	*r = (struct ring_buffer){.xdp = xdp_of_fd(fd), .fn = fn, .arg = arg};
	r->fd = descriptor_new();
	if (r->xdp->ring_put != r->xdp->ring_got)
		descriptor_signal(r->fd);
	return r;
}

void ring_buffer__free(struct ring_buffer *r)
{
	if (r)
		close(r->fd);
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
	if (r->xdp->ring_put == r->xdp->ring_got)
		descriptor_clear(r->fd);
	return 0;
}

static void on_event(void *arg)
{
	const struct cluster_switch *sw = arg;

	if (sw->running)
		descriptor_signal(kernel_of(sw)->ring.fd);
}

/* --- AF_XDP --- */

struct inc_xsk {
	struct cluster_switch *sw;
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

static void send_frame(const struct cluster_switch *sw, unsigned int port, const uint8_t *frame,
		       size_t len)
{
	const struct watch at = {sw->process.name, sw->number, sw->xdp};
	const struct host *host = &sw->port[port].host;

	if (cluster_port_is_away(sw, port))
		return;
	/* between its change and the daemon's look at it, an address may be old or new */
	sim_require(frame[6 + 2] >= sw->port[port].followed && frame[6 + 2] <= host->mac[2] &&
			    !memcmp(frame + 6 + 3, host->mac + 3, 3),
		    "%s: a frame leaves by port %u from an address that is not the port's",
		    sw->process.name, port);
	watch_frame(&at, port, frame, len);
	wire_send(host->up, frame, len);
}

static void on_frame(evutil_socket_t fd, short what, void *arg)
{
	struct inc_xsk *x = arg;

	descriptor_clear(fd);
	while (x->rx_got != x->rx_put) {
		unsigned int i = x->rx_got++ % RX_FRAMES;

		x->fn(x->rx[i].bytes, x->rx[i].len, x->arg);
	}
}

/* Removes a socket from the map, as the kernel does however the socket's process ends. */
static void forget_socket(void *arg)
{
	struct inc_xsk *x = arg;

	x->sw->xdp->xsk[x->port * INC_PORT_QUEUES] = 0;
	kernel_of(x->sw)->socket[x->port] = NULL;
	free(x);
}

int inc_xsk_open(struct event_base *base, const char *ifname, uint32_t queue, inc_xsk_rx_fn fn,
		 void *arg, struct inc_xsk **out, struct inc_err *err)
{
	struct inc_xsk *x = malloc(sizeof(*x));

	sim_require(x, "no memory for an AF_XDP socket");
	x->rx_put = x->rx_got = x->tx_used = 0;
	x->sw = here();
	x->port = ifname[1] - '0';
	x->dead = !xdp_ifindex_now(x->sw->xdp, x->port);
	x->fn = fn;
	x->arg = arg;
	x->event = NULL;
	x->fd = descriptor_new();
	descriptor_own(x->fd, task_process(), forget_socket, x);
	kernel_of(x->sw)->socket[x->port] = x;
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
	close(x->fd);
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
		send_frame(x->sw, x->port, x->tx[i].bytes, x->tx[i].len);
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

bool inc_bpffs_is_private(void)
{
	return false;
}

bool inc_switch_left(const char *instance)
{
	return here()->pinned;
}

/* A daemon that starts reads its state from the maps. Only the memory of the daemon is new, and the
 * maps remain. */
int inc_switch_open(const struct inc_switch_opts *opts, struct inc_switch **out,
		    struct inc_err *err)
{
	struct cluster_switch *at = here();
	struct inc_switch *sw = xdp_switch(at->xdp);
	unsigned int i;

	memset(sw->comm, 0, sw->opts.max_comms * sizeof(*sw->comm));
	memset(sw->conn, 0, sw->opts.max_connections * sizeof(*sw->conn));
	memset(sw->root, 0, inc_switch_root_rows(sw->opts.max_comms) * sizeof(*sw->root));
	for (i = 0; i < INC_MAX_PORTS; i++)
		sw->slot[i].used = NULL;
	/* the predecessor's maps remain until this daemon has adopted them */
	sw->adopted = sw->leaving = at->pinned;
	at->pinned = true;
	*out = sw;
	return 0;
}

/* A daemon that ends removes its programs and maps, so that the next one starts with an empty
 * switch. A killed daemon does not remove its maps, and the next daemon adopts them. sw: NULL if
 * nothing was opened. */
void inc_switch_close(struct inc_switch *sw)
{
	struct cluster_switch *at = here();

	if (!sw || sw->leaving)
		return;
	xdp_detach(at->xdp);
	at->pinned = false;
	at->closed = true;
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
	slot->port.ifindex = slot->port.own_ifindex = ifindex;
	slot->left_ifindex = 0;
	ret = inc_attach_slot(sw, slot, err);
	slot->used = ret ? NULL : &slot->port;
	return ret;
}

bool inc_is_port(const struct inc_switch *sw, uint32_t ifindex)
{
	unsigned int i;

	for (i = 0; i < XDP_PORTS; i++)
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
		out->value[i] = xdp_counter(here()->xdp, i);
	return 0;
}

const struct inc_counter_info inc_counter_info[INC_CTR_MAX] = {
#define _(ID, name, class, text) [INC_CTR_##ID] = {#name, class, text},
	INC_COUNTERS(_)
#undef _
};

int inc_links_read(struct inc_link **out)
{
	const struct cluster_switch *sw = here();
	struct inc_link *list = calloc(sw->ports, sizeof(*list));
	int i, n = 0;

	*out = list;
	if (!list)
		return -ENOMEM;
	for (i = 0; i < (int)sw->ports; i++) {
		const uint32_t ifindex = xdp_ifindex_now(sw->xdp, i);

		if (!ifindex)
			continue;
		list[n] = (struct inc_link){.ifindex = ifindex,
					    .up = !sw->port[i].down,
					    .xdp_id = xdp_program_id(sw->xdp, i)};
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

static void on_change(evutil_socket_t fd, short what, void *arg)
{
	struct inc_links_watch *w = arg;

	descriptor_clear(fd);
	w->fn(w->arg);
}

static void forget_watch(void *arg)
{
	((struct inc_links_watch *)arg)->fn = NULL;
}

int inc_links_watch_start(struct event_base *base, void (*fn)(void *arg), void *arg,
			  struct inc_links_watch **out, struct inc_err *err)
{
	struct inc_links_watch *w = &kernel_of(here())->watch;

	*w = (struct inc_links_watch){.fn = fn, .arg = arg};
	w->fd = descriptor_new();
	descriptor_own(w->fd, task_process(), forget_watch, w);
	w->event = event_new(base, w->fd, EV_READ | EV_PERSIST, on_change, w);
	if (!w->event || event_add(w->event, NULL)) {
		inc_links_watch_stop(w);
		return inc_err_set(err, ENOMEM, "no memory to watch interfaces");
	}
	*out = w;
	return 0;
}

void inc_links_watch_stop(struct inc_links_watch *w)
{
	if (!w)
		return;
	if (w->event)
		event_free(w->event);
	close(w->fd);
}

static void links_change(const struct cluster_switch *sw)
{
	struct inc_links_watch *w = &kernel_of(sw)->watch;

	if (!w->fn)
		return;
	descriptor_signal(w->fd);
}

bool cluster_port_is_away(const struct cluster_switch *sw, unsigned int port)
{
	return sw->port[port].down || !xdp_ifindex_now(sw->xdp, port);
}

void cluster_port_changed(struct cluster_port *port)
{
	links_change(port->sw);
}

static void port_is_gone(struct cluster_switch *sw, unsigned int port)
{
	struct inc_xsk *x = kernel_of(sw)->socket[port];

	if (x)
		x->dead = true;
	sw->port[port].host.away = true;
	sw->port[port].left_at_ns = sim_now_ns();
	rdma_link_changed(&sw->port[port].host);
	links_change(sw);
}

void cluster_port_down(struct cluster_switch *sw, unsigned int port)
{
	sim_note(sw->process.name, "has the interface of a port taken down", port, 0, 0);
	sw->port[port].down = sw->port[port].host.away = true;
	sw->port[port].left_at_ns = sim_now_ns();
	rdma_link_changed(&sw->port[port].host);
	links_change(sw);
}

void cluster_port_delete(struct cluster_switch *sw, unsigned int port)
{
	sim_note(sw->process.name, "loses the interface of a port", port, 0, 0);
	xdp_delete(sw->xdp, port);
	port_is_gone(sw, port);
}

void cluster_port_move(struct cluster_switch *sw, unsigned int port)
{
	sim_note(sw->process.name, "has the interface of a port moved away", port, 0, 0);
	xdp_move(sw->xdp, port);
	port_is_gone(sw, port);
}

void cluster_port_return(struct cluster_switch *sw, unsigned int port)
{
	sim_note(sw->process.name, "gets an interface again", port, 0, 0);
	if (!sw->port[port].down)
		xdp_make(sw->xdp, port);
	sw->port[port].down = sw->port[port].host.away = false;
	rdma_link_changed(&sw->port[port].host);
	links_change(sw);
}

unsigned int __wrap_if_nametoindex(const char *name);
unsigned int __wrap_if_nametoindex(const char *name)
{
	return xdp_ifindex_now(here()->xdp, name[1] - '0');
}

/* --- the data path --- */

/* The kernel drops what XDP redirects to a port whose driver has no ndo_xdp_xmit. */
static void on_leaving(void *arg, unsigned int port, const uint8_t *frame, size_t len)
{
	const struct cluster_switch *sw = arg;

	if (sim_now_ns() < sw->port[port].xmit_from_ns)
		wire_lose(sw->port[port].host.up, frame, len);
	else
		send_frame(sw, port, frame, len);
}

static bool on_slow_path(void *arg, unsigned int port, const uint8_t *frame, size_t len)
{
	struct inc_xsk *x = kernel_of(arg)->socket[port];
	unsigned int i;

	if (!x || x->dead || x->rx_put - x->rx_got == RX_FRAMES || sim_fault(20))
		return false;
	i = x->rx_put++ % RX_FRAMES;
	memcpy(x->rx[i].bytes, frame, len);
	x->rx[i].len = len;
	descriptor_signal(x->fd);
	return true;
}

/* If a communicator is removed before it has started, for example because memory is short, it must
 * leave nothing behind. */
static void check_taken_back(const struct cluster_switch *sw)
{
	const uint32_t own = sw->port[0].host.addr;
	const struct inc_comm_conf conf = {.communicator = 1,
					   .root = true,
					   .n_conns = 1,
					   .payload = 256,
					   .slots = 1,
					   .conn[0] = {.port = "p0",
						       .own.ip = inc_addr_of_ipv4(own),
						       .own.udp_port = INC_ROCE_UDP_PORT,
						       .own.qpn = INC_MIN_QPN,
						       .peer.ip = inc_addr_of_ipv4(own ^ htonl(1)),
						       .peer.udp_port = INC_ROCE_UDP_PORT,
						       .peer.qpn = INC_MIN_QPN,
						       .pkey = 0xffff}};
	struct inc_err err = {""};
	int comm = inc_switch_add_comm(xdp_switch(sw->xdp), &conf, &err);

	sim_require(comm >= 0 && !inc_switch_remove_comm(xdp_switch(sw->xdp), comm, &err), "%s",
		    err.msg);
	sim_require(!xdp_entries(sw->xdp), "a communicator that is taken back leaves look-ups");
}

void cluster_xdp_open(struct cluster_switch *sw)
{
	const struct xdp_out out = {
		.frame = on_leaving, .slow_path = on_slow_path, .event = on_event, .arg = sw};

	sw->xdp = xdp_new(CLUSTER_COMMS, CLUSTER_COMMS * XDP_PORTS, CLUSTER_ROWS, sw->ports, &out);
	memset(kernel_of(sw), 0, sizeof(*kernel_of(sw)));
	check_taken_back(sw);
	xdp_detach(sw->xdp);
}
