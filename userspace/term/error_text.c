/* SPDX-License-Identifier: BSD-2-Clause */
/* Texts of a node's reports for the log and the controller, and the node's figures for queries. */
#include <stdio.h>
#include <string.h>
#include "lib/proto/roce.h"
#include "userspace/term/node_priv.h"

const struct inc_term_reason_info inc_term_reasons[] = {
#define _(NAME, name, kind, syndrome, text) {#name, text, INC_EVENT_KIND_##kind, syndrome},
	INC_TERM_REASONS(_)
#undef _
};

static struct inc_call call_of(const struct inc_term *t, uint32_t child, uint64_t number)
{
	const struct term_part *part = &term_parts(t, number)[child];
	struct inc_call call = {.desc = part->desc, .bytes = part->length};

	inc_child_name(call.who, t->peer[child].is_switch, t->peer[child].rank);
	return call;
}

/* Describes the two calls in a mismatch: that of child 0, with which all are compared, and the
 * first one that differs. */
static void describe_mismatch(const struct inc_term *t, const struct inc_term_action *action,
			      struct inc_msg_event *out)
{
	const uint32_t c = __builtin_ctzll(action->children);
	struct inc_call first = call_of(t, 0, action->number),
			other = call_of(t, c, action->number);

	inc_call_text(out->message, sizeof(out->message), &first, c ? &other : NULL);
}

void inc_term_describe(const struct inc_term *t, const struct inc_term_action *action,
		       struct inc_msg_event *out)
{
	char who[INC_PEER_TEXT] = "the parent";
	uint32_t c;
	int n;

	*out = (struct inc_msg_event){.kind = inc_term_reasons[action->reason].kind,
				      .r = action->number};
	for (c = 0; c < t->n_children; c++)
		if (action->children >> c & 1)
			out->ranks[out->n_ranks++] = t->peer[c].rank;
	if (action->reason == INC_TERM_MISMATCH) {
		describe_mismatch(t, action, out);
		return;
	}
	if (action->children) {
		c = __builtin_ctzll(action->children);
		inc_child_name(who, t->peer[c].is_switch, t->peer[c].rank);
	}
	n = snprintf(out->message, sizeof(out->message), "%s ", who);
	snprintf(out->message + n, sizeof(out->message) - n, inc_term_reasons[action->reason].text,
		 (unsigned long long)action->number);
}

void inc_term_figures(const struct inc_term *t, struct inc_term_figures *out)
{
	*out = (struct inc_term_figures){
		.results = t->results, .partials = t->partials, .ended = t->ended};
}

void inc_term_peer_figures(const struct inc_term *t, uint32_t peer,
			   struct inc_term_peer_figures *out)
{
	const struct term_peer *p = &t->peer[peer];

	*out = (struct inc_term_peer_figures){.rank = p->rank,
					      .received = p->received,
					      .sent = p->sent,
					      .acknowledged = p->acknowledged,
					      .unresponsive = p->unresponsive};
}

bool inc_term_waiting(const struct inc_term *t, struct inc_term_waiting *out)
{
	const struct term_slot *slot = term_slot(t, t->results);

	/* no child has contributed to the next result, although the slot may still be sending an
	 * older result */
	if (slot->state == TERM_SLOT_IDLE || slot->state == TERM_SLOT_BROADCASTING)
		return false;
	*out = (struct inc_term_waiting){
		.number = t->results,
		.arrived = slot->arrived,
		.up = slot->state == TERM_SLOT_AT_PARENT,
		.seen_at_ns = t->waiting_number == t->results ? t->waiting_seen_at_ns : 0};
	return true;
}
