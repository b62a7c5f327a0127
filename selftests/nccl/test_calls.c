/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/*
 * Calls the functions of the plugin's tables by ha-nccl-perf's own code, in the way in which NCCL's
 * proxy does, over fake devices. Both ends are in this process.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "hostlib/nccl/abi.h"
#include "hostlib/nccl/metrics.h"
#include "hostlib/tools/ha_perf_stream.h"
#include "lib/base/clock.h"
#include "selftests/fakes/verbs.h"

#define GROUPS     200u
#define BYTES      3000u
#define PATIENCE_S 20
#define COMMS      20u /* number of comms that the service thread makes */

extern const struct ha_nccl_net_v8 ncclNetPlugin_v8;
extern const struct ha_nccl_net_v9 ncclNetPlugin_v9;
extern const struct ha_nccl_net_v10 ncclNetPlugin_v10;
extern const struct ha_nccl_net_v11 ncclNetPlugin_v11;
extern const struct ha_nccl_net_v12 ncclNetPlugin_v12;

static const struct {
	unsigned int api;
	const void *table;
	size_t bytes;
} versions[] = {
	{8, &ncclNetPlugin_v8, sizeof(ncclNetPlugin_v8)},
	{9, &ncclNetPlugin_v9, sizeof(ncclNetPlugin_v9)},
	{10, &ncclNetPlugin_v10, sizeof(ncclNetPlugin_v10)},
	{11, &ncclNetPlugin_v11, sizeof(ncclNetPlugin_v11)},
	{12, &ncclNetPlugin_v12, sizeof(ncclNetPlugin_v12)},
};
#define VERSIONS (sizeof(versions) / sizeof(versions[0]))

enum end { SENDER, RECEIVER };

struct job {
	struct ha_net net;
	struct ha_stream_opts opts;
	struct ha_stream end[2];
	union {
		/* the members that all versions of the table have are at the same offsets */
		struct ha_nccl_net_v8 v8;
		struct ha_nccl_net_v9 v9;
		struct ha_nccl_net_v11 v11;
		struct ha_nccl_net_v12 v12;
	} table; /* table of the plugin, in which a test may replace a function by one that fails */
};

static const int device[] = {[SENDER] = 0, [RECEIVER] = 2};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* counts of log lines, which the lock protects */
static unsigned int stands_by, failovers, sources, without_path, gpus_full, left_alone;

static void log_line(enum ha_nccl_log_level level, unsigned long subsystems, const char *file,
		     int line, const char *format, ...)
{
	char text[1000];
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	pthread_mutex_lock(&lock);
	stands_by += strstr(text, " stands by for epoch 1") != NULL;
	failovers += strstr(text, ": failover: ") != NULL;
	gpus_full += level == HA_NCCL_LOG_WARN && strstr(text, "free memory of the GPU");
	without_path += strstr(text, "no path comes up: fake") && strstr(text, "Cannot allocate");
	left_alone += strstr(text, "its disk does not answer, so the file stays") != NULL;
	sources += strstr(text, "HA_NCCL_QP_TIMEOUT: 12, by NCCL_IB_TIMEOUT") ||
		   strstr(text, "HA_NCCL_RTO_MS: 1000");
	pthread_mutex_unlock(&lock);
}

static unsigned int lines(const unsigned int *count)
{
	unsigned int n;

	pthread_mutex_lock(&lock);
	n = *count;
	pthread_mutex_unlock(&lock);
	return n;
}

static void must_be_in_time(uint64_t began_at_ns)
{
	assert_true(inc_now_ns() - began_at_ns < PATIENCE_S * INC_NSEC_PER_SEC);
}

/* Looks once a millisecond. */
#define wait_until(condition)                                                   \
	for (const uint64_t from_ns = inc_now_ns(); !(condition); usleep(1000)) \
	must_be_in_time(from_ns)

static void job_begin(struct job *job, unsigned int version, unsigned int group)
{
	memset(job, 0, sizeof(*job));
	job->opts = (struct ha_stream_opts){.group = group,
					    .in_flight = 4,
					    .check = true,
					    .flush = true,
					    .limit_ms = PATIENCE_S * 1000};
	memcpy(&job->table, versions[version].table, versions[version].bytes);
	job->net.api = versions[version].api;
	job->net.table = &job->table;
	for (int i = 0; i < 2; i++)
		job->end[i] = (struct ha_stream){
			.net = &job->net, .opts = &job->opts, .sends = i == SENDER};
}

