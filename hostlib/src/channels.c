/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Communicators as their callers see them: one or several channels. The caller's communicator is
 * channel 0. A further channel is a struct inccl_communicator, too, which only this file and
 * collective.c know as such. It has a connection, a window and a number of its own, and its thread
 * always serves it. A large collective is cut into parts that are ordinary collectives, one on each
 * channel, with pointers into the caller's buffers. A failure of one channel is that of all.
 *
 * Called by threads of the caller, and inccl_channels_spread() by any thread.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "lib/base/numbers.h"
#include "lib/base/thread.h"
#include "lib/reduce/floats.h"
#include "hostlib/node/node.h"
#include "hostlib/src/coll/coll.h"
#include "hostlib/src/internal.h"

/* Each part of a cut collective begins at a multiple of so many elements, so that no two threads
 * write to one cache line. */
#define CUT_ELEMENTS 64

uint64_t inccl_channel_part_bytes = 256 << 10;

/* --- failures --- */

static void fail_other(struct inccl_communicator *comm, int error, int rank, const char *text)
{
	pthread_mutex_lock(&comm->lock);
	if (!comm->error) {
		inccl_comm_fail_locked(comm, error, rank, text);
		/* no report to the controller is due, because the failed channel is reported, and
		 * the other ranks act alike */
		inccl_comm_report(comm, REPORT_KNOWN);
	}
	pthread_mutex_unlock(&comm->lock);
	inc_signal_fd(comm->wake_fd);
}

void inccl_channels_spread(struct inccl_communicator *comm)
{
	struct inccl_communicator *lead = comm->lead ?: comm, *channel[INC_MAX_CHANNELS];
	char text[sizeof(comm->error_text)];
	unsigned int n;
	int error, rank;

	pthread_mutex_lock(&lead->lock);
	n = lead->channels;
	memcpy(channel, lead->channel, sizeof(channel));
	pthread_mutex_unlock(&lead->lock);
	pthread_mutex_lock(&comm->lock);
	error = comm->error;
	rank = comm->failed_rank;
	memcpy(text, comm->error_text, sizeof(text));
	pthread_mutex_unlock(&comm->lock);
	for (unsigned int i = 0; error && i < n; i++)
		if (channel[i] != comm)
			fail_other(channel[i], error, rank, text);
}

/* --- creation and end --- */

/* Sets the number of the communicator's channels. last is the channel that was added, or NULL. */
static void set_channels(struct inccl_communicator *lead, unsigned int n,
			 struct inccl_communicator *last)
{
	pthread_mutex_lock(&lead->group->lock);
	pthread_mutex_lock(&lead->lock);
	if (last)
		lead->channel[n - 1] = last;
	lead->channels = n;
	pthread_mutex_unlock(&lead->lock);
	pthread_mutex_unlock(&lead->group->lock);
}

/* Creates channel n of a communicator. After an error *agreed tells whether no rank has this
 * channel for certain. */
static int add_channel(struct inccl_communicator *lead, unsigned int n,
		       const struct inccl_communicator_opts *opts, struct inccl_limit *limit,
		       bool *agreed, struct inc_err *err)
{
	struct inccl_communicator *comm;
	int ret = inccl_channel_create(lead->group, inc_channel_index(lead->index, n), opts, lead,
				       limit, &comm, agreed, err);

	if (ret)
		return ret;
	*agreed = true;
	if (comm->mode != lead->mode || comm->native_floats != lead->native_floats) {
		inccl_channel_halt(comm, 0);
		pthread_join(comm->thread, NULL);
		inccl_channel_end(comm);
		return inc_err_set(err, EAGAIN, "the switches of channel %u have another mode", n);
	}
	set_channels(lead, n + 1, comm);
	/* the new channel must fail, too, if channel 0 has failed before the new one was in its
	 * list */
	inccl_channels_spread(lead);
	return 0;
}

/* Returns the error with which channel 0 has failed, or 0. */
static int check_failed(struct inccl_communicator *lead, struct inc_err *err)
{
	int ret = 0;

	pthread_mutex_lock(&lead->lock);
	if (lead->error)
		ret = inc_err_set(err, lead->error, "%s", lead->error_text);
	pthread_mutex_unlock(&lead->lock);
	return ret;
}

/* Ends the creation of a communicator whose channel n has failed on this rank. The other ranks may
 * have that channel and wait for this rank's request for the next one, so its failure is reported.
 */
