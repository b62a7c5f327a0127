/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reconnects to a controller that was lost. Communicators go on meanwhile, and this rank tells the
 * new controller which ones it has (docs/control.md, resume). Runs on the group's control thread.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "lib/base/clock.h"
#include "lib/base/thread.h"
#include "lib/net/race.h"
#include "lib/net/wait.h"
#include "hostlib/node/node.h"
#include "hostlib/src/internal.h"

#define RETRY_MIN_MS 200
#define RETRY_MAX_MS 1000 /* the controller relies on this limit, by TRIES_MS in its resume.c */

/* Waits for ms milliseconds, or until fd has one of the events. Returns false if the group ends. */
static bool pause_for(struct inccl_group *group, int fd, short events, unsigned int ms)
{
	struct pollfd pfd[2] = {{.fd = group->stop_fd, .events = POLLIN},
				{.fd = fd, .events = events}};
	uint64_t deadline_ns = deadline_after_ms(ms), now;

	for (;;) {
		now = inc_now_ns();
		if (now >= deadline_ns)
			return true;
		if (inc_wait_poll(pfd, 2, inc_ms_until(deadline_ns, now)) <= 0)
			continue;
		/* failures concern the other ranks of this machine, although the controller is
		 * away */
		if (pfd[0].revents && !inccl_control_report_all(group))
			return false;
		if (pfd[1].revents)
			return true;
	}
}

/* Tries once to connect to the controller. Returns the socket, or -1. Sets *stopped if the group
 * ends. */
static int try_connect(struct inccl_group *group, bool *stopped)
{
	const int fd =
		inc_os.stream.connect((const struct sockaddr *)&group->peer, group->peer_len);

	if (fd < 0)
		return -1;
	*stopped = !pause_for(group, fd, POLLOUT, CONNECT_TIMEOUT_MS);
	if (!*stopped && !inc_race_ended(fd))
		return fd;
	close(fd);
	return -1;
}

/* Whether it is worth connecting again: the group has a communicator that works, or whose failure
 * is not reported yet. Called under the group's lock. */
static bool worth_it(const struct inccl_group *group)
{
	struct inccl_communicator *comm;
	bool worth = false;

	/* The controller does not know communicators that need no switch. A rank that another one
	 * leads has nothing to claim, but it is a member of the group. */
	for (comm = group->comms; comm && !worth && inccl_node_needs_network(group);
	     comm = comm->next) {
		pthread_mutex_lock(&comm->lock);
		worth = comm->phase == COMM_RUNNING && (!comm->error || comm->report == REPORT_DUE);
		pthread_mutex_unlock(&comm->lock);
	}
	return worth;
}

static void fill_claims(const struct inccl_group *group, struct inc_msg_resume *msg)
{
	const struct inccl_communicator *comm;
	struct inc_msg_claim *claim;

	for (comm = group->comms; comm && msg->n_claims < INC_MAX_GROUP_COMMS; comm = comm->next) {
		if (comm->phase != COMM_RUNNING || !comm->transport)
			continue;
		claim = &msg->claims[msg->n_claims++];
		claim->communicator = comm->number;
		claim->comm = comm->index;
		memcpy(claim->node, comm->node, sizeof(claim->node));
		snprintf(claim->transport, sizeof(claim->transport), "%s", comm->transport);
		claim->own = comm->own;
		claim->has_own_ip = group->rails.n;
		claim->own_ip.s_addr = comm->lanes.own;
		claim->payload = comm->payload;
		claim->slots = comm->slots;
		claim->mode = comm->mode;
		claim->floats = comm->native_floats ? INC_FLOATS_NATIVE : INC_FLOATS_FIXED;
		claim->message_packets = comm->message_packets;
		claim->messages = comm->messages;
		claim->byte_order = inccl_wire_order(comm);
	}
}

/* Sends message RESUME. From then on the connection carries messages again, and the answer arrives
 * like any other. */
static int send_resume(struct inccl_group *group)
{
	struct inc_msg_resume msg = {
		.group = group->number,
		.led = group->node && !inccl_node_asks(group),
	};
	int ret;

	inccl_group_introduce(group, &msg.join);
	inccl_rails_introduce(group, &msg.join);
	fill_claims(group, &msg);
	ret = inccl_control_send(group, INC_MSG_RESUME, &msg);
	if (ret) {
		inc_stream_close(&group->stream);
		return ret;
	}
	inccl_control_set_link(group, LINK_RESUMING);
	return 0;
}

/* Makes a new connection to the controller, or returns -1 if this attempt fails. Sets *stopped if
 * the group ends. */
static int connect_again(struct inccl_group *group, struct inc_stream *stream, bool *stopped)
{
	struct inc_err err;
	int fd = try_connect(group, stopped);

	if (fd < 0)
		return -1;
	if (!inccl_control_open(group, fd, deadline_after_ms(CONNECT_TIMEOUT_MS), group->stop_fd,
				stream, &err))
		return 0;
	close(fd);
	inccl_log_line(group->log, "%s", err.msg);
	inccl_log_deliver(group->log);
	return -1;
}

int inccl_control_resume(struct inccl_group *group)
{
	unsigned int wait_ms = RETRY_MIN_MS;
	struct inc_stream stream;
	bool stopped = false;
	int ret;

	for (;;) {
		if (!pause_for(group, -1, 0, wait_ms))
			return -ECANCELED;
		wait_ms = wait_ms * 2 > RETRY_MAX_MS ? RETRY_MAX_MS : wait_ms * 2;
		pthread_mutex_lock(&group->lock);
		ret = worth_it(group);
		pthread_mutex_unlock(&group->lock);
		if (!ret)
			continue;
		ret = connect_again(group, &stream, &stopped);
		if (stopped)
			return -ECANCELED;
		if (ret)
			continue;
		pthread_mutex_lock(&group->lock);
		group->stream = stream;
		ret = send_resume(group);
		pthread_mutex_unlock(&group->lock);
		if (!ret)
			return 0;
	}
}

void inccl_control_resumed(struct inccl_group *group)
{
	struct inccl_communicator *comm;

	inccl_control_set_link(group, LINK_UP);
	for (comm = group->comms; comm; comm = comm->next) {
		pthread_mutex_lock(&comm->lock);
		comm->orphan_at_ns = 0;
		/* the controller sends a notice again behind this message if it still stands */
		*comm->notice = '\0';
		pthread_mutex_unlock(&comm->lock);
		inccl_control_report(group, comm);
	}
	inccl_log_line(group->log, "controller %s is back and knows the running communicators",
		       group->controller);
}

void inccl_control_not_resumed(struct inccl_group *group, int error, const char *why)
{
	struct inccl_communicator *comm;
	char text[600];

	inccl_control_set_link(group, LINK_UP);
	/* the text includes the controller's reason, because it may have lost only this rank */
	snprintf(text, sizeof(text), "controller %s has given this group up: %s", group->controller,
		 why);
	for (comm = group->comms; comm; comm = comm->next)
		inccl_comm_fail(comm, error, -1, text);
}
