/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How the ranks of a machine create a communicator, in four steps: every rank asks, the first rank
 * hands out the segment, every rank is ready, and the first rank lets all start. If the group spans
 * machines, the first rank also asks the controller before it hands out the segment, and starts the
 * communicator there before it lets the others start. An error of any rank takes the place of its
 * next step, and all ranks get it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include "hostlib/node/meet.h"
#include "hostlib/node/shared_memory.h"
#include "lib/base/fd.h"
#include "lib/base/numbers.h"
#include "lib/base/printable.h"
#include "lib/base/thread.h"
#include "lib/net/wait.h"

/* Time for which a rank polls before it sleeps, if the node has more ranks than CPUs. */
#define CROWD_POLL_NS (10 * INC_NSEC_PER_USEC)

/* Limit of the memory of a segment, as far as it depends on the window of messages under way, and
 * the messages that a segment has room for in any case. */
#define SEGMENT_BYTES (32 << 20)
#define SLOTS_LEAST   4

/* The things that a rank has while it creates a communicator. */
struct creation {
	struct inccl_group *group;
	struct inccl_node *node;
	struct inccl_communicator *comm;
	struct inccl_limit *limit;
	struct inc_err *err;
	struct inccl_node_shape shape;
	int memory;
	int wake[INC_MAX_NODE_RANKS];
	bool first_is_here; /* the first rank creates this communicator, too */
	/* when the creation began, and when a wait is reported next; on the clock of the limit */
	uint64_t began_at_ns, report_at_ns;
};

/* Waits until all earlier communicators of the group are created or have failed. Returns false if
 * this one, too, is created or has failed. */
static bool begin(struct inccl_node *node, long long index)
{
	bool is_next;

	pthread_mutex_lock(&node->lock);
	while (node->next < index)
		inccl_cond_wait_until(&node->changed, &node->lock, UINT64_MAX);
	is_next = node->next == index;
	pthread_mutex_unlock(&node->lock);
	return is_next;
}

static void end(struct inccl_node *node, long long index)
{
	pthread_mutex_lock(&node->lock);
	node->next = index + 1;
	pthread_cond_broadcast(&node->changed);
	pthread_mutex_unlock(&node->lock);
}

/* Sends the other ranks, or rank 0, the error that ends a creation. */
static void send_error(struct inccl_group *group, enum inccl_node_step step, long long index,
		       int error, const char *text)
{
	struct inccl_node *node = group->node;
	struct inccl_node_note note = inccl_node_note_of(group, node, step, index);

	note.error = error;
	snprintf(note.text, sizeof(note.text), "rank %d: %s", group->rank, text);
	for (unsigned int r = 0; r < node->ranks; r++)
		if (node->sock[r] >= 0)
			inccl_node_send(node->sock[r], &note, NULL, 0);
}

void inccl_node_refuse(struct inccl_group *group, const struct inccl_communicator *comm,
		       long long index, int error, const char *text)
{
	struct inccl_node *node = group->node;

	if (comm && comm->ep && comm->ep->on_node)
		inccl_node_fail(comm->ep, error, group->rank, text);
	if (!begin(node, index))
		return;
	send_error(group, STEP_ASK, index, error, text);
	end(node, index);
}

/* Checks that a rank asks for the same communicator as the first one. */
static int check_asked(const struct creation *c, unsigned int rank,
		       const struct inccl_node_note *note)
{
	const struct inccl_communicator *comm = c->comm;

	if (note->byte_order != (uint32_t)comm->byte_order)
		return inc_err_set(c->err, EINVAL, "rank %u wants another byte order than rank %u",
				   rank, c->node->member[0]);
	if (c->node->spans && note->message_packets != comm->settings.message_packets)
		return inc_err_set(c->err, EINVAL,
				   "message_packets must be the same everywhere: rank %u says %u, "
				   "rank %u says %u",
				   c->node->member[0], comm->settings.message_packets, rank,
				   note->message_packets);
	return 0;
}

