/* SPDX-License-Identifier: BSD-2-Clause */
/* Communicators as the switches see them: what is agreed on, what each is told, what it answers. */
#ifndef INC_COMM_CONFIG_H
#define INC_COMM_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "controller/core/core.h"
#include "lib/base/err.h"
#include "lib/conf/messages.h"

/* comm_config.c */
void inc_comm_configure(struct inc_comm *comm); /* all have asked */
void inc_comm_unconfigure(struct inc_comm *comm);
/* The first of its switches that is not connected, or NULL. */
const struct inc_core_switch *inc_comm_absent(const struct inc_comm *comm);
/* The switch has answered configure: code 0 and what it has made (NULL: text says why that cannot
 * be read), or why not. */
void inc_comm_answered(struct inc_core_switch *sw, uint32_t number, int code, const char *text,
		       const struct inc_msg_configured *made);
/* The same of connect. */
void inc_comm_connected(struct inc_core_switch *sw, uint32_t number, int code, const char *text,
			uint32_t confirmed);
/* The database has a communicator that begins: 0, or -errno and why it has not. */
void inc_comm_stored(struct inc_core *core, uint32_t number, int stored,
		     const struct inc_err *because);
/* A switch is back, or has answered most of what it was asked: communicators go on. */
void inc_comm_switch_connected(struct inc_core_switch *sw);
void inc_comm_switch_answered(struct inc_core_switch *sw);
/* Whether the switch has the communicator, as far as is known. */
bool inc_comm_keeps(const struct inc_comm *comm, const struct inc_core_switch *sw);
/* Whether a switch that says it has the communicator shall keep it: of an earlier controller's it
 * becomes one of its switches. */
bool inc_comm_takes(struct inc_comm *comm, struct inc_core_switch *sw);
/* Fails the communicators that should be on the switch but are not among the n that it has. */
void inc_comm_check_kept(struct inc_core_switch *sw, const uint32_t *listed, size_t n);

/* comm_mode.c */
/* Slots that the members' windows take, before there is a tree. */
void inc_comm_choose_slots(struct inc_comm *comm);
/* The communicator has a tree: what all its switches and members can, and of what size. 0, or
 * -errno where a switch cannot do its mode, or a member asks for more than there can be. */
int inc_comm_agree(struct inc_comm *comm, struct inc_err *err);
/* comm_ends.c: the numbers of a communicator's connections */
/* Gives those of passthrough switches, and what can be given of the others'. 0 or -errno. */
int inc_comm_number_ends(struct inc_comm *comm);
void inc_comm_drop_ends(struct inc_comm *comm);
/* Takes what a switch has made of a node of its tree: 0, or -EPROTO where that is not what it was
 * told. */
int inc_comm_take_ends(struct inc_comm *comm, unsigned int node,
		       const struct inc_msg_configured *made, struct inc_err *err);
/* What a node has not been told of its peers when it was configured; false: nothing. */
bool inc_comm_list_peers(struct inc_comm *comm, unsigned int node, struct inc_msg_connect *out);

#endif
