/* SPDX-License-Identifier: BSD-2-Clause */
/* The loops of the integers of one size, INC_TYPE and uINC_TYPE, with the instructions of one set,
 * INC_SET (lib/Makefile compiles this once for each size and set). */
#include "lib/reduce/kernels.h"
#include "lib/reduce/kernels_int.h"
#include "lib/reduce/kernels_target.h"

#define UNSIGNED(type)         UNSIGNED_(type)
#define UNSIGNED_(type)        u##type
#define TABLE(type, same_bits) INC_INT_TABLE(type, same_bits)

const struct inc_int_kernels INC_OF_SET(INC_TYPE) = TABLE(INC_TYPE, UNSIGNED(INC_TYPE));
const struct inc_int_kernels INC_OF_SET(UNSIGNED(INC_TYPE)) = TABLE(UNSIGNED(INC_TYPE),
								    UNSIGNED(INC_TYPE));