static int post(struct ha_stream *stream, uint64_t to)
{
	int got = 1;

	while (got > 0 && stream->posted < to) {
		if (stream->sends && !stream->part &&
		    stream->posted - stream->done < stream->opts->in_flight)
			for (unsigned int tag = 0; tag < stream->opts->group; tag++)
				ha_stream_fill(stream, stream->posted, tag,
					       ha_stream_bytes(stream, stream->posted, BYTES));
		got = stream->sends ? ha_stream_send(stream, BYTES)
				    : ha_stream_receive(stream, BYTES);
	}
	return got;
}

static int step(struct job *job, uint64_t to)
{
	int err = 0;

	for (int i = 0; i < 2 && err >= 0; i++) {
		struct ha_stream *stream = &job->end[i];

		err = post(stream, to);
		if (err >= 0)
			err = ha_stream_poll(stream);
		while (err >= 0 && stream->consumed < stream->done)
			err = ha_stream_consume(stream);
	}
	sched_yield(); /* the plugin's threads may have to share the processors with this thread */
	return err < 0 ? err : 0;
}

static int move(struct job *job, uint64_t to)
{
	const uint64_t began_at_ns = inc_now_ns();
	int err = 0;

	while (!err && (job->end[SENDER].done < to || job->end[RECEIVER].consumed < to)) {
		err = step(job, to);
		must_be_in_time(began_at_ns);
	}
	return err;
}

/* Moves messages of `job` until the condition is true. `to` is how many have moved. */
#define move_until(condition)                                     \
	for (const uint64_t from_ns = inc_now_ns(); !(condition); \
	     assert_int_equal(move(&job, to += 10), 0))           \
	must_be_in_time(from_ns)

/* Runs the job from the plugin's init on. Returns 0, or -errno and sets net.err. */
static int job_run(struct job *job, uint64_t groups)
{
	int ndev, err = ha_net_init(&job->net, log_line);

	if (!err)
		err = ha_survey(&job->net, &ndev);
	if (!err)
		err = ha_stream_join(&job->end[SENDER], device[SENDER], &job->end[RECEIVER],
				     device[RECEIVER], BYTES);
	return err ? err : move(job, groups);
}

static void job_end(struct job *job)
{
	for (int i = 0; i < 2; i++)
		assert_int_equal(ha_stream_close(&job->end[i]), 0);
	assert_int_equal(ha_net_finalize(&job->net), 0);
}

static void must_run(struct job *job, uint64_t groups)
{
	if (job_run(job, groups))
		fail_msg("version %u: %s", job->net.api, job->net.err.msg);
}

/* ---- GPU memory ----------------------------------------------------------------------------- */

static void (*set_cuda)(bool context, bool dma_bufs, void (*to)(void *, size_t, int));
static unsigned int (*cuda_allocations)(void);
static void (*cuda_full)(bool full);
static int (*cuda_capture_mode)(void);
static bool peer_memory;

static void declare_gpu(void *addr, size_t bytes, int fd)
{
	fake_verbs_gpu(addr, bytes, fd, peer_memory);
}

static void load_cuda(void)
{
	const char *build = getenv("INC_BUILD");
	char path[PATH_MAX];
	void *cuda;

	snprintf(path, sizeof(path), "%s/selftests/nccl/libcuda.so.1", build ?: "build");
	cuda = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!cuda)
		fail_msg("%s", dlerror());
	set_cuda = dlsym(cuda, "fake_cuda_set");
	cuda_allocations = dlsym(cuda, "fake_cuda_allocations");
	cuda_full = dlsym(cuda, "fake_cuda_full");
	cuda_capture_mode = dlsym(cuda, "fake_cuda_capture_mode");
}

/* The memory that init has found that a device can register. */
static int memory_of(unsigned int dev)
{
	struct ha_net_properties props;
	struct job job;

	job_begin(&job, VERSIONS - 1, 1);
	if (ha_net_init(&job.net, log_line) || ha_net_properties(&job.net, (int)dev, &props))
		fail_msg("%s", job.net.err.msg);
	assert_int_equal(ha_net_finalize(&job.net), 0);
	assert_true(!cuda_allocations || !cuda_allocations());
	assert_int_equal(fake_verbs_objects(), 0);
	return props.ptr_support;
}

#define REFUSE_ALL UINT_MAX

