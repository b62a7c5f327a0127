/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The plugin's interface to NCCL: one table of functions for each version of the interface (abi.h),
 * as a thin layer over comm.h. A call that fails here writes one line to NCCL's log; a comm that
 * fails later logs that itself. NCCL may call from any thread.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "hostlib/nccl/abi.h"
#include "hostlib/nccl/comm.h"
#include "hostlib/nccl/plugin.h"

#define MAX_TRAFFIC_CLASS 255

static_assert(HA_REQUESTS == HA_NCCL_MAX_REQUESTS, "as many as NCCL may have of a comm");

/* The context that init of version 11 and 12 returns to NCCL, for one NCCL communicator. */
struct context {
	struct ha_plugin *plugin;
	int traffic_class;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ha_plugin *shared; /* the plugin, which the lock protects; NULL: not initialised */
/* number of successful calls of ha_plugin_open(), which the lock protects */
static unsigned int inits;
static _Atomic(ha_nccl_logger) logger;

/* ---- log and errors ------------------------------------------------------------------------- */

void ha_plugin_log(enum ha_log_level level, const char *file, int line, const char *text)
{
	static const enum ha_nccl_log_level levels[] = {
		[HA_LOG_WARN] = HA_NCCL_LOG_WARN,
		[HA_LOG_INFO] = HA_NCCL_LOG_INFO,
		[HA_LOG_TRACE] = HA_NCCL_LOG_TRACE,
	};
	const ha_nccl_logger log = logger;

	if (log)
		log(levels[level], HA_NCCL_LOG_NET, file, line, "NET/" HA_PLUGIN_NAME " : %s",
		    text);
}

enum ha_nccl_result ha_plugin_result(int ret)
{
	switch (-ret) {
	case 0:
		return HA_NCCL_SUCCESS;
	case EIO:
	case EPIPE:
	case ECONNRESET:
	case ECONNABORTED:
	case ECONNREFUSED:
	case ETIMEDOUT:
	case EHOSTUNREACH:
	case ENETUNREACH:
		return HA_NCCL_REMOTE_ERROR;
	case EINVAL:
	case EMSGSIZE:
		return HA_NCCL_INVALID_ARGUMENT;
	case EOPNOTSUPP:
	case ESHUTDOWN:
		return HA_NCCL_INVALID_USAGE;
	case ENOMEM:
	case EMFILE:
	case ENFILE:
	case EACCES:
	case EPERM:
	case EFAULT:
	case ENODEV:
	case ENETDOWN:
	case EADDRNOTAVAIL:
		return HA_NCCL_SYSTEM_ERROR;
	default:
		return HA_NCCL_INTERNAL_ERROR;
	}
}

/* Logs a failure, if ret is one. Returns the ncclResult_t for ret. */
static enum ha_nccl_result log_failure(int ret, int line, const struct inc_err *err)
{
	if (ret)
		ha_plugin_log(HA_LOG_WARN, __FILE__, line, err->msg[0] ? err->msg : strerror(-ret));
	return ha_plugin_result(ret);
}

/* ---- init and devices ----------------------------------------------------------------------- */

/* Logs each network device with its standby device, the number of comms that it can have, and the
 * number of receives that NCCL may group. */
static void log_devices(const struct ha_plugin *plugin)
{
	static const char *const affinities[] = {
#define TEXT(NAME_, text) [HA_AFFINITY_##NAME_] = (text),
		HA_AFFINITIES(TEXT)
#undef TEXT
	};
	const struct ha_devices *devices = ha_plugin_devices(plugin);
	const struct ha_device *device = devices->device, *end = device + devices->n;
	struct inc_err text;
	bool rxe = false;

	if (!devices->n)
		ha_plugin_log(
			HA_LOG_INFO, __FILE__, __LINE__,
			ha_config_is_soft(devices->config)
				? "no interface that NCCL_SOCKET_IFNAME allows is up and has an "
				  "IPv4 address"
				: "no RDMA port that is up");
	for (; device < end; device++) {
		rxe = rxe || device->rxe;
		text.msg[0] = '\0';
		if (*device->rail[1].interface)
			inc_err_add(&text, "%s: standby %s (%s)", device->name,
				    device->rail[1].interface, affinities[device->affinity]);
		else if (device->rail[1].device)
			inc_err_add(&text, "%s: standby %s port %u (%s)", device->name,
				    ha_rail_name(&device->rail[1]), device->rail[1].port,
				    affinities[device->affinity]);
		else
			inc_err_add(&text, "%s: no standby", device->name);
		inc_err_add(&text, "%u comms of %u receives", device->budget.comms,
			    device->max_recvs);
		if (device->rail[0].device)
			inc_err_add(&text, "queue pairs for %u, completions for %u",
				    device->budget.by_queue_pairs, device->budget.by_completions);
		if (device->dma_buf || device->peer_memory)
			inc_err_add(&text, "GPU memory by %s%s%s", device->dma_buf ? "dma-buf" : "",
				    device->dma_buf && device->peer_memory ? " and " : "",
				    device->peer_memory ? "address" : "");
		ha_plugin_log(HA_LOG_INFO, __FILE__, __LINE__, text.msg);
	}
	if (ha_config_doubts(devices->config, rxe, &text))
		ha_plugin_log(HA_LOG_WARN, __FILE__, __LINE__, text.msg);
}

/* Logs each setting that does not have its default, and the variable that determines it. */
static void log_settings(void)
{
	const struct ha_setting *setting;
	const char *name, *value;
	struct inc_err text;

	for (setting = ha_settings; setting->name; setting++) {
		name = ha_setting_source(setting, &value);
		if (!name && !value)
			continue;
		if (!name)
			inc_err_set(&text, 0,
				    "%s: '%.64s' is not a number from %lld to %lld, so %s is %lld",
				    setting->instead, value, (long long)setting->least,
				    (long long)setting->most, setting->name,
				    (long long)setting->def);
		else if (name == setting->name)
			inc_err_set(&text, 0, "%s: %.64s", name, value);
		else
			inc_err_set(&text, 0, "%s: %.64s, by %s", setting->name, value, name);
		ha_plugin_log(HA_LOG_INFO, __FILE__, __LINE__, text.msg);
	}
}

enum ha_nccl_result ha_plugin_init(ha_nccl_logger log, struct ha_plugin **out)
{
	struct inc_err err = {""};
	int ret;

