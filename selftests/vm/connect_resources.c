/* SPDX-License-Identifier: BSD-2-Clause */
/* Counts the resources that connections use, so that a test can compare them before and after. */
#include <inttypes.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "lib/base/clock.h"
#include "selftests/belongings.h"
#include "selftests/vm/connect_live.h"

/* ---- resources of the kernel ----------------------------------------------------------------- */

/* Returns the sum of "name":N over all devices in the output of `rdma resource`. */
static unsigned int sum_of(const char *text, const char *name)
{
	char key[16];
	unsigned int sum = 0;

	snprintf(key, sizeof(key), "\"%s\":", name);
	while ((text = strstr(text, key))) {
		text += strlen(key);
		sum += strtoul(text, NULL, 10);
	}
	return sum;
}

static void read_devices(struct resources *resources)
{
	char text[4096];
	FILE *f = popen("exec rdma -j resource show", "r");
	size_t n;

	assert_non_null(f);
	n = fread(text, 1, sizeof(text) - 1, f);
	text[n] = '\0';
	if (pclose(f) || !strstr(text, "\"qp\":"))
		fail_msg("rdma resource show: '%s'", text);
	resources->queue_pairs = sum_of(text, "qp");
	resources->completion_queues = sum_of(text, "cq");
	resources->regions = sum_of(text, "mr");
	resources->domains = sum_of(text, "pd");
}

static uint64_t pinned(void)
{
	FILE *f = fopen("/proc/self/status", "r");
	uint64_t kib = 0;
	char line[200];

	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "VmPin: %" SCNu64, &kib) == 1)
			break;
	fclose(f);
	return kib << 10;
}

static void read_process(struct resources *resources)
{
	resources->descriptors = open_descriptors();
	resources->pinned_bytes = pinned();
	resources->heap_bytes = mallinfo2().uordblks + mallinfo2().hblkhd;
}

void resources_now(struct resources *resources)
{
	memset(resources, 0, sizeof(*resources));
	read_devices(resources);
	read_process(resources);
}

/* Compares all resources. Those of the devices are read last, and only if the others match, because
 * that starts another program and is slow. */
static bool balanced(const struct resources *before, struct resources *now)
{
	*now = *before;
	read_process(now);
	now->heap_bytes = before->heap_bytes;
	if (memcmp(before, now, sizeof(*now)))
		return false;
	read_devices(now);
	return !memcmp(before, now, sizeof(*now));
}

void resources_returned(struct connect_sides *s, const struct resources *before)
{
	uint64_t deadline_at_ns = inc_now_ns() + DEADLINE_S * INC_NSEC_PER_SEC;
	struct resources now;

	while (!balanced(before, &now)) {
		if (inc_now_ns() > deadline_at_ns)
			fail_msg("left behind: %d queue pairs, %d completion queues, %d regions, "
				 "%d domains, %d descriptors, %" PRId64 " bytes pinned",
				 (int)(now.queue_pairs - before->queue_pairs),
				 (int)(now.completion_queues - before->completion_queues),
				 (int)(now.regions - before->regions),
				 (int)(now.domains - before->domains),
				 (int)(now.descriptors - before->descriptors),
				 (int64_t)(now.pinned_bytes - before->pinned_bytes));
		if (s)
			turn(s, deadline_at_ns, "nothing is left behind", __LINE__);
	}
}

/* ---- resources of this process --------------------------------------------------------------- */

double figure(struct connect_sides *s, int side, const char *name)
{
	char *text = inc_connect_figures(s->ctx[side]), *line, *rest;
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
