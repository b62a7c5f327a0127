/* SPDX-License-Identifier: BSD-2-Clause */
/* Sends and receives of NCCL. Each is an element of comm->request, so none is allocated. ha_test()
 * also tests flushes, whose requests are in comm->flush. */
#include <errno.h>
#include "hostlib/nccl/abi.h"
#include "hostlib/nccl/comm_priv.h"
#include "lib/base/clock.h"

static bool is_ready(struct ha_comm *comm, const struct ha_region *region, uint64_t now_ns)
{
	if (comm->path && ha_comm_is_registered(region, comm->path->rail))
		return true;
	if (comm->path && ha_comm_refused(region, comm->path->rail)) {
		/* the path's device has refused the memory; the comm leaves the path, because the
		 * standby's device may accept it */
		HA_MACHINE_EVENT(comm, trigger, HA_CAUSE_ERROR, now_ns);
		ha_comm_do(comm, now_ns);
		return false;
	}
	ha_comm_register_all(comm);
	return false;
}

static void give(struct ha_comm *comm, unsigned int place, unsigned int buffers,
		 struct ha_request **out)
{
	struct ha_request *request = &comm->request[place];

	*request = (struct ha_request){.comm = comm, .place = place, .buffers = buffers};
	comm->requests++;
	*out = request;
}

/* Converts -EAGAIN to 0. Without a request that is no error to NCCL, which calls again. */
static int later(int ret)
{
	return ret == -EAGAIN ? 0 : ret;
}

static int isend(struct ha_comm *comm, void *data, size_t bytes, int tag, struct ha_region *region,
		 struct ha_request **out)
{
	const uint64_t now_ns = inc_now_ns();
	int ret;

	ha_comm_advance(comm, now_ns);
	if (comm->end->state == HA_FAILED)
		return comm->end->error;
	if (!is_ready(comm, region, now_ns))
		return 0;
	ret = ha_sender_isend(&comm->sender, data, region, bytes, tag, now_ns, &comm->todo);
	ha_comm_do(comm, now_ns);
	if (ret < 0)
		return later(ret);
	give(comm, ret, 1, out);
	return 0;
}

int ha_isend(struct ha_comm *comm, void *data, size_t bytes, int tag, struct ha_region *region,
	     struct ha_request **out)
{
	const uint32_t most = comm->device->max_message_bytes;
	int ret;

	*out = NULL;
	if (!comm->sends || bytes > UINT32_MAX || (bytes && !region))
		return -EINVAL;
	if (most && bytes > most)
		return -EMSGSIZE;
	if (pthread_mutex_trylock(&comm->lock))
		return 0;
	ret = isend(comm, data, bytes, tag, region, out);
	pthread_mutex_unlock(&comm->lock);
	return ret;
}

static int irecv(struct ha_comm *comm, const struct ha_recv_buffer *buffers, unsigned int n,
		 struct ha_request **out)
{
	const uint64_t now_ns = inc_now_ns();
	int ret;

	ha_comm_advance(comm, now_ns);
	if (comm->end->state == HA_FAILED)
		return comm->end->error;
	ret = ha_receiver_irecv(&comm->receiver, buffers, n, &comm->todo);
	ha_comm_do(comm, now_ns);
	if (ret < 0)
		return later(ret);
	give(comm, ret, n, out);
	return 0;
}

int ha_irecv(struct ha_comm *comm, unsigned int n, void **data, const size_t *bytes,
	     const int *tags, struct ha_region **regions, struct ha_request **out)
{
	struct ha_recv_buffer buffers[HA_GROUP];
	unsigned int i;
	int ret;

	*out = NULL;
	if (comm->sends || !n || n > HA_GROUP)
		return -EINVAL;
	for (i = 0; i < n; i++) {
		if (bytes[i] > UINT32_MAX || (bytes[i] && !regions[i]))
			return -EINVAL;
		buffers[i] = (struct ha_recv_buffer){data[i], regions[i], bytes[i], tags[i]};
	}
	if (pthread_mutex_trylock(&comm->lock))
		return 0;
	ret = irecv(comm, buffers, n, out);
	pthread_mutex_unlock(&comm->lock);
	return ret;
}

static int test_send(struct ha_comm *comm, const struct ha_request *request, bool *done, int *sizes)
{
	const struct ha_send *send = &comm->sender.send[request->place];

	if (send->state != HA_SEND_COMPLETE && send->state != HA_SEND_FAILED)
		return 0;
	*done = true;
	if (send->state == HA_SEND_FAILED)
		return comm->end->error;
	if (sizes)
		sizes[0] = send->bytes;
	return 0;
}

static int test_receive(struct ha_comm *comm, const struct ha_request *request, bool *done,
			int *sizes)
{
	uint32_t received[HA_GROUP];
	const int ret = ha_receiver_test(&comm->receiver, request->place, received);
	unsigned int i;

	*done = ret;
	for (i = 0; ret > 0 && sizes && i < request->buffers; i++)
		sizes[i] = received[i];
	return ret < 0 ? ret : 0;
}

static int test(struct ha_comm *comm, struct ha_request *request, bool *done, int *sizes)
{
	int ret;

	ha_comm_advance(comm, inc_now_ns());
	if (request->flush)
		return ha_comm_test_flush(comm, request->flush, done);
	ret = comm->sends ? test_send(comm, request, done, sizes)
			  : test_receive(comm, request, done, sizes);
	if (!*done)
		return 0;
	if (comm->sends)
		ha_sender_release(&comm->sender, request->place);
	else
		ha_receiver_release(&comm->receiver, request->place);
	comm->requests--;
	return ret;
}

int ha_test(struct ha_request *request, bool *done, int *sizes)
{
	struct ha_comm *comm = request->comm;
	int ret;

	*done = false;
	if (pthread_mutex_trylock(&comm->lock))
		return 0;
	ret = test(comm, request, done, sizes);
	pthread_mutex_unlock(&comm->lock);
	return ret;
}