	if (log)
		logger = log;
	pthread_mutex_lock(&lock);
	ret = ha_plugin_open(out, ha_plugin_log, &err);
	if (!ret) {
		if (!inits++) {
			log_settings();
			log_devices(*out);
		}
		shared = *out;
	}
	pthread_mutex_unlock(&lock);
	/* an invalid setting is the user's fault, because init has its settings from the
	 * environment alone */
	return ret == -EINVAL ? (log_failure(ret, __LINE__, &err), HA_NCCL_INVALID_USAGE)
			      : log_failure(ret, __LINE__, &err);
}

void ha_plugin_finalize(struct ha_plugin *plugin)
{
	pthread_mutex_lock(&lock);
	if (!--inits)
		shared = NULL;
	ha_plugin_close(plugin);
	pthread_mutex_unlock(&lock);
}

static enum ha_nccl_result finalize(void *context)
{
	struct context *c = context;

	if (!c)
		return HA_NCCL_INVALID_ARGUMENT;
	ha_plugin_finalize(c->plugin);
	free(c);
	return HA_NCCL_SUCCESS;
}

struct ha_plugin *ha_plugin_now(void)
{
	struct ha_plugin *plugin;

	pthread_mutex_lock(&lock);
	plugin = shared;
	pthread_mutex_unlock(&lock);
	return plugin;
}

static enum ha_nccl_result devices(int *ndev)
{
	const struct ha_plugin *plugin = ha_plugin_now();

	if (!plugin || !ndev)
		return HA_NCCL_INVALID_USAGE;
	*ndev = ha_plugin_devices(plugin)->n;
	return HA_NCCL_SUCCESS;
}

/* ---- comms ---------------------------------------------------------------------------------- */

static enum ha_nccl_result do_listen(struct ha_plugin *plugin, int dev, void *handle, void **out)
{
	struct ha_listener *listener = NULL;
	struct inc_err err = {""};
	int ret;

