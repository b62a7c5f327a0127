/* SPDX-License-Identifier: BSD-2-Clause */
/* The messages between client and service (hostlib/connect/protocol.h), without a socket. */
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
#include "hostlib/connect/config.h"
#include "hostlib/connect/protocol.h"

/* A sample of each message of the protocol, with every field. Only the message figures has none. */
#define SETTINGS_TEXT                                                                        \
	"{\"sl\":1,\"traffic_class\":104,\"pkey_index\":2,\"start_psn\":16777215,"           \
	"\"min_rnr_timer\":1,\"timeout\":14,\"retry_cnt\":7,\"rnr_retry\":0,\"max_sge\":16," \
	"\"max_rdma_wr\":128,\"max_rdma_wr_per_post\":32,\"max_rd_atomic\":16,"              \
	"\"buf_size\":16384,\"send_buf_cnt\":32,\"buf_ack_batch\":8,\"buf_signal_batch\":8," \
	"\"event_ack_batch\":128,\"record_latency_per_peer\":true}"
#define INFO_TEXT                                                                             \
	"\"hostname\":\"node17\",\"dev\":255,\"dev_name\":\"mlx5_0\",\"port\":254,\"mtu\":5," \
	"\"qp_num\":16777214,\"start_psn\":0,"
#define ETHERNET_TEXT   INFO_TEXT "\"gid\":\"::ffff:10.77.0.1\""
#define INFINIBAND_TEXT INFO_TEXT "\"lid\":49151"

#define CONNECT_TEXT(link)                                               \
	"{\"type\":\"connect\",\"version\":1," link ",\"target_dev\":0," \
	"\"target_devname\":\"rxe0\",\"target_port\":1,\"config\":" SETTINGS_TEXT "}"

static const struct {
	enum connect_message_id id;
	const char *text;
} connect_samples[] = {
	{CONNECT_MSG_QUERY, "{\"type\":\"query\",\"version\":1}"},
	{CONNECT_MSG_ASK_FIGURES, "{\"type\":\"stats\",\"version\":1}"},
	{CONNECT_MSG_DEVICES, "{\"type\":\"devices\",\"hostname\":\"node17\",\"devices\":["
			      "{\"dev\":0,\"dev_name\":\"mlx5_0\",\"ports\":["
			      "{\"port\":1,\"link_layer\":2,\"zones\":[\"rack7\",\"row3\"]},"
			      "{\"port\":2,\"link_layer\":1,\"zones\":[]}]},"
			      "{\"dev\":3,\"dev_name\":\"rxe0\",\"ports\":[]}]}"},
	{CONNECT_MSG_CONNECT, CONNECT_TEXT(ETHERNET_TEXT)},
	{CONNECT_MSG_CONNECT, CONNECT_TEXT(INFINIBAND_TEXT)},
	{CONNECT_MSG_CONNECTED, "{\"type\":\"connected\"," ETHERNET_TEXT "}"},
	{CONNECT_MSG_CONNECTED, "{\"type\":\"connected\"," INFINIBAND_TEXT "}"},
	{CONNECT_MSG_ERROR, "{\"type\":\"error\",\"errno\":\"ENODEV\",\"message\":\"no rxe7\"}"},
};
#define N_SAMPLES (sizeof(connect_samples) / sizeof(connect_samples[0]))

union any {
	struct connect_query query;
	struct inc_connect_devices devices;
	struct connect_connect connect;
	struct connect_info info;
	struct inc_msg_error error;
};

static json_t *parse(const char *text)
{
	json_t *message = json_loads(text, 0, NULL);

	assert_non_null(message);
	return message;
}

/* Reads the message, and drops the reference to it. */
static int read_one(enum connect_message_id id, json_t *message, struct inc_err *err)
{
	union any *out = malloc(sizeof(*out));
	int ret;

	assert_non_null(out);
	memset(out, 0xa5, sizeof(*out)); /* the earlier contents of the result must not matter */
	ret = connect_read(id, message, out, err);
	json_decref(message);
	free(out);
	return ret;
}

static json_t *print(enum connect_message_id id, const union any *in)
{
	return id == CONNECT_MSG_ERROR ? inc_message_new(INC_MSG_ERROR, in) : connect_new(id, in);
}

