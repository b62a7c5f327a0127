/* SPDX-License-Identifier: BSD-2-Clause */
/* Brings up the next path of a comm: carries out the actions of bringup.h, most of them on a
 * worker's thread. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "hostlib/nccl/comm_priv.h"
#include "lib/base/clock.h"

/* ---- jobs ----------------------------------------------------------------------------------- */

struct ha_comm_job *ha_comm_job(struct ha_comm *comm, void (*run)(struct ha_job *job))
{
	struct ha_comm_job *job = calloc(1, sizeof(*job));

	if (!job)
		return NULL;
	job->job.run = run;
	job->comm = comm;
	comm->jobs++;
	return job;
}

/* The progress thread is read first, because the comm may be freed as soon as its lock is free. */
void ha_comm_job_over(struct ha_comm *comm, struct ha_comm_job *job)
{
	struct ha_progress *progress = comm->plugin->progress;

	free(job);
	if (comm->stage == HA_STAGE_UP)
		ha_comm_do(comm, inc_now_ns());
	comm->jobs--;
	pthread_mutex_unlock(&comm->lock);
	ha_progress_wake(progress);
}

static void run_destroy(struct ha_job *base)
{
	struct ha_comm_job *job = (struct ha_comm_job *)base;

	ha_path_destroy(job->path);
	pthread_mutex_lock(&job->comm->lock);
	ha_comm_job_over(job->comm, job);
}

void ha_comm_destroy_path(struct ha_comm *comm, struct ha_path *path)
{
	struct ha_comm_job *job;

	if (!path)
		return;
	if (path == comm->polled) {
		comm->polled_is_doomed = true;
		return;
	}
	job = ha_comm_job(comm, run_destroy);
	if (!job) {
		ha_path_destroy(path);
		return;
	}
	job->path = path;
	ha_worker_do(comm->plugin->worker, &job->job);
}

/* Locks the comm at the end of a worker's job, to use the job's result. Returns false if the result
 * is not wanted any more; then the job's path is destroyed. */
static bool take_result(struct ha_comm_job *job, int ret, const struct inc_err *err)
{
	struct ha_comm *comm = job->comm;

	pthread_mutex_lock(&comm->lock);
	if (!job->dropped) {
		comm->bringing = NULL;
		if (ret) {
			comm->path_err = *err;
			ha_log(comm->plugin, HA_LOG_TRACE, "%s: no path for epoch %u yet: %s",
			       comm->what, job->path ? job->path->epoch : job->opts.epoch,
			       err->msg);
		}
		return true;
	}
	pthread_mutex_unlock(&comm->lock);
	ha_path_destroy(job->path);
	pthread_mutex_lock(&comm->lock);
	return false;
}

static void run_make(struct ha_job *base)
{
	struct ha_comm_job *job = (struct ha_comm_job *)base;
	struct ha_comm *comm = job->comm;
	struct inc_err err;
	const int ret = ha_path_make(&job->path, &job->opts, &err);
	uint64_t now_ns;

	if (take_result(job, ret, &err)) {
		now_ns = inc_now_ns();
		comm->standby = job->path;
		if (!ret)
			comm->own = job->path->own;
		if (!ret && ha_path_fd(job->path) >= 0)
			job->path->watcher =
				ha_progress_watch(comm->plugin->progress, ha_path_fd(job->path));
		ha_comm_bringup(comm,
				ret ? ha_bringup_failed(&comm->bringup, now_ns)
				    : ha_bringup_made(&comm->bringup, now_ns),
				now_ns);
	}
	ha_comm_job_over(comm, job);
}

