/* SPDX-License-Identifier: BSD-2-Clause */
/* Starts any collective as a request, and ends requests: inccl_test() and inccl_wait(). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "lib/base/clock.h"
#include "lib/base/thread.h"
#include "lib/proto/desc.h"
#include "hostlib/src/coll/coll.h"
#include "hostlib/src/internal.h"

static int read_opts(const struct inccl_collective_opts *given, struct inccl_collective_opts *opts,
		     struct inc_err *err)
{
	int ret = inc_caller_opts(opts, sizeof(*opts), given);

	if (ret)
		return inc_err_set(err, -ret, INC_CALLER_OPTS_REFUSED);
	if ((unsigned int)opts->mode > INCCL_MODE_WRITE)
		return inc_err_set(err, EOPNOTSUPP, "mode %d is unknown", opts->mode);
	if (opts->timeout_ms > INT32_MAX)
		return inc_err_set(err, EINVAL, "timeout_ms %u: at most %d", opts->timeout_ms,
				   INT32_MAX);
	return 0;
}

static int map_one(struct inccl_request *req, const char *name, const void *addr, uint64_t bytes,
		   bool writable, struct inc_channel_region *region, struct inc_err *err)
{
	struct inccl_endpoint *ep = req->comm->ep;
	int ret = inccl_endpoint_map(ep, (void *)addr, bytes, writable, region);

	if (!ret)
		return 0;
	return inc_err_set(err, -ret, "%s (%p, %llu bytes) cannot be registered: %s", name, addr,
			   (unsigned long long)bytes, strerrordesc_np(-ret));
}

static int map_buffers(struct inccl_request *req, struct inc_err *err)
{
	int ret;

	if (inccl_uses_bounce(req)) {
		ret = inccl_bounce_map(req->comm, &req->send_region);
		req->recv_region = req->send_region;
		return ret ? inc_err_set(err, -ret, "memory for messages under way: %s",
					 strerrordesc_np(-ret))
			   : 0;
	}
	if (inccl_segment_receives(req)) {
		ret = map_one(req, "recv", req->recv, req->recv_bytes, true, &req->recv_map, err);
		if (ret)
			return ret;
		req->recv_mapped = true;
	}
	req->send_region = req->recv_region = &req->recv_map;
	if (req->send_bytes && !(req->recv_mapped && req->send >= req->recv &&
				 req->send + req->send_bytes <= req->recv + req->recv_bytes)) {
		req->send_region = &req->send_map;
		ret = map_one(req, "send", req->send, req->send_bytes, false, &req->send_map, err);
		if (ret)
			return ret;
		req->send_mapped = true;
	}
	return 0;
}

static void unmap_buffers(struct inccl_request *req)
{
	struct inccl_endpoint *ep = req->comm->ep;

	if (req->send_mapped)
		inccl_endpoint_unmap(ep, &req->send_map);
	if (req->recv_mapped)
		inccl_endpoint_unmap(ep, &req->recv_map);
}

/* Removes the request from the communicator's list and unmaps its buffers, because its caller has
 * its result. */
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

void inccl_request_free(struct inccl_request *req)
{
	inccl_floats_free(req->floats);
	free(req);
}

void inccl_request_release(struct inccl_request *req)
{
	withdraw(req);
	inccl_request_free(req);
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
	/* an idle communicator does not read its clock, which starts anew here, so that the idle
	 * time is no standstill */
	if (!comm->head)
		comm->awake = (struct inc_awake){0};
	req->begun_at_ns = inc_awake_now_ns(&comm->awake);
	if (!comm->head) {
		comm->head = req;
		comm->moved_at_ns = req->begun_at_ns;
	}
}

/* Makes a request for a call, which is not on any list yet. */
static int new_request(struct inccl_communicator *comm, const struct inccl_plan *plan,
		       const struct inccl_collective_opts *opts, struct inccl_request **out,
		       struct inc_err *err)
{
	struct inccl_request *req = calloc(1, sizeof(*req));
	int ret = 0;

