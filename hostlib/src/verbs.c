/* SPDX-License-Identifier: BSD-2-Clause */
/* Life of a queue pair: RESET, INIT when opened, RTR and RTS when the peer is known. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "lib/base/fd.h"
#include "lib/base/pow2.h"
#include "lib/proto/roce.h"
#include "lib/rdma/gid.h"
#include "hostlib/src/verbs.h"

static int find_place(const struct verbs_config *config, uint32_t addr,
		      struct inc_rdma_place *place, struct inc_err *err)
{
	const struct inc_rdma_place_wish wish = {
		.device = config->device,
		.port = config->port,
		.gid_index = config->gid_index,
		.pkey_index = config->pkey_index,
	};

	return inc_rdma_place_find(&wish, addr, place, err);
}

static int verbs_probe(const struct inccl_open_opts *opts, struct inc_err *why)
{
	struct verbs_config config;
	struct inc_rdma_place place;
	int ret;

	ret = verbs_config_read(opts->options, &config, why);
	if (ret)
		return ret;
	ret = find_place(&config, opts->addr, &place, why);
	if (ret)
		return ret;
	inc_err_set(why, 0, "%s/%u on %s: RoCE v2 GID %u, MTU %u, port active", place.device->name,
		    place.port, place.ifname[0] ? place.ifname : "?", place.gid_index,
		    place.mtu_bytes);
	inc_rdma_place_close(&place);
	return 0;
}

static int watch_fd(int epoll_fd, int fd)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};

	return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &ev) ? -errno : 0;
}

/* Messages under way, from what was asked and what the device can hold. A collective may need
 * single packets where others go in messages, so the queues have room for as many. */
static int choose_window(struct verbs_endpoint *ep, const struct inccl_open_opts *opts,
			 unsigned int *chosen, struct inc_err *err)
{
	const struct inc_rdma_limits *limits = &ep->place.device->limits;
	unsigned int window = opts->window_messages, most;
	uint32_t slots;

	if (!window)
		window = INCCL_DEFAULT_WINDOW / opts->message_packets ?: 1;
	/* sends outlive their results by an acknowledgement, so their queue is deeper */
	most = limits->max_qp_wr / 2;
	if (most > limits->max_cqe / 4)
		most = limits->max_cqe / 4;
	if (most < VERBS_BATCH + 1)
		return inc_err_set(err, EOPNOTSUPP, "%s: queues of %u and %u entries are too small",
				   ep->place.device->name, limits->max_qp_wr, limits->max_cqe);
	most -= VERBS_BATCH;
	*chosen = window < most ? window : most;
	ep->depth = *chosen < most / opts->message_packets ? *chosen * opts->message_packets : most;
	ep->send_depth = 2 * ep->depth + VERBS_BATCH;
	slots = inc_pow2_up(ep->send_depth);
	ep->slot_mask = slots - 1;
	ep->slot = calloc(slots, sizeof(*ep->slot));
	if (!ep->slot)
		return inc_err_set(err, ENOMEM, "verbs: %s", strerror(ENOMEM));
	return 0;
}

static int watch_events(struct verbs_endpoint *ep)
{
	int ret;

	ep->epoll_fd = inc_fd_high(epoll_create1(EPOLL_CLOEXEC));
	if (ep->epoll_fd < 0)
		return -errno;
	ret = watch_fd(ep->epoll_fd, inc_rdma_completions_fd(&ep->completions));
	return ret ?: watch_fd(ep->epoll_fd, ep->place.device->ctx->async_fd);
}

static int make_queues(struct verbs_endpoint *ep, struct inc_err *err)
{
	struct inc_rdma_device *device = ep->place.device;
	struct inc_rdma_qp_opts opts = {
		.caps = {.send_wr = ep->send_depth,
			 .recv_wr = ep->depth,
			 .send_sge = 1,
			 .recv_sge = 1,
			 .rd_atomic = 1,
			 .dest_rd_atomic = 1},
		.port = ep->place.port,
		.pkey_index = ep->config.pkey_index,
		.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
	};
	struct inc_err why;
	int ret;

	/* one notification at a time: a loop that is ahead of its work asks for none */
	ret = inc_rdma_completions_open(&ep->completions, device, ep->send_depth + ep->depth + 1, 1,
					&why);
	if (ret)
		return inc_err_set(err, -ret, "verbs: %s", why.msg);
	ret = watch_events(ep);
	if (ret)
		return inc_err_set(err, -ret, "verbs: %s/%u: event descriptors: %s", device->name,
				   ep->place.port, strerror(-ret));
	opts.send_cq = opts.recv_cq = ep->completions.cq;
	ret = inc_rdma_qp_make(&ep->qp, device, &opts, &why);
	return ret ? inc_err_set(err, -ret, "verbs: %s", why.msg) : 0;
}

