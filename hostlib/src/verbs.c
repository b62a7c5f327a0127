/* SPDX-License-Identifier: BSD-2-Clause */
/* Life of a queue pair: RESET, INIT when opened, RTR and RTS when the peer is known. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "lib/proto/roce.h"
#include "hostlib/src/verbs.h"

static int verbs_probe(const struct inccl_open_opts *opts, struct inc_err *why)
{
	struct verbs_config config;
	struct verbs_place place;
	int ret;

	ret = verbs_config_read(opts->options, &config, why);
	if (ret)
		return ret;
	ret = verbs_place_find(&config, opts->addr, &place, why);
	if (ret)
		return ret;
	inc_err_set(why, 0, "%s/%u on %s: RoCE v2 GID %u, MTU %u, port active", place.device,
		    place.port, place.ifname[0] ? place.ifname : "?", place.gid_index, place.mtu);
	verbs_place_close(&place);
	return 0;
}

static int watch_fd(int epoll_fd, int fd)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) ||
	    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &ev))
		return -errno;
	return 0;
}

/* Messages under way, from what was asked and what the device can hold. A collective may need
 * single packets where others go in messages, so the queues have room for as many. */
static int choose_window(struct verbs_endpoint *ep, const struct inccl_open_opts *opts,
			 unsigned int *chosen, struct inc_err *err)
{
	const struct ibv_device_attr *attr = &ep->place.attr;
	unsigned int window = opts->window, most;
	uint64_t slots = 1;

	if (!window)
		window = INCCL_DEFAULT_WINDOW / opts->message_packets ?: 1;
	/* sends outlive their results by an acknowledgement, so their queue is deeper */
	most = attr->max_qp_wr / 2;
	if (most > (unsigned int)attr->max_cqe / 4)
		most = attr->max_cqe / 4;
	if (most < VERBS_BATCH + 1)
		return inc_err_set(err, EOPNOTSUPP, "%s: queues of %d and %d entries are too small",
				   ep->place.device, attr->max_qp_wr, attr->max_cqe);
	most -= VERBS_BATCH;
	*chosen = window < most ? window : most;
	ep->depth = *chosen < most / opts->message_packets ? *chosen * opts->message_packets : most;
	ep->send_depth = 2 * ep->depth + VERBS_BATCH;
	while (slots < ep->send_depth)
		slots *= 2;
	ep->slot_mask = slots - 1;
	ep->slot = calloc(slots, sizeof(*ep->slot));
	if (!ep->slot)
		return inc_err_set(err, ENOMEM, "verbs: %s", strerror(ENOMEM));
	return 0;
}

static int failed_step(struct verbs_endpoint *ep, int err, const char *step, struct inc_err *out)
{
	return inc_err_set(out, err, "verbs: %s/%u: %s: %s", ep->place.device, ep->place.port, step,
			   strerror(err));
}

static int make_queues(struct verbs_endpoint *ep, struct inc_err *err)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = ep->send_depth,
			.max_recv_wr = ep->depth,
			.max_send_sge = 1,
			.max_recv_sge = 1},
	};
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.pkey_index = ep->config.pkey_index,
		.port_num = ep->place.port,
		.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
	};
	int ret;

	ep->pd = ibv_alloc_pd(ep->place.ctx);
	if (!ep->pd)
		return failed_step(ep, errno, "protection domain", err);
	ep->channel = ibv_create_comp_channel(ep->place.ctx);
	if (!ep->channel)
		return failed_step(ep, errno, "completion channel", err);
	ep->cq = ibv_create_cq(ep->place.ctx, ep->send_depth + ep->depth + 1, NULL, ep->channel, 0);
	if (!ep->cq)
		return failed_step(ep, errno, "completion queue", err);
	ep->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	ret = ep->epoll_fd < 0 ? -errno : watch_fd(ep->epoll_fd, ep->channel->fd);
	if (!ret)
		ret = watch_fd(ep->epoll_fd, ep->place.ctx->async_fd);
	if (ret)
		return failed_step(ep, -ret, "event descriptors", err);
	init.send_cq = init.recv_cq = ep->cq;
	ep->qp = ibv_create_qp(ep->pd, &init);
	if (!ep->qp)
		return failed_step(ep, errno, "queue pair", err);
	ret = ibv_modify_qp(ep->qp, &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	if (ret)
		return failed_step(ep, ret, "queue pair to INIT", err);
	return 0;
}

static void open_cache(struct verbs_endpoint *ep)
{
	int ret = verbs_regions_open(&ep->cache, ep->pd, (size_t)ep->config.cache_mib << 20);

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
	int ret = verbs_region_get(&ep->cache, addr, len, writable, region);

	if (ret)
		ep->log(ep->log_ctx, "verbs: %s: register %zu bytes%s: %s%s", ep->place.device, len,
			writable ? "" : " to read", strerror(-ret),
			ret == -ENOMEM ? " (limit on locked memory? ulimit -l)" : "");
	return ret;
}

/* A request may end before its results are there, with an error that is the communicator's
 * end. The device must not write to memory that is the caller's again. */
