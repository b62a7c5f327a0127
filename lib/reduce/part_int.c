/* SPDX-License-Identifier: BSD-2-Clause */
/* The loops of one integer type, INC_TYPE, with the instructions of one set, INC_SET (lib/room.mk
 * compiles this once for each pair). */
#include "lib/reduce/kernels.h"
#include "lib/reduce/kernels_int.h"
#include "lib/reduce/kernels_target.h"

#define TABLE(type) INC_INT_TABLE(type)

const struct inc_int_kernels INC_OF_SET(INC_TYPE) = TABLE(INC_TYPE);
