/* SPDX-License-Identifier: BSD-2-Clause */
/* The command line of ha-nccl-perf. */
#include <errno.h>
#include <string.h>
#include "lib/base/opt.h"
#include "hostlib/tools/ha_perf.h"

static int take_root(void *root, const char *text, struct inc_err *err)
{
	if (!strrchr(text, ':'))
		return inc_err_set(err, EINVAL, "'%.300s' has no port", text);
	return inc_hostport_parse("root", text, 1, root, err);
}

static const struct inc_opt_word modes[] = {
	{"pair", HA_PERF_PAIR}, {"ring", HA_PERF_RING}, {"group", HA_PERF_GROUP}, {}};

static const struct inc_opt_word dtypes[] = {{"int8", HA_NCCL_INT8},
					     {"uint8", HA_NCCL_UINT8},
					     {"int32", HA_NCCL_INT32},
					     {"uint32", HA_NCCL_UINT32},
					     {"int64", HA_NCCL_INT64},
					     {"uint64", HA_NCCL_UINT64},
					     {"float16", HA_NCCL_FLOAT16},
					     {"float32", HA_NCCL_FLOAT32},
					     {"float64", HA_NCCL_FLOAT64},
					     {"bfloat16", HA_NCCL_BFLOAT16},
					     {}};

static const struct inc_opt_word operators[] = {{"sum", HA_NCCL_SUM},
						{"prod", HA_NCCL_PROD},
						{"max", HA_NCCL_MAX},
						{"min", HA_NCCL_MIN},
						{}};

static const struct inc_opt_word memories[] = {
	{"host", HA_STREAM_HOST}, {"gpu", HA_STREAM_GPU}, {"dmabuf", HA_STREAM_DMABUF}, {}};

