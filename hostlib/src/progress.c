/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The engine of a communicator: posts the messages of requests within the window, and finishes
 * requests. One thread at a time drives it: a caller that waits, or else the communicator's thread,
 * so that retransmissions, ACKs and notices of the controller are served while the application
 * computes. A further channel is always driven by its thread, so that channels progress in
 * parallel. The driver sleeps in poll() without the lock. A caller polls for a short time before it
 * sleeps (lib/base/spin.h).
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include "lib/base/clock.h"
#include "lib/base/thread.h"
#include "lib/proto/desc.h"
#include "hostlib/node/node.h"
#include "hostlib/src/coll/coll.h"
#include "hostlib/src/internal.h"

/* Time without a call of the user after which the communicator's thread serves the endpoint. A
 * handover after every call would cost two context switches per collective. */
#define TAKE_OVER_NS (4 * INC_NSEC_PER_MSEC)
/* Collectives that are started within BURST_NS of each other are a burst, whose packets share
 * sends. They wait for the next call, until they are BURST_PACKETS, or for BURST_HOLD_NS if no call
 * follows. */
#define BURST_NS      (20 * INC_NSEC_PER_USEC)
#define BURST_PACKETS 32
#define BURST_HOLD_NS (100 * INC_NSEC_PER_USEC)
/* The longest sleep of the thread until it checks whether the user has called the library. While
 * calls leave nothing under way, its sleep grows from TAKE_OVER_NS to this, because waking it costs
 * as much as half a small collective. */
#define LOOK_MAX_NS (4 * TAKE_OVER_NS)

/* Sets which thread serves the endpoint. After the communicator's thread, or the call that destroys
 * the communicator, no other call follows soon. So the endpoint then sends held-back ACKs at
 * once. */
static void set_driver(struct inccl_communicator *comm, enum inccl_driver driver)
{
	comm->driver = driver;
	comm->ep->ops->attend(comm->ep->ch, driver != DRIVER_THREAD && driver != DRIVER_LAST);
}

static void finish(struct inccl_communicator *comm, struct inccl_request *req, int result)
{
	req->done = true;
	req->result = result;
	comm->head = req->next;
	if (comm->posting == req)
		comm->posting = req->next;
}

void inccl_comm_report(struct inccl_communicator *comm, enum inccl_report_event event)
{
	/* The next state for each state and event. A missing entry is REPORT_NONE: a communicator
	 * that works has nothing to report, and the controller needs no report of its own
	 * notice. */
	static const enum inccl_report next[][REPORT_LOST + 1] = {
		[REPORT_NONE] = {[REPORT_FAILED] = REPORT_DUE},
		[REPORT_DUE] = {[REPORT_FAILED] = REPORT_DUE,
				[REPORT_SENT] = REPORT_DONE,
				[REPORT_LOST] = REPORT_DUE},
		[REPORT_DONE] = {[REPORT_FAILED] = REPORT_DONE,
				 [REPORT_SENT] = REPORT_DONE,
				 [REPORT_LOST] = REPORT_DUE},
	};

	comm->report = next[comm->report][event];
}

void inccl_comm_fail_locked(struct inccl_communicator *comm, int error, int rank, const char *text)
{
	if (comm->error)
		return;
	comm->error = error ?: EIO;
	inccl_rails_suspect(comm);
	comm->failed_rank = rank;
	snprintf(comm->error_text, sizeof(comm->error_text), "%s", text);
	/* after a mismatch of collectives no report is due, because the switch has reported it */
	inccl_comm_report(comm, comm->ep->mismatch ? REPORT_KNOWN : REPORT_FAILED);
	inc_signal_fd(comm->group->stop_fd);
	while (comm->head)
		finish(comm, comm->head, -comm->error);
	inccl_log_line(comm->group->log, "communicator %lld has failed: %s", comm->number, text);
	pthread_cond_broadcast(&comm->changed);
}