/* Init tries which GPU memory the devices can register. NCCL reads the result in the properties. */
static void trial(void **state)
{
	static const struct {
		bool context, dma_bufs, peer_memory;
		unsigned int refusals;
		int support;
	} cases[] = {
		{false, true, true, 0, 0},
		{true, true, true, 0, HA_NCCL_PTR_CUDA | HA_NCCL_PTR_DMABUF},
		{true, true, false, 0, HA_NCCL_PTR_DMABUF},
		{true, false, true, 0, HA_NCCL_PTR_CUDA},
		{true, false, false, 0, 0},
		{true, true, true, REFUSE_ALL, HA_NCCL_PTR_CUDA},
		/* the first device, which is the second rail of another one, too */
		{true, true, false, 1, 0},
	};

	/* without CUDA in the process */
	assert_int_equal(memory_of(0), HA_NCCL_PTR_HOST);
	load_cuda();
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		peer_memory = cases[i].peer_memory;
		set_cuda(cases[i].context, cases[i].dma_bufs, declare_gpu);
		fake_verbs_refuse(FAKE_VERBS_REG_DMABUF, EOPNOTSUPP, cases[i].refusals);
		assert_int_equal(memory_of(0), HA_NCCL_PTR_HOST | cases[i].support);
		fake_verbs_refuse(FAKE_VERBS_REG_DMABUF, 0, 0);
	}
	set_cuda(true, true, declare_gpu);
	/* the thread has its own mode of recording again */
	assert_int_equal(cuda_capture_mode(), 0);
	cuda_full(true);
	assert_int_equal(memory_of(0), HA_NCCL_PTR_HOST);
	assert_int_equal(gpus_full, 1);
	set_cuda(false, false, declare_gpu);
}

/* All versions with memory that is registered as a GPU's. */
static void gpu_memory(void **state)
{
	struct job job;

	for (unsigned int i = 0; i < VERSIONS; i++) {
		job_begin(&job, i, 4);
		job.opts.memory = HA_STREAM_GPU;
		must_run(&job, GROUPS);
		for (int end = 0; end < 2; end++)
			assert_int_equal(ha_stream_check_unused(&job.end[end]), 0);
		assert_true(job.net.calls[HA_NET_iflush].count >= GROUPS);
		job_end(&job);
	}
}

/* The same by dma-bufs, where the kernel has udmabuf. */
static void dmabuf_memory(void **state)
{
	struct job job;
	int err;

	job_begin(&job, VERSIONS - 1, 4);
	job.opts.memory = HA_STREAM_DMABUF;
	err = job_run(&job, GROUPS);
	if (err && strstr(job.net.err.msg, "/dev/udmabuf"))
		print_message("# SKIP %s\n", job.net.err.msg);
	else if (err)
		fail_msg("%s", job.net.err.msg);
	else
		assert_int_equal(job.net.calls[HA_NET_regMrDmaBuf].count, 2);
	job_end(&job);
}

/* While `holds` is set, a file of figures is not renamed, as on a disk that does not answer. */
static atomic_bool holds, is_held;

static int rename_late(const char *from, const char *to)
{
	for (int i = 0; i < PATIENCE_S * 1000 && holds; i++) {
		is_held = true;
		usleep(1000);
	}
	return rename(from, to);
}

static void hold(bool on)
{
	is_held = false;
	holds = on;
}

static bool file_has(const char *path, const char *text)
{
	char found[16384];
	FILE *file = fopen(path, "re");
	size_t n = file ? fread(found, 1, sizeof(found) - 1, file) : 0;

	if (file)
		fclose(file);
	found[n] = '\0';
	return strstr(found, text);
}

/* Neither NCCL's thread nor the progress thread waits for the file of figures: messages and a
 * failover go on while it cannot be written. The plugin's end does not wait, either. */
