/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/* The file of a context, and the values that follow from it (hostlib/connect/config.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "hostlib/connect/config.h"
#include "selftests/connect/document.h"

static int read_text(const char *text, struct connect_config *config, struct inc_err *err)
{
	char path[] = "/tmp/inc-connect-XXXXXX";
	const int fd = mkstemp(path);
	const size_t len = strlen(text);
	int ret;

	assert_true(fd >= 0 && write(fd, text, len) == (ssize_t)len);
	close(fd);
	ret = connect_config_read(path, config, err);
	unlink(path);
	return ret;
}

static struct connect_config *new_config(void)
{
	struct connect_config *config = malloc(sizeof(*config));

	assert_non_null(config);
	connect_config_init(config);
	return config;
}

static void derived_numbers(void **state)
{
	static const struct {
		uint32_t send_buf_cnt, buf_ack_batch, max_rdma_wr;
		uint32_t ack_bufs, send_wr, recv_wr, cq_entries;
	} rows[] = {
		{32, 8, 128, 8, 170, 41, 211},
		{1, 1, 1, 5, 9, 7, 16},
		{33, 8, 128, 9, 172, 43, 215},
		{31, 8, 128, 8, 169, 40, 209},
		{8, 8, 1, 5, 16, 14, 30},
		{16384, 1, 65536, 16388, 98310, 32773, 131083},
		{16384, 16384, 1, 5, 16392, 16390, 32782},
	};
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct inc_connect_settings s = {.send_buf_cnt = rows[i].send_buf_cnt,
						       .buf_ack_batch = rows[i].buf_ack_batch,
						       .max_rdma_wr = rows[i].max_rdma_wr};

		assert_int_equal(connect_ack_bufs(&s), rows[i].ack_bufs);
		assert_int_equal(connect_send_wr(&s), rows[i].send_wr);
		assert_int_equal(connect_recv_wr(&s), rows[i].recv_wr);
		assert_int_equal(connect_cq_entries(&s), rows[i].cq_entries);
	}
}

static void presets_are_valid(void **state)
{
	struct inc_connect_settings s;
	struct inc_err err;

	inc_connect_settings_init(&s, sizeof(s));
	assert_null(connect_settings_wrong(&s, &err));
	assert_int_equal(connect_cq_entries(&s), 211);
#define BETWEEN(name, type, preset, least, most, about) \
	assert_in_range(s.name, (uint64_t)(least), (uint64_t)(most));
	INC_CONNECT_SETTINGS(BETWEEN)
#undef BETWEEN
}

/* Sets each limit of the device to one less than the default settings need. The error must name the
 * limited field. */
static void limits_of_a_device_are_checked(void **state)
{
	static const struct inc_rdma_limits enough = {.max_qp_wr = 170,
						      .max_sge = 16,
						      .max_cqe = 211,
						      .max_qp_rd_atom = 16,
						      .max_qp_init_rd_atom = 16};
	static const struct {
		size_t limit;
		const char *field, *numbers;
	} rows[] = {
#define LIMIT(name) offsetof(struct inc_rdma_limits, name)
		{LIMIT(max_qp_wr), "dev0: send_buf_cnt, max_rdma_wr: ", "170 "},
		{LIMIT(max_sge), "dev0: max_sge: ", "16 "},
		{LIMIT(max_cqe), "dev0: send_buf_cnt, max_rdma_wr: ", "211 "},
		{LIMIT(max_qp_rd_atom), "dev0: max_rd_atomic: ", "16 "},
		{LIMIT(max_qp_init_rd_atom), "dev0: max_rd_atomic: ", "16 "},
#undef LIMIT
	};
	struct inc_connect_settings s;
	struct inc_rdma_limits less;
	struct inc_err err = {""};
	size_t i;

	inc_connect_settings_init(&s, sizeof(s));
	assert_int_equal(connect_settings_fit(&s, "dev0", &enough, &err), 0);
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		less = enough;
		--*(unsigned int *)((char *)&less + rows[i].limit);
		assert_int_equal(connect_settings_fit(&s, "dev0", &less, &err), -EINVAL);
		assert_ptr_equal(strstr(err.msg, rows[i].field), err.msg);
		assert_non_null(strstr(err.msg, rows[i].numbers));
	}
	s.max_rdma_wr = s.max_rdma_wr_per_post = 1;
	assert_true(connect_recv_wr(&s) <= connect_send_wr(&s));
}

