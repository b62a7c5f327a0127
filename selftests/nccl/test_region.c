/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/* Memory registered with devices (hostlib/nccl/memory.h), then by comms, whose receivers need a
 * queue pair for flushes. The devices are fakes, and the memory of the GPU is a memfd. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/udmabuf.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>
#include "hostlib/nccl/comm_priv.h"
#include "hostlib/nccl/memory.h"
#include "lib/base/clock.h"
#include "lib/rdma/inventory.h"
#include "selftests/fakes/verbs.h"
#include "selftests/nccl/harness_flow.h"

#define HOST  HA_NCCL_PTR_HOST
#define GPU   HA_NCCL_PTR_CUDA
#define BYTES (16 * 4096ul)

static struct inc_rdma_inventory *inventory;
static struct ha_rail rails[HA_RAILS];
static struct ha_caches *caches;
static uint8_t *memory;
static struct inc_err err;

static struct ha_region region_of(size_t at, size_t bytes, int type, int dmabuf_fd)
{
	return (struct ha_region){
		.address = memory + at, .bytes = bytes, .type = type, .dmabuf_fd = dmabuf_fd};
}

static void add(struct ha_region *region, unsigned int rail)
{
	if (ha_region_register(region, caches, rails, rail, &err))
		fail_msg("%s", err.msg);
	assert_int_not_equal(ha_region_lkey(region, rail), 0);
	assert_int_not_equal(ha_region_rkey(region, rail), 0);
}

static bool has_cache(const struct ha_region *region)
{
	if (region->cache[0]->watched)
		return true;
	print_message("# SKIP this kernel does not tell what becomes of memory\n");
	return false;
}

static void rail_by_rail(void **state)
{
	struct ha_region r = region_of(100, 5000, HOST, -1);
	uint32_t key;

	assert_int_equal(ha_region_lkey(&r, 0), 0);
	assert_int_equal(ha_region_rkey(&r, 1), 0);
	add(&r, 1);
	assert_int_equal(ha_region_lkey(&r, 0), 0);
	key = ha_region_rkey(&r, 1);
	add(&r, 0);
	add(&r, 1); /* a second call does not repeat a registration that exists */
	assert_int_equal(ha_region_rkey(&r, 1), key);
	assert_int_not_equal(ha_region_rkey(&r, 0), key);
	assert_int_equal(fake_verbs_objects(), 2);
	assert_ptr_equal(r.mr[0]->mr->pd, rails[0].device->pd);
	assert_ptr_equal(r.mr[1]->mr->pd, rails[1].device->pd);
	assert_true((uintptr_t)r.mr[0]->mr->addr <= (uintptr_t)r.address);
	assert_true(r.mr[0]->access & IBV_ACCESS_REMOTE_WRITE);
	ha_region_release(&r);
	assert_int_equal(ha_region_lkey(&r, 0), 0);
	assert_int_equal(ha_region_lkey(&r, 1), 0);
	ha_region_release(&r);
}

static void comms_share(void **state)
{
	struct ha_region a = region_of(0, BYTES, HOST, -1), b = region_of(4096, 9, HOST, -1), c = b;

	add(&a, 0);
	if (!has_cache(&a)) {
		ha_region_release(&a);
		return;
	}
	add(&b, 0);
	assert_ptr_equal(a.mr[0], b.mr[0]);
	assert_int_equal(fake_verbs_objects(), 1);
	ha_region_release(&a);
	assert_int_equal(fake_verbs_objects(), 1); /* region b still uses the registration */
	ha_region_release(&b);
	/* the unused registration is retained for a later user */
	assert_int_equal(fake_verbs_objects(), 1);
	add(&c, 0);
	assert_int_equal(fake_verbs_objects(), 1);
	ha_region_release(&c);
	/* if pages were dropped, the memory is registered again */
	assert_int_equal(madvise(memory, BYTES, MADV_DONTNEED), 0);
	c = region_of(0, BYTES, HOST, -1);
	add(&c, 0);
	assert_int_equal(c.cache[0]->misses, 2);
	ha_region_release(&c);
}

