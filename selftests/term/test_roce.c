/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/* Parts of lib/roce. First: which IP IDs a receiver assumes if it cannot read them. Also the
 * linearity of the CRC. This guess depends on it, and so does sending one payload to many peers.
 * Then the CRC of each set of instructions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include "lib/roce/crc.h"
#include "lib/roce/ip_id.h"
#include "lib/roce/segments.h"

#define MAX_LEN (INC_MAX_HEAD_LEN + INC_MAX_PAYLOAD)

static const struct inc_udp_path path = {
	.saddr.byte = {[10] = 0xff, 0xff, 192, 168, 0, 1},
	.daddr.byte = {[10] = 0xff, 0xff, 192, 168, 0, 2},
	.sport = 51234,
	.dport = INC_ROCE_UDP_PORT,
	.df = true,
};

struct packet {
	uint8_t data[MAX_LEN + INC_ICRC_LEN];
	size_t size;
};

static const struct inc_payload_copy nowhere;

/* Makes a packet with a payload of this size, and the ICRC for this IP ID. */
static void make(struct packet *p, size_t payload, uint16_t id)
{
	size_t i, len = INC_BTH_LEN + payload;

	inc_put_bth(p->data, INC_OP_SEND_MIDDLE, 0, INC_PKEY_DEFAULT, 77, 1000 + id);
	for (i = INC_BTH_LEN; i < len; i++)
		p->data[i] = i * 31 + id;
	inc_put_icrc(p->data + len, inc_icrc_udp(&path, id, p->data, len));
	p->size = len + INC_ICRC_LEN;
}

static bool believed(struct inc_ip_ids *ids, bool first, uint16_t id)
{
	struct packet p;

	make(&p, 256, id);
	return inc_ip_ids_check(ids, &path, first, p.data, p.size, &nowhere);
}

static void damaged(struct inc_ip_ids *ids, bool first, uint16_t id)
{
	struct packet p;

	make(&p, 256, id);
	p.data[40] ^= 4;
	assert_false(inc_ip_ids_check(ids, &path, first, p.data, p.size, &nowhere));
}

static void test_runs(void **state)
{
	struct inc_ip_ids ids;
	uint16_t id;

	assert_int_equal(inc_ip_ids_init(&ids, &path, false), 0);
	if (*state)
		inc_ip_ids_expect(&ids, &path, 256);
	/* one send call has the IDs 0, 1, 2, ... */
	for (id = 0; id < 6; id++)
		assert_true(believed(&ids, id == 0, id));
	/* the send continues in the next datagram, because GRO did not merge all of it */
	for (id = 6; id < 9; id++)
		assert_true(believed(&ids, id == 6, id));
	/* the next send begins with 0 again */
	for (id = 0; id < 3; id++)
		assert_true(believed(&ids, id == 0, id));
	/* all IDs of an XDP switch are 0, whether its packets were merged or not */
	for (id = 0; id < 20; id++)
		assert_true(believed(&ids, id % 5 == 0, 0));
	/* two sends in one datagram, which an old kernel merges because its GRO ignores the ID */
	assert_true(believed(&ids, true, 0));
	assert_true(believed(&ids, false, 0));
	assert_true(believed(&ids, false, 1));
	assert_true(believed(&ids, false, 2));
	assert_true(believed(&ids, false, 0));
	inc_ip_ids_free(&ids);
}

static void test_holes(void **state)
{
	struct inc_ip_ids ids;
	uint16_t id;

	assert_int_equal(inc_ip_ids_init(&ids, &path, false), 0);
	if (*state)
		inc_ip_ids_expect(&ids, &path, 256);
	assert_false(believed(&ids, true, 1));
	assert_true(believed(&ids, true, 0));
	assert_true(believed(&ids, false, 1));
	/* packet 2 is missing; the next packet is rejected but shows the position in the run, and
	 * the rest is accepted */
	assert_false(believed(&ids, false, 3));
	for (id = 4; id < 10; id++)
		assert_true(believed(&ids, false, id));
	/* a packet that is repeated */
	assert_false(believed(&ids, false, 9));
	assert_true(believed(&ids, false, 10));
	/* two packets are swapped, and each of them shows another position in the run */
	assert_false(believed(&ids, false, 12));
	assert_false(believed(&ids, false, 11));
	assert_false(believed(&ids, false, 13));
	assert_true(believed(&ids, false, 14));
	/* many packets are missing, and then so many that damage is as likely */
	assert_false(believed(&ids, false, 15 + 64));
	assert_true(believed(&ids, false, 16 + 64));
	assert_false(believed(&ids, false, 17 + 64 + 65));
	assert_false(believed(&ids, false, 18 + 64 + 65));
	assert_true(believed(&ids, true, 0));
	assert_true(believed(&ids, false, 1));
	assert_false(believed(&ids, true, 1));
	assert_false(believed(&ids, true, 77));
	assert_false(believed(&ids, true, 0xffff));
	/* a damaged packet is lost, but not the packets after it */
	assert_true(believed(&ids, true, 0));
	damaged(&ids, false, 1);
	assert_true(believed(&ids, false, 2));
	damaged(&ids, true, 0);
	assert_true(believed(&ids, true, 0));
	inc_ip_ids_free(&ids);
}