/* Whether the endpoint has failed and the controller's notice may still explain why. */
static bool in_grace(const struct inccl_communicator *comm)
{
	return comm->grace_error && !comm->orphan_at_ns && inc_now_ns() < comm->grace_over_at_ns;
}

static void endpoint_failed(struct inccl_communicator *comm, int error)
{
	char text[sizeof(comm->error_text)];

	if (comm->ep->mismatch && !comm->grace_error) {
		/* the switch has reported the ranks to the controller, which will soon name them */
		comm->grace_error = error;
		comm->grace_over_at_ns = deadline_after_ms(NOTICE_GRACE_MS);
	}
	if (in_grace(comm))
		return;
	if (comm->ep->on_node && !comm->ep->network_failed) {
		inccl_comm_fail_locked(comm, error, comm->ep->failed_rank, comm->ep->error);
		return;
	}
	snprintf(text, sizeof(text), "%s: %s", comm->peer, comm->ep->error);
	inccl_comm_fail_locked(comm, error, -1, text);
	if (comm->ep->on_node)
		inccl_node_pass_on(comm->ep, error, -1, text);
}

/*
 * Whether the window has room for the request's next message. A passthrough switch makes the result
 * in the frame of the last contribution, and in a Broadcast only the root's frames are long enough
 * (decisions.md). So the root uses a quarter of the window and the other ranks all of it. Then the
 * other ranks' packets of length 0 usually arrive before the root's. Parts of a collective share a
 * window, because queues on the way that have room for one window may not have it for several.
 */
static bool has_room(const struct inccl_request *req, const struct inc_channel_exchange *msg)
{
	const struct inccl_communicator *comm = req->comm;
	const struct inccl_endpoint *ep = comm->ep;
	uint64_t packets = (uint64_t)comm->window_messages * comm->message_packets;

	if (req->parts && packets / req->parts >= comm->message_packets)
		packets /= req->parts;

	if (msg->send_len && inc_root_gives(msg->imm) && !inccl_steps_are_messages(comm))
		packets = (packets + 3) / 4;
	return ep->posted - ep->completed < comm->messages &&
	       inccl_endpoint_under_way(ep) + inccl_segment_packets(comm, msg) <= packets;
}

/* Fails the communicator, because a request's values, or its results, are inconsistent. */
static void request_failed(struct inccl_communicator *comm, int error, const struct inc_err *err)
{
	inccl_comm_fail_locked(comm, error, error == ERANGE ? comm->group->rank : -1, err->msg);
}

/* Posts the next message of a request. Returns 1 if it is posted, 0 if there is no room now, or
 * -errno. */
static int post_next(struct inccl_communicator *comm, struct inccl_request *req)
{
	struct inccl_endpoint *ep = comm->ep;
	struct inc_channel_exchange msg;
	struct inc_err err;
	int ret;

	inccl_segment_message(req, req->posted, &msg);
	if (!has_room(req, &msg))
		return 0;
	ret = inccl_uses_bounce(req) ? inccl_bounce_fill(req, &msg, &err) : 0;
	if (ret && ret != -EAGAIN)
		request_failed(comm, -ret, &err);
	if (ret)
		return 0;
	ret = inccl_endpoint_post(ep, &msg);
	if (ret)
		return ret == -EAGAIN ? 0 : ret;
	if (inccl_uses_bounce(req))
		inccl_bounce_posted(comm);
	comm->unsent_packets += inccl_segment_packets(comm, &msg);
	req->posted++;
	return 1;
}

static int post_some(struct inccl_communicator *comm)
{
	struct inccl_request *req;
	int ret;

	while ((req = comm->posting)) {
		while (req->posted < req->messages) {
			ret = post_next(comm, req);
			if (ret <= 0)
				return ret;
		}
		req->end = comm->ep->posted;
		ret = req->floats ? inccl_floats_advance(req) : 0;
		if (ret < 0)
			/* the request needs results first, and later requests must not overtake
			 * it */
			return 0;
		if (!ret)
			comm->posting = req->next;
	}
	return 0;
}

