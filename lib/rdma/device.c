/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include "lib/base/fd.h"
#include "lib/rdma/device_priv.h"

static int set_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) ? -errno : 0;
}

static int ask_limits(struct inc_rdma_device *device)
{
	struct ibv_device_attr_ex more;
	const struct ibv_packet_pacing_caps *pacing = &more.packet_pacing_caps;
	/* libibverbs asks drivers without this query for the older part, and clears the rest */
	int err = ibv_query_device_ex(device->ctx, NULL, &more);
	const struct ibv_device_attr attr = more.orig_attr;

	if (err)
		return -err;
	device->ports = attr.phys_port_cnt;
	device->limits = (struct inc_rdma_limits){
		.max_qp = attr.max_qp,
		.max_qp_wr = attr.max_qp_wr,
		.max_sge = attr.max_sge,
		.max_cqe = attr.max_cqe,
		.max_qp_rd_atom = attr.max_qp_rd_atom,
		.max_qp_init_rd_atom = attr.max_qp_init_rd_atom,
	};
	if (ibv_is_qpt_supported(pacing->supported_qpts, IBV_QPT_RC)) {
		device->limits.qp_rate_limit_min = pacing->qp_rate_limit_min;
		device->limits.qp_rate_limit_max = pacing->qp_rate_limit_max;
	}
	return 0;
}

static void end(struct inc_rdma_device *device)
{
	if (device->pd)
		ibv_dealloc_pd(device->pd);
	if (device->ctx)
		ibv_close_device(device->ctx);
	inc_rdma_async_destroy(&device->async);
	free(device);
}

/* Moves the descriptor of events to a number behind the standard streams. libibverbs uses and
 * closes the descriptor that this member has. The other descriptor of the context, cmd_fd, may
 * stay, because it rejects text that is printed to it. */
static int move_events(struct ibv_context *ctx)
{
	ctx->async_fd = inc_fd_high(ctx->async_fd);
	return ctx->async_fd < 0 ? -errno : 0;
}

struct inc_rdma_device *inc_rdma_device_open(struct ibv_device *ibv, struct inc_rdma_fault *fault)
{
	struct inc_rdma_device *device = calloc(1, sizeof(*device));

	*fault = (struct inc_rdma_fault){-ENOMEM, "open"};
	if (!device)
		return NULL;
	inc_rdma_async_init(&device->async);
	atomic_init(&device->refs, 1);
	snprintf(device->name, sizeof(device->name), "%s", ibv_get_device_name(ibv));
	errno = 0;
	device->ctx = ibv_open_device(ibv);
	if (!device->ctx) {
		fault->error = -(errno ?: EIO);
		goto fail;
	}
	*fault = (struct inc_rdma_fault){move_events(device->ctx), "events"};
	if (fault->error)
		goto fail;
	*fault = (struct inc_rdma_fault){set_nonblocking(device->ctx->async_fd), "events"};
	if (fault->error)
		goto fail;
	*fault = (struct inc_rdma_fault){ask_limits(device), "query"};
	if (fault->error)
		goto fail;
	device->pd = ibv_alloc_pd(device->ctx);
	if (!device->pd) {
		*fault = (struct inc_rdma_fault){-(errno ?: ENOMEM), "protection domain"};
		goto fail;
	}
	*fault = (struct inc_rdma_fault){0};
	return device;

fail:
	end(device);
	return NULL;
}

struct inc_rdma_device *inc_rdma_device_ref(struct inc_rdma_device *device)
{
	atomic_fetch_add(&device->refs, 1);
	return device;
}

void inc_rdma_device_put(struct inc_rdma_device *device)
{
	if (device && atomic_fetch_sub(&device->refs, 1) == 1)
		end(device);
}

int inc_rdma_fork_safe(void)
{
	return -ibv_fork_init();
}
