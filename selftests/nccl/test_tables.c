/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/* The plugin in the form in which NCCL finds it: loaded by its name, with five tables of functions
 * for the network and five for collectives in it. Only optional functions may be missing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "hostlib/nccl/abi.h"

static const struct {
	const char *symbol;
	size_t size;
} tables[] = {
	{"ncclNetPlugin_v8", sizeof(struct ha_nccl_net_v8)},
	{"ncclNetPlugin_v9", sizeof(struct ha_nccl_net_v9)},
	{"ncclNetPlugin_v10", sizeof(struct ha_nccl_net_v10)},
	{"ncclNetPlugin_v11", sizeof(struct ha_nccl_net_v11)},
	{"ncclNetPlugin_v12", sizeof(struct ha_nccl_net_v12)},
	{"ncclCollNetPlugin_v8", sizeof(struct ha_nccl_coll_v8)},
	{"ncclCollNetPlugin_v9", sizeof(struct ha_nccl_coll_v9)},
	{"ncclCollNetPlugin_v10", sizeof(struct ha_nccl_coll_v9)},
	{"ncclCollNetPlugin_v11", sizeof(struct ha_nccl_coll_v11)},
	{"ncclCollNetPlugin_v12", sizeof(struct ha_nccl_coll_v12)},
};
#define N_TABLES (sizeof(tables) / sizeof(tables[0]))

/* The index of a member's pointer in a table. The index is the same in all versions that have the
 * member. */
#define PLACE(member) (offsetof(struct ha_nccl_net_v11, member) / sizeof(void *))
static_assert(offsetof(struct ha_nccl_net_v8, irecvConsumed) ==
			      offsetof(struct ha_nccl_net_v11, irecvConsumed) &&
		      offsetof(struct ha_nccl_net_v9, makeVDevice) ==
			      offsetof(struct ha_nccl_net_v11, makeVDevice),
	      "what versions have in common comes first");

static void *plugin;
static char plugin_path[PATH_MAX];
static char last_line[1000];
static unsigned int warnings;

static int load(void **state)
{
	const char *build = getenv("INC_BUILD");

	snprintf(plugin_path, sizeof(plugin_path), "%s/libnccl-net-ha.so", build ?: "build");
	/* loads the plugin with the flags that NCCL uses */
	plugin = dlopen(plugin_path, RTLD_NOW | RTLD_LOCAL);
	if (!plugin)
		fprintf(stderr, "%s\n", dlerror());
	return plugin ? 0 : -1;
}

static int unload(void **state)
{
	return dlclose(plugin);
}

/* The dynamic symbol table defines these tables and no other symbols. */
static void symbols(void **state)
{
	char command[PATH_MAX + 64], line[300], name[200];
	unsigned int found = 0;
	size_t i;
	FILE *nm;

	snprintf(command, sizeof(command), "nm -D --defined-only '%s'", plugin_path);
	nm = popen(command, "r");
	assert_non_null(nm);
	while (fgets(line, sizeof(line), nm)) {
		assert_int_equal(sscanf(line, "%*s %*s %199s", name), 1);
		for (i = 0; i < N_TABLES && strcmp(tables[i].symbol, name); i++)
			;
		if (i == N_TABLES)
			fail_msg("%s is exported", name);
		found++;
	}
	assert_int_equal(pclose(nm), 0);
	assert_int_equal(found, N_TABLES);
}

/* May this member be NULL? NCCL calls some functions only if they are not NULL. The failure of some
 * of them would end the job. */
static bool may_be_null(size_t k)
{
	return k == PLACE(getDeviceMr) || k == PLACE(irecvConsumed) || k == PLACE(makeVDevice) ||
	       k == PLACE(setNetAttr);
}

/* The same for the tables of collectives. NCCL does not use CollNet for what is NULL. */
#define COLL_PLACE(member) (offsetof(struct ha_nccl_coll_v11, member) / sizeof(void *))
static bool may_be_null_coll(size_t k)
{
	return k == COLL_PLACE(iallgather) || k == COLL_PLACE(ireducescatter) ||
	       k == COLL_PLACE(makeVDevice);
}

/* No required member of a table is NULL. A table consists of pointers only. */
static void nothing_missing(void **state)
{
	void *const *member;
	bool coll;
	size_t i, k;

	for (i = 0; i < N_TABLES; i++) {
		member = dlsym(plugin, tables[i].symbol);
		assert_non_null(member);
		assert_string_equal((const char *)member[0], "HA");
		coll = strstr(tables[i].symbol, "Coll");
		for (k = 1; k < tables[i].size / sizeof(*member); k++)
			if ((member[k] == NULL) != (coll ? may_be_null_coll(k) : may_be_null(k)))
				fail_msg("%s: member %zu is %sNULL", tables[i].symbol, k,
					 member[k] ? "not " : "");
	}
}

