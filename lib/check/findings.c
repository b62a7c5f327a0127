/* SPDX-License-Identifier: BSD-2-Clause */
/* The list of findings (inspect.h). */
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lib/base/printable.h"
#include "lib/check/inspect.h"

const char *const inc_finding_levels[INC_FINDING_LEVELS] = {
	[INC_FINDING_OK] = "ok",
	[INC_FINDING_SKIPPED] = "skipped",
	[INC_FINDING_WARNING] = "warning",
	[INC_FINDING_PROBLEM] = "problem",
};

/* Returns the place of the next finding. */
static struct inc_finding *next(struct inc_findings *f)
{
	static struct inc_finding nowhere; /* takes findings that memory has no room for */
	struct inc_finding *more;

	if (f->n < f->room)
		return &f->list[f->n++];
	more = realloc(f->list, (2 * f->room + 32) * sizeof(*more));
	if (!more) {
		f->lost = true;
		return &nowhere;
	}
	f->list = more;
	f->room = 2 * f->room + 32;
	return &f->list[f->n++];
}

struct inc_finding *inc_find(struct inc_findings *f, enum inc_finding_level level,
			     const char *where, const char *item, const char *fmt, ...)
{
	struct inc_finding *finding = next(f);
	va_list ap;

	*finding = (struct inc_finding){.level = level, .item = item};
	snprintf(finding->where, sizeof(finding->where), "%s", where);
	va_start(ap, fmt);
	vsnprintf(finding->text, sizeof(finding->text), fmt, ap);
	va_end(ap);
	inc_printable(finding->where);
	inc_printable(finding->text);
	return finding;
}

void inc_find_fix(struct inc_finding *finding, const char *effect, const char *fmt, ...)
{
	va_list ap;

	finding->effect = effect;
	va_start(ap, fmt);
	vsnprintf(finding->fix, sizeof(finding->fix), fmt, ap);
	va_end(ap);
	inc_printable(finding->fix);
}

size_t inc_findings_count(const struct inc_findings *f, enum inc_finding_level level)
{
	size_t i, n = 0;

	for (i = 0; i < f->n; i++)
		n += f->list[i].level == level;
	return n;
}

static void print(const struct inc_finding *x)
{
	printf("%-8s %s: %s: %s", inc_finding_levels[x->level], x->where, x->item, x->text);
	if (x->effect)
		printf(". %s Fix: %s", x->effect, x->fix);
	putchar('\n');
}

void inc_findings_print(struct inc_findings *f)
{
	while (f->printed < f->n)
		print(&f->list[f->printed++]);
	fflush(stdout);
}

void inc_findings_print_total(const struct inc_findings *f)
{
	printf("total: problems %zu, warnings %zu, skipped %zu, ok %zu\n",
	       inc_findings_count(f, INC_FINDING_PROBLEM),
	       inc_findings_count(f, INC_FINDING_WARNING),
	       inc_findings_count(f, INC_FINDING_SKIPPED), inc_findings_count(f, INC_FINDING_OK));
}

void inc_findings_print_json(const struct inc_findings *f)
{
	json_t *list = json_array(), *out;
	size_t i;

	for (i = 0; i < f->n; i++) {
		const struct inc_finding *x = &f->list[i];

		json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "level",
						      inc_finding_levels[x->level], "where",
						      x->where, "item", x->item, "text", x->text,
						      "effect", x->effect ?: "", "fix", x->fix));
	}
	out = json_pack("{s:o, s:I, s:I, s:I}", "findings", list, "problems",
			(json_int_t)inc_findings_count(f, INC_FINDING_PROBLEM), "warnings",
			(json_int_t)inc_findings_count(f, INC_FINDING_WARNING), "skipped",
			(json_int_t)inc_findings_count(f, INC_FINDING_SKIPPED));
	json_dumpf(out, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII);
	putchar('\n');
	json_decref(out);
}

void inc_findings_free(struct inc_findings *f)
{
	free(f->list);
	*f = (struct inc_findings){};
}
