/* SPDX-License-Identifier: BSD-2-Clause */
/* Functions that several files of the library use: conditions on CLOCK_MONOTONIC, and
 * cancellation. */
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
	const struct timespec ts = inc_timespec_of_ns(deadline_ns);

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
