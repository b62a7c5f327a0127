/* SPDX-License-Identifier: BSD-2-Clause */
/* ha-nccl-perf: calls a network plugin as NCCL does, without a GPU. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/printing.h"
#include "hostlib/tools/ha_perf.h"

/* Prints a part of the report. Meanwhile a signal may end the program, because printing may
 * block. */
static int report(struct ha_perf *perf, int (*print)(struct ha_perf *perf))
{
	int err;

	inc_log_progress_end();
	inc_printing_begin();
	err = print(perf);
	inc_printing_end();
	return err;
}

static int run(struct ha_perf *perf)
{
	const struct ha_perf_opts *opts = &perf->opts;
	uint64_t bytes = opts->bytes ? opts->bytes : opts->min_bytes;
	const uint64_t last = opts->bytes ? opts->bytes : opts->max_bytes;
	int err = report(perf, ha_report_begin);

	perf->began_at_ns = inc_now_ns();
	perf->wall_ms = inc_wall_ns() / INC_NSEC_PER_MSEC;
	for (; bytes <= last && !err; bytes *= HA_PERF_SIZE_FACTOR) {
		err = ha_perf_size(perf, bytes);
		if (!err)
			err = report(perf, ha_report_size);
	}
	inc_log_progress_end();
	return err;
}

/* Checks how long the calls of the plugin took that must not block. NCCL's proxy thread makes them,
 * and all transfers wait for that thread. */
static int check_calls(struct ha_perf *perf)
{
	static const enum ha_net_call prompt[] = {HA_NET_connect,   HA_NET_accept, HA_NET_isend,
						  HA_NET_irecv,     HA_NET_iflush, HA_NET_test,
						  HA_NET_iallreduce};

	/* connect of CollNet comes first in the list, and it may wait */
	for (unsigned int i = perf->opts.collnet;
	     perf->opts.max_call_ms && i < sizeof(prompt) / sizeof(*prompt); i++)
		if (perf->net.calls[prompt[i]].max_ns > perf->opts.max_call_ms * INC_NSEC_PER_MSEC)
			return inc_err_set(&perf->net.err, ETIME, "blocked: %s took %.1f ms",
					   ha_net_call_name(prompt[i]),
					   (double)perf->net.calls[prompt[i]].max_ns / 1e6);
	return 0;
}

int main(int argc, char **argv)
{
	static struct ha_perf perf;
	int code = ha_perf_parse(&perf.opts, argc, argv), err;

	if (code >= 0)
		return code;
	ha_perf_catch_signals();
	err = ha_perf_open(&perf);
	if (!err)
		err = run(&perf);
	if (err) /* the error is printed here, because ha_perf_close() may replace it */
		fprintf(stderr, "ha-nccl-perf: rank %u: %s\n", perf.opts.rank, perf.net.err.msg);
	code = ha_perf_close(&perf);
	if (!err && !code)
		code = check_calls(&perf);
	if (!err && !code)
		code = report(&perf, ha_report_end);
	if (!err && code)
		fprintf(stderr, "ha-nccl-perf: rank %u: %s\n", perf.opts.rank, perf.net.err.msg);
	ha_perf_free(&perf);
	return err || code ? EXIT_FAILURE : EXIT_SUCCESS;
}