/* Takes the terms that the first rank has sent. */
static void take_terms(struct creation *c, const struct inccl_node_terms *terms)
{
	struct inccl_communicator *comm = c->comm;

	c->shape = (struct inccl_node_shape){c->node->ranks, terms->segment_slots,
					     terms->message_bytes};
	comm->number = terms->number;
	comm->payload = terms->payload;
	comm->slots = terms->slots;
	comm->message_packets = terms->message_packets;
	comm->window_messages = terms->window_messages;
	comm->messages = terms->messages;
	comm->mode = terms->mode;
	comm->native_floats = terms->native_floats;
	snprintf(comm->peer, sizeof(comm->peer), "%.79s", terms->peer);
	snprintf(comm->tree, sizeof(comm->tree), "%.159s", terms->tree);
}

static struct inccl_node_terms terms_of(const struct creation *c)
{
	const struct inccl_communicator *comm = c->comm;
	struct inccl_node_terms terms = {
		.number = comm->number,
		.payload = comm->payload,
		.slots = comm->slots,
		.message_packets = comm->message_packets,
		.window_messages = comm->window_messages,
		.messages = comm->messages,
		.mode = comm->mode,
		.native_floats = comm->native_floats,
		.segment_slots = c->shape.slots,
		.message_bytes = c->shape.message_bytes,
	};

	memcpy(terms.peer, comm->peer, sizeof(terms.peer));
	memcpy(terms.tree, comm->tree, sizeof(terms.tree));
	return terms;
}

/* Lists the ranks from `from` on whose next note has not arrived. Marks them in absent. */
static void list_absent(const struct creation *c, unsigned int from, bool absent[], char *buf,
			size_t size)
{
	struct inc_list list = inc_list_begin(buf, size);

	for (unsigned int r = from; r < c->node->ranks; r++) {
		struct pollfd pfd = {.fd = c->node->sock[r], .events = POLLIN};

		absent[r] = inc_wait_poll(&pfd, 1, 0) <= 0;
		if (absent[r])
			inc_list_add(&list, "rank %u", c->node->member[r]);
	}
}

/* Called on the first rank. Sends the text, which names the absent ranks, to all others. */
static void send_wait(struct creation *c, const bool absent[], const char *text)
{
	struct inccl_node_note note =
		inccl_node_note_of(c->group, c->node, STEP_WAIT, c->comm->index);

	snprintf(note.text, sizeof(note.text), "%s", text);
	for (unsigned int r = 1; r < c->node->ranks; r++)
		/* a rank whose socket is full has enough notes to read */
		if (!absent[r])
			inccl_node_send(c->node->sock[r], &note, NULL, 0);
}

static void log_wait(struct inccl_group *group, const char *text)
{
	inccl_log_line(group->log, "waiting: %s", text);
	inccl_log_deliver(group->log);
}

/* Reports which ranks are absent, if that is due. from: the rank whose note this rank awaits. A
 * rank that is not the first one knows only whether the first one is there. */
static void report_wait(struct creation *c, unsigned int from)
{
	const uint64_t now_ns = inc_awake_now_ns(&c->limit->awake);
	bool absent[INC_MAX_NODE_RANKS] = {};
	char ranks[200], text[320];

	if (now_ns < c->report_at_ns)
		return;
	c->report_at_ns += INC_WAIT_NEXT_MS * INC_NSEC_PER_MSEC;
	if (c->node->rank && c->first_is_here)
		return;
	list_absent(c, from, absent, ranks, sizeof(ranks));
	snprintf(text, sizeof(text), "communicator %lld of job %s has waited %llu s for %s",
		 c->comm->index, c->group->job,
		 (unsigned long long)((now_ns - c->began_at_ns) / INC_NSEC_PER_SEC), ranks);
	log_wait(c->group, text);
	if (!c->node->rank)
		send_wait(c, absent, text);
}

