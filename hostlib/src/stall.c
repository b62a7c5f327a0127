/* SPDX-License-Identifier: BSD-2-Clause */
/* Time limits of a communicator: it fails if nothing moves for too long, and before that it reports
 * that it waits. The error has what a switch has reported that may explain it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "lib/base/clock.h"
#include "lib/base/numbers.h"
#include "hostlib/node/node.h"
#include "hostlib/src/internal.h"

/* Size of the text of what the channel waits for, if a switch's notice follows it. */
#define NOTICED_WHAT 120

/* Returns when the first unfinished request of the communicator times out, if nothing moves until
 * then. The time is on the clock comm->awake. */
static uint64_t limit_at_ns(const struct inccl_communicator *comm)
{
	uint64_t at = UINT64_MAX, moved_at_ns;
	const struct inccl_request *req;

	for (req = comm->head; req; req = req->next) {
		moved_at_ns =
			req->begun_at_ns > comm->moved_at_ns ? req->begun_at_ns : comm->moved_at_ns;
		moved_at_ns = inc_awake_limit_at_ns(&comm->awake, moved_at_ns, req->timeout_ns);
		if (!req->done && moved_at_ns < at)
			at = moved_at_ns;
	}
	return at;
}

/* Returns when the communicator fails if nothing moves until then. That is limit_at_ns(). If the
 * controller is lost, it is ORPHAN_TIMEOUT_MS after the later of the loss and the last movement, if
 * that is earlier. */
static uint64_t stall_at_ns(const struct inccl_communicator *comm)
{
	uint64_t at = limit_at_ns(comm), orphaned = comm->orphan_at_ns;

	if (!orphaned)
		return at;
	if (orphaned < comm->moved_at_ns)
		orphaned = comm->moved_at_ns;
	orphaned = inc_awake_limit_at_ns(&comm->awake, orphaned,
					 ORPHAN_TIMEOUT_MS * INC_NSEC_PER_MSEC);
	return orphaned < at ? orphaned : at;
}

/* Returns since when the oldest request has got no result, on the clock comm->awake. */
static uint64_t waits_since_ns(const struct inccl_communicator *comm)
{
	return comm->head && comm->head->begun_at_ns > comm->result_at_ns ? comm->head->begun_at_ns
									  : comm->result_at_ns;
}

/* Returns when the channel reports that it waits, if no result arrives until then. */
static uint64_t report_at_ns(const struct inccl_communicator *comm)
{
	if (!comm->head)
		return UINT64_MAX;
	return inc_awake_limit_at_ns(
		&comm->awake, waits_since_ns(comm),
		(INC_WAIT_FIRST_MS + comm->wait_reports * (uint64_t)INC_WAIT_NEXT_MS) *
			INC_NSEC_PER_MSEC);
}

/* Whether this channel is to log its wait. Usually all channels wait for the same rank, so the
 * first one logs for all. */
