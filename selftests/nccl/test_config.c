/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/* The plugin's settings (hostlib/nccl/keys.h), and the table of settings in docs/nccl.md. Also
 * which files the plugin writes and removes where HA_NCCL_METRICS names a file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include "hostlib/nccl/comm_priv.h"
#include "hostlib/nccl/keys.h"
#include "lib/base/clock.h"
#include "selftests/fakes/verbs.h"

static int clear(void **state)
{
	const struct ha_setting *setting;

	for (setting = ha_settings; setting->name; setting++) {
		unsetenv(setting->name);
		if (setting->instead)
			unsetenv(setting->instead);
	}
	return 0;
}

/* Reads the settings with one variable set to text. */
static int read_with(const char *name, const char *text, struct ha_config *config,
		     struct inc_err *err)
{
	int ret;

	memset(config, 0x5a, sizeof(*config));
	setenv(name, text, 1);
	ret = ha_config_read(config, err);
	unsetenv(name);
	return ret;
}

static void defaults(void **state)
{
	struct ha_config config;
	struct inc_err err = {""};

	memset(&config, 0x5a, sizeof(config));
	assert_int_equal(ha_config_read(&config, &err), 0);
	assert_int_equal(config.poll_batch, 32);
	assert_int_equal(config.idle_spin_threshold, 1000);
	assert_int_equal(config.poll_standby_interval, 100);
	assert_int_equal(config.test_max_poll, 32);
	assert_int_equal(config.rto_ms, 1000);
	assert_int_equal(config.heartbeat_ms, 100);
	assert_int_equal(config.qp_timeout, 14);
	assert_int_equal(config.qp_retry_cnt, 7);
	assert_int_equal(config.expected_channels, 16);
	assert_int_equal(config.wr_per_conn, 64);
	assert_int_equal(config.max_recvs, 8);
	assert_true(config.enable_backup && !config.failback && !config.rto_adaptive);
	assert_int_equal(config.gid_index, -1);
	assert_int_equal(config.traffic_class, 0);
	assert_int_equal(config.sl, 0);
	assert_null(config.ib_hca);
	assert_null(config.socket_ifname);
	assert_false(ha_config_doubts(&config, false, &err));
}

/* The value of the setting that this environment variable sets. */
static int64_t value_of(const struct ha_config *config, const char *name)
{
#define NUMBER(type, member, variable, ...) \
	if (!strcmp(name, variable))        \
		return config->member;
	HA_NUMBERS(NUMBER)
#undef NUMBER
	fail_msg("%s is no number", name);
	return 0;
}

/* Every variable accepts its two bounds and nothing beyond them. All other settings have their
 * defaults, except where these contradict the bound. */
static void bounds(void **state)
{
	const struct ha_setting *setting;
	struct ha_config config;
	struct inc_err err;
	unsigned int n = 0;
	char text[32];

	setenv("HA_NCCL_HEARTBEAT_MS", "1", 1);
	for (setting = ha_settings; setting->name; setting++) {
		if (!setting->unit)
			continue;
		if (!strcmp(setting->name, "HA_NCCL_HEARTBEAT_MS"))
			setenv("HA_NCCL_RTO_MS", "600000", 1);
		snprintf(text, sizeof(text), "%lld", (long long)setting->least);
		assert_int_equal(read_with(setting->name, text, &config, &err), 0);
		assert_true(value_of(&config, setting->name) == setting->least);
		snprintf(text, sizeof(text), "%lld", (long long)setting->most);
		assert_int_equal(read_with(setting->name, text, &config, &err), 0);
		assert_true(value_of(&config, setting->name) == setting->most);
		snprintf(text, sizeof(text), "%lld", (long long)setting->least - 1);
		assert_int_equal(read_with(setting->name, text, &config, &err), -EINVAL);
		assert_memory_equal(err.msg, setting->name, strlen(setting->name));
		snprintf(text, sizeof(text), "%lld", (long long)setting->most + 1);
		assert_int_equal(read_with(setting->name, text, &config, &err), -EINVAL);
		assert_non_null(strstr(err.msg, text));
		assert_true(setting->least <= setting->def && setting->def <= setting->most);
		n++;
	}
	assert_int_equal(n, 21);
}

