/* SPDX-License-Identifier: BSD-2-Clause */
/* Descriptors of this process, for tests that look for leaks: what counts is that it stays. */
#ifndef SELFTESTS_DESCRIPTORS_H
#define SELFTESTS_DESCRIPTORS_H

#include <dirent.h>
#include <stdlib.h>

static inline unsigned int open_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned int n = 0;

	if (!dir)
		abort();
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

#endif
