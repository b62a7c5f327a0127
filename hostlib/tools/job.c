/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "lib/conf/messages.h"
#include "lib/base/addr.h"
#include "lib/net/netdev.h"
#include "lib/net/hostport.h"
#include "lib/proto/maps.h"
#include "lib/proto/roce.h"
#include "hostlib/tools/job.h"
#include "lib/base/log.h"
#include "lib/base/printable.h"
#include "lib/base/stdout.h"

void job_init(struct job *job)
{
	memset(job, 0, sizeof(*job));
	job->group_opts.sz = sizeof(job->group_opts);
	job->group_opts.rank = -1;
	job->comm_opts.sz = sizeof(job->comm_opts);
	job->mode = INCCL_MODE_SENDRECV;
}

static const struct inc_opt_word transports[] = {{"auto", INCCL_TRANSPORT_AUTO},
						 {"soft", INCCL_TRANSPORT_SOFT},
						 {"verbs", INCCL_TRANSPORT_VERBS},
						 {}};
static const struct inc_opt_word modes[] = {
	{"sendrecv", INCCL_MODE_SENDRECV}, {"write", INCCL_MODE_WRITE}, {}};
static const struct inc_opt_word byte_orders[] = {
	{"little", INCCL_ORDER_LITTLE}, {"network", INCCL_ORDER_NETWORK}, {}};
#define PAYLOAD(bytes) {#bytes, bytes},
static const struct inc_opt_word payloads[] = {INC_RC_PAYLOADS(PAYLOAD){}};

/* Checks a job's name by the library's rule (inccl.h): 1 to 64 printable ASCII characters without
 * blanks. */
static int check_job_name(const char *text, struct inc_err *err)
{
	if (strlen(text) <= 64 && inc_is_word(text))
		return 0;
	return inc_err_set(err, EINVAL,
			   "'%.300s': 1 to 64 printable ASCII characters without blanks", text);
}

const struct inc_opt job_options[] = {
	INC_OPT_HEADING("The job (default: the environment, INCCL_* and then the launcher's "
			"variables):"),
	{.name = "controller",
	 .value = "HOST[:PORT][,...]",
	 .help = "the controller to join (port " INC_STR(INC_PORT_MEMBERS) ")",
	 INC_OPT_TEXT(struct job, group_opts.controller, inc_hostports_check)},
	{.name = "job",
	 .value = "NAME",
	 .help = "name of the job, the same on all its ranks",
	 INC_OPT_TEXT(struct job, group_opts.job, check_job_name)},
	{.name = "rank",
	 .value = "R",
	 .help = "number of this rank, from 0",
	 INC_OPT_NUMBER(struct job, group_opts.rank, 0, 65535)},
	{.name = "size",
	 .value = "N",
	 .help = "how many ranks there are",
	 INC_OPT_NUMBER(struct job, group_opts.world_size, 1, 65536)},
	{.name = "addr",
	 .value = "IP",
	 .help = "own address on the fabric",
	 INC_OPT_TEXT(struct job, group_opts.address, inc_addr_check)},
	{.name = "interface",
	 .value = "NAME",
	 .help = "the interface that has it",
	 INC_OPT_TEXT(struct job, group_opts.interface, inc_ifname_check)},
	INC_OPT_HEADING("The communicator:"),
	{.name = "transport",
	 .help = "auto (default): verbs where there is a device for it",
	 INC_OPT_WORD(struct job, comm_opts.transport, transports)},
	{.name = "mode",
	 .help = "RDMA SEND (default) or RDMA WRITE",
	 INC_OPT_WORD(struct job, mode, modes)},
	{.name = "byte-order",
	 .help = "byte order of the elements on the wire, the same on every rank (default little)",
	 INC_OPT_WORD(struct job, comm_opts.byte_order, byte_orders)},
	{.name = "payload",
	 .help = "largest packet payload, bytes (default: by the MTU)",
	 INC_OPT_WORD(struct job, comm_opts.payload, payloads)},
	{.name = "message-packets",
	 .value = "M",
	 .help = "packets per message (default: what suits the switches)",
	 INC_OPT_NUMBER(struct job, comm_opts.message_packets, 1, INC_MAX_MESSAGE_PACKETS)},
	{.name = "window",
	 .value = "W",
	 .help = "messages under way (default: 256 packets; 512 in termination mode)",
	 INC_OPT_NUMBER(struct job, comm_opts.window, 1, INC_MAX_SLOTS)},
	{.name = "channels",
	 .value = "C",
	 .help = "connections side by side for large collectives (default: what suits the "
		 "switches)",
	 INC_OPT_NUMBER(struct job, comm_opts.channels, 1, INC_MAX_CHANNELS)},
	{.name = "timeout-ms",
	 .value = "T",
	 .help = "give up after so long without progress (default 30000)",
	 INC_OPT_NUMBER(struct job, comm_opts.timeout_ms, 1, 86400000)},
	INC_OPT_HEADING("Other options:"),
	{},
};

