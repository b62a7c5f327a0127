/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Coverage-guided fuzzing, one program fuzz_TARGET for each parser: libFuzzer calls
 * LLVMFuzzerTestOneInput() of fuzz_TARGET.c on its one thread, with bytes in a block of their own
 * length, so that a sanitizer sees one byte too far. Beyond what the sanitizers see, a target says
 * by fuzz_require() what must hold of what was read. test_fuzz replays corpus/TARGET and runs each
 * target for a while; `make fuzz` runs them for longer.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>
#include "lib/base/err.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* Keeps warnings of the parsers' out of libFuzzer's own output. */
int LLVMFuzzerInitialize(int *argc, char ***argv);

/* Ends the program where it does not hold: libFuzzer then keeps the input. */
#define fuzz_require(holds, ...)                                     \
	do {                                                         \
		if (!(holds))                                        \
			fuzz_wrong(__FILE__, __LINE__, __VA_ARGS__); \
	} while (0)
void fuzz_wrong(const char *file, int line, const char *fmt, ...)
	__attribute__((format(printf, 3, 4), noreturn));

/* A refusal is one line that a terminal may show, and begins with where; NULL: with anything. */
void fuzz_check_refusal(const struct inc_err *err, const char *where);
/* The same for "FILE:LINE: what", or "FILE: what" of a file without a line to name. */
void fuzz_check_file_refusal(const struct inc_err *err, const char *file);
/* Nothing in a text that a terminal would obey: printable() leaves it as it is. lines: newlines are
 * allowed. */
void fuzz_check_shown(const char *text, bool lines);

/* Takes numbers off the front of the bytes; 0 where there are none left. */
struct fuzz_bytes {
	const uint8_t *data;
	size_t size;
};
uint8_t fuzz_take8(struct fuzz_bytes *bytes);
uint16_t fuzz_take16(struct fuzz_bytes *bytes);
uint32_t fuzz_take32(struct fuzz_bytes *bytes);
/* The next bytes up to a newline, which is taken, too, or to the end, as a text of its own block,
 * which the caller frees. NULL: nothing is left. */
char *fuzz_take_line(struct fuzz_bytes *bytes);
/* All that is left as a text, likewise. */
char *fuzz_take_text(struct fuzz_bytes *bytes);

/* A file that holds the bytes: its path, which is the same each time. */
const char *fuzz_file(const void *data, size_t size);

#endif