static void read_and_print_are_inverse(void **state)
{
	union any *out = malloc(sizeof(*out));
	struct inc_err err = {""};
	size_t i;

	for (i = 0; i < N_SAMPLES; i++) {
		json_t *message = parse(connect_samples[i].text), *again;

		memset(out, 0xa5, sizeof(*out));
		if (connect_read(connect_samples[i].id, message, out, &err))
			fail_msg("%s: %s", connect_samples[i].text, err.msg);
		again = print(connect_samples[i].id, out);
		assert_true(json_equal(message, again));
		/* a field that the reader does not have is ignored */
		json_object_set_new(message, "colour", json_string("red"));
		assert_int_equal(read_one(connect_samples[i].id, message, &err), 0);
		json_decref(again);
	}
	free(out);
}

/* Each top-level field gets a wrong type, or is missing although it is required. The error must
 * name the field. */
static void every_wrong_field_is_named(void **state)
{
	size_t i;

	for (i = 0; i < N_SAMPLES; i++) {
		const enum connect_message_id id = connect_samples[i].id;
		const struct inc_schema *schema = &connect_messages[id].schema;
		size_t f;

		for (f = 0; id != CONNECT_MSG_ERROR && f < schema->n; f++) {
			const struct inc_field *field = &schema->fields[f];
			json_t *message = parse(connect_samples[i].text);
			struct inc_err err = {""};

			if (!json_object_get(message, field->name)) {
				/* this sample has no such field, because it is for the other link
				 * layer */
				json_decref(message);
				continue;
			}
			json_object_set_new(message, field->name, json_real(1.5));
			assert_int_equal(read_one(id, message, &err), -EINVAL);
			assert_non_null(strstr(err.msg, field->name));
			message = parse(connect_samples[i].text);
			json_object_del(message, field->name);
			assert_int_equal(read_one(id, message, &err),
					 field->need == INC_REQUIRED || field->given ? -EINVAL : 0);
			if (field->need == INC_REQUIRED || field->given)
				assert_non_null(strstr(err.msg, field->name));
		}
	}
}

/* Returns a sample in which the field at a path such as "devices.0.ports.1.link_layer" has another
 * value. */
static json_t *with(size_t sample, const char *path, json_t *value)
{
	json_t *message = parse(connect_samples[sample].text), *at = message;
	char copy[100], *save = NULL, *name, *next;

	snprintf(copy, sizeof(copy), "%s", path);
	name = strtok_r(copy, ".", &save);
	for (; (next = strtok_r(NULL, ".", &save)); name = next)
		at = json_is_array(at) ? json_array_get(at, atoi(name)) : json_object_get(at, name);
	if (json_is_array(at))
		json_array_set_new(at, atoi(name), value);
	else
		json_object_set_new(at, name, value);
	return message;
}

static void bounds_of_numbers(void **state)
{
	static const struct {
		size_t sample;
		const char *path, *named;
		json_int_t least, most;
	} rows[] = {
		{3, "dev", "dev: ", 0, 255},
		{3, "port", "port: ", 1, 254},
		{3, "mtu", "mtu: ", 1, 5},
		{3, "qp_num", "qp_num: ", 2, 0xfffffe},
		{3, "start_psn", "start_psn: ", 0, 0xffffff},
		{4, "lid", "lid: ", 1, 0xbfff},
		{3, "target_dev", "target_dev: ", 0, 255},
		{3, "target_port", "target_port: ", 1, 254},
		{3, "config.timeout", "config.timeout: ", 1, 31},
		{3, "config.buf_size", "config.buf_size: ", 64, (256 << 20) / 32},
		{3, "config.buf_ack_batch", "config.buf_ack_batch: ", 1, 32},
		{3, "config.buf_signal_batch", "config.buf_signal_batch: ", 1, 32},
		{3, "config.max_rdma_wr_per_post", "config.max_rdma_wr_per_post: ", 1, 128},
		{2, "devices.0.dev", "devices[0].dev: ", 0, 255},
		{2, "devices.0.ports.1.port", "devices[0].ports[1].port: ", 1, 254},
		{2, "devices.0.ports.1.link_layer", "devices[0].ports[1].link_layer: ", 1, 2},
	};
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const json_int_t values[] = {rows[i].least,    rows[i].most, rows[i].least - 1,
					     rows[i].most + 1, -1,           INT64_MAX};
		size_t v;

		for (v = 0; v < sizeof(values) / sizeof(values[0]); v++) {
			struct inc_err err = {""};
			const int ret = read_one(
				connect_samples[rows[i].sample].id,
				with(rows[i].sample, rows[i].path, json_integer(values[v])), &err);

			assert_int_equal(ret, v < 2 ? 0 : -EINVAL);
			if (v >= 2)
				assert_ptr_equal(strstr(err.msg, rows[i].named), err.msg);
		}
	}
}

