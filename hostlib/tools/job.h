/* SPDX-License-Identifier: BSD-2-Clause */
/* What every program of a job has in common: its options, and how it joins. */
#ifndef INCCL_TOOLS_JOB_H
#define INCCL_TOOLS_JOB_H

#include <getopt.h>
#include <stdbool.h>
#include "hostlib/include/inccl.h"

struct job {
	struct inccl_group_opts group_opts;
	struct inccl_communicator_opts comm_opts;
	enum inccl_mode mode;
	struct inccl_group *group;
	struct inccl_communicator *comm;
	char error[512];
};

enum { JOB_OPT_FIRST = 0x1000, JOB_OPT_END = 0x1020 };

#define JOB_LONG_OPTIONS                                                         \
	{"rank", required_argument, NULL, JOB_OPT_FIRST},                        \
		{"size", required_argument, NULL, JOB_OPT_FIRST + 1},            \
		{"controller", required_argument, NULL, JOB_OPT_FIRST + 2},      \
		{"job", required_argument, NULL, JOB_OPT_FIRST + 3},             \
		{"addr", required_argument, NULL, JOB_OPT_FIRST + 4},            \
		{"interface", required_argument, NULL, JOB_OPT_FIRST + 5},       \
		{"transport", required_argument, NULL, JOB_OPT_FIRST + 6},       \
		{"payload", required_argument, NULL, JOB_OPT_FIRST + 7},         \
		{"message-packets", required_argument, NULL, JOB_OPT_FIRST + 8}, \
		{"window", required_argument, NULL, JOB_OPT_FIRST + 9},          \
		{"mode", required_argument, NULL, JOB_OPT_FIRST + 10},           \
	{                                                                        \
		"timeout-ms", required_argument, NULL, JOB_OPT_FIRST + 11        \
	}

#define JOB_HELP                                                                               \
	"The job (default: the environment, INCCL_* and then the launcher's variables):\n"     \
	"  --controller HOST[:PORT]  --job NAME  --rank R  --size N\n"                         \
	"  --addr IPV4 | --interface NAME    own address on the fabric\n"                      \
	"The communicator:\n"                                                                  \
	"  --transport auto|soft|verbs  --mode sendrecv|write\n"                               \
	"  --payload 256|512|1024|2048  largest packet payload, bytes (default: by the MTU)\n" \
	"  --message-packets M          packets per message, 1 to 64 (default 1)\n"            \
	"  --window W                   messages under way (default: 256 packets)\n"           \
	"  --timeout-ms T               give up when nothing moves for so long (default 30000)\n"

void job_init(struct job *job);
/* Takes an option JOB_OPT_FIRST..JOB_OPT_END. 0, or -EINVAL after a message on stderr. */
int job_option(struct job *job, int opt, const char *arg);
/* What options say together. 0, or -EINVAL after a message. */
int job_check(const struct job *job);
/* Joins. 0, or -errno after a message on stderr. */
int job_start(struct job *job);
/* Leaves; 0 or the communicator's error, after a message. */
int job_end(struct job *job);
/* A message for a failed operation, with the communicator's story. */
void job_report(struct job *job, const char *what, int err);

/* What was printed has arrived: 0, or -EIO after a message. */
int job_flush(void);

/* inc_opt_number() for a long; min is 0 or more. */
int parse_long(const char *option, const char *text, long min, long max, long *out);

#endif
