/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/* Parsers of the library and its tools, for files, packets and lines of JSON. Inputs are cases that
 * are written down here, and random garbage. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "hostlib/tools/npy.h"
#include "lib/net/lines.h"
#include "lib/roce/parse.h"
#include "lib/roce/wire.h"

static uint32_t seed = 20231105;

static uint32_t rnd(uint32_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 17;
	seed ^= seed << 5;
	return seed % below;
}

/* Returns a copy that ends with its allocation, so that a sanitizer detects reads beyond it. */
static void *exact(const void *data, size_t len)
{
	void *p = malloc(len ? len : 1);

	assert_non_null(p);
	memcpy(p, data, len);
	return p;
}

static size_t make_npy(uint8_t *out, int major, const char *dict)
{
	size_t len = strlen(dict), at = 8;

	memcpy(out, "\x93NUMPY", 6);
	out[6] = major;
	out[7] = 0;
	out[at++] = len & 0xff;
	out[at++] = len >> 8;
	if (major == 2) {
		out[at++] = 0;
		out[at++] = 0;
	}
	memcpy(out + at, dict, len);
	return at + len;
}

static int parse_dict(int major, const char *dict, size_t data, struct npy *npy)
{
	uint8_t buf[1024];
	size_t len = make_npy(buf, major, dict);
	void *p = exact(buf, len);
	int ret = npy_parse(p, len, len + data, npy, NULL);

	free(p);
	return ret;
}

#define D(shape) "{'descr': '<i4', 'fortran_order': False, 'shape': " shape ", }\n"

static void npy_good(void **state)
{
	struct npy npy;

	assert_int_equal(parse_dict(1, D("(3, 4)"), 48, &npy), 0);
	assert_int_equal(npy.ndim, 2);
	assert_int_equal(npy.count, 12);
	assert_int_equal(parse_dict(2, D("(5,)"), 20, &npy), 0);
	assert_int_equal(npy.count, 5);
	assert_int_equal(parse_dict(1, D("()"), 4, &npy), 0);
	assert_int_equal(npy.count, 1);
	assert_int_equal(parse_dict(1, D("(0, 7)"), 0, &npy), 0);
	assert_int_equal(npy.count, 0);
	/* keys in another order, double quotes, no trailing comma */
	assert_int_equal(
		parse_dict(1, "{\"shape\":(2,),'fortran_order':False,\"descr\":\"<i4\"}", 8, &npy),
		0);
}

/* Reads files as NumPy writes them, of every type that the library has. */
static void npy_types(void **state)
{
	static const struct {
		const char *descr;
		enum inccl_dtype dtype;
		size_t bytes;
	} types[] = {
		{"<i4", INCCL_INT32, 12},  {"<u4", INCCL_UINT32, 12},  {"<i8", INCCL_INT64, 24},
		{"<u8", INCCL_UINT64, 24}, {"<i2", INCCL_INT16, 6},    {"<u2", INCCL_UINT16, 6},
		{"|i1", INCCL_INT8, 3},    {"|u1", INCCL_UINT8, 3},    {"<f4", INCCL_FLOAT32, 12},
		{"<f2", INCCL_FLOAT16, 6}, {"<f8", INCCL_FLOAT64, 24},
	};
	static const char *const others[] = {">i4", ">f4", "=f4", ">f8", "<f1", "<c8", "<i3",
					     "|b1", "<u1", "<V2", "f4",  "<f",  ""};
	char dict[128];
	struct npy npy;
	size_t i;

	for (i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		snprintf(dict, sizeof(dict),
			 "{'descr': '%s', 'fortran_order': False, 'shape': (3,), }",
			 types[i].descr);
		assert_int_equal(parse_dict(1, dict, types[i].bytes, &npy), 0);
		assert_int_equal(npy.dtype, types[i].dtype);
		assert_int_equal(npy.count, 3);
		assert_int_equal(npy_bytes(&npy), types[i].bytes);
		assert_int_equal(parse_dict(1, dict, types[i].bytes + 1, &npy), -EINVAL);
	}
	for (i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		snprintf(dict, sizeof(dict),
			 "{'descr': '%s', 'fortran_order': False, 'shape': (3,), }", others[i]);
		for (size_t bytes = 3; bytes <= 24; bytes *= 2)
			assert_int_equal(parse_dict(1, dict, bytes, &npy), -EINVAL);
	}
}