static void test_wrap(void **state)
{
	struct inc_ip_ids ids;
	uint32_t id;

	assert_int_equal(inc_ip_ids_init(&ids, &path, false), 0);
	if (*state)
		inc_ip_ids_expect(&ids, &path, 256);
	for (id = 0; id < 0x10003; id++)
		assert_true(believed(&ids, id % 60 == 0, id));
	inc_ip_ids_free(&ids);
}

/* A peer with an RDMA device may use any ID. Damage is accepted only if another ID explains it. */
static void test_any(void **state)
{
	static const size_t sizes[] = {0, 4, 256, 1024, 252, 2048};
	struct inc_ip_ids ids;
	struct packet p;
	uint32_t id, bit;
	size_t i;

	assert_int_equal(inc_ip_ids_init(&ids, &path, true), 0);
	for (id = 0; id < 0x10000; id += 37)
		for (i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
			make(&p, sizes[(i + id) % 6], id);
			assert_true(inc_ip_ids_check(&ids, &path, true, p.data, p.size, &nowhere));
		}
	/* no flipped bit is mistaken for another ID, because the CRC distinguishes their
	 * positions */
	for (i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		make(&p, sizes[i], 1234);
		for (bit = 0; bit < 8 * p.size; bit++) {
			if (bit / 8 == 4)
				continue; /* the ICRC does not cover this byte */
			p.data[bit / 8] ^= 1 << bit % 8;
			assert_false(inc_ip_ids_check(&ids, &path, true, p.data, p.size, &nowhere));
			p.data[bit / 8] ^= 1 << bit % 8;
		}
	}
	/* of all wrong checksums, no more than one in 65536 is accepted */
	make(&p, 1024, 1);
	for (id = bit = 0; id < 200000; id++) {
		inc_put_icrc(p.data + p.size - INC_ICRC_LEN, (id + 1) * 2654435761u);
		bit += inc_ip_ids_check(&ids, &path, true, p.data, p.size, &nowhere);
	}
	assert_in_range(bit, 0, 20);
	inc_ip_ids_free(&ids);
}

/* The quicker check for usual packets gives the same results as the full check, for usual packets,
 * for others, and if the masked byte is not 0. */
static void test_usual(void **state)
{
	static const size_t payloads[] = {256, 252, 260, 1024};
	static const uint8_t masked[] = {0, 1, 0x80, 0xff};
	static const uint16_t ids[] = {0, 1, 61, 63, 64, 65535};
	struct inc_icrc_usual usual;
	struct packet p;
	size_t i, len, head;
	uint16_t id;

	inc_icrc_usual_init(&usual, &path, 256);
	for (i = 0; i < 4 * 4 * 6; i++) {
		id = ids[i / 16];
		make(&p, payloads[i % 4], id);
		p.data[4] = masked[i / 4 % 4];
		len = p.size - INC_ICRC_LEN;
		assert_int_equal(inc_icrc_udp_usual(&usual, &path, id, p.data, len),
				 inc_icrc_udp(&path, id, p.data, len));
		for (head = INC_BTH_LEN; head <= INC_MAX_HEAD_LEN; head += 4)
			assert_int_equal(
				inc_icrc_head_usual(&usual, &path, id, p.data, head, len - head),
				inc_icrc_head(&path, id, p.data, head, len - head));
	}
}

static void test_jump(void **state)
{
	static const size_t lens[] = {256, 512, 1024, 2048, 1, 255, 257};
	struct inc_crc32_jump jump;
	uint8_t bytes[40 + 2048];
	uint32_t head, whole, apart;
	size_t i;

	for (i = 0; i < sizeof(bytes); i++)
		bytes[i] = i * 13 ^ i >> 7;
	for (i = 0; i < sizeof(lens) / sizeof(*lens); i++) {
		inc_crc32_jump_init(&jump, lens[i]);
		head = inc_crc32_update(INC_ICRC_SEED, bytes, 40);
		whole = inc_crc32_update(INC_ICRC_SEED, bytes, 40 + lens[i]);
		apart = inc_crc32_jump(&jump, head) ^ inc_crc32_update(0, bytes + 40, lens[i]);
		assert_int_equal(whole, apart);
	}
}

/* The payload is copied, whichever ID the packet turns out to have, and nothing beside it is
 * written. */
