/* SPDX-License-Identifier: BSD-2-Clause */
/* The smaller of two numbers. */
#ifndef INC_MIN_H
#define INC_MIN_H

static inline unsigned int inc_min(unsigned int a, unsigned int b)
{
	return a < b ? a : b;
}

#endif