static void npy_bad(void **state)
{
	static const char *const bad[] = {
		"",
		"{}",
		"{'descr': '<i4', 'fortran_order': False}",
		"{'descr': '<i4', 'fortran_order': True, 'shape': (2,)}",
		"{'descr': '>i4', 'fortran_order': False, 'shape': (2,)}",
		"{'descr': '<c8', 'fortran_order': False, 'shape': (2,)}",
		"{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (2,)}",
		"{'descr': '<i4', 'fortran_order': 0, 'shape': (2,)}",
		"{'descr': '<i4', 'fortran_order': False, 'shape': (2)}",
		"{'descr': '<i4', 'fortran_order': False, 'shape': (-2,)}",
		"{'descr': '<i4', 'fortran_order': False, 'shape': (2,,)}",
		"{'descr': '<i4', 'fortran_order': False, 'shape': (2,)} x",
		"{'descr': '<i4', 'fortran_order': False, 'shape': (2,), 'more': 1}",
		"{'descr': '<i4', 'descr': '<i4', 'fortran_order': False, 'shape': (2,)}",
		"{'descr': '<i4', 'fortran_order': False, 'shape': (4611686018427387904, 4)}",
		"{'descr': '<i4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
		"{'descr': '<i4', 'fortran_order': False, 'shape': (2,",
		"{'descr': '<i4",
	};
	struct npy npy;
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (parse_dict(1, bad[i], 8, &npy) != -EINVAL)
			fail_msg("taken: %s", bad[i]);
	assert_int_equal(parse_dict(1, D("(2,)"), 7, &npy), -EINVAL);
	assert_int_equal(parse_dict(1, D("(2,)"), 9, &npy), -EINVAL);
	assert_int_equal(parse_dict(3, D("(2,)"), 8, &npy), -EINVAL);
	assert_int_equal(parse_dict(0, D("(2,)"), 8, &npy), -EINVAL);
}

static void npy_truncated(void **state)
{
	uint8_t buf[256];
	size_t len = make_npy(buf, 1, D("(2,)")), i;
	struct npy npy;

	for (i = 0; i < len; i++) {
		void *p = exact(buf, i);

		assert_int_equal(npy_parse(p, i, i, &npy, NULL), -EINVAL);
		free(p);
	}
}

static void npy_mutated(void **state)
{
	uint8_t good[256], buf[300];
	size_t len, size;
	struct npy npy;
	unsigned int n, k;
	void *p;

	for (n = 0; n < 200000; n++) {
		len = make_npy(good, 1 + n % 2, D("(3, 4)"));
		memcpy(buf, good, len);
		for (k = 1 + rnd(6); k; k--)
			buf[rnd(4) ? 10 + rnd(len - 10) : rnd(len)] =
				rnd(2) ? (char)rnd(256) : "(),:'{}0129 "[rnd(12)];
		size = rnd(8) ? len : rnd(len + 1);
		p = exact(buf, size);
		if (!npy_parse(p, size, size + 48, &npy, NULL)) {
			assert_true(npy.ndim <= NPY_MAX_DIMS);
			assert_int_equal(npy.header_bytes + npy_bytes(&npy), size + 48);
		}
		free(p);
	}
}

static void npy_round_trip(void **state)
{
	char dir[] = "/tmp/inccl-npy-XXXXXX", path[64], gone[64];
	struct npy npy = {.ndim = 2, .shape = {3, 5}, .count = 15}, back;
	struct inc_err err = {""};
	int32_t data[15];
	int i;

	for (i = 0; i < 15; i++)
		data[i] = i * 1000003 - 7;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/a.npy", dir);
	snprintf(gone, sizeof(gone), "%s/no/a.npy", dir);
	assert_int_equal(npy_save(path, &npy, data, &err), 0);
	assert_int_equal(npy_load(path, &back, &err), 0);
	assert_int_equal(back.ndim, 2);
	assert_memory_equal(back.data, data, sizeof(data));
	npy_free(&back);
	npy.dtype = INCCL_FLOAT16; /* only half of the data is written */
	assert_int_equal(npy_save(path, &npy, data, &err), 0);
	assert_int_equal(npy_load(path, &back, &err), 0);
	assert_int_equal(back.dtype, INCCL_FLOAT16);
	assert_int_equal(npy_bytes(&back), sizeof(data) / 2);
	assert_memory_equal(back.data, data, sizeof(data) / 2);
	npy_free(&back);
	assert_int_equal(npy_save(gone, &npy, data, &err), -ENOENT);
	assert_int_equal(npy_load(gone, &back, &err), -ENOENT);
	assert_int_equal(npy_load(dir, &back, &err), -EINVAL);
	unlink(path);
	/* the calls that failed have left no file behind */
	assert_int_equal(rmdir(dir), 0);
}

