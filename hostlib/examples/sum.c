/* SPDX-License-Identifier: BSD-2-Clause */
/* N ranks each give 1,024 integers of value rank + 1, so every sum is N (N + 1) / 2. */
#include <stdio.h>
#include <inccl.h>

#define COUNT 1024

int main(void)
{
	int32_t send[COUNT], recv[COUNT];
	struct inccl_communicator *comm = NULL;
	struct inccl_group *group = NULL;
	int err, n, i, wrong = 0;

	err = inccl_group_create(NULL, &group); /* NULL: all options come from the environment */
	if (!err)
		err = inccl_communicator_create(group, NULL, &comm);
	for (i = 0; i < COUNT; i++)
		send[i] = inccl_group_rank(group) + 1;
	if (!err)
		err = inccl_allreduce(comm, send, recv, COUNT, INCCL_INT32, INCCL_SUM, NULL);
	n = inccl_group_size(group);
	for (i = 0; i < COUNT && !err; i++)
		wrong += recv[i] != n * (n + 1) / 2;
	if (err)
		fprintf(stderr, "sum: %s\n", inccl_strerror(err));
	else
		printf("rank %d of %d: %d wrong\n", send[0] - 1, n, wrong);
	inccl_communicator_destroy(comm);
	inccl_group_destroy(group);
	return err || wrong;
}
