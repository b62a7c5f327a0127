/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
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
#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/base/printable.h"

#define TEXT_BYTES 1024
/* Limit of a line of the log. JSON escapes up to double a text. A line must not exceed PIPE_BUF, so
 * that one write passes it to a pipe. */
#define LINE_BYTES (2 * TEXT_BYTES + 256)

static const char *const level_names[] = {"error", "warn", "info", "debug"};

static char log_program[32] = "inc";
static enum inc_log_level log_level = INC_LOG_INFO;
static bool log_json;
/* receiver of each line; NULL: stderr, where a write may block */
static void (*log_sink)(const char *line, size_t len);
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

/* Whether the log may write one more line on this thread's account (struct inc_log_account). If it
 * may, this first logs how many lines of the account were dropped. */
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
		inc_warn("%s: %u lines were left out, because there were too many", account->name,
			 left_out);
		log_account = account;
	}
	return true;
}

void inc_log_time(uint64_t wall_ns, char out[INC_LOG_TIME_BYTES])
{
	const time_t wall_s = wall_ns / INC_NSEC_PER_SEC;
	struct tm tm;
	size_t n;

	gmtime_r(&wall_s, &tm);
	n = strftime(out, INC_LOG_TIME_BYTES, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(out + n, INC_LOG_TIME_BYTES - n, ".%03uZ",
		 (unsigned int)(wall_ns % INC_NSEC_PER_SEC / INC_NSEC_PER_MSEC));
}

/* Formats one line of the log with its newline. Returns its length. */
static size_t compose(enum inc_log_level level, const char *text, char out[LINE_BYTES])
{
	char time_text[INC_LOG_TIME_BYTES];
	json_t *line = NULL;
	size_t n;

	inc_log_time(inc_wall_ns(), time_text);
	if (log_json)
		line = json_pack("{s:s, s:s, s:s, s:s}", "time", time_text, "level",
				 level_names[level], "program", log_program, "message", text);
	n = line ? json_dumpb(line, out, LINE_BYTES - 1, JSON_COMPACT) : 0;
	json_decref(line);
	if (!n) /* there was no memory for the JSON object, so write a plain line */
		n = snprintf(out, LINE_BYTES - 1, "%s %-5s %s: %s", time_text, level_names[level],
			     log_program, text);
	out[n++] = '\n';
	return n;
}

void inc_log_sink(void (*sink)(const char *line, size_t len))
{
	log_sink = sink;
}

/* The state of inc_log_unblocked(): the descriptor it writes to, and the end of a line of which
 * only the beginning could be written. The lock protects all members. */
static struct {
	pthread_mutex_t lock;
	int fd; /* descriptor to which lines are written; -1: not opened yet */
	unsigned int left_out;
	char rest[LINE_BYTES];
	size_t rest_bytes;
} unblocked = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

/*
 * Opens the descriptor of inc_log_unblocked(). A terminal may have room for a part of a line, and a
 * write of more would block. So this opens the terminal a second time with O_NONBLOCK. On stderr
 * itself that flag would also hold for the programs that share stderr. If this user may not open
 * the terminal, a write may still block.
 */
static int unblocked_fd(void)
{
	int own = -1;

	if (unblocked.fd >= 0)
		return unblocked.fd;
	if (isatty(STDERR_FILENO))
		own = inc_fd_high(
			open("/proc/self/fd/2", O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC));
	unblocked.fd = own < 0 ? STDERR_FILENO : own;
	return unblocked.fd;
}

/* Writes a line to unblocked.fd, or only the line's beginning. In that case the rest goes to
 * unblocked.rest. Returns false if nothing could be written. If poll() reports a pipe or socket as
 * writable, it has room for a whole line, so only terminals leave a rest. */
static bool write_unblocked(const char *line, size_t len)
{
	struct pollfd p = {.fd = unblocked_fd(), .events = POLLOUT};
	const ssize_t n = poll(&p, 1, 0) == 1 ? write(p.fd, line, len) : -1;

	if (n < 0)
		return false;
	unblocked.rest_bytes = len - n;
	memmove(unblocked.rest, line + n, len - n);
	return true;
}

/* Writes the rest of an unfinished line, which must come before any other line. Returns whether the
 * whole rest was written. */
static bool finish_line(void)
{
	return !unblocked.rest_bytes ||
	       (write_unblocked(unblocked.rest, unblocked.rest_bytes) && !unblocked.rest_bytes);
}

void inc_log_unblocked(const char *line, size_t len)
{
	char text[128], note[LINE_BYTES];

	pthread_mutex_lock(&unblocked.lock);
	if (unblocked.left_out && finish_line()) {
		snprintf(text, sizeof(text),
			 "%u lines were left out because the log's reader did not read",
			 unblocked.left_out);
		if (write_unblocked(note, compose(INC_LOG_WARN, text, note)))
			unblocked.left_out = 0;
	}
	if (unblocked.left_out || !finish_line() || !write_unblocked(line, len))
		unblocked.left_out++;
	pthread_mutex_unlock(&unblocked.lock);
}

/* The terminal shows a line of inc_log_progress(), which a thread that logs erases. */
static bool shows_progress;

#define ERASE_LINE "\r\033[K"

void inc_log_progress(const char *fmt, ...)
{
	static int is_terminal = -1;
	static uint64_t shown_at_ns;
	char text[80]; /* a line that a terminal wraps could not be erased */
	uint64_t now_ns;
	va_list ap;

	if (is_terminal < 0)
		is_terminal = isatty(STDERR_FILENO);
	if (!is_terminal)
		return;
	now_ns = inc_now_ns();
	shown_at_ns = shown_at_ns ?: now_ns;
	if (now_ns < shown_at_ns + INC_NSEC_PER_SEC)
		return;
	shown_at_ns = now_ns;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	fprintf(stderr, ERASE_LINE "%s", text);
	__atomic_store_n(&shows_progress, true, __ATOMIC_RELAXED);
}

void inc_log_progress_end(void)
{
	if (__atomic_exchange_n(&shows_progress, false, __ATOMIC_RELAXED))
		fputs(ERASE_LINE, stderr);
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
	inc_printable(text); /* the text may quote a peer, so it is made printable */
	n = compose(level, text, line);
	if (log_sink) {
		log_sink(line, n);
	} else {
		inc_log_progress_end();
		fwrite(line, 1, n, stderr);
	}
	errno = saved_errno;
}
