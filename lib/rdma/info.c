/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <infiniband/verbs.h>
#include <string.h>
#include "lib/rdma/info.h"

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #ours)
SAME(INC_RDMA_LINK_UNKNOWN, IBV_LINK_LAYER_UNSPECIFIED);
SAME(INC_RDMA_LINK_INFINIBAND, IBV_LINK_LAYER_INFINIBAND);
SAME(INC_RDMA_LINK_ETHERNET, IBV_LINK_LAYER_ETHERNET);
SAME(INC_RDMA_PORT_NOP, IBV_PORT_NOP);
SAME(INC_RDMA_PORT_DOWN, IBV_PORT_DOWN);
SAME(INC_RDMA_PORT_INIT, IBV_PORT_INIT);
SAME(INC_RDMA_PORT_ARMED, IBV_PORT_ARMED);
SAME(INC_RDMA_PORT_ACTIVE, IBV_PORT_ACTIVE);
SAME(INC_RDMA_PORT_ACTIVE_DEFER, IBV_PORT_ACTIVE_DEFER);
SAME(INC_RDMA_GID_INFINIBAND, IBV_GID_TYPE_IB);
SAME(INC_RDMA_GID_ROCE_V1, IBV_GID_TYPE_ROCE_V1);
SAME(INC_RDMA_GID_ROCE_V2, IBV_GID_TYPE_ROCE_V2);
SAME(INC_RDMA_NAME_SIZE, IBV_SYSFS_NAME_MAX);
SAME(INC_RDMA_MTU_MIN_BYTES, 128 << IBV_MTU_256);
SAME(INC_RDMA_MTU_MAX_BYTES, 128 << IBV_MTU_4096);

bool inc_rdma_filter_passes(const struct inc_rdma_filter *filter, const char *device, uint8_t port)
{
	const struct inc_rdma_filter_entry *entry;

	if (!filter || !filter->entries)
		return true;
	for (entry = filter->entry; entry < filter->entry + filter->entries; entry++)
		if ((!entry->device[0] || !strcmp(entry->device, device)) &&
		    (!port || !entry->port || entry->port == port))
			return true;
	return false;
}

const struct inc_rdma_device_info *inc_rdma_device_find(const struct inc_rdma_list *list,
							uint8_t index, const char *name)
{
	unsigned int i;

	for (i = 0; i < list->devices; i++)
		if (list->device[i].index == index && !strcmp(list->device[i].name, name))
			return &list->device[i];
	return NULL;
}

const struct inc_rdma_port_info *inc_rdma_port_find(const struct inc_rdma_device_info *device,
						    uint8_t number)
{
	unsigned int i;

	for (i = 0; i < device->ports; i++)
		if (device->port[i].number == number)
			return &device->port[i];
	return NULL;
}

const char *inc_rdma_link_layer_name(enum inc_rdma_link_layer link_layer)
{
	switch (link_layer) {
	case INC_RDMA_LINK_INFINIBAND:
		return "InfiniBand";
	case INC_RDMA_LINK_ETHERNET:
		return "Ethernet";
	default:
		return "unknown";
	}
}

const char *inc_rdma_port_state_name(enum inc_rdma_port_state state)
{
	return ibv_port_state_str((enum ibv_port_state)state);
}

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

int inc_rdma_rate_check(const struct inc_rdma_limits *limits, uint32_t rate_limit,
			struct inc_err *err)
{
	if (!rate_limit)
		return 0;
	if (!limits->qp_rate_limit_max)
		return inc_err_set(err, EOPNOTSUPP,
				   "the device limits the rate of no RC queue pair");
	if (rate_limit < limits->qp_rate_limit_min || rate_limit > limits->qp_rate_limit_max)
		return inc_err_set(err, EINVAL, "the device can do %u to %u kbit/s",
				   limits->qp_rate_limit_min, limits->qp_rate_limit_max);
	return 0;
}
