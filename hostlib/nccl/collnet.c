/* SPDX-License-Identifier: BSD-2-Clause */
#include <endian.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "hostlib/include/inccl.h"
#include "hostlib/nccl/collnet.h"
#include "hostlib/nccl/metrics.h"
#include "hostlib/nccl/plugin.h"
#include "lib/base/clock.h"
#include "lib/base/random.h"

#define MAGIC   0x4841434eu /* "HACN" */
#define VERSION 1u
/* Time until all nodes have joined, and until all are connected. All nodes call connect at about
 * the same time, because NCCL has gathered their handles just before. */
#define CREATE_MS 20000u
#define PROBE_MS  5000u
#define AGREE_MS  10000u
/* NCCL sets no limit to the time for which a rank may be late, so neither does a call. The
 * controller reports lost switches and ranks. */
#define CALL_TIMEOUT_MS ((unsigned int)INT32_MAX)
/* The size of a block of floats that share an exponent, where switches add integers. NCCL passes
 * whole chunks, and what is behind the data of a chunk is left from an earlier call. In a larger
 * block such an element would take away the accuracy of the data beside it. */
#define FLOAT_BLOCK 1u

struct ha_coll_listener {
	struct ha_coll_listener *next; /* the list is protected by the lock */
	unsigned int dev;
	char address[16]; /* own IPv4 address on the fabric; "": this node cannot take part */
};

struct ha_coll_call {
	struct ha_coll *coll;
	struct inccl_request *request; /* NULL: the call has failed */
	size_t bytes;
	uint64_t began_at_ns;
};

struct ha_coll {
	struct ha_coll *next; /* the list is protected by the lock */
	struct inccl_group *group;
	struct inccl_communicator *comm;
	/* Bit support_bit() is set for what all nodes can reduce. */
	uint64_t supported;
	uint64_t busy;            /* bit i: call[i] is under way */
	unsigned int float_block; /* 0 where switches add floats as they are */
	struct ha_coll_call call[HA_COLL_CALLS];
	char name[64], verbs[HA_COLL_VERBS_TEXT];
	bool failed; /* the failure has been logged */
};
static_assert(HA_COLL_CALLS == 64, "the bits of `busy`");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ha_coll *comms;              /* all comms of this process */
static struct ha_coll_listener *listeners; /* all listeners of this process */

/* ---- types and operators -------------------------------------------------------------------- */

static const struct {
	bool known;
	enum inccl_dtype dtype;
	bool is_float;
} types[HA_NCCL_NDTYPES] = {
	[HA_NCCL_INT8] = {true, INCCL_INT8, false},
	[HA_NCCL_UINT8] = {true, INCCL_UINT8, false},
	[HA_NCCL_INT32] = {true, INCCL_INT32, false},
	[HA_NCCL_UINT32] = {true, INCCL_UINT32, false},
	[HA_NCCL_INT64] = {true, INCCL_INT64, false},
	[HA_NCCL_UINT64] = {true, INCCL_UINT64, false},
	[HA_NCCL_FLOAT16] = {true, INCCL_FLOAT16, true},
	[HA_NCCL_FLOAT32] = {true, INCCL_FLOAT32, true},
	[HA_NCCL_FLOAT64] = {true, INCCL_FLOAT64, true},
	[HA_NCCL_BFLOAT16] = {true, INCCL_BFLOAT16, true},
};

static const enum inccl_op operators[HA_NCCL_NOPS] = {
	[HA_NCCL_SUM] = INCCL_SUM,
	[HA_NCCL_PROD] = INCCL_PROD,
	[HA_NCCL_MAX] = INCCL_MAX,
	[HA_NCCL_MIN] = INCCL_MIN,
};

size_t ha_coll_element_bytes(enum ha_nccl_dtype dtype)
{
	return (unsigned int)dtype < HA_NCCL_NDTYPES && types[dtype].known
		       ? inccl_dtype_size(types[dtype].dtype)
		       : 0;
}

static bool is_known(enum ha_nccl_dtype dtype, enum ha_nccl_op op)
{
	return ha_coll_element_bytes(dtype) && (unsigned int)op < HA_NCCL_NOPS;
}

static uint64_t support_bit(enum ha_nccl_dtype dtype, enum ha_nccl_op op)
{
	return 1ull << (op * HA_NCCL_NDTYPES + dtype);
}
static_assert(HA_NCCL_NOPS * HA_NCCL_NDTYPES <= 64, "the bits of `supported`");

/* Returns the set of types and operators of the tree: all, except that switches that add integers
 * have no product of floats. */
