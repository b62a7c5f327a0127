/* SPDX-License-Identifier: BSD-2-Clause */
/* One rank's end of a segment, as a kind of mirrored channels (shared_memory.h,
 * lib/channel/channel.h).
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "hostlib/node/segment_end.h"
#include "lib/base/thread.h"
#include "lib/proto/desc.h"
#include "lib/reduce/many.h"

_Static_assert(INC_MAX_NODE_RANKS <= INC_REDUCE_MOST && INC_MAX_NODE_RANKS <= 64,
	       "one call reduces the parts of all ranks, and sets of ranks have 64 bits");

static struct inccl_node_end *end_of_device(const struct inc_channel_device *dev)
{
	return (struct inccl_node_end *)dev;
}

static struct inccl_node_end *end_of(const struct inc_channel *ch)
{
	return end_of_device(ch->dev);
}

/* ---- the segment ---- */

int inccl_node_root_of(const struct inccl_node_end *e, uint32_t imm)
{
	for (unsigned int r = 0; r < e->ranks; r++)
		if (e->member[r] == INC_DESC_ROOT(imm))
			return r;
	return -1;
}

void inccl_node_segment_init(struct inccl_node_segment *segment,
			     const struct inccl_node_shape *shape)
{
	for (unsigned int i = 0; i < shape->slots; i++) {
		atomic_init(&segment->slot[i].turn, i);
		atomic_init(&segment->slot[i].claim, UINT64_MAX);
	}
}

/* ---- sleeping ranks ---- */

/* Wakes the ranks of a set, after something in the segment has changed. The fence orders the change
 * before the look at the set. arm() does these steps the other way round, so either this rank sees
 * a sleeper, or the sleeper sees the change. */
static void wake_all_of(struct inccl_node_end *e, _Atomic uint64_t *set)
{
	uint64_t asleep;

	atomic_thread_fence(memory_order_seq_cst);
	if (!atomic_load_explicit(set, memory_order_relaxed))
		return;
	asleep = atomic_exchange(set, 0) & ~(1ull << e->rank);
	for (; asleep; asleep &= asleep - 1) {
		const unsigned int rank = __builtin_ctzll(asleep);

		if (rank < e->ranks)
			inc_signal_fd(e->wake[rank]);
	}
}

/* ---- failures ---- */

/* Fails the segment on all ranks. Returns false if it has failed already. */
static bool fail(struct inccl_node_end *e, int error, int rank, const char *text)
{
	struct inccl_node_segment *segment = e->segment;
	uint32_t works = NODE_WORKS;

	if (!atomic_compare_exchange_strong(&segment->failure, &works, NODE_FAILING))
		return false;
	segment->error = error;
	segment->failed_rank = rank;
	snprintf(segment->text, sizeof(segment->text), "%s", text);
	atomic_store(&segment->failure, NODE_FAILED);
	/* ranks without a message under way must learn of it, too */
	for (unsigned int r = 0; r < e->ranks; r++)
		inc_signal_fd(e->wake[r]);
	return true;
}

void inccl_node_fail(struct inccl_endpoint *ep, int error, int rank, const char *text)
{
	struct inccl_node_end *e = end_of_device(ep->dev);
	char line[sizeof(e->segment->text)];

	snprintf(line, sizeof(line), "rank %u: %.*s", e->member[e->rank], (int)sizeof(line) - 20,
		 text);
	fail(e, error, rank, line);
}

void inccl_node_pass_on(struct inccl_endpoint *ep, int error, int rank, const char *text)
{
	struct inccl_node_end *e = end_of_device(ep->dev);

	if (e->network)
		fail(e, error, rank, text);
}

/* Whether the segment has failed. If so, the endpoint gets the reason. */
static bool has_failed(struct inccl_node_end *e)
{
	const struct inccl_node_segment *segment = e->segment;

	if (atomic_load_explicit(&segment->failure, memory_order_acquire) != NODE_FAILED)
		return false;
	e->ep->failed = segment->error > 0 ? segment->error : EIO;
	e->ep->failed_rank = segment->failed_rank;
	snprintf(e->ep->error, sizeof(e->ep->error), "%.*s", (int)sizeof(segment->text),
		 segment->text);
	return true;
}