static void test_copy(void **state)
{
	static const size_t heads[] = {INC_BTH_LEN, INC_BTH_LEN + INC_IMM_LEN, INC_MAX_HEAD_LEN};
	static const uint16_t numbers[] = {0, 1, 0, 77, 1};
	uint8_t to[MAX_LEN], want[MAX_LEN];
	struct inc_ip_ids ids;
	struct packet p;
	size_t i, pad;

	for (i = 0; i < 3 * 4 * 5 * 2 * 2; i++) {
		const bool any = i / 60 % 2, wrong = i / 120;
		struct inc_payload_copy copy = {.to = to + 1, .at = heads[i % 3]};

		pad = i / 3 % 4;
		assert_int_equal(inc_ip_ids_init(&ids, &path, any), 0);
		inc_ip_ids_expect(&ids, &path, 1024);
		ids.next = numbers[i / 12 % 5];
		make(&p, 1024, ids.next);
		copy.len = p.size - INC_ICRC_LEN - copy.at - pad;
		memset(to, 0x55, sizeof(to));
		memset(want, 0x55, sizeof(want));
		memcpy(want + 1, p.data + copy.at, copy.len);
		if (wrong)
			inc_put_icrc(p.data + p.size - INC_ICRC_LEN, 0x12345678);
		assert_int_equal(inc_ip_ids_check(&ids, &path, i % 2, p.data, p.size, &copy),
				 !wrong);
		assert_memory_equal(to, want, sizeof(to));
		inc_ip_ids_free(&ids);
	}
}

/* A device's packets come from a port that is not the one that was expected. */
static void test_port(void **state)
{
	struct inc_udp_path expected = path;
	uint8_t to[MAX_LEN];
	struct inc_ip_ids ids;
	struct packet p;
	unsigned int i;

	expected.sport = INC_ROCE_UDP_PORT;
	assert_int_equal(inc_ip_ids_init(&ids, &path, true), 0);
	inc_ip_ids_expect(&ids, &expected, 1024);
	for (i = 0; i < 2; i++) {
		const struct inc_payload_copy copy = {i ? to : NULL, INC_BTH_LEN, 1024};

		make(&p, 1024, 0x8765);
		assert_true(inc_ip_ids_check(&ids, &path, true, p.data, p.size, &copy));
	}
	inc_ip_ids_free(&ids);
}

/* The CRC of each set of instructions that this CPU has, beside zlib's. The sanitizer notices a
 * byte that is read or written beyond the data. */

#define CRC_LEN 4200 /* more than a packet with 4,096 bytes of data */
#define SHIFTS  3    /* addresses that are tried, from the start of a block on */

/* Data in a block of exactly their size, of which the first `shift` bytes are not used. */
static uint8_t *make_data(size_t shift, size_t len)
{
	uint8_t *data = malloc(shift + len);
	size_t i;

	for (i = 0; i < shift + len; i++)
		data[i] = (uint8_t)(i * 2654435761u >> 13 ^ len);
	return data;
}

static void check_length(size_t shift, size_t len)
{
	const uint32_t state = (uint32_t)len * 2654435761u + (uint32_t)shift;
	uint8_t *data = make_data(shift, len), *to = malloc(len + SHIFTS - shift);
	const uint8_t *from = data + shift;
	/* zlib inverts the state before and after */
	const uint32_t want = ~(uint32_t)crc32(~state, from, len);

	assert_int_equal(inc_crc32_update(state, from, len), want);
	assert_int_equal(inc_crc32_copy(state, to + SHIFTS - shift, from, len), want);
	assert_memory_equal(to + SHIFTS - shift, from, len);
	free(to);
	free(data);
}

static void every_length(void **test)
{
	const enum inc_crc_set usual = inc_crc_set();
	enum inc_crc_set set;
	size_t len, shift;

	for (set = 0; set < INC_N_CRC_SETS; set++) {
		if (inc_crc_use(set)) {
			printf("# this CPU does not have %s\n", inc_crc_set_names[set]);
			continue;
		}
		assert_int_equal(inc_crc_set(), set);
		for (len = 0; len <= CRC_LEN; len++)
			for (shift = 0; shift <= SHIFTS; shift++)
				check_length(shift, len);
	}
	assert_int_equal(inc_crc_use(usual), 0);
}

/* A set is used as soon as a CPU has it, and the last one has precedence. */
static void chosen_set(void **test)
{
	const enum inc_crc_set usual = inc_crc_set();
	enum inc_crc_set set;

	for (set = usual + 1; set < INC_N_CRC_SETS; set++)
		assert_int_not_equal(inc_crc_use(set), 0);
	assert_int_equal(inc_crc_use(usual), 0);
	printf("# %s\n", inc_crc_set_names[usual]);
}

int main(void)
{
	bool usual = true;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_runs),
		cmocka_unit_test(test_holes),
		cmocka_unit_test(test_wrap),
		cmocka_unit_test_prestate(test_runs, &usual),
		cmocka_unit_test_prestate(test_holes, &usual),
		cmocka_unit_test_prestate(test_wrap, &usual),
		cmocka_unit_test(test_any),
		cmocka_unit_test(test_usual),
		cmocka_unit_test(test_copy),
		cmocka_unit_test(test_port),
		cmocka_unit_test(test_jump),
		cmocka_unit_test(chosen_set),
		cmocka_unit_test(every_length),
	};

	return cmocka_run_group_tests_name("lib/roce", tests, NULL, NULL);
}