static uint64_t supported_by(bool native_floats)
{
	uint64_t set = 0;

	for (unsigned int dtype = 0; dtype < HA_NCCL_NDTYPES; dtype++)
		for (unsigned int op = 0; op < HA_NCCL_NOPS; op++) {
			if (is_known(dtype, op) &&
			    (native_floats || op != HA_NCCL_PROD || !types[dtype].is_float))
				set |= support_bit(dtype, op);
		}
	return set;
}

bool ha_coll_supports(enum ha_nccl_dtype dtype, enum ha_nccl_op op)
{
	const struct ha_coll *coll;
	bool yes;

	pthread_mutex_lock(&lock);
	yes = comms && is_known(dtype, op);
	for (coll = comms; coll && yes; coll = coll->next)
		yes = coll->supported & support_bit(dtype, op);
	pthread_mutex_unlock(&lock);
	return yes;
}

/* ---- log ------------------------------------------------------------------------------------ */

__attribute__((format(printf, 2, 3))) static void say(enum ha_log_level level, const char *format,
						      ...)
{
	char text[768];
	va_list ap;
	int n = snprintf(text, sizeof(text), "CollNet: ");

	va_start(ap, format);
	vsnprintf(text + n, sizeof(text) - n, format, ap);
	va_end(ap);
	ha_plugin_log(level, __FILE__, __LINE__, text);
}

/* Passes on a line of libinccl. */
static void library_line(void *ctx, const char *line)
{
	say(HA_LOG_INFO, "%s", line);
}

/* ---- listen --------------------------------------------------------------------------------- */

/* Asks the controller whether it accepts this node, by a group of this node alone. So a controller
 * that is missing, a wrong key or an address that is not in the topology is known before the nodes
 * meet, and none of them has to wait for this one. */
static int probe(const char *job, const char *controller, const char *address, struct inc_err *err)
{
	INCCL_OPTS(inccl_group_opts, opts, .job = job, .controller = controller, .rank = 0,
		   .world_size = 1, .address = address, .create_timeout_ms = PROBE_MS,
		   .error = err->msg, .error_size = sizeof(err->msg), .log = library_line,
		   .no_node = 1);
	struct inccl_group *group = NULL;
	const int ret = inccl_group_create(&opts, &group);

	inccl_group_destroy(group);
	return ret;
}

static void fill_handle(struct ha_coll_handle *handle, uint64_t nonce, const char *controller)
{
	memset(handle, 0, sizeof(*handle));
	handle->magic_be = htobe32(MAGIC);
	handle->version = VERSION;
	snprintf(handle->job, sizeof(handle->job), "nccl-%016llx", (unsigned long long)nonce);
	/* a longer name is left out, and then each node must have one itself */
	if (controller && strlen(controller) < sizeof(handle->controller))
		strcpy(handle->controller, controller);
}

static const char *own_controller(void)
{
	const char *text = getenv("INCCL_CONTROLLER");

	return text && *text ? text : NULL;
}

int ha_coll_listen(unsigned int dev, struct ha_coll_handle *handle, struct ha_coll_listener **out,
		   struct inc_err *err)
{
	const char *controller = own_controller();
	struct ha_coll_listener *listener = calloc(1, sizeof(*listener));
	struct inc_err why = {""};
	uint64_t nonce;
	int ret;

	if (!listener)
		return inc_err_set(err, ENOMEM, "%s", strerror(ENOMEM));
	ret = inc_random_bytes(&nonce, sizeof(nonce), err);
	if (ret) {
		free(listener);
		return ret;
	}
	listener->dev = dev;
	fill_handle(handle, nonce, controller);
	ret = ha_coll_address(dev, listener->address, sizeof(listener->address), &why);
	if (!ret && controller)
		ret = probe(handle->job, controller, listener->address, &why);
	if (ret) {
		handle->error_be = htobe16(-ret);
		snprintf(handle->reason, sizeof(handle->reason), "%s",
			 why.msg[0] ? why.msg : strerror(-ret));
		say(HA_LOG_WARN, "%s: this node cannot take part: %s", ha_coll_device_name(dev),
		    why.msg[0] ? why.msg : strerror(-ret));
	}
	pthread_mutex_lock(&lock);
	listener->next = listeners;
	listeners = listener;
	pthread_mutex_unlock(&lock);
	*out = listener;
	return 0;
}

void ha_coll_listener_close(struct ha_coll_listener *listener)
{
	struct ha_coll_listener **at = &listeners;

	pthread_mutex_lock(&lock);
	while (*at && *at != listener)
		at = &(*at)->next;
	if (*at) {
		*at = listener->next;
		free(listener);
	}
	pthread_mutex_unlock(&lock);
}