static const struct inc_opt options[] = {
	{.value = "MODE", .preset = "pair", INC_OPT_WORD(struct ha_perf_opts, mode, modes)},
	{.name = "plugin",
	 .value = "PATH",
	 .help = "the plugin's library",
	 .required = true,
	 INC_OPT_TEXT(struct ha_perf_opts, plugin, inc_path_check)},
	{.name = "api",
	 .value = "VERSION",
	 .help = "8 to 12, the version of the interface; else the newest that the plugin has",
	 INC_OPT_NUMBER(struct ha_perf_opts, api, HA_NET_OLDEST, HA_NET_NEWEST)},
	{.name = "rank",
	 .value = "R",
	 .help = "number of this rank",
	 .required = true,
	 INC_OPT_NUMBER(struct ha_perf_opts, rank, 0, HA_PERF_MAX_RANKS - 1)},
	{.name = "ranks",
	 .value = "N",
	 .preset = "2",
	 .help = "number of ranks: 2, or up to 8 in a ring or with --collnet",
	 INC_OPT_NUMBER(struct ha_perf_opts, ranks, 2, HA_PERF_MAX_RANKS)},
	{.name = "root",
	 .value = "HOST:PORT",
	 .help = "TCP address on which rank 0 listens and to which the others connect",
	 .required = true,
	 INC_OPT_TAKE(struct ha_perf_opts, root, take_root)},
	{.name = "bytes",
	 .value = "SIZE",
	 .help = "one size, of a message or of the ring's vector, with a suffix K, M or G",
	 INC_OPT_SIZE(struct ha_perf_opts, bytes)},
	{.name = "min",
	 .value = "SIZE",
	 .preset = "64",
	 .help = "the first of several sizes, each four times the one before",
	 INC_OPT_SIZE(struct ha_perf_opts, min_bytes)},
	{.name = "max",
	 .value = "SIZE",
	 .preset = "1M",
	 .help = "no size above this",
	 INC_OPT_SIZE(struct ha_perf_opts, max_bytes)},
	{.name = "iters",
	 .letter = 'n',
	 .value = "N",
	 .preset = "100",
	 .help = "iterations of a round",
	 INC_OPT_NUMBER(struct ha_perf_opts, iters, 1, 1000000000)},
	{.name = "warmup",
	 .letter = 'w',
	 .value = "N",
	 .preset = "10",
	 .help = "iterations before them that are not timed",
	 INC_OPT_NUMBER(struct ha_perf_opts, warmup, 0, 1000000000)},
	{.name = "seconds",
	 .value = "S",
	 .preset = "0",
	 .help = "rounds of each size go on for so long, or until rank 0 receives SIGINT",
	 INC_OPT_NUMBER(struct ha_perf_opts, seconds, 0, 86400)},
	{.name = "in-flight",
	 .value = "N",
	 .preset = "8",
	 .help = "requests of a comm at once",
	 INC_OPT_NUMBER(struct ha_perf_opts, stream.in_flight, 1, HA_NCCL_MAX_REQUESTS)},
	{.name = "channels",
	 .value = "N",
	 .preset = "1",
	 .help = "comms from a rank to another",
	 INC_OPT_NUMBER(struct ha_perf_opts, channels, 1, HA_PERF_MAX_CHANNELS)},
	{.name = "one-listen",
	 .help = "a rank accepts all its comms by one listen",
	 INC_OPT_FLAG(struct ha_perf_opts, one_listen)},
	{.name = "service-thread",
	 .help = "a second thread makes and closes comms meanwhile, as NCCL's service thread does",
	 INC_OPT_FLAG(struct ha_perf_opts, service_thread)},
	{.name = "group",
	 .value = "N",
	 .preset = "4",
	 .help = "receives of a group in mode group",
	 INC_OPT_NUMBER(struct ha_perf_opts, stream.group, 1, HA_NET_MAX_GROUP)},
	{.name = "collnet",
	 .help = "AllReduce in the switches instead: a rank is a node, and MODE has no meaning",
	 INC_OPT_FLAG(struct ha_perf_opts, collnet)},
	{.name = "comms",
	 .value = "N",
	 .preset = "1",
	 .help = "communicators of --collnet, which all reduce at the same time",
	 INC_OPT_NUMBER(struct ha_perf_opts, comms, 1, HA_PERF_MAX_COMMS)},
	{.name = "cycles",
	 .value = "N",
	 .preset = "0",
	 .help = "--collnet: connect and close a communicator so many times before",
	 INC_OPT_NUMBER(struct ha_perf_opts, cycles, 0, 1000000)},
	{.name = "dtype",
	 .value = "TYPE",
	 .preset = "float32",
	 .help = "type of the elements with --collnet",
	 INC_OPT_WORD(struct ha_perf_opts, dtype, dtypes)},
	{.name = "op",
	 .value = "OP",
	 .preset = "sum",
	 .help = "operator with --collnet",
	 INC_OPT_WORD(struct ha_perf_opts, op, operators)},
	{.name = "dev",
	 .value = "N",
	 .preset = "0",
	 .help = "the plugin's device",
	 INC_OPT_NUMBER(struct ha_perf_opts, dev, 0, 1023)},
	{.name = "check",
	 .help = "verify every byte of every message",
	 INC_OPT_FLAG(struct ha_perf_opts, stream.check)},
	{.name = "flush",
	 .help = "iflush after each receive",
	 INC_OPT_FLAG(struct ha_perf_opts, stream.flush)},
	{.name = "memory",
	 .value = "KIND",
	 .preset = "host",
	 .help = "host; or registered as a GPU's, by address (gpu) or from /dev/udmabuf (dmabuf)",
	 INC_OPT_WORD(struct ha_perf_opts, stream.memory, memories)},
	{.name = "optional-completion",
	 .help = "tell irecv that its completion is not needed; needs --check, not in a ring",
	 INC_OPT_FLAG(struct ha_perf_opts, stream.optional)},
	{.name = "limit-ms",
	 .value = "MS",
	 .preset = "30000",
	 .help = "give up after so long without progress",
	 INC_OPT_NUMBER(struct ha_perf_opts, stream.limit_ms, 1, 86400000)},
	{.name = "max-call-ms",
	 .value = "MS",
	 .preset = "0",
	 .help = "an error where a call that may not block took longer; 0: none",
	 INC_OPT_NUMBER(struct ha_perf_opts, max_call_ms, 0, 86400000)},
	{.name = "mark-calls",
	 .help = "for strace: a write() to no descriptor before (>) and after (<) each call",
	 INC_OPT_FLAG(struct ha_perf_opts, mark_calls)},
	{.name = "gap-ms",
	 .value = "MS",
	 .preset = "0",
	 .help = "list each gap between completions of at least so long; 0: none",
	 INC_OPT_NUMBER(struct ha_perf_opts, gap_ms, 0, 86400000)},
	{.name = "json",
	 .help = "print one object instead of a table",
	 INC_OPT_FLAG(struct ha_perf_opts, json)},
	{},
};

