/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Coverage-guided fuzzing, with one program fuzz_TARGET for each parser. libFuzzer calls
 * LLVMFuzzerTestOneInput() of fuzz_TARGET.c on its single thread. The input is in a block of
 * exactly its length, so that a sanitizer reports any access beyond it. A target states by
 * fuzz_require() what must be true of the result. test_fuzz replays corpus/TARGET and runs each
 * target for a while; `make fuzz` runs the targets for longer.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>
#include "lib/base/err.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* Keeps the parsers' warnings out of libFuzzer's output. */
int LLVMFuzzerInitialize(int *argc, char ***argv);

/* Ends the program if the condition is false; libFuzzer then stores the input. */
#define fuzz_require(holds, ...)                                     \
	do {                                                         \
		if (!(holds))                                        \
			fuzz_wrong(__FILE__, __LINE__, __VA_ARGS__); \
	} while (0)
void fuzz_wrong(const char *file, int line, const char *fmt, ...)
	__attribute__((format(printf, 3, 4), noreturn));

/* Checks the error of a rejected input: one line without control characters that begins with
 * `where` (NULL: with anything). */
void fuzz_check_refusal(const struct inc_err *err, const char *where);
/* Checks the error of a rejected file. It has the form "FILE:LINE: what", or "FILE: what" if the
 * file has no line to name. */
void fuzz_check_file_refusal(const struct inc_err *err, const char *file);
/* Checks that the text contains no control characters, so that printable() leaves it unchanged.
 * lines: newlines are allowed. */
void fuzz_check_shown(const char *text, bool lines);

/* Reads numbers from the front of the bytes. A number is 0 if no bytes are left. */
struct fuzz_bytes {
	const uint8_t *data;
	size_t size;
};
uint8_t fuzz_take8(struct fuzz_bytes *bytes);
uint16_t fuzz_take16(struct fuzz_bytes *bytes);
uint32_t fuzz_take32(struct fuzz_bytes *bytes);
/* Reads a line up to its newline, which is dropped, or up to the end. Returns a text in a block of
 * its own, which the caller frees. Returns NULL if no bytes are left. */
char *fuzz_take_line(struct fuzz_bytes *bytes);
/* Returns all remaining bytes as a text in a block of its own, which the caller frees. */
char *fuzz_take_text(struct fuzz_bytes *bytes);

/* Writes the bytes to a file and returns its path, which is always the same. */
const char *fuzz_file(const void *data, size_t size);

#endif