/* ---- connect -------------------------------------------------------------------------------- */

/* Reads the handles of all nodes. Every node comes to the same end: 0 with the controller, or the
 * error of the first node that cannot take part. */
static int read_handles(struct ha_coll_handle *const *handles, unsigned int n,
			const char **controller, struct inc_err *err)
{
	*controller = NULL;
	for (unsigned int i = 0; i < n; i++) {
		struct ha_coll_handle *handle = handles[i];

		if (handle->magic_be != htobe32(MAGIC) || handle->version != VERSION)
			return inc_err_set(err, EPROTO,
					   "node %u uses another plugin, or another version of it",
					   i);
		handle->job[sizeof(handle->job) - 1] = '\0';
		handle->controller[sizeof(handle->controller) - 1] = '\0';
		handle->reason[sizeof(handle->reason) - 1] = '\0';
	}
	for (unsigned int i = 0; i < n; i++) {
		const int error = be16toh(handles[i]->error_be);

		if (error)
			return inc_err_set(err, error, "node %u cannot take part: %s", i,
					   handles[i]->reason);
		if (!*controller && handles[i]->controller[0])
			*controller = handles[i]->controller;
	}
	if (!*controller)
		*controller = own_controller();
	if (!*controller)
		return inc_err_set(err, EINVAL,
				   "no node has a controller: set INCCL_CONTROLLER=HOST[:PORT]");
	return 0;
}

/* Agrees with all nodes on what can be reduced, by the first AllReduce of the communicator. So this
 * also shows, before NCCL relies on it, that the tree works. */
static int agree(struct ha_coll *coll, struct inc_err *err)
{
	INCCL_OPTS(inccl_collective_opts, opts, .timeout_ms = AGREE_MS, .error = err->msg,
		   .error_size = sizeof(err->msg));
	struct inccl_communicator_info info = {.sz = sizeof(info)};
	const char *why;
	uint64_t own;
	bool native;
	int ret;

	inccl_communicator_info(coll->comm, &info);
	native = !strcmp(info.floats, "native");
	coll->float_block = native ? 0 : FLOAT_BLOCK;
	own = supported_by(native);
	ret = inccl_allreduce(coll->comm, &own, &coll->supported, 1, INCCL_UINT64, INCCL_AND,
			      &opts);
	why = ret ? inccl_communicator_error(coll->comm) : NULL;
	return why ? inc_err_set(err, -ret, "%s", why) : ret;
}

static int create(struct ha_coll *coll, const struct inccl_group_opts *group_opts,
		  struct inc_err *err)
{
	INCCL_OPTS(inccl_communicator_opts, opts, .transport = ha_coll_transport(),
		   .timeout_ms = CALL_TIMEOUT_MS, .create_timeout_ms = CREATE_MS, .error = err->msg,
		   .error_size = sizeof(err->msg), .no_wait = 1,
		   .silence_ms = ha_plugin_devices(ha_plugin_now())->config->switch_timeout_ms,
		   .verbs = coll->verbs);
	int ret = inccl_group_create(group_opts, &coll->group);

	if (!ret)
		ret = inccl_communicator_create(coll->group, &opts, &coll->comm);
	if (!ret) {
		err->msg[0] = '\0'; /* a communicator that exists may have left a remark */
		ret = agree(coll, err);
	}
	if (ret && !err->msg[0])
		inc_err_set(err, -ret, "%s", inccl_strerror(ret));
	return ret;
}

void ha_coll_abandon(struct ha_coll *coll)
{
	if (!coll->busy || !coll->comm)
		return;
	say(HA_LOG_WARN, "%s: its memory is deregistered while calls are under way, so they end",
	    coll->name);
	coll->failed = true;
	inccl_communicator_destroy(coll->comm); /* waits for the threads that use the memory */
	coll->comm = NULL;
}

static void destroy(struct ha_coll *coll)
{
	inccl_communicator_destroy(coll->comm);
	inccl_group_destroy(coll->group);
	free(coll);
}

/* Logs what NCCL's log should have about a new comm. */
static void say_connected(const struct ha_coll *coll)
{
	struct inccl_communicator_info info = {.sz = sizeof(info)};

	inccl_communicator_info(coll->comm, &info);
	say(HA_LOG_INFO, "%s: node %d of %d is connected to %s by %s, %s mode, floats %s, tree %s",
	    coll->name, info.rank, info.world_size, info.peer, info.transport, info.mode,
	    info.floats, info.tree);
	if (!strcmp(info.transport, "verbs"))
		say(HA_LOG_INFO,
		    "%s: its queue pair has %s; other settings are those of INCCL_VERBS",
		    coll->name, coll->verbs);
}

