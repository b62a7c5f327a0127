/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The plugin's interface to NCCL for collectives in the network: one table of functions for each
 * version (abi.h), as a thin layer over collnet.h. NCCL calls init and devices of these tables even
 * where NCCL_COLLNET_ENABLE is off, so they only count a user of the plugin. All else begins with
 * listen.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "hostlib/nccl/collnet.h"
#include "hostlib/nccl/plugin.h"

/* A registration. The library registers what a device needs by itself, so this is a mark only. */
struct region {
	void *data;
	size_t size;
};

static enum ha_nccl_result log_failure(int ret, int line, const struct inc_err *err)
{
	struct inc_err text = {""};

	if (ret) {
		inc_err_set(&text, -ret, "CollNet: %s", err->msg[0] ? err->msg : strerror(-ret));
		ha_plugin_log(HA_LOG_WARN, __FILE__, line, text.msg);
	}
	return ha_plugin_result(ret);
}

/* ---- init and devices ----------------------------------------------------------------------- */

static enum ha_nccl_result init_v8(ha_nccl_logger log)
{
	struct ha_plugin *plugin;

	return ha_plugin_init(log, &plugin);
}

/* The context is the plugin itself, because nothing belongs to a communicator of NCCL. */
static enum ha_nccl_result init_v11(void **context, uint64_t comm_id, ha_nccl_logger log)
{
	struct ha_plugin *plugin;
	enum ha_nccl_result ret;

	if (!context)
		return HA_NCCL_INVALID_ARGUMENT;
	*context = NULL;
	ret = ha_plugin_init(log, &plugin);
	if (!ret)
		*context = plugin;
	return ret;
}

static enum ha_nccl_result finalize(void *context)
{
	if (!context)
		return HA_NCCL_INVALID_ARGUMENT;
	ha_plugin_finalize(context);
	return HA_NCCL_SUCCESS;
}

/* The devices are those of the network, on each node whatever it can take part in: NCCL 2.30 ends a
 * job whose nodes have different numbers of them. */
static enum ha_nccl_result devices(int *ndev)
{
	if (!ha_plugin_now() || !ndev)
		return HA_NCCL_INVALID_USAGE;
	*ndev = ha_coll_ndevices();
	return HA_NCCL_SUCCESS;
}

/* CollNet reduces in host memory, whatever the network's comms do. NCCL takes from these
 * properties, too, whether the network uses GPU memory, where both have a device of one name. */
#define PROPERTIES(version)                                                               \
	static enum ha_nccl_result properties_v##version(                                 \
		int dev, struct ha_nccl_properties_v##version *props)                     \
	{                                                                                 \
		const enum ha_nccl_result ret = ha_net_properties_v##version(dev, props); \
                                                                                          \
		if (!ret)                                                                 \
			props->ptr_support = HA_NCCL_PTR_HOST;                            \
		return ret;                                                               \
	}
PROPERTIES(8)
PROPERTIES(9)
PROPERTIES(11)
PROPERTIES(12)
#undef PROPERTIES

/* ---- comms ---------------------------------------------------------------------------------- */

static enum ha_nccl_result listen_v8(int dev, void *handle, void **out)
{
	struct ha_coll_listener *listener = NULL;
	struct inc_err err = {""};
	int ret;

	if (!out || !handle || dev < 0 || (unsigned int)dev >= ha_coll_ndevices())
		return HA_NCCL_INVALID_ARGUMENT;
	ret = ha_coll_listen(dev, handle, &listener, &err);
	*out = listener;
	return log_failure(ret, __LINE__, &err);
}

static enum ha_nccl_result listen_v11(void *context, int dev, void *handle, void **out)
{
	return context ? listen_v8(dev, handle, out) : HA_NCCL_INVALID_ARGUMENT;
}

static enum ha_nccl_result do_connect(void *handles[], int n, int rank, void *listener, void **out)
{
	struct ha_coll *coll = NULL;
	struct inc_err err = {""};
	int ret;

	if (!handles || !listener || !out || n < 1 || rank < 0 || rank >= n)
		return HA_NCCL_INVALID_ARGUMENT;
	ret = ha_coll_connect((struct ha_coll_handle *const *)handles, n, rank, listener, &coll,
			      &err);
	*out = coll;
	return ha_plugin_result(ret);
}

static enum ha_nccl_result close_coll(void *coll)
{
	if (coll)
		ha_coll_close(coll);
	return HA_NCCL_SUCCESS;
}

static enum ha_nccl_result close_listener(void *listener)
{
	if (listener)
		ha_coll_listener_close(listener);
	return HA_NCCL_SUCCESS;
}

static enum ha_nccl_result reduce_support(enum ha_nccl_dtype dtype, enum ha_nccl_op op,
					  int *supported)
{
	if (!supported)
		return HA_NCCL_INVALID_ARGUMENT;
	*supported = ha_coll_supports(dtype, op);
	return HA_NCCL_SUCCESS;
}

/* ---- memory --------------------------------------------------------------------------------- */

static enum ha_nccl_result reg(void *coll, void *data, size_t size, int type, void **out)
{
	struct inc_err err = {""};
	struct region *region;

	if (!coll || !data || !out)
		return HA_NCCL_INVALID_ARGUMENT;
	*out = NULL;
	if (type != HA_NCCL_PTR_HOST)
		return log_failure(inc_err_set(&err, EOPNOTSUPP,
					       "memory of type %d: only host memory is supported",
					       type),
				   __LINE__, &err);
	region = malloc(sizeof(*region));
	if (!region)
		return log_failure(-ENOMEM, __LINE__, &err);
	*region = (struct region){.data = data, .size = size};
	*out = region;
	return HA_NCCL_SUCCESS;
}