/* NCCL's own variable counts where the plugin's is not set or empty. */
static void nccl_variables(void **state)
{
	const struct ha_setting *setting;
	struct ha_config config;
	struct inc_err err;
	const char *text;
	unsigned int n = 0;

	for (setting = ha_settings; setting->name; setting++) {
		assert_null(ha_setting_source(setting, &text));
		if (!setting->instead)
			continue;
		n++;
		assert_int_equal(read_with(setting->instead, "4", &config, &err), 0);
		assert_int_equal(value_of(&config, setting->name), 4);
		/* NCCL accepts more values, so one that the setting cannot have is no error */
		assert_int_equal(read_with(setting->instead, "99", &config, &err), 0);
		assert_int_equal(value_of(&config, setting->name), setting->def);
		setenv(setting->instead, "0x4", 1);
		assert_null(ha_setting_source(setting, &text));
		assert_string_equal(text, "0x4");
		setenv(setting->instead, "4", 1);
		assert_string_equal(ha_setting_source(setting, &text), setting->instead);
		assert_string_equal(text, "4");
		assert_int_equal(read_with(setting->name, "", &config, &err), 0);
		assert_int_equal(value_of(&config, setting->name), 4);
		assert_int_equal(read_with(setting->name, "5", &config, &err), 0);
		assert_int_equal(value_of(&config, setting->name), 5);
		setenv(setting->name, "5", 1);
		assert_string_equal(ha_setting_source(setting, &text), setting->name);
		assert_string_equal(text, "5");
		clear(NULL);
	}
	assert_int_equal(n, 2);
}

static const char *verbs_now(void)
{
	static struct ha_config config;
	struct inc_err err;

	assert_int_equal(ha_config_read(&config, &err), 0);
	return config.verbs;
}

/* The settings that are in the environment count for the queue pairs of CollNet, too. */
static void verbs_of_collnet(void **state)
{
	struct ha_plugin *plugin[2];
	struct inc_err err;

	assert_string_equal(verbs_now(), "");
	setenv("NCCL_IB_TIMEOUT", "20", 1);
	setenv("HA_NCCL_QP_RETRY_CNT", "5", 1);
	setenv("NCCL_IB_RETRY_CNT", "3", 1);
	setenv("NCCL_IB_GID_INDEX", "-1", 1);
	setenv("NCCL_IB_PKEY", "010", 1);
	setenv("NCCL_IB_SL", "", 1);
	setenv("HA_NCCL_RTO_MS", "2000", 1);
	assert_string_equal(verbs_now(), ",timeout=20,retry_cnt=5,pkey_index=10");
	setenv("NCCL_IB_GID_INDEX", "3", 1);
	setenv("NCCL_IB_TC", "96", 1);
	setenv("NCCL_IB_SL", "2", 1);
	assert_string_equal(verbs_now(),
			    ",timeout=20,retry_cnt=5,gid_index=3,traffic_class=96,sl=2,"
			    "pkey_index=10");
	/* libinccl would reject ECN 3, and CollNet would not come up */
	setenv("NCCL_IB_TC", "107", 1);
	assert_string_equal(verbs_now(), ",timeout=20,retry_cnt=5,gid_index=3,sl=2,pkey_index=10");
	clear(NULL);
	/* a later init reads nothing, or one comm could differ from another, and from its peer */
	fake_verbs_machine(2);
	setenv("NCCL_IB_SL", "2", 1);
	assert_int_equal(ha_plugin_open(&plugin[0], NULL, &err), 0);
	setenv("NCCL_IB_SL", "7", 1);
	assert_int_equal(ha_plugin_open(&plugin[1], NULL, &err), 0);
	assert_string_equal(ha_plugin_devices(plugin[1])->config->verbs, ",sl=2");
	ha_plugin_close(plugin[1]);
	ha_plugin_close(plugin[0]);
	clear(NULL);
}

