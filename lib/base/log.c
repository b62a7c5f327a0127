/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <jansson.h>
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/printable.h"

#define TEXT_BYTES 1024
/* As JSON a text has up to twice its bytes; no more than a pipe takes at once (PIPE_BUF). */
#define LINE_BYTES (2 * TEXT_BYTES + 256)

static const char *const level_names[] = {"error", "warn", "info", "debug"};

static char log_program[32] = "inc";
static enum inc_log_level log_level = INC_LOG_INFO;
static bool log_json;
static void (*log_sink)(const char *line, size_t len); /* NULL: stderr, which may wait */
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

/* One line with its newline; its length. */
static size_t compose(enum inc_log_level level, const char *text, char out[LINE_BYTES])
{
	const uint64_t now_ns = inc_wall_ns();
	const time_t now_s = now_ns / INC_NSEC_PER_SEC;
	json_t *line = NULL;
	char time_text[32];
	struct tm tm;
	size_t n;

	gmtime_r(&now_s, &tm);
	n = strftime(time_text, sizeof(time_text), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(time_text + n, sizeof(time_text) - n, ".%03uZ",
		 (unsigned int)(now_ns % INC_NSEC_PER_SEC / INC_NSEC_PER_MSEC));
	if (log_json)
		line = json_pack("{s:s, s:s, s:s, s:s}", "time", time_text, "level",
				 level_names[level], "program", log_program, "message", text);
	n = line ? json_dumpb(line, out, LINE_BYTES - 1, JSON_COMPACT) : 0;
	json_decref(line);
	if (!n) /* without memory for the object it is a plain line */
		n = snprintf(out, LINE_BYTES - 1, "%s %-5s %s: %s", time_text, level_names[level],
			     log_program, text);
	out[n++] = '\n';
	return n;
}

void inc_log_sink(void (*sink)(const char *line, size_t len))
{
	log_sink = sink;
}

/* A pipe or socket that has room at all has room for a line. */
static bool stderr_has_room(void)
{
	struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};

	return poll(&p, 1, 0) == 1;
}

void inc_log_unblocked(const char *line, size_t len)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static unsigned int left_out;
	char text[128], note[LINE_BYTES];

	pthread_mutex_lock(&lock);
	if (left_out && stderr_has_room()) {
		snprintf(text, sizeof(text),
			 "%u lines were left out because the log's reader did not read", left_out);
		if (write(STDERR_FILENO, note, compose(INC_LOG_WARN, text, note)) > 0)
			left_out = 0;
	}
	if (!stderr_has_room() || write(STDERR_FILENO, line, len) < 0)
		left_out++;
	pthread_mutex_unlock(&lock);
}

void inc_log(enum inc_log_level level, const char *fmt, ...)
{
	int saved_errno = errno;
	char text[TEXT_BYTES];
	char line[LINE_BYTES];
	va_list ap;
	size_t n;

	if (level > log_level || !may_write())
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	inc_printable(text); /* what a peer said may be quoted in it */
	n = compose(level, text, line);
	if (log_sink)
		log_sink(line, n);
	else
		fwrite(line, 1, n, stderr);
	errno = saved_errno;
}