static int check(void *settings)
{
	struct ha_perf_opts *opts = settings;
	const uint64_t first = opts->bytes ? opts->bytes : opts->min_bytes;
	const uint64_t last = opts->bytes ? opts->bytes : opts->max_bytes;

	if (opts->collnet)
		opts->mode = HA_PERF_RING;
	if (opts->rank >= opts->ranks)
		return inc_usage("--rank %u of %u", opts->rank, opts->ranks);
	if (opts->mode != HA_PERF_RING && opts->ranks != 2)
		return inc_usage("--ranks %u: only a ring has more than 2", opts->ranks);
	if (opts->collnet && (first % 8 || last % 8))
		return inc_usage("--collnet: sizes must be multiples of 8 bytes");
	if (opts->collnet && (opts->one_listen || opts->service_thread))
		return inc_usage("--collnet: no --one-listen and no --service-thread");
	if (opts->collnet && opts->stream.memory != HA_STREAM_HOST)
		return inc_usage("--collnet: no --memory but host");
	if (!first || first > last)
		return inc_usage("--min %llu, --max %llu: no size", (unsigned long long)first,
				 (unsigned long long)last);
	if (last > HA_PERF_MAX_BYTES)
		return inc_usage("more than 1G in --%s", opts->bytes ? "bytes" : "max");
	if (opts->stream.optional && (opts->mode == HA_PERF_RING || !opts->stream.check))
		return inc_usage("--optional-completion needs --check, and is not for a ring");
	if (opts->mode != HA_PERF_GROUP)
		opts->stream.group = 1;
	opts->stream.elements = opts->mode == HA_PERF_RING;
	return 0;
}

static const struct inc_program program = {
	.name = "ha-nccl-perf",
	.man_section = 1,
	.brief = "try and time a network plugin of NCCL without a GPU",
	.about = "Loads a network plugin and calls it as NCCL does: it connects the ranks, moves "
		 "messages in host memory and times them. With --check it reports by name each "
		 "message that is lost, doubled, out of order, torn, of a wrong size or written "
		 "late. MODE pair: rank 0 sends, rank 1 receives; group: the same with grouped "
		 "receives of several tags; ring: the all-reduce of a vector over all ranks. "
		 "--collnet: the same by the plugin's CollNet. All ranks run it with the same "
		 "options.",
	.groups = {{options, 0}},
	.notes = "The longest time between two completions is the stall: after a failure, how "
		 "long data did not flow. Gaps count from the start, whose time of day is "
		 "started_at_ms in the JSON. An iteration is a "
		 "message (or group) on each channel, whose time is that of channel 0 from its "
		 "isend or irecv to its "
		 "completion, or an all-reduce. NCCL_DEBUG (WARN, INFO, TRACE) prints the plugin's "
		 "log on stderr. SIGTERM ends a rank with an error: it closes its comms with what "
		 "is "
		 "in flight, and the others are told.",
	.exits = "0 ok, 1 failure or a wrong message, 2 wrong command line.",
	.check = check,
};

int ha_perf_parse(struct ha_perf_opts *opts, int argc, char **argv)
{
	memset(opts, 0, sizeof(*opts));
	return inc_opt_parse(&program, argc, argv, opts, NULL);
}
