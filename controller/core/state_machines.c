/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The state machines of groups, of derivations, of communicators, and of a communicator's
 * configuration on each switch: which step may follow which, and what each entry of a state does.
 * No other code assigns these states. Called by the rest of core/, in the controller's one loop.
 */
#include <stdio.h>
#include "controller/core/comm.h"
#include "controller/core/core.h"
#include "controller/core/derive.h"
#include "controller/core/group.h"
#include "controller/core/switch.h"
#include "lib/base/machine.h"

static const char *const group_names[] = {
	[GROUP_FORMING] = "forming",     [GROUP_RUNNING] = "running", [GROUP_RESTORED] = "restored",
	[GROUP_RETURNING] = "returning", [GROUP_SETTLED] = "settled", [GROUP_OVER] = "over",
};

static const uint32_t group_steps[] = {
	[GROUP_FORMING] =
		INC_STEP(GROUP_RUNNING) | INC_STEP(GROUP_RESTORED) | INC_STEP(GROUP_RETURNING),
	[GROUP_RUNNING] = INC_STEP(GROUP_OVER),
	/* A RESTORED group becomes RETURNING, in which nothing new begins, if a rank has left or
	 * has not come back in time. */
	[GROUP_RESTORED] = INC_STEP(GROUP_RUNNING) | INC_STEP(GROUP_RETURNING),
	[GROUP_RETURNING] = INC_STEP(GROUP_SETTLED),
	[GROUP_OVER] = 0,
};

static const struct inc_machine group_machine = {"group", GROUP_OVER + 1, group_names, group_steps};

void inc_group_set_phase(struct inc_group *group, enum inc_group_phase to)
{
	char who[CTL_NAME_MAX + 16];

	snprintf(who, sizeof(who), "%u (%s)", group->number, group->job);
	group->phase = inc_machine_step(&group_machine, who, group->phase, to);
	inc_core_timer_stop(&group->wait.timer); /* no step leads back to FORMING */
	inc_act_store_group(group);
	/* A group that runs needs no time limit any more. A group that is RETURNING keeps the
	 * limit, because ranks may still come back. */
	if (to == GROUP_RUNNING)
		inc_core_timer_stop(&group->timer);
}

const char *inc_group_phase_name(enum inc_group_phase phase)
{
	return group_names[phase];
}

static const char *const derive_names[] = {
	[DERIVE_COLLECTING] = "collecting",
	[DERIVE_REFUSED] = "refused",
};

static const uint32_t derive_steps[] = {
	[DERIVE_COLLECTING] = INC_STEP(DERIVE_REFUSED),
	[DERIVE_REFUSED] = 0,
};

static const struct inc_machine derive_machine = {"derivation", DERIVE_REFUSED + 1, derive_names,
						  derive_steps};

void inc_derivation_set_phase(struct inc_derivation *d, enum inc_derive_phase to)
{
	char who[CTL_NAME_MAX + 40];

	snprintf(who, sizeof(who), "%s %u of %s", inc_derive_hows[d->how], d->round, d->job);
	d->phase = inc_machine_step(&derive_machine, who, d->phase, to);
	inc_core_timer_stop(&d->timer);
	inc_core_timer_stop(&d->wait.timer);
}

static const char *const comm_names[] = {
	[COMM_COLLECTING] = "COLLECTING",   [COMM_WAIT_SWITCH] = "WAIT_SWITCH",
	[COMM_CONFIGURING] = "CONFIGURING", [COMM_CONFIGURED] = "CONFIGURED",
	[COMM_STARTED] = "STARTED",         [COMM_FAILED] = "FAILED",
	[COMM_REFUSED] = "REFUSED",
};

