// SPDX-License-Identifier: BSD-2-Clause
/* Computes the state of the core and its peers as one number (core_peers.h). Numbers of groups,
 * communicators and queue pairs are left out, because they are random and do not matter. */
#include "controller/core/comm.h"
#include "controller/core/core.h"
#include "controller/core/group.h"
#include "controller/core/orphan.h"
#include "controller/core/switch.h"
#include "selftests/fakes/core_peers.h"

uint64_t peers_mix(uint64_t hash, const void *bytes, size_t n)
{
	const unsigned char *b = bytes;

	for (size_t i = 0; i < n; i++)
		hash = (hash ^ b[i]) * 0x100000001b3;
	return hash;
}

#define MIX(hash, value) (hash) = peers_mix(hash, &(value), sizeof(value))

static uint64_t mix_comm(uint64_t hash, const struct inc_comm *comm)
{
	const bool ended = comm->ended;
	const struct inc_failure_report *r;

	MIX(hash, comm->index);
	MIX(hash, comm->phase);
	MIX(hash, comm->code);
	MIX(hash, comm->went_around);
	MIX(hash, comm->pending);
	MIX(hash, comm->chosen);
	MIX(hash, comm->in_doubt);
	MIX(hash, ended);
	for (unsigned int n = 0; comm->tree && n < comm->tree->n; n++) {
		MIX(hash, comm->tree->nodes[n].sw);
		MIX(hash, comm->configs[n]);
	}
	LIST_FOREACH (r, &comm->failure_reports, entry)
		MIX(hash, r->rank);
	for (unsigned int rank = 0; rank < comm->group->world_size; rank++) {
		const struct inc_comm_member *m = &comm->members[rank];
		const bool flags[] = {m->asked, m->ready, m->destroyed, m->reported_failure,
				      m->has_endpoint};

		MIX(hash, flags);
	}
	return hash;
}

static uint64_t mix_group(uint64_t hash, const struct inc_group *group)
{
	const struct inc_comm *comm;

	MIX(hash, group->phase);
	MIX(hash, group->storing);
	MIX(hash, group->connected);
	MIX(hash, group->over_code);
	MIX(hash, group->n_comms);
	MIX(hash, group->n_refused);
	for (unsigned int rank = 0; rank < group->world_size; rank++) {
		const struct inc_member *m = &group->members[rank];
		const bool flags[] = {m->present, m->client != NULL};

		MIX(hash, flags);
	}
	LIST_FOREACH (comm, &group->comms, entry)
		hash = mix_comm(hash, comm);
	return hash;
}

static void mix_orphan(const struct inc_core_switch *sw, uint32_t number, void *hash)
{
	MIX(*(uint64_t *)hash, sw->index);
}

static uint64_t mix_core(uint64_t hash, const struct inc_core *core)
{
	const struct inc_core_timer *timer;
	const struct inc_group *group;

	LIST_FOREACH (group, &core->groups, entry)
		hash = mix_group(hash, group);
	inc_orphans_each(core, mix_orphan, &hash);
	for (unsigned int s = 0; s < core->topo->n_switches; s++) {
		const struct inc_core_switch *sw = core->switches[s];

		MIX(hash, sw->connected);
		MIX(hash, sw->asked);
		MIX(hash, sw->awaited);
		MIX(hash, sw->n_qpns);
	}
	TAILQ_FOREACH (timer, &core->timers, entry) {
		const uint64_t left_ns = timer->due_at_ns - core->now.awake_ns;

		MIX(hash, left_ns);
		MIX(hash, timer->fn);
	}
	return hash;
}

static uint64_t mix_queue(uint64_t hash, const struct peers_queue *queue)
{
	MIX(hash, queue->n);
	for (unsigned int i = 0; i < queue->n; i++) {
		MIX(hash, queue->said[i].kind);
		MIX(hash, queue->said[i].asked);
	}
	return hash;
}

uint64_t peers_hash(const struct core_peers *peers)
{
	uint64_t hash = mix_core(0xcbf29ce484222325, &peers->core);

	for (unsigned int i = 0; i < PEERS_MEMBERS; i++) {
		MIX(hash, peers->members[i].state);
		MIX(hash, peers->members[i].dead);
		MIX(hash, peers->members[i].done);
		MIX(hash, peers->members[i].must);
		hash = mix_queue(hash, &peers->members[i].queue);
	}
	for (unsigned int s = 0; s < PEERS_SWITCHES; s++) {
		MIX(hash, peers->switches[s].connected);
		MIX(hash, peers->switches[s].n);
		hash = mix_queue(hash, &peers->switches[s].queue);
	}
	MIX(hash, peers->had_death);
	MIX(hash, peers->had_renewal);
	MIX(hash, peers->had_restart);
	MIX(hash, peers->job_ends);
	return store_hash(hash);
}
