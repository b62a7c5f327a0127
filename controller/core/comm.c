/* SPDX-License-Identifier: BSD-2-Clause */
/* Communicators as their members see them: C, ready, D, and failures (comm.h). Called by core.c. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lib/base/clock.h"
#include "lib/base/err.h"
#include "controller/core/admission.h"
#include "controller/core/comm.h"
#include "controller/core/comm_config.h"
#include "controller/core/comm_event.h"
#include "controller/core/core.h"
#include "controller/core/endpoint.h"
#include "controller/core/group.h"
#include "controller/core/route.h"
#include "controller/core/switch.h"
#include "lib/base/log.h"

struct inc_comm *inc_comm_find(struct inc_core *core, uint32_t number)
{
	struct inc_group *group;
	struct inc_comm *comm;

	if (!number)
		return NULL;
	LIST_FOREACH (group, &core->groups, entry) {
		LIST_FOREACH (comm, &group->comms, entry) {
			if (comm->number == number)
				return comm;
		}
	}
	return NULL;
}

static struct inc_comm *comm_new(struct inc_group *group, unsigned int index)
{
	struct inc_comm *comm =
		calloc(1, sizeof(*comm) + group->world_size * sizeof(comm->members[0]));

	if (!comm)
		return NULL;
	inc_core_timer_init(&comm->timer, group->core, inc_comm_on_timeout, comm);
	inc_core_timer_init(&comm->wait.timer, group->core, inc_comm_on_wait, comm);
	comm->group = group;
	comm->index = index;
	comm->place = ++group->core->last_place;
	inc_comm_mark_led(comm);
	LIST_INSERT_HEAD(&group->comms, comm, entry);
	group->n_comms++;
	inc_core_timer_arm(&comm->timer, group->core->opt.group_timeout_ms);
	inc_core_wait_begin(&comm->wait);
	return comm;
}

struct inc_comm *inc_comm_restore(struct inc_group *group, unsigned int index)
{
	return comm_new(group, index);
}

/* Returns the mode of a switch's node in the tree. No message after a restart of the controller
 * names the mode of each switch of a mixed tree, so the best guess is the mode that is set. */
static enum inc_mode_of_switch known_mode(const struct inc_comm *comm,
					  const struct inc_core_switch *sw)
{
	switch (comm->mode) {
	case INC_TREE_PASSTHROUGH:
		return INC_PASSTHROUGH;
	case INC_TREE_TERMINATION:
		return INC_TERMINATION;
	default:
		if (inc_switch_setting(sw) != INC_AUTO)
			return inc_switch_setting(sw);
		return sw->engines[INC_PASSTHROUGH].there ? INC_PASSTHROUGH : INC_TERMINATION;
	}
}

void inc_comm_adopt_mode(struct inc_comm *comm, const struct inc_core_switch *sw)
{
	const int node = inc_tree_find(comm->tree, sw->index);

	/* The modes of the switches are known if this controller has made the tree. */
	if (!comm->tree->counted)
		comm->tree->nodes[node].mode = known_mode(comm, sw);
}

/* Copies the fields of a member's claim that have the same value for all members. */
static void adopt_fields(struct inc_comm *comm, const struct inc_msg_claim *said)
{
	comm->number = said->communicator;
	comm->payload = said->payload;
	comm->slots = comm->tree->slots = said->slots;
	comm->byte_order = said->byte_order;
	comm->mode = said->mode;
	comm->floats = said->floats;
	comm->message_packets = said->message_packets;
	comm->messages = said->messages;
}

struct inc_comm *inc_comm_adopt(struct inc_group *group, const struct inc_msg_claim *said,
				struct inc_core_switch *sw)
{
	struct inc_comm *comm = comm_new(group, said->comm);

	if (!comm)
		return NULL;
	comm->tree = inc_route_known(sw->index);
	comm->configs = calloc(1, sizeof(*comm->configs));
	if (!comm->tree || !comm->configs) {
		inc_comm_end(comm);
		return NULL;
	}
	adopt_fields(comm, said);
	inc_comm_adopt_mode(comm, sw);
	inc_comm_set_config_state(comm, 0, CONFIG_THERE);
	inc_comm_set_phase(comm, COMM_STARTED);
	return comm;
}

/* Removes the communicator from its switches, and frees the endpoints of its members. */
static void let_go(struct inc_comm *comm)
{
	inc_comm_unconfigure(comm);
	for (unsigned int rank = 0; rank < comm->group->world_size; rank++)
		inc_endpoint_leave(&comm->members[rank]);
}