static json_t *list_of(size_t n, const char *element)
{
	json_t *list = json_array();

	while (n--)
		json_array_append_new(list, json_loads(element, JSON_DECODE_ANY, NULL));
	return list;
}

static void bounds_of_lists(void **state)
{
	static const struct {
		const char *path, *element;
		size_t most;
	} rows[] = {
		{"devices", "{\"dev\":1,\"dev_name\":\"x\",\"ports\":[]}", INC_CONNECT_MAX_DEVICES},
		{"devices.0.ports", "{\"port\":1,\"link_layer\":2}", INC_CONNECT_MAX_PORTS},
		{"devices.0.ports.0.zones", "\"z\"", INC_CONNECT_MAX_ZONES},
	};
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct inc_err err = {""};

		assert_int_equal(
			read_one(CONNECT_MSG_DEVICES,
				 with(2, rows[i].path, list_of(rows[i].most, rows[i].element)),
				 &err),
			0);
		assert_int_equal(
			read_one(CONNECT_MSG_DEVICES,
				 with(2, rows[i].path, list_of(rows[i].most + 1, rows[i].element)),
				 &err),
			-EINVAL);
		assert_non_null(strstr(err.msg, strrchr(rows[i].path, '.')
							? strrchr(rows[i].path, '.') + 1
							: rows[i].path));
	}
}

static void bounds_of_texts(void **state)
{
	static const struct {
		size_t sample;
		const char *path;
		size_t most;
	} rows[] = {
		{3, "dev_name", INC_CONNECT_NAME_SIZE - 1},
		{3, "target_devname", INC_CONNECT_NAME_SIZE - 1},
		{2, "devices.0.dev_name", INC_CONNECT_NAME_SIZE - 1},
		{2, "devices.0.ports.0.zones.1", INC_CONNECT_NAME_SIZE - 1},
	};
	char text[INC_CONNECT_NAME_SIZE + 2];
	size_t i, len;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		for (len = 0; len <= rows[i].most + 1; len++) {
			struct inc_err err = {""};

			memset(text, 'n', len);
			text[len] = 0;
			assert_int_equal(
				read_one(connect_samples[rows[i].sample].id,
					 with(rows[i].sample, rows[i].path, json_string(text)),
					 &err),
				len && len <= rows[i].most ? 0 : -EINVAL);
		}
	assert_int_equal(
		read_one(CONNECT_MSG_CONNECT, with(3, "dev_name", json_string("a b")), NULL),
		-EINVAL);
}

static void either_lid_or_gid(void **state)
{
	struct inc_err err = {""};

	assert_int_equal(read_one(CONNECT_MSG_CONNECT, with(3, "lid", json_integer(7)), &err),
			 -EINVAL);
	assert_string_equal(err.msg, "lid, gid: one of them, not both");
	assert_int_equal(read_one(CONNECT_MSG_CONNECTED,
				  parse("{\"type\":\"connected\"," INFO_TEXT "\"x\":0}"), &err),
			 -EINVAL);
	assert_string_equal(err.msg, "lid, gid: one of them, not none");
	assert_int_equal(
		read_one(CONNECT_MSG_CONNECT, with(3, "gid", json_string("10.77.0.1")), &err),
		-EINVAL);
	assert_string_equal(err.msg, "gid: '10.77.0.1' is not an address as IPv6 writes it");
	assert_int_equal(connect_link_of(&(struct connect_info){.has_lid = true}),
			 INC_CONNECT_INFINIBAND);
	assert_int_equal(connect_link_of(&(struct connect_info){.has_gid = true}),
			 INC_CONNECT_ETHERNET);
	assert_int_equal(connect_link_of(&(struct connect_info){0}), 0);
}

/* Every message has a sample. Only figures has none, because its single field may have any contents
 * (test_figures.c). */
static void every_kind_has_a_sample(void **state)
{
	enum connect_message_id id;
	size_t i;

	for (id = 0; id < CONNECT_MSG_MAX; id++) {
		for (i = 0; i < N_SAMPLES && connect_samples[i].id != id; i++)
			;
		if (i == N_SAMPLES && id != CONNECT_MSG_FIGURES)
			fail_msg("no sample of %s", connect_messages[id].type);
	}
}