/* Describes what a rank has called. */
static void describe_call(const struct inccl_node_end *e, const struct inccl_node_part *part,
			  char *text, size_t size)
{
	const uint32_t bytes = inc_max(part->send_bytes, part->recv_bytes);
	uint32_t desc = part->desc;

	inc_desc_from_wire(part->desc, e->native_floats, &desc);
	snprintf(text, size, "%s of %s by %s, root %u, %u bytes",
		 inccl_collective_name(INC_DESC_COLL(desc)) ?: "?",
		 inccl_dtype_name(INC_DESC_DTYPE(desc)) ?: "?",
		 inccl_op_name(INC_DESC_OP(desc)) ?: "?", INC_DESC_ROOT(desc), bytes);
}

/* Returns in what the calls of two ranks differ, or NULL if they agree. */
static const char *difference(const struct inccl_node_part *a, const struct inccl_node_part *b)
{
	const uint32_t desc = a->desc ^ b->desc;

	if (INC_DESC_COLL(desc))
		return "collective";
	if (INC_DESC_OP(desc))
		return "operator";
	if (INC_DESC_DTYPE(desc))
		return "type";
	if (INC_DESC_ROOT(desc))
		return "root";
	/* the messages belong to different collectives, because one rank's call had more of them */
	if (desc)
		return "size, of this call or an earlier one";
	if (inc_max(a->send_bytes, a->recv_bytes) != inc_max(b->send_bytes, b->recv_bytes))
		return "size";
	return NULL;
}

/* Compares what all ranks have called as message m, which all have contributed to. Returns false if
 * they differ, which fails the segment. */
static bool agree(struct inccl_node_end *e, uint64_t m)
{
	const struct inccl_node_part *part = inccl_node_slot_of(e, m)->part;
	char text[sizeof(e->segment->text)], first[80], other[80];

	for (unsigned int r = 1; r < e->ranks; r++) {
		const char *what = difference(&part[0], &part[r]);

		if (!what)
			continue;
		describe_call(e, &part[0], first, sizeof(first));
		describe_call(e, &part[r], other, sizeof(other));
		snprintf(text, sizeof(text), "rank %u called %s, rank %u called %s; different: %s",
			 e->member[0], first, e->member[r], other, what);
		fail(e, EREMOTEIO, -1, text);
		return false;
	}
	return true;
}

/* ---- messages ---- */

static unsigned int pieces_of(const struct inc_channel_exchange *x)
{
	const uint32_t pieces = (x->send_len + INCCL_NODE_PIECE_BYTES - 1) / INCCL_NODE_PIECE_BYTES;

	return inc_all_give(x->imm) && pieces ? pieces : 0;
}

void inccl_node_publish(struct inccl_node_end *e, uint64_t m)
{
	atomic_store_explicit(&inccl_node_slot_of(e, m)->result, m + 1, memory_order_release);
	wake_all_of(e, &e->segment->want_result);
}

/* Handles that this machine's ranks have combined their contributions to message m. That is the
 * result, unless the leader contributes it to the network. */
static void finish(struct inccl_node_end *e, uint64_t m)
{
	if (!e->spans) {
		inccl_node_publish(e, m);
		return;
	}
	atomic_store_explicit(&inccl_node_slot_of(e, m)->combined, m + 1, memory_order_release);
	wake_all_of(e, &e->segment->want_combined);
}

/* Reduces one piece of message m into the part of rank 0. Returns false if the segment has failed.
 */
static bool reduce_piece(struct inccl_node_end *e, uint64_t m, unsigned int piece)
{
	const struct inc_channel_exchange *x = inccl_node_message_of(e, m);
	const uint32_t from = piece * INCCL_NODE_PIECE_BYTES;
	const uint32_t bytes = inc_min(x->send_len - from, INCCL_NODE_PIECE_BYTES);
	struct inc_reduction reduction = {.swapped = e->swapped};
	const void *source[INC_MAX_NODE_RANKS];
	uint32_t desc = x->imm;

	inc_desc_from_wire(x->imm, e->native_floats, &desc);
	reduction.op = INC_DESC_OP(desc);
	reduction.type = INC_DESC_DTYPE(desc);
	if (!e->native_floats)
		reduction.type = inc_reduced_as(reduction.type);
	for (unsigned int r = 0; r < e->ranks; r++)
		source[r] = inccl_node_place_of(e, m, r, x->send_len) + from;
	if (!inc_reduce_many(&reduction, inccl_node_place_of(e, m, 0, x->send_len) + from, source,
			     e->ranks, bytes / inc_element_bytes(desc)))
		return true;
	fail(e, EOPNOTSUPP, -1, "the operator does not exist for the type");
	return false;
}