void inc_comm_end(struct inc_comm *comm)
{
	if (comm->number)
		inc_info("communicator %u (group %u, %s) ends", comm->number, comm->group->number,
			 comm->group->job);
	let_go(comm);
	inc_failure_reports_free(&comm->failure_reports);
	inc_standings_free(&comm->standings);
	/* configs may exist without a tree, because inc_comm_adopt() may have run out of memory */
	free(comm->configs);
	LIST_REMOVE(comm, entry);
	if (comm->phase == COMM_REFUSED)
		comm->group->n_refused--;
	else
		comm->group->n_comms--;
	inc_core_timer_stop(&comm->timer);
	inc_core_timer_stop(&comm->wait.timer);
	free(comm);
}

void inc_comm_end_unused(struct inc_comm *comm)
{
	const struct inc_group *group = comm->group;

	for (unsigned int rank = 0; rank < group->world_size; rank++) {
		if (!comm->members[rank].destroyed &&
		    (group->members[rank].client || inc_group_awaits(group, rank)))
			return;
	}
	inc_comm_end(comm);
}

void inc_comm_tell_failed(const struct inc_comm *comm, unsigned int to, int rank)
{
	struct inc_core_client *client = comm->group->members[to].client;
	const struct inc_comm_member *member = &comm->members[to];
	struct inc_msg_failed failed = {
		.group = comm->group->number,
		.has_communicator = true,
		.communicator = comm->number,
		.code = comm->code,
	};

	if (!client || !member->asked || member->destroyed || member->reported_failure)
		return;
	/* A member that waits for an answer receives an error, the other members receive message
	 * failed. */
	if (comm->phase < COMM_CONFIGURED || comm->phase == COMM_REFUSED ||
	    (comm->phase == COMM_CONFIGURED && member->ready)) {
		inc_act_refuse(client, comm->code,
			       &(struct inc_msg_error){.has_comm = true, .comm = comm->index}, "%s",
			       comm->reason);
		return;
	}
	failed.rank = rank;
	failed.has_rank = rank >= 0;
	snprintf(failed.message, sizeof(failed.message), "%s", comm->reason);
	inc_act_send(client, INC_MSG_FAILED, &failed);
}

static bool all_told(const struct inc_comm *comm)
{
	const struct inc_group *group = comm->group;

	for (unsigned int rank = 0; rank < group->world_size; rank++) {
		if (!comm->members[rank].asked &&
		    (group->members[rank].client || inc_group_awaits(group, rank)))
			return false;
	}
	return true;
}

void inc_comm_forget_refused(struct inc_group *group)
{
	struct inc_comm *comm = LIST_FIRST(&group->comms), *next;

	for (; comm; comm = next) {
		next = LIST_NEXT(comm, entry);
		if (comm->phase == COMM_REFUSED && all_told(comm))
			inc_comm_end(comm);
	}
}

/* Ends the communicator but keeps its error, for the ranks that have not asked for it yet. */
static void refuse(struct inc_comm *comm)
{
	struct inc_group *group = comm->group;
	struct inc_comm *old, *oldest = NULL;

	let_go(comm);
	inc_comm_set_phase(comm, COMM_REFUSED);
	comm->number = 0;
	group->n_comms--;
	group->n_refused++;
	/* If the group is over, ranks that ask later receive the group's error. */
	if (all_told(comm) || inc_group_ended(group)) {
		inc_comm_end(comm);
		return;
	}
	if (group->n_refused <= CTL_MAX_COMMS)
		return;
	LIST_FOREACH (old, &group->comms, entry) {
		if (old->phase == COMM_REFUSED)
			/* communicators are inserted at the head, so the last refused one is the
			 * oldest */
			oldest = old;
	}
	inc_comm_end(oldest);
}

void inc_comm_fail(struct inc_comm *comm, int rank, int code, const char *fmt, ...)
{
	const bool ran = comm->phase == COMM_STARTED;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(comm->reason, sizeof(comm->reason), fmt, ap);
	va_end(ap);
	comm->code = inc_errno_name(code) ? code : EIO;
	inc_warn("group %u (%s), communicator %u: %s", comm->group->number, comm->group->job,
		 comm->number ? comm->number : comm->index, comm->reason);
	inc_act_store_state(comm);
	for (unsigned int to = 0; to < comm->group->world_size; to++)
		inc_comm_tell_failed(comm, to, rank);
	if (comm->phase < COMM_CONFIGURED) {
		comm->group->core->figures.refused++;
		refuse(comm);
	} else {
		comm->group->core->figures.failed++;
		inc_comm_record_failure(comm);
		inc_comm_set_phase(comm, COMM_FAILED);
		if (ran)
			inc_comm_fail_channels(comm, rank);
	}
}