static void run_enter(struct ha_job *base)
{
	struct ha_comm_job *job = (struct ha_comm_job *)base;
	struct ha_comm *comm = job->comm;
	struct inc_err err;
	const int ret = ha_path_enter(job->path, &job->peer, &comm->config, &err);
	const uint8_t rail = job->path->rail;
	const bool wanted = take_result(job, ret, &err);
	const uint64_t now_ns = inc_now_ns();

	comm->entering &= ~(1u << rail);
	if (wanted) {
		comm->standby = job->path;
		ha_comm_bringup(comm,
				ret ? ha_bringup_failed(&comm->bringup, now_ns)
				    : ha_bringup_entered(&comm->bringup, now_ns),
				now_ns);
	} else if (comm->enter_waits && comm->open && !comm->ended) {
		ha_comm_bringup(comm, HA_BRINGUP_ENTER, now_ns);
	}
	ha_comm_job_over(comm, job);
}

/* ---- actions of the bring-up ----------------------------------------------------------------- */

static void drop(struct ha_comm *comm)
{
	if (comm->bringing)
		comm->bringing->dropped = true;
	comm->bringing = NULL;
	comm->enter_waits = false;
	ha_comm_destroy_path(comm, comm->standby);
	comm->standby = NULL;
}

/* These two functions begin a job on a worker. They return 0 or -errno. */
static int make(struct ha_comm *comm)
{
	struct ha_comm_job *job = ha_comm_job(comm, run_make);

	if (!job)
		return -ENOMEM;
	job->opts = (struct ha_path_opts){
		.devices = &comm->plugin->devices,
		.rail = &comm->device->rail[comm->bringup.rail],
		.rail_number = comm->bringup.rail,
		.epoch = comm->bringup.epoch,
		.attempt = comm->bringup.attempt,
		.ring = comm->ring,
		.what = comm->what,
	};
	comm->bringing = job;
	ha_worker_do(comm->plugin->worker, &job->job);
	return 0;
}

/* A step of an earlier attempt may still hang on the rail. A leader with two rails fails then if
 * none hangs on the other one, because its next attempt is there. Others wait for the end of that
 * step, or until an end gives this attempt up. A leader that failed each time would soon have used
 * up the attempts of a comm's first path. */
static int enter(struct ha_comm *comm)
{
	const uint8_t rail_bit = 1u << comm->standby->rail;
	const bool hangs = comm->entering & rail_bit;
	const bool other = comm->bringup.leads && comm->dual && comm->entering == rail_bit;
	struct ha_comm_job *job;

	comm->enter_waits = hangs && !other;
	if (comm->enter_waits)
		return 0;
	if (hangs)
		return inc_err_set(&comm->path_err, EBUSY,
				   "%s: an earlier queue pair still waits for its peer's address",
				   comm->standby->name);
	job = ha_comm_job(comm, run_enter);
	if (!job)
		return -ENOMEM;
	comm->entering |= rail_bit;
	job->path = comm->standby;
	job->peer = comm->bringup.peer;
	comm->standby = NULL;
	comm->bringing = job;
	ha_worker_do(comm->plugin->aimer, &job->job);
	return 0;
}

static void send_path_msg(struct ha_comm *comm, enum ha_control_msg_type type)
{
	struct ha_control_msg msg = {
		.type = type, .nonce = comm->nonce, .epoch = comm->bringup.epoch};

	if (type == HA_MSG_PATH)
		msg.path = comm->own;
	msg.path.attempt = comm->bringup.attempt;
	msg.path.rail = comm->bringup.rail;
	ha_comm_send(comm, &msg);
}

/* Makes the comm ready, because its first path is up: connect or accept now returns the comm to
 * NCCL. */
static void come_up(struct ha_comm *comm, uint64_t now_ns)
{
	const struct ha_times times = {
		.rto_ns = comm->config.rto_ms * INC_NSEC_PER_MSEC,
		.heartbeat_ns = comm->config.heartbeat_ms * INC_NSEC_PER_MSEC,
	};

	if (comm->sends)
		ha_sender_init(&comm->sender, &times, comm->nonce, comm->dual, comm->ring, now_ns);
	else
		ha_receiver_init(&comm->receiver, &times, comm->nonce, comm->dual, now_ns);
	ha_comm_set_stage(comm, HA_STAGE_UP);
	comm->channel = true;
	comm->looked_at_ns = now_ns;
	comm->socket_beat.pinged_at_ns = comm->ports_at_ns = now_ns;
	ha_comm_take_standby(comm);
	ha_log(comm->plugin, HA_LOG_INFO, "%s: up on %s, %s", comm->what, comm->path->name,
	       comm->dual ? "a standby comes up" : "single path");
}