/* Compiled callers depend on these offsets. So new settings must be appended at the end of the
 * struct. */
static void settings_have_fixed_offsets(void **state)
{
	static const struct {
		const char *name;
		size_t at, is;
	} rows[] = {
#define ROW(name, at) {#name, at, offsetof(struct inc_connect_settings, name)}
		ROW(sz, 0),
		ROW(record_latency_per_peer, 8),
		ROW(sl, 9),
		ROW(traffic_class, 10),
		ROW(pkey_index, 12),
		ROW(start_psn, 16),
		ROW(min_rnr_timer, 20),
		ROW(timeout, 21),
		ROW(retry_cnt, 22),
		ROW(rnr_retry, 23),
		ROW(max_sge, 24),
		ROW(max_rdma_wr, 28),
		ROW(max_rdma_wr_per_post, 32),
		ROW(max_rd_atomic, 36),
		ROW(buf_size, 40),
		ROW(send_buf_cnt, 44),
		ROW(buf_ack_batch, 48),
		ROW(buf_signal_batch, 52),
		ROW(event_ack_batch, 56),
#undef ROW
	};
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (rows[i].is != rows[i].at)
			fail_msg("%s was at %zu and is at %zu", rows[i].name, rows[i].at,
				 rows[i].is);
	assert_int_equal(sizeof(struct inc_connect_settings), 64);
}

static void an_empty_file_changes_nothing(void **state)
{
	struct connect_config *config = new_config(), *before = new_config();
	struct inc_err err = {""};

	memcpy(before, config, sizeof(*config));
	assert_int_equal(read_text("{}\n", config, &err), 0);
	assert_memory_equal(config, before, sizeof(*config));
	assert_true(config->allow_unknown_zone && config->prefer_ibdevice);
	free(config);
	free(before);
}

static const struct {
	const char *text;
	const char *line; /* text with the line and the field that the error names */
	const char *why;
} bad[] = {
	{"zone: []\n", ":1: ", "'zone'"},
	{"zones:\n- {subnet: 10.1.0.0/16}\n", ":2: zones[0]", "'zones' is missing"},
	{"zones:\n- {zones: [a]}\n", ":2: zones[0]", "'subnet' is missing"},
	{"zones:\n- {subnet: 10.1.0.0/16, zones: []}\n", ":2: zones[0].zones", ""},
	{"zones:\n- {subnet: 10.1.0.0/16, zones: [a b]}\n", ":2: zones[0].zones[0]",
	 "a zone's name"},
	{"zones:\n- {subnet: 10.1.0.0/16, zones: [a, b, c, d, e, f, g, h, i]}\n",
	 ":2: zones[0].zones", "8"},
	{"zones:\n- {subnet: 10.1.0.0/16, zones: [a]}\n- {subnet: 10.1.0.1/16, zones: [a]}\n",
	 ":3: zones[1].subnet", "'10.1.0.1/16'"},
	{"zones:\n- {subnet: 10.1.0.0, zones: [a]}\n", ":2: zones[0].subnet", "ADDRESS/BITS"},
	{"zones:\n- {subnet: 10.1.0.0/33, zones: [a]}\n", ":2: zones[0].subnet", "ADDRESS/BITS"},
	{"zones:\n- {subnet: 10.1.0.0/-1, zones: [a]}\n", ":2: zones[0].subnet", "ADDRESS/BITS"},
	{"zones:\n- {subnet: 10.1.0.0/, zones: [a]}\n", ":2: zones[0].subnet", "ADDRESS/BITS"},
	{"zones:\n- {subnet: 10.1.0/24, zones: [a]}\n", ":2: zones[0].subnet", "ADDRESS/BITS"},
	{"zones:\n- {subnet: \"10.1.0.0/1x\", zones: [a]}\n", ":2: zones[0].subnet",
	 "ADDRESS/BITS"},
	{"default_zones: rack7\n", ":1: default_zones", ""},
	{"devices:\n- {port: 1}\n", ":2: devices[0]", "'device' is missing"},
	{"devices:\n- {device: mlx5_0, port: 0}\n", ":2: devices[0].port", "between 1 and 254"},
	{"devices:\n- {device: mlx5_0, port: 255}\n", ":2: devices[0].port", "between 1 and 254"},
	{"prefer_ibdevice: perhaps\n", ":1: prefer_ibdevice", "true or false"},
	{"refresh_ms: 99\n", ":1: refresh_ms", "between 100 and 3600000"},
	{"accept_timeout_ms: 0\n", ":1: accept_timeout_ms", "between 1 and 3600000"},
	{"queue_pair: 7\n", ":1: queue_pair", "mapping"},
	{"queue_pair:\n  retries: 7\n", ":2: queue_pair", "'retries'"},
	{"queue_pair:\n  retry_cnt: 7\n  buf_ack_batch: 33\n", ":3: queue_pair.buf_ack_batch",
	 "33 is more than send_buf_cnt, 32"},
	{"queue_pair:\n  send_buf_cnt: 4\n", ":2: queue_pair",
	 "buf_ack_batch: 8 is more than send_buf_cnt, 4"},
	{"queue_pair:\n  buf_signal_batch: 40\n", ":2: queue_pair.buf_signal_batch",
	 "40 is more than send_buf_cnt, 32"},
	{"queue_pair:\n  max_rdma_wr: 31\n", ":2: queue_pair",
	 "max_rdma_wr_per_post: 32 is more than max_rdma_wr, 31"},
	{"queue_pair:\n  send_buf_cnt: 16384\n  buf_size: 16385\n", ":3: queue_pair.buf_size",
	 "16385 for each of send_buf_cnt, 16384, is more than 268435456"},
	{"queue_pair: {}\nqueue_pair: {}\n", ":2: ", "queue_pair"},
};