static const uint32_t comm_steps[] = {
	/* a communicator of an earlier controller becomes STARTED or FAILED as soon as it is
	 * made */
	[COMM_COLLECTING] = INC_STEP(COMM_WAIT_SWITCH) | INC_STEP(COMM_CONFIGURING) |
			    INC_STEP(COMM_STARTED) | INC_STEP(COMM_FAILED) | INC_STEP(COMM_REFUSED),
	[COMM_WAIT_SWITCH] = INC_STEP(COMM_CONFIGURING) | INC_STEP(COMM_REFUSED),
	/* a communicator that gets another tree becomes CONFIGURING or WAIT_SWITCH again */
	[COMM_CONFIGURING] = INC_STEP(COMM_CONFIGURED) | INC_STEP(COMM_REFUSED) |
			     INC_STEP(COMM_CONFIGURING) | INC_STEP(COMM_WAIT_SWITCH),
	[COMM_CONFIGURED] = INC_STEP(COMM_STARTED) | INC_STEP(COMM_FAILED),
	[COMM_STARTED] = INC_STEP(COMM_FAILED),
	[COMM_REFUSED] = 0,
};

static const struct inc_machine comm_machine = {"communicator", COMM_REFUSED + 1, comm_names,
						comm_steps};

const char *inc_comm_phase_name(enum inc_comm_phase phase)
{
	return comm_names[phase];
}

const char *inc_comm_state_name(const struct inc_comm *comm)
{
	return inc_comm_phase_name(comm->phase);
}

/* Returns the time limit of the communicator's phase. 0: the phase has none, or other objects have
 * one. */
static unsigned int patience_ms(const struct inc_comm *comm)
{
	const struct inc_core_options *opt = &comm->group->core->opt;

	switch (comm->phase) {
	case COMM_COLLECTING:
	case COMM_CONFIGURED:
		return opt->group_timeout_ms;
	case COMM_WAIT_SWITCH:
		return opt->switch_timeout_ms;
	/* a neighbour has reported the communicator's end, whose reason must come within this
	 * time */
	case COMM_STARTED:
		return comm->ended ? opt->switch_timeout_ms : 0;
	default:
		return 0;
	}
}

void inc_comm_set_phase(struct inc_comm *comm, enum inc_comm_phase to)
{
	char who[40];
	unsigned int ms;

	snprintf(who, sizeof(who), "%u.%u (%u)", comm->group->number, comm->index, comm->number);
	comm->phase = inc_machine_step(&comm_machine, who, comm->phase, to);
	/* Once the communicator has started, only its own row of the database changes. */
	if (to <= COMM_CONFIGURED || !comm->tree || !comm->tree->counted)
		inc_act_store_comm(comm);
	else
		inc_act_store_state(comm);
	ms = patience_ms(comm);
	if (ms)
		inc_core_timer_arm(&comm->timer, ms);
	else
		inc_core_timer_stop(&comm->timer);
	if (ms && to < COMM_STARTED)
		inc_core_wait_begin(&comm->wait);
	else
		inc_core_timer_stop(&comm->wait.timer);
}

static const char *const config_names[] = {
	[CONFIG_NONE] = "none", [CONFIG_ASKED] = "asked",     [CONFIG_THERE] = "there",
	[CONFIG_TOLD] = "told", [CONFIG_REFUSED] = "refused",
};

static const uint32_t config_steps[] = {
	/* the switch already has a communicator that comes from an earlier controller */
	[CONFIG_NONE] = INC_STEP(CONFIG_ASKED) | INC_STEP(CONFIG_THERE),
	[CONFIG_ASKED] = INC_STEP(CONFIG_THERE) | INC_STEP(CONFIG_REFUSED) | INC_STEP(CONFIG_NONE),
	/* a switch that had the communicator has restarted, and its hello does not list it any
	 * more */
	[CONFIG_THERE] = INC_STEP(CONFIG_NONE) | INC_STEP(CONFIG_REFUSED) | INC_STEP(CONFIG_TOLD),
	[CONFIG_TOLD] = INC_STEP(CONFIG_NONE) | INC_STEP(CONFIG_REFUSED) | INC_STEP(CONFIG_THERE),
	[CONFIG_REFUSED] = 0,
};

static const struct inc_machine config_machine = {"configuration", CONFIG_REFUSED + 1, config_names,
						  config_steps};

void inc_comm_set_config_state(struct inc_comm *comm, unsigned int node, enum inc_config_state to)
{
	char who[80];

	snprintf(who, sizeof(who), "%u of switch %s", comm->number,
		 inc_switch_name(comm->group->core->switches[comm->tree->nodes[node].sw]));
	comm->configs[node] = inc_machine_step(&config_machine, who, comm->configs[node], to);
}
