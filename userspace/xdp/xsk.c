/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/ethtool.h>
#include <linux/if_xdp.h>
#include <net/if.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <xdp/xsk.h>
#include "lib/base/log.h"
#include "lib/net/netdev.h"
#include "userspace/xdp/packet.h"
#include "userspace/xdp/xsk.h"

#define FRAME_SIZE 4096u
#define RX_FRAMES  64u /* number of frames for receiving, and size of the receive ring */
#define TX_FRAMES  256u
#define RX_BATCH   32u
/* Limit of the system calls of one flush. The kernel sends at least 16 frames in one call, but not
 * always all. */
#define MAX_KICKS (TX_FRAMES / 16 + 2)

_Static_assert(INC_FRAME_MAX <= FRAME_SIZE, "a result fits a frame");

struct inc_xsk {
	void *area;
	struct xsk_umem *umem;
	struct xsk_socket *socket;
	struct xsk_ring_prod fill, tx;
	struct xsk_ring_cons comp, rx;
	struct event *readable;
	uint64_t free_tx[TX_FRAMES]; /* addresses of the frames that are free for sending */
	uint32_t n_free;
	/* frames wait to be sent: they were queued since the last flush, or the last flush left
	 * them */
	bool unsent;
	int refused; /* errno of the last flush if the kernel refused to send; 0: it did not */
	inc_xsk_rx_fn fn;
	void *arg;
	char ifname[IF_NAMESIZE];
};

static void refill(struct inc_xsk *x, const uint64_t *addrs, uint32_t n)
{
	uint32_t i, at;

	/* the fill ring cannot be full, because it has a place for each frame */
	if (xsk_ring_prod__reserve(&x->fill, n, &at) != n)
		return;
	for (i = 0; i < n; i++)
		*xsk_ring_prod__fill_addr(&x->fill, at + i) = addrs[i];
	xsk_ring_prod__submit(&x->fill, n);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct inc_xsk *x = arg;
	uint64_t addrs[RX_BATCH];
	uint32_t n, i, at;

	n = xsk_ring_cons__peek(&x->rx, RX_BATCH, &at);
	for (i = 0; i < n; i++) {
		const struct xdp_desc *desc = xsk_ring_cons__rx_desc(&x->rx, at + i);

		x->fn(xsk_umem__get_data(x->area, desc->addr), desc->len, x->arg);
		/* the fill ring wants the address where the frame begins, and not that of the
		 * packet in it */
		addrs[i] = desc->addr & ~(uint64_t)(FRAME_SIZE - 1);
	}
	if (n) {
		xsk_ring_cons__release(&x->rx, n);
		refill(x, addrs, n);
	}
	/* a receive call wakes a driver that went to sleep for want of frames */
	if (xsk_ring_prod__needs_wakeup(&x->fill))
		recvfrom(fd, NULL, 0, MSG_DONTWAIT, NULL, NULL);
}

static void reclaim(struct inc_xsk *x)
{
	uint32_t n, i, at;

	n = xsk_ring_cons__peek(&x->comp, TX_FRAMES, &at);
	for (i = 0; i < n; i++)
		x->free_tx[x->n_free++] = *xsk_ring_cons__comp_addr(&x->comp, at + i);
	if (n)
		xsk_ring_cons__release(&x->comp, n);
}

uint8_t *inc_xsk_tx_frame(struct inc_xsk *x)
{
	if (!x->n_free)
		reclaim(x);
	if (!x->n_free && x->unsent) {
		inc_xsk_tx_flush(x);
		reclaim(x);
	}
	if (!x->n_free)
		return NULL;
	return xsk_umem__get_data(x->area, x->free_tx[--x->n_free]);
}

void inc_xsk_tx_put(struct inc_xsk *x, uint8_t *frame, size_t len)
{
	uint64_t addr = frame - (uint8_t *)x->area;
	struct xdp_desc *desc;
	uint32_t at;

	/* a frame without content becomes free again; so does one for which the ring has no place,
	 * which cannot happen, because the ring has one for every frame */
	if (!len || xsk_ring_prod__reserve(&x->tx, 1, &at) != 1) {
		x->free_tx[x->n_free++] = addr;
		return;
	}
	desc = xsk_ring_prod__tx_desc(&x->tx, at);
	desc->addr = addr;
	desc->len = len;
	desc->options = 0;
	xsk_ring_prod__submit(&x->tx, 1);
	x->unsent = true;
}

