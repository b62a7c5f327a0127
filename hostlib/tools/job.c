/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include "lib/net/hostport.h"
#include "hostlib/tools/job.h"
#include "lib/base/log.h"
#include "lib/base/opt.h"

#define MAX_WINDOW_PACKETS 4096 /* the library's own limit (inccl.h, window) */

int parse_long(const char *option, const char *text, long min, long max, long *out)
{
	uint64_t v;
	int ret = inc_opt_number(option, text, min, max, &v);

	if (!ret)
		*out = v;
	return ret;
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
	int i = inc_opt_name("--transport", arg, names, 3);

	if (i < 0)
		return i;
	job->comm_opts.transport = i;
	return 0;
}

static int option_mode(struct job *job, const char *arg)
{
	static const char *const names[] = {"sendrecv", "write"};
	int i = inc_opt_name("--mode", arg, names, 2);

	if (i < 0)
		return i;
	job->mode = i ? INCCL_MODE_WRITE : INCCL_MODE_SENDRECV;
	return 0;
}

static int option_payload(struct job *job, const char *arg)
{
	static const char *const names[] = {"256", "512", "1024", "2048"};
	int i = inc_opt_name("--payload", arg, names, 4);

	if (i < 0)
		return i;
	job->comm_opts.payload = 256u << i;
	return 0;
}

/* As the library wants it (inccl.h): 1 to 64 printable characters without blanks. */
static int option_job(struct job *job, const char *arg)
{
	size_t len = strlen(arg), i;

	for (i = 0; i < len && isgraph((unsigned char)arg[i]); i++)
		;
	if (!len || len > 64 || i < len)
		return inc_usage("--job: '%s': 1 to 64 printable characters without blanks", arg);
	job->group_opts.job = arg;
	return 0;
}

static int option_address(struct job *job, const char *arg)
{
	struct in_addr addr;

	if (inet_pton(AF_INET, arg, &addr) != 1)
		return inc_usage("--addr: '%s' is not an IPv4 address", arg);
	job->group_opts.address = arg;
	return 0;
}

static int option_interface(struct job *job, const char *arg)
{
	if (!*arg || strlen(arg) >= IF_NAMESIZE || strchr(arg, '/'))
		return inc_usage("--interface: '%s' is not the name of an interface", arg);
	job->group_opts.interface = arg;
	return 0;
}

int job_option(struct job *job, int opt, const char *arg)
{
	struct inccl_communicator_opts *c = &job->comm_opts;
	struct inccl_group_opts *g = &job->group_opts;
	unsigned int v = 0;
	int ret;

	switch (opt - JOB_OPT_FIRST) {
	case 0:
		ret = inc_opt_uint("--rank", arg, 0, 65535, &v);
		g->rank = v;
		return ret;
	case 1:
		ret = inc_opt_uint("--size", arg, 1, 65536, &v);
		g->world_size = v;
		return ret;
	case 2:
		g->controller = arg;
		return inc_hostport_opt("--controller", arg);
	case 3:
		return option_job(job, arg);
	case 4:
		return option_address(job, arg);
	case 5:
		return option_interface(job, arg);
	case 6:
		return option_transport(job, arg);
	case 7:
		return option_payload(job, arg);
	case 8:
		return inc_opt_uint("--message-packets", arg, 1, 64, &c->message_packets);
	case 9:
		return inc_opt_uint("--window", arg, 1, MAX_WINDOW_PACKETS, &c->window);
	case 10:
		return option_mode(job, arg);
	case 11:
		return inc_opt_uint("--timeout-ms", arg, 1, 86400000, &c->timeout_ms);
	}
	return -EINVAL;
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
	if (c->window && c->message_packets && c->window > MAX_WINDOW_PACKETS / c->message_packets)
		return inc_usage("--window %u --message-packets %u: at most %d packets together",
				 c->window, c->message_packets, MAX_WINDOW_PACKETS);
	return 0;
}

int job_flush(void)
{
	errno = 0;
	if (!fflush(stdout) && !ferror(stdout))
		return 0;
	inc_error("stdout: %s", strerror(errno ? errno : EIO));
	return -EIO;
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
