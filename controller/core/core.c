/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "controller/core/comm.h"
#include "controller/core/comm_config.h"
#include "controller/core/comm_event.h"
#include "controller/core/core.h"
#include "controller/core/derive.h"
#include "controller/core/event.h"
#include "controller/core/group.h"
#include "controller/core/orphan.h"
#include "controller/core/switch.h"
#include "lib/base/numbers.h"
#include "lib/base/printable.h"

const char *const inc_record_kinds[] = {
#define _(NAME, name) [INC_RECORD_##NAME] = #name,
	INC_RECORD_KINDS(_)
#undef _
};

/* Drops the oldest record of the most frequent kind. */
static void drop_record(struct inc_records *records)
{
	uint8_t kinds[INC_RECORDS];
	unsigned int oldest;

	for (unsigned int i = 0; i < records->n_kept; i++)
		kinds[i] = records->kept[i].kind;
	oldest = inc_most_frequent(kinds, records->n_kept);
	memmove(&records->kept[oldest], &records->kept[oldest + 1],
		(--records->n_kept - oldest) * sizeof(records->kept[0]));
}

void inc_core_record(struct inc_core *core, enum inc_record_kind kind, uint32_t communicator,
		     const char *fmt, ...)
{
	struct inc_records *records = &core->records;
	struct inc_record *record;
	va_list ap;

	if (records->n_kept == INC_RECORDS)
		drop_record(records);
	record = &records->kept[records->n_kept++];
	records->n++;
	*record = (struct inc_record){
		.time_ns = core->now.wall_ns, .kind = kind, .communicator = communicator};
	va_start(ap, fmt);
	vsnprintf(record->message, sizeof(record->message), fmt, ap);
	va_end(ap);
	inc_printable(record->message); /* the end may be a part of a character */
}

int inc_core_init(struct inc_core *core, const struct inc_core_options *opt,
		  const struct inc_topology *topo, struct inc_core_now now, struct inc_err *err)
{
	int ret;

	*core = (struct inc_core){.opt = *opt, .topo = topo, .now = now};
	TAILQ_INIT(&core->timers);
	TAILQ_INIT(&core->actions.list);
	ret = inc_switches_init(core);
	if (ret)
		return inc_err_set(err, -ret, "out of memory");
	ret = inc_number_allocator_init(&core->group_numbers, err);
	return ret ?: inc_number_allocator_init(&core->comm_numbers, err);
}

void inc_core_free(struct inc_core *core)
{
	inc_derivations_free(core);
	inc_groups_free(core);
	inc_orphans_free(core);
	inc_switches_free(core);
	inc_number_allocator_free(&core->group_numbers);
	inc_number_allocator_free(&core->comm_numbers);
	inc_actions_free(&core->actions.list);
}

static void on_join(struct inc_core *core, const struct inc_core_event *e)
{
	if (e->join->has_derive)
		inc_derive_join(e->client, e->join);
	else
		inc_group_join(e->client, e->join);
}

static void on_resume(struct inc_core *core, const struct inc_core_event *e)
{
	inc_group_resume(e->client, e->resume);
}

static void on_ask(struct inc_core *core, const struct inc_core_event *e)
{
	inc_comm_ask(e->client->member, e->ask, e->wrong, e->why);
}

static void on_ready(struct inc_core *core, const struct inc_core_event *e)
{
	inc_comm_ready(e->client->member, e->number);
}

static void on_destroy(struct inc_core *core, const struct inc_core_event *e)
{
	inc_comm_destroy(e->client->member, e->number);
}

static void on_report(struct inc_core *core, const struct inc_core_event *e)
{
	if (!e->wrong && e->report->has_derive)
		inc_derive_report(e->client->member, e->report);
	else
		inc_comm_report(e->client->member, e->report, e->wrong, e->why);
}

static void on_left(struct inc_core *core, const struct inc_core_event *e)
{
	struct inc_member *member = e->client->member;

	if (member && e->silent_ms)
		inc_group_silent(member, e->silent_ms);
	e->client->member = NULL;
	if (member)
		inc_group_leave(member, e->clean, e->reason);
	if (e->client->derivation)
		inc_derive_leave(e->client);
}

static void on_hello(struct inc_core *core, const struct inc_core_event *e)
{
	inc_switch_connects(e->sw, e);
}

static void on_switch_lost(struct inc_core *core, const struct inc_core_event *e)
{
	inc_switch_lost(e->sw, e->peer_closed, e->renews);
}

static void on_notice(struct inc_core *core, const struct inc_core_event *e)
{
	inc_comm_event(e->sw, e->notice);
}

static void on_waiting(struct inc_core *core, const struct inc_core_event *e)
{
	*e->enough = inc_comm_handle_waiting(e->sw, e->waiting);
}

static void on_answer(struct inc_core *core, const struct inc_core_event *e)
{
	inc_switch_answers(e->sw, e);
}

static void on_set_mode(struct inc_core *core, const struct inc_core_event *e)
{
	*e->error = inc_switch_set_mode(e->sw, e->mode, e->said);
}

static void on_stored(struct inc_core *core, const struct inc_core_event *e)
{
	if (!e->communicator) {
		inc_group_stored(core, e->group, e->stored, e->because);
		return;
	}
	inc_comm_stored(core, e->communicator, e->stored, e->because);
	inc_switches_go_on(core);
}

static void on_renumbered(struct inc_core *core, const struct inc_core_event *e)
{
	inc_comms_retry(core);
}

static void on_time(struct inc_core *core, const struct inc_core_event *e)
{
	inc_core_timers_run(core);
}

void inc_core_step(struct inc_core *core, const struct inc_core_event *event,
		   struct inc_core_now now)
{
	static void (*const on[N_CORE_EVENTS])(struct inc_core * core,
					       const struct inc_core_event *e) = {
		[CORE_EVENT_JOIN] = on_join,
		[CORE_EVENT_RESUME] = on_resume,
		[CORE_EVENT_ASK] = on_ask,
		[CORE_EVENT_READY] = on_ready,
		[CORE_EVENT_DESTROY] = on_destroy,
		[CORE_EVENT_REPORT] = on_report,
		[CORE_EVENT_LEFT] = on_left,
		[CORE_EVENT_HELLO] = on_hello,
		[CORE_EVENT_SWITCH_LOST] = on_switch_lost,
		[CORE_EVENT_NOTICE] = on_notice,
		[CORE_EVENT_WAITING] = on_waiting,
		[CORE_EVENT_ANSWER] = on_answer,
		[CORE_EVENT_SET_MODE] = on_set_mode,
		[CORE_EVENT_STORED] = on_stored,
		[CORE_EVENT_RENUMBERED] = on_renumbered,
		[CORE_EVENT_TIME] = on_time,
	};

	core->now = now;
	on[event->kind](core, event);
}
