/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The inventory of lib/rdma on rxe: which devices it lists, their changes, and the events that
 * report these. Arguments: for each of two devices its name, interface and address; then optionally
 * the name of one test.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>
#include "lib/base/clock.h"
#include "lib/rdma/gid.h"
#include "selftests/belongings.h"
#include "selftests/vm/rdma_side.h"

/* ---- helpers ------------------------------------------------------------------------------ */

static int refresh(struct inc_rdma_inventory *inventory)
{
	struct inc_err err = {""};
	int ret = inc_rdma_inventory_refresh(inventory, &err);

	if (ret < 0)
		fail_msg("%s", err.msg);
	return ret;
}

/* Waits for an event that requires a refresh of the inventory. */
static void wait_stale(struct inc_rdma_inventory *inventory)
{
	struct pollfd pfd = {.fd = inc_rdma_inventory_fd(inventory), .events = POLLIN};
	uint64_t deadline_at_ns = inc_now_ns() + DEADLINE_S * INC_NSEC_PER_SEC;

	while (!inc_rdma_inventory_take(inventory)) {
		assert_true(inc_now_ns() < deadline_at_ns);
		poll(&pfd, 1, 1000);
	}
}

/* ---- tests ---------------------------------------------------------------------------------- */

/* Reads a line of a port's file in sysfs. */
static void sysfs_says(const char *device, const char *file, char *line, int size)
{
	char path[200];
	FILE *f;

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/%s", device, file);
	f = fopen(path, "r");
	assert_non_null(f);
	assert_non_null(fgets(line, size, f));
	fclose(f);
	line[strcspn(line, "\n")] = '\0';
}

static void check_described(const struct inc_rdma_list *list, const struct end *end)
{
	const struct inc_rdma_device_info *device = described(list, end->device);
	const struct inc_rdma_port_info *port = &device->port[0];
	const struct inc_rdma_gid *gid = gid_of(device, end->addr);
	char file[64], line[100];
	unsigned int i;

	assert_ptr_equal(inc_rdma_device_find(list, device->index, end->device), device);
	assert_int_equal(port->number, 1);
	assert_int_equal(port->link_layer, INC_RDMA_LINK_ETHERNET);
	assert_int_equal(port->state, INC_RDMA_PORT_ACTIVE);
	/* 2048, because the lab's links have an MTU of 2200 */
	assert_int_equal(port->active_mtu_bytes, 2048);
	assert_true(port->pkeys > 0 && port->pkey[0] == 0xffff);
	/* the line has the form "2.5 Gb/sec (1X SDR)" */
	sysfs_says(end->device, "ports/1/rate", line, sizeof(line));
	assert_int_equal(port->speed_mbps, (uint64_t)(atof(line) * 1000));
	assert_true(device->guid && device->limits.max_qp && device->limits.max_qp_wr &&
		    device->limits.max_sge && device->limits.max_cqe &&
		    device->limits.max_qp_rd_atom && device->limits.max_qp_init_rd_atom);
	assert_non_null(gid);
	assert_string_equal(gid->own_ifname, end->ifname);
	assert_int_equal(gid->ifindex, gid->own_ifindex);
	snprintf(file, sizeof(file), "ports/1/gids/%u", gid->index);
	sysfs_says(end->device, file, line, sizeof(line));
	for (i = 0; i < 16; i++)
		assert_int_equal(gid->raw[i], strtoul((char[]){line[i / 2 * 5 + i % 2 * 2],
							       line[i / 2 * 5 + i % 2 * 2 + 1], 0},
						      NULL, 16));
}

static void test_described(void **state)
{
	struct inc_rdma_inventory *inventory = open_all();
	const struct inc_rdma_list *list = inc_rdma_inventory_get(inventory);
	int i;

	assert_int_equal(list->devices, ENDS);
	assert_int_equal(list->passed_over, 0);
	assert_true(list->device[0].index == 0 && list->device[1].index == 1);
	for (i = 0; i < ENDS; i++)
		check_described(list, &ends[i]);
	inc_rdma_list_put(list);
	inc_rdma_inventory_close(inventory);
}

static void passes(struct inc_rdma_filter_entry entry, unsigned int devices, unsigned int ports)
{
	const struct inc_rdma_filter filter = {&entry, 1};
	struct inc_rdma_inventory *inventory = open_filtered(&filter);
	const struct inc_rdma_list *list = inc_rdma_inventory_get(inventory);

	assert_int_equal(list->devices, devices);
	assert_int_equal(list->passed_over, ENDS - devices);
	if (devices)
		assert_int_equal(list->device[devices - 1].ports, ports);
	inc_rdma_list_put(list);
	inc_rdma_inventory_close(inventory);
}