/* Copies the fields of message C into the member's entry in the communicator. */
static void take_fields(const struct inc_msg_ask *ask, struct inc_comm_member *m)
{
	memcpy(m->transport, ask->transport, sizeof(m->transport));
	m->payload = ask->payload;
	m->termination_payload = ask->termination_payload ?: ask->payload;
	m->message_packets = ask->message_packets;
	m->window_messages = ask->window;
	m->byte_order = ask->byte_order;
	m->floats = ask->floats;
	m->channels = ask->channels;
	m->reorder = ask->reorder;
	m->has_use = ask->has_use;
	m->use = ask->use;
	m->route.own.end = ask->own;
	m->route.own.end.kind = inc_endpoint_kind_of(ask->transport);
	m->route.pkey = ask->pkey;
	m->route.udp_csum = ask->udp_csum;
}

static struct inc_comm *find_index(const struct inc_group *group, unsigned int index)
{
	struct inc_comm *comm;

	LIST_FOREACH (comm, &group->comms, entry) {
		if (comm->index == index)
			return comm;
	}
	return NULL;
}

struct inc_comm *inc_comm_get_index(struct inc_group *group, unsigned int index)
{
	struct inc_comm *comm = find_index(group, index);

	return comm ? comm : comm_new(group, index);
}

/* Whether the rank's message size and byte order are those of the ranks that have asked before. If
 * they are not, the communicator fails. */
static bool agrees(struct inc_comm *comm, unsigned int rank)
{
	const struct inc_comm_member *mine = &comm->members[rank];

	for (unsigned int other = 0; other < comm->group->world_size; other++) {
		const struct inc_comm_member *m = &comm->members[other];

		if (!m->asked || inc_group_is_led(comm->group, other))
			continue;
		if (m->message_packets != mine->message_packets)
			inc_comm_fail(comm, rank, EINVAL,
				      "message_packets must be the same everywhere: rank %u says "
				      "%u, rank %u says %u",
				      other, m->message_packets, rank, mine->message_packets);
		else if (m->byte_order != mine->byte_order)
			inc_comm_fail(comm, rank, EINVAL,
				      "byte_order must be the same everywhere: rank %u says %s, "
				      "rank %u says %s",
				      other, inc_byte_orders[m->byte_order], rank,
				      inc_byte_orders[mine->byte_order]);
		else
			continue;
		return false;
	}
	return true;
}

/* The member asks for a communicator that has been refused, so it receives the stored error. */
static void tell_refused(struct inc_comm *comm, struct inc_member *member)
{
	comm->members[member->rank].asked = true;
	/* the member needs the error now, even if it has reported a failure before */
	comm->members[member->rank].reported_failure = false;
	inc_comm_tell_failed(comm, member->rank, -1);
	if (all_told(comm))
		inc_comm_end(comm);
}

/* Checks whether the rank may ask for this communicator now. Returns 0, or -errno if it may not. */
static int check_ask(const struct inc_member *member, const struct inc_comm *comm, uint32_t index,
		     struct inc_err *err)
{
	const struct inc_group *group = member->group;

	if (inc_group_ended(group))
		return inc_err_set(err, group->over_code, "%s", group->over);
	if (inc_group_is_led(group, member->rank))
		return inc_err_set(err, EPERM, "rank %u has the connection of this rank",
				   group->members[member->rank].leader);
	if (comm && (comm->phase != COMM_COLLECTING || comm->members[member->rank].asked))
		return inc_err_set(err, EEXIST, "communicator %u of this group exists already",
				   index);
	return 0;
}

static void take_ask(struct inc_comm *comm, unsigned int rank, const struct inc_comm_member *asked)
{
	comm->members[rank] = *asked;
	comm->members[rank].asked = true;
	inc_endpoint_take(comm->group->core, &comm->members[rank]);
	if (!agrees(comm, rank))
		return;
	for (unsigned int other = 0; other < comm->group->world_size; other++) {
		if (!comm->members[other].asked)
			return;
	}
	if (inc_comm_find_rails(comm))
		inc_comm_configure(comm);
}