static void write_place(const char *path, int want)
{
	struct npy npy = {.ndim = 1, .shape = {3}, .count = 3};
	struct inc_err err = {""};

	assert_int_equal(npy_save(path, &npy, (int32_t[]){7, 8, 9}, &err), want);
	assert_true(!want == !err.msg[0]);
}

/* The output file may already exist. If it is a link, the link remains, and the link's target is
 * replaced with the same permissions. A target that is no regular file is written to, and not
 * replaced. */
static void npy_places(void **state)
{
	char dir[] = "/tmp/inc-npy-XXXXXX", path[64], link[64], buf[512];
	struct npy npy;
	struct inc_err err;
	struct stat st;
	int fd;

	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/file", dir);
	snprintf(link, sizeof(link), "%s/link", dir);
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0640);
	assert_true(fd >= 0);
	assert_int_equal(fchmod(fd, 0640), 0);
	close(fd);
	assert_int_equal(symlink("file", link), 0);
	write_place(link, 0);
	assert_true(!lstat(link, &st) && S_ISLNK(st.st_mode));
	assert_true(!lstat(path, &st) && S_ISREG(st.st_mode) && (st.st_mode & 0777) == 0640);
	assert_int_equal(npy_load(path, &npy, &err), 0);
	assert_true(npy.count == 3 && ((int32_t *)npy.data)[2] == 9);
	npy_free(&npy);
	unlink(path);
	write_place(link, -ENOENT); /* now the link is dangling */
	unlink(link);

	assert_int_equal(symlink("/dev/null", link), 0);
	write_place(link, 0);
	assert_true(!lstat(link, &st) && S_ISLNK(st.st_mode));
	assert_true(!stat("/dev/null", &st) && S_ISCHR(st.st_mode));
	unlink(link);
	assert_int_equal(symlink("/dev/full", link), 0);
	write_place(link, -ENOSPC);
	assert_true(!lstat(link, &st) && S_ISLNK(st.st_mode));
	unlink(link);

	assert_int_equal(mkfifo(path, 0600), 0);
	fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	assert_true(fd >= 0);
	write_place(path, 0);
	assert_true(!lstat(path, &st) && S_ISFIFO(st.st_mode));
	assert_int_equal(read(fd, buf, sizeof(buf)), 128 + 12);
	assert_memory_equal(buf, "\x93NUMPY", 6);
	close(fd);
	unlink(path);

	write_place(dir, -EISDIR);
	assert_int_equal(rmdir(dir), 0); /* no temporary file is left */
}

static size_t make_packet(uint8_t *out, uint8_t opcode, size_t payload)
{
	struct inc_bth bth = {
		.opcode = opcode,
		.se_m_pad_tver = (-payload & 3) << INC_BTH_PAD_SHIFT,
		.pkey = htons(0xffff),
		.ecn_qpn = htonl(0x40123456),
		.ackreq_psn = htonl(INC_BTH_ACKREQ | 0xabcdef),
	};
	size_t len =
		INC_BTH_LEN + inc_roce_ext_len(opcode) + payload + (-payload & 3) + INC_ICRC_LEN;
	size_t i;

	for (i = 0; i < len; i++)
		out[i] = i;
	memcpy(out, &bth, sizeof(bth));
	return len;
}

