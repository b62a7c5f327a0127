/* SPDX-License-Identifier: BSD-2-Clause */
/* The values of options: parses a text into the member that the table names. */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lib/base/opt_priv.h"

int inc_usage(const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	/* make the text one line, because it may quote a value that has a newline */
	for (char *p = text; *p; p++)
		if (iscntrl((unsigned char)*p))
			*p = ' ';
	fprintf(stderr, "%s: %s (see --help)\n", program_invocation_short_name, text);
	return -EINVAL;
}

int inc_opt_number(const char *text, uint64_t min, uint64_t max, uint64_t *out, struct inc_err *err)
{
	unsigned long long v;
	char *end;

	errno = 0;
	v = strtoull(text, &end, 10);
	if (!isdigit((unsigned char)*text) || *end || errno || v < min || v > max)
		return inc_err_set(err, EINVAL, "'%.300s' is not a number from %llu to %llu", text,
				   (unsigned long long)min, (unsigned long long)max);
	*out = v;
	return 0;
}

int inc_opt_seconds(const char *text, double min, double max, double *out, struct inc_err *err)
{
	char *end;
	double v = strtod(text, &end);

	/* strtod() also accepts "inf", "0x1" and "1e3", so check the characters */
	if (end == text || *end || text[strspn(text, "0123456789.")] || v < min || v > max)
		return inc_err_set(err, EINVAL, "'%.300s' is not a number of seconds from %g to %g",
				   text, min, max);
	*out = v;
	return 0;
}

int inc_opt_size(const char *text, const char **end, uint64_t *out)
{
	static const char suffixes[] = "KMG";
	unsigned int shift = 0;
	const char *suffix;
	char *e;
	unsigned long long v;

	errno = 0;
	v = strtoull(text, &e, 10);
	if (errno || !isdigit((unsigned char)*text))
		return -EINVAL;
	suffix = *e ? strchr(suffixes, toupper((unsigned char)*e)) : NULL;
	if (suffix) {
		shift = 10 * (suffix - suffixes + 1);
		e++;
	}
	if (v > (1ull << 40) >> shift)
		return -ERANGE;
	*out = v << shift;
	*end = e;
	return 0;
}

int inc_path_check(const char *text, struct inc_err *err)
{
	return *text ? 0 : inc_err_set(err, EINVAL, "'' is not the path of a file");
}

static int take_number(const struct inc_opt *opt, const char *text, void *member,
		       struct inc_err *err)
{
	uint64_t v;
	int ret = inc_opt_number(text, opt->min, opt->max, &v, err);

	if (ret)
		return ret;
	if (opt->size == sizeof(uint64_t))
		*(uint64_t *)member = v;
	else
		*(uint32_t *)member = v;
	return 0;
}

static int take_size(const char *text, uint64_t *out, struct inc_err *err)
{
	const char *end;

	if (!inc_opt_size(text, &end, out) && !*end)
		return 0;
	return inc_err_set(err, EINVAL, "'%.300s' is not a size (bytes, suffixes K, M, G)", text);
}

static int take_word(const struct inc_opt *opt, const char *text, int *member, struct inc_err *err)
{
	const struct inc_opt_word *w;
	char list[256] = "";

	for (w = opt->words; w->word; w++) {
		if (!strcmp(text, w->word)) {
			*member = w->value;
			return 0;
		}
		strncat(list, *list ? ", " : "", sizeof(list) - strlen(list) - 1);
		strncat(list, w->word, sizeof(list) - strlen(list) - 1);
	}
	return inc_err_set(err, EINVAL, "'%.200s' is not one of %s", text, list);
}

static int add_text(struct inc_opt_list *list, const char *text, struct inc_err *err)
{
	const char **more = reallocarray(list->text, list->count + 1, sizeof(*more));

	if (!more)
		return inc_err_set(err, ENOMEM, "%s", strerror(ENOMEM));
	list->text = more;
	list->text[list->count++] = text;
	return 0;
}

void inc_opt_list_free(struct inc_opt_list *list)
{
	free(list->text);
	*list = (struct inc_opt_list){};
}

static int take(const struct inc_opt *opt, const char *text, void *member, struct inc_err *err)
{
	int ret = opt->check ? opt->check(text, err) : 0;

	if (ret)
		return ret;
	switch (opt->kind) {
	case INC_KIND_FLAG:
		*(bool *)member = true;
		return 0;
	case INC_KIND_NUMBER:
		return take_number(opt, text, member, err);
	case INC_KIND_SIZE:
		return take_size(text, member, err);
	case INC_KIND_TEXT:
		*(const char **)member = text;
		return 0;
	case INC_KIND_WORD:
		return take_word(opt, text, member, err);
	case INC_KIND_LIST:
		return add_text(member, text, err);
	case INC_KIND_TAKE:
		return opt->take(member, text, err);
	default:
		return 0;
	}
}

int inc_opt_take(const struct inc_opt *opt, const char *said, const char *text, void *member)
{
	struct inc_err err = {};

	return take(opt, text, member, &err) ? inc_usage("%s: %s", said, err.msg) : 0;
}