void inc_comm_ask(struct inc_member *member, const struct inc_msg_ask *said, int wrong,
		  struct inc_err *why)
{
	const struct inc_msg_error about = {.has_comm = true, .comm = said->comm};
	struct inc_comm_member asked = {.route.host = member->nic};
	struct inc_comm *comm;
	struct inc_err err;
	int ret;

	comm = find_index(member->group, said->comm);
	if (comm && comm->phase == COMM_REFUSED) {
		tell_refused(comm, member);
		return;
	}
	ret = check_ask(member, comm, said->comm, &err);
	if (ret)
		goto refuse;
	if (!wrong)
		take_fields(said, &asked);
	wrong = wrong ?: inc_rails_take(member, said, &asked, why);
	wrong = wrong ?: inc_endpoint_check(member->group->core, &asked.route, why);
	if (!wrong && !comm)
		wrong = inc_group_admit(member->group, why);
	comm = inc_comm_get_index(member->group, said->comm);
	if (!comm) {
		ret = inc_err_set(&err, ENOMEM, "the controller is out of memory");
		goto refuse;
	}
	if (!wrong) {
		take_ask(comm, member->rank, &asked);
		return;
	}
	/* The member counts as one that has asked, so that it receives the error with the
	 * others. */
	comm->members[member->rank].asked = true;
	inc_comm_fail(comm, member->rank, -wrong, "%s: C: %s", inc_member_name(member), why->msg);
	return;

refuse:
	inc_info("%s: C refused: %s", member->client->peer, err.msg);
	inc_act_refuse(member->client, -ret, &about, "%s", err.msg);
}

const struct inc_topo_port *inc_comm_host_port(const struct inc_comm *comm, unsigned int rank)
{
	const struct inc_topology *topo = comm->group->core->topo;
	const struct inc_topo_host *host = &topo->hosts[comm->members[rank].route.host];
	const int node =
		comm->tree && comm->tree->counted ? inc_tree_find(comm->tree, host->sw) : -1;
	const struct inc_tree_child *child =
		node < 0 ? NULL : inc_tree_child_of(comm->tree, node, rank);

	return &topo->switches[host->sw].ports[child ? child->port : host->port];
}

/* Reports once for each communicator of the members that the modes of its switches, or the MTU at
 * one member, cost speed. The MTU replaces an advice for floats, because it concerns all types. */
static void advise(const struct inc_comm *comm, struct inc_msg_made *made)
{
	char narrow[sizeof(made->slow)];

	if (inc_channel_of(comm->index))
		return;
	made->has_slow = inc_comm_find_slow(comm, made);
	if (made->slow_floats)
		inc_info("communicator %u: %s", comm->number, made->slow);
	else if (made->has_slow)
		inc_warn("communicator %u: %s", comm->number, made->slow);
	if (!inc_comm_find_narrow(comm, narrow, sizeof(narrow)))
		return;
	inc_warn("communicator %u: %s", comm->number, narrow);
	if (made->has_slow && !made->slow_floats)
		return;
	memcpy(made->slow, narrow, sizeof(made->slow));
	made->has_slow = true;
	made->slow_floats = false;
}

