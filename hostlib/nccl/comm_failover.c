/* SPDX-License-Identifier: BSD-2-Clause */
/* Turns what happens to a comm into events for its state machine, and carries out the actions that
 * the machine returns. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "hostlib/nccl/comm_priv.h"
#include "lib/base/clock.h"

#define BATCH 32u
/* Most rounds in which one event's actions are carried out, so that a machine that returns actions
 * without end cannot hold the lock for ever. */
#define ROUNDS_MAX 64u

/* For HA_NCCL_RTO_ADAPTIVE: so many recoveries in succession, each shorter than QUICK_NS, show that
 * the RTO is too short for the paths. Then the RTO is raised. */
#define QUICK_RECOVERIES 3u
#define QUICK_NS         (100 * INC_NSEC_PER_MSEC)
#define RTO_MAX_NS       (5000 * INC_NSEC_PER_MSEC)

/* ---- control messages ------------------------------------------------------------------------ */

static void lose_socket(struct ha_comm *comm, int error)
{
	if (comm->stage == HA_STAGE_UP && !comm->ended && !comm->peer_gone)
		ha_log(comm->plugin, HA_LOG_INFO, "%s: socket: %s", comm->what, strerror(-error));
	ha_socket_close(&comm->socket);
	comm->socket.fd = -1;
}

void ha_comm_send_on_socket(struct ha_comm *comm, const uint8_t bytes[HA_MSG_BYTES])
{
	struct ha_socket *socket = &comm->socket;

	/* While the link is down, the queue keeps messages; one for which it has no room is
	 * dropped. The function that reads reports an error of the socket, after it has read what
	 * the peer sent before. */
	if (socket->fd >= 0 && socket->out_bytes + HA_MSG_BYTES <= sizeof(socket->out))
		ha_socket_send(socket, bytes);
}

void ha_comm_send(struct ha_comm *comm, const struct ha_control_msg *msg)
{
	uint8_t bytes[HA_MSG_BYTES];

	ha_control_msg_encode(msg, bytes);
	ha_comm_send_on_socket(comm, bytes);
	/* on a path, a message that cannot be sent counts as lost, because completions show that a
	 * path is dead */
	if (ha_comm_standby_ready(comm))
		ha_path_send(comm->standby, bytes);
	else if (comm->path && !comm->path->fenced && comm->stage == HA_STAGE_UP)
		ha_path_send(comm->path, bytes);
}

/* Answers a PING on the channel on which it came: a path, or the socket if path is NULL. */
static void answer_ping(struct ha_comm *comm, struct ha_path *path)
{
	struct ha_control_msg msg = {
		.type = HA_MSG_PONG, .nonce = comm->nonce, .epoch = comm->end->epoch};
	uint8_t bytes[HA_MSG_BYTES];

	ha_control_msg_encode(&msg, bytes);
	if (path)
		ha_path_send(path, bytes);
	else
		ha_comm_send_on_socket(comm, bytes);
}

static void handle_msg(struct ha_comm *comm, const struct ha_control_msg *msg, struct ha_path *path,
		       uint64_t now_ns)
{
	const bool up = comm->stage == HA_STAGE_UP;

	switch (msg->type) {
	case HA_MSG_HELLO:
		return;
	case HA_MSG_PATH_FAILED:
	case HA_MSG_PATH:
	case HA_MSG_PATH_READY:
		ha_comm_bringup(comm, ha_bringup_msg(&comm->bringup, msg, now_ns), now_ns);
		break;
	case HA_MSG_PING:
		/* a failed end does not answer, so that a peer that has missed the ABORT notices
		 * the silence */
		if (up && comm->end->state != HA_FAILED)
			answer_ping(comm, path);
		return;
	case HA_MSG_PONG:
		return;
	default:
		if (!up)
			return;
		if (msg->type == HA_MSG_CLOSE || msg->type == HA_MSG_ABORT)
			comm->peer_gone = true;
		HA_MACHINE_EVENT(comm, msg, msg, now_ns);
	}
	if (comm->stage == HA_STAGE_UP)
		ha_comm_do(comm, now_ns);
}

static int receive_msg(struct ha_comm *comm, const uint8_t *bytes, struct ha_path *path,
		       uint64_t now_ns)
{
	struct ha_control_msg msg;
	struct inc_err err;
	const int ret = ha_control_msg_decode(bytes, &msg, &err);

	if (ret) {
		ha_log(comm->plugin, HA_LOG_WARN, "%s: %s", comm->what, err.msg);
		return ret;
	}
	if (comm->stage == HA_STAGE_HELLO) {
		ha_comm_hello(comm, &msg, now_ns);
		return 0;
	}
	if (msg.nonce != comm->nonce)
		return 0;
	if (!path)
		comm->socket_beat.received = true;
	else if (path == comm->standby)
		comm->standby_beat.received = true;
	handle_msg(comm, &msg, path, now_ns);
	return 0;
}