static bool logs_for_all(struct inccl_communicator *comm)
{
	uint64_t *waited_at_ns = &(comm->lead ?: comm)->waited_at_ns, now_ns = inc_now_ns();
	uint64_t before_ns = __atomic_load_n(waited_at_ns, __ATOMIC_RELAXED);

	return (!before_ns || now_ns - before_ns >= INC_WAIT_FIRST_MS * INC_NSEC_PER_MSEC) &&
	       __atomic_compare_exchange_n(waited_at_ns, &before_ns, now_ns, false,
					   __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* Reports a wait for results, if that is due. Packets of the peer, such as answers to probes, do
 * not end a wait. So a rank that is late is reported although it causes no failure. */
static void report_wait(struct inccl_communicator *comm, uint64_t now_ns)
{
	char what[300];

	if (comm->ep->completed != comm->result_mark || !comm->head) {
		comm->result_mark = comm->ep->completed;
		comm->result_at_ns = now_ns;
		comm->wait_reports = 0;
		return;
	}
	if (now_ns < report_at_ns(comm))
		return;
	comm->wait_reports++;
	if (!logs_for_all(comm))
		return;
	comm->ep->ops->describe(comm->ep->ch, what, sizeof(what));
	inccl_log_line(comm->group->log,
		       "waiting: communicator %lld of job %s has waited %llu s: %s%s%s%s",
		       comm->number, comm->group->job,
		       (unsigned long long)((now_ns - waits_since_ns(comm)) / INC_NSEC_PER_SEC),
		       what, *comm->notice ? "; " : "", comm->notice,
		       inccl_node_needs_network(comm->group) ? "; incctl waiting names the rank"
							     : "");
}

/* Whether the peer has answered nothing for too long, although the same was sent to it again and
 * again. If only other ranks are late, the peer acknowledges, and nothing is sent again. */
static bool is_silent(struct inccl_communicator *comm, uint64_t now_ns)
{
	struct inc_channel_figures f;
	uint64_t answers, since_at_ns;

	if (!comm->settings.silence_ms)
		return false;
	comm->ep->ops->figures(comm->ep->ch, &f);
	answers = f.rx_packets + f.duplicates + f.acks_received + f.naks_received + f.rnrs_received;
	if (!comm->head || answers != comm->answers_mark || f.timeouts == comm->timeouts_mark) {
		comm->answers_mark = answers;
		comm->timeouts_mark = f.timeouts;
		comm->heard_at_ns = now_ns;
		return false;
	}
	/* an idle communicator does not listen, so its silence begins with the oldest request */
	since_at_ns = comm->head->begun_at_ns;
	if (since_at_ns < comm->heard_at_ns)
		since_at_ns = comm->heard_at_ns;
	return inc_awake_past(&comm->awake, since_at_ns,
			      comm->settings.silence_ms * INC_NSEC_PER_MSEC);
}

static void fail_silent(struct inccl_communicator *comm)
{
	char text[sizeof(comm->error_text)], what[300];

	comm->ep->ops->describe(comm->ep->ch, what, sizeof(what));
	snprintf(text, sizeof(text), "%s: it has answered nothing for %u ms: %s", comm->peer,
		 comm->settings.silence_ms, what);
	inccl_comm_fail_locked(comm, ETIMEDOUT, -1, text);
}

void inccl_comm_check_stall(struct inccl_communicator *comm)
{
	char text[sizeof(comm->error_text)], what[300];
	uint64_t mark = comm->ep->ops->moved(comm->ep->ch);
	uint64_t now = inc_awake_now_ns(&comm->awake);
	size_t n;

	report_wait(comm, now);
	if (is_silent(comm, now)) {
		fail_silent(comm);
		return;
	}
	if (mark != comm->moved_mark || !comm->head) {
		comm->moved_mark = mark;
		comm->moved_at_ns = now;
		return;
	}
	if (now < stall_at_ns(comm))
		return;
	comm->ep->ops->describe(comm->ep->ch, what, sizeof(what));
	/* a switch's notice explains more than what the channel waits for, so that leaves room */
	if (*comm->notice)
		what[NOTICED_WHAT - 1] = '\0';
	snprintf(text, sizeof(text), "%s: nothing has moved for %llu ms%s: %s", comm->peer,
		 (unsigned long long)((now - comm->moved_at_ns) / INC_NSEC_PER_MSEC),
		 comm->orphan_at_ns ? " and the controller is gone" : "", what);
	n = strlen(text);
	if (*comm->notice)
		snprintf(text + n, sizeof(text) - n, "; %s", comm->notice);
	inccl_comm_fail_locked(comm, ETIMEDOUT, -1, text);
}

uint64_t inccl_comm_check_at_ns(const struct inccl_communicator *comm)
{
	return inc_awake_look_at_ns(&comm->awake, inc_min64(stall_at_ns(comm), report_at_ns(comm)));
}

void inccl_comms_notice(struct inccl_group *group, const struct inc_msg_notice *notice)
{
	struct inccl_communicator *comm;
	bool changed;

	for (comm = group->comms; comm; comm = comm->next) {
		if (comm->number != notice->communicator)
			continue;
		pthread_mutex_lock(&comm->lock);
		changed = strcmp(comm->notice, notice->message) != 0;
		snprintf(comm->notice, sizeof(comm->notice), "%s", notice->message);
		pthread_mutex_unlock(&comm->lock);
		if (!changed)
			continue;
		inccl_log_line(group->log, "notice: communicator %lld: %s", comm->number,
			       *notice->message ? notice->message
						: "what a switch reported is over");
	}
}
