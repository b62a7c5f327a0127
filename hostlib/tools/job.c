/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "hostlib/tools/job.h"
#include "lib/inc_log.h"

int parse_long(const char *option, const char *text, long min, long max, long *out)
{
	char *end;
	long v;

	errno = 0;
	v = strtol(text, &end, 10);
	if (errno || end == text || *end || v < min || v > max) {
		inc_error("%s: '%s' is not a number from %ld to %ld", option, text, min, max);
		return -EINVAL;
	}
	*out = v;
	return 0;
}

void job_init(struct job *job)
{
	memset(job, 0, sizeof(*job));
	job->group_opts.sz = sizeof(job->group_opts);
	job->group_opts.rank = -1;
	job->comm_opts.sz = sizeof(job->comm_opts);
	job->mode = INCCL_MODE_SENDRECV;
}

static int option_transport(struct job *job, const char *arg)
{
	static const char *const names[] = {
		[INCCL_TRANSPORT_AUTO] = "auto",
		[INCCL_TRANSPORT_SOFT] = "soft",
		[INCCL_TRANSPORT_VERBS] = "verbs",
	};
	unsigned int i;

	for (i = 0; i < 3; i++)
		if (!strcmp(names[i], arg)) {
			job->comm_opts.transport = i;
			return 0;
		}
	inc_error("--transport: '%s' is not one of auto, soft, verbs", arg);
	return -EINVAL;
}

static int option_mode(struct job *job, const char *arg)
{
	if (!strcmp(arg, "sendrecv"))
		job->mode = INCCL_MODE_SENDRECV;
	else if (!strcmp(arg, "write"))
		job->mode = INCCL_MODE_WRITE;
	else {
		inc_error("--mode: '%s' is not one of sendrecv, write", arg);
		return -EINVAL;
	}
	return 0;
}

int job_option(struct job *job, int opt, const char *arg)
{
	struct inccl_communicator_opts *c = &job->comm_opts;
	struct inccl_group_opts *g = &job->group_opts;
	long v = 0;
	int ret;

	switch (opt - JOB_OPT_FIRST) {
	case 0:
		ret = parse_long("--rank", arg, 0, 65535, &v);
		g->rank = v;
		return ret;
	case 1:
		ret = parse_long("--size", arg, 1, 65536, &v);
		g->world_size = v;
		return ret;
	case 2:
		g->controller = arg;
		return 0;
	case 3:
		g->job = arg;
		return 0;
	case 4:
		g->address = arg;
		return 0;
	case 5:
		g->interface = arg;
		return 0;
	case 6:
		return option_transport(job, arg);
	case 7:
		ret = parse_long("--payload", arg, 256, 2048, &v);
		c->payload = v;
		return ret;
	case 8:
		ret = parse_long("--message-packets", arg, 1, 64, &v);
		c->message_packets = v;
		return ret;
	case 9:
		ret = parse_long("--window", arg, 1, 4096, &v);
		c->window = v;
		return ret;
	case 10:
		return option_mode(job, arg);
	case 11:
		ret = parse_long("--timeout-ms", arg, 1, 86400000, &v);
		c->timeout_ms = v;
		return ret;
	}
	return -EINVAL;
}

int job_check(const struct job *job)
{
	if ((job->group_opts.rank >= 0) == (job->group_opts.world_size > 0))
		return 0;
	inc_error("--rank and --size belong together");
	return -EINVAL;
}

int job_start(struct job *job)
{
	int err;

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
	}
	return err;
}

void job_report(struct job *job, const char *what, int err)
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
