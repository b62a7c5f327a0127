/* SPDX-License-Identifier: BSD-2-Clause */
/* Pings members, and ends the connections of those that do not answer (keepalive.c). */
#ifndef INC_CTL_KEEPALIVE_H
#define INC_CTL_KEEPALIVE_H

struct inc_ctl;

/* Starts the pings, according to opt.member_timeout_ms. Returns 0 or -ENOMEM. */
int inc_keepalive_start(struct inc_ctl *ctl);
void inc_keepalive_stop(struct inc_ctl *ctl);

#endif