static void empty_memory_has_keys(void **state)
{
	struct ha_region r = region_of(0, 0, HOST, -1);

	add(&r, 0);
	ha_region_release(&r);
}

static int memfd_of(size_t bytes)
{
	const int fd = memfd_create("gpu", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	return fd;
}

static void must_fail(struct ha_region *region, int error)
{
	err.msg[0] = '\0';
	assert_int_equal(ha_region_register(region, caches, rails, 0, &err), error);
	assert_true(err.msg[0]);
	assert_int_equal(ha_region_lkey(region, 0), 0);
}

static void memory_of_a_gpu(void **state)
{
	const int fd = memfd_of(BYTES);
	struct ha_region r = region_of(0, BYTES, GPU, fd), plain = region_of(0, BYTES, GPU, -1);

	add(&r, 0);
	assert_non_null(r.own[0]);
	assert_null(r.mr[0]);
	ha_region_release(&r);
	assert_int_equal(fake_verbs_objects(), 0); /* the registration was not retained */
	fake_verbs_gpu(memory, BYTES, fd, true);
	add(&plain, 0);
	add(&plain, 1);
	assert_non_null(plain.own[1]);
	assert_int_equal(fake_verbs_objects(), 2);
	ha_region_release(&plain);
	assert_int_equal(fake_verbs_objects(), 0);
	/* neither dma-buf nor a kernel module supports the GPU's memory */
	fake_verbs_refuse(FAKE_VERBS_REG_DMABUF, EOPNOTSUPP, 1);
	must_fail(&r, -EOPNOTSUPP);
	fake_verbs_gpu(memory, BYTES, fd, false);
	must_fail(&plain, -EOPNOTSUPP);
	/* the dma-buf is shorter than the region, begins elsewhere in a page, or is none */
	r.bytes++;
	must_fail(&r, -EINVAL);
	r.bytes = 4096;
	r.dmabuf_offset = 1;
	must_fail(&r, -EINVAL);
	close(fd);
	r.dmabuf_offset = 0;
	must_fail(&r, -EBADF);
	/* a network interface has no access */
	r.dmabuf_fd = -1;
	assert_int_equal(
		ha_region_register(&r, caches, &(struct ha_rail){.interface = "eth0"}, 0, &err),
		-EOPNOTSUPP);
	fake_verbs_gpu(NULL, 0, -1, false);
}

/* A dma-buf of the kernel, which has memory of the host behind it. */
static void memory_of_udmabuf(void **state)
{
	const int fd = memfd_of(BYTES), udmabuf = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
	struct udmabuf_create create = {.memfd = fd, .flags = UDMABUF_FLAGS_CLOEXEC, .size = BYTES};
	struct ha_region r = region_of(0, BYTES, GPU, -1);

	if (udmabuf < 0) {
		print_message("# SKIP /dev/udmabuf: %s\n", strerror(errno));
		close(fd);
		return;
	}
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	r.dmabuf_fd = ioctl(udmabuf, UDMABUF_CREATE, &create);
	assert_true(r.dmabuf_fd >= 0);
	add(&r, 0);
	add(&r, 1);
	ha_region_release(&r);
	close(r.dmabuf_fd);
	close(udmabuf);
	close(fd);
}

static void a_refusal(void **state)
{
	struct ha_region r = region_of(0, BYTES, HOST, -1);

	fake_verbs_refuse(FAKE_VERBS_REG_MR, EINVAL, 1);
	assert_int_equal(ha_region_register(&r, caches, rails, 0, &err), -EINVAL);
	assert_non_null(strstr(err.msg, "fake0: register 65536 bytes: "));
	assert_int_equal(fake_verbs_objects(), 0);
	add(&r, 0);
	ha_region_release(&r);
}

#define THREADS 4
#define ROUNDS  200

static void *register_often(void *arg)
{
	unsigned int i;

	for (i = 0; i < ROUNDS; i++) {
		struct ha_region r = region_of(i % 16 * 4096, 4096, HOST, -1);

		if (ha_region_register(&r, caches, rails, i % 2, NULL) ||
		    ha_region_register(&r, caches, rails, !(i % 2), NULL))
			return arg;
		ha_region_release(&r);
	}
	return NULL;
}

static void many_comms_at_once(void **state)
{
	pthread_t thread[THREADS];
	void *wrong;
	int i;

	for (i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, register_often, thread), 0);
	for (i = 0; i < THREADS; i++) {
		pthread_join(thread[i], &wrong);
		assert_null(wrong);
	}
}