	if (!req)
		return inc_err_set(err, ENOMEM, "no memory");
	req->comm = comm;
	req->foreign = plan->block_bytes && plan->element_bytes > 1 &&
		       inc_order_is_foreign(inccl_wire_order(comm));
	req->form = inccl_form_of(plan->call);
	inccl_segment_request(req, plan);
	req->mode = opts->mode ?: INCCL_MODE_SENDRECV;
	req->timeout_ns =
		opts->timeout_ms ? opts->timeout_ms * INC_NSEC_PER_MSEC : comm->timeout_ns;
	if (inccl_floats_are_reduced(plan->call) && !comm->native_floats)
		ret = inccl_floats_prepare(req, plan, opts, err);
	else
		inccl_data_prepare(req, plan);
	if (ret)
		inccl_request_free(req);
	else
		*out = req;
	return ret;
}

/* Frees a request and its other parts, none of which is on a list. */
static void free_parts(struct inccl_request *req)
{
	struct inccl_request *next;

	for (; req; req = next) {
		next = req->part;
		inccl_request_free(req);
	}
}

/* Makes a request, and one more for each further channel for which the collective is cut. */
static int new_parts(struct inccl_communicator *comm, const struct inccl_plan *plan,
		     const struct inccl_collective_opts *opts, struct inccl_request **out,
		     struct inc_err *err)
{
	const struct inccl_cut cut = inccl_cut(comm, plan, opts);
	const unsigned int nics = comm->lanes.n ?: 1;
	struct inccl_request *first = NULL, **next = &first;
	struct inccl_call call;
	struct inccl_plan part;
	int ret = 0;

	if (cut.parts == 1)
		return new_request(comm, plan, opts, out, err);
	for (unsigned int k = 0; k < cut.parts; k++) {
		inccl_cut_part(plan, &cut, k, &call, &part);
		ret = new_request(comm->channel[k], &part, opts, next, err);
		if (ret)
			break;
		(*next)->parts = (cut.parts + nics - 1) / nics;
		next = &(*next)->part;
	}
	if (ret)
		free_parts(first);
	else
		*out = first;
	return ret;
}

/* Describes, as text for the log, how the request's floats go over the wire. Returns a number that
 * stands for the way, or 0 if it reduces no floats. A communicator has either the ways of integers,
 * or only that of native floats. */
static unsigned int describe_floats(const struct inccl_request *req, char *text, size_t size)
{
	if (req->floats)
		return inccl_floats_describe(req, text, size);
	if (!inc_reduces_floats(req->desc))
		return 0;
	snprintf(text, size, ", as floats");
	return 1;
}

/* Returns the caller's name of the operator. */
static const char *op_of(const struct inccl_request *req)
{
	const enum inc_operator op = INC_DESC_OP(req->desc);

	if (req->form != INCCL_FORM_KEYS)
		return inccl_op_name((enum inccl_op)op);
	return inccl_op_name(op == INC_OPERATOR_MIN ? INCCL_MINLOC : INCCL_MAXLOC);
}

/* Logs how a collective runs, but only once for each kind of collective. */
static void describe(const struct inccl_request *req)
{
	struct inccl_communicator *comm = req->comm;
	char floats[160] = "", elements[48] = "";
	unsigned int way = describe_floats(req, floats, sizeof(floats));
	const uint32_t kind = 1u << (8 * way + INC_DESC_COLL(req->desc));

	_Static_assert(INC_N_COLLECTIVES <= 8,
		       "four ways of eight collectives are the bits of kind");

	if (comm->described & kind)
		return;
	comm->described |= kind;
	if (inc_all_give(req->desc))
		snprintf(elements, sizeof(elements), " (%s of %s)", op_of(req),
			 inccl_dtype_name(INC_DESC_DTYPE(req->desc)));
	inccl_log_line(comm->group->log,
		       "communicator %lld: %s%s: %u blocks, messages of %u packets, %u packets "
		       "under way, through %s%s",
		       comm->number, inccl_collective_name(INC_DESC_COLL(req->desc)), elements,
		       req->blocks, req->message_packets,
		       comm->window_messages * comm->message_packets, comm->peer, floats);
	if (way == INCCL_WAY_TWO_PASSES)
		inccl_comm_log_slow(comm, true);
}

