/* SPDX-License-Identifier: BSD-2-Clause */
/* The connection to the controller: JSON lines over TCP (docs/control.md). */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include "lib/base/clock.h"
#include "lib/base/fd.h"
#include "lib/base/thread.h"
#include "hostlib/node/node.h"
#include "hostlib/src/internal.h"
#include "lib/net/stream_lines.h"
#include "lib/net/wait.h"

#define BYE_MS 1000 /* time in ms that the controller has to close the connection after BYE */
/* Of several controllers, one that sends nothing for SILENT_MS is lost, although its pings are
 * asked for. Its machine may have died without a word. */
#define PING_MS   500
#define SILENT_MS 2500

int inccl_control_send(struct inccl_group *group, enum inc_message_id id, const void *msg)
{
	json_t *object = inc_message_new(id, msg);
	size_t len;
	char *text = inc_line_of(object, &len);
	int ret;

	json_decref(object);
	if (!text)
		return -ENOMEM;
	/* The time limit only ends if the controller has stopped reading: a message is far smaller
	 * than the socket's buffer. */
	ret = inc_stream_send(&group->stream, text, len, deadline_after_ms(CONNECT_TIMEOUT_MS));
	free(text);
	return ret;
}

/* Waits until the group may have changed, for a caller that waits for an answer. Returns false if
 * its time limit has passed. */
static bool wait_for_change(struct inccl_group *group, struct inccl_limit *limit)
{
	struct inc_awake *awake = &limit->awake;

	inc_awake_now_ns(awake);
	if (inc_awake_past(awake, limit->began_at_ns, limit->limit_ns))
		return false;
	inccl_cond_wait_until(
		&group->changed, &group->lock,
		inc_awake_look_at_ns(
			awake, inc_awake_limit_at_ns(awake, limit->began_at_ns, limit->limit_ns)));
	return true;
}

int inccl_control_call(struct inccl_group *group, enum inc_message_id id, const void *msg,
		       struct control_wait *wait, struct inccl_limit *limit, struct inc_err *err)
{
	const unsigned int losses = group->losses;
	struct control_wait **p;
	int ret;

	wait->next = group->waits;
	group->waits = wait;
	ret = inccl_control_send(group, id, msg);
	/* The controller has closed the connection. Its last messages, which the control thread
	 * reads next, may have the reason, so the caller waits for them. */
	if (!group->error && (ret == -EPIPE || ret == -ECONNRESET))
		ret = 0;
	if (ret) {
		/* the error that has ended the connection explains more than the error of the
		 * send */
		if (group->error)
			ret = inc_err_set(err, group->error, "%s", group->error_text);
		else
			inc_err_set(err, -ret, "controller %s: %s", group->controller,
				    strerror(-ret));
		goto out;
	}
	while (!wait->done && (!group->error || (wait->farewell && group->losses == losses))) {
		if (!wait_for_change(group, limit)) {
			ret = inc_err_set(err, ETIMEDOUT,
					  "controller %s: no answer to '%s' in time",
					  group->controller, inc_messages[wait->id].type);
			goto out;
		}
	}
	if (wait->done) {
		ret = wait->err;
		if (ret)
			inc_err_set(err, -ret, "%s", wait->text);
	} else {
		ret = inc_err_set(err, group->error, "%s", group->error_text);
	}
out:
	for (p = &group->waits; *p != wait; p = &(*p)->next)
		;
	*p = wait->next;
	return ret;
}