/* Reduces pieces of message m until none is left to claim. */
static void help(struct inccl_node_end *e, uint64_t m)
{
	struct inccl_node_slot *slot = inccl_node_slot_of(e, m);
	const unsigned int pieces = pieces_of(inccl_node_message_of(e, m));
	uint64_t claim = atomic_load_explicit(&slot->claim, memory_order_acquire);

	while (claim >> 8 == m && (claim & 0xff) < pieces) {
		if (!atomic_compare_exchange_weak(&slot->claim, &claim, claim + 1))
			continue;
		if (!reduce_piece(e, m, claim & 0xff))
			return;
		if (atomic_fetch_add(&slot->reduced, 1) + 1 == pieces)
			finish(e, m);
		claim = atomic_load_explicit(&slot->claim, memory_order_acquire);
	}
}

/* Handles that all ranks have contributed to message m. Called by the rank that was the last. */
static void all_arrived(struct inccl_node_end *e, uint64_t m)
{
	struct inccl_node_slot *slot = inccl_node_slot_of(e, m);

	if (!agree(e, m))
		return;
	if (!pieces_of(inccl_node_message_of(e, m))) {
		finish(e, m);
		return;
	}
	atomic_store_explicit(&slot->reduced, 0, memory_order_relaxed);
	atomic_store_explicit(&slot->claim, m << 8, memory_order_release);
	help(e, m);
}

static uint32_t packets_of(const struct inccl_node_end *e, const struct inc_channel_exchange *x)
{
	return (inccl_node_bytes_of(x) + e->payload - 1) / e->payload ?: 1;
}

static int exchange(struct inc_channel *ch, const struct inc_channel_exchange *x)
{
	struct inccl_node_end *e = end_of(ch);
	const uint64_t m = e->posted;
	struct inccl_node_slot *slot = inccl_node_slot_of(e, m);
	struct inccl_node_part *part = &slot->part[e->rank];

	e->blocked = m - e->completed == e->shape.slots ||
		     atomic_load_explicit(&slot->turn, memory_order_acquire) != m;
	if (e->blocked)
		return -EAGAIN;
	e->message[m % e->shape.slots] = *x;
	e->under_way += packets_of(e, x);
	e->posted++;
	part->message = m + 1;
	part->desc = x->imm;
	part->send_bytes = x->send_len;
	part->recv_bytes = x->recv_len;
	if (x->send_len)
		memcpy(inccl_node_place_of(e, m, e->rank, inccl_node_bytes_of(x)), x->send,
		       x->send_len);
	/* the other ranks can finish without this one from now on, unless it leads them */
	if (!e->network)
		e->ep->acknowledged++;
	if (atomic_fetch_add(&slot->arrived, 1) + 1 == e->ranks)
		all_arrived(e, m);
	if (e->network)
		inccl_node_network_post(e);
	return 0;
}

/* Counts that this rank does not need result m any more. The last one frees the slot. */
static void release(struct inccl_node_end *e, uint64_t m)
{
	struct inccl_node_slot *slot = inccl_node_slot_of(e, m);

	if (atomic_fetch_add(&slot->collected, 1) + 1 < e->ranks)
		return;
	atomic_store_explicit(&slot->collected, 0, memory_order_relaxed);
	atomic_store_explicit(&slot->arrived, 0, memory_order_relaxed);
	atomic_store_explicit(&slot->turn, m + e->shape.slots, memory_order_release);
	wake_all_of(e, &e->segment->want_slot);
}

static bool has_result(const struct inccl_node_end *e)
{
	const uint64_t m = e->completed;

	return m < e->posted && atomic_load_explicit(&inccl_node_slot_of(e, m)->result,
						     memory_order_acquire) == m + 1;
}

static void collect(struct inccl_node_end *e)
{
	const uint64_t m = e->completed++;
	const struct inc_channel_exchange *x = inccl_node_message_of(e, m);
	const int root = inc_root_gives(x->imm) ? inccl_node_root_of(e, x->imm) : 0;

	e->under_way -= packets_of(e, x);
	if (x->recv_len)
		memcpy(x->recv, inccl_node_place_of(e, m, root > 0 ? root : 0, x->recv_len),
		       x->recv_len);
	release(e, m);
	e->ep->completed++;
	if (e->network)
		e->ep->acknowledged++;
}