	if (!plugin || dev < 0 || !handle || !out)
		return HA_NCCL_INVALID_ARGUMENT;
	ret = ha_listen(plugin, dev, handle, &listener, &err);
	*out = listener;
	return log_failure(ret, __LINE__, &err);
}

/* a negative traffic_class means that NCCL leaves the choice to the plugin's settings */
static enum ha_nccl_result do_connect(struct ha_plugin *plugin, int dev, int traffic_class,
				      void *handle, void **out,
				      struct ha_nccl_device_handle **offload)
{
	struct ha_comm *comm = NULL;
	struct inc_err err = {""};
	int ret;

	if (!plugin || dev < 0 || !handle || !out || traffic_class > MAX_TRAFFIC_CLASS)
		return HA_NCCL_INVALID_ARGUMENT;
	if (offload)
		*offload = NULL;
	ret = ha_connect(plugin, dev, handle, traffic_class < 0 ? -1 : traffic_class, &comm, &err);
	*out = comm;
	return log_failure(ret, __LINE__, &err);
}

static enum ha_nccl_result do_accept(void *listener, void **out,
				     struct ha_nccl_device_handle **offload)
{
	struct ha_comm *comm = NULL;
	struct inc_err err = {""};
	int ret;

	if (!listener || !out)
		return HA_NCCL_INVALID_ARGUMENT;
	if (offload)
		*offload = NULL;
	ret = ha_accept(listener, &comm, &err);
	*out = comm;
	return log_failure(ret, __LINE__, &err);
}

static enum ha_nccl_result close_comm(void *comm)
{
	if (comm)
		ha_comm_close(comm);
	return HA_NCCL_SUCCESS;
}

static enum ha_nccl_result close_listener(void *listener)
{
	if (listener)
		ha_listener_close(listener);
	return HA_NCCL_SUCCESS;
}

/* ---- memory --------------------------------------------------------------------------------- */

static enum ha_nccl_result reg_dmabuf(void *comm, void *data, size_t size, int type,
				      uint64_t offset, int fd, void **out)
{
	struct ha_region *region = NULL;
	struct inc_err err = {""};
	int ret;

	if (!comm || !out)
		return HA_NCCL_INVALID_ARGUMENT;
	*out = NULL;
	if (type != HA_NCCL_PTR_HOST && type != HA_NCCL_PTR_CUDA)
		return log_failure(inc_err_set(&err, EOPNOTSUPP,
					       "memory of type %d: only memory of the host and "
					       "of a GPU is supported",
					       type),
				   __LINE__, &err);
	ret = ha_register(comm, data, size, type, fd, offset, &region, &err);
	*out = region;
	return log_failure(ret, __LINE__, &err);
}

static enum ha_nccl_result reg(void *comm, void *data, size_t size, int type, void **out)
{
	return reg_dmabuf(comm, data, size, type, 0, -1, out);
}

static enum ha_nccl_result dereg(void *comm, void *region)
{
	if (!comm)
		return HA_NCCL_INVALID_ARGUMENT;
	if (region)
		ha_deregister(comm, region);
	return HA_NCCL_SUCCESS;
}

/* ---- data ----------------------------------------------------------------------------------- */

static enum ha_nccl_result send_sized(void *comm, void *data, size_t size, int tag, void *region,
				      void **out)
{
	struct ha_request *request = NULL;
	int ret;

	if (!comm || !out)
		return HA_NCCL_INVALID_ARGUMENT;
	ret = ha_isend(comm, data, size, tag, region, &request);
	*out = request;
	return ha_plugin_result(ret);
}

/* *out may hold HA_NCCL_OPTIONAL_RECV_COMPLETION, which is ignored: NCCL also accepts a request
 * that reports its completion. */
static enum ha_nccl_result recv_sized(void *comm, int n, void **data, size_t *sizes, int *tags,
				      void **regions, void **out)
{
	struct ha_request *request = NULL;
	int ret;

	if (!comm || n < 1 || n > (int)HA_GROUP || !data || !sizes || !tags || !regions || !out)
		return HA_NCCL_INVALID_ARGUMENT;
	ret = ha_irecv(comm, n, data, sizes, tags, (struct ha_region **)regions, &request);
	*out = request;
	return ha_plugin_result(ret);
}

static enum ha_nccl_result send_v8(void *comm, void *data, int size, int tag, void *region,
				   void **out)
{
	if (size < 0)
		return HA_NCCL_INVALID_ARGUMENT;
	return send_sized(comm, data, size, tag, region, out);
}

static enum ha_nccl_result send_profiled(void *comm, void *data, size_t size, int tag, void *region,
					 void *profile, void **out)
{
	return send_sized(comm, data, size, tag, region, out);
}

static enum ha_nccl_result recv_v8(void *comm, int n, void **data, int *sizes, int *tags,
				   void **regions, void **out)
{
	size_t wide[HA_GROUP];
	int i;

	if (!sizes)
		return HA_NCCL_INVALID_ARGUMENT;
	for (i = 0; i < n && i < (int)HA_GROUP; i++) {
		if (sizes[i] < 0)
			return HA_NCCL_INVALID_ARGUMENT;
		wide[i] = sizes[i];
	}
	return recv_sized(comm, n, data, wide, tags, regions, out);
}

static enum ha_nccl_result recv_profiled(void *comm, int n, void **data, size_t *sizes, int *tags,
					 void **regions, void **profiles, void **out)
{
	return recv_sized(comm, n, data, sizes, tags, regions, out);
}

static enum ha_nccl_result flush(void *comm, int n, void **data, int *sizes, void **regions,
				 void **out)
{
	struct ha_request *request = NULL;
	int ret;

	if (!comm || n < 0 || n > (int)HA_GROUP || !data || !sizes || !regions || !out)
		return HA_NCCL_INVALID_ARGUMENT;
	ret = ha_iflush(comm, n, data, sizes, (struct ha_region **)regions, &request);
	*out = request;
	return ha_plugin_result(ret);
}

static enum ha_nccl_result test(void *request, int *done, int *sizes)
{
	bool complete = false;
	int ret;

