// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "lib/conf/comm_conf.h"
#include "scenario.h"
#include "sim.h"

#define LINE_MOST  200
#define WORDS_MOST 24

static const char *const formats[SCENARIO_KINDS] = {
#define _(KIND, format) format,
	SCENARIO_LINES(_)
#undef _
};

/* Units of time, the longest first. */
static const struct unit {
	const char *name;
	uint64_t ns;
	int digits; /* decimals that a time in this unit may have */
} units[] = {{"s", 1000000000, 9}, {"ms", 1000000, 6}, {"us", 1000, 3}, {"ns", 1, 0}};

void scenario_add_values(struct scenario *s, enum scenario_kind kind, const uint64_t *values,
			 unsigned int n)
{
	struct scenario_line *l = &s->line[s->n++];

	sim_require(s->n < SCENARIO_MOST && n <= SCENARIO_VALUES, "a scenario is too long");
	*l = (struct scenario_line){.kind = kind};
	memcpy(l->value, values, n * sizeof(*values));
}

const char *scenario_format(enum scenario_kind kind)
{
	return formats[kind];
}

int scenario_error(const struct scenario *s, const struct scenario_line *l, struct inc_err *err,
		   const char *fmt, ...)
{
	char text[200];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return inc_err_set(err, EINVAL, "%s:%u: %s", s->path ?: "(drawn)", l->number, text);
}

/* --- printing --- */

/* Prints a time in the longest unit of which it has at least one, without needless zeros. */
static void print_time(FILE *f, uint64_t ns)
{
	const struct unit *u = units;
	char text[16];
	size_t n;

	while (u->ns > 1 && ns < u->ns)
		u++;
	fprintf(f, "%" PRIu64, ns / u->ns);
	if (ns % u->ns) {
		n = snprintf(text, sizeof(text), "%0*" PRIu64, u->digits, ns % u->ns);
		while (text[n - 1] == '0')
			n--;
		fprintf(f, ".%.*s", (int)n, text);
	}
	fputs(u->name, f);
}

static void print_end(FILE *f, uint64_t end)
{
	fprintf(f, "%c%" PRIu64, end < 16 ? 's' : 'h', end % 16);
}

static void print_value(FILE *f, char code, uint64_t v)
{
	switch (code) {
	case 'N':
		fprintf(f, "%" PRIu64, v);
		break;
	case 'R':
		fprintf(f, "%" PRIu64 ".%" PRIu64 "%%", v / 10, v % 10);
		break;
	case 'T':
		print_time(f, v);
		break;
	case 'M':
		fputs(inc_modes_of_switch[v], f);
		break;
	case 'S':
		fprintf(f, "s%" PRIu64, v);
		break;
	case 'H':
		fprintf(f, "h%" PRIu64, v);
		break;
	case 'P':
		if (v == SCENARIO_CONTROLLER)
			fputs("ctl", f);
		else if (v < SCENARIO_RANK(0, 0))
			fprintf(f, "s%" PRIu64, v & 0xf);
		else
			fprintf(f, "j%" PRIu64 "r%" PRIu64, v >> 4 & 0xf, v & 0xf);
		break;
	case 'p':
		fprintf(f, "s%" PRIu64 ".p%" PRIu64, v >> 4, v & 0xf);
		break;
	case 'C':
		print_end(f, v >> 8);
		fputc('>', f);
		print_end(f, v & 0xff);
		break;
	}
}

static void print_line(const struct scenario_line *l, FILE *f)
{
	const uint64_t *value = l->value;
	const char *at;

	for (at = formats[l->kind]; *at; at++)
		if (*at == '%')
			print_value(f, *++at, *value++);
		else
			fputc(*at, f);
	fputc('\n', f);
}

void scenario_print(const struct scenario *s, FILE *f)
{
	unsigned int i;

	for (i = 0; i < s->n; i++)
		print_line(&s->line[i], f);
}

/* --- reading --- */

/* Reads digits, of which there must be at least one. Returns the first character behind them, or
 * NULL. */
static const char *read_digits(const char *at, uint64_t *out)
{
	const char *begin = at;

	for (*out = 0; *at >= '0' && *at <= '9' && at - begin < 19; at++)
		*out = *out * 10 + (*at - '0');
	return at == begin ? NULL : at;
}

/* Reads a number with up to so many decimals, in units of the last one. */
static const char *read_decimal(const char *at, int digits, uint64_t *out)
{
	at = read_digits(at, out);
	if (!at)
		return NULL;
	if (*at == '.')
		at++;
	for (; digits; digits--)
		*out = *out * 10 + (*at >= '0' && *at <= '9' ? *at++ - '0' : 0);
	return at;
}

static bool read_time(const char *word, uint64_t *out)
{
	const size_t digits = strspn(word, "0123456789.");
	const struct unit *u;
	const char *end;

	for (u = units; u < units + 4; u++) {
		if (strcmp(word + digits, u->name) != 0)
			continue;
		end = read_decimal(word, u->digits, out);
		return end == word + digits;
	}
	return false;
}

/* Reads a letter and a number below `most`. */
static const char *read_name(const char *at, char letter, uint64_t most, uint64_t *out)
{
	if (*at != letter)
		return NULL;
	at = read_digits(at + 1, out);
	return at && *out < most ? at : NULL;
}