static enum ha_nccl_result reg_dmabuf(void *coll, void *data, size_t size, int type,
				      uint64_t offset, int fd, void **out)
{
	return reg(coll, data, size, type, out);
}

/* NCCL has freed the memory before it ends most registrations of it, so the memory is not touched
 * here. It frees the rest behind the first one that it ends. When a communicator is aborted, calls
 * may still be under way then, and libinccl's threads would use the memory. */
static enum ha_nccl_result dereg(void *coll, void *region)
{
	if (!coll)
		return HA_NCCL_INVALID_ARGUMENT;
	ha_coll_abandon(coll);
	free(region);
	return HA_NCCL_SUCCESS;
}

/* ---- data ----------------------------------------------------------------------------------- */

static bool is_inside(const struct region *region, const void *data, size_t count,
		      size_t element_bytes)
{
	const uint8_t *begin = region ? region->data : NULL, *at = data;
	size_t bytes;

	return !__builtin_mul_overflow(count, element_bytes, &bytes) && begin && at >= begin &&
	       bytes <= region->size && (size_t)(at - begin) <= region->size - bytes;
}

static enum ha_nccl_result allreduce(void *coll, void *send, void *recv, size_t count,
				     enum ha_nccl_dtype dtype, enum ha_nccl_op op,
				     void *send_region, void *recv_region, void **out)
{
	const size_t element_bytes = ha_coll_element_bytes(dtype);
	struct ha_coll_call *call = NULL;
	struct inc_err err = {""};
	int ret;

	if (!coll || !send || !recv || !out ||
	    !is_inside(send_region, send, count, element_bytes) ||
	    !is_inside(recv_region, recv, count, element_bytes))
		return HA_NCCL_INVALID_ARGUMENT;
	ret = ha_coll_start(coll, send, recv, count, dtype, op, &call, &err);
	*out = call;
	return log_failure(ret, __LINE__, &err);
}

static enum ha_nccl_result allreduce_v8(void *coll, void *send, void *recv, int count,
					enum ha_nccl_dtype dtype, enum ha_nccl_op op,
					void *send_region, void *recv_region, void **out)
{
	if (count < 0)
		return HA_NCCL_INVALID_ARGUMENT;
	return allreduce(coll, send, recv, count, dtype, op, send_region, recv_region, out);
}

/* Data in host memory need no flush. */
static enum ha_nccl_result flush(void *coll, void *data, int size, void *region, void **out)
{
	if (!coll || !out)
		return HA_NCCL_INVALID_ARGUMENT;
	*out = NULL;
	return HA_NCCL_SUCCESS;
}

static enum ha_nccl_result test(void *call, int *done, int *size)
{
	bool complete = false;
	int ret;

	if (!call || !done)
		return HA_NCCL_INVALID_ARGUMENT;
	ret = ha_coll_test(call, &complete, size);
	*done = complete;
	return ha_plugin_result(ret);
}

/* ---- versions ------------------------------------------------------------------------------- */

/* iallgather and ireducescatter are NULL: only CollNetDirect calls them, which NCCL uses where GPUs
 * of a node have NVSwitch. makeVDevice is NULL as in the network's tables. */
#define COMMON                                                                         \
	.name = HA_PLUGIN_NAME, .devices = devices, .connect = do_connect,             \
	.reduceSupport = reduce_support, .regMr = reg, .regMrDmaBuf = reg_dmabuf,      \
	.deregMr = dereg, .iallgather = NULL, .ireducescatter = NULL, .iflush = flush, \
	.test = test, .closeColl = close_coll, .closeListen = close_listener

extern const struct ha_nccl_coll_v8 ncclCollNetPlugin_v8;
extern const struct ha_nccl_coll_v9 ncclCollNetPlugin_v9;
extern const struct ha_nccl_coll_v9 ncclCollNetPlugin_v10;
extern const struct ha_nccl_coll_v11 ncclCollNetPlugin_v11;
extern const struct ha_nccl_coll_v12 ncclCollNetPlugin_v12;

HA_EXPORTED const struct ha_nccl_coll_v8 ncclCollNetPlugin_v8 = {
	COMMON,
	.init = init_v8,
	.getProperties = properties_v8,
	.listen = listen_v8,
	.iallreduce = allreduce_v8,
};

#define V9                                                                            \
	COMMON, .init = init_v8, .getProperties = properties_v9, .listen = listen_v8, \
		.iallreduce = allreduce, .makeVDevice = NULL
HA_EXPORTED const struct ha_nccl_coll_v9 ncclCollNetPlugin_v9 = {V9};
HA_EXPORTED const struct ha_nccl_coll_v9 ncclCollNetPlugin_v10 = {V9};

#define V11                                                                      \
	COMMON, .init = init_v11, .listen = listen_v11, .iallreduce = allreduce, \
		.makeVDevice = NULL, .finalize = finalize
HA_EXPORTED const struct ha_nccl_coll_v11 ncclCollNetPlugin_v11 = {V11,
								   .getProperties = properties_v11};
HA_EXPORTED const struct ha_nccl_coll_v12 ncclCollNetPlugin_v12 = {V11,
								   .getProperties = properties_v12};
