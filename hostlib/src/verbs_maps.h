/* SPDX-License-Identifier: BSD-2-Clause */
/* What kind of memory a range is, as /proc/self/maps says. */
#ifndef INCCL_VERBS_MAPS_H
#define INCCL_VERBS_MAPS_H

#include <stdint.h>

enum verbs_memory {
	VERBS_MEMORY_OTHER,   /* shared, of a file, in part unmapped, or not to be known */
	VERBS_MEMORY_PRIVATE, /* private and anonymous throughout */
	VERBS_MEMORY_HUGE,    /* likewise, with huge pages of hugetlb in it */
};

enum verbs_memory verbs_maps_kind(uintptr_t start, uintptr_t end);

#endif