static bool finish_some(struct inccl_communicator *comm)
{
	struct inccl_request *req;
	bool any = false;
	struct inc_err err;
	int ret;

	ret = inccl_bounce_collect(comm, &err);
	if (ret) {
		request_failed(comm, -ret, &err);
		return true;
	}
	while ((req = comm->head) && req != comm->posting && comm->ep->completed >= req->end) {
		finish(comm, req, 0);
		any = true;
	}
	return any;
}

static void set_alarm(struct inccl_communicator *comm, uint64_t at_ns)
{
	if (at_ns == comm->alarm_at_ns)
		return;
	inc_os.wait.set_alarm(comm->alarm_fd, at_ns);
	comm->alarm_at_ns = at_ns;
}

/* Posts and sends as many messages as possible. After an error the communicator fails. */
static int send_some(struct inccl_communicator *comm)
{
	const bool held = comm->unsent_packets;
	int ret = post_some(comm);

	if (!ret)
		ret = inccl_endpoint_flush(comm->ep);
	if (ret)
		endpoint_failed(comm, -ret);
	comm->unsent_packets = 0;
	/* inccl_comm_leave() sets the alarm anew if anything else needs it */
	if (held)
		set_alarm(comm, UINT64_MAX);
	return ret;
}

/* Posts the packets of a collective in a burst, and leaves their sending to the next call. Returns
 * false if they must be sent now. */
static bool hold_back(struct inccl_communicator *comm)
{
	/* a request that waits for room in the window needs results to be received now */
	return comm->driver == DRIVER_NONE && !post_some(comm) && !comm->posting &&
	       comm->unsent_packets < BURST_PACKETS;
}

/* Whether a collective that is started now belongs to a burst. */
static bool in_burst(struct inccl_communicator *comm)
{
	const uint64_t now_ns = inc_now_ns(), gap_ns = now_ns - comm->started_at_ns;

	comm->started_at_ns = now_ns;
	return gap_ns < BURST_NS;
}

void inccl_comm_begin(struct inccl_communicator *comm, bool waits)
{
	const bool burst = !waits && in_burst(comm);

	if (comm->error || in_grace(comm))
		return;
	/* without messages under way there can be no new result, so nothing is received first */
	if (comm->ep->posted == comm->ep->completed && (send_some(comm) || !comm->posting))
		return;
	if (burst && hold_back(comm))
		return;
	inccl_comm_advance(comm);
}

void inccl_comm_advance(struct inccl_communicator *comm)
{
	struct inccl_endpoint *ep = comm->ep;
	bool finished = false;
	int ret, rounds = 0;

	if (comm->error || in_grace(comm))
		return;
	do {
		ret = inccl_endpoint_progress(ep);
		if (ret < 0) {
			endpoint_failed(comm, -ret);
			return;
		}
		rounds = ret ? rounds + 1 : 0;
		finished |= finish_some(comm);
		if (send_some(comm))
			return;
		/* ends as soon as a request is done, so that its caller does not serve the next
		 * one */
	} while (rounds && rounds < 8 && !finished);
	inccl_comm_check_stall(comm);
	/* one of the waiters may be this thread, which needs no signal */
	if (finished && comm->waiters > (comm->driver == DRIVER_WAITER))
		pthread_cond_broadcast(&comm->changed);
}

/* Sleeps until something may have changed, without the lock. cancel_state applies only during the
 * sleep. */