void inc_comm_configured(struct inc_comm *comm)
{
	const struct inc_group *group = comm->group;
	const struct inc_topology *topo = group->core->topo;
	struct inc_core_figures *figures = &group->core->figures;

	figures->configured++;
	figures->configure_us +=
		(group->core->now.awake_ns - comm->asked_at_ns) / INC_NSEC_PER_USEC;
	inc_info("communicator %u (group %u, %s): payload %u, %u slots, %u switches, %s%s%s%s, "
		 "messages of %u packets, floats %s",
		 comm->number, group->number, group->job, comm->payload, comm->slots, comm->tree->n,
		 inc_tree_modes[comm->mode], *comm->choice ? " (auto: " : "", comm->choice,
		 *comm->choice ? ")" : "", comm->message_packets, inc_float_forms[comm->floats]);
	inc_comm_set_phase(comm, COMM_CONFIGURED);
	for (unsigned int rank = 0; rank < group->world_size; rank++) {
		const struct inc_member *member = &group->members[rank];
		const struct inc_topo_host *host = &topo->hosts[comm->members[rank].route.host];
		const struct inc_topo_switch *sw = &topo->switches[host->sw];
		struct inc_msg_made made = {
			.comm = comm->index,
			.communicator = comm->number,
			.payload = comm->payload,
			.slots = comm->slots,
			.mode = comm->mode,
			.floats = comm->floats,
			.reorder = comm->reorder,
			.message_packets = comm->message_packets,
			.messages = comm->messages,
			.channels = comm->channels,
			.connection = {.own.ip = host->ip,
				       .peer = comm->members[rank].route.peer.end},
		};
		struct inc_rc_end *peer = &made.connection.peer;

		if (inc_group_is_led(group, rank))
			continue;
		_Static_assert(sizeof(made.connection.node) >= sizeof(sw->name), "all names fit");
		strcpy(made.connection.node, sw->name);
		made.has_choice = *comm->choice;
		strcpy(made.choice, comm->choice);
		inc_comm_offer_probes(comm, &made);
		inc_comm_list_rails(comm, member, &made);
		if (!rank)
			advise(comm, &made);
		peer->ip = inc_comm_host_port(comm, rank)->ip;
		peer->udp_port = peer->udp_port ?: INC_ROCE_UDP_PORT;
		inc_tree_describe(comm->tree, topo, inc_tree_find(comm->tree, host->sw), made.tree,
				  sizeof(made.tree));
		inc_act_send(member->client, INC_MSG_MADE, &made);
	}
}

/* Finds the communicator of this number that the member has. Returns NULL if the member has none of
 * this number, or has destroyed it. */
static struct inc_comm *find_own(const struct inc_member *member, uint32_t number)
{
	struct inc_comm *comm = inc_comm_find(member->group->core, number);

	if (!comm || comm->group != member->group || comm->members[member->rank].destroyed)
		return NULL;
	return comm;
}

/* Sends the member an error, because the member has no communicator of this number. */
static void refuse_number(const struct inc_member *member, const char *message, uint32_t number)
{
	const struct inc_msg_error about = {.has_communicator = true, .communicator = number};

	inc_act_refuse(member->client, ENOENT, &about, "%s: this member has no communicator %u",
		       message, number);
}

void inc_comm_ready(struct inc_member *member, uint32_t number)
{
	struct inc_group *group = member->group;
	struct inc_comm *comm = find_own(member, number);

	if (!comm) {
		refuse_number(member, "ready", number);
		return;
	}
	if (comm->phase != COMM_CONFIGURED || comm->members[member->rank].ready) {
		const struct inc_msg_error about = {.has_comm = true,
						    .comm = comm->index,
						    .has_communicator = true,
						    .communicator = number};
		bool failed = comm->phase == COMM_FAILED;

		inc_act_refuse(member->client, failed ? comm->code : EALREADY, &about,
			       "communicator %u %s%s", number,
			       failed ? "has failed: " : "is ready already",
			       failed ? comm->reason : "");
		return;
	}
	comm->members[member->rank].ready = true;
	for (unsigned int rank = 0; rank < group->world_size; rank++) {
		if (!comm->members[rank].ready)
			return;
	}
	inc_comm_set_phase(comm, COMM_STARTED);
	for (unsigned int rank = 0; rank < group->world_size; rank++)
		if (!inc_group_is_led(group, rank)) {
			inc_act_send(group->members[rank].client, INC_MSG_START,
				     &(struct inc_msg_number){number});
			inc_comm_tell_notice(comm, rank);
		}
}

void inc_comm_destroy(struct inc_member *member, uint32_t number)
{
	struct inc_group *group = member->group;
	struct inc_comm *comm = find_own(member, number);

	/* If the communicator has already ended, for example with its group, the member gets what
	 * it wants. Only a number that this controller has never allocated is an error of the
	 * member. */
	if (!comm && ((!inc_group_resumed(group) &&
		       !inc_number_was_allocated(&group->core->comm_numbers, number)) ||
		      inc_comm_find(group->core, number))) {
		refuse_number(member, "D", number);
		return;
	}
	inc_act_send(member->client, INC_MSG_DESTROY, &(struct inc_msg_number){number});
	if (!comm)
		return;
	comm->members[member->rank].destroyed = true;
	if (comm->phase == COMM_CONFIGURED)
		inc_comm_fail(comm, member->rank, ECANCELED,
			      "%s destroyed communicator %u before it was started",
			      inc_member_name(member), number);
	inc_comm_end_unused(comm);
}
