/* SPDX-License-Identifier: BSD-2-Clause */
/* The loops of one floating-point type, INC_TYPE, with the instructions of one set, INC_SET
 * (lib/Makefile compiles this once for each pair). */
#include "lib/reduce/kernels.h"
#include "lib/reduce/kernels_float.h"
#include "lib/reduce/kernels_native.h"
#include "lib/reduce/kernels_target.h"

#define TABLE(type) INC_FLOAT_TABLE(type)

const struct inc_float_kernels INC_OF_SET(INC_TYPE) = TABLE(INC_TYPE);