static void sleep_in_poll(struct inccl_communicator *comm, bool thread, uint64_t deadline_ns,
			  int cancel_state)
{
	struct pollfd pfd[3] = {
		{.fd = -1},
		{.fd = comm->wake_fd, .events = POLLIN},
		{.fd = thread ? comm->thread_fd : -1, .events = POLLIN},
	};
	struct timespec ts, *timeout = NULL;
	uint64_t timer_ns = UINT64_MAX, now;
	int ret = 0;

	if (!comm->error && comm->grace_error) {
		/* the endpoint has failed, so this thread only waits for the controller's notice */
		timer_ns = comm->grace_over_at_ns;
	} else if (!comm->error) {
		ret = inccl_endpoint_arm(comm->ep, &pfd[0].fd, &pfd[0].events, &timer_ns);
		if (ret < 0)
			endpoint_failed(comm, -ret);
		if (ret)
			return;
		if (comm->head && inccl_comm_check_at_ns(comm) < timer_ns)
			timer_ns = inccl_comm_check_at_ns(comm);
	}
	if (deadline_ns < timer_ns)
		timer_ns = deadline_ns;
	if (timer_ns != UINT64_MAX) {
		now = inc_now_ns();
		ts = inc_timespec_of_ns(timer_ns > now ? timer_ns - now : 0);
		timeout = &ts;
	}
	if (!thread)
		comm->sleeping = true;
	pthread_mutex_unlock(&comm->lock);
	inccl_log_deliver(comm->group->log);
	pthread_setcancelstate(cancel_state, NULL);
	ret = inc_os.wait.poll(pfd, 3, timeout);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	pthread_mutex_lock(&comm->lock);
	if (!thread)
		comm->sleeping = false;
	/* if this thread no longer serves the endpoint, the signal is for the thread that does */
	if (ret > 0 && pfd[1].revents && !(thread && comm->driver != DRIVER_THREAD))
		inc_drain_fd(comm->wake_fd);
	if (ret > 0 && pfd[2].revents)
		inc_drain_fd(comm->thread_fd);
}

/* Whether the caller that serves the endpoint, and has found nothing to do, looks again instead of
 * sleeping. If so, it first lets other threads run, without the lock. They may call the library
 * meanwhile, because this caller looks under the lock before it sleeps. */
static bool looks_again(struct inccl_communicator *comm, int cancel_state)
{
	if (comm->spin_mark != comm->moved_mark)
		inc_spin_arrived(&comm->spin);
	comm->spin_mark = comm->moved_mark;
	if (comm->error || comm->grace_error || !inc_spin_polls(&comm->spin))
		return false;
	pthread_mutex_unlock(&comm->lock);
	pthread_setcancelstate(cancel_state, NULL);
	pthread_testcancel();
	inc_spin_give_way(&comm->spin);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	pthread_mutex_lock(&comm->lock);
	return true;
}

void inccl_comm_enter(struct inccl_communicator *comm)
{
	comm->activity++;
	if (comm->driver == DRIVER_THREAD) {
		set_driver(comm, DRIVER_NONE);
		inc_signal_fd(comm->thread_fd);
	} else if (comm->driver == DRIVER_WAITER && comm->sleeping) {
		inc_signal_fd(comm->wake_fd);
	}
}

/* Sets the alarm so that the thread wakes in after_ns at the latest, unless it does so anyway. */
static void wake_thread_by(struct inccl_communicator *comm, uint64_t after_ns)
{
	const uint64_t at_ns = inc_now_ns() + after_ns;

	if (comm->alarm_at_ns > at_ns && comm->look_at_ns > at_ns)
		set_alarm(comm, at_ns);
}

void inccl_comm_leave(struct inccl_communicator *comm)
{
	struct inccl_endpoint *ep = comm->ep;
	/* ACKs of a failed endpoint are not due, because it sends nothing more, and the alarm would
	 * expire again and again */
	uint64_t at_ns = ep->ops->ack_at_ns(ep->ch);
	bool acks_due = at_ns != UINT64_MAX && !comm->error && !comm->grace_error;

	if (comm->driver != DRIVER_NONE)
		return;
	if (comm->unsent_packets && !comm->error && !comm->grace_error) {
		wake_thread_by(comm, BURST_HOLD_NS);
		return;
	}
	/* cancels the alarm, too, if the ACKs have been sent meanwhile */
	if (acks_due || comm->alarm_is_for_acks) {
		set_alarm(comm, acks_due ? at_ns : UINT64_MAX);
		comm->alarm_is_for_acks = acks_due;
	}
	if (acks_due || ep->posted == ep->completed)
		return;
	/* messages are under way, so the thread has to serve the endpoint soon */
	wake_thread_by(comm, TAKE_OVER_NS);
}

