/* SPDX-License-Identifier: BSD-2-Clause */
/* Counts the resources that connections use, so that a test can compare them before and after. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "lib/base/clock.h"
#include "selftests/belongings.h"
#include "selftests/vm/connect_live.h"

/* the first four as rdma(8) prints them */
static const char *const names[RESOURCES] = {"qp", "cq", "mr", "pd", "descriptors", "bytes pinned"};

/* Sums up "name number" over all devices. */
static void read_devices(struct resources *resources)
{
	FILE *f = popen("exec rdma resource show", "r");
	unsigned int i, found = 0;
	unsigned long number;
	char word[32];

	assert_non_null(f);
	for (i = QUEUE_PAIRS; i <= DOMAINS; i++)
		resources->of[i] = 0;
	while (fscanf(f, "%31s", word) == 1)
		for (i = QUEUE_PAIRS; i <= DOMAINS; i++)
			if (!strcmp(word, names[i]) && fscanf(f, "%lu", &number) == 1) {
				resources->of[i] += number;
				found++;
			}
	assert_int_equal(pclose(f), 0);
	assert_true(found);
}

static void read_process(struct resources *resources)
{
	FILE *f = fopen("/proc/self/status", "r");
	uint64_t kib = 0;
	char line[200];

	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "VmPin: %" SCNu64, &kib) == 1)
			break;
	fclose(f);
	resources->of[PINNED_BYTES] = kib << 10;
	resources->of[DESCRIPTORS] = open_descriptors();
}

void resources_now(struct resources *resources)
{
	read_devices(resources);
	read_process(resources);
}

/* Compares all resources. Those of the devices are read last, and only if the others match, because
 * that starts another program and is slow. */
static bool balanced(const struct resources *before, struct resources *now)
{
	*now = *before;
	read_process(now);
	if (memcmp(before, now, sizeof(*now)))
		return false;
	read_devices(now);
	return !memcmp(before, now, sizeof(*now));
}

void resources_returned(const struct resources *before)
{
	uint64_t deadline_at_ns = inc_now_ns() + DEADLINE_S * INC_NSEC_PER_SEC;
	struct resources now;
	int i;

	while (!balanced(before, &now)) {
		for (i = 0; i < RESOURCES && inc_now_ns() > deadline_at_ns; i++)
			if (now.of[i] != before->of[i])
				fail_msg("%s: %" PRIu64 " before, %" PRIu64 " now", names[i],
					 before->of[i], now.of[i]);
		if (sides.base)
			turn(UINT64_MAX, "", __LINE__);
	}
}

double figure(int side, const char *name)
{
	char *text = inc_connect_figures(sides.ctx[side]), *line, *rest;
	size_t len = strlen(name);
	bool there = false;
	double sum = 0;

	assert_non_null(text);
	for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		if (!strncmp(line, name, len) && strchr(" {", line[len])) {
			sum += atof(strrchr(line, ' '));
			there = true;
		}
	free(text);
	if (!there)
		fail_msg("no figure %s", name);
	return sum;
}
