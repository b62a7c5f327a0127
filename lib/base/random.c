/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include "lib/base/random.h"
#include "lib/proto/roce.h"

_Static_assert(INC_PSN_MASK == 0xffffff && INC_QPN_MASK == INC_PSN_MASK, "both have 24 bits");

int inc_random24(uint32_t *out, struct inc_err *err)
{
	const ssize_t n = getrandom(out, sizeof(*out), 0);
	const int error = n < 0 ? errno : EIO;

	if (n != sizeof(*out))
		return inc_err_set(err, error, "getrandom: %s", strerror(error));
	*out &= INC_PSN_MASK;
	return 0;
}

int inc_random_qpn(uint32_t min, uint32_t *qpn, struct inc_err *err)
{
	int ret;

	do
		ret = inc_random24(qpn, err);
	while (!ret && (*qpn < min || *qpn > INC_MAX_QPN));
	return ret;
}