/* Admits a request: checks that its communicator has not failed, and registers its buffers. err
 * gets an explanation if the request is refused, but not if the communicator has failed. Called
 * under the lock. */
static int admit(struct inccl_request *req, struct inc_err *err)
{
	int ret = req->comm->error ? -req->comm->error : map_buffers(req, err);

	if (ret)
		unmap_buffers(req);
	return ret;
}

/* Starts an admitted request, under the lock. If `waits` is set, the caller calls inccl_wait()
 * next, which serves the endpoint. A further channel is served by its own thread. */
static void launch(struct inccl_request *req, bool waits)
{
	struct inccl_communicator *comm = req->comm;

	/* An empty collective sends nothing, but it has a sequence number, too. If another rank has
	 * started another collective with this number, the next descriptor reveals that. */
	req->desc |= comm->seq++ & INC_DESC_SEQ_MASK;
	req->done = !req->messages;
	describe(req);
	if (req->floats)
		inccl_floats_begin(req);
	enqueue(comm, req);
	if (req->done)
		return;
	if (comm->lead) {
		inc_signal_fd(comm->wake_fd);
		return;
	}
	inccl_comm_enter(comm);
	inccl_comm_begin(comm, waits);
	if (!waits)
		inccl_comm_leave(comm);
}

/* Locks a communicator. Returns false if that would have to wait, and the caller must not. */
static bool lock_comm(struct inccl_communicator *comm, bool may_wait)
{
	if (may_wait || !comm->settings.no_wait)
		return !pthread_mutex_lock(&comm->lock);
	return !pthread_mutex_trylock(&comm->lock);
}

static void unlock_parts(struct inccl_request *req, const struct inccl_request *end)
{
	for (; req != end; req = req->part)
		pthread_mutex_unlock(&req->comm->lock);
}

/* Locks the communicators of all parts of a request, in the order of their channels. Returns false
 * and locks none if that would have to wait, and the caller must not. */
static bool lock_parts(struct inccl_request *req, bool may_wait)
{
	struct inccl_request *part = req;

	while (part && lock_comm(part->comm, may_wait))
		part = part->part;
	if (part)
		unlock_parts(req, part);
	return !part;
}

/* Starts a collective. If it is cut into parts, either all parts start, or none. */
static int submit(struct inccl_request *req, bool waits, struct inc_err *err)
{
	struct inccl_request *part, *refused = NULL;
	int ret = 0;

	if (!lock_parts(req, waits))
		return -EAGAIN;
	for (part = req; part && !refused; part = part->part) {
		ret = admit(part, err);
		if (ret)
			refused = part;
	}
	if (refused) {
		for (part = req; part != refused; part = part->part)
			unmap_buffers(part);
		unlock_parts(req, NULL);
		if (req->part)
			inccl_channels_spread(refused->comm);
		return ret;
	}
	/* channel 0 is last, because this thread serves it from then on */
	for (part = req->part; part; part = part->part) {
		launch(part, false);
		pthread_mutex_unlock(&part->comm->lock);
	}
	launch(req, waits);
	pthread_mutex_unlock(&req->comm->lock);
	return 0;
}

/* Fails the communicator because this rank's values cannot be sent. Otherwise the other ranks would
 * wait for them. */
static void fail_by_itself(struct inccl_communicator *comm, int error, const char *text)
{
	pthread_mutex_lock(&comm->lock);
	inccl_comm_fail_locked(comm, error, comm->group->rank, text);
	pthread_mutex_unlock(&comm->lock);
	inc_signal_fd(comm->wake_fd);
}