static void figures_block_nothing(void **state)
{
	const unsigned int before = lines(&stands_by), logged_before = lines(&failovers);
	char directory[] = "/tmp/inc-test-XXXXXX", path[PATH_MAX];
	struct job job;
	uint64_t to = 10;

	assert_non_null(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/%%p.prom", directory);
	setenv("HA_NCCL_METRICS", path, 1);
	setenv("HA_NCCL_METRICS_MS", "100", 1);
	snprintf(path, sizeof(path), "%s/%d.prom", directory, (int)getpid());
	ha_metrics_disk.rename = rename_late;
	hold(true);
	job_begin(&job, VERSIONS - 1, 1);
	must_run(&job, to);
	move_until(lines(&stands_by) >= before + 2 && is_held);
	fake_verbs_faults((unsigned int)device[SENDER], FAKE_VERBS_CUT);
	move_until(lines(&failovers) >= logged_before + 2);
	assert_int_equal(access(path, F_OK), -1);
	hold(false);
	wait_until(file_has(path, "le=\"+Inf\"} 1\n"));
	hold(true);
	wait_until(is_held);
	job_end(&job);
	assert_int_equal(lines(&left_alone), 1);
	/* the file ends with the plugin, or later with the thread, so the directory is empty */
	hold(false);
	wait_until(!rmdir(directory));
	ha_metrics_disk.rename = rename;
	unsetenv("HA_NCCL_METRICS");
	fake_verbs_faults((unsigned int)device[SENDER], 0);
}

static void connect_job(struct job *job, void *context)
{
	job_begin(job, VERSIONS - 1, 1);
	job->net.context = context;
	if (ha_stream_join(&job->end[SENDER], device[SENDER], &job->end[RECEIVER], device[RECEIVER],
			   BYTES))
		fail_msg("%s", job->net.err.msg);
}

/* A device has room for as many comms as maxComms promises, all at once, and each passes messages.
 * NCCL alone counts them, so one more works while the device has room. If the device has none,
 * connect fails with one line of the log that has its reason. */
static void as_many_comms_as_promised(void **state)
{
	struct ha_nccl_properties_v12 props;
	struct job first, *jobs, *last;
	unsigned int i, n;

	/* 1024 completions of the fake device are enough for 32 comms of (8 x 1 + 8) x 2 */
	setenv("HA_NCCL_EXPECTED_CHANNELS", "1", 1);
	setenv("HA_NCCL_WR_PER_CONN", "8", 1);
	setenv("HA_NCCL_MAX_RECVS", "1", 1);
	job_begin(&first, VERSIONS - 1, 1);
	assert_int_equal(ha_net_init(&first.net, log_line), 0);
	assert_int_equal(ncclNetPlugin_v12.getProperties(device[SENDER], &props), HA_NCCL_SUCCESS);
	n = props.max_comms;
	assert_int_equal(n, 32);
	assert_non_null(jobs = calloc(n + 2, sizeof(*jobs)));
	for (i = 0; i <= n; i++) {
		connect_job(&jobs[i], first.net.context);
		assert_int_equal(move(&jobs[i], 1), 0);
	}
	for (i = 0; i <= n; i++)
		assert_int_equal(move(&jobs[i], 5), 0);
	last = &jobs[n + 1];
	job_begin(last, VERSIONS - 1, 1);
	last->net.context = first.net.context;
	last->opts.limit_ms *= 10; /* 50 tries, at least 100 ms apart */
	fake_verbs_refuse(FAKE_VERBS_CREATE_QP, ENOMEM, UINT_MAX);
	assert_int_equal(ha_stream_join(&last->end[SENDER], device[SENDER], &last->end[RECEIVER],
					device[RECEIVER], BYTES),
			 -EIO);
	fake_verbs_refuse(FAKE_VERBS_CREATE_QP, 0, 0);
	assert_string_equal(last->net.err.msg, "connect: ncclRemoteError");
	assert_int_equal(lines(&without_path), 1);
	for (i = 0; i <= n; i++)
		assert_int_equal(move(&jobs[i], 10), 0);
	for (i = 0; i < 2 * (n + 2); i++)
		assert_int_equal(ha_stream_close(&jobs[i / 2].end[i % 2]), 0);
	assert_int_equal(ha_net_finalize(&first.net), 0);
	free(jobs);
	unsetenv("HA_NCCL_EXPECTED_CHANNELS");
	unsetenv("HA_NCCL_WR_PER_CONN");
	unsetenv("HA_NCCL_MAX_RECVS");
}

static void every_version(void **state)
{
	static const unsigned int group[] = {1, HA_NET_MAX_GROUP};
	struct job job;

	for (unsigned int i = 0; i < VERSIONS; i++)
		for (unsigned int k = 0; k < 2; k++) {
			job_begin(&job, i, group[k]);
			must_run(&job, GROUPS);
			for (int end = 0; end < 2; end++)
				assert_int_equal(ha_stream_check_unused(&job.end[end]), 0);
			job_end(&job);
		}
	/* the first init logs two settings with their variables */
	assert_true(lines(&sources) >= 2);
}

static enum ha_nccl_result refuse_consumed(void *comm, int n, void *request)
{
	return HA_NCCL_INVALID_USAGE;
}

static enum ha_nccl_result refuse_merge(int *dev, struct ha_nccl_vdevice *parts)
{
	return HA_NCCL_INVALID_USAGE;
}

/* If irecvConsumed fails, the job ends at the first receive. */
static void irecv_consumed_that_fails(void **state)
{
	struct job job;

	for (unsigned int i = 0; i < VERSIONS; i++) {
		job_begin(&job, i, 1);
		job.table.v8.irecvConsumed = refuse_consumed;
		assert_int_equal(job_run(&job, GROUPS), -EIO);
		assert_string_equal(job.net.err.msg, "irecvConsumed: ncclInvalidUsage");
		assert_int_equal(job.end[RECEIVER].consumed, 1);
		job_end(&job);
	}
}

/* NCCL merges the plugin's four devices into one by makeVDevice, because their PCI paths are alike.
 * If that call fails, NCCL 2.24 and 2.25 end the job at once, and other versions use the devices as
 * they are. */
static void merge_that_fails(void **state)
{
	struct job job;

	for (unsigned int i = 1; i < VERSIONS; i++) {
		const bool ends = versions[i].api == 9;

		job_begin(&job, i, 1);
		job.table.v9.makeVDevice = refuse_merge;
		assert_int_equal(job_run(&job, 10), ends ? -EIO : 0);
		assert_true(job.net.calls[HA_NET_makeVDevice].count > 0);
		if (ends)
			assert_string_equal(job.net.err.msg, "makeVDevice: ncclInvalidUsage");
		job_end(&job);
	}
}

/* NCCL closes the listening comm long before the standby path is needed, and usually before that
 * path is up. A failover must work nevertheless. */
static void failover_without_a_listener(void **state)
{
	const unsigned int before = lines(&stands_by), logged_before = lines(&failovers);
	struct job job;
	uint64_t to = 10;

	job_begin(&job, VERSIONS - 1, 4);
	must_run(&job, to);
	assert_null(job.end[RECEIVER].listen);
	move_until(lines(&stands_by) >= before + 2);
	fake_verbs_faults((unsigned int)device[SENDER], FAKE_VERBS_CUT);
	move_until(lines(&failovers) >= logged_before + 2);
	assert_int_equal(move(&job, to += GROUPS), 0);
	job_end(&job);
	fake_verbs_faults((unsigned int)device[SENDER], 0);
}

struct service {
	struct job job;
	bool stop;
	unsigned int comms;
	int err;
};

/* A thread that connects, registers memory, deregisters it and closes, again and again. */
static void *serve(void *arg)
{
	struct service *service = arg;
	struct ha_stream *end = service->job.end;

	while (!service->err && !__atomic_load_n(&service->stop, __ATOMIC_ACQUIRE)) {
		service->err = ha_stream_join(&end[SENDER], device[SENDER], &end[RECEIVER],
					      device[RECEIVER], BYTES);
		for (int i = 0; i < 2; i++)
			service->err = ha_stream_close(&end[i]) ?: service->err;
		__atomic_add_fetch(&service->comms, 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

/* While NCCL's progress thread sends, its service thread serves other comms. */
static void two_threads(void **state)
{
	struct service service = {};
	pthread_t thread;
	struct job job;
	uint64_t to = 10;

	job_begin(&job, VERSIONS - 1, 4);
	must_run(&job, to);
	job_begin(&service.job, VERSIONS - 1, 1);
	service.job.net.context = job.net.context;
	assert_int_equal(pthread_create(&thread, NULL, serve, &service), 0);
	move_until(__atomic_load_n(&service.comms, __ATOMIC_ACQUIRE) >= COMMS);
	__atomic_store_n(&service.stop, true, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	if (service.err)
		fail_msg("service thread: %s", service.job.net.err.msg);
	job_end(&job);
}

static int set_up(void **state)
{
	fake_verbs_machine(4);
	setenv("NCCL_SOCKET_IFNAME", "=lo", 1);
	setenv("HA_NCCL_RTO_MS", "1000", 1);
	setenv("HA_NCCL_HEARTBEAT_MS", "50", 1);
	setenv("NCCL_IB_TIMEOUT", "12", 1);
	setenv("HA_NCCL_QP_RETRY_CNT", "6", 1);
	return 0;
}

#define T(name) cmocka_unit_test(name)

int main(void)
{
	/* the first three come before others, because up to version 10 nothing closes the plugin */
	const struct CMUnitTest tests[] = {T(trial),
					   T(figures_block_nothing),
					   T(as_many_comms_as_promised),
					   T(gpu_memory),
					   T(dmabuf_memory),
					   T(every_version),
					   T(irecv_consumed_that_fails),
					   T(merge_that_fails),
					   T(failover_without_a_listener),
					   T(two_threads)};

	return cmocka_run_group_tests_name("calls as NCCL makes them", tests, set_up, NULL);
}