static void group_fail(struct inccl_group *group, int error, int rank, const char *text)
{
	struct inccl_communicator *comm;
	bool first = !group->error;

	if (first) {
		group->error = error;
		group->failed_rank = rank;
		snprintf(group->error_text, sizeof(group->error_text), "%s", text);
	}
	for (comm = group->comms; comm; comm = comm->next) {
		if (group->link == LINK_LOST) {
			pthread_mutex_lock(&comm->lock);
			/* ranks that share memory need no switch and no controller */
			if (inccl_node_needs_network(group))
				comm->orphan_at_ns = inc_awake_now_ns(&comm->awake);
			inccl_comm_report(comm, REPORT_LOST);
			pthread_mutex_unlock(&comm->lock);
			inc_signal_fd(comm->wake_fd);
		} else {
			inccl_comm_fail(comm, error, rank, text);
		}
	}
	inccl_log_line(group->log, "group %s has failed: %s", group->job, text);
	pthread_cond_broadcast(&group->changed);
}

static void receive_failed(struct inccl_group *group, const json_t *object)
{
	struct inc_msg_failed msg = {.code = EREMOTEIO};
	struct inccl_communicator *comm;
	const char *text;
	int rank;

	inc_message_read(INC_MSG_FAILED, object, &msg, NULL);
	text = *msg.message ? msg.message : strerror(msg.code);
	rank = msg.has_rank ? (int)msg.rank : -1;
	if (!msg.has_communicator) {
		group_fail(group, msg.code, rank, text);
		return;
	}
	for (comm = group->comms; comm; comm = comm->next)
		if (comm->number == msg.communicator)
			inccl_comm_fail(comm, msg.code, rank, text);
}

/* Handles what a switch has reported, and the ranks for which this one waits. */
static void receive_report(struct inccl_group *group, const char *type, const json_t *object)
{
	struct inc_msg_notice notice = {};
	struct inc_msg_absent absent = {};

	if (!inc_message_is(type, INC_MSG_NOTICE)) {
		inc_message_read(INC_MSG_ABSENT, object, &absent, NULL);
		inccl_log_line(group->log, "waiting: %s", absent.message);
	} else if (!inc_message_read(INC_MSG_NOTICE, object, &notice, NULL)) {
		inccl_comms_notice(group, &notice);
	}
}

/* Whether an error of the controller is temporary. It lacked descriptors, memory or time, and
 * closed the connection without reading RESUME, so it may accept the next attempt. */
static bool passing(int error)
{
	return error == EMFILE || error == ENOMEM || error == ETIMEDOUT;
}

/* Whether an error of the controller is for this waiter. The error may name a comm (index in the
 * group), a communicator (number), or neither. */
static bool concerns(const struct inc_msg_error *msg, const struct control_wait *wait)
{
	if (msg->has_comm)
		return wait->index == msg->comm;
	if (msg->has_communicator)
		return wait->number == msg->communicator;
	return true;
}

static void complete_wait(struct inccl_group *group, struct control_wait *wait, int ret,
			  const char *text)
{
	wait->err = ret;
	snprintf(wait->text, sizeof(wait->text), "%s", text);
	wait->done = true;
	pthread_cond_broadcast(&group->changed);
}

static void receive_error(struct inccl_group *group, const json_t *object)
{
	struct inc_msg_error msg = {.code = EREMOTEIO};
	struct control_wait *wait = group->waits;
	const char *text;

	inc_message_read(INC_MSG_ERROR, object, &msg, NULL);
	text = *msg.message ? msg.message : strerror(msg.code);
	if (group->link == LINK_RESUMING && !passing(msg.code) && !msg.has_comm &&
	    !msg.has_communicator) {
		inccl_control_not_resumed(group, msg.code, text);
		return;
	}
	while (wait && (wait->done || !concerns(&msg, wait)))
		wait = wait->next;
	if (!wait && !group->number && !msg.has_comm && !msg.has_communicator) {
		/* the controller has refused the connection before this rank has sent G, and does
		 * not repeat the reason */
		group_fail(group, msg.code, -1, text);
		return;
	}
	if (!wait) {
		inccl_log_line(group->log, "controller %s: %s", group->controller, text);
		return;
	}
	wait->refused = true;
	wait->own_ip = msg.own_ip;
	complete_wait(group, wait, -msg.code, text);
}

