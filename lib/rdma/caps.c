/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include "lib/rdma/caps.h"

bool inc_rdma_qp_caps_exceed(const struct inc_rdma_limits *limits,
			     const struct inc_rdma_qp_caps *caps, struct inc_rdma_excess *excess)
{
	const struct inc_rdma_excess check[] = {
		{"send_wr", caps->send_wr, limits->max_qp_wr},
		{"recv_wr", caps->recv_wr, limits->max_qp_wr},
		{"send_sge", caps->send_sge, limits->max_sge},
		{"recv_sge", caps->recv_sge, limits->max_sge},
		{"rd_atomic", caps->rd_atomic, limits->max_qp_init_rd_atom},
		{"dest_rd_atomic", caps->dest_rd_atomic, limits->max_qp_rd_atom},
	};
	unsigned int i;

	for (i = 0; i < sizeof(check) / sizeof(check[0]); i++)
		if (check[i].wanted > check[i].most) {
			*excess = check[i];
			return true;
		}
	return false;
}

int inc_rdma_qp_caps_check(const char *device, const struct inc_rdma_limits *limits,
			   const struct inc_rdma_qp_caps *caps, struct inc_err *err)
{
	struct inc_rdma_excess excess;

	if (!inc_rdma_qp_caps_exceed(limits, caps, &excess))
		return 0;
	return inc_err_set(err, EINVAL, "%s: %s is %u, the device can do %u", device, excess.field,
			   excess.wanted, excess.most);
}
