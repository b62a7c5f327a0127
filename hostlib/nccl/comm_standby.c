/* SPDX-License-Identifier: BSD-2-Clause */
/* Watches the standby path and the ports of both rails, and chooses the rail that stands by. */
#include <string.h>
#include "hostlib/nccl/comm_priv.h"
#include "lib/base/clock.h"

#define MISSED_MAX 3u
/* Interval at which the comm tries the rail that is not in use, while its standby path is on the
 * rail in use. No event reports that a link between two switches works again. */
#define OTHER_RAIL_NS (500 * INC_NSEC_PER_MSEC)

/* ---- heartbeats ----------------------------------------------------------------------------- */

/* Whether it is time for the next PING on a channel. A missed answer is counted only then, so that
 * an end that was stopped for a while does not blame the peer for its own silence. */
static bool beat(struct ha_comm *comm, struct ha_beat *beat, uint64_t now_ns)
{
	if (now_ns - beat->pinged_at_ns < comm->end->times.heartbeat_ns)
		return false;
	beat->pinged_at_ns = now_ns;
	beat->missed = beat->received ? 0 : beat->missed + 1;
	beat->received = false;
	return true;
}

static void encode_ping(const struct ha_comm *comm, uint8_t bytes[HA_MSG_BYTES])
{
	const struct ha_control_msg msg = {
		.type = HA_MSG_PING, .nonce = comm->nonce, .epoch = comm->end->epoch};

	ha_control_msg_encode(&msg, bytes);
}

static void beat_on_standby(struct ha_comm *comm, uint64_t now_ns)
{
	uint8_t bytes[HA_MSG_BYTES];

	if (!beat(comm, &comm->standby_beat, now_ns))
		return;
	if (comm->standby_beat.missed >= MISSED_MAX) {
		ha_log(comm->plugin, HA_LOG_INFO, "%s: %s stands by no longer: it is silent",
		       comm->what, comm->standby->name);
		ha_comm_bringup(comm, ha_bringup_failed(&comm->bringup, now_ns), now_ns);
		return;
	}
	encode_ping(comm, bytes);
	ha_path_send(comm->standby, bytes);
}

static void beat_on_socket(struct ha_comm *comm, uint64_t now_ns)
{
	uint8_t bytes[HA_MSG_BYTES];

	if (comm->socket.fd < 0 || !beat(comm, &comm->socket_beat, now_ns))
		return;
	encode_ping(comm, bytes);
	ha_comm_send_on_socket(comm, bytes);
}

static void report_channel(struct ha_comm *comm, uint64_t now_ns)
{
	const bool alive = ha_comm_standby_ready(comm) ||
			   (comm->socket.fd >= 0 && comm->socket_beat.missed < MISSED_MAX);

	if (alive == comm->channel)
		return;
	comm->channel = alive;
	HA_MACHINE_EVENT(comm, channel, alive, now_ns);
}

/* ---- ports ---------------------------------------------------------------------------------- */

/* Whether a path's port is still as it was when the path was made: up, and with the same GID at the
 * same index. */
static bool port_is_good(const struct ha_comm *comm, const struct ha_path *path)
{
	const struct ha_rail *rail = &comm->device->rail[path->rail];
	struct ha_place place;

	if (ha_rail_place(&comm->plugin->devices, rail, &place, NULL))
		return false;
	return place.gid_index == path->own_gid_index &&
	       !memcmp(place.gid, path->own.gid, sizeof(place.gid));
}

static void bring_up_other_rail(struct ha_comm *comm, uint64_t now_ns)
{
	if (comm->bringup.leads)
		ha_comm_bringup(comm,
				ha_bringup_want(&comm->bringup, comm->end->epoch + 1,
						comm->rail ^ 1, now_ns),
				now_ns);
	else
		/* the leader receives PATH_FAILED, and then tries the rails that are up */
		ha_comm_bringup(comm, ha_bringup_failed(&comm->bringup, now_ns), now_ns);
}

static bool stands_by_on_rail_in_use(const struct ha_comm *comm)
{
	return ha_comm_standby_ready(comm) && comm->standby->rail == comm->rail;
}

