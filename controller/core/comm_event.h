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

/* Stores what a switch finds wrong with the communicator now, or "" if that is nothing. Sends it to
 * the communicator's members if it has changed. */
void inc_comm_set_notice(struct inc_comm *comm, const struct inc_core_switch *sw, const char *text);
/* Handles the list of notices in a switch's hello, which is complete. So what the switch reported
 * earlier and does not list is over. */
void inc_comms_set_notices(struct inc_core_switch *sw, const struct inc_msg_notice *list,
			   uint32_t n);
/* Sends the member what the switches find wrong with the communicator now, if there is something,
 * because the member has just received the communicator or has come back. */
void inc_comm_tell_notice(const struct inc_comm *comm, unsigned int rank);

/* The peer of a switch that the switch names by a rank: a host, or a neighbour switch. */
struct inc_peer {
	int rank;       /* rank of a host at the switch; -1: the peer is no host of the switch */
	const char *sw; /* name of a peer that is a switch; NULL: the peer is a host, or unknown */
	int node;       /* tree node of a peer switch below; -1: the peer is none, or unknown */
	struct inc_ranks below; /* the ranks behind a child: below a switch, or of a machine */
};
/* Finds the peer that the switch names by this rank. Rank -1 stands for the switch's parent. */
struct inc_peer inc_comm_peer(const struct inc_comm *comm, const struct inc_core_switch *sw,
			      int rank);

/* Asks a switch for which ranks its communicators wait. It is asked only about communicators where
 * the answer decides whether they fail. */
void inc_comms_ask_waiting(struct inc_core_switch *sw);
/* Handles a part of a switch's answer that lists the ranks that a communicator waits for. If a
 * listed rank has destroyed the communicator, or leads a rank that has not come back, the
 * communicator fails. If a switch below is listed,
 * that switch is asked, too. Returns false if the answer does not decide, so that the caller needs
 * the rest of it. */
bool inc_comm_handle_waiting(struct inc_core_switch *sw, const struct inc_msg_waiting *said);
/* Asks a switch again for which ranks the communicator waits, because it has not answered in time.
 * If the communicator has ended, it is not asked. */
void inc_comm_retry_waiting(struct inc_core_switch *sw, uint32_t number);
/* Checks a communicator some of whose ranks have not come back after a restart of the controller.
 * These ranks may have destroyed the communicator, so its switches are asked whether they wait for
 * such a rank. If a switch does, the communicator fails. Returns false if no rank is missing, or
 * the communicator does not run. */
bool inc_comm_check_missing(struct inc_comm *comm);

/* Acts on stored failure reports about ranks that have come back, or that can no longer come
 * back. */
void inc_comm_apply_reports(struct inc_comm *comm);
/* Handles a switch's report that a neighbour has ended the communicator. The switch where the end
 * began reports the reason, and then the communicator fails. If no reason comes within
 * switch_timeout_ms, the communicator fails without one. */
void inc_comm_wait_for_reason(struct inc_comm *comm, const struct inc_core_switch *sw);

#endif
