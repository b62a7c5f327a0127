/* SPDX-License-Identifier: BSD-2-Clause */
/* Communicators: their creation, which the controller coordinates, and their end. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "lib/base/fd.h"
#include "lib/base/thread.h"
#include "lib/proto/maps.h"
#include "lib/proto/roce.h"
#include "hostlib/node/node.h"
#include "hostlib/src/coll/coll.h"
#include "hostlib/src/internal.h"

/* A member that was added must lie behind the struct of earlier versions, because sz shows whether
 * a caller has it. */
_Static_assert(offsetof(struct inccl_communicator_opts, channels) >= 64 || sizeof(void *) < 8,
	       "channels lies behind the struct of earlier versions");

static bool knows_transport(enum inccl_transport_kind kind)
{
	const struct inccl_transport *t = inccl_transports;

	while (t->channel && t->kind != kind)
		t++;
	return t->channel || kind == INCCL_TRANSPORT_AUTO;
}

/* Finds the kind of transport that the environment names. */
static int kind_of_environment(enum inccl_transport_kind *kind, struct inc_err *err)
{
	const char *text = inccl_env_transport();
	const struct inccl_transport *t;
	char words[64] = "auto";

	if (!text || !strcmp(text, words))
		return 0;
	for (t = inccl_transports; t->channel; t++) {
		const size_t used = strlen(words);

		if (!strcmp(text, t->channel->name)) {
			*kind = t->kind;
			return 0;
		}
		snprintf(words + used, sizeof(words) - used, ", %s", t->channel->name);
	}
	return inc_err_set(err, EINVAL, "INCCL_TRANSPORT: '%s' is not one of %s", text, words);
}

int inccl_comm_check_opts(struct inccl_communicator_opts *opts, struct inc_err *err)
{
	const unsigned int packets = opts->message_packets ?: 1;
	struct inc_msg_use use;
	bool known;

	if (opts->payload && !inc_rc_payload_ok(opts->payload))
		return inc_err_set(err, EINVAL, "payload %u: want " INC_RC_PAYLOADS_TEXT,
				   opts->payload);
	if (packets > INC_MAX_MESSAGE_PACKETS)
		return inc_err_set(err, EINVAL, "message_packets %u: want 1 to %d", packets,
				   INC_MAX_MESSAGE_PACKETS);
	if (opts->window > INC_MAX_SLOTS / packets)
		return inc_err_set(err, EINVAL, "window %u of %u packets: at most %d packets",
				   opts->window, packets, INC_MAX_SLOTS);
	if (opts->timeout_ms > INT32_MAX || opts->create_timeout_ms > INT32_MAX ||
	    opts->silence_ms > INT32_MAX)
		return inc_err_set(err, EINVAL, "timeouts: at most %d ms", INT32_MAX);
	if (!knows_transport(opts->transport))
		return inc_err_set(err, EINVAL, "transport %d is unknown", opts->transport);
	if ((unsigned int)opts->byte_order > INCCL_ORDER_NETWORK)
		return inc_err_set(err, EINVAL, "byte_order %d is unknown", opts->byte_order);
	if (opts->channels > INC_MAX_CHANNELS)
		return inc_err_set(err, EINVAL, "channels %u: want 1 to %d", opts->channels,
				   INC_MAX_CHANNELS);
	if (!opts->channels && inccl_env_channels(&opts->channels, err))
		return -EINVAL;
	if (inccl_use(opts->use, &use, &known, err))
		return -EINVAL;
	if (opts->transport == INCCL_TRANSPORT_AUTO)
		return kind_of_environment(&opts->transport, err);
	return 0;
}

static void comm_free(struct inccl_communicator *comm)
{
	inccl_bounce_free(comm);
	if (comm->ep)
		inccl_endpoint_close(comm->ep);
	if (comm->wake_fd >= 0)
		close(comm->wake_fd);
	if (comm->thread_fd >= 0)
		close(comm->thread_fd);
	if (comm->alarm_fd >= 0)
		close(comm->alarm_fd);
	pthread_cond_destroy(&comm->changed);
	pthread_mutex_destroy(&comm->lock);
	free((char *)comm->settings.verbs);
	free((char *)comm->settings.use);
	free(comm);
}

static void unlink_comm(struct inccl_group *group, struct inccl_communicator *comm)
{
	struct inccl_communicator **p;

	for (p = &group->comms; *p && *p != comm; p = &(*p)->next)
		;
	if (*p)
		*p = comm->next;
}

/* Frees a channel in a forked child, but not the bounce buffer. That may be registered memory,
 * which libibverbs has unmapped in children. */
void inccl_channel_abandon(struct inccl_communicator *comm)
{
	struct inccl_request *req;

	unlink_comm(comm->group, comm);
	while ((req = comm->first)) {
		comm->first = req->next;
		inccl_request_free(req);
	}
	inccl_endpoint_abandon(comm->ep);
	close(comm->wake_fd);
	close(comm->thread_fd);
	close(comm->alarm_fd);
	free((char *)comm->settings.verbs);
	free((char *)comm->settings.use);
	free(comm);
}

