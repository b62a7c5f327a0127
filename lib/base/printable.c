/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include "lib/base/printable.h"

/* The number of bytes of the UTF-8 character at p; 0 if it is not valid UTF-8. */
static size_t take_char(const unsigned char *p, uint32_t *code)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t n = *p < 0x80 ? 1 : *p >> 5 == 6 ? 2 : *p >> 4 == 14 ? 3 : *p >> 3 == 30 ? 4 : 0, i;

	if (n < 2) {
		*code = *p;
		return n;
	}
	*code = *p & (0x7f >> n);
	for (i = 1; i < n; i++) {
		/* fails as well at the final zero of a text that ends within a character */
		if (p[i] >> 6 != 2)
			return 0;
		*code = *code << 6 | (p[i] & 0x3f);
	}
	if (*code < least[n] || *code > 0x10ffff || (*code >= 0xd800 && *code <= 0xdfff))
		return 0;
	return n;
}

static bool is_white(uint32_t code)
{
	return code == '\t' || code == '\n' || code == '\v' || code == '\f' || code == '\r';
}

static bool misleads(uint32_t code)
{
	return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x061c ||
	       (code >= 0x200e && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e) ||
	       (code >= 0x2066 && code <= 0x2069);
}

void inc_printable(char *text)
{
	unsigned char *p = (unsigned char *)text;
	uint32_t code;
	size_t n;

	for (; *p; p += n) {
		n = take_char(p, &code);
		if (!n) {
			*p = '?';
			n = 1;
		} else if (is_white(code)) {
			*p = ' ';
		} else if (misleads(code)) {
			memset(p, '?', n);
		}
	}
}

static bool fits_word(char c)
{
	return c > ' ' && c <= '~';
}

bool inc_is_word(const char *text)
{
	const char *p;

	for (p = text; *p && fits_word(*p); p++)
		;
	return p > text && !*p;
}

void inc_make_word(char *text)
{
	for (; *text; text++)
		if (!fits_word(*text))
			*text = '?';
}

struct inc_list inc_list_begin(char *buf, size_t size)
{
	*buf = '\0';
	return (struct inc_list){.buf = buf, .size = size};
}

void inc_list_add(struct inc_list *list, const char *format, ...)
{
	static const char comma[] = ", ", end[] = " and more";
	const size_t before = list->used ? sizeof(comma) - 1 : 0;
	int length;
	va_list ap;

	if (list->has_ended)
		return;
	va_start(ap, format);
	length = vsnprintf(NULL, 0, format, ap);
	va_end(ap);
	if (length < 0 || list->used + before + length + sizeof(end) > list->size) {
		snprintf(list->buf + list->used, list->size - list->used, "%s", end);
		list->has_ended = true;
		return;
	}
	memcpy(list->buf + list->used, comma, before);
	list->used += before;
	va_start(ap, format);
	list->used += vsnprintf(list->buf + list->used, list->size - list->used, format, ap);
	va_end(ap);
}
