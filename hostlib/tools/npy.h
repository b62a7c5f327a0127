/* SPDX-License-Identifier: BSD-2-Clause */
/* NumPy's .npy files (versions 1 and 2) of little-endian int32 in C order. */
#ifndef INCCL_TOOLS_NPY_H
#define INCCL_TOOLS_NPY_H

#include <stddef.h>
#include <stdint.h>
#include "lib/base/err.h"

#define NPY_MAX_DIMS 32

struct npy {
	unsigned int ndim;
	uint64_t shape[NPY_MAX_DIMS];
	size_t count;        /* elements: product of the shape, 1 for a scalar */
	size_t header_bytes; /* where the data begins */
	int32_t *data;       /* owned, npy_load() only */
};

/* Reads the header of a file whose whole length is size, of which buf holds the first
 * len bytes. 0, -EINVAL for what is not a file of this kind (the message says why) or
 * whose length does not fit the shape. */
int npy_parse(const void *buf, size_t len, uint64_t size, struct npy *npy, struct inc_err *err);

/* Loads a file; npy_free() frees. */
int npy_load(const char *path, struct npy *npy, struct inc_err *err);
void npy_free(struct npy *npy);

/* Writes a file of npy's shape with the given elements, whole or not at all
 * (lib/base/outfile.h). */
int npy_save(const char *path, const struct npy *npy, const int32_t *data, struct inc_err *err);

#endif
