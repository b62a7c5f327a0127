/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/* Lines of JSON (lib/net/lines.h). However the bytes are split, the same objects must result. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lib/net/lines.h"

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
		cmocka_unit_test(any_pieces),
		cmocka_unit_test(limits),
		cmocka_unit_test(no_messages),
		cmocka_unit_test(lines_of_objects),
	};

	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