/* Handles that a port of this end has come up again. */
static void rail_came_up(struct ha_comm *comm, unsigned int rail, uint64_t now_ns)
{
	if (stands_by_on_rail_in_use(comm) && rail != comm->rail)
		bring_up_other_rail(comm, now_ns);
	else
		ha_comm_bringup(comm, ha_bringup_hurry(&comm->bringup, now_ns), now_ns);
}

static void look_at_rails(struct ha_comm *comm, uint64_t now_ns)
{
	struct ha_place place;
	unsigned int rail;

	for (rail = 0; rail < HA_RAILS; rail++) {
		const struct ha_rail *at = &comm->device->rail[rail];
		const bool up = !ha_rail_place(&comm->plugin->devices, at, &place, NULL);

		if (up)
			ha_comm_look_at_loop(comm, rail, &place, now_ns);
		if (up && !comm->rail_up[rail])
			rail_came_up(comm, rail, now_ns);
		comm->rail_up[rail] = up;
	}
}

/* Handles changes of the ports of this end. A path in use is not left for its port if there is no
 * standby. Its device reports an error itself, and the port may be up again by then. */
static void look_at_ports(struct ha_comm *comm, uint64_t now_ns)
{
	const unsigned int changes = atomic_load(&comm->plugin->port_changes);

	if (changes == comm->port_changes_seen &&
	    now_ns - comm->ports_at_ns < comm->end->times.heartbeat_ns)
		return;
	comm->port_changes_seen = changes;
	comm->ports_at_ns = now_ns;
	look_at_rails(comm, now_ns);
	if (ha_comm_standby_ready(comm) && !port_is_good(comm, comm->standby))
		ha_comm_bringup(comm, ha_bringup_failed(&comm->bringup, now_ns), now_ns);
	if (ha_comm_standby_ready(comm) && comm->path && comm->end->state == HA_FLOWING &&
	    !port_is_good(comm, comm->path))
		HA_MACHINE_EVENT(comm, trigger, HA_CAUSE_PORT, now_ns);
}

/* ---- which rail stands by ------------------------------------------------------------------- */

/* Lets the leader bring up the path of the next epoch, as soon as both ends have left the previous
 * epoch. */
static void want_next(struct ha_comm *comm, uint64_t now_ns)
{
	const enum ha_state state = comm->end->state;
	const uint32_t next = comm->end->epoch + 1;

	if (!comm->bringup.leads || comm->bringup.wanted ||
	    (state != HA_FLOWING && state != HA_BROKEN))
		return;
	ha_comm_bringup(comm, ha_bringup_want(&comm->bringup, next, comm->rail ^ 1, now_ns),
			now_ns);
}

static void prefer_other_rail(struct ha_comm *comm, uint64_t now_ns)
{
	if (!stands_by_on_rail_in_use(comm) || !comm->bringup.leads ||
	    now_ns - comm->standby_at_ns < OTHER_RAIL_NS || comm->end->state != HA_FLOWING ||
	    !comm->rail_up[comm->rail ^ 1])
		return;
	bring_up_other_rail(comm, now_ns);
}

static void fail_back(struct ha_comm *comm, uint64_t now_ns)
{
	if (comm->config.failback && comm->bringup.leads && comm->rail != 0 &&
	    ha_comm_standby_ready(comm) && comm->standby->rail == 0 &&
	    comm->end->state == HA_FLOWING)
		HA_MACHINE_EVENT(comm, trigger, HA_CAUSE_REQUEST, now_ns);
}

void ha_comm_look_after(struct ha_comm *comm, uint64_t now_ns)
{
	if (comm->end->state == HA_FAILED || comm->end->state == HA_DONE)
		return;
	if (ha_comm_standby_ready(comm))
		beat_on_standby(comm, now_ns);
	else
		beat_on_socket(comm, now_ns);
	if (comm->dual) {
		look_at_ports(comm, now_ns);
		ha_comm_do(comm, now_ns);
		want_next(comm, now_ns);
		ha_comm_bringup(comm, ha_bringup_tick(&comm->bringup, now_ns), now_ns);
		prefer_other_rail(comm, now_ns);
		fail_back(comm, now_ns);
	}
	report_channel(comm, now_ns);
	/* an end that has entered an epoch without a path leaves it, as if the path had failed */
	if (!comm->path && comm->end->state == HA_FLOWING)
		HA_MACHINE_EVENT(comm, trigger, HA_CAUSE_ERROR, now_ns);
	ha_comm_do(comm, now_ns);
}
