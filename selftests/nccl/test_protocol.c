/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/* Control messages and slots: encoded ones can be decoded, and invalid bytes are rejected.
 * fuzz_nccl tries arbitrary bytes. */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "hostlib/nccl/control_msg.h"

#define ROUNDS 200000u

static uint64_t seed;

static uint64_t draw(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static struct ha_control_msg draw_path(enum ha_control_msg_type type)
{
	struct ha_control_msg msg = {.type = type, .epoch = (uint32_t)draw()};
	unsigned int i;

	msg.path.attempt = (uint32_t)draw();
	msg.path.rail = draw() % HA_RAILS;
	if (type != HA_MSG_PATH)
		return msg;
	msg.path.qpn = draw() & 0xffffff;
	msg.path.psn = draw() & 0xffffff;
	msg.path.mtu_bytes = (uint16_t)(256u << draw() % 5);
	msg.path.link_layer = draw() % 4;
	msg.path.lid = (uint16_t)draw();
	msg.path.pkey = (uint16_t)draw();
	for (i = 0; i < sizeof(msg.path.gid); i++)
		msg.path.gid[i] = (uint8_t)draw();
	msg.path.ring = draw();
	msg.path.ring_rkey = (uint32_t)draw();
	return msg;
}

static struct ha_control_msg draw_msg(void)
{
	const enum ha_control_msg_type type = 1 + draw() % HA_MSG_PONG;
	struct ha_control_msg msg = {.type = type, .epoch = 1 + (uint32_t)draw() % UINT32_MAX};
	unsigned int i;

	if (type >= HA_MSG_PATH && type <= HA_MSG_PATH_FAILED)
		msg = draw_path(type);
	if (type == HA_MSG_HELLO) {
		msg.hello.dual = draw() & 1;
		for (i = 0; i < draw() % sizeof(msg.hello.name); i++)
			msg.hello.name[i] = (char)('a' + draw() % 26);
		msg.hello.name[sizeof(msg.hello.name) - 1] = 0;
	}
	if (type == HA_MSG_REPORT || type == HA_MSG_CLOSE) {
		msg.report.next = (uint32_t)draw();
		for (i = 0; i < HA_SLOTS / 64; i++)
			msg.report.received[i] = draw();
		msg.report.received[0] &= ~UINT64_C(1);
	}
	msg.cause = draw() % (HA_CAUSE_PROBE + 1);
	msg.nonce = draw();
	return msg;
}

static void reads_what_is_written(void **state)
{
	uint8_t bytes[HA_MSG_BYTES], again[HA_MSG_BYTES];
	struct ha_control_msg msg, read;
	unsigned int i;

	seed = 1;
	for (i = 0; i < ROUNDS; i++) {
		msg = draw_msg();
		ha_control_msg_encode(&msg, bytes);
		assert_int_equal(ha_control_msg_decode(bytes, &read, NULL), 0);
		ha_control_msg_encode(&read, again);
		assert_memory_equal(bytes, again, sizeof(bytes));
		assert_int_equal(read.type, msg.type);
		assert_int_equal(read.cause, msg.cause);
		assert_int_equal(read.nonce, msg.nonce);
		assert_int_equal(read.epoch, msg.epoch);
		if (msg.type == HA_MSG_REPORT)
			assert_memory_equal(&read.report, &msg.report, sizeof(msg.report));
		if (msg.type == HA_MSG_PATH)
			assert_memory_equal(&read.path, &msg.path, sizeof(msg.path));
	}
}

/* Offsets of the fields of messages, as docs/nccl-failover.md defines them. */
static const struct {
	const char *what;
	enum ha_control_msg_type type;
	unsigned int at;
	uint8_t value;
} wrong[] = {
	{"magic", HA_MSG_PING, 0, 0xff},
	{"version", HA_MSG_PING, 4, 2},
	{"type 0", HA_MSG_PING, 5, 0},
	{"type", HA_MSG_PING, 5, HA_MSG_PONG + 1},
	{"cause", HA_MSG_PING, 6, HA_CAUSE_PROBE + 1},
	{"zero", HA_MSG_PING, 7, 1},
	{"what PING does not have", HA_MSG_PING, 20, 1},
	{"what PING does not have, the last", HA_MSG_PING, 127, 1},
	{"what REPORT does not have", HA_MSG_REPORT, 56, 1},
	{"bit 0 of a report", HA_MSG_REPORT, 24, 1},
	{"dual", HA_MSG_HELLO, 20, 2},
	{"rail", HA_MSG_PATH, 24, HA_RAILS},
	{"link layer", HA_MSG_PATH, 25, HA_LINK_SOFT + 1},
	{"MTU", HA_MSG_PATH, 26, 0xff},
	{"queue pair", HA_MSG_PATH, 28, 1},
	{"PSN", HA_MSG_PATH, 32, 1},
	{"what PATH_READY does not have", HA_MSG_PATH_READY, 28, 1},
};

static void rejects_invalid_messages_and_slots(void **state)
{
	const enum ha_control_msg_type entering[] = {HA_MSG_OPEN, HA_MSG_REPORT, HA_MSG_RESUME};
	uint8_t bytes[HA_MSG_BYTES];
	struct ha_control_msg msg;
	size_t i;

	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		msg = (struct ha_control_msg){.type = wrong[i].type, .epoch = 1};
		if (msg.type == HA_MSG_PATH)
			msg.path.mtu_bytes = 1024;
		ha_control_msg_encode(&msg, bytes);
		assert_int_equal(ha_control_msg_decode(bytes, &msg, NULL), 0);
		bytes[wrong[i].at] = wrong[i].value;
		if (!ha_control_msg_decode(bytes, &msg, NULL))
			fail_msg("taken: %s", wrong[i].what);
	}
	for (i = 0; i < sizeof(entering) / sizeof(entering[0]); i++) {
		msg = (struct ha_control_msg){.type = entering[i]};
		ha_control_msg_encode(&msg, bytes);
		assert_int_equal(ha_control_msg_decode(bytes, &msg, NULL), -EPROTO);
	}
}

