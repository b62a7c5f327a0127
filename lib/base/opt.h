/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Values of command-line options. What is wrong with a command line is said in one line on
 * stderr, as getopt_long() says it: "program: text"; the program then ends with 2.
 */
#ifndef INC_OPT_H
#define INC_OPT_H

#include <stdint.h>

/* Says "program: text (see --help)" and returns -EINVAL. */
int inc_usage(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* A decimal number from min to max, without sign or blanks. 0, or -EINVAL after a message
 * that names the option. */
int inc_opt_number(const char *option, const char *text, uint64_t min, uint64_t max, uint64_t *out);
int inc_opt_uint(const char *option, const char *text, unsigned int min, unsigned int max,
		 unsigned int *out);

/* A path: not the empty text. */
int inc_opt_path(const char *option, const char *text);

/* The place of text among n names; -EINVAL after a message that lists them. */
int inc_opt_name(const char *option, const char *text, const char *const names[], int n);

#endif