unsigned int ha_comm_receive_on_socket(struct ha_comm *comm, uint64_t now_ns)
{
	uint8_t bytes[HA_MSG_BYTES];
	unsigned int n = 0;
	int ret = 0;

	while (n < BATCH && comm->socket.fd >= 0) {
		ret = ha_socket_receive(&comm->socket, bytes);
		if (ret > 0)
			ret = receive_msg(comm, bytes, NULL, now_ns) ?: 1;
		if (ret <= 0)
			break;
		n++;
	}
	if (ret < 0 && comm->socket.fd >= 0)
		lose_socket(comm, ret);
	return n;
}

/* ---- completions ---------------------------------------------------------------------------- */

static void take_event(struct ha_comm *comm, struct ha_path *path,
		       const struct ha_path_event *event, uint64_t now_ns)
{
	switch (event->kind) {
	case HA_PATH_LANDED:
		if (comm->metrics)
			ha_metrics_add(&comm->metrics->path[path->rail].received_bytes,
				       event->bytes);
		if (comm->sends)
			break;
		ha_comm_note_landed(comm, path, event->sequence);
		ha_receiver_landed(&comm->receiver, path->epoch, event->sequence, event->bytes,
				   now_ns, &comm->todo);
		break;
	case HA_PATH_MSG:
		receive_msg(comm, event->msg, path, now_ns);
		break;
	case HA_PATH_COMPLETED:
		if (!event->ok && path == comm->path && !event->flushed)
			ha_log(comm->plugin, HA_LOG_INFO, "%s: %s: %s", comm->what, path->name,
			       event->why);
		HA_MACHINE_EVENT(comm, completed, event->wr_id, event->ok, now_ns);
		break;
	case HA_PATH_DEAD:
		if (path == comm->path || path == comm->standby)
			ha_log(comm->plugin, HA_LOG_INFO, "%s: %s: %s", comm->what, path->name,
			       event->why);
		if (path == comm->path)
			HA_MACHINE_EVENT(comm, trigger, HA_CAUSE_ERROR, now_ns);
		else if (path == comm->standby)
			ha_comm_bringup(comm, ha_bringup_failed(&comm->bringup, now_ns), now_ns);
		break;
	}
	ha_comm_do(comm, now_ns);
}

static unsigned int poll_path(struct ha_comm *comm, struct ha_path *path, unsigned int budget,
			      uint64_t now_ns)
{
	struct ha_path_event events[BATCH];
	unsigned int n, i, all = 0;

	comm->polled = path;
	do {
		n = ha_path_poll(path, events, budget < BATCH ? budget : BATCH);
		for (i = 0; i < n; i++)
			take_event(comm, path, &events[i], now_ns);
		budget -= n;
		all += n;
	} while (n && budget && !comm->polled_is_doomed);
	comm->polled = NULL;
	if (comm->polled_is_doomed) {
		comm->polled_is_doomed = false;
		ha_comm_destroy_path(comm, path);
	}
	return all;
}

/* Polls fenced paths until they are drained, because their completions show what became of the last
 * requests. A drained path is destroyed. */
static unsigned int poll_old(struct ha_comm *comm, uint64_t now_ns)
{
	unsigned int i, n = 0;

	for (i = 0; i < HA_OLD_PATHS; i++) {
		struct ha_path *path = comm->old[i];

		if (!path)
			continue;
		n += poll_path(comm, path, HA_RECEIVES + HA_WRITES, now_ns);
		if (comm->old[i] != path || !ha_path_drained(path))
			continue;
		comm->old[i] = NULL;
		if (!comm->sends)
			ha_receiver_drained(&comm->receiver, path->epoch, now_ns, &comm->todo);
		ha_comm_destroy_path(comm, path);
		ha_comm_do(comm, now_ns);
	}
	return n;
}

unsigned int ha_comm_poll(struct ha_comm *comm, unsigned int budget, uint64_t now_ns)
{
	unsigned int n = comm->path ? poll_path(comm, comm->path, budget, now_ns) : 0;

	return n + poll_old(comm, now_ns);
}

unsigned int ha_comm_poll_standby(struct ha_comm *comm, uint64_t now_ns)
{
	return comm->standby ? poll_path(comm, comm->standby, BATCH, now_ns) : 0;
}

/* ---- actions of the machine ------------------------------------------------------------------ */

static void keep_old(struct ha_comm *comm, struct ha_path *path)
{
	unsigned int i;

	for (i = 0; i < HA_OLD_PATHS && comm->old[i]; i++)
		;
	/* the oldest fenced path is destroyed, because its epoch is long past */
	if (i == HA_OLD_PATHS) {
		ha_comm_destroy_path(comm, comm->old[0]);
		memmove(&comm->old[0], &comm->old[1], --i * sizeof(comm->old[0]));
	}
	comm->old[i] = path;
}

