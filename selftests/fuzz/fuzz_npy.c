// SPDX-License-Identifier: BSD-2-Clause
/*
 * RUNS: 60000
 *
 * Target: .npy files. The data of an accepted file is complete, and has the length of its shape.
 * When it is saved, the new file loads as the same data.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "hostlib/tools/npy.h"
#include "selftests/fuzz/fuzz.h"

#define MOST_BYTES (1 << 20) /* capacity of the pipe in bytes */

/* Saves the data into a pipe, because npy writes directly to a file that is not a regular one. */
static void check_saved(const struct npy *npy)
{
	static uint8_t bytes[MOST_BYTES];
	static int ends[2];
	static char path[40];
	struct inc_err err = {""};
	struct npy again;
	ssize_t n;

	if (!*path) {
		fuzz_require(!pipe2(ends, O_CLOEXEC) &&
				     fcntl(ends[1], F_SETPIPE_SZ, MOST_BYTES) >= MOST_BYTES,
			     "no pipe");
		snprintf(path, sizeof(path), "/proc/self/fd/%d", ends[1]);
	}
	if (npy_bytes(npy) > MOST_BYTES / 2)
		return;
	fuzz_require(!npy_save(path, npy, npy->data, &err), "%s", err.msg);
	n = read(ends[0], bytes, sizeof(bytes));
	fuzz_require(n > 0 && !npy_parse(bytes, n, n, &again, &err), "its file is refused: %s",
		     err.msg);
	fuzz_require(again.dtype == npy->dtype && again.ndim == npy->ndim &&
			     again.count == npy->count &&
			     !memcmp(again.shape, npy->shape, sizeof(npy->shape)) &&
			     !memcmp(bytes + again.header_bytes, npy->data, npy_bytes(npy)),
		     "another array the second time");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *path = fuzz_file(data, size);
	struct inc_err err = {""};
	struct npy npy, parsed;

	if (npy_load(path, &npy, &err)) {
		fuzz_check_refusal(&err, path);
		fuzz_require(npy_parse(data, size, size, &parsed, NULL), "and yet it is one");
		return 0;
	}
	fuzz_require(!npy_parse(data, size, size, &parsed, NULL), "and yet it is none");
	fuzz_require(npy.header_bytes + npy_bytes(&npy) == size, "another size");
	fuzz_require(!memcmp(npy.data, data + npy.header_bytes, npy_bytes(&npy)), "other data");
	check_saved(&npy);
	npy_free(&npy);
	return 0;
}