/* ---- comms ---------------------------------------------------------------------------------- */

static bool is_registered(struct ha_comm *comm, const struct ha_region *region, unsigned int rail)
{
	bool registered;

	pthread_mutex_lock(&comm->lock);
	registered = ha_comm_is_registered(region, rail);
	pthread_mutex_unlock(&comm->lock);
	return registered;
}

static bool is_busy(struct ha_comm *comm, const struct ha_region *region)
{
	bool busy;

	pthread_mutex_lock(&comm->lock);
	busy = ((const struct ha_comm_region *)region)->busy;
	pthread_mutex_unlock(&comm->lock);
	return busy;
}

/* The rail in use can have no queue pair for flushes when NCCL registers memory. The other rail has
 * one, and NCCL notices nothing. */
static void register_by_other_rail(enum fake_verbs_call call, int error)
{
	const uint64_t began_at_ns = inc_now_ns();
	const int fd = memfd_of(4096);
	struct ha_region *region;
	struct flow flow = {0};

	flow_connect(&flow);
	flow_until_logged(&flow, "stands by for epoch 1", 2);
	fake_verbs_refuse(call, error, 1);
	assert_int_equal(ha_register(flow.receive, memory, 64, GPU, fd, 0, &region, &err), 0);
	assert_int_equal(fake_verbs_refusals_left(call), 0);
	while (!is_registered(flow.receive, region, 1)) {
		flow_step(&flow);
		assert_false(flow_is_late(began_at_ns));
	}
	assert_false(is_registered(flow.receive, region, 0));
	ha_deregister(flow.receive, region);
	/* the registration itself may not fail */
	fake_verbs_refuse(FAKE_VERBS_REG_DMABUF, ENOMEM, 1);
	assert_int_equal(ha_register(flow.receive, memory, 64, GPU, fd, 0, &region, &err), -ENOMEM);
	flow_finish(&flow);
	flow_disconnect(&flow);
	close(fd);
}

static void registered_without_an_address(void **state)
{
	register_by_other_rail(FAKE_VERBS_TO_RTR, EADDRNOTAVAIL);
}

static void loop_refused(void **state)
{
	register_by_other_rail(FAKE_VERBS_CREATE_QP, ENOMEM);
	assert_int_equal(flow_logged("fake2/1: queue pair: "), 1);
}

/* No rail can have the queue pair for flushes, so the comm ends at the first receive. Failovers
 * would not help. */
static void loop_refused_on_both_rails(void **state)
{
	const uint64_t began_at_ns = inc_now_ns();
	const int fd = memfd_of(4096), tag = 0;
	struct ha_request *request = NULL;
	struct flow flow = {0};
	struct ha_region *region;
	const size_t bytes = 8;
	void *at = memory;
	int ret = 0;

	flow_connect(&flow);
	flow_until_logged(&flow, "stands by for epoch 1", 2);
	flow_finish(&flow);
	fake_verbs_refuse(FAKE_VERBS_CREATE_QP, ENOMEM, 2);
	assert_int_equal(ha_register(flow.receive, memory, 64, GPU, fd, 0, &region, &err), 0);
	while (fake_verbs_refusals_left(FAKE_VERBS_CREATE_QP) || is_busy(flow.receive, region))
		assert_false(flow_is_late(began_at_ns));
	while (!ret) {
		ret = ha_irecv(flow.receive, 1, &at, &bytes, &tag, &region, &request);
		assert_false(flow_is_late(began_at_ns));
	}
	assert_int_equal(ret, -EIO);
	assert_int_equal(flow_logged("no rail's device accepts the memory"), 1);
	assert_int_equal(flow_logged("failover"), 0);
	ha_deregister(flow.receive, region);
	flow_disconnect(&flow);
	close(fd);
}