static void log_line(enum ha_nccl_log_level level, unsigned long subsystems, const char *file,
		     int line, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vsnprintf(last_line, sizeof(last_line), format, ap);
	va_end(ap);
	assert_int_equal(subsystems, HA_NCCL_LOG_NET);
	assert_memory_equal(last_line, "NET/HA : ", 9);
	warnings += level == HA_NCCL_LOG_WARN;
}

/* A wrong setting makes init fail, and the log names the setting. NCCL 2.28 and 2.29 then call
 * finalize with the content of the context, which may belong to another plugin. */
static void init_fails(void **state)
{
	const struct ha_nccl_net_v11 *v11 = dlsym(plugin, "ncclNetPlugin_v11");
	const struct ha_nccl_net_v8 *v8 = dlsym(plugin, "ncclNetPlugin_v8");
	char other[64];
	void *context = other;
	int n = 0;

	assert_int_equal(v8->devices(&n), HA_NCCL_INVALID_USAGE);
	setenv("HA_NCCL_RTO_MS", "soon", 1);
	assert_int_equal(v11->init(&context, 1, NULL, log_line, NULL), HA_NCCL_INVALID_USAGE);
	assert_null(context);
	assert_int_equal(v11->finalize(context), HA_NCCL_INVALID_ARGUMENT);
	assert_non_null(strstr(last_line, "HA_NCCL_RTO_MS: 'soon'"));
	assert_int_equal(warnings, 1);
	assert_int_equal(v8->init(log_line), HA_NCCL_INVALID_USAGE);
	unsetenv("HA_NCCL_RTO_MS");
}

/* Opens two communicators of NCCL over fake devices, first one after the other and then both at
 * once. */
static void init_and_finalize(void **state)
{
	const struct ha_nccl_net_v11 *v11 = dlsym(plugin, "ncclNetPlugin_v11");
	struct ha_nccl_properties_v11 props;
	struct ha_nccl_comm_config config = {.traffic_class = 3};
	void *context[2] = {NULL, NULL}, *out = NULL;
	char handle[HA_NCCL_HANDLE_BYTES];
	unsigned int round;
	int n = -1;

	for (round = 0; round < 2; round++) {
		assert_int_equal(v11->init(&context[0], 1, &config, log_line, NULL), 0);
		assert_int_equal(v11->init(&context[1], 2, NULL, log_line, NULL), 0);
		assert_int_equal(v11->devices(&n), 0);
		assert_true(n >= 0);
		assert_int_equal(v11->getProperties(n, &props), HA_NCCL_INVALID_ARGUMENT);
		assert_int_equal(v11->getProperties(-1, &props), HA_NCCL_INVALID_ARGUMENT);
		assert_int_equal(v11->listen(context[0], n, handle, &out),
				 HA_NCCL_INVALID_ARGUMENT);
		assert_null(out);
		assert_int_equal(v11->finalize(context[0]), 0);
		assert_int_equal(v11->devices(&n), 0);
		assert_int_equal(v11->finalize(context[1]), 0);
		assert_int_equal(v11->devices(&n), HA_NCCL_INVALID_USAGE);
	}
	assert_int_equal(v11->finalize(NULL), HA_NCCL_INVALID_ARGUMENT);
}

/* Returns the number of entries of a folder below /proc/self. */
static unsigned int count(const char *folder)
{
	char path[32];
	unsigned int n = 0;
	DIR *at;

	snprintf(path, sizeof(path), "/proc/self/%s", folder);
	at = opendir(path);
	assert_non_null(at);
	while (readdir(at))
		n++;
	closedir(at);
	return n;
}

/* NCCL calls init and devices of CollNet even where CollNet is off. They start no thread and open
 * no descriptor, although a controller is known. */
