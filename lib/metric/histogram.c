/* SPDX-License-Identifier: BSD-2-Clause */
#include "lib/metric/histogram.h"

const struct inc_histogram_bounds inc_histogram_times_us = {
	.n = 17,
	.bound = {100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000, 500000,
		  1000000, 2000000, 5000000, 10000000, 20000000},
};

void inc_histogram_observe(struct inc_histogram *histogram,
			   const struct inc_histogram_bounds *bounds, uint64_t value)
{
	unsigned int i = 0;

	while (i < bounds->n && value > bounds->bound[i])
		i++;
	histogram->counts[i]++;
	histogram->sum += value;
}
