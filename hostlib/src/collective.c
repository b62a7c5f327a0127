/* SPDX-License-Identifier: BSD-2-Clause */
/* Collectives as the caller sees them: start, test, wait. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "lib/base/clock.h"
#include "lib/proto/desc.h"
#include "hostlib/src/internal.h"

/* What a caller wants done. A barrier has no data, whatever count says. */
struct call {
	enum inccl_collective collective;
	enum inccl_dtype dtype;
	enum inccl_op op;
	const void *send;
	void *recv;
	size_t count;
};

static int check_call(const struct call *call, uint64_t *bytes)
{
	uintptr_t send = (uintptr_t)call->send, recv = (uintptr_t)call->recv;
	size_t size = inccl_dtype_size(call->dtype);

	*bytes = 0;
	if (!inccl_op_name(call->op) || !size)
		return -EOPNOTSUPP;
	if (!call->count)
		return 0;
	if (call->count > SIZE_MAX / 2 / size || !send || !recv || send % size || recv % size)
		return -EINVAL;
	*bytes = (uint64_t)call->count * size;
	if (send != recv && send < recv + *bytes && recv < send + *bytes)
		return -EINVAL;
	return 0;
}

static bool wire_is_foreign(const struct inccl_communicator *comm)
{
	const bool little = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;

	return (comm->byte_order == INCCL_ORDER_LITTLE) != little;
}

/* From one byte order into the other, elements of size bytes; to may be from. */
static void swap_elements(void *to, const void *from, uint64_t bytes, size_t size)
{
	uint64_t i;

	switch (size) {
	case 1:
		if (to != from)
			memcpy(to, from, bytes);
		return;
	case 2:
		for (i = 0; i < bytes / 2; i++)
			((uint16_t *)to)[i] = __builtin_bswap16(((const uint16_t *)from)[i]);
		return;
	case 4:
		for (i = 0; i < bytes / 4; i++)
			((uint32_t *)to)[i] = __builtin_bswap32(((const uint32_t *)from)[i]);
		return;
	default:
		for (i = 0; i < bytes / 8; i++)
			((uint64_t *)to)[i] = __builtin_bswap64(((const uint64_t *)from)[i]);
	}
}

/*
 * For a wire whose order is not the machine's. What is sent is made in recv, which is ours until
 * the end, and the collective goes on in place: it needs no memory, and send stays as it is.
 */
static void to_wire_order(struct inccl_request *req)
{
	swap_elements(req->recv, req->send, req->bytes, req->element_bytes);
	req->send = req->recv;
	req->swapped = true;
}

static void to_own_order(struct inccl_request *req)
{
	if (req->swapped)
		swap_elements(req->recv, req->recv, req->bytes, req->element_bytes);
	req->swapped = false;
}

static int read_opts(const struct inccl_collective_opts *given, struct inccl_collective_opts *opts)
{
	int ret = inccl_opts_copy(opts, sizeof(*opts), given);

	if (ret)
		return ret;
	if ((unsigned int)opts->mode > INCCL_MODE_WRITE)
		return -EOPNOTSUPP;
	return opts->timeout_ms > INT32_MAX ? -EINVAL : 0;
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

/* Nobody but the caller knows of it any more. */
static void withdraw(struct inccl_request *req)
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
}

void inccl_request_release(struct inccl_request *req)
{
	withdraw(req);
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
		comm->moved_at_ns = inc_now_ns();
	}
}

/* The request, or NULL: nothing is known of it to anybody yet. */
static struct inccl_request *new_request(struct inccl_communicator *comm, const struct call *call,
					 const struct inccl_collective_opts *opts, uint64_t bytes)
{
	struct inccl_request *req = calloc(1, sizeof(*req));

	if (!req)
		return NULL;
	req->comm = comm;
	req->send = call->send;
	req->recv = call->recv;
	req->bytes = bytes;
	req->element_bytes = inccl_dtype_size(call->dtype);
	req->mode = opts->mode ?: INCCL_MODE_SENDRECV;
	req->timeout_ns =
		opts->timeout_ms ? opts->timeout_ms * INC_NSEC_PER_MSEC : comm->timeout_ns;
	if (bytes && wire_is_foreign(comm))
		to_wire_order(req);
	return req;
}