/* Whether an answer of the controller is for this waiter. The answer may have been only partly
 * readable. */
static bool answers(const union control_answer *msg, const struct control_wait *wait)
{
	switch (wait->id) {
	case INC_MSG_JOINED:
		return true;
	case INC_MSG_MADE:
		return msg->made.comm == wait->index;
	default:
		return msg->number.communicator == wait->number;
	}
}

static void receive_answer(struct inccl_group *group, const char *type, const json_t *object)
{
	struct control_wait *wait;
	struct inc_err err, text = {""};
	int ret;

	for (wait = group->waits; wait; wait = wait->next) {
		/* an index that no communicator has, in case that the answer's own cannot be
		 * read */
		union control_answer msg = {.made.comm = UINT32_MAX};

		if (wait->done || !inc_message_is(type, wait->id))
			continue;
		ret = inc_message_read(wait->id, object, &msg, &err);
		if (!answers(&msg, wait))
			continue;
		if (ret)
			inc_err_set(&text, EPROTO, "controller %s: answer to '%s': %s",
				    group->controller, type, err.msg);
		wait->answer = msg;
		complete_wait(group, wait, ret ? -EPROTO : 0, text.msg);
		return;
	}
}

/* Handles a JSON object from the controller, and consumes it. Returns 0, or -EPROTO if it has no
 * type. */
static int receive_object(struct inccl_group *group, json_t *object)
{
	const char *type = inc_message_type(object);

	if (!*type) {
		json_decref(object);
		return -EPROTO;
	}
	pthread_mutex_lock(&group->lock);
	if (inc_message_is(type, INC_MSG_FAILED))
		receive_failed(group, object);
	else if (inc_message_is(type, INC_MSG_NOTICE) || inc_message_is(type, INC_MSG_ABSENT))
		receive_report(group, type, object);
	else if (inc_message_is(type, INC_MSG_ERROR))
		receive_error(group, object);
	else if (inc_message_is(type, INC_MSG_RESUMED) && group->link == LINK_RESUMING)
		inccl_control_resumed(group);
	else if (inc_message_is(type, INC_MSG_PING))
		inccl_control_send(group, INC_MSG_PONG, NULL);
	else
		receive_answer(group, type, object);
	pthread_mutex_unlock(&group->lock);
	json_decref(object);
	inccl_log_deliver(group->log);
	return 0;
}

void inccl_control_set_link(struct inccl_group *group, enum inccl_link to)
{
	group->link = to;
	if (to != LINK_LOST)
		return;
	group->losses++;
	inc_stream_close(&group->stream);
}

static void lose(struct inccl_group *group, int error, const char *why)
{
	char text[400];

	snprintf(text, sizeof(text), "controller %s: %s", group->controller, why);
	pthread_mutex_lock(&group->lock);
	inccl_control_set_link(group, LINK_LOST);
	group_fail(group, error, -1, text);
	pthread_mutex_unlock(&group->lock);
	inccl_log_deliver(group->log);
}

static int receive_lines(struct inccl_group *group, struct inc_lines *lines, struct inc_err *err)
{
	json_t *object;
	int ret;

	while ((ret = inc_lines_next(lines, &object, err)) > 0) {
		ret = receive_object(group, object);
		if (ret)
			return inc_err_set(err, -ret, "an object without a type");
	}
	return ret;
}

/* Reads from the connection to the controller. Returns the number of bytes, 0 if the controller has
 * closed, or -errno with one line in err. */
static ssize_t receive(struct inccl_group *group, struct inc_lines *lines, struct inc_err *err)
{
	ssize_t n;

	pthread_mutex_lock(&group->lock);
	n = inc_stream_fill(&group->stream, lines, err);
	pthread_mutex_unlock(&group->lock);
	return n;
}

/* Whether this rank itself has caused the error, so that the report names this rank. Timeouts and
 * errors of the peer are not its own fault. */
