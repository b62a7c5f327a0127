/* SPDX-License-Identifier: BSD-2-Clause */
/* A node (node.h): its creation, its events and actions, and its ticks. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include "lib/base/clock.h"
#include "lib/proto/maps.h"
#include "userspace/term/node_priv.h"

/* Adds a child and the ranks behind it. A rank is behind only one child. */
static int add_child(struct inc_term *t, uint32_t child, const struct inc_term_child *conf,
		     struct inc_err *err)
{
	uint32_t rank = inc_ranks_next(&conf->ranks, 0);
	struct term_peer *p = &t->peer[child];

	if (rank == INC_MAX_RANKS)
		return inc_err_set(err, EINVAL, "communicator %u: no rank is behind child %u",
				   t->communicator, child);
	p->is_switch = conf->is_switch;
	p->seen_acknowledged = UINT64_MAX; /* there was no tick yet */
	p->rank = rank;
	p->n_ranks = inc_ranks_count(&conf->ranks);
	for (; rank < INC_MAX_RANKS; rank = inc_ranks_next(&conf->ranks, rank + 1)) {
		if (t->child_plus_1[rank])
			return inc_err_set(err, EINVAL,
					   "communicator %u: rank %u is behind two children",
					   t->communicator, rank);
		t->child_plus_1[rank] = child + 1;
	}
	return 0;
}

static int add_peers(struct inc_term *t, const struct inc_term_conf *conf, struct inc_err *err)
{
	struct term_peer *parent = &t->peer[conf->n_children];
	uint32_t c;
	int ret;

	parent->seen_acknowledged = UINT64_MAX;
	parent->rank = INC_MAX_RANKS;
	for (c = 0; c < conf->n_children; c++) {
		ret = add_child(t, c, &conf->child[c], err);
		if (ret)
			return ret;
		parent->n_ranks += t->peer[c].n_ranks;
		if (t->peer[c].rank < parent->rank)
			parent->rank = t->peer[c].rank;
	}
	return 0;
}

int inc_term_new(const struct inc_term_conf *conf, struct inc_term **out, struct inc_err *err)
{
	struct inc_term *t;
	uint32_t i;
	int ret;

	if (!conf->n_children || conf->n_children > INC_COMM_MAX_CHILDREN)
		return inc_err_set(err, EINVAL, "communicator %u: 1 to %u children, not %u",
				   conf->communicator, INC_COMM_MAX_CHILDREN, conf->n_children);
	if (!conf->receives || conf->receives & (conf->receives - 1) ||
	    conf->receives > INC_TERM_MAX_RECEIVES)
		return inc_err_set(err, EINVAL,
				   "communicator %u: receives are a power of two up to %d, not %u",
				   conf->communicator, INC_TERM_MAX_RECEIVES, conf->receives);
	t = calloc(1, sizeof(*t));
	if (!t)
		return inc_err_set(err, ENOMEM, "communicator %u: no memory", conf->communicator);
	t->communicator = conf->communicator;
	t->slots = conf->receives;
	t->n_children = conf->n_children;
	t->all = ~0ull >> (64 - conf->n_children);
	t->has_parent = conf->has_parent;
	t->slot = calloc(t->slots, sizeof(*t->slot));
	t->part = calloc((size_t)t->slots * t->n_children, sizeof(*t->part));
	ret = t->slot && t->part
		      ? add_peers(t, conf, err)
		      : inc_err_set(err, ENOMEM, "communicator %u: no memory for %u slots",
				    conf->communicator, conf->receives);
	if (ret) {
		inc_term_free(t);
		return ret;
	}
	for (i = 0; i < t->slots; i++)
		snprintf(t->slot[i].who, sizeof(t->slot[i].who), "%u of communicator %u", i,
			 t->communicator);
	*out = t;
	return 0;
}

void inc_term_free(struct inc_term *t)
{
	if (!t)
		return;
	free(t->slot);
	free(t->part);
	free(t);
}

void term_do(struct inc_term *t, const struct inc_term_action *action)
{
	t->action[t->n_actions++] = *action;
}

void term_release(struct inc_term *t, void *buffer)
{
	if (buffer)
		term_do(t,
			&(struct inc_term_action){.what = INC_TERM_DO_RELEASE, .buffer = buffer});
}

uint64_t term_peer_bit(const struct inc_term *t, uint32_t peer)
{
	return term_is_parent(t, peer) ? 0 : 1ull << peer;
}

void term_end(struct inc_term *t, enum inc_term_reason reason, uint64_t children, uint64_t number)
{
	t->ended = true;
	term_do(t, &(struct inc_term_action){.what = INC_TERM_DO_END,
					     .reason = reason,
					     .children = children,
					     .number = number});
}

/* Whether the node accepts an event of this peer now. Returns 0, -EBUSY if actions of the last
 * event remain, or -EINVAL if there is no such peer. */
static int ready(struct inc_term *t, uint32_t peer)
{
	if (t->taken < t->n_actions || (t->ended && t->release_slot < t->slots))
		return -EBUSY;
	t->taken = t->n_actions = 0;
	return peer < t->n_children + t->has_parent ? 0 : -EINVAL;
}