static void open_cache(struct verbs_endpoint *ep)
{
	int ret = inc_rdma_regions_open(&ep->cache, ep->place.device->pd,
					(size_t)ep->config.cache_mib << 20);

	if (ret)
		ep->log(ep->log_ctx,
			"verbs: memory cannot be watched (userfaultfd, /proc/self/maps): %s; "
			"buffers are registered for each operation",
			strerror(-ret));
}

static int verbs_map(struct inccl_endpoint *base, void *addr, size_t len, bool writable,
		     struct inccl_region *region)
{
	struct verbs_endpoint *ep = verbs_ep(base);
	unsigned int access = writable ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE : 0;
	int ret = verbs_region_get(&ep->cache, addr, len, access, region);
	struct inc_err err;

	if (ret) {
		inc_rdma_region_error(&err, ep->place.device->name, len, access, ret);
		ep->log(ep->log_ctx, "verbs: %s", err.msg);
	}
	return ret;
}

/* A request may end before its results are there, with an error that is the communicator's
 * end. The device must not write to memory that is the caller's again. */
static void stop_writes(struct verbs_endpoint *ep, const struct inccl_region *region)
{
	uint64_t m;

	for (m = ep->base.completed; m < ep->base.posted; m++)
		if (ep->slot[m & ep->slot_mask].recv_region == region) {
			inc_rdma_qp_to_err(&ep->qp, NULL);
			verbs_fail(ep, ECANCELED, "verbs: message %llu was given up",
				   (unsigned long long)m);
			return;
		}
}

static void verbs_unmap(struct inccl_endpoint *base, struct inccl_region *region)
{
	struct verbs_endpoint *ep = verbs_ep(base);

	if (!region->priv)
		return;
	stop_writes(ep, region);
	verbs_region_put(&ep->cache, region);
}

static void verbs_close(struct inccl_endpoint *base)
{
	struct verbs_endpoint *ep = verbs_ep(base);
	uint64_t m;

	/* first, for the device reads and writes memory until then */
	inc_rdma_qp_destroy(&ep->qp);
	for (m = ep->sends_done; m < ep->base.posted; m++)
		if (ep->slot[m & ep->slot_mask].send_mr)
			inc_rdma_mr_put(&ep->cache, ep->slot[m & ep->slot_mask].send_mr);
	if (ep->epoll_fd >= 0)
		close(ep->epoll_fd);
	inc_rdma_completions_close(&ep->completions);
	if (ep->place.device) {
		inc_rdma_cache_close(&ep->cache);
		inc_rdma_unsubscribe(ep->place.device, &ep->events);
	}
	inc_rdma_place_close(&ep->place);
	free(ep->slot);
	free(ep);
}

/* The queue pair, the registrations and what libibverbs keeps of them are the parent's: every call
 * to libibverbs would reach the parent's device. */
static void verbs_abandon(struct inccl_endpoint *base)
{
	struct verbs_endpoint *ep = verbs_ep(base);

	close(ep->epoll_fd);
	close(inc_rdma_completions_fd(&ep->completions));
	close(ep->place.device->ctx->async_fd);
	close(ep->place.device->ctx->cmd_fd);
	free(ep->slot);
	free(ep);
}

static int verbs_open(const struct inccl_open_opts *opts, struct inccl_endpoint **out,
		      struct inccl_own *own, struct inc_err *err)
{
	struct verbs_endpoint *ep = calloc(1, sizeof(*ep));
	unsigned int payload;
	int ret;

	if (!ep)
		return inc_err_set(err, ENOMEM, "verbs: %s", strerror(ENOMEM));
	ep->base.ops = &inccl_verbs;
	ep->base.tell_at_ns = UINT64_MAX; /* the device acknowledges by itself */
	ep->epoll_fd = -1;
	ep->log = opts->log;
	ep->log_ctx = opts->log_ctx;
	ep->addr = opts->addr;
	ep->start_psn = opts->start_psn & INC_PSN_MASK;
	ret = verbs_config_read(opts->options, &ep->config, err);
	if (ret)
		goto fail;
	ret = find_place(&ep->config, opts->addr, &ep->place, err);
	if (ret)
		goto fail;
	ep->events =
		(struct inc_rdma_subscriber){.on_event = verbs_on_event, .port = ep->place.port};
	inc_rdma_subscribe(ep->place.device, &ep->events);
	open_cache(ep);
	payload = ep->place.mtu_bytes < INC_MAX_PAYLOAD ? ep->place.mtu_bytes : INC_MAX_PAYLOAD;
	if (opts->payload && opts->payload < payload)
		payload = opts->payload;
	if (payload < INC_MIN_PAYLOAD) {
		ret = inc_err_set(err, EOPNOTSUPP, "%s: MTU %u", ep->place.device->name,
				  ep->place.mtu_bytes);
		goto fail;
	}
	ret = choose_window(ep, opts, &own->window_messages, err);
	if (!ret)
		ret = make_queues(ep, err);
	if (ret)
		goto fail;
	own->most_packets = own->window_messages * opts->message_packets;
	own->qpn = ep->qp.ibv->qp_num;
	own->psn = ep->start_psn;
	own->udp_port = INC_ROCE_UDP_PORT;
	own->pkey = ep->place.pkey;
	own->udp_csum = false;
	own->payload = payload;
	snprintf(own->device, sizeof(own->device), "%.32s/%u, GID %u", ep->place.device->name,
		 ep->place.port, ep->place.gid_index);
	*out = &ep->base;
	return 0;

fail:
	verbs_close(&ep->base);
	return ret;
}