/* Asks the rail's device again for memory that it has refused, because another path on the rail is
 * up. */
static void register_anew(struct ha_comm *comm, unsigned int rail)
{
	ha_comm_forget_refusals(comm, rail);
	ha_comm_register_all(comm);
}

static void up(struct ha_comm *comm, uint64_t now_ns)
{
	if (comm->stage != HA_STAGE_UP) {
		come_up(comm, now_ns);
		return;
	}
	comm->standby_at_ns = now_ns;
	comm->standby_beat = (struct ha_beat){.pinged_at_ns = now_ns, .received = true};
	ha_log(comm->plugin, HA_LOG_TRACE, "%s: %s stands by for epoch %u", comm->what,
	       comm->standby->name, comm->bringup.epoch);
	HA_MACHINE_EVENT(comm, path, comm->bringup.epoch, true, now_ns);
	register_anew(comm, comm->standby->rail);
}

void ha_comm_bringup(struct ha_comm *comm, unsigned int bits, uint64_t now_ns)
{
	int ret = 0;

	if (bits & HA_BRINGUP_DROP)
		drop(comm);
	if (bits & HA_BRINGUP_MAKE)
		ret = make(comm);
	if (bits & HA_BRINGUP_OFFER)
		send_path_msg(comm, HA_MSG_PATH);
	if (bits & HA_BRINGUP_ENTER)
		ret = enter(comm);
	if (bits & HA_BRINGUP_SEND_READY)
		send_path_msg(comm, HA_MSG_PATH_READY);
	if (bits & HA_BRINGUP_SEND_FAILED)
		send_path_msg(comm, HA_MSG_PATH_FAILED);
	if (bits & HA_BRINGUP_DOWN && comm->stage == HA_STAGE_UP)
		HA_MACHINE_EVENT(comm, path, comm->bringup.epoch, false, now_ns);
	if (bits & HA_BRINGUP_UP)
		up(comm, now_ns);
	/* the recursion ends here, because the failed bring-up is IDLE and tries again later */
	if (ret)
		ha_comm_bringup(comm, ha_bringup_failed(&comm->bringup, now_ns), now_ns);
}

bool ha_comm_standby_ready(const struct ha_comm *comm)
{
	return comm->standby && comm->bringup.state == HA_BRINGUP_READY;
}

/*
 * Makes the standby path the path in use, because the end has entered an epoch. The path may still
 * be ENTERED: the peer, for which it is READY, may have entered the epoch first. If there is no
 * path (it died and the peer did not know that yet), the end has no path until the next epoch.
 */
void ha_comm_take_standby(struct ha_comm *comm)
{
	const struct ha_bringup *bringup = &comm->bringup;

	if (comm->standby && bringup->epoch == comm->end->epoch &&
	    bringup->state >= HA_BRINGUP_ENTERED) {
		comm->path = comm->standby;
		comm->rail = comm->path->rail;
		comm->standby = NULL;
		/* up() has done this for a path that is READY */
		if (bringup->state == HA_BRINGUP_ENTERED)
			register_anew(comm, comm->rail);
	}
	comm->path_epoch = comm->end->epoch;
	drop(comm);
	ha_bringup_taken(&comm->bringup);
	/* From now on a follower accepts the leader's PATH for the next epoch. The leader waits
	 * until both ends have left the old epoch. */
	if (comm->dual && !comm->bringup.leads)
		ha_bringup_want(&comm->bringup, comm->end->epoch + 1, 0, inc_now_ns());
}