/* Logs once that options of the caller have no effect on this communicator. */
static void note_unused(struct inccl_communicator *comm, const struct inccl_call *call,
			const struct inccl_collective_opts *opts)
{
	const bool asked =
		opts->float_exponent || (opts->float_block && opts->float_block != INC_FIXED_BLOCK);

	/* without the communicator's lock, for which a start must not wait (no_wait) */
	if (comm->native_floats && inccl_floats_are_reduced(call) && asked &&
	    !__atomic_exchange_n(&comm->noted_unused, true, __ATOMIC_RELAXED))
		inccl_log_line(comm->group->log,
			       "communicator %lld: float_block and float_exponent have no effect: "
			       "floats are added as they are",
			       comm->number);
}

/* Checks a call and makes its request. Nothing is sent yet. */
static int prepare(struct inccl_communicator *comm, const struct inccl_call *call,
		   const struct inccl_collective_opts *given, struct inccl_collective_opts *opts,
		   struct inccl_request **req, struct inc_err *err)
{
	struct inccl_plan plan;
	int ret;

	ret = read_opts(given, opts, err);
	if (!ret)
		ret = inccl_check_mode(comm, opts, err);
	if (!ret)
		ret = inccl_check_call(comm, call, &plan, err);
	if (!ret)
		ret = new_parts(comm, &plan, opts, req, err);
	if (!ret)
		note_unused(comm, call, opts);
	if (ret == -ERANGE)
		fail_by_itself(comm, -ret, err->msg);
	return ret;
}

static int refuse_inherited(const struct inccl_collective_opts *given)
{
	struct inccl_collective_opts opts;
	struct inc_err err;

	inc_caller_opts(&opts, sizeof(opts), given);
	inc_err_set(&err, ECHILD, INCCL_INHERITED_TEXT);
	inc_caller_explain(opts.error, opts.error_size, &err);
	return -ECHILD;
}

static int start(struct inccl_communicator *comm, const struct inccl_call *call,
		 const struct inccl_collective_opts *given, struct inccl_request **out, bool waits)
{
	INCCL_UNCANCELLED(cancel_state);
	struct inccl_collective_opts opts;
	struct inccl_request *req = NULL;
	struct inc_err err = {""};
	int ret;

	if (!out)
		return -EINVAL;
	*out = NULL;
	if (!comm)
		return -EINVAL;
	if (inccl_is_inherited(comm->group))
		return refuse_inherited(given);
	ret = prepare(comm, call, given, &opts, &req, &err);
	if (!ret)
		ret = submit(req, waits, &err);
	if (!ret)
		*out = req;
	else
		free_parts(req);
	if (ret && ret != -EAGAIN && comm->channels > 1)
		inccl_channels_spread(comm);
	if (ret && err.msg[0]) {
		inccl_log_line(comm->group->log, "communicator %lld: %s refused: %s", comm->number,
			       inccl_collective_name(call->collective), err.msg);
		inc_caller_explain(opts.error, opts.error_size, &err);
	}
	inccl_log_deliver(comm->group->log);
	return ret;
}

/* Returns whether all parts of a cut collective are done, and their first error. If a channel has
 * failed, this fails the others, so that no part goes on. */
static bool parts_done(struct inccl_request *req, bool may_wait, int *result)
{
	struct inccl_request *part;
	bool done = true;
	int one;

	*result = 0;
	for (part = req; part; part = part->part) {
		if (!lock_comm(part->comm, may_wait)) {
			done = false;
			continue;
		}
		done &= part->done;
		one = part->done ? part->result : 0;
		pthread_mutex_unlock(&part->comm->lock);
		if (one && !*result)
			inccl_channels_spread(part->comm);
		*result = *result ?: one;
	}
	return done;
}

/* Does the same as collect() for a cut collective. The caller holds no lock. */
static int collect_parts(struct inccl_request *req, bool may_wait)
{
	struct inccl_log *log = req->comm->group->log;
	struct inccl_request *part, *next;
	int result;

	if ((!parts_done(req, may_wait, &result) &&
	     (!result || !parts_done(req, may_wait, &result))) ||
	    !lock_parts(req, may_wait)) {
		inccl_log_deliver(log);
		return -EAGAIN;
	}
	for (part = req; part; part = part->part)
		withdraw(part);
	unlock_parts(req, NULL);
	for (; req; req = next) {
		next = req->part;
		if (!result)
			inccl_data_finish(req);
		inccl_request_free(req);
	}
	inccl_log_deliver(log);
	return result;
}

