/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads images of handwritten digits and their labels from a file. */
#ifndef DIGITS_DATA_H
#define DIGITS_DATA_H

#include <stddef.h>
#include <stdint.h>
#include "lib/base/err.h"

#define PIXELS  64
#define CLASSES 10

struct row {
	float pixel[PIXELS]; /* 0 to 1 */
	uint8_t label;
};

struct dataset {
	struct row *rows;
	size_t count;
};

/* Reads a file whose lines have 64 pixels (0 to 16) and a label (0 to 9), separated by commas.
 * Returns 0, or -errno; err names the line. */
int data_load(const char *path, struct dataset *set, struct inc_err *err);
void data_free(struct dataset *set);

#endif
