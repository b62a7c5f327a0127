/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RDMA WRITEs with immediate from one device to another. Commands arrive on standard input, so that
 * tests can change the wire in between. Each command is answered by a line of JSON:
 *
 *	write N BYTES   side 0 writes N messages; the answer follows when each has its completion
 *	fence           side 1's queue pair goes to ERR
 *	look            only reports
 *
 * sent: successful completions of the last write. status: that of the first failed completion.
 * arrived: side 1's completions since the previous answer. placed: how many messages of the last
 * write are in side 1's memory.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <cmocka.h>
#include "selftests/vm/rdma_ends.h"
#include "selftests/vm/rdma_side.h"

/* time limit; in half of it a device with a timeout of 17 fails its request */
#define SILENCE_MS 8000
#define PLACE      (RDMA_SIDE_BYTES / RDMA_SIDE_MESSAGES)

struct last {
	unsigned int n, bytes, seed, sent;
	const char *status;
	bool silent;
};

/* The byte at offset `at` of message i in the last write. It is never 0. */
static uint8_t pattern(const struct last *last, unsigned int i, unsigned int at)
{
	return 1 + (last->seed * 131 + i * 7 + at) % 255;
}

static void write_all(struct rdma_side s[2], struct last *last)
{
	struct inc_err err = {""};
	struct ibv_wc wc;
	unsigned int i, at;

	last->seed++;
	last->sent = 0;
	last->silent = false;
	last->status = "success";
	for (i = 0; i < last->n; i++) {
		for (at = 0; at < last->bytes; at++)
			s[0].mem[i * PLACE + at] = pattern(last, i, at);
		rdma_side_receive(&s[1], i, 0, 0);
	}
	for (i = 0; i < last->n; i++)
		rdma_side_post(&s[0], i, IBV_WR_RDMA_WRITE_WITH_IMM, i * PLACE, last->bytes, &s[1],
			       i * PLACE);
	for (i = 0; i < last->n; i++) {
		if (!last->silent && !rdma_side_next_within(&s[0], SILENCE_MS, &wc)) {
			last->silent = true;
			if (inc_rdma_qp_to_err(&s[0].qp, &err))
				fail_msg("%s", err.msg);
		}
		if (last->silent)
			wc = rdma_side_next(&s[0]);
		if (wc.status == IBV_WC_SUCCESS)
			last->sent++;
		else if (last->sent == i)
			last->status = ibv_wc_status_str(wc.status);
	}
}

static unsigned int placed(const struct rdma_side *s, const struct last *last)
{
	unsigned int i, at, n = 0;

	for (i = 0; i < last->n; i++) {
		for (at = 0; at < last->bytes && s->mem[i * PLACE + at] == pattern(last, i, at);)
			at++;
		n += at == last->bytes;
	}
	return n;
}

/* Polls all completions of a side, and returns how many succeeded. */
static unsigned int arrived(struct rdma_side *s)
{
	struct ibv_wc wc;
	unsigned int n = 0;

	while (ibv_poll_cq(s->completions.cq, 1, &wc) == 1)
		n += wc.status == IBV_WC_SUCCESS;
	return n;
}

int main(int argc, char **argv)
{
	struct last last = {.status = "success"};
	struct inc_err err = {""};
	struct rdma_side s[2];
	char line[80];

	if (argc < 2 || !read_ends(argc - 1, argv + 1, "rdma_writes TIMEOUT"))
		return 2;
	rdma_side_pair_open(s, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, atoi(argv[1]));
	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "write %u %u", &last.n, &last.bytes) == 2) {
			if (last.n > RDMA_SIDE_MESSAGES || last.bytes > PLACE)
				return 2;
			write_all(s, &last);
		} else if (!strcmp(line, "fence\n")) {
			if (inc_rdma_qp_to_err(&s[1].qp, &err))
				fail_msg("%s", err.msg);
		} else if (strcmp(line, "look\n")) {
			return 2;
		}
		printf("{\"sent\": %u, \"status\": \"%s\", \"arrived\": %u, \"placed\": %u, "
		       "\"silent\": %s}\n",
		       last.sent, last.status, arrived(&s[1]), placed(&s[1], &last),
		       last.silent ? "true" : "false");
		fflush(stdout);
	}
	rdma_side_pair_close(s);
	return 0;
}