static void no_numbers(void **state)
{
	static const char *const wrong[] = {" 5",  "5 ",   "+5",  "0x5",
					    "5ms", "five", "--5", "-",
					    "5,5", "5.0",  "\n5", "99999999999999999999",
					    "1e1", "\t10", "٥"};
	struct ha_config config;
	struct inc_err err;
	char text[8];
	size_t i;

	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_int_equal(read_with("HA_NCCL_POLL_BATCH", wrong[i], &config, &err), -EINVAL);
		assert_memory_equal(err.msg, "HA_NCCL_POLL_BATCH: ", 20);
		assert_non_null(strstr(err.msg, "from 1 to 4096"));
	}
	assert_int_equal(read_with("HA_NCCL_POLL_BATCH", "", &config, &err), 0);
	assert_int_equal(config.poll_batch, 32);
	assert_int_equal(read_with("HA_NCCL_TRANSPORT", "tcp", &config, &err), -EINVAL);
	assert_string_equal(err.msg, "HA_NCCL_TRANSPORT: 'tcp' is not one of verbs, soft");
	assert_int_equal(read_with("HA_NCCL_TRANSPORT", "soft", &config, &err), 0);
	assert_string_equal(config.transport, "soft");
	/* ECN 3 of the last two bits */
	setenv("HA_NCCL_TRANSPORT", "soft", 1);
	for (i = 0; i <= 255; i++) {
		snprintf(text, sizeof(text), "%zu", i);
		assert_int_equal(read_with("NCCL_IB_TC", text, &config, &err),
				 i % 4 == 3 ? -EINVAL : 0);
	}
	assert_memory_equal(err.msg, "NCCL_IB_TC: 255 with HA_NCCL_TRANSPORT=soft: ", 45);
	unsetenv("HA_NCCL_TRANSPORT");
	assert_int_equal(read_with("NCCL_IB_HCA", "", &config, &err), 0);
	assert_null(config.ib_hca);
}

/* Each process of a host writes a file of its own. */
static void files_of_figures(void **state)
{
	char wrong[] = "nccl-%p.prom /tmp/nccl.prom /tmp/%h.prom /tmp/%p/ /tmp/%p-%x.prom "
		       "/tmp/%p.prom% /tmp/%%p.prom / %p /tmp/%p /tmp/nccl-%p.txt "
		       "/%p/a.prom /%p/%p.prom /tmp/%p-%p.prom /tmp/rail0%p.prom "
		       "/tmp/%p0.prom /tmp/%h%p.prom /tmp/%p%h.prom";
	char right[] = "/tmp/%p.prom /tmp/a-%h-%p.prom /%h/%p-%h.prom /tmp/%%%p.prom "
		       "/tmp/%%h%p.prom";
	struct ha_config config;
	struct inc_err err;
	const char *path;

	for (path = strtok(wrong, " "); path; path = strtok(NULL, " ")) {
		assert_int_equal(read_with("HA_NCCL_METRICS", path, &config, &err), -EINVAL);
		assert_memory_equal(err.msg, "HA_NCCL_METRICS: ", 17);
		assert_non_null(strstr(err.msg, path));
	}
	for (path = strtok(right, " "); path; path = strtok(NULL, " "))
		assert_int_equal(read_with("HA_NCCL_METRICS", path, &config, &err), 0);
	assert_int_equal(read_with("HA_NCCL_METRICS", "", &config, &err), 0);
	assert_null(config.metrics);
}

/* Reads random texts. An accepted text must have been read as the number that it contains. */
static void random_values(void **state)
{
	static const char some[] = "0123456789999 -+x.,e\n\xff";
	struct ha_config config;
	struct inc_err err;
	char text[12], again[32];
	unsigned int round, i, len, taken = 0;
	int ret;

	srandom(7);
	for (round = 0; round < 20000; round++) {
		len = 1 + random() % (sizeof(text) - 1);
		for (i = 0; i < len; i++)
			text[i] = some[random() % (random() % 4 ? 10 : sizeof(some) - 1)];
		text[len] = '\0';
		ret = read_with("HA_NCCL_IDLE_SPIN_THRESHOLD", text, &config, &err);
		if (ret) {
			assert_int_equal(ret, -EINVAL);
			continue;
		}
		taken++;
		snprintf(again, sizeof(again), "%u", config.idle_spin_threshold);
		assert_string_equal(again, text + strspn(text, "-0") -
						   (config.idle_spin_threshold ? 0 : 1));
	}
	assert_true(taken > 1000);
}

