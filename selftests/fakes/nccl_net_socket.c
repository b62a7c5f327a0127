/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A network plugin for NCCL over TCP sockets, to try ha-nccl-perf on machines without RDMA, in all
 * versions of the interface. No call waits, and test() moves the data.
 *
 * SOCKET_NET_FAULT makes the plugin misbehave at message FAULT_AT of each comm: duplicate, drop,
 * swap, tear, overrun, block, size, late (a buffer changes after its completion) or remote (an
 * error). In addition there are consumed (irecvConsumed fails) and silent (test does not write
 * *done). Other faults apply from the beginning: merge (makeVDevice fails), nameless and boundless
 * (a device's properties), handle (connect and accept return a device handle).
 *
 * Listeners have the address of SOCKET_NET_ADDRESS, or that of the loopback interface.
 *
 * The plugin also fails if its caller omits a call that NCCL makes: irecvConsumed for each receive,
 * closeListen before memory is registered, setNetAttr before connect.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "hostlib/nccl/abi.h"

#define FAULT_AT  20u
#define MAX_GROUP 8
#define REQUESTS  512
#define EXPORT    __attribute__((visibility("default")))

struct message {
	uint64_t bytes;
	int32_t tag, zero;
};

struct request {
	struct comm *comm;
	bool used, receives;
	/* n: number of messages of the request; left: number of those that are not complete */
	int n, left;
	struct message head[MAX_GROUP];
	uint8_t *data[MAX_GROUP];
	bool filled[MAX_GROUP];
	uint8_t *late; /* byte of the buffer that the fault "late" changes after the completion */
};

struct comm {
	int fd;
	/* the listener that accepted this comm; NULL if this end connected */
	const struct listening *listening;
	struct request request[REQUESTS];
	/* incomplete requests in the order in which they were posted */
	struct request *queue[REQUESTS];
	unsigned int queued;
	struct message head; /* the header of the message that is being moved */
	size_t moved; /* number of bytes that were moved, of the header and then of the payload */
	struct request *into;
	int part;
	uint64_t count; /* number of messages that are complete */
	uint64_t receives, consumed;
	bool repeated, swapped;
	uint8_t *late; /* byte that the fault "late" changes at the next completion */
};

struct handle {
	struct sockaddr_in address;
	struct comm *comm; /* the comm of the connecting end */
};
static_assert(sizeof(struct handle) <= HA_NCCL_HANDLE_BYTES, "a handle has 128 bytes");

/* A listener, of which `open` changes. Its comms refer to it after it was closed, so it is never
 * freed. The list of all listeners keeps them reachable for a leak checker. Only one thread listens
 * at a time. */
static struct listening {
	bool open; /* true until NCCL calls closeListen */
	struct listening *before;
} * last_listening;

struct listener {
	int fd;
	struct listening *listening;
};

static atomic_bool hinted; /* setNetAttr has been called */

static bool past_fault(const struct comm *comm, const char *fault)
{
	const char *text = getenv("SOCKET_NET_FAULT");

	return text && comm->count >= FAULT_AT && !strcmp(text, fault);
}

static bool faulty(const struct comm *comm, const char *fault)
{
	return comm->count == FAULT_AT && past_fault(comm, fault);
}

static bool is_fault(const char *fault)
{
	const char *text = getenv("SOCKET_NET_FAULT");

	return text && !strcmp(text, fault);
}

static void make_handle(struct ha_nccl_device_handle **device)
{
	static struct ha_nccl_device_handle handle;

	if (is_fault("handle"))
		*device = &handle;
}

static enum ha_nccl_result take_devices(int *ndev)
{
	*ndev = 2;
	return HA_NCCL_SUCCESS;
}

static enum ha_nccl_result listen_at(void *place, void **out)
{
	struct handle *handle = place;
	struct listener *listener = calloc(1, sizeof(*listener));
	struct listening *listening = calloc(1, sizeof(*listening));
	socklen_t len = sizeof(handle->address);

	if (!listener || !listening)
		return HA_NCCL_SYSTEM_ERROR;
	*handle =
		(struct handle){.address = {.sin_family = AF_INET,
					    .sin_addr.s_addr = inet_addr(
						    getenv("SOCKET_NET_ADDRESS") ?: "127.0.0.1")}};
	listener->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (listener->fd < 0 ||
	    bind(listener->fd, (struct sockaddr *)&handle->address, sizeof(handle->address)) ||
	    listen(listener->fd, 64) ||
	    getsockname(listener->fd, (struct sockaddr *)&handle->address, &len)) {
		if (listener->fd >= 0)
			close(listener->fd);
		free(listening);
		free(listener);
		return HA_NCCL_SYSTEM_ERROR;
	}
	*listening = (struct listening){true, last_listening};
	last_listening = listener->listening = listening;
	*out = listener;
	return HA_NCCL_SUCCESS;
}

/* Connects to the handle's listener. NCCL repeats the call with the same handle until it gets a
 * comm. */
static enum ha_nccl_result connect_to(void *place, void **out)
{
	struct handle *handle = place;
	struct comm *comm = handle->comm;

	*out = NULL;
	if (!comm) {
		comm = calloc(1, sizeof(*comm));
		if (!comm)
			return HA_NCCL_SYSTEM_ERROR;
		comm->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		handle->comm = comm;
	}
	if (!connect(comm->fd, (struct sockaddr *)&handle->address, sizeof(handle->address)) ||
	    errno == EISCONN) {
		handle->comm = NULL;
		*out = comm;
		return HA_NCCL_SUCCESS;
	}
	return errno == EINPROGRESS || errno == EALREADY ? HA_NCCL_SUCCESS : HA_NCCL_SYSTEM_ERROR;
}

static enum ha_nccl_result accept_one(void *from, void **out, struct ha_nccl_device_handle **device)
{
	const struct listener *listener = from;
	const int fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	struct comm *comm;

	*out = NULL;
	if (fd < 0)
		return errno == EAGAIN ? HA_NCCL_SUCCESS : HA_NCCL_SYSTEM_ERROR;
	comm = calloc(1, sizeof(*comm));
	if (!comm) {
		close(fd);
		return HA_NCCL_SYSTEM_ERROR;
	}
	comm->fd = fd;
	comm->listening = listener->listening;
	make_handle(device);
	*out = comm;
	return HA_NCCL_SUCCESS;
}

static enum ha_nccl_result reg(void *to, void *data, size_t size, int type, void **mhandle)
{
	const struct comm *comm = to;

	*mhandle = data;
	if (comm->listening && comm->listening->open)
		return HA_NCCL_INVALID_USAGE;
	return type == HA_NCCL_PTR_HOST ? HA_NCCL_SUCCESS : HA_NCCL_INVALID_ARGUMENT;
}

static enum ha_nccl_result reg_dma_buf(void *comm, void *data, size_t size, int type,
				       uint64_t offset, int fd, void **mhandle)
{
	return HA_NCCL_INVALID_ARGUMENT;
}

static enum ha_nccl_result dereg(void *comm, void *mhandle)
{
	return HA_NCCL_SUCCESS;
}

static struct request *post(struct comm *comm, bool receives, int n)
{
	for (unsigned int i = 0; i < REQUESTS; i++) {
		struct request *request = &comm->request[i];

		if (request->used)
			continue;
		*request = (struct request){
			.comm = comm, .used = true, .receives = receives, .n = n, .left = n};
		comm->queue[comm->queued++] = request;
		return request;
	}
	return NULL;
}

static void unqueue(struct comm *comm, unsigned int i)
{
	comm->queued--;
	memmove(&comm->queue[i], &comm->queue[i + 1], (comm->queued - i) * sizeof(*comm->queue));
}

/* Moves the bytes of a message up to offset `to`. Returns 1 if all are moved, 0 if not yet, -1 if
 * the connection has ended. */
static int move(struct comm *comm, bool receives, uint8_t *data, size_t from, size_t to)
{
	while (comm->moved < to) {
		uint8_t *at = data + (comm->moved - from);
		const ssize_t n = receives ? recv(comm->fd, at, to - comm->moved, 0)
					   : send(comm->fd, at, to - comm->moved, MSG_NOSIGNAL);

		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n <= 0)
			return -1;
		comm->moved += n;
	}
	return 1;
}

