/* SPDX-License-Identifier: BSD-2-Clause */
/* The kind of memory in a range, from /proc/self/maps. */
#ifndef INC_RDMA_MEMORY_KIND_H
#define INC_RDMA_MEMORY_KIND_H

#include <stdint.h>

enum inc_rdma_memory {
	INC_RDMA_MEMORY_OTHER,   /* shared, of a file, partly unmapped, or unknown */
	INC_RDMA_MEMORY_PRIVATE, /* all of it is private and anonymous */
	INC_RDMA_MEMORY_HUGE,    /* likewise, and some are huge pages of hugetlb */
};

enum inc_rdma_memory inc_rdma_memory_kind(uintptr_t start, uintptr_t end);

#endif
