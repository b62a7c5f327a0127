/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>
#include <infiniband/verbs.h>
#include "selftests/fakes/registration.h"

struct registration {
	/* must be the first member, because pointers to it are cast to this struct */
	struct ibv_mr mr;
	int in, out; /* the ends of the pipe that holds the pinned pages */
};

static int device_reg(void *pd, struct inc_rdma_mr *mr)
{
	struct iovec iov = {.iov_base = (void *)mr->range.start};
	size_t len = mr->range.end - mr->range.start;
	struct fake_domain *domain = pd;
	struct registration *reg;
	int fds[2];
	bool over;

	pthread_mutex_lock(&domain->lock);
	over = domain->limit && domain->pinned + len > domain->limit;
	domain->pinned += over ? 0 : len;
	pthread_mutex_unlock(&domain->lock);
	if (over)
		return -ENOMEM;
	reg = calloc(1, sizeof(*reg));
	if (!reg || pipe2(fds, O_NONBLOCK | O_CLOEXEC))
		abort();
	/* the tests read only the first pages */
	iov.iov_len = len < FAKE_REGISTRATION_BYTES ? len : FAKE_REGISTRATION_BYTES;
	if (vmsplice(fds[1], &iov, 1, 0) != (ssize_t)iov.iov_len)
		abort();
	reg->mr.pd = pd;
	reg->mr.length = len;
	reg->in = fds[1];
	reg->out = fds[0];
	mr->mr = &reg->mr;
	return 0;
}

static void device_dereg(struct inc_rdma_mr *mr)
{
	struct registration *reg = (struct registration *)mr->mr;
	struct fake_domain *domain = (struct fake_domain *)reg->mr.pd;

	pthread_mutex_lock(&domain->lock);
	domain->pinned -= reg->mr.length;
	pthread_mutex_unlock(&domain->lock);
	close(reg->in);
	close(reg->out);
	free(reg);
}

const struct inc_rdma_cache_ops fake_registration_ops = {.reg = device_reg, .dereg = device_dereg};

void fake_registration_read(const struct inc_rdma_mr *mr, uint8_t *buf)
{
	const struct registration *reg = (const struct registration *)mr->mr;
	int fds[2];
	ssize_t n;

	if (pipe2(fds, O_NONBLOCK | O_CLOEXEC))
		abort();
	n = tee(reg->out, fds[1], FAKE_REGISTRATION_BYTES, 0);
	if (n <= 0 || read(fds[0], buf, n) != n)
		abort();
	close(fds[0]);
	close(fds[1]);
}
