/* SPDX-License-Identifier: BSD-2-Clause */
/* The common part of all programs that run as the ranks of a job: options, joining and leaving. */
#ifndef INCCL_TOOLS_JOB_H
#define INCCL_TOOLS_JOB_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include "hostlib/include/inccl.h"
#include "lib/base/err.h"
#include "lib/base/opt.h"

struct job {
	struct inccl_group_opts group_opts;
	struct inccl_communicator_opts comm_opts;
	enum inccl_mode mode;
	char use[128]; /* the text of comm_opts.use */
	struct inccl_group *group;
	struct inccl_communicator *comm;
	char error[512];
};

/* The options that all programs have that run as ranks of a job. They set a struct job. */
extern const struct inc_opt job_options[];

/* A function for INC_OPT_TAKE: reads the name of an operator into an enum inccl_op. */
int job_take_op(void *op, const char *text, struct inc_err *err);

/* Sets the defaults of the options, before the command line is read. */
void job_init(struct job *job);
/* Checks those options of a job that depend on each other. Returns 0, or -EINVAL after printing a
 * message. */
int job_check(const struct job *job);
/* Sets what the communicator is for: vectors of so many bytes at most, of this type, combined by
 * this operator. A person's INCCL_USE has precedence. */
void job_use(struct job *job, enum inccl_dtype dtype, enum inccl_op op, uint64_t bytes);
/* Joins the job's group and creates the communicator. Returns 0, or -errno after printing a
 * message. */
int job_start(struct job *job);
/* Destroys the job's communicator and group. Returns 0 or the communicator's error, after printing
 * a message. */
int job_end(struct job *job);
/* Prints a message about an operation that has failed, with the communicator's reason. */
void job_report(const struct job *job, const char *what, int err);

/* Whether a single switch computes the results of this rank. If not, a tree of switches does, or
 * ranks that share memory take part. */
static inline bool job_one_switch(const struct inccl_communicator_info *info)
{
	static const char one[] = " of 1 switch";
	const size_t length = strlen(info->tree), end = sizeof(one) - 1;

	return length > end && !strcmp(info->tree + length - end, one);
}

/* Flushes stdout. Returns 0, or -errno after printing a message. */
int job_flush(void);

#endif
