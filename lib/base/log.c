/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <jansson.h>
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/printable.h"

static const char *const level_names[] = {"error", "warn", "info", "debug"};

static char log_program[32] = "inc";
static enum inc_log_level log_level = INC_LOG_INFO;
static bool log_json;
static __thread struct inc_log_account *log_account;

void inc_log_init(const char *program)
{
	const char *base = strrchr(program, '/');
	const char *level = getenv("INC_LOG_LEVEL");

	snprintf(log_program, sizeof(log_program), "%s", base ? base + 1 : program);
	log_json = getenv("INC_LOG_JSON") != NULL;
	for (unsigned int i = 0; level && i < sizeof(level_names) / sizeof(level_names[0]); i++) {
		if (strcmp(level, level_names[i]) == 0)
			log_level = i;
	}
}

struct inc_log_account *inc_log_on(struct inc_log_account *account)
{
	struct inc_log_account *before = log_account;

	log_account = account;
	return before;
}

/* Whether the account has room for a line, after one that says what was left out. */
static bool may_write(void)
{
	struct inc_log_account *account = log_account;
	unsigned int left_out;

	if (!account)
		return true;
	if (inc_rate_take(&account->lines, 1, inc_now_ns())) {
		account->left_out++;
		return false;
	}
	left_out = account->left_out;
	if (left_out) {
		account->left_out = 0;
		log_account = NULL;
		inc_warn("%s: %u lines were left out, it makes too many", account->name, left_out);
		log_account = account;
	}
	return true;
}

void inc_log(enum inc_log_level level, const char *fmt, ...)
{
	int saved_errno = errno;
	uint64_t now_ns;
	time_t now_s;
	char time_text[32];
	char text[1024];
	struct tm tm;
	va_list ap;
	size_t n;

	if (level > log_level || !may_write())
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	inc_printable(text); /* what a peer said may be quoted in it */

	now_ns = inc_wall_ns();
	now_s = now_ns / INC_NSEC_PER_SEC;
	gmtime_r(&now_s, &tm);
	n = strftime(time_text, sizeof(time_text), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(time_text + n, sizeof(time_text) - n, ".%03uZ",
		 (unsigned int)(now_ns % INC_NSEC_PER_SEC / INC_NSEC_PER_MSEC));

	if (log_json) {
		json_t *line =
			json_pack("{s:s, s:s, s:s, s:s}", "time", time_text, "level",
				  level_names[level], "program", log_program, "message", text);
		/* without memory it goes out as a plain line */
		char *out = line ? json_dumps(line, JSON_COMPACT) : NULL;

		json_decref(line);
		if (out) {
			fprintf(stderr, "%s\n", out);
			free(out);
			errno = saved_errno;
			return;
		}
	}
	fprintf(stderr, "%s %-5s %s: %s\n", time_text, level_names[level], log_program, text);
	errno = saved_errno;
}