static int comm_new(struct inccl_group *group, const struct inccl_communicator_opts *opts,
		    struct inccl_communicator *lead, struct inccl_communicator **out)
{
	struct inccl_communicator *comm = calloc(1, sizeof(*comm));
	int ret;

	if (!comm)
		return -ENOMEM;
	comm->group = group;
	comm->lead = lead;
	comm->channel[0] = comm;
	comm->channels = 1;
	comm->number = -1;
	comm->failed_rank = -1;
	comm->byte_order = opts->byte_order;
	comm->settings = *opts;
	comm->settings.error = NULL;
	comm->settings.verbs = comm->settings.use = NULL;
	comm->timeout_ns = (opts->timeout_ms ?: OPERATION_TIMEOUT_MS) * INC_NSEC_PER_MSEC;
	comm->wake_fd = comm->thread_fd = comm->alarm_fd = -1;
	comm->alarm_at_ns = comm->look_at_ns = UINT64_MAX;
	ret = -pthread_mutex_init(&comm->lock, NULL);
	if (ret)
		goto free_comm;
	ret = inccl_cond_init(&comm->changed);
	if (ret)
		goto destroy_lock;
	comm->wake_fd = inc_fd_high(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	comm->thread_fd = inc_fd_high(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	comm->alarm_fd = inc_os.wait.alarm();
	if (comm->wake_fd < 0 || comm->thread_fd < 0 || comm->alarm_fd < 0) {
		ret = comm->alarm_fd < 0 ? comm->alarm_fd : -errno;
		goto free_all;
	}
	if ((opts->verbs && !(comm->settings.verbs = strdup(opts->verbs))) ||
	    (opts->use && !(comm->settings.use = strdup(opts->use)))) {
		ret = -ENOMEM;
		goto free_all;
	}
	*out = comm;
	return 0;

free_all:
	comm_free(comm);
	return ret;

destroy_lock:
	pthread_mutex_destroy(&comm->lock);
free_comm:
	free(comm);
	return ret;
}

/* Sets comm->phase, and is the only function that does so. Called under the group's lock. */
static void set_phase(struct inccl_communicator *comm, enum inccl_comm_phase phase)
{
	comm->phase = phase;
}

/* Opens the communicator's endpoint, negotiates with the controller, and starts the thread. Other
 * ranks wait for this. */
static int comm_begin(struct inccl_communicator *comm, struct inccl_limit *limit,
		      struct inc_err *err)
{
	struct inccl_group *group = comm->group;
	uint64_t poll_ns;
	int ret;

	ret = inccl_env_poll_ns(&poll_ns, err);
	if (ret)
		return ret;
	inc_spin_init(&comm->spin, poll_ns);
	ret = group->node ? inccl_node_create(comm, limit, err)
			  : inccl_comm_join_network(comm, limit, err);
	inccl_log_deliver(group->log);
	pthread_mutex_lock(&group->lock);
	/* The lock is held from the start on. If the controller is lost after the start, the
	 * communicator runs already, and goes on. */
	if (!ret && !group->node)
		ret = inccl_comm_start(comm, limit, err);
	ret = ret ?: inccl_comm_list(comm, err);
	if (!ret) {
		ret = inc_thread_create_apart(&comm->thread, inccl_comm_thread, comm);
		if (ret)
			inc_err_set(err, -ret, "thread: %s", strerror(-ret));
		else
			set_phase(comm, COMM_RUNNING);
	}
	if (ret)
		unlink_comm(group, comm);
	pthread_mutex_unlock(&group->lock);
	inccl_log_deliver(group->log);
	return ret;
}

/* Reports to the controller that the creation of a communicator has failed, because the other ranks
 * wait for this rank. comm is NULL if there is none yet. Returns whether it has failed on all
 * ranks: they get the controller's refusal, or the report of a rank without which nothing
 * starts. */
static bool creation_failed(struct inccl_group *group, struct inccl_communicator *comm,
			    long long index, int error, const char *text)
{
	long long number = comm ? comm->number : -1;
	bool agreed;

	if (group->node)
		inccl_node_refuse(group, comm, index, error, text);
	if (!inccl_node_asks(group))
		return true;
	pthread_mutex_lock(&group->lock);
	if (!comm || !comm->refused || number >= 0)
		inccl_control_report_creation(group, index, number, error, text);
	agreed = !group->error && (!comm || !comm->is_ready);
	pthread_mutex_unlock(&group->lock);
	inccl_log_deliver(group->log);
	return agreed;
}

int inccl_channel_create(struct inccl_group *group, long long index,
			 const struct inccl_communicator_opts *opts,
			 struct inccl_communicator *lead, struct inccl_limit *limit,
			 struct inccl_communicator **out, bool *agreed, struct inc_err *err)
{
	struct inccl_communicator *comm = NULL;
	int ret = comm_new(group, opts, lead, &comm);
	bool is_agreed;

	if (ret) {
		inc_err_set(err, -ret, "%s", strerror(-ret));
		goto fail;
	}
	comm->index = index;
	ret = comm_begin(comm, limit, err);
	if (ret)
		goto fail;
	*out = comm;
	return 0;

fail:
	*(agreed ?: &is_agreed) = creation_failed(group, comm, index, -ret, err->msg);
	if (comm)
		comm_free(comm);
	return ret;
}

int inccl_communicator_create(struct inccl_group *group,
			      const struct inccl_communicator_opts *given,
			      struct inccl_communicator **out)
{
	INCCL_UNCANCELLED(cancel_state);
	struct inccl_communicator_opts opts;
	struct inc_err err = {""};
	struct inccl_limit limit;
	long long index;
	int ret;

	if (!out)
		return -EINVAL;
	*out = NULL;
	if (!group)
		return -EINVAL;
	ret = inc_caller_opts(&opts, sizeof(opts), given);
	if (inccl_is_inherited(group)) {
		ret = inc_err_set(&err, ECHILD, INCCL_INHERITED_TEXT);
		inc_caller_explain(opts.error, opts.error_size, &err);
		return ret;
	}
	/* a creation counts even if it fails, so that all ranks use the same number for the next
	 * one */
	pthread_mutex_lock(&group->lock);
	index = group->next_comm++;
	pthread_mutex_unlock(&group->lock);
	/* All ranks get this error, so no report is needed. Greater numbers are those of
	 * channels. */
	if (index >= 1LL << INC_CHANNEL_SHIFT) {
		ret = inc_err_set(&err, EDQUOT, "the group has made %lld communicators, its most",
				  index);
		inc_caller_explain(opts.error, opts.error_size, &err);
		return ret;
	}
	if (ret)
		inc_err_set(&err, -ret, INC_CALLER_OPTS_REFUSED);
	else
		ret = inccl_comm_check_opts(&opts, &err);
	limit = inccl_limit_ms(opts.create_timeout_ms ?: CREATE_TIMEOUT_MS);
	if (ret)
		creation_failed(group, NULL, index, -ret, err.msg);
	else
		ret = inccl_comm_create(group, index, &opts, &limit, out, &err);
	if (ret)
		inc_caller_explain(opts.error, opts.error_size, &err);
	return ret;
}

void inccl_channel_halt(struct inccl_communicator *comm, uint64_t deadline_ns)
{
	pthread_mutex_lock(&comm->lock);
	inccl_comm_settle(comm, deadline_ns);
	comm->stop = true;
	pthread_mutex_unlock(&comm->lock);
	inc_signal_fd(comm->thread_fd);
}

void inccl_channel_end(struct inccl_communicator *comm)
{
	struct control_wait wait = {
		.id = INC_MSG_DESTROY,
		.farewell = true,
		.number = comm->number,
		.index = comm->index,
	};
	struct inccl_group *group = comm->group;
	struct inccl_limit limit;
	struct inccl_request *req;

	pthread_mutex_lock(&group->lock);
	inccl_control_report(group, comm);
	set_phase(comm, COMM_LEAVING);
	limit = inccl_limit_ms(CONNECT_TIMEOUT_MS);
	/* waits for the controller's answer, because it must not arrive at a closed connection */
	if (group->link != LINK_LOST && inccl_node_asks(group))
		inccl_control_call(group, INC_MSG_DESTROY, &(struct inc_msg_number){comm->number},
				   &wait, &limit, NULL);
	unlink_comm(group, comm);
	pthread_mutex_unlock(&group->lock);

	while ((req = comm->first))
		inccl_request_release(req);
	/* the communicator is freed after the log's callback, which may ask for its error */
	inccl_log_deliver(group->log);
	comm_free(comm);
}

void inccl_comm_fail(struct inccl_communicator *comm, int error, int rank, const char *text)
{
	pthread_mutex_lock(&comm->lock);
	inccl_comm_fail_locked(comm, error, rank, text);
	if (comm->ep->on_node)
		inccl_node_pass_on(comm->ep, error, rank, text);
	inccl_comm_report(comm, REPORT_KNOWN);
	pthread_mutex_unlock(&comm->lock);
	inc_signal_fd(comm->wake_fd);
}

const char *inccl_communicator_error(struct inccl_communicator *comm)
{
	const char *text;

	if (!comm)
		return NULL;
	if (inccl_is_inherited(comm->group))
		return INCCL_INHERITED_TEXT;
	pthread_mutex_lock(&comm->lock);
	text = comm->error ? comm->error_text : NULL;
	pthread_mutex_unlock(&comm->lock);
	return text;
}

int inccl_communicator_failed_rank(struct inccl_communicator *comm)
{
	int rank;

	if (!comm || inccl_is_inherited(comm->group))
		return -1;
	pthread_mutex_lock(&comm->lock);
	rank = comm->error ? comm->failed_rank : -1;
	pthread_mutex_unlock(&comm->lock);
	return rank;
}
