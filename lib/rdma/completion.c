/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include "lib/base/fd.h"
#include "lib/rdma/completion.h"

static int make(struct inc_rdma_completions *c, unsigned int entries, const char **step)
{
	struct ibv_context *ctx = c->device->ctx;
	int flags;

	*step = "completion channel";
	c->channel = ibv_create_comp_channel(ctx);
	if (!c->channel)
		return -errno;
	c->channel->fd = inc_fd_high(c->channel->fd);
	if (c->channel->fd < 0)
		return -errno;
	flags = fcntl(c->channel->fd, F_GETFL);
	if (flags < 0 || fcntl(c->channel->fd, F_SETFL, flags | O_NONBLOCK))
		return -errno;
	*step = "completion queue";
	c->cq = ibv_create_cq(ctx, entries, NULL, c->channel, 0);
	return c->cq ? 0 : -errno;
}

static int check_entries(const struct inc_rdma_device *device, unsigned int entries,
			 struct inc_err *err)
{
	if (entries && entries <= device->limits.max_cqe)
		return 0;
	return inc_err_set(err, EINVAL,
			   "%s: completion queue of %u entries: the device can do 1 to %u",
			   device->name, entries, device->limits.max_cqe);
}

int inc_rdma_completions_open(struct inc_rdma_completions *completions,
			      struct inc_rdma_device *device, unsigned int entries,
			      unsigned int ack_batch, struct inc_err *err)
{
	const char *step;
	int ret = check_entries(device, entries, err);

	*completions = (struct inc_rdma_completions){.ack_batch = ack_batch};
	if (ret)
		return ret;
	completions->device = inc_rdma_device_ref(device);
	ret = make(completions, entries, &step);
	if (ret) {
		inc_rdma_completions_close(completions);
		return inc_err_set(err, -ret, "%s: %s: %s", device->name, step, strerror(-ret));
	}
	return 0;
}

int inc_rdma_completions_grow(struct inc_rdma_completions *completions, unsigned int entries,
			      struct inc_err *err)
{
	const struct inc_rdma_device *device = completions->device;
	int ret = check_entries(device, entries, err);

	if (ret || (int)entries <= completions->cq->cqe)
		return ret;
	ret = ibv_resize_cq(completions->cq, entries);
	return ret ? inc_err_set(err, ret, "%s: completion queue to %u entries: %s", device->name,
				 entries, strerror(ret))
		   : 0;
}

static void ack(struct inc_rdma_completions *completions)
{
	if (completions->unacked)
		ibv_ack_cq_events(completions->cq, completions->unacked);
	completions->unacked = 0;
}

void inc_rdma_completions_close(struct inc_rdma_completions *completions)
{
	/* acknowledge first, because ibv_destroy_cq() waits until all notifications that were read
	 * are acknowledged */
	ack(completions);
	if (completions->cq)
		ibv_destroy_cq(completions->cq);
	if (completions->channel)
		ibv_destroy_comp_channel(completions->channel);
	inc_rdma_device_put(completions->device);
	*completions = (struct inc_rdma_completions){0};
}

int inc_rdma_completions_fd(const struct inc_rdma_completions *completions)
{
	return completions->channel->fd;
}

int inc_rdma_completions_arm(struct inc_rdma_completions *completions)
{
	int err = completions->armed ? 0 : ibv_req_notify_cq(completions->cq, 0);

	completions->armed = !err;
	return -err;
}

void inc_rdma_completions_take(struct inc_rdma_completions *completions)
{
	struct ibv_cq *cq;
	void *ctx;

	while (!ibv_get_cq_event(completions->channel, &cq, &ctx)) {
		completions->armed = false;
		if (++completions->unacked >= completions->ack_batch)
			ack(completions);
	}
}

int inc_rdma_completion_errno(enum ibv_wc_status status)
{
	switch (status) {
	case IBV_WC_RETRY_EXC_ERR:
	case IBV_WC_RNR_RETRY_EXC_ERR:
	case IBV_WC_RESP_TIMEOUT_ERR:
		return ETIMEDOUT;
	case IBV_WC_REM_OP_ERR:
		return EREMOTEIO;
	case IBV_WC_REM_INV_REQ_ERR:
		return EPROTO;
	case IBV_WC_REM_ACCESS_ERR:
		return EACCES;
	case IBV_WC_LOC_LEN_ERR:
		return EMSGSIZE;
	case IBV_WC_LOC_PROT_ERR:
	case IBV_WC_LOC_ACCESS_ERR:
		return EFAULT;
	case IBV_WC_WR_FLUSH_ERR:
		return ECANCELED;
	default:
		return EIO;
	}
}
