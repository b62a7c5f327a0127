/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The leader of a machine's ranks in a group that spans machines. Message m of the segment is
 * message m of the leader's connection to the switch. The leader contributes it as soon as all of
 * its machine's ranks have, and receives the result into the segment. For the switch the leader is
 * a child with several ranks behind it, like another switch.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "hostlib/node/segment_end.h"
#include "lib/base/fd.h"
#include "lib/proto/desc.h"

static int watch(struct inccl_node_end *e, int op, int fd, short events)
{
	struct epoll_event event = {
		.events = (events & POLLIN ? EPOLLIN : 0) | (events & POLLOUT ? EPOLLOUT : 0),
		.data.fd = fd,
	};

	return epoll_ctl(e->epoll_fd, op, fd, &event) ? -errno : 0;
}

/* Registers the segment. The switch never writes to it by WRITE, because the leader's messages are
 * SENDs. */
static int map_segment(struct inccl_node_end *e, struct inccl_endpoint *network,
		       struct inc_err *err)
{
	const size_t bytes = inccl_node_segment_bytes(&e->shape);
	struct inc_err why = {""};
	int ret = network->ops->map(network->dev, e->segment, bytes, INC_CHANNEL_RECEIVE,
				    &e->region, &why);

	return ret ? inc_err_set(err, -ret, "%s: shared memory cannot be registered: %s",
				 network->ops->name, why.msg)
		   : 0;
}

int inccl_node_network_open(struct inccl_node_end *e, struct inccl_endpoint *network,
			    struct inc_err *err)
{
	int ret;

	e->epoll_fd = inc_fd_high(epoll_create1(EPOLL_CLOEXEC));
	if (e->epoll_fd < 0)
		return inc_err_set(err, errno, "epoll: %s", strerror(errno));
	e->network_events = POLLIN;
	e->network_fd = network->ops->fd(network->dev, NULL);
	ret = watch(e, EPOLL_CTL_ADD, e->wake[e->rank], POLLIN);
	ret = ret ?: watch(e, EPOLL_CTL_ADD, e->network_fd, POLLIN);
	if (ret)
		inc_err_set(err, -ret, "epoll: %s", strerror(-ret));
	ret = ret ?: map_segment(e, network, err);
	if (ret) {
		close(e->epoll_fd);
		return ret;
	}
	e->network = network;
	return 0;
}

void inccl_node_network_close(struct inccl_node_end *e, bool abandon)
{
	if (!e->network)
		return;
	close(e->epoll_fd);
	if (abandon) {
		inccl_endpoint_abandon(e->network);
		return;
	}
	inccl_endpoint_unmap(e->network, &e->region);
	inccl_endpoint_close(e->network);
}

/* Stores in the communicator's endpoint that its network endpoint has failed. */
static void take_failure(struct inccl_node_end *e)
{
	e->ep->failed = e->network->failed;
	e->ep->mismatch = e->network->mismatch;
	e->ep->network_failed = true;
	memcpy(e->ep->error, e->network->error, sizeof(e->ep->error));
}

/* Makes the leader's message for the switch. The machine's contribution is where its ranks' parts
 * were reduced, or in the part of the root that gives. */
static struct inc_channel_exchange message_for(const struct inccl_node_end *e, uint64_t m)
{
	const struct inc_channel_exchange *x = inccl_node_message_of(e, m);
	const uint32_t bytes = inccl_node_bytes_of(x);
	const int root = inccl_node_root_of(e, x->imm);
	const bool root_gives = inc_root_gives(x->imm) && root >= 0;
	uint8_t *place = inccl_node_place_of(e, m, root_gives ? root : 0, bytes);
	struct inc_channel_exchange out = {
		.send = place,
		.recv = place,
		.send_len = inc_all_give(x->imm) || root_gives ? bytes : 0,
		.recv_len = inc_ranks_get(x->imm, root >= 0, e->ranks) ? bytes : 0,
		.imm = x->imm,
		.has_imm = bytes <= e->payload,
		.last = x->last,
	};

	out.send_region = out.send_len ? &e->region : NULL;
	out.recv_region = out.recv_len ? &e->region : NULL;
	return out;
}

static bool is_combined(const struct inccl_node_end *e, uint64_t m)
{
	return m < e->posted && atomic_load_explicit(&inccl_node_slot_of(e, m)->combined,
						     memory_order_acquire) == m + 1;
}

void inccl_node_network_post(struct inccl_node_end *e)
{
	struct inc_channel_exchange x;
	int ret = 0;

	e->network_full = false;
	while (!ret && is_combined(e, e->network->posted)) {
		x = message_for(e, e->network->posted);
		ret = inccl_endpoint_post(e->network, &x);
	}
	e->network_full = ret == -EAGAIN;
	if (e->network->failed)
		take_failure(e);
}

bool inccl_node_network_progress(struct inccl_node_end *e)
{
	const int ret = inccl_endpoint_progress(e->network);

	while (e->published < e->network->completed)
		inccl_node_publish(e, e->published++);
	if (ret < 0)
		take_failure(e);
	else
		inccl_node_network_post(e);
	return ret > 0;
}

bool inccl_node_network_arm(struct inccl_node_end *e)
{
	uint64_t deadline_ns;
	short events;
	int fd;

	atomic_fetch_or(&e->segment->want_combined, 1ull << e->rank);
	atomic_thread_fence(memory_order_seq_cst);
	if (!e->network_full && is_combined(e, e->network->posted))
		return true;
	if (inccl_endpoint_arm(e->network, &fd, &events, &deadline_ns))
		return true;
	if (events != e->network_events && !watch(e, EPOLL_CTL_MOD, fd, events))
		e->network_events = events;
	return false;
}
