/* SPDX-License-Identifier: BSD-2-Clause */
/* Failures that switches report, and the peers that switches wait for (comm_event.c). */
#ifndef INC_COMM_EVENT_H
#define INC_COMM_EVENT_H

#include <stdbool.h>
#include <stdint.h>
#include "lib/conf/messages.h"
#include "lib/conf/ranks.h"

struct inc_comm;
struct inc_core_switch;

/* Handles a switch's message "event". */
void inc_comm_event(struct inc_core_switch *sw, const struct inc_msg_event *said);

/* The peer that a switch means by a rank. */
struct inc_peer {
	int rank;       /* rank on a host of the switch; -1: the peer is none of its hosts */
	const char *sw; /* name of the peer switch; NULL: the peer is no switch, or unknown */
	int node; /* tree node of a switch below; -1: the peer is no switch below, or unknown */
	struct inc_ranks below; /* the ranks at and below that node */
};
/* Finds the peer that the switch means by this rank. Rank -1 means the switch's parent. */
struct inc_peer inc_comm_peer(const struct inc_comm *comm, const struct inc_core_switch *sw,
			      int rank);

/* Asks the switch for which ranks its communicators wait, for those communicators where the answer
 * decides about a failure. */
void inc_comms_ask_waiting(struct inc_core_switch *sw);
/* Handles a part of a switch's answer about the ranks that it waits for. If a missing rank has
 * destroyed the communicator, the communicator fails. If a switch below is missing, that switch is
 * asked. Returns false if the answer does not decide, so that the rest of it is needed. */
bool inc_comm_handle_waiting(struct inc_core_switch *sw, const struct inc_msg_waiting *said);
/* The switch has not answered in time for which ranks the communicator waits. Asks it again, if the
 * communicator still runs. */
void inc_comm_retry_waiting(struct inc_core_switch *sw, uint32_t number);
/* Checks a communicator some of whose ranks have not come back after a restart of the controller.
 * These ranks may have destroyed the communicator, so its switches are asked whether they wait for
 * such a rank. If a switch does, the communicator fails. Returns false if no rank is missing, or
 * the communicator does not run. */
bool inc_comm_check_missing(struct inc_comm *comm);

/* Acts on the failure reports of ranks that have come back, or whose time to come back is over. */
void inc_comm_apply_reports(struct inc_comm *comm);
/* A neighbour has told the switch that the communicator has ended. The switch where the
 * communicator began to end reports the reason, which fails the communicator. If no reason comes
 * within switch_timeout_ms the communicator fails without one. */
void inc_comm_wait_for_reason(struct inc_comm *comm, const struct inc_core_switch *sw);

#endif
