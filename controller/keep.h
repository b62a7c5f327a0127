/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the controller remembers when it is killed. The core says what has changed; whoever sends
 * anything calls inc_keep_before_telling() first, so that all changes since the last message are in
 * the database, as one transaction, before anybody can know of them. Where it cannot be written,
 * nothing new begins, and what runs goes on: the memory is right, and the file is made so as soon
 * as that is possible.
 *
 * Without a database (ctl->keep is NULL) all of these do nothing. Implemented by store/; everything
 * on the thread of the controller's loop.
 */
#ifndef INC_KEEP_H
#define INC_KEEP_H

#include <stdbool.h>
#include <stdint.h>
#include "lib/base/err.h"

#define INC_KEEP_DEFAULT "/var/lib/inc/controller.db" /* its directory is made, too */
#define INC_KEEP_NOTHING "none"

struct inc_comm;
struct inc_ctl;
struct inc_ctl_switch;
struct inc_group;
struct inc_member;
struct inc_numbers;

/* How much of a communicator the database does not have as it is. */
enum inc_unkept { INC_IS_KEPT, INC_UNKEPT_STATE, INC_UNKEPT_ALL };

/* store/keep.c: for core/ */
void inc_keep_group(struct inc_group *group); /* what it is, its ranks apart */
void inc_keep_rank(struct inc_member *member);
void inc_keep_comm(struct inc_comm *comm, enum inc_unkept what);
/* It ends: nobody shall find it again. */
void inc_keep_group_gone(struct inc_group *group);
void inc_keep_comm_gone(struct inc_comm *comm);
/* Something begins: it is in the database before anything is told. 0, or -errno and why it is not,
 * in which case it must not begin. */
int inc_keep_now(struct inc_ctl *ctl, struct inc_err *err);
/* Whether whatever this controller's switches have is in the database, or has ended. */
bool inc_keep_knows_all(const struct inc_ctl *ctl);

/* store/keep.c: for net/ and main.c */
void inc_keep_before_telling(struct inc_ctl *ctl);
/* Opens the database and brings back what it holds: 0, or -errno with the reason. */
int inc_keep_start(struct inc_ctl *ctl, struct inc_err *err);
/* From here on nothing is kept: what ends because the controller does is not over. */
void inc_keep_stop(struct inc_ctl *ctl);

/* What store/restore.c builds with, by the files that have the rest of it. */
/* number.c: numbers before next have been given; some more are passed over, because the last ones
 * that were given may not be known. */
void inc_numbers_restore(struct inc_numbers *numbers, uint32_t first, uint32_t next);
/* group.c: RESTORED, none of its ranks is back. NULL: no memory. */
struct inc_group *inc_group_restore(struct inc_ctl *ctl, const char *job, unsigned int world_size,
				    uint32_t number);
/* comm.c: COLLECTING, of no member yet. NULL: no memory. */
struct inc_comm *inc_comm_restore(struct inc_group *group, unsigned int index);
/* switch.c: the number is in use. 0 or -errno. */
int inc_switch_qpn_take(struct inc_ctl_switch *sw, uint32_t qpn);

#endif