static void test_filter(void **state)
{
	struct inc_rdma_filter_entry entry = {.port = 1};

	passes(entry, 2, 1);
	snprintf(entry.device, sizeof(entry.device), "%s", ends[1].device);
	passes(entry, 1, 1);
	entry.port = 2;
	passes(entry, 1, 0);
	snprintf(entry.device, sizeof(entry.device), "rxe77");
	passes(entry, 0, 0);
}

static void test_port_goes_down_and_up(void **state)
{
	struct inc_rdma_inventory *inventory = open_all();
	const struct inc_rdma_list *before = inc_rdma_inventory_get(inventory), *after;

	assert_int_equal(inc_rdma_inventory_take(inventory), 0);
	/* nothing has changed, so the list is the same object */
	assert_int_equal(refresh(inventory), 0);
	after = inc_rdma_inventory_get(inventory);
	assert_ptr_equal(after, before);
	inc_rdma_list_put(after);

	shell("ip link set %s down", ends[0].ifname);
	wait_stale(inventory);
	assert_int_equal(refresh(inventory), 1);
	after = inc_rdma_inventory_get(inventory);
	assert_int_not_equal(described(after, ends[0].device)->port[0].state, INC_RDMA_PORT_ACTIVE);
	assert_int_equal(described(after, ends[1].device)->port[0].state, INC_RDMA_PORT_ACTIVE);
	/* an old list does not change as long as it is referenced */
	assert_int_equal(described(before, ends[0].device)->port[0].state, INC_RDMA_PORT_ACTIVE);
	inc_rdma_list_put(before);
	inc_rdma_list_put(after);

	shell("ip link set %s up", ends[0].ifname);
	wait_stale(inventory);
	refresh(inventory);
	after = inc_rdma_inventory_get(inventory);
	assert_int_equal(described(after, ends[0].device)->port[0].state, INC_RDMA_PORT_ACTIVE);
	inc_rdma_list_put(after);
	inc_rdma_inventory_close(inventory);
}

/* ---- a device that is added, changed and removed -------------------------------------------- */

#define ADDED "rxe9"

struct holder {
	/* must be the first member, because pointers to it are cast to this struct */
	struct inc_rdma_subscriber subscriber;
	struct inc_rdma_device *device;
	unsigned int heard[INC_RDMA_DEVICE_OTHER + 1];
};

static void hear(struct inc_rdma_subscriber *self, const struct inc_rdma_event *event)
{
	struct holder *holder = (struct holder *)self;

	holder->heard[event->kind]++;
	if (event->kind != INC_RDMA_DEVICE_GONE)
		return;
	inc_rdma_unsubscribe(holder->device, self);
	inc_rdma_device_put(holder->device);
	holder->device = NULL;
}

static struct inc_rdma_device *hold(struct inc_rdma_inventory *inventory, const char *name)
{
	const struct inc_rdma_list *list = inc_rdma_inventory_get(inventory);
	uint8_t index = described(list, name)->index;
	struct inc_rdma_device *device = inc_rdma_inventory_device(inventory, index, name);

	assert_non_null(device);
	assert_null(inc_rdma_inventory_device(inventory, index + 1, name));
	assert_null(inc_rdma_inventory_device(inventory, index, "rxe77"));
	inc_rdma_list_put(list);
	return device;
}

/* Refreshes the inventory after each event, until the device's table has the address's GID, or
 * lacks it. */
static int wait_gid(struct inc_rdma_inventory *inventory, const char *address, bool there)
{
	uint64_t deadline_at_ns = inc_now_ns() + DEADLINE_S * INC_NSEC_PER_SEC;
	const struct inc_rdma_list *list;
	int index;

	for (;;) {
		list = inc_rdma_inventory_get(inventory);
		index = gid_index(described(list, ADDED), inet_addr(address));
		inc_rdma_list_put(list);
		if (there == (index >= 0))
			return index;
		if (inc_now_ns() > deadline_at_ns)
			fail_msg("%s: no GID %s", address, there ? "comes" : "goes");
		wait_stale(inventory);
		refresh(inventory);
	}
}

/* Removes an IP address and adds it again after another one, so that its GID has a new index. */
static void move_gid(struct inc_rdma_inventory *inventory)
{
	const struct inc_rdma_list *before;
	int was, is;

	shell("ip addr add 10.78.0.1/24 dev d0");
	was = wait_gid(inventory, "10.78.0.1", true);
	before = inc_rdma_inventory_get(inventory);
	shell("ip addr del 10.78.0.1/24 dev d0");
	wait_gid(inventory, "10.78.0.1", false);
	shell("ip addr add 10.78.0.2/24 dev d0");
	assert_int_equal(wait_gid(inventory, "10.78.0.2", true), was);
	shell("ip addr add 10.78.0.1/24 dev d0");
	is = wait_gid(inventory, "10.78.0.1", true);
	assert_int_not_equal(is, was);
	assert_int_equal(gid_index(described(before, ADDED), inet_addr("10.78.0.1")), was);
	inc_rdma_list_put(before);
}

