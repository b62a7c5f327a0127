/* SPDX-License-Identifier: BSD-2-Clause */
/* Asks members whether they are there, and ends those that do not say so. */
#ifndef INC_CTL_KEEPALIVE_H
#define INC_CTL_KEEPALIVE_H

struct inc_ctl;

/* Begins to ask, as opt.member_timeout_ms has it. 0, or -ENOMEM. */
int inc_keepalive_start(struct inc_ctl *ctl);
void inc_keepalive_stop(struct inc_ctl *ctl);

#endif