static bool progress(struct inc_channel_device *dev)
{
	struct inccl_node_end *e = end_of_device(dev);
	const uint64_t before = e->completed;
	bool more = false;

	if (e->armed) {
		atomic_fetch_and(&e->segment->want_result, ~(1ull << e->rank));
		atomic_fetch_and(&e->segment->want_slot, ~(1ull << e->rank));
		atomic_fetch_and(&e->segment->want_combined, ~(1ull << e->rank));
		inc_drain_fd(e->wake[e->rank]);
		e->armed = false;
	}
	if (has_failed(e))
		return false;
	for (uint64_t m = e->completed; m < e->posted; m++)
		help(e, m);
	if (e->network)
		more = inccl_node_network_progress(e);
	while (has_result(e))
		collect(e);
	return more || e->completed != before;
}

/* Whether a call of progress() or exchange() would achieve something now. */
static bool has_news(const struct inccl_node_end *e)
{
	const uint64_t m = e->posted;

	if (e->blocked && m - e->completed < e->shape.slots &&
	    atomic_load_explicit(&inccl_node_slot_of(e, m)->turn, memory_order_acquire) == m)
		return true;
	return has_result(e) || atomic_load(&e->segment->failure) == NODE_FAILED;
}

static bool arm(struct inc_channel_device *dev)
{
	struct inccl_node_end *e = end_of_device(dev);

	e->armed = true;
	if (e->completed < e->posted)
		atomic_fetch_or(&e->segment->want_result, 1ull << e->rank);
	if (e->blocked)
		atomic_fetch_or(&e->segment->want_slot, 1ull << e->rank);
	atomic_thread_fence(memory_order_seq_cst);
	return has_news(e) || (e->network && inccl_node_network_arm(e));
}

/* ---- the rest of the table ---- */

static void flush(struct inc_channel_device *dev)
{
	struct inccl_node_end *e = end_of_device(dev);

	if (e->network)
		inccl_endpoint_flush(e->network);
}

static int fd(const struct inc_channel_device *dev, short *events)
{
	const struct inccl_node_end *e = end_of_device(dev);

	if (events)
		*events = POLLIN;
	return e->network ? e->epoll_fd : e->wake[e->rank];
}

static uint64_t deadline_ns(const struct inc_channel_device *dev)
{
	const struct inccl_endpoint *network = end_of_device(dev)->network;

	return network ? network->ops->deadline_ns(network->dev) : UINT64_MAX;
}

static uint64_t under_way(const struct inc_channel *ch)
{
	const struct inccl_node_end *e = end_of(ch);

	return e->under_way;
}

static uint64_t ack_at_ns(const struct inc_channel *ch)
{
	const struct inccl_endpoint *network = end_of(ch)->network;

	return network ? network->ops->ack_at_ns(network->ch) : UINT64_MAX;
}

static void attend(struct inc_channel *ch, bool attended)
{
	const struct inccl_endpoint *network = end_of(ch)->network;

	if (network)
		network->ops->attend(network->ch, attended);
}

static uint64_t moved(const struct inc_channel *ch)
{
	const struct inccl_node_end *e = end_of(ch);

	const struct inccl_endpoint *network = e->network;

	return e->posted + e->completed + (network ? network->ops->moved(network->ch) : 0);
}

static void describe(const struct inc_channel *ch, char *buf, size_t size)
{
	const struct inccl_node_end *e = end_of(ch);
	const struct inccl_node_slot *slot = inccl_node_slot_of(e, e->completed);
	size_t used = 0;

	for (unsigned int r = 0; r < e->ranks && used + 40 < size; r++)
		if (slot->part[r].message != e->completed + 1)
			used += snprintf(buf + used, size - used, "%srank %u", used ? ", " : "",
					 e->member[r]);
	if (used)
		snprintf(buf + used, size - used, " did not call");
	else if (!e->spans || slot->combined != e->completed + 1)
		snprintf(buf, size, "the ranks do not go on");
	else if (e->network)
		e->network->ops->describe(e->network->ch, buf, size);
	else
		snprintf(buf, size,
			 "all ranks of this machine have called, and the network has no result "
			 "yet");
}