static void loop_refused_on_a_single_rail(void **state)
{
	const int fd = memfd_of(4096);
	struct flow flow = {0};
	struct ha_region *region;

	flow_connect(&flow);
	fake_verbs_refuse(FAKE_VERBS_CREATE_QP, ENOMEM, 1);
	assert_int_equal(ha_register(flow.receive, memory, 64, GPU, fd, 0, &region, &err), -ENOMEM);
	assert_non_null(strstr(err.msg, "fake2/1: queue pair: "));
	assert_int_equal(ha_register(flow.receive, memory, 64, GPU, fd, 0, &region, &err), 0);
	ha_deregister(flow.receive, region);
	flow_finish(&flow);
	flow_disconnect(&flow);
	close(fd);
}

/* ---- set-up and teardown --------------------------------------------------------------------- */

static int open_machine(void **state)
{
	const struct inc_rdma_list *list;
	unsigned int i;

	fake_verbs_machine(HA_RAILS);
	if (inc_rdma_inventory_open(NULL, &inventory, &err))
		return -1;
	list = inc_rdma_inventory_get(inventory);
	for (i = 0; i < HA_RAILS; i++)
		rails[i].device = inc_rdma_inventory_device(inventory, list->device[i].index,
							    list->device[i].name);
	inc_rdma_list_put(list);
	memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return memory == MAP_FAILED || ha_caches_open(&caches, &err);
}

static int nothing_is_left(void **state)
{
	unsigned int i;

	ha_caches_close(caches);
	assert_int_equal(fake_verbs_objects(), 0);
	for (i = 0; i < HA_RAILS; i++) {
		assert_int_equal(rails[i].device->refs, 2);
		inc_rdma_device_put(rails[i].device);
	}
	inc_rdma_inventory_close(inventory);
	munmap(memory, BYTES);
	return 0;
}

/* memory for tests that register it and do not use it */
static int open_flow(void **state)
{
	memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return memory == MAP_FAILED || flow_open(state);
}

static int close_flow(void **state)
{
	munmap(memory, BYTES);
	return flow_close(state);
}

static int open_single(void **state)
{
	setenv("HA_NCCL_ENABLE_BACKUP", "0", 1);
	return open_flow(state);
}

static int close_single(void **state)
{
	unsetenv("HA_NCCL_ENABLE_BACKUP");
	return close_flow(state);
}

int main(int argc, char **argv)
{
#define TEST(name)   cmocka_unit_test_setup_teardown(name, open_machine, nothing_is_left)
#define COMM(name)   cmocka_unit_test_setup_teardown(name, open_flow, close_flow)
#define SINGLE(name) cmocka_unit_test_setup_teardown(name, open_single, close_single)
	const struct CMUnitTest tests[] = {
		TEST(rail_by_rail),
		TEST(comms_share),
		TEST(empty_memory_has_keys),
		TEST(memory_of_a_gpu),
		TEST(memory_of_udmabuf),
		TEST(a_refusal),
		TEST(many_comms_at_once),
		COMM(registered_without_an_address),
		COMM(loop_refused),
		COMM(loop_refused_on_both_rails),
		SINGLE(loop_refused_on_a_single_rail),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("region", tests, NULL, NULL);
}