/* A request of another version is rejected, for every kind of request, and the error names the
 * versions. */
static void another_version_is_reported(void **state)
{
	struct inc_err err = {""};
	size_t i;

	for (i = 0; i < N_SAMPLES; i++) {
		const enum connect_message_id id = connect_samples[i].id;

		if (id == CONNECT_MSG_ERROR || strcmp(connect_messages[id].from, "client") != 0)
			continue;
		assert_int_equal(read_one(id, with(i, "version", json_integer(2)), &err),
				 -EPROTONOSUPPORT);
		assert_string_equal(err.msg, "version 2, this service speaks 1");
	}
	/* the version is checked before the other fields */
	assert_int_equal(
		read_one(CONNECT_MSG_CONNECT, parse("{\"type\":\"connect\",\"version\":9}"), &err),
		-EPROTONOSUPPORT);
	assert_int_equal(read_one(CONNECT_MSG_QUERY, with(0, "version", json_integer(0)), &err),
			 -EINVAL);
	assert_int_equal(read_one(CONNECT_MSG_CONNECT, parse("{\"type\":\"connect\"}"), &err),
			 -EINVAL);
}

static void settings_that_are_absent_have_their_defaults(void **state)
{
	struct connect_connect asked;
	struct inc_connect_settings preset;
	struct inc_err err = {""};
	json_t *message = with(3, "config", json_object());

	assert_int_equal(connect_read(CONNECT_MSG_CONNECT, message, &asked, &err), 0);
	json_decref(message);
	inc_connect_settings_init(&preset, sizeof(preset));
	asked.config.sz = preset.sz; /* sz is the size of the struct, and no setting */
	assert_memory_equal(&asked.config, &preset, sizeof(preset));
	message = with(3, "config", json_pack("{s:i}", "send_buf_cnt", 4));
	assert_int_equal(read_one(CONNECT_MSG_CONNECT, message, &err), -EINVAL);
	assert_string_equal(err.msg, "config.buf_ack_batch: 8 is more than send_buf_cnt, 4");
}

/* The longest possible messages fit into the longest line that a reader accepts. */
static void the_longest_lines_fit(void **state)
{
	struct inc_connect_devices *all = calloc(1, sizeof(*all));
	size_t d, p, z;
	json_t *message;
	char *text;

	all->n_devices = INC_CONNECT_MAX_DEVICES;
	for (d = 0; d < INC_CONNECT_MAX_DEVICES; d++) {
		struct inc_connect_device *device = &all->devices[d];

		device->dev = 255;
		device->n_ports = INC_CONNECT_MAX_PORTS;
		memset(device->dev_name, '"', INC_CONNECT_NAME_SIZE - 1);
		for (p = 0; p < INC_CONNECT_MAX_PORTS; p++) {
			device->ports[p].port = 254;
			device->ports[p].link_layer = INC_CONNECT_ETHERNET;
			device->ports[p].n_zones = INC_CONNECT_MAX_ZONES;
			for (z = 0; z < INC_CONNECT_MAX_ZONES; z++)
				memset(device->ports[p].zones[z].name, '"',
				       INC_CONNECT_NAME_SIZE - 1);
		}
	}
	message = connect_new(CONNECT_MSG_DEVICES, all);
	text = json_dumps(message, JSON_COMPACT);
	assert_in_range(strlen(text), 1 << 16, CONNECT_ANSWER_MAX);
	free(text);
	json_decref(message);
	free(all);
	assert_true(strlen(connect_samples[3].text) + 6 * 3 * INC_CONNECT_NAME_SIZE <
		    CONNECT_REQUEST_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(read_and_print_are_inverse),
		cmocka_unit_test(every_wrong_field_is_named),
		cmocka_unit_test(bounds_of_numbers),
		cmocka_unit_test(bounds_of_lists),
		cmocka_unit_test(bounds_of_texts),
		cmocka_unit_test(either_lid_or_gid),
		cmocka_unit_test(every_kind_has_a_sample),
		cmocka_unit_test(another_version_is_reported),
		cmocka_unit_test(settings_that_are_absent_have_their_defaults),
		cmocka_unit_test(the_longest_lines_fit),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("protocol", tests, NULL, NULL);
}