static void collnet_is_off(void **state)
{
	const struct ha_nccl_net_v12 *net = dlsym(plugin, "ncclNetPlugin_v12");
	const struct ha_nccl_coll_v12 *coll = dlsym(plugin, "ncclCollNetPlugin_v12");
	struct ha_nccl_properties_v12 props;
	char handle[HA_NCCL_HANDLE_BYTES];
	void *context[2] = {NULL, NULL}, *out = NULL;
	unsigned int threads, fds;
	int n = -1, same = -1, yes = -1;

	setenv("INCCL_CONTROLLER", "127.0.0.1:1", 1);
	assert_int_equal(coll->devices(&n), HA_NCCL_INVALID_USAGE);
	assert_int_equal(net->init(&context[0], 1, NULL, log_line, NULL), 0);
	assert_int_equal(net->devices(&n), 0);
	threads = count("task");
	fds = count("fd");
	assert_int_equal(coll->init(&context[1], 1, log_line), 0);
	assert_int_equal(coll->devices(&same), 0);
	assert_int_equal(same, n);
	assert_int_equal(coll->reduceSupport(HA_NCCL_FLOAT32, HA_NCCL_SUM, &yes), 0);
	assert_int_equal(yes, 0);
	assert_int_equal(coll->getProperties(n, &props), HA_NCCL_INVALID_ARGUMENT);
	assert_int_equal(coll->listen(context[1], n, handle, &out), HA_NCCL_INVALID_ARGUMENT);
	assert_int_equal(count("task"), threads);
	assert_int_equal(count("fd"), fds);
	assert_int_equal(net->finalize(context[0]), 0);
	assert_int_equal(coll->devices(&same), 0);
	assert_int_equal(coll->finalize(context[1]), 0);
	assert_int_equal(coll->devices(&same), HA_NCCL_INVALID_USAGE);
	assert_int_equal(coll->finalize(NULL), HA_NCCL_INVALID_ARGUMENT);
	unsetenv("INCCL_CONTROLLER");
}

/* A node that cannot take part writes the reason into its handle, because its listen must not fail.
 * Then connect fails for all nodes, and a listener that NCCL forgets is freed. */
static void collnet_connect_fails(void **state)
{
	const struct ha_nccl_coll_v12 *coll = dlsym(plugin, "ncclCollNetPlugin_v12");
	char good[HA_NCCL_HANDLE_BYTES], bad[HA_NCCL_HANDLE_BYTES];
	void *handles[] = {good, bad}, *context = NULL, *listener = NULL, *comm = handles;
	int n = 0;

	setenv("HA_NCCL_TRANSPORT", "soft", 1);
	setenv("NCCL_SOCKET_IFNAME", "lo", 1);
	assert_int_equal(coll->init(&context, 1, log_line), 0);
	assert_int_equal(coll->devices(&n), 0);
	assert_int_equal(n, 1);
	assert_int_equal(coll->listen(context, 0, good, &listener), 0);
	memset(bad, 0, sizeof(bad));
	assert_int_not_equal(coll->connect(handles, 2, 0, listener, &comm), 0);
	assert_null(comm);
	assert_non_null(strstr(last_line, "lo is not used: node 1 uses another plugin"));
	assert_int_equal(coll->closeListen(listener), 0); /* it has gone, which is allowed */
	setenv("INCCL_CONTROLLER", "127.0.0.1:1", 1);
	assert_int_equal(coll->listen(context, 0, bad, &listener), 0);
	assert_non_null(strstr(last_line, "lo: this node cannot take part: "));
	comm = handles;
	assert_int_not_equal(coll->connect(handles, 2, 0, listener, &comm), 0);
	assert_null(comm);
	assert_non_null(strstr(last_line, "lo is not used: node 1 cannot take part: "));
	assert_int_equal(coll->finalize(context), 0);
	unsetenv("HA_NCCL_TRANSPORT");
	unsetenv("NCCL_SOCKET_IFNAME");
	unsetenv("INCCL_CONTROLLER");
}

static void wrong_arguments(void **state)
{
	const struct ha_nccl_net_v8 *v8 = dlsym(plugin, "ncclNetPlugin_v8");
	void *out = NULL;
	int done;

	assert_int_equal(v8->isend(NULL, NULL, 0, 0, NULL, &out), HA_NCCL_INVALID_ARGUMENT);
	assert_int_equal(v8->irecv(NULL, 1, NULL, NULL, NULL, NULL, &out),
			 HA_NCCL_INVALID_ARGUMENT);
	assert_int_equal(v8->test(NULL, &done, NULL), HA_NCCL_INVALID_ARGUMENT);
	assert_int_equal(v8->regMr(NULL, NULL, 0, HA_NCCL_PTR_HOST, &out),
			 HA_NCCL_INVALID_ARGUMENT);
	assert_int_equal(v8->accept(NULL, &out, NULL), HA_NCCL_INVALID_ARGUMENT);
	assert_int_equal(v8->closeSend(NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(symbols),
		cmocka_unit_test(nothing_missing),
		cmocka_unit_test(init_fails),
		cmocka_unit_test(init_and_finalize),
		cmocka_unit_test(wrong_arguments),
		cmocka_unit_test(collnet_is_off),
		cmocka_unit_test(collnet_connect_fails),
	};

	return cmocka_run_group_tests_name("tables of the plugin", tests, load, unload);
}
