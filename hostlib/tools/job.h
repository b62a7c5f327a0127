/* SPDX-License-Identifier: BSD-2-Clause */
/* What every program of a job has in common: its options, and how it joins. */
#ifndef INCCL_TOOLS_JOB_H
#define INCCL_TOOLS_JOB_H

#include <stdbool.h>
#include <string.h>
#include "hostlib/include/inccl.h"
#include "lib/base/err.h"
#include "lib/base/opt.h"

struct job {
	struct inccl_group_opts group_opts;
	struct inccl_communicator_opts comm_opts;
	enum inccl_mode mode;
	struct inccl_group *group;
	struct inccl_communicator *comm;
	char error[512];
};

/* The options of every job's program, about a struct job. */
extern const struct inc_opt job_options[];

/* For INC_OPT_TAKE: the name of an operator into an enum inccl_op. */
int job_take_op(void *op, const char *text, struct inc_err *err);

/* Before the command line is read. */
void job_init(struct job *job);
/* What options say together. 0, or -EINVAL after a message. */
int job_check(const struct job *job);
/* Joins. 0, or -errno after a message on stderr. */
int job_start(struct job *job);
/* Leaves; 0 or the communicator's error, after a message. */
int job_end(struct job *job);
/* A message for a failed operation, with the communicator's story. */
void job_report(const struct job *job, const char *what, int err);

/* Do this rank's results come from one switch alone, not from a tree of them? */
static inline bool job_one_switch(const struct inccl_communicator_info *info)
{
	return strstr(info->tree, " of 1 switch") != NULL;
}

/* What was printed has arrived: 0, or -errno after a message. */
int job_flush(void);

#endif