static void packet_fields(void **state)
{
	uint8_t buf[128];
	struct inc_roce_packet pkt;
	size_t len = make_packet(buf, INC_OP_WRITE_ONLY_IMM, 9);

	assert_int_equal(inc_roce_parse(buf, len, &pkt), 0);
	assert_int_equal(pkt.opcode, INC_OP_WRITE_ONLY_IMM);
	assert_int_equal(pkt.qpn, 0x123456);
	assert_int_equal(pkt.psn, 0xabcdef);
	assert_int_equal(pkt.pkey, 0xffff);
	assert_true(pkt.ackreq);
	assert_true(pkt.va == 0x0c0d0e0f10111213ull);
	assert_int_equal(pkt.rkey, 0x14151617);
	assert_int_equal(pkt.dmalen, 0x18191a1b);
	assert_int_equal(pkt.imm, 0x1c1d1e1f);
	assert_ptr_equal(pkt.payload, buf + 32);
	assert_int_equal(pkt.len, 9);
	len = make_packet(buf, INC_OP_ACK, 0);
	assert_int_equal(inc_roce_parse(buf, len, &pkt), 0);
	assert_int_equal(pkt.syndrome, 0x0c);
	assert_int_equal(pkt.msn, 0x0d0e0f);
}

static void packet_garbage(void **state)
{
	uint8_t buf[160];
	struct inc_roce_packet pkt;
	unsigned int n, k, taken = 0;
	size_t len;
	uint8_t *p;

	for (n = 0; n < 400000; n++) {
		len = make_packet(buf, rnd(8) ? rnd(18) % 18 : INC_OP_ACK, rnd(64));
		if (inc_roce_ext_len(buf[0]) < 0)
			len = 20;
		for (k = rnd(4); k; k--)
			buf[rnd(len)] = rnd(256);
		if (!rnd(3))
			len = rnd(len + 1);
		p = exact(buf, len);
		if (!inc_roce_parse(p, len, &pkt)) {
			taken++;
			assert_true(pkt.payload >= p + INC_BTH_LEN);
			assert_true(pkt.payload + pkt.len + INC_ICRC_LEN <= p + len);
		}
		free(p);
	}
	/* enough of the random inputs were valid, so the test had an effect */
	assert_true(taken > n / 20);
}

static void psn_arithmetic(void **state)
{
	assert_true(inc_psn_to_r(5, 0xfffffe, 100) == 107);
	assert_true(inc_psn_to_r(0xfffffe, 5, 100) == 93);
	assert_true(inc_psn_to_r(0x1000, 0x1000, 1ull << 40) == 1ll << 40);
	assert_true(inc_psn_to_r(0xfff, 0x1000, 0) == -1);
	assert_true(inc_rnr_timeout_ns(0x20) == 655360000ull);
	assert_true(inc_rnr_timeout_ns(0x21) == 10000ull);
	assert_true(inc_rnr_timeout_ns(0x3f) == 491520000ull);
}

/* Lines of JSON (lib/net/lines.h). However the bytes are split, the same objects must result. */

#define MAX 100

/* Feeds bytes into the parser, up to `step` at a time as far as it has room, and reads the objects.
 * out: the field n of each object as a decimal digit. Returns the last result. */
static int feed(struct inc_lines *l, const char *text, size_t len, size_t step, char *out,
		struct inc_err *err)
{
	json_t *object;
	size_t room, n;
	char *space;
	int ret;

	for (;;) {
		while ((ret = inc_lines_next(l, &object, err)) > 0) {
			*out++ = '0' + json_integer_value(json_object_get(object, "n"));
			*out = 0;
			json_decref(object);
		}
		if (ret || !len)
			return ret;
		space = inc_lines_space(l, &room);
		assert_non_null(space);
		assert_true(room > 0);
		n = step < len ? step : len;
		n = n < room ? n : room;
		memcpy(space, text, n);
		inc_lines_filled(l, n);
		text += n;
		len -= n;
	}
}

static void any_pieces(void **state)
{
	static const char text[] =
		"{\"n\":1}\n{\"n\":2}\r\n\n\r\n  {\"n\" : 3, \"x\":\"\\n\"}  \n{\"n\":4}\n{";
	size_t step;

	for (step = 1; step < sizeof(text); step++) {
		struct inc_lines l = {.max_line = MAX};
		char out[16] = "";

		assert_int_equal(feed(&l, text, sizeof(text) - 1, step, out, NULL), 0);
		assert_string_equal(out, "1234");
		assert_true(inc_lines_open(&l));
		assert_int_equal(feed(&l, "\"n\":5}\n", 7, step, out, NULL), 0);
		assert_string_equal(out, "5");
		/* the parser stores no bytes of lines that it has parsed */
		assert_false(inc_lines_open(&l));
		assert_null(l.buf);
		inc_lines_free(&l);
	}
}