static bool own_fault(int error)
{
	return error != ETIMEDOUT && error != EREMOTEIO && error != EPROTO;
}

/* Returns the rank to blame for an error of this rank, or -1. */
static int blame(const struct inccl_group *group, int error)
{
	return own_fault(error) ? group->rank : -1;
}

static void send_failed(struct inccl_group *group, struct inc_msg_report *msg, int error, int rank,
			const char *text)
{
	msg->code = error;
	snprintf(msg->message, sizeof(msg->message), "%s", text);
	msg->has_rank = rank >= 0;
	msg->rank = msg->has_rank ? rank : 0;
	inccl_control_send(group, INC_MSG_REPORT, msg);
}

void inccl_control_report(struct inccl_group *group, struct inccl_communicator *comm)
{
	struct inc_msg_report msg = {.has_communicator = true, .communicator = comm->number};
	char text[sizeof(comm->error_text)];
	const bool lost = group->link == LINK_LOST;
	int error, rank;

	if (comm->phase == COMM_LEAVING)
		return;
	pthread_mutex_lock(&comm->lock);
	error = comm->report == REPORT_DUE ? comm->error : 0;
	if (error && !lost)
		inccl_comm_report(comm, REPORT_SENT);
	memcpy(text, comm->error_text, sizeof(text));
	/* the rank that has failed may be one that this rank leads */
	rank = comm->failed_rank >= 0 ? comm->failed_rank : blame(group, error);
	if (error && comm->ep->on_node)
		inccl_node_fail(comm->ep, error, rank, text);
	pthread_mutex_unlock(&comm->lock);
	if (error && !lost && inccl_node_asks(group))
		send_failed(group, &msg, error, rank, text);
}

void inccl_control_report_creation(struct inccl_group *group, long long index, long long number,
				   int error, const char *text)
{
	const bool known = number >= 0;
	struct inc_msg_report msg = {.has_communicator = known,
				     .communicator = known ? number : 0,
				     .has_comm = !known,
				     .comm = index};

	if (group->error)
		return;
	send_failed(group, &msg, error, blame(group, error), text);
	if (known)
		inccl_control_send(group, INC_MSG_DESTROY, &(struct inc_msg_number){number});
}

void inccl_control_report_derive(struct inccl_group *group, const struct inc_msg_derive *msg,
				 int error, const char *text)
{
	struct inc_msg_report report = {.has_derive = true, .derive = *msg};

	if (group->link == LINK_UP)
		send_failed(group, &report, error, blame(group, error), text);
}

bool inccl_control_report_all(struct inccl_group *group)
{
	struct inccl_communicator *comm;
	bool stopping;

	inc_drain_fd(group->stop_fd);
	pthread_mutex_lock(&group->lock);
	stopping = group->stopping;
	for (comm = group->comms; comm && !stopping; comm = comm->next)
		inccl_control_report(group, comm);
	pthread_mutex_unlock(&group->lock);
	return !stopping;
}

/* Reads all that the controller has sent. Returns -EAGAIN if the connection goes on, else 0 if it
 * is lost and may be made again, or -EPROTO if the group ends. *any: something has come. */
static int take_all(struct inccl_group *group, struct inc_lines *lines, bool *any)
{
	struct inc_err err;
	char why[256];
	ssize_t n;

	for (*any = false; (n = receive(group, lines, &err)) > 0; *any = true) {
		if (receive_lines(group, lines, &err)) {
			snprintf(why, sizeof(why),
				 "sent something that is not our protocol: %.200s", err.msg);
			lose(group, EPROTO, why);
			return -EPROTO;
		}
	}
	if (n == -EAGAIN)
		return n;
	lose(group, n ? -n : ECONNRESET, n ? err.msg : "closed the connection");
	return 0;
}

/* Asks one of several controllers for a sign of life. Returns false if it has given none for too
 * long. */