int ha_coll_connect(struct ha_coll_handle *const *handles, unsigned int n, unsigned int rank,
		    struct ha_coll_listener *listener, struct ha_coll **out, struct inc_err *err)
{
	struct ha_coll *coll = calloc(1, sizeof(*coll));
	const char *controller = NULL;
	int ret = coll ? read_handles(handles, n, &controller, err)
		       : inc_err_set(err, ENOMEM, "%s", strerror(ENOMEM));

	if (!ret) {
		INCCL_OPTS(inccl_group_opts, opts, .job = handles[0]->job, .controller = controller,
			   .rank = rank, .world_size = n, .address = listener->address,
			   .create_timeout_ms = CREATE_MS, .error = err->msg,
			   .error_size = sizeof(err->msg), .log = library_line, .no_node = 1);

		snprintf(coll->name, sizeof(coll->name), "%s", ha_coll_device_name(listener->dev));
		ha_coll_verbs(listener->dev, coll->verbs);
		ret = create(coll, &opts, err);
	}
	if (ret) {
		say(HA_LOG_WARN, "%s is not used: %s", ha_coll_device_name(listener->dev),
		    err->msg);
		if (coll)
			destroy(coll);
		ha_coll_listener_close(listener);
		return ret;
	}
	pthread_mutex_lock(&lock);
	coll->next = comms;
	comms = coll;
	pthread_mutex_unlock(&lock);
	ha_metrics_coll_comms(1);
	say_connected(coll);
	*out = coll;
	return 0;
}

void ha_coll_close(struct ha_coll *coll)
{
	struct ha_coll **at = &comms;

	pthread_mutex_lock(&lock);
	while (*at != coll)
		at = &(*at)->next;
	*at = coll->next;
	pthread_mutex_unlock(&lock);
	ha_metrics_coll_comms(-1);
	destroy(coll);
}

/* ---- calls ---------------------------------------------------------------------------------- */

int ha_coll_start(struct ha_coll *coll, const void *send, void *recv, size_t count,
		  enum ha_nccl_dtype dtype, enum ha_nccl_op op, struct ha_coll_call **out,
		  struct inc_err *err)
{
	INCCL_OPTS(inccl_collective_opts, opts, .error = err->msg, .error_size = sizeof(err->msg),
		   .float_block = coll->float_block);
	struct ha_coll_call *call;
	int ret;

	*out = NULL;
	if (!is_known(dtype, op))
		return inc_err_set(err, EINVAL, "type %d and operator %d cannot be reduced",
				   (int)dtype, (int)op);
	if (!coll->comm)
		return inc_err_set(err, EIO, "%s: its memory has been deregistered", coll->name);
	if (!~coll->busy)
		return 0;
	call = &coll->call[__builtin_ctzll(~coll->busy)];
	ret = inccl_allreduce_start(coll->comm, send, recv, count, types[dtype].dtype,
				    operators[op], &opts, &call->request);
	if (ret == -EAGAIN) /* a thread of the library has the communicator */
		return 0;
	if (ret) {
		const char *why = inccl_communicator_error(coll->comm);

		return why ? inc_err_set(err, EIO, "%s: %s", coll->name, why) : ret;
	}
	call->coll = coll;
	call->bytes = count * ha_coll_element_bytes(dtype);
	call->began_at_ns = inc_now_ns();
	coll->busy |= 1ull << (call - coll->call);
	*out = call;
	return 0;
}

int ha_coll_test(struct ha_coll_call *call, bool *done, int *bytes)
{
	struct ha_coll *coll = call->coll;
	const int ret = coll->comm && call->request ? inccl_test(call->request) : -EIO;

	*done = !ret;
	if (ret == -EAGAIN)
		return 0;
	if (ret) {
		if (call->request)
			ha_metrics_coll_failed();
		call->request = NULL;
		if (!coll->failed)
			say(HA_LOG_WARN, "%s: %s", coll->name,
			    (coll->comm ? inccl_communicator_error(coll->comm) : NULL)
				    ?: inccl_strerror(ret));
		coll->failed = true;
		return -EIO;
	}
	if (bytes)
		*bytes = call->bytes < INT_MAX ? (int)call->bytes : INT_MAX;
	ha_metrics_coll_done(call->bytes, inc_now_ns() - call->began_at_ns);
	coll->busy &= ~(1ull << (call - coll->call));
	return 0;
}