static void fail_creation(struct inccl_communicator *lead, unsigned int n, unsigned int wanted,
			  int error, const char *text)
{
	pthread_mutex_lock(&lead->lock);
	inccl_comm_fail_locked(lead, error, -1, text);
	pthread_mutex_unlock(&lead->lock);
	if (n + 1 == wanted)
		return;
	pthread_mutex_lock(&lead->group->lock);
	inccl_control_report_creation(lead->group, inc_channel_index(lead->index, n + 1), -1, error,
				      text);
	pthread_mutex_unlock(&lead->group->lock);
}

/* Creates the further channels of a communicator, one after the other. If one is refused, all ranks
 * get the same error, and the communicator has fewer channels on all of them. After any other error
 * the other ranks may have the channel. Then the communicator fails, because all ranks must cut
 * alike. */
static int add_channels(struct inccl_communicator *lead, const struct inccl_communicator_opts *opts,
			struct inccl_limit *limit, struct inc_err *err)
{
	const unsigned int wanted = inc_min(lead->granted, INC_MAX_CHANNELS);
	struct inc_err why, missing = {""};
	unsigned int n = 1;
	bool agreed = true;
	int ret = 0, failed;

	while (n < wanted && !ret) {
		ret = add_channel(lead, n, opts, limit, &agreed, &why);
		n += !ret;
	}
	if (!agreed)
		fail_creation(lead, n, wanted, -ret, why.msg);
	failed = check_failed(lead, err);
	if (failed)
		return failed;
	if (n < wanted) {
		inc_err_set(&missing, -ret, "%u channels instead of %u: %s", n, wanted, why.msg);
		inc_caller_explain(opts->error, opts->error_size, &missing);
	}
	if (wanted > 1)
		inccl_log_line(lead->group->log, "communicator %lld: %s", lead->number,
			       n < wanted ? missing.msg : "all channels are there");
	inccl_log_deliver(lead->group->log);
	return 0;
}

static int error_of(struct inccl_communicator *comm)
{
	int error;

	pthread_mutex_lock(&comm->lock);
	error = comm->error ?: comm->grace_error;
	pthread_mutex_unlock(&comm->lock);
	return -error;
}

/* Ends all channels of a communicator. Returns the error with which the communicator has ended. */
static int end_all(struct inccl_communicator *lead)
{
	const uint64_t deadline_ns = deadline_after_ms(SETTLE_MS);
	const unsigned int n = lead->channels;
	int ret = 0;

	/* errors are read before any channel ends, because the end of one channel may fail
	 * others */
	for (unsigned int i = 0; i < n; i++)
		ret = ret ?: error_of(lead->channel[i]);
	for (unsigned int i = 0; i < n; i++)
		inccl_channel_halt(lead->channel[i], deadline_ns);
	/* all threads end before any channel is freed, because a channel's thread may use the other
	 * channels */
	for (unsigned int i = 0; i < n; i++)
		pthread_join(lead->channel[i]->thread, NULL);
	set_channels(lead, 1, NULL);
	for (unsigned int i = n; i--;)
		inccl_channel_end(lead->channel[i]);
	return ret;
}

int inccl_comm_create(struct inccl_group *group, long long index,
		      const struct inccl_communicator_opts *opts, struct inccl_limit *limit,
		      struct inccl_communicator **out, struct inc_err *err)
{
	struct inccl_communicator *lead;
	int ret = inccl_channel_create(group, index, opts, NULL, limit, &lead, NULL, err);

	if (ret)
		return ret;
	ret = add_channels(lead, opts, limit, err);
	if (ret)
		end_all(lead);
	else
		*out = lead;
	return ret;
}

/* Frees a communicator in a forked child, in which there are no threads. Nothing is sent. */
static void abandon(struct inccl_communicator *lead)
{
	struct inccl_group *group = lead->group;
	const bool owns_group = lead->owns_group;

	for (unsigned int i = lead->channels; i--;)
		inccl_channel_abandon(lead->channel[i]);
	if (owns_group)
		inccl_group_abandon(group);
}

int inccl_communicator_destroy(struct inccl_communicator *comm)
{
	INCCL_UNCANCELLED(cancel_state);
	struct inccl_group *group;
	bool owns_group;
	int ret;

	if (!comm)
		return 0;
	owns_group = comm->owns_group;
	group = comm->group;
	if (inccl_is_inherited(group)) {
		abandon(comm);
		return 0;
	}
	ret = end_all(comm);
	if (owns_group)
		inccl_group_leave(group);
	return ret;
}