struct drive {
	struct inccl_communicator *comm;
	volatile bool *driving;
};

static void stop_waiting(struct drive *d)
{
	struct inccl_communicator *comm = d->comm;

	comm->waiters--;
	comm->activity++;
	if (!*d->driving)
		return;
	set_driver(comm, DRIVER_NONE);
	if (comm->waiters)
		pthread_cond_broadcast(&comm->changed);
	inccl_comm_leave(comm);
}

/* Cleans up after a waiting thread that is cancelled. If it serves the endpoint, it was in poll()
 * without the lock. Otherwise it waited for the condition, which has locked again. Other threads
 * can still collect its request. */
static void cancelled(void *arg)
{
	struct drive *d = arg;
	struct inccl_communicator *comm = d->comm;

	if (*d->driving) {
		pthread_mutex_lock(&comm->lock);
		comm->sleeping = false;
	}
	stop_waiting(d);
	pthread_mutex_unlock(&comm->lock);
}

/* Waits until another thread stops serving the endpoint or has finished a request. Returns
 * ETIMEDOUT after the deadline. */
static int wait_for_driver(struct inccl_communicator *comm, uint64_t deadline_ns, int cancel_state)
{
	int ret;

	pthread_setcancelstate(cancel_state, NULL);
	ret = inccl_cond_wait_until(&comm->changed, &comm->lock, deadline_ns);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	return ret;
}

bool inccl_comm_drive(struct inccl_communicator *comm, struct inccl_request *req,
		      uint64_t deadline_ns, int cancel_state)
{
	/* pthread_cleanup_push() uses setjmp(), so this must be volatile */
	volatile bool driving = false;
	struct drive d = {.comm = comm, .driving = &driving};

	comm->waiters++;
	pthread_cleanup_push(cancelled, &d);
	while (!req->done) {
		if (!driving && (comm->driver == DRIVER_WAITER || comm->lead)) {
			if (wait_for_driver(comm, deadline_ns, cancel_state) == ETIMEDOUT)
				break;
			continue;
		}
		driving = true;
		set_driver(comm, DRIVER_WAITER);
		inccl_comm_advance(comm);
		if (req->done || inc_now_ns() >= deadline_ns)
			break;
		if (!looks_again(comm, cancel_state))
			sleep_in_poll(comm, false, deadline_ns, cancel_state);
	}
	pthread_cleanup_pop(0);
	stop_waiting(&d);
	return req->done;
}

/* Whether destroying the communicator need not wait any more. No caller collects the results of
 * unfinished requests, but other ranks need this rank's data, so the peer must have acknowledged
 * it. A request that is not wholly posted is given up, because it could wait for other ranks
 * without end. */
static bool is_settled(const struct inccl_communicator *comm)
{
	struct inccl_endpoint *ep = comm->ep;

	if (comm->error || comm->grace_error || comm->posting)
		return true;
	return comm->head ? inccl_endpoint_kept(ep) : inccl_endpoint_quiet(ep);
}

void inccl_comm_settle(struct inccl_communicator *comm, uint64_t deadline_ns)
{
	set_driver(comm, DRIVER_LAST);
	for (;;) {
		inccl_comm_advance(comm);
		if (is_settled(comm) || inc_now_ns() >= deadline_ns)
			break;
		sleep_in_poll(comm, false, deadline_ns, PTHREAD_CANCEL_DISABLE);
	}
	set_driver(comm, DRIVER_NONE);
	if (!comm->grace_error && (comm->posting || !inccl_endpoint_kept(comm->ep)))
		inccl_comm_fail_locked(comm, ECANCELED, comm->group->rank,
				       "destroyed in the middle of a collective");
}