	if (!request || !done)
		return HA_NCCL_INVALID_ARGUMENT;
	ret = ha_test(request, &complete, sizes);
	*done = complete;
	return ha_plugin_result(ret);
}

/* ---- versions ------------------------------------------------------------------------------- */

/* The plugin stays open until the process ends, because NCCL has no call that undoes init up to
 * version 10. */
static enum ha_nccl_result init_v8(ha_nccl_logger log)
{
	struct ha_plugin *plugin;

	return ha_plugin_init(log, &plugin);
}

static enum ha_nccl_result init_v10(ha_nccl_logger log, ha_nccl_profiler profiler)
{
	return init_v8(log);
}

static enum ha_nccl_result init_v11(void **out, uint64_t comm_id,
				    struct ha_nccl_comm_config *config, ha_nccl_logger log,
				    ha_nccl_profiler profiler)
{
	struct context *context = out ? calloc(1, sizeof(*context)) : NULL;
	enum ha_nccl_result ret;

	/* *out is set to NULL first, because it may hold the context of another plugin that NCCL
	 * tried before. If init fails, NCCL 2.28 and 2.29 call finalize all the same, with the
	 * value of *out. */
	if (out)
		*out = NULL;
	if (!context)
		return out ? HA_NCCL_SYSTEM_ERROR : HA_NCCL_INVALID_ARGUMENT;
	ret = ha_plugin_init(log, &context->plugin);
	if (ret) {
		free(context);
		return ret;
	}
	context->traffic_class = config ? config->traffic_class : HA_NCCL_TRAFFIC_CLASS_UNDEF;
	*out = context;
	return HA_NCCL_SUCCESS;
}

static enum ha_nccl_result listen_v8(int dev, void *handle, void **out)
{
	return do_listen(ha_plugin_now(), dev, handle, out);
}

static enum ha_nccl_result listen_v11(void *context, int dev, void *handle, void **out)
{
	const struct context *c = context;