static void errors_name_line_and_field(void **state)
{
	struct connect_config *config = new_config(), *before = new_config();
	size_t i;

	memcpy(before, config, sizeof(*config));
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct inc_err err = {""};

		assert_int_equal(read_text(bad[i].text, config, &err), -EINVAL);
		print_message("%s\n", err.msg);
		assert_non_null(strstr(err.msg, "/tmp/inc-connect-"));
		assert_non_null(strstr(err.msg, bad[i].line));
		assert_non_null(strstr(err.msg, bad[i].why));
		/* reading a file that is rejected must change nothing */
		assert_memory_equal(config, before, sizeof(*config));
	}
	free(config);
	free(before);
}

static void every_setting_has_its_bounds(void **state)
{
	static const struct {
		const char *name;
		uint64_t least, most;
	} fields[] = {
#define FIELD(name, type, preset, least, most, about) {#name, (least), (most)},
		INC_CONNECT_SETTINGS(FIELD)
#undef FIELD
	};
	struct connect_config *config = new_config();
	char text[200], why[100];
	struct inc_err err;
	size_t i, end;

	for (i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		for (end = fields[i].least ? 0 : 1; end < 2; end++) {
			snprintf(text, sizeof(text), "queue_pair:\n  %s: %llu\n", fields[i].name,
				 (unsigned long long)(end ? fields[i].most + 1
							  : fields[i].least - 1));
			snprintf(why, sizeof(why), ":2: queue_pair.%s: ", fields[i].name);
			assert_int_equal(read_text(text, config, &err), -EINVAL);
			assert_non_null(strstr(err.msg, why));
		}
	free(config);
}

static void no_such_file(void **state)
{
	struct connect_config *config = new_config();
	struct inc_err err = {""};

	assert_int_equal(connect_config_read("/nowhere/connect.yaml", config, &err), -ENOENT);
	assert_non_null(strstr(err.msg, "/nowhere/connect.yaml"));
	free(config);
}

/* Returns the indented lines of the section "## The file" in docs/connect.md. */
static char *example(void)
{
	char *section = document_section("The file"), *line, *rest, *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	assert_non_null(out);
	for (line = strtok_r(section, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		if (!strncmp(line, "    ", 4))
			fprintf(out, "%s\n", line + 4);
	fclose(out);
	free(section);
	assert_true(len > 0);
	return text;
}

static void the_example_of_the_document(void **state)
{
	struct connect_config *config = new_config();
	struct inc_connect_settings preset;
	struct inc_err err = {""};
	char *text = example();

	if (read_text(text, config, &err))
		fail_msg("%s", err.msg);
	assert_int_equal(config->n_subnets, 2);
	assert_string_equal(config->subnets[1].zones.zone[1].name, "row3");
	assert_int_equal(config->default_zones.n, 1);
	assert_int_equal(config->n_allowed, 2);
	assert_int_equal(config->allowed[1].port, 2);
	/* the example in docs/connect.md must have all settings at their defaults */
	inc_connect_settings_init(&preset, sizeof(preset));
	assert_memory_equal(&config->queue_pair, &preset, sizeof(preset));
#define NAMED(name, type, preset, least, most, about) \
	assert_non_null(strstr(text, "\n  " #name ": "));
	INC_CONNECT_SETTINGS(NAMED)
#undef NAMED
	free(text);
	free(config);
}

static void zones_of_a_port(void **state)
{
	static const struct inc_rdma_gid gids[] = {
		{.index = 0, .type = INC_RDMA_GID_ROCE_V2, .raw = {0xfe, 0x80, [15] = 1}},
		{.index = 1, .type = INC_RDMA_GID_ROCE_V2, .raw = {[10] = 0xff, 0xff, 10, 1, 2, 3}},
		{.index = 2, .type = INC_RDMA_GID_ROCE_V2, .raw = {[10] = 0xff, 0xff, 10, 2, 0, 1}},
	};
	struct inc_rdma_port_info port = {.number = 1, .gid = gids, .gids = 3};
	struct connect_config *config = new_config();
	struct connect_zones zones;
	struct inc_err err;

	connect_port_zones(config, "mlx5_0", &port, &zones);
	assert_int_equal(zones.n, 0);
	assert_int_equal(read_text("zones:\n- {subnet: 10.1.0.0/16, zones: [a, b]}\n"
				   "- {subnet: 10.2.0.1/32, zones: [b, c]}\n"
				   "- {subnet: 10.1.2.0/32, zones: [e]}\n"
				   "default_zones: [d]\n"
				   "devices:\n- {device: mlx5_0}\n"
				   "- {device: mlx5_1, port: 2, zones: [x]}\n"
				   "- {device: mlx5_1, zones: [y]}\n",
				   config, &err),
			 0);
	/* the port belongs to the zones of all its addresses */
	connect_port_zones(config, "mlx5_0", &port, &zones);
	assert_int_equal(zones.n, 3);
	assert_string_equal(zones.zone[2].name, "c");
	port.gids = 1;
	/* no zone contains an address of the port, so it has none */
	connect_port_zones(config, "mlx5_0", &port, &zones);
	assert_int_equal(zones.n, 1);
	assert_string_equal(zones.zone[0].name, "d");
	port.gids = 3;
	/* the file gives these zones to the device by its name */
	connect_port_zones(config, "mlx5_1", &port, &zones);
	assert_int_equal(zones.n, 1);
	assert_string_equal(zones.zone[0].name, "y");
	port.number = 2;
	connect_port_zones(config, "mlx5_1", &port, &zones);
	assert_int_equal(zones.n, 2);
	assert_int_equal(read_text("zones: [{subnet: 0.0.0.0/0, zones: [all]}]\n", config, &err),
			 0);
	connect_port_zones(config, "rxe0", &port, &zones);
	assert_string_equal(zones.zone[0].name, "all");
	free(config);
}

static void the_filter_lists_the_devices(void **state)
{
	struct inc_rdma_filter_entry entries[CONNECT_MAX_ALLOWED];
	struct connect_config *config = new_config();
	struct inc_rdma_filter filter = {0};
	struct inc_err err;

	connect_config_filter(config, entries, &filter);
	assert_int_equal(filter.entries, 0);
	assert_int_equal(
		read_text("devices: [{device: mlx5_0}, {device: mlx5_1, port: 2}]\n", config, &err),
		0);
	connect_config_filter(config, entries, &filter);
	assert_int_equal(filter.entries, 2);
	assert_ptr_equal(filter.entry, entries);
	assert_string_equal(entries[1].device, "mlx5_1");
	assert_int_equal(entries[0].port, 0);
	assert_int_equal(entries[1].port, 2);
	free(config);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(derived_numbers),
		cmocka_unit_test(presets_are_valid),
		cmocka_unit_test(limits_of_a_device_are_checked),
		cmocka_unit_test(settings_have_fixed_offsets),
		cmocka_unit_test(an_empty_file_changes_nothing),
		cmocka_unit_test(errors_name_line_and_field),
		cmocka_unit_test(every_setting_has_its_bounds),
		cmocka_unit_test(no_such_file),
		cmocka_unit_test(the_example_of_the_document),
		cmocka_unit_test(zones_of_a_port),
		cmocka_unit_test(the_filter_lists_the_devices),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("config", tests, NULL, NULL);
}