/* waits: the caller goes on to inccl_wait(), which serves the endpoint and leaves it in order. */
static int start(struct inccl_communicator *comm, const struct call *call,
		 const struct inccl_collective_opts *given, struct inccl_request **out, bool waits)
{
	struct inccl_collective_opts opts;
	struct inccl_request *req;
	uint64_t bytes;
	int ret;
	INCCL_UNCANCELLED(cancel_state);

	if (!out)
		return -EINVAL;
	*out = NULL;
	if (!comm)
		return -EINVAL;
	ret = read_opts(given, &opts);
	if (!ret)
		ret = check_call(call, &bytes);
	if (ret)
		return ret;
	req = new_request(comm, call, &opts, bytes);
	if (!req)
		return -ENOMEM;

	pthread_mutex_lock(&comm->lock);
	ret = comm->error ? -comm->error : map_buffers(req);
	if (ret) {
		unmap_buffers(req);
		to_own_order(req); /* in place, the caller has its data back */
		free(req);
		goto unlock;
	}
	/* An empty collective sends nothing, but it counts: a rank that made another one
	 * of it is found out by the next descriptor. */
	req->desc = INC_DESC(call->collective, call->op, call->dtype, 0, comm->seq++);
	if (!bytes && call->collective != INCCL_BARRIER)
		req->done = true;
	else
		req->messages = count_messages(comm, bytes);
	enqueue(comm, req);
	if (!req->done) {
		inccl_comm_enter(comm);
		inccl_comm_begin(comm);
		if (!waits)
			inccl_comm_leave(comm);
	}
	*out = req;
unlock:
	pthread_mutex_unlock(&comm->lock);
	inccl_log_deliver(&comm->group->log);
	return ret;
}

/* Ends a call under the lock with the request's result, where it has one, and the lock. */
static int collect(struct inccl_request *req)
{
	struct inccl_communicator *comm = req->comm;
	bool done = req->done;
	int result = -EAGAIN;

	if (done) {
		result = req->result;
		withdraw(req);
	}
	pthread_mutex_unlock(&comm->lock);
	inccl_log_deliver(&comm->group->log);
	if (done) {
		to_own_order(req);
		free(req);
	}
	return result;
}

int inccl_test(struct inccl_request *req)
{
	INCCL_UNCANCELLED(cancel_state);
	struct inccl_communicator *comm;

	if (!req)
		return -EINVAL;
	comm = req->comm;
	pthread_mutex_lock(&comm->lock);
	if (!req->done && comm->driver != DRIVER_WAITER) {
		inccl_comm_enter(comm);
		inccl_comm_advance(comm);
		inccl_comm_leave(comm);
	}
	return collect(req);
}

int inccl_wait(struct inccl_request *req, int timeout_ms)
{
	INCCL_UNCANCELLED(cancel_state);
	struct inccl_communicator *comm;

	if (!req)
		return -EINVAL;
	comm = req->comm;
	pthread_mutex_lock(&comm->lock);
	if (!req->done) {
		inccl_comm_enter(comm);
		inccl_comm_drive(comm, req,
				 timeout_ms < 0 ? UINT64_MAX : deadline_after_ms(timeout_ms),
				 cancel_state);
	} else {
		inccl_comm_leave(comm); /* run() has not */
	}
	return collect(req);
}

/* Start and wait in one. */
static int run(struct inccl_communicator *comm, const struct call *call,
	       const struct inccl_collective_opts *opts)
{
	/* a thread that ends here would take the buffers with it */
	INCCL_UNCANCELLED(cancel_state);
	struct inccl_request *req;
	int ret;

	ret = start(comm, call, opts, &req, true);
	return ret ? ret : inccl_wait(req, -1);
}

int inccl_allreduce_start(struct inccl_communicator *comm, const void *send, void *recv,
			  size_t count, enum inccl_dtype dtype, enum inccl_op op,
			  const struct inccl_collective_opts *opts, struct inccl_request **request)
{
	const struct call call = {INCCL_ALLREDUCE, dtype, op, send, recv, count};

	return start(comm, &call, opts, request, false);
}

int inccl_allreduce(struct inccl_communicator *comm, const void *send, void *recv, size_t count,
		    enum inccl_dtype dtype, enum inccl_op op,
		    const struct inccl_collective_opts *opts)
{
	const struct call call = {INCCL_ALLREDUCE, dtype, op, send, recv, count};

	return run(comm, &call, opts);
}

int inccl_allreduce_sendrecv(struct inccl_communicator *comm, const int32_t *send, size_t count,
			     int32_t *recv)
{
	INCCL_OPTS(inccl_collective_opts, opts, .mode = INCCL_MODE_SENDRECV);

	return inccl_allreduce(comm, send, recv, count, INCCL_INT32, INCCL_SUM, &opts);
}

int inccl_allreduce_write(struct inccl_communicator *comm, const int32_t *send, size_t count,
			  int32_t *recv)
{
	INCCL_OPTS(inccl_collective_opts, opts, .mode = INCCL_MODE_WRITE);

	return inccl_allreduce(comm, send, recv, count, INCCL_INT32, INCCL_SUM, &opts);
}

int inccl_barrier_start(struct inccl_communicator *comm, const struct inccl_collective_opts *opts,
			struct inccl_request **request)
{
	const struct call call = {.collective = INCCL_BARRIER};

	return start(comm, &call, opts, request, false);
}

int inccl_barrier(struct inccl_communicator *comm, const struct inccl_collective_opts *opts)
{
	const struct call call = {.collective = INCCL_BARRIER};

	return run(comm, &call, opts);
}
