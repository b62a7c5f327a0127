/* SPDX-License-Identifier: BSD-2-Clause */
/* The kind of memory in a range, from /proc/self/maps. */
#ifndef INC_RDMA_MEMORY_KIND_H
#define INC_RDMA_MEMORY_KIND_H

#include <stdint.h>

enum inc_rdma_memory {
	INC_RDMA_MEMORY_OTHER,   /* the memory is shared, of a file, partly unmapped, or unknown */
	INC_RDMA_MEMORY_PRIVATE, /* all of the memory is private and anonymous */
	/* all of the memory is private and anonymous, and some pages are huge pages of hugetlb */
	INC_RDMA_MEMORY_HUGE,
};

enum inc_rdma_memory inc_rdma_memory_kind(uintptr_t start, uintptr_t end);

#endif
