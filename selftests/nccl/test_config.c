/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/* The plugin's settings (hostlib/nccl/keys.h), and the table of settings in docs/nccl.md. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "hostlib/nccl/keys.h"
#include "lib/base/clock.h"

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

static void no_numbers(void **state)
{
	static const char *const wrong[] = {" 5",  "5 ",   "+5",  "0x5",
					    "5ms", "five", "--5", "-",
					    "5,5", "5.0",  "\n5", "99999999999999999999",
					    "1e1", "\t10", "٥"};
	struct ha_config config;
	struct inc_err err;
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
	assert_int_equal(read_with("NCCL_IB_HCA", "", &config, &err), 0);
	assert_null(config.ib_hca);
}

/* Each process of a host writes a file of its own. */
static void files_of_figures(void **state)
{
	static const char *const wrong[] = {"nccl-%p.prom",
					    "/tmp/nccl.prom",
					    "/tmp/%h.prom",
					    "/tmp/%p/",
					    "/tmp/%p-%x",
					    "/tmp/%p-%",
					    "/tmp/%%p",
					    "/",
					    "%p"},
				 *const right[] = {"/tmp/%p", "/%p/a", "/tmp/a-%h-%p.prom",
						   "/tmp/%%%p"};
	struct ha_config config;
	struct inc_err err;
	size_t i;

	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_int_equal(read_with("HA_NCCL_METRICS", wrong[i], &config, &err), -EINVAL);
		assert_memory_equal(err.msg, "HA_NCCL_METRICS: ", 17);
		assert_non_null(strstr(err.msg, wrong[i]));
	}
	for (i = 0; i < sizeof(right) / sizeof(right[0]); i++)
		assert_int_equal(read_with("HA_NCCL_METRICS", right[i], &config, &err), 0);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(defaults, clear),
		cmocka_unit_test_setup(bounds, clear),
		cmocka_unit_test_setup(nccl_variables, clear),
		cmocka_unit_test_setup(no_numbers, clear),
		cmocka_unit_test_setup(files_of_figures, clear),
		cmocka_unit_test_setup(random_values, clear),
		cmocka_unit_test_setup(together, clear),
		cmocka_unit_test(document),
		cmocka_unit_test(document_windows),
	};

	return cmocka_run_group_tests_name("settings of the plugin", tests, NULL, NULL);
}