/* Chooses the request to send next, which is the first one, or another one with a fault. Returns
 * NULL if there is none yet. */
static struct request *next_to_send(struct comm *comm)
{
	struct request *first = comm->queued ? comm->queue[0] : NULL;

	if (!first || comm->moved)
		return first;
	if (faulty(comm, "swap") && !comm->swapped) {
		if (comm->queued < 2)
			return NULL;
		comm->queue[0] = comm->queue[1];
		comm->queue[1] = first;
		comm->swapped = true;
	}
	return comm->queue[0];
}

static int progress_send(struct comm *comm)
{
	struct request *request;
	int got;

	while ((request = next_to_send(comm))) {
		const size_t all = sizeof(request->head[0]) + request->head[0].bytes;

		got = 1;
		if (!faulty(comm, "drop"))
			got = move(comm, false, (uint8_t *)&request->head[0], 0,
				   sizeof(request->head[0]));
		if (got > 0 && !faulty(comm, "drop"))
			got = move(comm, false, request->data[0], sizeof(request->head[0]), all);
		if (got <= 0)
			return got;
		comm->moved = 0;
		if (faulty(comm, "duplicate") && !comm->repeated) {
			comm->repeated = true;
			continue;
		}
		comm->count++;
		request->left = 0;
		unqueue(comm, 0);
	}
	return 0;
}

/* Finds the oldest receive whose tag is that of the message. */
static bool find_place(struct comm *comm)
{
	for (unsigned int i = 0; i < comm->queued; i++)
		for (int part = 0; part < comm->queue[i]->n; part++) {
			struct request *request = comm->queue[i];

			if (request->filled[part] || request->head[part].tag != comm->head.tag)
				continue;
			comm->into = request;
			comm->part = part;
			return true;
		}
	return false;
}