static int map(struct inc_channel_device *dev, void *addr, size_t len,
	       enum inc_channel_access access, struct inc_channel_region *region,
	       struct inc_err *err)
{
	return 0;
}

static void unmap(struct inc_channel_device *dev, struct inc_channel_region *region)
{
}

static void figures(const struct inc_channel *ch, struct inc_channel_figures *out)
{
	const struct inccl_node_end *e = end_of(ch);

	if (e->network)
		e->network->ops->figures(e->network->ch, out);
	else
		*out = (struct inc_channel_figures){.tx_packets = e->posted,
						    .rx_packets = e->completed};
}

static void device_figures(const struct inc_channel_device *dev,
			   struct inc_channel_device_figures *out)
{
	const struct inccl_endpoint *network = end_of_device(dev)->network;

	*out = (struct inc_channel_device_figures){0};
	if (network)
		network->ops->device_figures(network->dev, out);
}

/* The messages under way stay in the segment, so the other ranks can still finish them. */
static void shut(struct inc_channel *ch, uint8_t syndrome)
{
}

static void free_end(struct inccl_node_end *e, bool abandon)
{
	inccl_node_network_close(e, abandon);
	for (unsigned int r = 0; r < e->ranks; r++)
		close(e->wake[r]);
	/* libibverbs has unmapped registered memory in forked children, where something else may be
	 * by now */
	if (!abandon || !e->region.priv)
		munmap(e->segment, inccl_node_segment_bytes(&e->shape));
	free(e->message);
	free(e);
}

static void close_end(struct inc_channel_device *dev)
{
	free_end(end_of_device(dev), false);
}

static void abandon_end(struct inc_channel_device *dev)
{
	free_end(end_of_device(dev), true);
}

static const struct inc_channel_ops ops = {
	.name = "node",
	.close = close_end,
	.abandon = abandon_end,
	.map = map,
	.unmap = unmap,
	.shut = shut,
	.exchange = exchange,
	.flush = flush,
	.progress = progress,
	.arm = arm,
	.fd = fd,
	.deadline_ns = deadline_ns,
	.under_way = under_way,
	.ack_at_ns = ack_at_ns,
	.attend = attend,
	.moved = moved,
	.describe = describe,
	.figures = figures,
	.device_figures = device_figures,
};

static struct inccl_node_end *end_new(struct inccl_node_segment *segment,
				      const struct inccl_node_end_opts *opts)
{
	const struct inccl_node_shape *shape = &opts->shape;
	struct inccl_node_end *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	*e = (struct inccl_node_end){.dev.ops = &ops,
				     .segment = segment,
				     .shape = *shape,
				     .rank = opts->rank,
				     .ranks = shape->ranks,
				     .swapped = opts->swapped,
				     .native_floats = opts->native_floats,
				     .spans = opts->spans,
				     .payload = opts->payload,
				     .message = calloc(shape->slots, sizeof(*e->message))};
	e->ch.dev = &e->dev;
	memcpy(e->member, opts->member, shape->ranks * sizeof(e->member[0]));
	memcpy(e->wake, opts->wake, shape->ranks * sizeof(e->wake[0]));
	if (e->message)
		return e;
	free(e);
	return NULL;
}

int inccl_node_end_open(struct inccl_node_segment *segment, const struct inccl_node_end_opts *opts,
			struct inccl_endpoint **out, struct inc_err *err)
{
	static const struct inccl_transport transport = {INCCL_TRANSPORT_AUTO, &ops};
	struct inccl_endpoint *network = opts->network, *ep = calloc(1, sizeof(*ep));
	struct inccl_node_end *e = end_new(segment, opts);
	int ret = ep && e ? 0 : inc_err_set(err, ENOMEM, "%s", strerror(ENOMEM));

	if (!ret && network)
		ret = inccl_node_network_open(e, network, err);
	if (ret) {
		if (e)
			free(e->message);
		free(e);
		free(ep);
		return ret;
	}
	*ep = (struct inccl_endpoint){.transport = network ? network->transport : &transport,
				      .ops = &ops,
				      .dev = &e->dev,
				      .ch = &e->ch,
				      .failed_rank = -1,
				      .on_node = true};
	e->ep = ep;
	*out = ep;
	return 0;
}