/* Waits for the next note of a rank, like inccl_node_wait(), and reports a long wait. */
static int wait_for_note(struct creation *c, struct pollfd *pfd, unsigned int from)
{
	int ret = 0;

	while (!ret && inc_wait_poll(pfd, 1, INCCL_NODE_LOOK_MS) <= 0) {
		report_wait(c, from);
		ret = inccl_node_check(c->group, c->limit, c->err);
	}
	return ret;
}

/* Takes a note by which the first rank reports that it waits, or that it has come. */
static void take_wait(struct creation *c, const struct inccl_node_note *note)
{
	if (note->index != c->comm->index)
		return;
	c->first_is_here = true;
	if (*note->text)
		log_wait(c->group, note->text);
}

/* Receives the note of a step, with n descriptors, from a rank. Drops notes of earlier creations,
 * which have failed. */
static int receive_step(struct creation *c, unsigned int from, enum inccl_node_step step, int *fds,
			unsigned int n)
{
	struct pollfd pfd = {.fd = c->node->sock[from], .events = POLLIN};
	unsigned int have;
	const unsigned int member = c->node->member[from];
	struct inccl_node_note note;
	int ret;

	for (;;) {
		ret = wait_for_note(c, &pfd, from);
		if (ret == -ETIMEDOUT)
			return inc_err_set(c->err, ETIMEDOUT,
					   "rank %u did not create communicator %lld in time",
					   member, c->comm->index);
		if (ret)
			return ret;
		ret = inccl_node_receive(pfd.fd, &note, fds, n, &have);
		if (ret == -ECONNRESET)
			return inccl_node_peer_gone(c->group, from, c->err);
		if (ret)
			return inc_err_set(c->err, -ret, "rank %u of this machine: %s", member,
					   strerror(-ret));
		if (note.index >= c->comm->index && note.step != STEP_WAIT)
			break;
		inccl_node_close_fds(fds, have);
		if (note.step == STEP_WAIT)
			take_wait(c, &note);
	}
	if (note.index == c->comm->index && note.step == step && !note.error && have == n) {
		if (step == STEP_MADE)
			take_terms(c, &note.terms);
		return step == STEP_ASK ? check_asked(c, member, &note) : 0;
	}
	inccl_node_close_fds(fds, have);
	if (note.error > 0)
		return inc_err_set(c->err, note.error, "%s", note.text);
	return inc_err_set(c->err, EPROTO, "rank %u of this machine is out of step", member);
}

