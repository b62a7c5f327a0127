/* SPDX-License-Identifier: BSD-2-Clause */
/* Small things that several files of the library need: conditions, cancellation, option structs. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "hostlib/src/internal.h"

int inccl_cond_init(pthread_cond_t *cond)
{
	pthread_condattr_t attr;
	int err;

	err = pthread_condattr_init(&attr);
	if (err)
		return -err;
	err = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	if (!err)
		err = pthread_cond_init(cond, &attr);
	pthread_condattr_destroy(&attr);
	return -err;
}

int inccl_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t deadline_ns)
{
	struct timespec ts = {
		.tv_sec = deadline_ns / INC_NSEC_PER_SEC,
		.tv_nsec = deadline_ns % INC_NSEC_PER_SEC,
	};

	if (deadline_ns == UINT64_MAX)
		return pthread_cond_wait(cond, lock);
	return pthread_cond_timedwait(cond, lock, &ts);
}

int inccl_cancel_hold(void)
{
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	return state;
}

void inccl_cancel_restore(const int *state)
{
	pthread_setcancelstate(*state, NULL);
}

void inccl_explain(char *buf, size_t size, const struct inc_err *err)
{
	if (buf && size)
		snprintf(buf, size, "%s", err->msg);
}

int inccl_opts_copy(void *known, size_t known_size, const void *given)
{
	const unsigned char *p = given;
	size_t sz, i;

	memset(known, 0, known_size);
	if (!given)
		return 0;
	memcpy(&sz, given, sizeof(sz));
	if (sz < sizeof(sz))
		return -EINVAL;
	for (i = known_size; i < sz; i++)
		if (p[i])
			return -E2BIG;
	memcpy(known, given, sz < known_size ? sz : known_size);
	return 0;
}