int job_take_op(void *op, const char *text, struct inc_err *err)
{
	return inccl_op_parse(text, op) ? inc_err_set(err, EINVAL, "'%.300s' is unknown", text) : 0;
}

int job_check(const struct job *job)
{
	const struct inccl_communicator_opts *c = &job->comm_opts;
	const struct inccl_group_opts *g = &job->group_opts;

	if ((g->rank >= 0) != (g->world_size > 0))
		return inc_usage("--rank and --size belong together");
	if (g->world_size > 0 && g->rank >= g->world_size)
		return inc_usage("--rank %d --size %d: ranks are 0 to %d", g->rank, g->world_size,
				 g->world_size - 1);
	if (g->address && g->interface)
		return inc_usage("--addr and --interface exclude each other");
	if (c->window && c->message_packets && c->window > INC_MAX_SLOTS / c->message_packets)
		return inc_usage("--window %u --message-packets %u: at most %d packets together",
				 c->window, c->message_packets, INC_MAX_SLOTS);
	return 0;
}

int job_flush(void)
{
	struct inc_err err;
	int ret = inc_stdout_flush(&err);

	if (ret)
		inc_error("%s", err.msg);
	return ret;
}

/* Prints those lines of the library's log that matter to a person (inccl.h, log): which ranks are
 * missing, which modes of switches cost speed, and what a switch reports about its ports. */
static void print_line(void *ctx, const char *line)
{
	static const char *const kinds[] = {"waiting: ", "slow: ", "notice: "};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strncmp(line, kinds[i], strlen(kinds[i])))
			inc_warn("%s", line);
}

/* At a terminal these lines are printed. With INCCL_DEBUG the library prints all its lines
 * itself. */
static void watch_log(struct job *job)
{
	const char *debug = getenv("INCCL_DEBUG");

	if (isatty(STDERR_FILENO) && !(debug && !strcmp(debug, "1")))
		job->group_opts.log = print_line;
}

void job_use(struct job *job, enum inccl_dtype dtype, enum inccl_op op, uint64_t bytes)
{
	const char *said = getenv("INCCL_USE");

	if (said && *said)
		return;
	snprintf(job->use, sizeof(job->use), "%s,%s,%llu%s", inccl_dtype_name(dtype),
		 inccl_op_name(op), (unsigned long long)bytes,
		 job->mode == INCCL_MODE_WRITE ? ",write" : "");
	job->comm_opts.use = job->use;
}

int job_start(struct job *job)
{
	int err;

	watch_log(job);
	job->group_opts.error = job->comm_opts.error = job->error;
	job->group_opts.error_size = job->comm_opts.error_size = sizeof(job->error);
	err = inccl_group_create(&job->group_opts, &job->group);
	if (err) {
		inc_error("joining the group: %s",
			  job->error[0] ? job->error : inccl_strerror(err));
		return err;
	}
	err = inccl_communicator_create(job->group, &job->comm_opts, &job->comm);
	if (err) {
		inc_error("creating the communicator: %s",
			  job->error[0] ? job->error : inccl_strerror(err));
		inccl_group_destroy(job->group);
		job->group = NULL;
	} else if (job->error[0]) {
		inc_warn("%s", job->error);
	}
	return err;
}

void job_report(const struct job *job, const char *what, int err)
{
	const char *story = inccl_communicator_error(job->comm);

	inc_error("%s: %s%s%s", what, inccl_strerror(err), story ? ": " : "", story ? story : "");
}

int job_end(struct job *job)
{
	bool known = inccl_communicator_error(job->comm);
	int err;

	err = inccl_communicator_destroy(job->comm);
	if (err && !known)
		inc_error("leaving the communicator: %s", inccl_strerror(err));
	inccl_group_destroy(job->group);
	job->comm = NULL;
	job->group = NULL;
	return err;
}