static bool is_draining(const struct ha_comm *comm, uint32_t epoch)
{
	unsigned int i;

	for (i = 0; i < HA_OLD_PATHS; i++)
		if (comm->old[i] && comm->old[i]->epoch == epoch)
			return true;
	return false;
}

static void fence(struct ha_comm *comm, uint32_t epoch, uint64_t now_ns)
{
	struct inc_err err;

	if (comm->path && comm->path->epoch == epoch) {
		/* an error is only logged: a path that cannot be fenced never drains, so the
		 * machine's RTO ends the comm */
		if (ha_path_fence(comm->path, &err))
			ha_log(comm->plugin, HA_LOG_WARN, "%s: %s", comm->what, err.msg);
		if (!comm->sends)
			ha_comm_note_left(comm, comm->path, now_ns);
		keep_old(comm, comm->path);
		comm->path = NULL;
		comm->n_later = 0;
	} else if (!comm->sends && !is_draining(comm, epoch)) {
		ha_receiver_drained(&comm->receiver, epoch, now_ns, &comm->todo);
	}
}

/* If the state machine has entered another epoch, fences the path of the old epoch, and uses the
 * standby path from now on. */
static void follow_epoch(struct ha_comm *comm, uint64_t now_ns)
{
	if (comm->path_epoch == comm->end->epoch)
		return;
	if (comm->path)
		fence(comm, comm->path->epoch, now_ns);
	ha_comm_take_standby(comm);
}

static int post_payload(struct ha_comm *comm, unsigned int request)
{
	const struct ha_send *send = &comm->sender.send[request];
	const struct ha_region *region = send->region;
	const int ret =
		ha_path_write(comm->path, ha_wr_id(comm->path->epoch, request), send->buffer,
			      region ? ha_region_lkey(region, comm->path->rail) : 0, send->bytes,
			      send->address, send->rkey, send->sequence);

	if (!ret && comm->metrics)
		ha_metrics_add(&comm->metrics->path[comm->path->rail].sent_bytes, send->bytes);
	return ret;
}

static int post_description(struct ha_comm *comm, unsigned int place)
{
	const struct ha_open_slot *open = &comm->receiver.slot[place];
	const struct ha_region *region = open->region;
	struct ha_slot slot;

	ha_receiver_describe(&comm->receiver, place, &slot);
	slot.address = (uintptr_t)open->buffer;
	slot.rkey = region ? ha_region_rkey(region, comm->path->rail) : 0;
	return ha_path_describe(comm->path, ha_wr_id(comm->path->epoch, place), &slot);
}

/* Posts one request's payload (sender) or one slot's description (receiver). Returns 1 if the
 * path's device has not registered the memory yet, otherwise 0 or -errno. */
static int post(struct ha_comm *comm, unsigned int index)
{
	const struct ha_region *region =
		comm->sends ? comm->sender.send[index].region : comm->receiver.slot[index].region;

	if (!comm->path || comm->path->epoch != comm->end->epoch)
		return -ENOTCONN;
	/* with this error the comm leaves the path, because the standby's device may accept the
	 * memory */
	if (ha_comm_refused(region, comm->path->rail)) {
		if (!comm->sends && ha_comm_refused(region, comm->path->rail ^ 1))
			ha_receiver_fail(&comm->receiver, -EIO,
					 "no rail's device accepts the memory", inc_now_ns(),
					 &comm->todo);
		return -EACCES;
	}
	if (!ha_comm_is_registered(region, comm->path->rail))
		return 1;
	return comm->sends ? post_payload(comm, index) : post_description(comm, index);
}

/* Posts payloads or descriptions in order. If the memory of one is not registered yet, all later
 * ones wait as well. */
static void post_all(struct ha_comm *comm, const uint16_t *index, unsigned int n, uint64_t now_ns)
{
	unsigned int i;
	int ret = 0;

	for (i = 0; i < n && ret >= 0; i++) {
		ret = comm->n_later ? 1 : post(comm, index[i]);
		if (ret <= 0)
			continue;
		if (comm->n_later < HA_SLOTS)
			comm->later[comm->n_later++] = index[i];
		ha_comm_register_all(comm);
	}
	if (ret < 0)
		HA_MACHINE_EVENT(comm, trigger, HA_CAUSE_ERROR, now_ns);
}

void ha_comm_post_later(struct ha_comm *comm, uint64_t now_ns)
{
	uint16_t index[HA_SLOTS];
	const unsigned int n = comm->n_later;

	memcpy(index, comm->later, n * sizeof(index[0]));
	comm->n_later = 0;
	post_all(comm, index, n, now_ns);
}