static int new_wake_fd(struct creation *c)
{
	int *fd = &c->wake[c->node->rank];

	*fd = inc_fd_high(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	return *fd < 0 ? inc_err_set(c->err, errno, "eventfd: %s", strerror(errno)) : 0;
}

/* Whether a limit of the process forbids files of so many bytes, which a signal would report. */
static bool is_too_large(size_t bytes)
{
	struct rlimit most;

	return !getrlimit(RLIMIT_FSIZE, &most) && most.rlim_cur < bytes;
}

/* Chooses the size of the segment by the communicator's messages and window. */
static void choose_shape(struct creation *c)
{
	const struct inccl_communicator *comm = c->comm;
	const unsigned int window =
		inc_min(comm->messages, comm->window_messages * comm->message_packets);
	size_t each;

	c->shape = (struct inccl_node_shape){
		.ranks = c->node->ranks,
		.slots = 1,
		.message_bytes = comm->payload * comm->message_packets,
	};
	each = sizeof(struct inccl_node_slot) + inccl_node_stride(&c->shape) * c->node->ranks;
	c->shape.slots = inc_min(window, inc_max(SEGMENT_BYTES / each, (size_t)SLOTS_LEAST));
}

/* The first rank: makes the segment. Its size is sealed, so no rank can make another one's access
 * fail. All of its memory is taken here, because a lack of it would be a signal later. */
static int new_memory(struct creation *c)
{
	const size_t bytes = inccl_node_segment_bytes(&c->shape);

	if (is_too_large(bytes))
		return inc_err_set(c->err, EFBIG, "shared memory of %zu bytes is beyond ulimit -f",
				   bytes);
	c->memory = inc_fd_high(memfd_create("inccl-node", MFD_CLOEXEC | MFD_ALLOW_SEALING));
	if (c->memory < 0 || fallocate(c->memory, 0, 0, bytes) ||
	    fcntl(c->memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return inc_err_set(c->err, errno, "shared memory of %zu bytes: %s", bytes,
				   strerror(errno));
	return 0;
}

/* Maps the segment and makes the communicator's endpoint of it. */
static int open_end(struct creation *c)
{
	const size_t bytes = inccl_node_segment_bytes(&c->shape);
	const struct inccl_node_end_opts opts = {
		.shape = c->shape,
		.rank = c->node->rank,
		.member = c->node->member,
		.wake = c->wake,
		.swapped = inc_order_is_foreign(inccl_wire_order(c->comm)),
		.native_floats = c->comm->native_floats,
		.payload = c->comm->payload,
		.spans = c->node->spans,
		.network = c->comm->ep,
	};
	struct inccl_endpoint *ep;
	struct inccl_node_segment *segment;
	struct stat st;
	int ret;

	if (fstat(c->memory, &st) || st.st_size != (off_t)bytes ||
	    !(fcntl(c->memory, F_GET_SEALS) & F_SEAL_SHRINK))
		return inc_err_set(c->err, EPROTO, "rank %u's shared memory has another size",
				   c->node->member[0]);
	segment = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, c->memory, 0);
	if (segment == MAP_FAILED)
		return inc_err_set(c->err, errno, "shared memory of %zu bytes: %s", bytes,
				   strerror(errno));
	if (!c->node->rank)
		inccl_node_segment_init(segment, &c->shape);
	ret = inccl_node_end_open(segment, &opts, &ep, c->err);
	if (!ret) {
		/* the endpoint owns the descriptors now, and the connection to the switch */
		memset(c->wake, -1, sizeof(c->wake));
		pthread_mutex_lock(&c->comm->lock);
		c->comm->ep = ep;
		pthread_mutex_unlock(&c->comm->lock);
		return 0;
	}
	munmap(segment, bytes);
	return ret;
}

/* Rank 0: receives a note from every other rank. */
static int receive_all(struct creation *c, enum inccl_node_step step)
{
	int ret = 0;

	for (unsigned int r = 1; r < c->node->ranks && !ret; r++)
		ret = receive_step(c, r, step, &c->wake[r], step == STEP_ASK);
	return ret;
}

static int send_all(struct creation *c, enum inccl_node_step step)
{
	struct inccl_node_note note = inccl_node_note_of(c->group, c->node, step, c->comm->index);
	int fds[INC_MAX_NODE_RANKS + 1] = {c->memory};
	const unsigned int n = step == STEP_MADE ? c->node->ranks + 1 : 0;
	int ret = 0;

	if (step == STEP_MADE)
		note.terms = terms_of(c);
	memcpy(fds + 1, c->wake, sizeof(c->wake));
	for (unsigned int r = 1; r < c->node->ranks && !ret; r++)
		ret = inccl_node_send_to(c->group, r, c->node->sock[r], &note, fds, n, c->limit,
					 c->err);
	return ret;
}

/* Fills in what the controller's answer gives communicators that need switches. */
static void set_terms(struct inccl_communicator *comm, unsigned int ranks)
{
	comm->mode = INC_TREE_TERMINATION; /* whole messages, floats as they are */
	comm->native_floats = true;
	comm->payload = INCCL_NODE_MESSAGE_BYTES;
	comm->message_packets = 1;
	comm->window_messages = comm->messages = comm->slots = INCCL_NODE_SLOTS;
	comm->number = comm->index;
	snprintf(comm->peer, sizeof(comm->peer), "%u ranks of this machine", ranks);
	snprintf(comm->tree, sizeof(comm->tree), "none: %u ranks share memory", ranks);
}

static int create_as_first(struct creation *c)
{
	const bool spans = c->node->spans, none_absent[INC_MAX_NODE_RANKS] = {};
	int ret = new_wake_fd(c);

	send_wait(c, none_absent, "");
	ret = ret ?: receive_all(c, STEP_ASK);
	if (spans)
		ret = ret ?: inccl_comm_join_network(c->comm, c->limit, c->err);
	else
		set_terms(c->comm, c->node->ranks);
	if (ret)
		return ret;
	choose_shape(c);
	ret = new_memory(c);
	ret = ret ?: send_all(c, STEP_MADE);
	ret = ret ?: open_end(c);
	ret = ret ?: receive_all(c, STEP_READY);
	if (spans && !ret) {
		pthread_mutex_lock(&c->group->lock);
		ret = inccl_comm_start(c->comm, c->limit, c->err);
		pthread_mutex_unlock(&c->group->lock);
		inccl_log_deliver(c->group->log);
	}
	return ret ?: send_all(c, STEP_START);
}

static int send_step(struct creation *c, enum inccl_node_step step, const int *fds, unsigned int n)
{
	struct inccl_node_note note = inccl_node_note_of(c->group, c->node, step, c->comm->index);

	note.byte_order = c->comm->byte_order;
	note.message_packets = c->comm->settings.message_packets;
	return inccl_node_send_to(c->group, 0, c->node->sock[0], &note, fds, n, c->limit, c->err);
}

static int create_as_other(struct creation *c)
{
	int fds[INC_MAX_NODE_RANKS + 1];
	int ret = new_wake_fd(c);

	ret = ret ?: send_step(c, STEP_ASK, &c->wake[c->node->rank], 1);
	inccl_node_close_fds(&c->wake[c->node->rank], 1);
	ret = ret ?: receive_step(c, 0, STEP_MADE, fds, c->node->ranks + 1);
	if (ret)
		return ret;
	c->memory = fds[0];
	memcpy(c->wake, fds + 1, c->node->ranks * sizeof(int));
	ret = open_end(c);
	ret = ret ?: send_step(c, STEP_READY, NULL, 0);
	return ret ?: receive_step(c, 0, STEP_START, NULL, 0);
}

/* Chooses how a rank waits for the others of its machine. */
static void prepare_waits(struct inccl_communicator *comm, unsigned int ranks)
{
	comm->granted = 1;
	comm->spin.for_neighbours = true;
	/* where ranks outnumber CPUs, a rank that sleeps is quicker than one that yields often */
	if (ranks > inc_cpus() && comm->spin.poll_ns > CROWD_POLL_NS)
		comm->spin.poll_ns = CROWD_POLL_NS;
	if (!*comm->device)
		snprintf(comm->device, sizeof(comm->device), "shared memory");
}

int inccl_node_create(struct inccl_communicator *comm, struct inccl_limit *limit,
		      struct inc_err *err)
{
	struct inccl_group *group = comm->group;
	struct creation c = {.group = group,
			     .node = group->node,
			     .comm = comm,
			     .limit = limit,
			     .err = err,
			     .memory = -1};
	int ret;

	memset(c.wake, -1, sizeof(c.wake));
	err->msg[0] = 0;
	begin(group->node, comm->index);
	c.began_at_ns = inc_awake_now_ns(&limit->awake);
	c.report_at_ns = c.began_at_ns + INC_WAIT_FIRST_MS * INC_NSEC_PER_MSEC;
	ret = c.node->rank ? create_as_other(&c) : create_as_first(&c);
	if (ret)
		send_error(group, STEP_ASK, comm->index, -ret, err->msg);
	else
		prepare_waits(comm, c.node->ranks);
	end(group->node, comm->index);
	inccl_node_close_fds(c.wake, INC_MAX_NODE_RANKS);
	if (c.memory >= 0)
		close(c.memory);
	if (!ret && !inccl_node_asks(group))
		inccl_log_line(group->log, "communicator %lld: %s, floats %s", comm->number,
			       comm->tree, inccl_comm_floats(comm));
	return ret;
}
