/* SPDX-License-Identifier: BSD-2-Clause */
/* Time limits of a communicator: it fails if nothing moves for too long. */
#include <errno.h>
#include <stdio.h>
#include "lib/base/clock.h"
#include "hostlib/src/internal.h"

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

void inccl_comm_check_stall(struct inccl_communicator *comm)
{
	char text[sizeof(comm->error_text)], what[300];
	uint64_t mark = comm->ep->ops->moved(comm->ep->ch);
	uint64_t now = inc_awake_now_ns(&comm->awake);

	if (mark != comm->moved_mark || !comm->head) {
		comm->moved_mark = mark;
		comm->moved_at_ns = now;
		return;
	}
	if (now < stall_at_ns(comm))
		return;
	comm->ep->ops->describe(comm->ep->ch, what, sizeof(what));
	snprintf(text, sizeof(text), "%s: nothing has moved for %llu ms%s: %s", comm->peer,
		 (unsigned long long)((now - comm->moved_at_ns) / INC_NSEC_PER_MSEC),
		 comm->orphan_at_ns ? " and the controller is gone" : "", what);
	inccl_comm_fail_locked(comm, ETIMEDOUT, -1, text);
}

uint64_t inccl_comm_check_at_ns(const struct inccl_communicator *comm)
{
	return inc_awake_look_at_ns(&comm->awake, stall_at_ns(comm));
}
