/* SPDX-License-Identifier: BSD-2-Clause */
/* What kind of memory a range is, as /proc/self/maps says. */
#ifndef INC_RDMA_MEMORY_KIND_H
#define INC_RDMA_MEMORY_KIND_H

#include <stdint.h>

enum inc_rdma_memory {
	INC_RDMA_MEMORY_OTHER,   /* shared, of a file, in part unmapped, or not to be known */
	INC_RDMA_MEMORY_PRIVATE, /* private and anonymous throughout */
	INC_RDMA_MEMORY_HUGE,    /* likewise, with huge pages of hugetlb in it */
};

enum inc_rdma_memory inc_rdma_memory_kind(uintptr_t start, uintptr_t end);

#endif