/* Lets the communicator's thread sleep while it does not serve the endpoint: for look_ns, or until
 * a signal or the alarm. Releases the lock meanwhile. */
static void park(struct inccl_communicator *comm, uint64_t look_ns)
{
	const struct timespec ts = inc_timespec_of_ns(look_ns);
	struct pollfd pfd[2] = {
		{.fd = comm->thread_fd, .events = POLLIN},
		{.fd = comm->alarm_fd, .events = POLLIN},
	};
	int ret;

	comm->look_at_ns = inc_now_ns() + look_ns;
	pthread_mutex_unlock(&comm->lock);
	ret = inc_os.wait.poll(pfd, 2, &ts);
	pthread_mutex_lock(&comm->lock);
	comm->look_at_ns = UINT64_MAX;
	if (ret > 0 && pfd[0].revents)
		inc_drain_fd(comm->thread_fd);
	if (ret <= 0 || !pfd[1].revents)
		return;
	/* if the alarm was set anew meanwhile, nothing can be read, and the alarm stays set */
	inc_drain_fd(comm->alarm_fd);
	if (comm->alarm_at_ns <= inc_now_ns())
		comm->alarm_at_ns = UINT64_MAX;
}

/* Sends packets that a call of the user has held back, and ACKs that are due. Called on the
 * communicator's thread. */
static void send_due(struct inccl_communicator *comm)
{
	if (comm->driver != DRIVER_NONE ||
	    (!comm->unsent_packets && comm->ep->ops->ack_at_ns(comm->ep->ch) > inc_now_ns()))
		return;
	inccl_comm_advance(comm);
	inccl_comm_leave(comm);
}

/* Serves the endpoint on the communicator's thread, and sleeps until something may have changed.
 * The thread of a further channel polls before it sleeps, because no caller does so for that
 * channel. */
static void drive_on_thread(struct inccl_communicator *comm)
{
	inccl_comm_advance(comm);
	if (comm->error && !comm->spread && (comm->lead || comm->channels > 1)) {
		comm->spread = true;
		pthread_mutex_unlock(&comm->lock);
		inccl_channels_spread(comm);
		pthread_mutex_lock(&comm->lock);
	} else if (!comm->lead || !comm->head || !looks_again(comm, PTHREAD_CANCEL_DISABLE)) {
		sleep_in_poll(comm, true, UINT64_MAX, PTHREAD_CANCEL_DISABLE);
	}
}

void *inccl_comm_thread(void *arg)
{
	struct inccl_communicator *comm = arg;
	uint64_t seen = 0, seen_at_ns = 0, look_ns = TAKE_OVER_NS, now;

	pthread_mutex_lock(&comm->lock);
	while (!comm->stop) {
		now = inc_now_ns();
		/* looks again soon if the user has not called since the last time, or has left
		 * messages under way */
		if (comm->driver == DRIVER_NONE &&
		    (comm->activity == seen || comm->ep->posted != comm->ep->completed))
			look_ns = TAKE_OVER_NS;
		else if (look_ns < LOOK_MAX_NS)
			look_ns *= 2;
		if (comm->activity != seen) {
			seen = comm->activity;
			seen_at_ns = now;
		}
		if (comm->driver == DRIVER_NONE && (comm->lead || now - seen_at_ns >= TAKE_OVER_NS))
			set_driver(comm, DRIVER_THREAD);
		if (comm->driver == DRIVER_THREAD) {
			drive_on_thread(comm);
			continue;
		}
		park(comm, look_ns);
		send_due(comm);
	}
	if (comm->driver == DRIVER_THREAD)
		set_driver(comm, DRIVER_NONE);
	pthread_mutex_unlock(&comm->lock);
	inccl_log_deliver(comm->group->log);
	return NULL;
}
