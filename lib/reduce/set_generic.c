/* SPDX-License-Identifier: BSD-2-Clause */
/* The loops for any CPU of this architecture: what the compiler makes of them without being told
 * more. */
#define INC_TARGET
#include "lib/reduce/kernels.h"
#include "lib/reduce/kernels_float.h"
#include "lib/reduce/kernels_int.h"
#include "lib/reduce/kernels_native.h"

static bool usable(void)
{
	return true;
}

const struct inc_kernels inc_kernels_generic = {.name = "generic",
						.usable = usable,
						INC_SWAP_ROW INC_DTYPES(INC_REDUCE_ROW)
							INC_FLOATS(INC_FLOAT_ROW)};