/* The kernel's route to the switch should leave by the interface whose GID we use. */
static void check_route(struct verbs_endpoint *ep, const struct inccl_peer *peer)
{
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = htons(INC_ROCE_UDP_PORT)};
	char ours[INET_ADDRSTRLEN], routed[INET_ADDRSTRLEN];
	socklen_t len = sizeof(sa);
	int fd = inc_fd_high(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));

	if (fd < 0)
		return;
	sa.sin_addr.s_addr = peer->addr;
	if (!connect(fd, (struct sockaddr *)&sa, sizeof(sa)) &&
	    !getsockname(fd, (struct sockaddr *)&sa, &len) && sa.sin_addr.s_addr != ep->addr)
		ep->log(ep->log_ctx, "verbs: the route to %s leaves from %s, not from %s (%s)",
			peer->name, inet_ntop(AF_INET, &sa.sin_addr, routed, sizeof(routed)),
			inet_ntop(AF_INET, &ep->addr, ours, sizeof(ours)), ep->place.device->name);
	close(fd);
}

static int verbs_connect(struct inccl_endpoint *base, const struct inccl_peer *peer,
			 struct inc_err *err)
{
	struct verbs_endpoint *ep = verbs_ep(base);
	const struct verbs_config *config = &ep->config;
	struct inc_rdma_peer rtr = {
		.name = peer->name,
		.qpn = peer->qpn,
		.psn = peer->psn,
		.mtu_bytes = peer->payload,
		.min_rnr_timer = config->min_rnr_timer,
		.sl = config->sl,
		.link_layer = INC_RDMA_LINK_ETHERNET,
		.own_gid_index = ep->place.gid_index,
		.hop_limit = config->hop_limit,
		.flow_label = config->flow_label,
		.traffic_class = config->traffic_class,
	};
	const struct inc_rdma_rts rts = {
		.psn = ep->start_psn,
		.timeout = config->timeout,
		.retry_cnt = config->retry_cnt,
		.rnr_retry = config->rnr_retry,
	};
	struct inc_err why;
	int ret;

	if (peer->udp_port != INC_ROCE_UDP_PORT)
		return inc_err_set(err, EPROTO, "verbs: %s receives on port %u, a NIC sends to %u",
				   peer->name, peer->udp_port, INC_ROCE_UDP_PORT);
	check_route(ep, peer);
	ep->payload = peer->payload;
	inc_rdma_gid_of_ipv4(peer->addr, rtr.gid);
	ret = inc_rdma_qp_to_rtr(&ep->qp, &rtr, &why);
	if (!ret)
		ret = inc_rdma_qp_to_rts(&ep->qp, &rts, &why);
	return ret ? inc_err_set(err, -ret, "verbs: %s", why.msg) : 0;
}

int verbs_fail(struct verbs_endpoint *ep, int err, const char *fmt, ...)
{
	va_list ap;

	if (!ep->failed) {
		ep->failed = -err;
		va_start(ap, fmt);
		vsnprintf(ep->base.error, sizeof(ep->base.error), fmt, ap);
		va_end(ap);
	}
	return ep->failed;
}

const struct inccl_transport inccl_verbs = {
	.name = "verbs",
	.kind = INCCL_TRANSPORT_VERBS,
	.probe = verbs_probe,
	.open = verbs_open,
	.connect = verbs_connect,
	.close = verbs_close,
	.abandon = verbs_abandon,
	.map = verbs_map,
	.unmap = verbs_unmap,
	.under_way = verbs_under_way,
	.post = verbs_post,
	.flush = verbs_flush,
	.progress = verbs_progress,
	.arm = verbs_arm,
	.kept = verbs_kept,
	.quiet = verbs_quiet,
	.moved = verbs_moved,
	.describe = verbs_describe,
};
