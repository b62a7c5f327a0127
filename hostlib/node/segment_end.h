/* SPDX-License-Identifier: BSD-2-Clause */
/* One rank's end of a segment of shared memory. Shared by shared_memory.c and network.c, which run
 * under the communicator's lock. */
#ifndef INCCL_NODE_SEGMENT_END_H
#define INCCL_NODE_SEGMENT_END_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "hostlib/node/shared_memory.h"
#include "lib/base/err.h"
#include "lib/base/numbers.h"
#include "lib/channel/channel.h"

struct inccl_node_end {
	struct inc_channel_device dev; /* the first member, as lib/channel/channel.h asks */
	struct inc_channel ch;
	struct inccl_endpoint *ep;
	struct inccl_node_segment *segment;
	struct inccl_node_shape shape;
	unsigned int rank, ranks;
	unsigned int member[INC_MAX_NODE_RANKS]; /* ranks in the group */
	int wake[INC_MAX_NODE_RANKS];
	bool swapped; /* elements are not in the machine's byte order */
	bool native_floats;
	bool spans;
	bool armed; /* arm() was called since the last progress() */
	/* the caller has a message for which there was no slot */
	bool blocked;
	uint32_t payload;
	uint64_t under_way; /* packets of messages whose results are not here */
	uint64_t posted, completed;
	struct inc_channel_exchange *message; /* those under way, by slot */

	/* Of a leader: the connection to the switch (otherwise NULL), and its registration of the
	 * segment. */
	struct inccl_endpoint *network;
	struct inc_channel_region region;
	/* the connection's queue was full, so the next message waits for progress there */
	bool network_full;
	uint64_t published; /* results that the leader has given to all ranks */
	/* epoll descriptor of the wake descriptor and that of the connection */
	int epoll_fd, network_fd;
	short network_events; /* events for which the epoll descriptor waits there */
};

static inline struct inccl_node_slot *inccl_node_slot_of(const struct inccl_node_end *e, uint64_t m)
{
	return &e->segment->slot[m % e->shape.slots];
}

/* Returns the place of a rank's contribution of so many bytes to message m. */
static inline uint8_t *inccl_node_place_of(const struct inccl_node_end *e, uint64_t m,
					   unsigned int rank, uint32_t bytes)
{
	const size_t slot = m % e->shape.slots;

	if (bytes <= INCCL_NODE_SMALL_BYTES)
		return e->segment->slot[slot].part[rank].small;
	return (uint8_t *)(e->segment->slot + e->shape.slots) +
	       (slot * e->ranks + rank) * inccl_node_stride(&e->shape);
}

static inline uint32_t inccl_node_bytes_of(const struct inc_channel_exchange *x)
{
	return inc_max(x->send_len, x->recv_len);
}

static inline const struct inc_channel_exchange *
inccl_node_message_of(const struct inccl_node_end *e, uint64_t m)
{
	return &e->message[m % e->shape.slots];
}

/* Returns the root of a message among this machine's ranks, or -1 if it is on another machine. */
int inccl_node_root_of(const struct inccl_node_end *e, uint32_t imm);
/* Gives the result of message m to all ranks. */
void inccl_node_publish(struct inccl_node_end *e, uint64_t m);

/* ---- network.c ---- */

/* Gives the leader's end its connection to the switch. On failure the end does not own the
 * connection. Returns 0, or -errno with the reason in err. */
int inccl_node_network_open(struct inccl_node_end *e, struct inccl_endpoint *network,
			    struct inc_err *err);
/* Closes the connection, or in a forked child abandons it. */
void inccl_node_network_close(struct inccl_node_end *e, bool abandon);
/* Contributes combined messages, and publishes results. Returns true if more may have arrived. A
 * failure is stored in e->ep. */
bool inccl_node_network_progress(struct inccl_node_end *e);
/* Contributes the messages that are combined. */
void inccl_node_network_post(struct inccl_node_end *e);
/* Prepares the connection for a sleep. Returns true if the caller must call progress() instead. */
bool inccl_node_network_arm(struct inccl_node_end *e);

#endif