static void together(void **state)
{
	struct ha_config config;
	struct inc_err err = {""};

	assert_int_equal(ha_config_read(&config, &err), 0);
	/* the window is 7 timeouts of 67.1 ms */
	assert_true(ha_config_window_ns(&config) == 7ull * (4096ull << 14));
	config.qp_retry_cnt = 0;
	assert_true(ha_config_window_ns(&config) == 4096ull << 14);
	config.qp_timeout = 31;
	config.qp_retry_cnt = 7;
	assert_true(ha_config_window_ns(&config) == 7ull * (4096ull << 31));

	config.qp_timeout = 14;
	config.rto_ms = 940; /* a timeout below twice the window (939.5 ms) causes a warning */
	assert_false(ha_config_doubts(&config, false, &err));
	config.rto_ms = 939;
	assert_true(ha_config_doubts(&config, false, &err));
	assert_non_null(strstr(err.msg, "HA_NCCL_RTO_MS: 939"));
	assert_null(strstr(err.msg, "rxe"));

	config.rto_ms = 1000;
	assert_true(ha_config_doubts(&config, true, &err));
	assert_non_null(strstr(err.msg, "HA_NCCL_QP_RETRY_CNT: 7"));
	config.qp_retry_cnt = 6;
	assert_false(ha_config_doubts(&config, true, &err));
	config.traffic_class = 106; /* ECN 2 */
	assert_false(ha_config_doubts(&config, true, &err));
	config.traffic_class = 107;
	assert_true(ha_config_doubts(&config, true, &err));
	assert_memory_equal(err.msg, "NCCL_IB_TC: 107 ", 16);
	assert_non_null(strstr(err.msg, "use 104"));

	assert_int_equal(read_with("HA_NCCL_HEARTBEAT_MS", "1000", &config, &err), -EINVAL);
	assert_non_null(strstr(err.msg, "HA_NCCL_RTO_MS"));
	assert_int_equal(read_with("HA_NCCL_HEARTBEAT_MS", "999", &config, &err), 0);
}

/* docs/nccl.md must have exactly one row for each variable, with its unit, default and bounds, and
 * no other rows. */
static void document(void **state)
{
	char path[PATH_MAX], line[1000], row[200];
	const struct ha_setting *setting = ha_settings;
	const char *top = getenv("INC_TOP");
	FILE *file;

	snprintf(path, sizeof(path), "%s/docs/nccl.md", top ?: ".");
	file = fopen(path, "r");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		if (strncmp(line, "| `HA_NCCL_", 11) && strncmp(line, "| `NCCL_", 8))
			continue;
		assert_non_null(setting->name);
		if (setting->unit)
			snprintf(row, sizeof(row), "| `%s` | %s | %lld | %lld to %lld | ",
				 setting->name, setting->unit, (long long)setting->def,
				 (long long)setting->least, (long long)setting->most);
		else
			snprintf(row, sizeof(row), "| `%s` | | none | text | ", setting->name);
		assert_memory_equal(line, row, strlen(row));
		assert_non_null(strstr(line, setting->text));
		if (setting->instead)
			assert_non_null(strstr(line, setting->instead));
		setting++;
	}
	fclose(file);
	assert_null(setting->name);
}

/* The table of windows in docs/nccl.md must have the values that the code computes. */
static void document_windows(void **state)
{
	char path[PATH_MAX], line[1000], row[200];
	struct ha_config config = {0};
	const char *top = getenv("INC_TOP");
	unsigned int rows = 0, len;
	unsigned long long ns;
	FILE *file;

	snprintf(path, sizeof(path), "%s/docs/nccl.md", top ?: ".");
	file = fopen(path, "r");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file) && strncmp(line, "| timeout | 1 retry |", 21))
		;
	while (fgets(line, sizeof(line), file) && *line == '|') {
		if (strncmp(line, "| 1", 3))
			continue;
		config.qp_timeout = 12 + rows++;
		len = snprintf(row, sizeof(row), "| %u |", config.qp_timeout);
		for (config.qp_retry_cnt = 1; config.qp_retry_cnt <= 7; config.qp_retry_cnt++) {
			ns = ha_config_window_ns(&config);
			len += snprintf(row + len, sizeof(row) - len, " %llu / %llu |",
					(ns + INC_NSEC_PER_MSEC / 2) / INC_NSEC_PER_MSEC,
					2 * ns / INC_NSEC_PER_MSEC + 1);
		}
		assert_memory_equal(line, row, strlen(row));
	}
	fclose(file);
	assert_int_equal(rows, 5);
}

