/* SPDX-License-Identifier: BSD-2-Clause */
/* The parts of the interface that differ between versions, and the exported tables. Included by
 * nccl_net_socket.c only. */
#ifndef SELFTESTS_FAKES_NCCL_NET_SOCKET_VERSIONS_H
#define SELFTESTS_FAKES_NCCL_NET_SOCKET_VERSIONS_H

#define PROPERTIES                                                                    \
	.name = is_fault("nameless") ? NULL                                           \
		: dev                ? (char *)"socket1"                              \
				     : (char *)"socket0",                                            \
	.ptr_support = HA_NCCL_PTR_HOST, .speed = 10000, .port = 1, .max_comms = 256, \
	.max_recvs = MAX_GROUP, .device_type = HA_NCCL_DEVICE_HOST

static size_t max_bytes(void)
{
	return is_fault("boundless") ? 2 * HA_NCCL_MAX_NET_BYTES : INT_MAX;
}

static enum ha_nccl_result properties_v8(int dev, struct ha_nccl_properties_v8 *out)
{
	*out = (struct ha_nccl_properties_v8){PROPERTIES};
	return HA_NCCL_SUCCESS;
}

static enum ha_nccl_result properties_v9(int dev, struct ha_nccl_properties_v9 *out)
{
	*out = (struct ha_nccl_properties_v9){PROPERTIES, .max_p2p_bytes = max_bytes(),
					      .max_coll_bytes = INT_MAX};
	return HA_NCCL_SUCCESS;
}

static enum ha_nccl_result properties_v11(int dev, struct ha_nccl_properties_v11 *out)
{
	*out = (struct ha_nccl_properties_v11){PROPERTIES, .max_p2p_bytes = max_bytes(),
					       .max_coll_bytes = INT_MAX,
					       .max_multi_request_size = 1};
	return HA_NCCL_SUCCESS;
}

static enum ha_nccl_result properties_v12(int dev, struct ha_nccl_properties_v12 *out)
{
	*out = (struct ha_nccl_properties_v12){PROPERTIES,
					       .max_p2p_bytes = max_bytes(),
					       .max_coll_bytes = INT_MAX,
					       .max_multi_request_size = 1,
					       .rail_id = HA_NCCL_ID_UNDEF,
					       .plane_id = HA_NCCL_ID_UNDEF};
	return HA_NCCL_SUCCESS;
}

static enum ha_nccl_result merge_v12(int *dev, struct ha_nccl_vdevice_v12 *parts)
{
	return merge(dev, NULL);
}

static enum ha_nccl_result init_v8(ha_nccl_logger logger)
{
	logger(HA_NCCL_LOG_INFO, HA_NCCL_LOG_NET, __FILE__, __LINE__, "socket_net");
	return HA_NCCL_SUCCESS;
}

static enum ha_nccl_result init_v10(ha_nccl_logger logger, ha_nccl_profiler profiler)
{
	return init_v8(logger);
}

/* The context that init returns. Calls that get a context check that it is this one. */
static int context_v11;

static enum ha_nccl_result init_v11(void **context, uint64_t comm_id,
				    struct ha_nccl_comm_config *config, ha_nccl_logger logger,
				    ha_nccl_profiler profiler)
{
	*context = &context_v11;
	return init_v8(logger);
}

static enum ha_nccl_result listen_v8(int dev, void *handle, void **comm)
{
	return listen_at(handle, comm);
}

static enum ha_nccl_result listen_v11(void *context, int dev, void *handle, void **comm)
{
	return context == &context_v11 ? listen_at(handle, comm) : HA_NCCL_INVALID_ARGUMENT;
}

static enum ha_nccl_result connect_v8(int dev, void *handle, void **comm,
				      struct ha_nccl_device_handle **device)
{
	make_handle(device);
	return connect_to(handle, comm);
}

static enum ha_nccl_result connect_v10(int dev, struct ha_nccl_comm_config *config, void *handle,
				       void **comm, struct ha_nccl_device_handle **device)
{
	return connect_to(handle, comm);
}

static enum ha_nccl_result connect_v11(void *context, int dev, void *handle, void **comm,
				       struct ha_nccl_device_handle **device)
{
	if (!hinted)
		return HA_NCCL_INVALID_USAGE;
	return context == &context_v11 ? connect_to(handle, comm) : HA_NCCL_INVALID_ARGUMENT;
}