void inc_xsk_tx_flush(struct inc_xsk *x)
{
	unsigned int i;

	if (!x->unsent)
		return;
	for (i = 0; i < MAX_KICKS; i++) {
		if (sendto(xsk_socket__fd(x->socket), NULL, 0, MSG_DONTWAIT, NULL, 0) >= 0) {
			x->unsent = false;
			x->refused = 0;
			break;
		}
		if (errno != EAGAIN && errno != EBUSY && errno != ENOBUFS && errno != EINTR) {
			if (errno != x->refused)
				inc_warn("port %s: its AF_XDP socket does not send: %s", x->ifname,
					 strerror(errno));
			x->refused = errno;
			break;
		}
		reclaim(x);
	}
}

static int open_umem(struct inc_xsk *x, struct inc_err *err)
{
	const struct xsk_umem_config config = {
		.fill_size = RX_FRAMES,
		.comp_size = TX_FRAMES,
		.frame_size = FRAME_SIZE,
	};
	size_t size = (size_t)(RX_FRAMES + TX_FRAMES) * FRAME_SIZE;
	uint64_t addrs[RX_FRAMES];
	uint32_t i;
	int ret;

	x->area = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (x->area == MAP_FAILED) {
		x->area = NULL;
		return inc_err_set(err, errno, "port %s: no memory for AF_XDP frames: %s",
				   x->ifname, strerror(errno));
	}
	ret = xsk_umem__create(&x->umem, x->area, size, &x->fill, &x->comp, &config);
	if (ret)
		return inc_err_set(err, -ret, "port %s: AF_XDP memory cannot be registered: %s%s",
				   x->ifname, strerror(-ret),
				   ret == -EPERM     ? " (needs CAP_NET_RAW)"
				   : ret == -ENOBUFS ? " (limit memlock?)"
						     : "");
	for (i = 0; i < RX_FRAMES; i++)
		addrs[i] = (uint64_t)i * FRAME_SIZE;
	refill(x, addrs, RX_FRAMES);
	for (i = 0; i < TX_FRAMES; i++)
		x->free_tx[x->n_free++] = (uint64_t)(RX_FRAMES + i) * FRAME_SIZE;
	return 0;
}

int inc_xsk_open(struct event_base *base, const char *ifname, uint32_t queue, inc_xsk_rx_fn rx,
		 void *arg, struct inc_xsk **out, struct inc_err *err)
{
	const struct xsk_socket_config config = {
		.rx_size = RX_FRAMES,
		.tx_size = TX_FRAMES,
		.libxdp_flags = XSK_LIBXDP_FLAGS__INHIBIT_PROG_LOAD,
		.bind_flags = XDP_USE_NEED_WAKEUP,
	};
	struct inc_xsk *x = calloc(1, sizeof(*x));
	int ret;

	if (!x)
		return inc_err_set(err, ENOMEM, "port %s: no memory", ifname);
	x->fn = rx;
	x->arg = arg;
	strncpy(x->ifname, ifname, sizeof(x->ifname) - 1);
	ret = open_umem(x, err);
	if (ret)
		goto fail;
	ret = xsk_socket__create(&x->socket, ifname, queue, x->umem, &x->rx, &x->tx, &config);
	if (ret) {
		ret = inc_err_set(err, -ret, "port %s queue %u: no AF_XDP socket: %s%s", ifname,
				  queue, strerror(-ret),
				  ret == -EBUSY ? " (the queue has one already)" : "");
		goto fail;
	}
	x->readable =
		event_new(base, xsk_socket__fd(x->socket), EV_READ | EV_PERSIST, on_readable, x);
	if (!x->readable || event_add(x->readable, NULL)) {
		ret = inc_err_set(err, ENOMEM, "port %s: no event for an AF_XDP socket", ifname);
		goto fail;
	}
	*out = x;
	return 0;

fail:
	inc_xsk_close(x);
	return ret;
}

void inc_xsk_close(struct inc_xsk *x)
{
	if (!x)
		return;
	if (x->readable)
		event_free(x->readable);
	if (x->socket)
		xsk_socket__delete(x->socket);
	if (x->umem)
		xsk_umem__delete(x->umem);
	if (x->area)
		munmap(x->area, (size_t)(RX_FRAMES + TX_FRAMES) * FRAME_SIZE);
	free(x);
}

int inc_xsk_fd(const struct inc_xsk *x)
{
	return xsk_socket__fd(x->socket);
}

bool inc_xsk_lives(const struct inc_xsk *x)
{
	return sendto(xsk_socket__fd(x->socket), NULL, 0, MSG_DONTWAIT, NULL, 0) >= 0 ||
	       errno != ENXIO;
}

uint32_t inc_rx_queues(const char *ifname)
{
	struct ethtool_channels ch = {.cmd = ETHTOOL_GCHANNELS};
	char device[IF_NAMESIZE];

	if (inc_interface_device(ifname, device) || inc_interface_ask_driver(device, &ch))
		return 1;
	return ch.rx_count + ch.combined_count ?: 1;
}