/* --- facts and counters --- */

/* Adds the statistics of a channel to the sums over all channels. */
static void add_statistics(struct inccl_communicator *comm, struct inccl_communicator_info *info)
{
	struct inccl_transport_stats s;

	pthread_mutex_lock(&comm->lock);
	inccl_endpoint_stats(comm->ep, &s);
	pthread_mutex_unlock(&comm->lock);
#define _(name, unit, what) info->name += s.name;
	INCCL_STATISTICS(_)
#undef _
}

int inccl_communicator_info(struct inccl_communicator *comm, struct inccl_communicator_info *out)
{
	struct inccl_communicator_info info = {.sz = sizeof(info)};
	struct inc_fixed fixed;
	size_t sz;

	if (!comm || !out || out->sz < sizeof(out->sz))
		return -EINVAL;
	if (inccl_is_inherited(comm->group))
		return -ECHILD;
	sz = out->sz;
	info.rank = comm->group->rank;
	info.world_size = comm->group->world_size;
	info.payload = comm->payload;
	info.message_packets = comm->message_packets;
	info.window = comm->window_messages;
	info.slots = comm->slots;
	info.number = comm->number;
	if (!comm->native_floats &&
	    !inc_fixed_init(&fixed, INC_FLOAT32, INC_FIXED_BLOCK, info.world_size, NULL))
		info.float_bits = fixed.bits;
	info.transport = comm->transport ?: comm->ep->ops->name;
	info.device = comm->device;
	info.peer = comm->peer;
	info.tree = comm->tree;
	info.mode = inccl_node_needs_network(comm->group) ? inc_tree_modes[comm->mode] : "node";
	info.floats = inccl_comm_floats(comm);
	info.channels = comm->channels;
	info.choice = comm->choice;
	for (unsigned int i = 0; i < info.channels; i++)
		add_statistics(comm->channel[i], &info);
	memset(out, 0, sz);
	memcpy(out, &info, sz < sizeof(info) ? sz : sizeof(info));
	out->sz = sz;
	return 0;
}

/* --- the cut of a collective --- */

/* Returns a number of elements within which a collective must not be cut into parts. A sum in fixed
 * point has an exponent for each block, so a cut between blocks changes no bit of the result. */
static size_t cut_unit(const struct inccl_communicator *comm, const struct inccl_call *call,
		       const struct inccl_collective_opts *opts)
{
	const bool sums = call->op == INCCL_SUM || call->op == INCCL_AVG;

	if (comm->native_floats || !sums || !inccl_floats_are_reduced(call) || opts->float_exponent)
		return CUT_ELEMENTS;
	return opts->float_block ?: INC_FIXED_BLOCK;
}

struct inccl_cut inccl_cut(const struct inccl_communicator *comm, const struct inccl_plan *plan,
			   const struct inccl_collective_opts *opts)
{
	const size_t count = plan->call->count;
	struct inccl_cut cut = {.parts = 1, .count = count};
	uint64_t most, unit;

	/* a collective of several blocks is not cut, because a part of it would not be
	 * contiguous */
	if (comm->channels == 1 || plan->shape.blocks > 1)
		return cut;
	most = plan->block_bytes / inccl_channel_part_bytes;
	if (most < 2)
		return cut;
	if (most > comm->channels)
		most = comm->channels;
	unit = cut_unit(comm, plan->call, opts);
	cut.count = ((count + most - 1) / most + unit - 1) / unit * unit;
	cut.parts = (count + cut.count - 1) / cut.count;
	return cut;
}

void inccl_cut_part(const struct inccl_plan *plan, const struct inccl_cut *cut, unsigned int k,
		    struct inccl_call *call, struct inccl_plan *part)
{
	const size_t first = k * cut->count, left = plan->call->count - first;
	const uint64_t offset = first * plan->element_bytes;

	*call = *plan->call;
	*part = *plan;
	part->call = call;
	call->count = left < cut->count ? left : cut->count;
	part->first = first;
	/* an unused buffer may be NULL, so no offset is added to it */
	call->send = plan->send_bytes ? (const uint8_t *)call->send + offset : call->send;
	call->recv = plan->recv_bytes ? (uint8_t *)call->recv + offset : call->recv;
	part->block_bytes = call->count * plan->element_bytes;
	part->send_bytes = plan->send_bytes ? part->block_bytes : 0;
	part->recv_bytes = plan->recv_bytes ? part->block_bytes : 0;
}