/* ---- the file of figures -------------------------------------------------------------------- */

#define PATIENCE_S 20
#define OURS       "# HELP inc_nccl_comms of a process that was killed\n"

static unsigned int in_use, foreign;
static char place[32];

static void count_line(enum ha_log_level level, const char *file, int line, const char *text)
{
	if (strstr(text, "another process with this number writes it, so the figures are missing: "
			 "name a directory for each container"))
		__atomic_fetch_add(&in_use, 1, __ATOMIC_RELAXED);
	if (strstr(text, "there is a file that is not of figures, or of another user"))
		__atomic_fetch_add(&foreign, 1, __ATOMIC_RELAXED);
}

/* The path of a file in the directory of the test. NULL: of the own file of figures. */
static const char *at(const char *name)
{
	static char path[PATH_MAX];

	if (name)
		snprintf(path, sizeof(path), "%s/%s", place, name);
	else
		snprintf(path, sizeof(path), "%s/nccl-%d.prom", place, (int)getpid());
	return path;
}

/* Makes a file of this age in the directory, and returns its descriptor. */
static int make_file(const char *name, const char *text, unsigned int age_s)
{
	const int fd = open(at(name), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	const time_t then = (time_t)(inc_wall_ns() / INC_NSEC_PER_SEC) - age_s;
	const struct timespec times[] = {{.tv_sec = then}, {.tv_sec = then}};

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	assert_int_equal(futimens(fd, times), 0);
	return fd;
}

static bool begins_with(const char *name, const char *text)
{
	const int fd = open(at(name), O_RDONLY | O_CLOEXEC);
	char found[128] = "";

	if (fd < 0)
		return false;
	assert_true(read(fd, found, sizeof(found) - 1) >= 0);
	close(fd);
	return !strncmp(found, text, strlen(text));
}

static bool exists(const char *name)
{
	struct stat st;

	return !lstat(at(name), &st);
}

static struct ha_plugin *open_plugin(void)
{
	struct ha_plugin *plugin;
	struct inc_err err;
	char path[64];

	fake_verbs_machine(2);
	snprintf(path, sizeof(path), "%s/nccl-%%p.prom", place);
	setenv("HA_NCCL_METRICS", path, 1);
	setenv("HA_NCCL_METRICS_MS", "100", 1);
	setenv("NCCL_SOCKET_IFNAME", "=lo", 1);
	if (ha_plugin_open(&plugin, count_line, &err))
		fail_msg("%s", err.msg);
	return plugin;
}

#define WAIT_UNTIL(condition)                                                       \
	for (const uint64_t began_at_ns = inc_now_ns(); !(condition); usleep(1000)) \
	assert_true(inc_now_ns() - began_at_ns < PATIENCE_S * INC_NSEC_PER_SEC)

static int make_place(void **state)
{
	strcpy(place, "/tmp/inc-test-XXXXXX");
	in_use = foreign = 0;
	return mkdtemp(place) ? clear(state) : -1;
}

/* The own file, and all others that a test has made, are gone. */
static int remove_place(void **state)
{
	return rmdir(place);
}

/* Files of killed processes are removed at the start and later. All else stays, even if it has
 * such a name. */
static void sweeps_its_own_kind(void **state)
{
	static const struct {
		const char *name, *text;
		unsigned int age_s;
		bool stays;
	} files[] = {
		{"nccl-1.prom", OURS, 700, false},
		{"nccl-2.prom.0123456789abcdef.tmp", "", 700, false},
		{"nccl-3.prom.0123456789abcdef.tmp", "# HELP in", 700, false},
		{"nccl-4.prom.0123456789abcdef.tmp", OURS, 700, false},
		{"nccl-5.prom", OURS, 0, true},
		{"nccl-6.prom", "# HELP node_load1 of a script\n", 700, true},
		{"nccl-7.prom", "", 700, true},
		{"nccl-8.prom.tmp", "", 700, true},
		{"nccl-9.prom.0123456789abcdef.tmp", "an editor's", 700, true},
		{"nccl-x.prom", OURS, 700, true},
		{"nccl-10.promx", OURS, 700, true},
		{"nccl-11.prom", OURS, 700, true}, /* of another user */
	};
	const unsigned int n = sizeof(files) / sizeof(files[0]), other = n - (geteuid() ? 1 : 0);
	struct ha_plugin *plugin;
	unsigned int i;

	for (i = 0; i < other; i++)
		close(make_file(files[i].name, files[i].text, files[i].age_s));
	if (other == n)
		assert_int_equal(lchown(at(files[n - 1].name), 65534, 65534), 0);
	assert_int_equal(symlink("nccl-5.prom", at("nccl-12.prom")), 0);
	ha_metrics_disk.sweep_ns = 0;
	plugin = open_plugin();
	WAIT_UNTIL(exists(NULL));
	for (i = 0; i < other; i++)
		if (exists(files[i].name) != files[i].stays)
			fail_msg("%s", files[i].name);
	close(make_file("nccl-13.prom", OURS, 700));
	WAIT_UNTIL(!exists("nccl-13.prom"));
	ha_plugin_close(plugin);
	ha_metrics_disk.sweep_ns = 60 * INC_NSEC_PER_SEC;
	for (i = 0; i < other; i++)
		assert_int_equal(unlink(at(files[i].name)), files[i].stays ? 0 : -1);
	assert_int_equal(unlink(at("nccl-12.prom")), 0);
}

/* A file that is not of figures keeps its place, and one line reports it. */
static void leaves_another_file(void **state)
{
	struct ha_plugin *plugin;

	close(make_file(NULL, "notes\n", 700));
	plugin = open_plugin();
	WAIT_UNTIL(__atomic_load_n(&foreign, __ATOMIC_RELAXED));
	ha_plugin_close(plugin);
	assert_int_equal(foreign, 1);
	assert_true(begins_with(NULL, "notes\n"));
	assert_int_equal(unlink(at(NULL)), 0);
}

/* A process of another container may have the same number and write the same file. The plugin
 * leaves the file alone until that process has ended. */
static void leaves_the_file_of_another_process(void **state)
{
	struct ha_plugin *plugin;
	int fd;

	for (int ends = 0; ends < 2; ends++) {
		in_use = 0;
		fd = make_file(NULL, OURS, 0);
		assert_int_equal(flock(fd, LOCK_EX), 0);
		plugin = open_plugin();
		WAIT_UNTIL(__atomic_load_n(&in_use, __ATOMIC_RELAXED));
		assert_true(begins_with(NULL, OURS));
		if (ends) {
			close(fd);
			WAIT_UNTIL(!begins_with(NULL, OURS));
		}
		ha_plugin_close(plugin);
		assert_int_equal(in_use, 1);
		if (ends)
			break;
		assert_true(begins_with(NULL, OURS));
		assert_int_equal(unlink(at(NULL)), 0);
		close(fd);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(defaults, clear),
		cmocka_unit_test_setup(bounds, clear),
		cmocka_unit_test_setup(nccl_variables, clear),
		cmocka_unit_test_setup(verbs_of_collnet, clear),
		cmocka_unit_test_setup(no_numbers, clear),
		cmocka_unit_test_setup(files_of_figures, clear),
		cmocka_unit_test_setup(random_values, clear),
		cmocka_unit_test_setup(together, clear),
		cmocka_unit_test(document),
		cmocka_unit_test(document_windows),
		cmocka_unit_test_setup_teardown(sweeps_its_own_kind, make_place, remove_place),
		cmocka_unit_test_setup_teardown(leaves_another_file, make_place, remove_place),
		cmocka_unit_test_setup_teardown(leaves_the_file_of_another_process, make_place,
						remove_place),
	};

	return cmocka_run_group_tests_name("settings of the plugin", tests, NULL, NULL);
}