	return do_listen(c ? c->plugin : NULL, dev, handle, out);
}

static enum ha_nccl_result connect_v8(int dev, void *handle, void **out,
				      struct ha_nccl_device_handle **offload)
{
	return do_connect(ha_plugin_now(), dev, HA_NCCL_TRAFFIC_CLASS_UNDEF, handle, out, offload);
}

static enum ha_nccl_result connect_v10(int dev, struct ha_nccl_comm_config *config, void *handle,
				       void **out, struct ha_nccl_device_handle **offload)
{
	return do_connect(ha_plugin_now(), dev,
			  config ? config->traffic_class : HA_NCCL_TRAFFIC_CLASS_UNDEF, handle, out,
			  offload);
}

static enum ha_nccl_result connect_v11(void *context, int dev, void *handle, void **out,
				       struct ha_nccl_device_handle **offload)
{
	const struct context *c = context;

	return do_connect(c ? c->plugin : NULL, dev,
			  c ? c->traffic_class : HA_NCCL_TRAFFIC_CLASS_UNDEF, handle, out, offload);
}

/*
 * Members of the tables that are the same in all versions. A member that NCCL allows to be NULL is
 * NULL, unless this plugin needs it. NCCL calls irecvConsumed after every receive and ends its
 * communicator if it fails, so it is NULL. NCCL 2.24 and 2.25 call makeVDevice unasked for the
 * ports of one card and take "invalid usage" as a fatal error, so it is NULL, too.
 */
#define COMMON                                                                           \
	.name = HA_PLUGIN_NAME, .devices = devices, .accept = do_accept, .regMr = reg,   \
	.regMrDmaBuf = reg_dmabuf, .deregMr = dereg, .iflush = flush, .test = test,      \
	.closeSend = close_comm, .closeRecv = close_comm, .closeListen = close_listener, \
	.getDeviceMr = NULL, .irecvConsumed = NULL

extern const struct ha_nccl_net_v8 ncclNetPlugin_v8;
extern const struct ha_nccl_net_v9 ncclNetPlugin_v9;
extern const struct ha_nccl_net_v10 ncclNetPlugin_v10;
extern const struct ha_nccl_net_v11 ncclNetPlugin_v11;
extern const struct ha_nccl_net_v12 ncclNetPlugin_v12;

HA_EXPORTED const struct ha_nccl_net_v8 ncclNetPlugin_v8 = {
	COMMON,
	.init = init_v8,
	.getProperties = ha_net_properties_v8,
	.listen = listen_v8,
	.connect = connect_v8,
	.isend = send_v8,
	.irecv = recv_v8,
};

HA_EXPORTED const struct ha_nccl_net_v9 ncclNetPlugin_v9 = {
	COMMON,
	.init = init_v8,
	.getProperties = ha_net_properties_v9,
	.listen = listen_v8,
	.connect = connect_v8,
	.isend = send_sized,
	.irecv = recv_sized,
	.makeVDevice = NULL,
};

HA_EXPORTED const struct ha_nccl_net_v10 ncclNetPlugin_v10 = {
	COMMON,
	.init = init_v10,
	.getProperties = ha_net_properties_v9,
	.listen = listen_v8,
	.connect = connect_v10,
	.isend = send_profiled,
	.irecv = recv_profiled,
	.makeVDevice = NULL,
};

HA_EXPORTED const struct ha_nccl_net_v11 ncclNetPlugin_v11 = {
	COMMON,
	.init = init_v11,
	.getProperties = ha_net_properties_v11,
	.listen = listen_v11,
	.connect = connect_v11,
	.isend = send_profiled,
	.irecv = recv_profiled,
	.makeVDevice = NULL,
	.finalize = finalize,
	.setNetAttr = NULL, /* NCCL's hints have no use in this plugin */
};

HA_EXPORTED const struct ha_nccl_net_v12 ncclNetPlugin_v12 = {
	COMMON,
	.init = init_v11,
	.getProperties = ha_net_properties_v12,
	.listen = listen_v11,
	.connect = connect_v11,
	.isend = send_profiled,
	.irecv = recv_profiled,
	.makeVDevice = NULL,
	.finalize = finalize,
	.setNetAttr = NULL,
};
