/* SPDX-License-Identifier: BSD-2-Clause */
/* Collectives as the caller sees them: start, test, wait. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "lib/base/clock.h"
#include "lib/proto/desc.h"
#include "lib/proto/roce.h"
#include "hostlib/src/internal.h"

static int check_opts(const struct inccl_communicator *comm,
		      const struct inccl_collective_opts *opts, uint64_t *bytes)
{
	size_t size = inccl_dtype_size(opts->dtype);

	if (!inccl_collective_name(opts->collective) || !inccl_op_name(opts->op) || !size ||
	    (unsigned int)opts->mode > INCCL_MODE_WRITE)
		return -EOPNOTSUPP;
	*bytes = 0;
	if (opts->collective == INCCL_BARRIER)
		return 0;
	if (opts->collective != INCCL_ALLREDUCE)
		return -EOPNOTSUPP;
	if (!opts->count)
		return 0;
	if (opts->count > SIZE_MAX / 2 / size || !opts->send || !opts->recv ||
	    (uintptr_t)opts->send % size || (uintptr_t)opts->recv % size)
		return -EINVAL;
	*bytes = (uint64_t)opts->count * size;
	if (opts->send != opts->recv && (uintptr_t)opts->send < (uintptr_t)opts->recv + *bytes &&
	    (uintptr_t)opts->recv < (uintptr_t)opts->send + *bytes)
		return -EINVAL;
	return 0;
}

static int map_buffers(struct inccl_request *req)
{
	struct inccl_endpoint *ep = req->comm->ep;
	int ret;

	if (!req->bytes)
		return 0;
	ret = ep->ops->map(ep, req->recv, req->bytes, true, &req->recv_region);
	if (ret)
		return ret;
	req->recv_mapped = true;
	if (req->send == req->recv) {
		req->send_region = req->recv_region;
		return 0;
	}
	ret = ep->ops->map(ep, (void *)req->send, req->bytes, false, &req->send_region);
	req->send_mapped = !ret;
	return ret;
}

static void unmap_buffers(struct inccl_request *req)
{
	struct inccl_endpoint *ep = req->comm->ep;

	if (req->send_mapped)
		ep->ops->unmap(ep, &req->send_region);
	if (req->recv_mapped)
		ep->ops->unmap(ep, &req->recv_region);
}

void inccl_request_release(struct inccl_request *req)
{
	struct inccl_communicator *comm = req->comm;

	if (req->prev)
		req->prev->next = req->next;
	else
		comm->first = req->next;
	if (req->next)
		req->next->prev = req->prev;
	else
		comm->last = req->prev;
	unmap_buffers(req);
	free(req);
}

/* The first message is one packet, which carries the descriptor; the others are full. */
static uint64_t count_messages(const struct inccl_communicator *comm, uint64_t bytes)
{
	uint64_t full = (uint64_t)comm->payload * comm->message_packets;

	if (bytes <= comm->payload)
		return 1;
	return 1 + (bytes - comm->payload + full - 1) / full;
}

static void enqueue(struct inccl_communicator *comm, struct inccl_request *req)
{
	req->prev = comm->last;
	if (comm->last)
		comm->last->next = req;
	else
		comm->first = req;
	comm->last = req;
	if (req->done)
		return;
	if (!comm->posting)
		comm->posting = req;
	if (!comm->head) {
		comm->head = req;
		comm->moved_ns = inc_now_ns();
	}
}

