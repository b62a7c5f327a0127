/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The programs' log: one line per message on stderr, "time level program: text";
 * with INC_LOG_JSON set in the environment one JSON object per line. INC_LOG_LEVEL
 * (error, warn, info, debug) sets the threshold, info if unset. Not for libinccl,
 * which reports through its callers.
 */
#ifndef INC_LOG_H
#define INC_LOG_H

#include <stddef.h>
#include "lib/base/rate.h"

enum inc_log_level { INC_LOG_ERROR, INC_LOG_WARN, INC_LOG_INFO, INC_LOG_DEBUG };

/* Names the program in every line and reads the environment. Call once in main. */
void inc_log_init(const char *program);
/*
 * Where lines go instead of stderr: each call gets one whole line, with its newline, on the thread
 * that logs. NULL: to stderr, which waits for a reader that does not read. Call it while no other
 * thread logs.
 */
void inc_log_sink(void (*sink)(const char *line, size_t len));
/* A sink for programs that must go on: stderr, a terminal too, but where its reader does not read,
 * the line is left out. The next line that can be written is preceded by one that says how many
 * were. */
void inc_log_unblocked(const char *line, size_t len);
void inc_log(enum inc_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Whose doing lines are, and how many of them are written: the rest are counted, and the next one
 * that is written says how many. The owner sets name and the bounds of lines. */
struct inc_log_account {
	const char *name;
	struct inc_rate lines;
	unsigned int left_out;
};

/* What this thread logs from now on is on this account; NULL: on nobody's, all is written. Returns
 * whose it was. */
struct inc_log_account *inc_log_on(struct inc_log_account *account);

#define inc_error(...) inc_log(INC_LOG_ERROR, __VA_ARGS__)
#define inc_warn(...)  inc_log(INC_LOG_WARN, __VA_ARGS__)
#define inc_info(...)  inc_log(INC_LOG_INFO, __VA_ARGS__)
#define inc_debug(...) inc_log(INC_LOG_DEBUG, __VA_ARGS__)

#endif
