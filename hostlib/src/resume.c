/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connects to the controller, and connects again to one that was lost. Communicators go on
 * meanwhile, and this rank tells the new controller which ones it has (docs/control.md, resume).
 * Runs on the group's control thread.
 */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "lib/base/clock.h"
#include "lib/base/thread.h"
#include "lib/net/lookup.h"
#include "lib/net/race.h"
#include "lib/net/stream_lines.h"
#include "lib/net/wait.h"
#include "hostlib/node/node.h"
#include "hostlib/src/internal.h"

#define RETRY_MIN_MS 200
#define RETRY_MAX_MS 1000 /* the controller relies on this limit, by TRIES_MS in its resume.c */
/* how long one of several controllers has to answer, before the next one is tried */
#define NEXT_TRY_MS 700

static void tune(int fd)
{
	int one = 1, idle_s = 10;

	/* with these values the death of the controller's machine is detected within about a
	 * minute */
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &idle_s, sizeof(idle_s));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

/* Makes a stream to the controller of a connected socket, with TLS if the group has keys. The
 * stream belongs to the caller. stop_fd is that of inc_stream_open(). Returns 0, or -errno with the
 * reason in err; the caller then still owns the socket. */
static int open_socket(const struct inccl_group *group, int fd, uint64_t deadline_ns, int stop_fd,
		       struct inc_stream *stream, struct inc_err *err)
{
	struct inc_err why;
	int ret;

	tune(fd);
	ret = inc_stream_open(stream, fd, group->tls, group->host, deadline_ns, stop_fd, &why);
	return ret ? inc_err_set(err, -ret, "controller %s: %s", group->controller, why.msg) : 0;
}

/* Makes a connected socket the group's stream to the controller. fd may be -errno instead, with the
 * reason in why. */
static int open_stream(struct inccl_group *group, int fd, const char *why, uint64_t deadline_ns,
		       struct inc_err *err)
{
	int ret;

	if (fd < 0)
		return inc_err_set(err, -fd, "controller %s: %s", group->controller, why);
	ret = open_socket(group, fd, deadline_ns, -1, &group->stream, err);
	if (ret)
		close(fd);
	return ret;
}

/* Names the group's present controller in its texts and for TLS. */
static void name_controller(struct inccl_group *group)
{
	const struct inc_hostport *at = &group->controllers.at[group->controller_at];

	memcpy(group->host, at->host, sizeof(group->host));
	snprintf(group->controller, sizeof(group->controller), "%s:%s", at->host, at->port);
}

int inccl_control_connect(struct inccl_group *group, const struct inccl_place *place,
			  unsigned int timeout_ms, struct inc_err *err)
{
	const bool several = place->controllers.n > 1;
	const unsigned int limit_ms = timeout_ms
					      ?: several ? CONNECT_SEVERAL_MS
							 : CONNECT_TIMEOUT_MS;
	struct inc_err why;
	int ret;

	if (inc_tls_wanted(&place->tls)) {
		group->tls = inc_tls_client(&place->tls, err);
		if (!group->tls)
			return -EINVAL;
	}
	group->controllers = place->controllers;
	ret = inc_stream_reach(&group->stream, &group->controllers, &group->controller_at,
			       group->tls, deadline_after_ms(limit_ms), false, &why);
	name_controller(group);
	if (ret)
		return inc_err_set(err, -ret, "controller %s: %s", group->controller, why.msg);
	tune(group->stream.fd);
	return 0;
}

int inccl_control_connect_beside(struct inccl_group *group, struct inccl_group *other,
				 unsigned int timeout_ms, struct inc_err *err)
{
	uint64_t deadline_ns = deadline_after_ms(timeout_ms);
	struct sockaddr_storage peer;
	struct addrinfo one = {
		.ai_socktype = SOCK_STREAM,
		.ai_addr = (struct sockaddr *)&peer,
	};
	int fd;

	pthread_mutex_lock(&other->lock);
	peer = other->peer;
	one.ai_family = peer.ss_family;
	one.ai_addrlen = other->peer_len;
	group->controllers = other->controllers;
	group->controller_at = other->controller_at;
	pthread_mutex_unlock(&other->lock);
	name_controller(group);
	group->tls = other->tls ? inc_tls_hold(other->tls) : NULL;
	fd = inc_race_run(&one, deadline_ns);
	return open_stream(group, fd, fd < 0 ? strerror(-fd) : NULL, deadline_ns, err);
}

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

/* Returns the first address of the family by which the group has reached a controller before,
 * because a name may also have addresses at which no controller listens. Without one it is the
 * first. */
static const struct addrinfo *best_address(const struct addrinfo *list, int family)
{
	const struct addrinfo *at = list;

	while (at && at->ai_family != family)
		at = at->ai_next;
	return at ?: list;
}

/* Chooses the next one of several controllers, for the next attempt. Its address stays that of the
 * one before if its name cannot be looked up at present. */
static void choose_next(struct inccl_group *group)
{
	const struct inc_hostports *all = &group->controllers;
	const unsigned int next = (group->controller_at + 1) % all->n;
	const struct addrinfo *best;
	struct addrinfo *list;
	struct inc_err err;

	if (inc_lookup_wait(&all->at[next], deadline_after_ms(NEXT_TRY_MS), &list, &err)) {
		list = NULL;
		inccl_log_line(group->log, "controller %s: %s", all->at[next].host, err.msg);
	}
	pthread_mutex_lock(&group->lock);
	group->controller_at = next;
	name_controller(group);
	if (list) {
		best = best_address(list, group->peer.ss_family);
		memcpy(&group->peer, best->ai_addr, best->ai_addrlen);
		group->peer_len = best->ai_addrlen;
	}
	pthread_mutex_unlock(&group->lock);
	if (list)
		freeaddrinfo(list);
}

/* Tries once to connect to the controller. Returns the socket, or -1. Sets *stopped if the group
 * ends. */
static int try_connect(struct inccl_group *group, bool *stopped)
{
	const unsigned int limit_ms = group->controllers.n > 1 ? NEXT_TRY_MS : CONNECT_TIMEOUT_MS;
	const int fd =
		inc_os.stream.connect((const struct sockaddr *)&group->peer, group->peer_len);

	if (fd < 0)
		return -1;
	*stopped = !pause_for(group, fd, POLLOUT, limit_ms);
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
		claim->own_ip = comm->lanes.own;
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
	const bool several = group->controllers.n > 1;
	const unsigned int limit_ms = several ? NEXT_TRY_MS : CONNECT_TIMEOUT_MS;
	struct inc_err err;
	int fd = try_connect(group, stopped), ret;

	if (fd < 0)
		return -1;
	ret = open_socket(group, fd, deadline_after_ms(limit_ms), group->stop_fd, stream, &err);
	if (ret)
		close(fd);
	if (!ret && several) {
		ret = inc_stream_ping(stream, deadline_after_ms(limit_ms), &err);
		if (ret)
			inc_stream_close(stream);
	}
	if (!ret)
		return 0;
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
		if (group->controllers.n > 1)
			choose_next(group);
		else
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