static enum ha_nccl_result isend_v8(void *comm, void *data, int size, int tag, void *mhandle,
				    void **request)
{
	return send_one(comm, data, size, tag, request);
}

static enum ha_nccl_result isend_v9(void *comm, void *data, size_t size, int tag, void *mhandle,
				    void **request)
{
	return send_one(comm, data, size, tag, request);
}

static enum ha_nccl_result isend_v10(void *comm, void *data, size_t size, int tag, void *mhandle,
				     void *phandle, void **request)
{
	return send_one(comm, data, size, tag, request);
}

static enum ha_nccl_result irecv_v8(void *comm, int n, void **data, int *sizes, int *tags,
				    void **mhandles, void **request)
{
	size_t wide[MAX_GROUP];

	for (int i = 0; i < n && i < MAX_GROUP; i++)
		wide[i] = sizes[i];
	return receive_some(comm, n, data, wide, tags, request);
}

static enum ha_nccl_result irecv_v9(void *comm, int n, void **data, size_t *sizes, int *tags,
				    void **mhandles, void **request)
{
	return receive_some(comm, n, data, sizes, tags, request);
}

static enum ha_nccl_result irecv_v10(void *comm, int n, void **data, size_t *sizes, int *tags,
				     void **mhandles, void **phandles, void **request)
{
	return receive_some(comm, n, data, sizes, tags, request);
}

static enum ha_nccl_result finalize_v11(void *context)
{
	return context == &context_v11 ? HA_NCCL_SUCCESS : HA_NCCL_INVALID_ARGUMENT;
}

/* Records that the call was made, and fails without a message, because NCCL ignores the result. */
static enum ha_nccl_result hint_v11(void *context, struct ha_nccl_attr *attr)
{
	hinted = context == &context_v11;
	return HA_NCCL_INVALID_USAGE;
}

#define COMMON                                                                         \
	.name = "Socket", .devices = take_devices, .accept = accept_one, .regMr = reg, \
	.regMrDmaBuf = reg_dma_buf, .deregMr = dereg, .iflush = flush, .test = test,   \
	.closeSend = close_comm, .closeRecv = close_comm, .closeListen = close_listen, \
	.irecvConsumed = consumed

extern const struct ha_nccl_net_v8 ncclNetPlugin_v8;
extern const struct ha_nccl_net_v9 ncclNetPlugin_v9;
extern const struct ha_nccl_net_v10 ncclNetPlugin_v10;
extern const struct ha_nccl_net_v11 ncclNetPlugin_v11;
extern const struct ha_nccl_net_v12 ncclNetPlugin_v12;

EXPORT const struct ha_nccl_net_v8 ncclNetPlugin_v8 = {COMMON,
						       .init = init_v8,
						       .getProperties = properties_v8,
						       .listen = listen_v8,
						       .connect = connect_v8,
						       .isend = isend_v8,
						       .irecv = irecv_v8};
EXPORT const struct ha_nccl_net_v9 ncclNetPlugin_v9 = {COMMON,
						       .init = init_v8,
						       .getProperties = properties_v9,
						       .listen = listen_v8,
						       .connect = connect_v8,
						       .isend = isend_v9,
						       .irecv = irecv_v9,
						       .makeVDevice = merge};
EXPORT const struct ha_nccl_net_v10 ncclNetPlugin_v10 = {COMMON,
							 .init = init_v10,
							 .getProperties = properties_v9,
							 .listen = listen_v8,
							 .connect = connect_v10,
							 .isend = isend_v10,
							 .irecv = irecv_v10,
							 .makeVDevice = merge};
EXPORT const struct ha_nccl_net_v11 ncclNetPlugin_v11 = {COMMON,
							 .init = init_v11,
							 .getProperties = properties_v11,
							 .listen = listen_v11,
							 .connect = connect_v11,
							 .isend = isend_v10,
							 .irecv = irecv_v10,
							 .makeVDevice = merge,
							 .finalize = finalize_v11,
							 .setNetAttr = hint_v11};
EXPORT const struct ha_nccl_net_v12 ncclNetPlugin_v12 = {COMMON,
							 .init = init_v11,
							 .getProperties = properties_v12,
							 .listen = listen_v11,
							 .connect = connect_v11,
							 .isend = isend_v10,
							 .irecv = irecv_v10,
							 .makeVDevice = merge_v12,
							 .finalize = finalize_v11,
							 .setNetAttr = hint_v11};

#endif