/* Ends a call of the user: unlocks the communicator, and returns the request's result if it is
 * done, or -EAGAIN if it is not. */
static int collect(struct inccl_request *req, bool may_wait)
{
	struct inccl_communicator *comm = req->comm;
	bool done = req->done;
	int result = -EAGAIN;

	if (req->part) {
		pthread_mutex_unlock(&comm->lock);
		return collect_parts(req, may_wait);
	}
	if (done) {
		result = req->result;
		withdraw(req);
	}
	pthread_mutex_unlock(&comm->lock);
	if (done && result && comm->channels > 1)
		inccl_channels_spread(comm);
	inccl_log_deliver(comm->group->log);
	if (done) {
		if (!result)
			inccl_data_finish(req);
		inccl_request_free(req);
	}
	return result;
}

/* Waits for the parts of a collective on further channels, which their threads serve. The part on
 * channel 0 is done. The caller holds the lock of channel 0, which is released meanwhile. */
static void wait_for_parts(struct inccl_request *req, uint64_t deadline_ns, int cancel_state)
{
	struct inccl_request *part;
	int result;

	pthread_mutex_unlock(&req->comm->lock);
	parts_done(req, true, &result);
	for (part = req->part; part; part = part->part) {
		pthread_mutex_lock(&part->comm->lock);
		inccl_comm_drive(part->comm, part, deadline_ns, cancel_state);
		pthread_mutex_unlock(&part->comm->lock);
	}
	pthread_mutex_lock(&req->comm->lock);
}

int inccl_test(struct inccl_request *req)
{
	INCCL_UNCANCELLED(cancel_state);
	struct inccl_communicator *comm;

	if (!req)
		return -EINVAL;
	comm = req->comm;
	if (inccl_is_inherited(comm->group))
		return -ECHILD;
	if (!lock_comm(comm, false))
		return -EAGAIN;
	if (!req->done && comm->driver != DRIVER_WAITER) {
		inccl_comm_enter(comm);
		inccl_comm_advance(comm);
		inccl_comm_leave(comm);
	}
	return collect(req, false);
}

int inccl_wait(struct inccl_request *req, int timeout_ms)
{
	INCCL_UNCANCELLED(cancel_state);
	struct inccl_communicator *comm;
	uint64_t deadline_ns;

	if (!req)
		return -EINVAL;
	comm = req->comm;
	if (inccl_is_inherited(comm->group))
		return -ECHILD;
	deadline_ns = timeout_ms < 0 ? UINT64_MAX : deadline_after_ms(timeout_ms);
	pthread_mutex_lock(&comm->lock);
	if (!req->done) {
		inccl_comm_enter(comm);
		inccl_comm_drive(comm, req, deadline_ns, cancel_state);
	} else {
		/* a call of inccl_collective_run() has not called inccl_comm_leave() before */
		inccl_comm_leave(comm);
	}
	if (req->done && req->part)
		wait_for_parts(req, deadline_ns, cancel_state);
	return collect(req, true);
}

int inccl_collective_start(struct inccl_communicator *comm, const struct inccl_call *call,
			   const struct inccl_collective_opts *opts, struct inccl_request **request)
{
	return start(comm, call, opts, request, false);
}

int inccl_collective_run(struct inccl_communicator *comm, const struct inccl_call *call,
			 const struct inccl_collective_opts *opts)
{
	/* a cancelled thread might free its buffers while they are in use, so it is not cancelled
	 * here */
	INCCL_UNCANCELLED(cancel_state);
	struct inccl_request *req;
	int ret;

	ret = start(comm, call, opts, &req, true);
	return ret ? ret : inccl_wait(req, -1);
}
