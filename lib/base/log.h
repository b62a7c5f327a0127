/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The programs' log: one line per message on stderr, "time level program: text", or one JSON
 * object per line if INC_LOG_JSON is set in the environment. INC_LOG_LEVEL (error, warn, info,
 * debug) sets the threshold, info if unset. libinccl does not use it, because it reports errors
 * through its callers.
 */
#ifndef INC_LOG_H
#define INC_LOG_H

#include <stddef.h>
#include <stdint.h>
#include "lib/base/rate.h"

enum inc_log_level { INC_LOG_ERROR, INC_LOG_WARN, INC_LOG_INFO, INC_LOG_DEBUG };

/* Sets the program's name for every line, and reads the environment. main() calls this once. */
void inc_log_init(const char *program);
/*
 * Replaces stderr: sink receives each whole line, with its newline, on the thread that logs. NULL
 * restores stderr, where a write blocks if the reader does not read. Call it while no other thread
 * logs.
 */
void inc_log_sink(void (*sink)(const char *line, size_t len));
/* A sink for programs that must not block: it writes to stderr, but drops a line if stderr has
 * no room because its reader (a terminal, too) does not read. The next line that can be written
 * is preceded by one that has the number of dropped lines. */
void inc_log_unblocked(const char *line, size_t len);

/* Prints a time of the wall clock as the log does: "2026-11-25T03:00:14.497Z". */
#define INC_LOG_TIME_BYTES 40
void inc_log_time(uint64_t wall_ns, char out[INC_LOG_TIME_BYTES]);

void inc_log(enum inc_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Shows how far the program has come, on a line of stderr that the next such call or the next line
 * of the log overwrites. Does nothing if stderr is no terminal, or less than a second after the
 * line before and after the first call. One thread at a time may call it. */
void inc_log_progress(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Erases that line if there is one. A program calls it before it prints to stdout. */
void inc_log_progress_end(void);

/* Limits how many lines are logged on account of one object, such as a peer. Lines beyond the
 * limit are dropped and counted, and the next one that is written is preceded by their number.
 * The owner sets name and the bounds of lines. */
struct inc_log_account {
	const char *name;
	struct inc_rate lines;
	unsigned int left_out;
};

/* Sets the account for all further lines of this thread. NULL: no limit. Returns the account that
 * was set before. */
struct inc_log_account *inc_log_on(struct inc_log_account *account);

#define inc_error(...) inc_log(INC_LOG_ERROR, __VA_ARGS__)
#define inc_warn(...)  inc_log(INC_LOG_WARN, __VA_ARGS__)
#define inc_info(...)  inc_log(INC_LOG_INFO, __VA_ARGS__)
#define inc_debug(...) inc_log(INC_LOG_DEBUG, __VA_ARGS__)

#endif