static void stop_writes(struct verbs_endpoint *ep, const struct inccl_region *region)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	uint64_t m;

	for (m = ep->base.completed; m < ep->base.posted; m++)
		if (ep->slot[m & ep->slot_mask].recv_region == region) {
			ibv_modify_qp(ep->qp, &attr, IBV_QP_STATE);
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
	if (ep->qp)
		ibv_destroy_qp(ep->qp);
	for (m = ep->sends_done; m < ep->base.posted; m++)
		if (ep->slot[m & ep->slot_mask].send_mr)
			verbs_mr_put(&ep->cache, ep->slot[m & ep->slot_mask].send_mr);
	if (ep->pd)
		verbs_cache_close(&ep->cache);
	if (ep->cq)
		ibv_destroy_cq(ep->cq);
	if (ep->channel)
		ibv_destroy_comp_channel(ep->channel);
	if (ep->pd)
		ibv_dealloc_pd(ep->pd);
	if (ep->epoll_fd >= 0)
		close(ep->epoll_fd);
	verbs_place_close(&ep->place);
	free(ep->slot);
	free(ep);
}

static int verbs_open(const struct inccl_open_opts *opts, struct inccl_endpoint **out,
		      struct inccl_local *local, struct inc_err *err)
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
	ret = verbs_place_find(&ep->config, opts->addr, &ep->place, err);
	if (ret)
		goto fail;
	payload = ep->place.mtu < INC_MAX_PAYLOAD ? ep->place.mtu : INC_MAX_PAYLOAD;
	if (opts->payload && opts->payload < payload)
		payload = opts->payload;
	if (payload < INC_MIN_PAYLOAD) {
		ret = inc_err_set(err, EOPNOTSUPP, "%s: MTU %u", ep->place.device, ep->place.mtu);
		goto fail;
	}
	ret = choose_window(ep, opts, &local->window, err);
	if (!ret)
		ret = make_queues(ep, err);
	/* the cache belongs to the protection domain; close() takes both down together */
	if (ep->pd)
		open_cache(ep);
	if (ret)
		goto fail;
	local->qpn = ep->qp->qp_num;
	local->psn = ep->start_psn;
	local->udp_port = INC_ROCE_UDP_PORT;
	local->pkey = ep->place.pkey;
	local->udp_csum = false;
	local->payload = payload;
	snprintf(local->device, sizeof(local->device), "%.32s/%u, GID %u", ep->place.device,
		 ep->place.port, ep->place.gid_index);
	*out = &ep->base;
	return 0;

fail:
	verbs_close(&ep->base);
	return ret;
}

/* The kernel's route to the switch should leave by the interface whose GID we use. */
static void check_route(struct verbs_endpoint *ep, const struct inccl_remote *remote)
{
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = htons(INC_ROCE_UDP_PORT)};
	char ours[INET_ADDRSTRLEN], routed[INET_ADDRSTRLEN];
	socklen_t len = sizeof(sa);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return;
	sa.sin_addr.s_addr = remote->addr;
	if (!connect(fd, (struct sockaddr *)&sa, sizeof(sa)) &&
	    !getsockname(fd, (struct sockaddr *)&sa, &len) && sa.sin_addr.s_addr != ep->addr)
		ep->log(ep->log_ctx, "verbs: the route to %s leaves from %s, not from %s (%s)",
			remote->name, inet_ntop(AF_INET, &sa.sin_addr, routed, sizeof(routed)),
			inet_ntop(AF_INET, &ep->addr, ours, sizeof(ours)), ep->place.device);
	close(fd);
}

static enum ibv_mtu mtu_code(unsigned int bytes)
{
	return bytes >= 2048   ? IBV_MTU_2048
	       : bytes >= 1024 ? IBV_MTU_1024
	       : bytes >= 512  ? IBV_MTU_512
			       : IBV_MTU_256;
}

static int verbs_connect(struct inccl_endpoint *base, const struct inccl_remote *remote,
			 struct inc_err *err)
{
	struct verbs_endpoint *ep = verbs_ep(base);
	const struct verbs_config *config = &ep->config;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = mtu_code(remote->payload),
		.dest_qp_num = remote->qpn,
		.rq_psn = remote->psn,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = config->min_rnr_timer,
		.ah_attr = {.is_global = 1,
			    .sl = config->sl,
			    .port_num = ep->place.port,
			    .grh = {.sgid_index = ep->place.gid_index,
				    .hop_limit = config->hop_limit,
				    .flow_label = config->flow_label,
				    .traffic_class = config->traffic_class}},
	};
	uint8_t *gid = attr.ah_attr.grh.dgid.raw;
	int ret;

	if (remote->udp_port != INC_ROCE_UDP_PORT)
		return inc_err_set(err, EPROTO, "verbs: %s receives on port %u, a NIC sends to %u",
				   remote->name, remote->udp_port, INC_ROCE_UDP_PORT);
	check_route(ep, remote);
	ep->payload = remote->payload;
	snprintf(ep->peer, sizeof(ep->peer), "%s", remote->name);
	gid[10] = gid[11] = 0xff;
	memcpy(gid + 12, &remote->addr, 4);
	ret = ibv_modify_qp(ep->qp, &attr,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				    IBV_QP_MIN_RNR_TIMER);
	if (ret)
		return inc_err_set(err, ret, "verbs: %s to %s: queue pair to RTR: %s%s",
				   ep->place.device, remote->name, strerror(ret),
				   ret == ETIMEDOUT || ret == EHOSTUNREACH ? " (no ARP answer?)"
									   : "");
	memset(&attr, 0, sizeof(attr));
	attr.qp_state = IBV_QPS_RTS;
	attr.timeout = config->timeout;
	attr.retry_cnt = config->retry_cnt;
	attr.rnr_retry = config->rnr_retry;
	attr.sq_psn = ep->start_psn;
	attr.max_rd_atomic = 1;
	ret = ibv_modify_qp(ep->qp, &attr,
			    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
	if (ret)
		return inc_err_set(err, ret, "verbs: %s to %s: queue pair to RTS: %s",
				   ep->place.device, remote->name, strerror(ret));
	return 0;
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