static void received(struct comm *comm)
{
	struct request *request = comm->into;
	uint8_t *data = request->data[comm->part];
	const size_t bytes = comm->head.bytes;

	if (faulty(comm, "tear"))
		memset(data + bytes / 2, 0, bytes - bytes / 2);
	if (faulty(comm, "late"))
		request->late = data;
	if (faulty(comm, "overrun"))
		data[request->head[comm->part].bytes] = 0;
	request->head[comm->part].bytes = faulty(comm, "size") ? bytes - 1 : bytes;
	request->filled[comm->part] = true;
	comm->count++;
	comm->moved = 0;
	comm->into = NULL;
	if (--request->left)
		return;
	for (unsigned int i = 0; i < comm->queued; i++)
		if (comm->queue[i] == request) {
			unqueue(comm, i);
			return;
		}
}

static int progress_receive(struct comm *comm)
{
	while (comm->queued) {
		int got = move(comm, true, (uint8_t *)&comm->head, 0, sizeof(comm->head));

		if (got <= 0)
			return got;
		if (!comm->into && !find_place(comm))
			return 0;
		if (comm->head.bytes > comm->into->head[comm->part].bytes)
			return -1;
		got = move(comm, true, comm->into->data[comm->part], sizeof(comm->head),
			   sizeof(comm->head) + comm->head.bytes);
		if (got <= 0)
			return got;
		received(comm);
	}
	return 0;
}

static enum ha_nccl_result send_one(void *to, void *data, size_t size, int tag, void **out)
{
	struct comm *comm = to;
	struct request *request = post(comm, false, 1);

	*out = request;
	if (!request)
		return HA_NCCL_SUCCESS;
	request->head[0] = (struct message){.bytes = size, .tag = tag};
	request->data[0] = data;
	return progress_send(comm) < 0 ? HA_NCCL_REMOTE_ERROR : HA_NCCL_SUCCESS;
}

static enum ha_nccl_result receive_some(void *from, int n, void **data, const size_t *sizes,
					const int *tags, void **out)
{
	struct comm *comm = from;
	struct request *request = n <= MAX_GROUP ? post(comm, true, n) : NULL;

	*out = request;
	for (int i = 0; request && i < n; i++) {
		request->head[i] = (struct message){.bytes = sizes[i], .tag = tags[i]};
		request->data[i] = data[i];
	}
	return n <= MAX_GROUP ? HA_NCCL_SUCCESS : HA_NCCL_INVALID_USAGE;
}

/* Makes a request for a flush, so that the caller's handling of it is tested. Host memory needs no
 * flush. */
static enum ha_nccl_result flush(void *from, int n, void **data, int *sizes, void **mhandles,
				 void **out)
{
	struct comm *comm = from;
	struct request *request = post(comm, true, 0);

	*out = request;
	if (request)
		comm->queued--;
	return HA_NCCL_SUCCESS;
}

static enum ha_nccl_result test(void *which, int *done, int *sizes)
{
	struct request *request = which;
	struct comm *comm = request->comm;
	const struct timespec long_time = {.tv_nsec = 300000000};

	if (request->left && request->receives && past_fault(comm, "silent"))
		return HA_NCCL_SUCCESS;
	*done = 0;
	if (past_fault(comm, "block") && !comm->repeated) {
		comm->repeated = true;
		nanosleep(&long_time, NULL);
	}
	if (past_fault(comm, "remote"))
		return HA_NCCL_REMOTE_ERROR;
	if (request->left && (request->receives ? progress_receive(comm) : progress_send(comm)) < 0)
		return HA_NCCL_REMOTE_ERROR;
	if (request->left)
		return HA_NCCL_SUCCESS;
	for (int i = 0; sizes && i < request->n; i++)
		sizes[i] = (int)request->head[i].bytes;
	if (comm->late)
		*comm->late ^= 1;
	comm->late = request->late;
	request->used = false;
	comm->receives += request->receives && request->n;
	*done = 1;
	return HA_NCCL_SUCCESS;
}

static enum ha_nccl_result consumed(void *from, int n, void *request)
{
	struct comm *comm = from;

	comm->consumed++;
	if (past_fault(comm, "consumed"))
		return HA_NCCL_INVALID_USAGE;
	return request && n > 0 && comm->consumed <= comm->receives ? HA_NCCL_SUCCESS
								    : HA_NCCL_INTERNAL_ERROR;
}

static enum ha_nccl_result close_comm(void *which)
{
	struct comm *comm = which;
	const bool all_consumed = comm->consumed == comm->receives || getenv("SOCKET_NET_FAULT");

	close(comm->fd);
	free(comm);
	return all_consumed ? HA_NCCL_SUCCESS : HA_NCCL_INTERNAL_ERROR;
}

static enum ha_nccl_result close_listen(void *which)
{
	struct listener *listener = which;

	close(listener->fd);
	listener->listening->open = false;
	free(listener);
	return HA_NCCL_SUCCESS;
}

static enum ha_nccl_result merge(int *dev, struct ha_nccl_vdevice *parts)
{
	return is_fault("merge") ? HA_NCCL_INVALID_USAGE : HA_NCCL_INTERNAL_ERROR;
}

#include "selftests/fakes/nccl_net_socket_versions.h"
