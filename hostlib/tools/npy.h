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
	/* type of the elements; never bfloat16, which NumPy does not have */
	enum inccl_dtype dtype;
	unsigned int ndim;
	uint64_t shape[NPY_MAX_DIMS];
	size_t count;        /* number of elements: the product of the shape; 1 for a scalar */
	size_t header_bytes; /* offset of the data in the file */
	void *data;          /* the elements, which only npy_load() sets and npy_free() frees */
};

/* Returns the size of all elements of an array in bytes. */
size_t npy_bytes(const struct npy *npy);

/* Reads the header of a .npy file of `size` bytes, whose first len bytes are in buf. Returns 0, or
 * -EINVAL with the reason in err: the file is no .npy file of this kind, or its size does not match
 * the shape. */
int npy_parse(const void *buf, size_t len, uint64_t size, struct npy *npy, struct inc_err *err);

/* Loads a .npy file with its elements. npy_free() frees the elements. */
int npy_load(const char *path, struct npy *npy, struct inc_err *err);
void npy_free(struct npy *npy);

/* Writes a .npy file with npy's type and shape, and the elements at data. The file appears only
 * when it is complete (lib/base/outfile.h). */
int npy_save(const char *path, const struct npy *npy, const void *data, struct inc_err *err);

#endif