/* Makes a line of len characters. */
static char *line(size_t len, const char *end)
{
	char *text = malloc(len + 3);

	assert_non_null(text);
	snprintf(text, len + 3, "{\"n\":7,\"x\":\"%*s\"}%s", (int)len - 14, "", end);
	assert_int_equal(strlen(text), len + strlen(end));
	return text;
}

static void limits(void **state)
{
	static const size_t maxima[] = {20, MAX, 4095, 4096, 4097, 70000};
	static const char *const ends[] = {"\n", "\r\n"};
	size_t i, k, step;

	for (i = 0; i < sizeof(maxima) / sizeof(maxima[0]); i++)
		for (k = 0; k < 2; k++)
			for (step = 1; step < 2 * maxima[i]; step = 3 * step + 1) {
				char *fits = line(maxima[i], ends[k]);
				char *too_long = line(maxima[i] + 1, ends[k]);
				struct inc_lines l = {.max_line = maxima[i]};
				struct inc_err err = {""};
				char out[8] = "";

				assert_int_equal(feed(&l, fits, strlen(fits), step, out, NULL), 0);
				assert_int_equal(feed(&l, fits, strlen(fits), step, out + 1, NULL),
						 0);
				assert_string_equal(out, "77");
				assert_int_equal(
					feed(&l, too_long, strlen(too_long), step, out, &err),
					-EMSGSIZE);
				assert_string_equal(err.msg, "line too long");
				/* the parser notices that the line is too long before its end
				 * arrives */
				inc_lines_free(&l);
				assert_int_equal(feed(&l, too_long, maxima[i] + 1, step, out, NULL),
						 -EMSGSIZE);
				inc_lines_free(&l);
				free(fits);
				free(too_long);
			}
}

static void no_messages(void **state)
{
	static const struct {
		const char *text;
		size_t len; /* length of the input; 0: length of `text` */
		const char *why;
	} cases[] = {
		{"x\n", 0, "not JSON (column 1)"},
		{"{\"n\":1}{\n", 0, "not JSON"},
		{"{\"n\":1,\"n\":2}\n", 0, "not JSON"},
		{"[1]\n", 0, "not a JSON object"},
		{"{\"n\":\"\xff\"}\n", 0, "not JSON"},
		{"{\"n\":1}\0\n", 9, "not JSON"},
		{" \n", 0, "not JSON"},
		{"{\n\"n\":1}\n", 0, "not JSON"},
	};
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct inc_lines l = {.max_line = MAX};
		struct inc_err err = {""};
		size_t len = cases[i].len ?: strlen(cases[i].text);
		char out[8] = "";

		if (feed(&l, cases[i].text, len, len, out, &err) != -EBADMSG ||
		    strncmp(err.msg, cases[i].why, strlen(cases[i].why)) || out[0])
			fail_msg("case %zu: '%s' '%s'", i, err.msg, out);
		inc_lines_free(&l);
	}
}

static void lines_of_objects(void **state)
{
	struct inc_lines l = {.max_line = MAX};
	json_t *object = json_pack("{s:i, s:s}", "n", 8, "x", "a\nb");
	char out[8] = "";
	size_t len;
	char *text = inc_line_of(object, &len);

	assert_non_null(text);
	assert_ptr_equal(memchr(text, '\n', len), text + len - 1);
	assert_int_equal(feed(&l, text, len, 3, out, NULL), 0);
	assert_string_equal(out, "8");
	assert_null(inc_line_of(NULL, &len));
	free(text);
	json_decref(object);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(npy_good),       cmocka_unit_test(npy_types),
		cmocka_unit_test(npy_bad),        cmocka_unit_test(npy_truncated),
		cmocka_unit_test(npy_mutated),    cmocka_unit_test(npy_round_trip),
		cmocka_unit_test(npy_places),     cmocka_unit_test(packet_fields),
		cmocka_unit_test(packet_garbage), cmocka_unit_test(psn_arithmetic),
		cmocka_unit_test(any_pieces),     cmocka_unit_test(limits),
		cmocka_unit_test(no_messages),    cmocka_unit_test(lines_of_objects),
	};

	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