static void a_name_ends(void **state)
{
	struct ha_control_msg msg = {.type = HA_MSG_HELLO};
	uint8_t bytes[HA_MSG_BYTES];

	memset(msg.hello.name, 'x', sizeof(msg.hello.name) - 1);
	ha_control_msg_encode(&msg, bytes);
	assert_int_equal(ha_control_msg_decode(bytes, &msg, NULL), 0);
	assert_int_equal(strlen(msg.hello.name), sizeof(msg.hello.name) - 1);
	bytes[24 + sizeof(msg.hello.name) - 1] = 'x';
	assert_int_equal(ha_control_msg_decode(bytes, &msg, NULL), -EPROTO);
}

/* ---- slots ---- */

static const struct ha_slot slot = {.address = 0x123456789abcdef0,
				    .rkey = 0xdeadbeef,
				    .bytes = 4096,
				    .tag = 7,
				    .epoch = 3,
				    .sequence = 0xfffffffe,
				    .index = 2,
				    .slots = 3};

static void slots(void **state)
{
	_Alignas(32) struct ha_slot_wire wire = {0};
	struct ha_slot read = {0};

	/* a slot that was never written must differ from sequence 0 of epoch 0 */
	assert_int_equal(ha_slot_read(&wire, 0, 0, &read, NULL), 0);
	ha_slot_encode(&slot, &wire);
	assert_int_equal(ha_slot_read(&wire, slot.sequence, slot.epoch, &read, NULL), 1);
	assert_int_equal(read.address, slot.address);
	assert_int_equal(read.rkey, slot.rkey);
	assert_int_equal(read.bytes, slot.bytes);
	assert_int_equal(read.tag, slot.tag);
	assert_int_equal(read.index, slot.index);
	assert_int_equal(read.slots, slot.slots);
	assert_int_equal(ha_slot_read(&wire, slot.sequence + 1, slot.epoch, &read, NULL), 0);
	assert_int_equal(ha_slot_read(&wire, slot.sequence, slot.epoch - 1, &read, NULL), 0);
	wire.zero = 1;
	assert_int_equal(ha_slot_read(&wire, slot.sequence, slot.epoch, &read, NULL), -EPROTO);
	wire.zero = 0;
	wire.index = 3;
	assert_int_equal(ha_slot_read(&wire, slot.sequence, slot.epoch, &read, NULL), -EPROTO);
	wire.slots = HA_GROUP + 1;
	assert_int_equal(ha_slot_read(&wire, slot.sequence, slot.epoch, &read, NULL), -EPROTO);
	wire.slots = 0;
	assert_int_equal(ha_slot_read(&wire, slot.sequence, slot.epoch, &read, NULL), -EPROTO);
}

static void names(void **state)
{
	assert_string_equal(ha_control_msg_name(HA_MSG_OPEN), "OPEN");
	assert_string_equal(ha_control_msg_name(99), "?");
	assert_string_equal(ha_cause_text(HA_CAUSE_PORT), "port down");
	assert_true(ha_before(UINT32_MAX, 0) && !ha_before(0, UINT32_MAX) && !ha_before(5, 5));
}

/* docs/nccl-failover.md must have the number of each message type and of each cause. */
static void document(void **state)
{
	static const char *const rows[] = {
#define TYPE(NAME, number, text)  ", " #number " " #NAME
#define CAUSE(NAME, number, text) ", " #number " " text
		"| type | 5 | 8 | " HA_MSGS(TYPE), "| cause | 6 | 8 | " HA_CAUSES(CAUSE)
#undef TYPE
#undef CAUSE
	};
	const char *top = getenv("INC_TOP"), *numbers;
	char path[PATH_MAX], line[1000];
	unsigned int found = 0, i;
	size_t head;
	FILE *file;

	snprintf(path, sizeof(path), "%s/docs/nccl-failover.md", top ?: ".");
	file = fopen(path, "r");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
			numbers = strstr(rows[i], ", ") + 2;
			head = numbers - 2 - rows[i];
			if (strncmp(line, rows[i], head))
				continue;
			assert_memory_equal(line + head, numbers, strlen(numbers));
			found++;
		}
	fclose(file);
	assert_int_equal(found, sizeof(rows) / sizeof(rows[0]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_what_is_written),
		cmocka_unit_test(rejects_invalid_messages_and_slots),
		cmocka_unit_test(a_name_ends),
		cmocka_unit_test(slots),
		cmocka_unit_test(names),
		cmocka_unit_test(document),
	};

	return cmocka_run_group_tests_name("nccl protocol", tests, NULL, NULL);
}
