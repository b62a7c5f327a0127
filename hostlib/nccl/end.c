/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stddef.h>
#include "hostlib/nccl/end.h"

#define MAX_MSGS (sizeof(((struct ha_todo *)0)->msg) / sizeof(struct ha_control_msg))

const char *ha_state_text(enum ha_state state)
{
	static const char *const text[] = {
#define STATE(NAME, text) [HA_##NAME] = (text),
		HA_STATES(STATE)
#undef STATE
	};

	return (unsigned int)state < HA_N_STATES ? text[state] : "?";
}

void ha_end_init(struct ha_end *end, const struct ha_times *times, uint64_t nonce, bool dual,
		 uint64_t now_ns)
{
	*end = (struct ha_end){.times = *times,
			       .nonce = nonce,
			       .state = HA_FLOWING,
			       .dual = dual,
			       .channel = true,
			       .entered_at_ns = now_ns};
}

void ha_end_become(struct ha_end *end, enum ha_state state, uint64_t now_ns, struct ha_todo *todo)
{
	end->state = state;
	end->entered_at_ns = now_ns;
	end->probed_at_ns = 0;
	end->last.type = 0;
	if (state == HA_DONE || state == HA_FAILED)
		todo->ended = true;
}

void ha_end_fence(uint32_t epoch, struct ha_todo *todo)
{
	todo->fence = true;
	todo->fence_epoch = epoch;
}

/* Adds a control message to todo. It is dropped if the caller has not cleared so many earlier ones
 * that there is room. The protocol allows that, because channels lose messages, too. */
void ha_end_send(struct ha_end *end, enum ha_control_msg_type type, const struct ha_report *report,
		 bool again, uint64_t now_ns, struct ha_todo *todo)
{
	struct ha_control_msg msg = {
		.type = type, .cause = end->cause, .nonce = end->nonce, .epoch = end->epoch};

	if (report)
		msg.report = *report;
	if (again) {
		end->last = msg;
		end->sent_at_ns = now_ns;
	}
	if (todo->msgs < MAX_MSGS)
		todo->msg[todo->msgs++] = msg;
}

void ha_end_leave(struct ha_end *end, enum ha_cause cause, uint64_t now_ns, struct ha_todo *todo)
{
	end->cause = cause;
	end->failover = (struct ha_failover){.cause = cause, .began_at_ns = now_ns};
	/* Work that was to be posted on the old epoch's queue pair is dropped. In the next epoch
	 * keys differ, and the report must come first. */
	todo->posts = 0;
	todo->probe = false;
	ha_end_fence(end->epoch, todo);
}

void ha_end_enter(struct ha_end *end, uint32_t epoch, bool waiting, uint64_t now_ns,
		  struct ha_todo *todo)
{
	end->epoch = epoch;
	if (end->ready < epoch)
		end->ready = epoch;
	if (waiting)
		end->barren++;
	end->failover.epoch = epoch;
	ha_end_become(end, HA_SWITCHING, now_ns, todo);
}

void ha_end_flow(struct ha_end *end, unsigned int replayed, uint64_t now_ns, struct ha_todo *todo)
{
	end->failover.replayed = replayed;
	end->failover.flowing_at_ns = now_ns;
	todo->failover_over = true;
	ha_end_become(end, HA_FLOWING, now_ns, todo);
	end->probe_due_at_ns = now_ns + end->times.heartbeat_ns;
}

void ha_end_fail(struct ha_end *end, int error, const char *why, uint64_t now_ns,
		 struct ha_todo *todo)
{
	if (end->state == HA_FLOWING || end->state == HA_SWITCHING)
		ha_end_fence(end->epoch, todo);
	end->error = error;
	end->why = why;
	todo->posts = 0;
	todo->probe = false;
	ha_end_become(end, HA_FAILED, now_ns, todo);
}

void ha_end_completed(struct ha_end *end)
{
	end->barren = 0;
}

const char *ha_end_no_way(const struct ha_end *end, bool waiting)
{
	if (!end->dual)
		return "the path has failed, and there is no other one";
	if (waiting && end->barren >= HA_BARREN_EPOCHS)
		return "the paths come and go, and nothing gets through";
	return NULL;
}

void ha_end_path(struct ha_end *end, uint32_t epoch, bool up)
{
	if (!end->dual || end->epoch == UINT32_MAX || epoch != end->epoch + 1)
		return;
	end->ready = up ? epoch : end->epoch;
}

static void probe(struct ha_end *end, uint64_t now_ns, struct ha_todo *todo)
{
	if (end->channel || end->state != HA_FLOWING || end->probed_at_ns ||
	    now_ns < end->probe_due_at_ns)
		return;
	todo->probe = true;
	end->probed_at_ns = now_ns ? now_ns : 1; /* 0 would mean that no probe is under way */
	end->probe_due_at_ns = now_ns + end->times.heartbeat_ns;
}

void ha_end_channel(struct ha_end *end, bool alive, uint64_t now_ns, struct ha_todo *todo)
{
	end->channel = alive;
	probe(end, now_ns, todo);
}

void ha_end_probe_ok(struct ha_end *end)
{
	end->probed_at_ns = 0;
}

bool ha_end_past(uint64_t from_at_ns, uint64_t limit_ns, uint64_t now_ns)
{
	return now_ns >= from_at_ns && now_ns - from_at_ns >= limit_ns;
}

void ha_end_tick(struct ha_end *end, uint64_t now_ns, struct ha_todo *todo)
{
	probe(end, now_ns, todo);
	if (end->last.type && ha_end_past(end->sent_at_ns, end->times.heartbeat_ns, now_ns)) {
		end->sent_at_ns = now_ns;
		if (todo->msgs < MAX_MSGS)
			todo->msg[todo->msgs++] = end->last;
	}
}

bool ha_report_has(const struct ha_report *report, uint32_t sequence)
{
	uint32_t i = sequence - report->next;

	if (ha_before(sequence, report->next))
		return true;
	return i < HA_SLOTS && report->received[i / 64] >> i % 64 & 1;
}