/* Removes the device in a child process, because the removal blocks until no process has the device
 * open. */
static void remove_device(struct inc_rdma_inventory *inventory, const struct holder *holder)
{
	uint64_t deadline_at_ns = inc_now_ns() + DEADLINE_S * INC_NSEC_PER_SEC;
	const struct inc_rdma_list *list;
	int status, gone = 0;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		execlp("rdma", "rdma", "link", "delete", ADDED, NULL);
		_exit(127);
	}
	while (!gone) {
		assert_true(inc_now_ns() < deadline_at_ns);
		inc_rdma_inventory_take(inventory);
		refresh(inventory);
		list = inc_rdma_inventory_get(inventory);
		gone = !find_device(list, ADDED);
		inc_rdma_list_put(list);
	}
	assert_int_equal(holder->heard[INC_RDMA_DEVICE_GONE], 1);
	assert_null(holder->device);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void come_change_and_go(struct inc_rdma_inventory *inventory)
{
	struct holder holder = {.subscriber = {.on_event = hear}};
	const struct inc_rdma_list *list;

	shell("ip link add d0 type veth peer name d1 && ip link set d0 up && ip link set d1 up");
	assert_int_equal(refresh(inventory), 0);
	shell("rdma link add %s type rxe netdev d0", ADDED);
	assert_int_equal(refresh(inventory), 1);
	list = inc_rdma_inventory_get(inventory);
	assert_int_equal(list->devices, ENDS + 1);
	assert_int_equal(described(list, ADDED)->index, ENDS);
	inc_rdma_list_put(list);

	holder.device = hold(inventory, ADDED);
	inc_rdma_subscribe(holder.device, &holder.subscriber);
	move_gid(inventory);
	assert_true(holder.heard[INC_RDMA_GID_CHANGE] > 0);
	shell("ip link set d0 down");
	wait_stale(inventory);
	refresh(inventory);
	assert_int_equal(holder.heard[INC_RDMA_PORT_WENT_DOWN], 1);
	remove_device(inventory, &holder);
	shell("ip link del d0");
}

static void test_device_comes_and_goes(void **state)
{
	unsigned int descriptors = open_descriptors();
	struct inc_rdma_inventory *inventory = open_all();
	const struct inc_rdma_list *list;

	come_change_and_go(inventory);
	/* a new device of the same name is found as the first one was */
	come_change_and_go(inventory);
	list = inc_rdma_inventory_get(inventory);
	assert_int_equal(list->devices, ENDS);
	inc_rdma_list_put(list);
	inc_rdma_inventory_close(inventory);
	assert_int_equal(open_descriptors(), descriptors);
}

#define TOGGLES 3

/* A loop that uses edge-triggered epoll must get every event. */
static void test_every_event_of_one_wake_up(void **state)
{
	uint64_t deadline_at_ns = inc_now_ns() + DEADLINE_S * INC_NSEC_PER_SEC;
	struct holder holder = {.subscriber = {.on_event = hear, .port = 1}};
	struct epoll_event ev = {.events = EPOLLIN | EPOLLET};
	struct inc_rdma_inventory *inventory = open_all();
	int i, fd = epoll_create1(EPOLL_CLOEXEC);

	assert_true(fd >= 0);
	holder.device = hold(inventory, ends[1].device);
	inc_rdma_subscribe(holder.device, &holder.subscriber);
	for (i = 0; i < TOGGLES; i++)
		shell("ip link set %s down && ip link set %s up", ends[1].ifname, ends[1].ifname);
	assert_int_equal(epoll_ctl(fd, EPOLL_CTL_ADD, inc_rdma_inventory_fd(inventory), &ev), 0);
	while (holder.heard[INC_RDMA_PORT_UP] < TOGGLES) {
		assert_true(inc_now_ns() < deadline_at_ns);
		if (epoll_wait(fd, &ev, 1, 1000) == 1)
			inc_rdma_inventory_take(inventory);
	}
	assert_int_equal(holder.heard[INC_RDMA_PORT_WENT_DOWN], TOGGLES);
	inc_rdma_unsubscribe(holder.device, &holder.subscriber);
	inc_rdma_inventory_close(inventory);
	inc_rdma_device_put(holder.device);
	close(fd);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_described),
		cmocka_unit_test(test_filter),
		cmocka_unit_test(test_messages),
		cmocka_unit_test(test_read_and_write),
		cmocka_unit_test(test_what_a_peer_may_not),
		cmocka_unit_test(test_stop_flushes),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_device_comes_and_goes),
		/* these tests remove the lab's routes */
		cmocka_unit_test(test_port_goes_down_and_up),
		cmocka_unit_test(test_every_event_of_one_wake_up),
	};

	if (!read_ends(argc, argv, "rdma_live"))
		return 2;
	if (inc_rdma_fork_safe())
		return 1;
	return cmocka_run_group_tests_name("rdma", tests, NULL, NULL) ? 1 : 0;
}