int inc_term_message(struct inc_term *t, uint32_t peer, uint64_t number,
		     const struct inc_term_message *m)
{
	int ret = ready(t, peer);

	if (ret)
		return ret;
	if (t->ended)
		term_release(t, m->buffer);
	else if (term_is_parent(t, peer))
		term_take_result(t, number, m);
	else
		term_take_part(t, peer, number, m);
	return 0;
}

int inc_term_sent(struct inc_term *t, uint32_t peer, uint64_t number)
{
	int ret = ready(t, peer);

	if (ret)
		return ret;
	if (number != t->peer[peer].acknowledged || number == t->peer[peer].sent)
		return -EINVAL;
	term_take_sent(t, peer, number);
	return 0;
}

int inc_term_lost(struct inc_term *t, uint32_t peer, enum inc_term_reason reason)
{
	int ret = reason < INC_TERM_INVALID ? -EINVAL : ready(t, peer);

	if (!ret && !t->ended)
		term_end(t, reason, term_peer_bit(t, peer),
			 reason == INC_TERM_INVALID ? t->peer[peer].received
						    : t->peer[peer].acknowledged);
	return ret;
}

static void watch_peer(struct inc_term *t, uint32_t peer)
{
	struct term_peer *p = &t->peer[peer];

	if (p->acknowledged == p->sent || p->acknowledged != p->seen_acknowledged ||
	    p->port_condition != INC_PORT_UP) {
		p->seen_acknowledged = p->acknowledged;
		p->progress_at_ns = t->awake.now_ns;
		p->unresponsive = false;
	}
	if (p->unresponsive ||
	    !inc_awake_past(&t->awake, p->progress_at_ns, INC_UNRESPONSIVE_S * INC_NSEC_PER_SEC))
		return;
	p->unresponsive = true;
	term_do(t, &(struct inc_term_action){.what = INC_TERM_DO_REPORT,
					     .reason = INC_TERM_SILENT,
					     .children = term_peer_bit(t, peer),
					     .number = p->acknowledged});
}

/* Whether the node needs this peer: it waits for a message that may be the peer's, or for an
 * acknowledgement of the peer. */
static bool is_needed(const struct inc_term *t, const struct term_peer *p)
{
	return t->waiting_seen_at_ns || p->acknowledged != p->sent;
}

static void watch_port(struct inc_term *t, uint32_t peer)
{
	struct term_peer *p = &t->peer[peer];

	if (p->port_condition == INC_PORT_UP)
		return;
	if (!p->away_at_ns)
		p->away_at_ns = t->awake.now_ns;
	if (t->port_lost_reported ||
	    /* do not report a port that is only down as long as nothing waits for it, because the
	     * operator may set it up again before */
	    (p->port_condition == INC_PORT_DOWN && !is_needed(t, p)) ||
	    !inc_awake_past(&t->awake, p->away_at_ns, INC_PORT_LOST_S * INC_NSEC_PER_SEC))
		return;
	t->port_lost_reported = true;
	term_do(t, &(struct inc_term_action){
			   .what = INC_TERM_DO_PORT_LOST, .peer = peer, .number = t->results});
}

void inc_term_port(struct inc_term *t, uint32_t peer, enum inc_port_condition condition)
{
	struct term_peer *p = &t->peer[peer];

	p->port_condition = condition;
	if (condition == INC_PORT_UP)
		p->away_at_ns = 0;
}

static bool has_all_ports(const struct inc_term *t)
{
	uint32_t i;

	for (i = 0; i < t->n_children + t->has_parent; i++)
		if (t->peer[i].port_condition != INC_PORT_UP)
			return false;
	return true;
}

int inc_term_tick(struct inc_term *t, uint64_t now_ns)
{
	struct inc_term_waiting w;
	int ret = ready(t, 0);
	uint32_t i;

	if (ret || t->ended)
		return ret;
	if (!inc_term_waiting(t, &w)) {
		t->waiting_seen_at_ns = 0;
	} else if (!w.seen_at_ns) {
		t->waiting_number = w.number;
		t->waiting_seen_at_ns = now_ns;
	}
	inc_awake_at(&t->awake, now_ns);
	t->port_lost_reported = t->port_lost_reported && !has_all_ports(t);
	for (i = 0; i < t->n_children + t->has_parent; i++) {
		watch_peer(t, i);
		watch_port(t, i);
	}
	return 0;
}

uint64_t inc_term_awake_ns(const struct inc_term *t)
{
	return t->awake.now_ns;
}

/* After the end of the communicator, returns the next buffer of a contribution, or NULL if none is
 * left. Buffers from which messages are being sent are not among them. */
static void *give_back(struct inc_term *t)
{
	for (; t->release_slot < t->slots; t->release_slot++) {
		struct term_part *part = term_parts(t, t->release_slot);
		void *buffer;
		uint32_t c;

		for (c = 0; c < t->n_children; c++) {
			buffer = part[c].buffer;
			part[c].buffer = NULL;
			if (buffer)
				return buffer;
		}
	}
	return NULL;
}

bool inc_term_next(struct inc_term *t, struct inc_term_action *out)
{
	void *buffer;

	if (t->taken < t->n_actions) {
		*out = t->action[t->taken++];
		return true;
	}
	buffer = t->ended ? give_back(t) : NULL;
	if (!buffer)
		return false;
	*out = (struct inc_term_action){.what = INC_TERM_DO_RELEASE, .buffer = buffer};
	return true;
}