static bool ping(struct inccl_group *group, struct inc_awake *awake, uint64_t *came_at_ns)
{
	const uint64_t now_ns = inc_awake_now_ns(awake);

	if (!*came_at_ns)
		*came_at_ns = now_ns;
	if (now_ns - *came_at_ns > SILENT_MS * INC_NSEC_PER_MSEC) {
		lose(group, ETIMEDOUT, "does not answer");
		return false;
	}
	pthread_mutex_lock(&group->lock);
	inccl_control_send(group, INC_MSG_PING, NULL);
	pthread_mutex_unlock(&group->lock);
	return true;
}

/* Serves the connection to the controller. Returns true if it is lost and may be made again, or
 * false if the group ends. */
static bool serve(struct inccl_group *group, struct inc_lines *lines)
{
	struct pollfd pfd[2] = {
		{.fd = group->stream.fd, .events = POLLIN},
		{.fd = group->stop_fd, .events = POLLIN},
	};
	const int wait_ms = group->controllers.n > 1 ? PING_MS : -1;
	struct inc_awake awake = {};
	uint64_t came_at_ns = 0; /* when the controller has sent something; 0: unknown */
	bool any;
	int n;

	for (;;) {
		/* the stream is read before poll(), because TLS may have data that it has read
		 * already */
		n = take_all(group, lines, &any);
		if (n != -EAGAIN)
			return !n;
		if (any)
			came_at_ns = 0;
		n = inc_wait_poll(pfd, 2, wait_ms);
		if (!n && !ping(group, &awake, &came_at_ns))
			return true;
		if (n > 0 && pfd[1].revents && !inccl_control_report_all(group))
			return false;
	}
}

static void *control_thread(void *arg)
{
	struct inccl_group *group = arg;
	struct inc_lines lines = {.max_line = INC_MEMBER_LINE_MAX};

	while (serve(group, &lines)) {
		inc_lines_free(&lines); /* drops an incomplete line of the lost connection */
		if (inccl_control_resume(group))
			break;
	}
	inc_lines_free(&lines);
	return NULL;
}

int inccl_control_start(struct inccl_group *group)
{
	int ret;

	ret = inc_os.stream.peer(group->stream.fd, &group->peer, &group->peer_len);
	if (ret)
		return ret;
	group->stop_fd = inc_fd_high(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (group->stop_fd < 0)
		return -errno;
	ret = inc_thread_create_apart(&group->thread, control_thread, group);
	group->has_thread = !ret;
	return ret;
}

static void stop_thread(struct inccl_group *group)
{
	if (!group->has_thread)
		return;
	pthread_mutex_lock(&group->lock);
	group->stopping = true;
	pthread_mutex_unlock(&group->lock);
	inc_signal_fd(group->stop_fd);
	pthread_join(group->thread, NULL);
	group->has_thread = false;
}

void inccl_control_bye(struct inccl_group *group)
{
	const uint64_t deadline_ms = inc_now_ms() + BYE_MS;
	struct pollfd pfd = {.events = POLLIN};
	char unread[4096];
	uint64_t now_ms;
	ssize_t n = 1;

	stop_thread(group);
	pfd.fd = group->stream.fd;
	pthread_mutex_lock(&group->lock);
	if (group->link == LINK_LOST || inccl_control_send(group, INC_MSG_BYE, NULL))
		n = 0;
	pthread_mutex_unlock(&group->lock);
	if (n)
		inc_stream_end(&group->stream);
	/* the bytes are not decrypted, because only the end of the connection matters */
	while (n > 0 && (now_ms = inc_now_ms()) < deadline_ms &&
	       inc_wait_poll(&pfd, 1, deadline_ms - now_ms) > 0)
		n = recv(pfd.fd, unread, sizeof(unread), 0);
}

void inccl_control_stop(struct inccl_group *group)
{
	stop_thread(group);
	if (group->stop_fd >= 0)
		close(group->stop_fd);
	group->stop_fd = -1;
	inc_stream_close(&group->stream);
}