static void probe(struct ha_comm *comm, uint64_t now_ns)
{
	if (!comm->path || ha_path_probe(comm->path, ha_wr_id(comm->path->epoch, HA_WR_PROBE)))
		HA_MACHINE_EVENT(comm, trigger, HA_CAUSE_ERROR, now_ns);
}

static void adapt_rto(struct ha_comm *comm, uint64_t took_ns)
{
	uint64_t *rto_ns = &comm->end->times.rto_ns;

	comm->quick_recoveries = took_ns < QUICK_NS ? comm->quick_recoveries + 1 : 0;
	if (!comm->config.rto_adaptive || comm->quick_recoveries < QUICK_RECOVERIES)
		return;
	comm->quick_recoveries = 0;
	if (*rto_ns >= RTO_MAX_NS)
		return;
	*rto_ns = *rto_ns * 3 / 2 < RTO_MAX_NS ? *rto_ns * 3 / 2 : RTO_MAX_NS;
	ha_log(comm->plugin, HA_LOG_INFO,
	       "%s: %u quick recoveries: HA_NCCL_RTO_MS is now %llu for it", comm->what,
	       QUICK_RECOVERIES, (unsigned long long)(*rto_ns / INC_NSEC_PER_MSEC));
}

static void log_failover(struct ha_comm *comm)
{
	const struct ha_failover *failover = &comm->end->failover;
	const uint64_t took_ns = failover->flowing_at_ns - failover->began_at_ns;

	ha_log(comm->plugin, HA_LOG_WARN,
	       "%s: failover: cause %s, epoch %u, %llu ms, %u replayed, %u already delivered",
	       comm->what, ha_cause_text(failover->cause), failover->epoch,
	       (unsigned long long)(took_ns / INC_NSEC_PER_MSEC), failover->replayed,
	       failover->delivered);
	ha_metrics_failover(comm->metrics, failover, took_ns);
	adapt_rto(comm, took_ns);
}

/* Handles that the state machine is DONE or FAILED. A failed comm is fenced at once, because NCCL
 * may reuse the memory. A comm that is DONE keeps its path, because it may still answer the
 * peer. */
static void handle_end(struct ha_comm *comm, uint64_t now_ns)
{
	struct inc_err err;

	comm->ended = true;
	comm->ended_at_ns = now_ns;
	if (comm->end->state != HA_FAILED)
		return;
	if (comm->metrics)
		ha_metrics_add(&comm->metrics->figures.failed_comms, 1);
	ha_log(comm->plugin, HA_LOG_WARN, "%s: failed in epoch %u: %s", comm->what,
	       comm->end->epoch, comm->end->why ? comm->end->why : strerror(-comm->end->error));
	if (comm->path && !comm->path->fenced && ha_path_fence(comm->path, &err))
		ha_log(comm->plugin, HA_LOG_WARN, "%s: %s", comm->what, err.msg);
	comm->n_later = 0;
}

/* Logs that the path in use has failed. A receiver whose peer has ended is BROKEN, too, until its
 * queue pair has drained, but handle_end() logs that. */
static void log_broken(struct ha_comm *comm)
{
	if (comm->end->state != HA_BROKEN || (!comm->sends && comm->receiver.ending))
		return;
	ha_log(comm->plugin, HA_LOG_WARN,
	       "%s: the path of epoch %u has failed: cause %s, and no other path is ready",
	       comm->what, comm->end->epoch, ha_cause_text(comm->end->cause));
}

static bool is_empty(const struct ha_todo *todo)
{
	return !(todo->fence || todo->msgs || todo->posts || todo->probe || todo->failover_over ||
		 todo->ended);
}

/* Clears the actions of *todo that were carried out. The other members mean nothing without
 * these. */
static void clear(struct ha_todo *todo)
{
	todo->fence = todo->probe = todo->failover_over = todo->ended = false;
	todo->msgs = todo->posts = 0;
}

void ha_comm_do(struct ha_comm *comm, uint64_t now_ns)
{
	unsigned int rounds, i;
	struct ha_todo todo;

	for (rounds = 0; rounds < ROUNDS_MAX && !is_empty(&comm->todo); rounds++) {
		todo = comm->todo;
		clear(&comm->todo);
		if (todo.fence)
			fence(comm, todo.fence_epoch, now_ns);
		follow_epoch(comm, now_ns);
		if (todo.fence)
			log_broken(comm);
		for (i = 0; i < todo.msgs; i++)
			ha_comm_send(comm, &todo.msg[i]);
		/* the failover is logged first, because the actions below may start the next one */
		if (todo.failover_over)
			log_failover(comm);
		if (todo.posts)
			post_all(comm, todo.post, todo.posts, now_ns);
		if (todo.probe)
			probe(comm, now_ns);
		if (todo.ended)
			handle_end(comm, now_ns);
	}
}
