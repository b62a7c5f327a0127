/* SPDX-License-Identifier: BSD-2-Clause */
/* NumPy's .npy files (versions 1 and 2) of little-endian numbers in C order. */
#ifndef INCCL_TOOLS_NPY_H
#define INCCL_TOOLS_NPY_H

#include <stddef.h>
#include <stdint.h>
#include "hostlib/include/inccl.h"
#include "lib/base/err.h"

#define NPY_MAX_DIMS 32

struct npy {
	enum inccl_dtype dtype; /* any but bfloat16, which NumPy does not have */
	unsigned int ndim;
	uint64_t shape[NPY_MAX_DIMS];
	size_t count;        /* elements: product of the shape, 1 for a scalar */
	size_t header_bytes; /* where the data begins */
	void *data;          /* owned, npy_load() only */
};

/* Of all elements. */
size_t npy_bytes(const struct npy *npy);

/* Reads the header of a file whose whole length is size, of which buf holds the first
 * len bytes. 0, -EINVAL for what is not a file of this kind (the message says why) or
 * whose length does not fit the shape. */
int npy_parse(const void *buf, size_t len, uint64_t size, struct npy *npy, struct inc_err *err);

/* Loads a file; npy_free() frees. */
int npy_load(const char *path, struct npy *npy, struct inc_err *err);
void npy_free(struct npy *npy);

/* Writes a file of npy's type and shape with the elements at data, whole or not at all
 * (lib/base/outfile.h). */
int npy_save(const char *path, const struct npy *npy, const void *data, struct inc_err *err);

#endif
