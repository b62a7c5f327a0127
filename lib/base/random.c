/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>
#include "lib/base/os.h"
#include "lib/base/random.h"
#include "lib/proto/roce.h"

_Static_assert(INC_PSN_MASK == 0xffffff && INC_QPN_MASK == INC_PSN_MASK, "both have 24 bits");

int inc_random_bytes(void *out, size_t size, struct inc_err *err)
{
	const int ret = inc_os.random(out, size, true);

	return ret ? inc_err_set(err, -ret, "random numbers: %s", strerror(-ret)) : 0;
}

int inc_random24(uint32_t *out, struct inc_err *err)
{
	const int ret = inc_random_bytes(out, sizeof(*out), err);

	if (!ret)
		*out &= INC_PSN_MASK;
	return ret;
}

int inc_random_qpn(uint32_t min, uint32_t *qpn, struct inc_err *err)
{
	int ret;

	do
		ret = inc_random24(qpn, err);
	while (!ret && (*qpn < min || *qpn > INC_MAX_QPN));
	return ret;
}
