// SPDX-License-Identifier: BSD-2-Clause
#include <stdlib.h>
#include <string.h>
#include "selftests/control/damage.h"

static const char *const tokens[] = {
	"&a ",
	"*a",
	"[",
	"]",
	"{",
	"}",
	": ",
	"- ",
	"\n",
	"\"",
	"'",
	"|\n",
	"? ",
	"!!int ",
	"---\n",
	"%YAML 1.2\n",
	"\xff",
	"h0",
	"s0",
	"s1",
	"p0",
	"10.77.0.1",
	"99999999999999999999",
	"-1",
	"1e999",
	"nan",
	"",
	"name",
	"peer",
	"<<",
	"\t",
	"\\0",
	"#",
};

static unsigned long long seed = 0x1ca11edu;

unsigned int damage_rnd(unsigned int n)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (seed >> 33) % n;
}

/* Replaces cut bytes at a place by n others. */
static size_t splice(char *text, size_t len, size_t at, size_t cut, const char *put, size_t n)
{
	if (at > len)
		at = len;
	if (cut > len - at)
		cut = len - at;
	if (len - cut + n > DAMAGE_MAX)
		return len;
	memmove(text + at + n, text + at + cut, len - at - cut);
	memcpy(text + at, put, n);
	return len - cut + n;
}

static size_t hit(char *text, size_t len)
{
	char copy[64];
	size_t at = damage_rnd(len + 1), n;
	const char *token;

	switch (damage_rnd(5)) {
	case 0: /* one bit */
		if (at < len)
			text[at] ^= 1 << damage_rnd(8);
		return len;
	case 1: /* something gone */
		return splice(text, len, at, damage_rnd(20), "", 0);
	case 2: /* something from elsewhere */
		n = damage_rnd(sizeof(copy));
		if (at + n > len)
			n = len - at;
		memcpy(copy, text + at, n);
		return splice(text, len, damage_rnd(len + 1), damage_rnd(8), copy, n);
	case 3: /* cut off */
		return damage_rnd(20) ? len : at;
	default:
		token = tokens[damage_rnd(sizeof(tokens) / sizeof(tokens[0]))];
		return splice(text, len, at, damage_rnd(12), token, strlen(token));
	}
}

char *damage(const char *base, size_t len, size_t *out_len)
{
	char *text = malloc(DAMAGE_MAX), *exact;

	memcpy(text, base, len);
	for (unsigned int n = 1 + damage_rnd(4); n; n--)
		len = hit(text, len);
	exact = malloc(len ? len : 1);
	memcpy(exact, text, len);
	free(text);
	*out_len = len;
	return exact;
}