int inccl_collective_start(struct inccl_communicator *comm,
			   const struct inccl_collective_opts *given, struct inccl_request **out)
{
	struct inccl_collective_opts opts;
	struct inccl_request *req;
	uint64_t bytes;
	int ret;
	INCCL_UNCANCELLED(cancel_state);

	if (!out)
		return -EINVAL;
	*out = NULL;
	if (!comm || !given)
		return -EINVAL;
	ret = inccl_opts_copy(&opts, sizeof(opts), given);
	if (!ret)
		ret = check_opts(comm, &opts, &bytes);
	if (ret)
		return ret;
	req = calloc(1, sizeof(*req));
	if (!req)
		return -ENOMEM;
	req->comm = comm;
	req->send = opts.send;
	req->recv = opts.recv;
	req->bytes = bytes;
	req->mode = opts.mode ?: INCCL_MODE_SENDRECV;

	pthread_mutex_lock(&comm->lock);
	ret = comm->error ? -comm->error : map_buffers(req);
	if (ret) {
		unmap_buffers(req);
		free(req);
		goto unlock;
	}
	/* An empty collective sends nothing, but it counts: a rank that made another one
	 * of it is found out by the next descriptor. */
	req->desc = INC_DESC(opts.collective, opts.op, opts.dtype, opts.root, comm->seq++);
	if (!bytes && opts.collective != INCCL_BARRIER)
		req->done = true;
	else
		req->messages = count_messages(comm, bytes);
	enqueue(comm, req);
	if (!req->done) {
		inccl_comm_enter(comm);
		inccl_comm_advance(comm);
	}
	*out = req;
unlock:
	pthread_mutex_unlock(&comm->lock);
	inccl_log_deliver(&comm->group->log);
	return ret;
}

static int collect(struct inccl_request *req)
{
	int result;

	if (!req->done)
		return -EAGAIN;
	result = req->result;
	inccl_request_release(req);
	return result;
}

int inccl_test(struct inccl_request *req)
{
	INCCL_UNCANCELLED(cancel_state);
	struct inccl_communicator *comm;
	int ret;

	if (!req)
		return -EINVAL;
	comm = req->comm;
	pthread_mutex_lock(&comm->lock);
	if (!req->done && comm->driver != DRIVER_WAITER) {
		inccl_comm_enter(comm);
		inccl_comm_advance(comm);
	}
	ret = collect(req);
	pthread_mutex_unlock(&comm->lock);
	inccl_log_deliver(&comm->group->log);
	return ret;
}

int inccl_wait(struct inccl_request *req, int timeout_ms)
{
	INCCL_UNCANCELLED(cancel_state);
	struct inccl_communicator *comm;
	int ret;

	if (!req)
		return -EINVAL;
	comm = req->comm;
	pthread_mutex_lock(&comm->lock);
	if (!req->done) {
		inccl_comm_enter(comm);
		inccl_comm_drive(comm, req,
				 timeout_ms < 0 ? UINT64_MAX : deadline_after_ms(timeout_ms),
				 cancel_state);
	}
	ret = collect(req);
	pthread_mutex_unlock(&comm->lock);
	inccl_log_deliver(&comm->group->log);
	return ret;
}

static int run(struct inccl_communicator *comm, const struct inccl_collective_opts *opts)
{
	/* a thread that ends here would take the buffers with it */
	INCCL_UNCANCELLED(cancel_state);
	struct inccl_request *req;
	int ret;

	ret = inccl_collective_start(comm, opts, &req);
	return ret ? ret : inccl_wait(req, -1);
}

int inccl_allreduce_sendrecv(struct inccl_communicator *comm, const int32_t *send, size_t count,
			     int32_t *recv)
{
	INCCL_OPTS(inccl_collective_opts, opts, .mode = INCCL_MODE_SENDRECV, .send = send,
		   .recv = recv, .count = count);

	return run(comm, &opts);
}

int inccl_allreduce_write(struct inccl_communicator *comm, const int32_t *send, size_t count,
			  int32_t *recv)
{
	INCCL_OPTS(inccl_collective_opts, opts, .mode = INCCL_MODE_WRITE, .send = send,
		   .recv = recv, .count = count);

	return run(comm, &opts);
}

int inccl_barrier(struct inccl_communicator *comm)
{
	INCCL_OPTS(inccl_collective_opts, opts, .collective = INCCL_BARRIER);

	return run(comm, &opts);
}
