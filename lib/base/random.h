/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Numbers of 24 bits that nobody has named: the first packet's, a queue pair's. Random, so that
 * packets of an earlier connection with the same ends do not fit.
 */
#ifndef INC_RANDOM_H
#define INC_RANDOM_H

#include <stdint.h>
#include "lib/base/err.h"

/* 0, or -errno with err. */
int inc_random24(uint32_t *out, struct inc_err *err);
/* The same, drawn until it is a queue pair's that is no smaller than min. */
int inc_random_qpn(uint32_t min, uint32_t *qpn, struct inc_err *err);

#endif