static bool read_process(const char *word, uint64_t *out)
{
	uint64_t job, n;
	const char *at;

	*out = SCENARIO_CONTROLLER;
	if (!strcmp(word, "ctl"))
		return true;
	at = read_name(word, 's', 16, &n);
	*out = SCENARIO_SWITCH(n);
	if (at)
		return !*at;
	at = read_name(word, 'j', 16, &job);
	at = at ? read_name(at, 'r', 16, &n) : NULL;
	*out = SCENARIO_RANK(job, n);
	return at && !*at;
}

static const char *read_end(const char *at, uint64_t *out)
{
	const char *end = read_name(at, 's', 16, out);

	if (end)
		return end;
	end = read_name(at, 'h', 16, out);
	*out = SCENARIO_HOST_END(*out);
	return end;
}

static bool read_two(const char *word, char code, uint64_t *out)
{
	const bool is_port = code == 'p';
	const char *at = is_port ? read_name(word, 's', 16, out) : read_end(word, out);
	uint64_t second;

	if (!at || *at != (is_port ? '.' : '>'))
		return false;
	at = is_port ? read_name(at + 1, 'p', 16, &second) : read_end(at + 1, &second);
	*out = is_port ? SCENARIO_PORT(*out, second) : SCENARIO_CABLE(*out, second);
	return at && !*at;
}

static bool read_mode(const char *word, uint64_t *out)
{
	for (*out = 0; *out < INC_N_MODES; ++*out)
		if (!strcmp(word, inc_modes_of_switch[*out]))
			return true;
	return false;
}

static bool read_value(const char *word, char code, uint64_t *out)
{
	const char *end = NULL;

	switch (code) {
	case 'N':
		end = read_digits(word, out);
		return end && !*end;
	case 'R':
		end = read_decimal(word, 1, out);
		return end && !strcmp(end, "%") && *out <= 1000;
	case 'T':
		return read_time(word, out);
	case 'M':
		return read_mode(word, out);
	case 'S':
		end = read_name(word, 's', 16, out);
		return end && !*end;
	case 'H':
		end = read_name(word, 'h', 16, out);
		return end && !*end;
	case 'P':
		return read_process(word, out);
	}
	return read_two(word, code, out);
}

/* The description of a value in an error message. */
static const char *value_name(char code)
{
	static const char *const names[] = {
		['N'] = "a number",
		['R'] = "a percentage",
		['T'] = "a time (20us, 1.5ms, 3s)",
		['M'] = "a mode",
		['S'] = "a switch (s0)",
		['H'] = "a host (h0)",
		['P'] = "a process (j0r1, s0, ctl)",
		['p'] = "a port (s0.p1)",
		['C'] = "a cable (h0>s0)",
	};

	return names[(unsigned char)code];
}

/* Compares the words with a format. Returns how many of them match. `wanted` receives the first
 * word of the format that does not match, or "" if all words match. */
static unsigned int match(const char *format, char *const words[], unsigned int n,
			  struct scenario_line *out, char wanted[40])
{
	uint64_t *value = out->value;
	unsigned int i = 0;
	size_t len;

	for (; *format; format += len + (format[len] == ' '), i++) {
		len = strcspn(format, " ");
		if (*format == '%')
			snprintf(wanted, 40, "%s", value_name(format[1]));
		else
			snprintf(wanted, 40, "'%.*s'", (int)len, format);
		if (i == n)
			return i;
		if (*format == '%' ? !read_value(words[i], format[1], value++)
				   : strncmp(words[i], format, len) || words[i][len])
			return i;
	}
	snprintf(wanted, 40, "%s", i < n ? "the end of the line" : "");
	return i;
}

static unsigned int split(char *text, char *words[])
{
	unsigned int n = 0;
	char *rest = NULL, *word;

	text[strcspn(text, "#\n")] = 0;
	for (word = strtok_r(text, " \t", &rest); word && n < WORDS_MOST;
	     word = strtok_r(NULL, " \t", &rest))
		words[n++] = word;
	return n;
}

/* Reads one line. Of several formats that do not fit, the error names the one that fits best. */
static int read_line(struct scenario *s, char *text, const char *path, unsigned int number,
		     struct inc_err *err)
{
	char *words[WORDS_MOST], wanted[40], best_wanted[40] = "";
	unsigned int n = split(text, words), most = 0, fits;
	struct scenario_line line = {.number = number};

	if (!n)
		return 0;
	for (line.kind = 0; line.kind < SCENARIO_KINDS; line.kind++) {
		fits = match(formats[line.kind], words, n, &line, wanted);
		if (!wanted[0]) {
			sim_require(s->n + 1 < SCENARIO_MOST, "a scenario is too long");
			s->line[s->n++] = line;
			return 0;
		}
		if (fits > most || !best_wanted[0]) {
			most = fits;
			snprintf(best_wanted, sizeof(best_wanted), "%s", wanted);
		}
	}
	if (!most)
		return inc_err_set(err, EINVAL, "%s:%u: word 1: no line begins with '%s'", path,
				   number, words[0]);
	return inc_err_set(err, EINVAL, "%s:%u: word %u: %s is expected, not '%s'", path, number,
			   most + 1, best_wanted, most < n ? words[most] : "");
}

int scenario_read(struct scenario *s, const char *path, struct inc_err *err)
{
	FILE *f = fopen(path, "r");
	unsigned int number = 0;
	char text[LINE_MOST];
	int ret = 0;

	if (!f)
		return inc_err_set(err, errno, "%s: %s", path, strerror(errno));
	*s = (struct scenario){.path = path};
	while (!ret && fgets(text, sizeof(text), f))
		ret = read_line(s, text, path, ++number, err);
	fclose(f);
	return ret;
}
