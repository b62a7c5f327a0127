/* SPDX-License-Identifier: BSD-2-Clause */
/* Quotas of jobs, and how much of a switch each job uses (admission.c). */
#ifndef INC_ADMISSION_H
#define INC_ADMISSION_H

#include <stddef.h>
#include <stdint.h>
#include "controller/core/tree.h"
#include "lib/base/err.h"
#include "lib/metric/metric.h"

struct inc_comm;
struct inc_core_switch;
struct inc_group;

/* Adds up the resources that all communicators of this controller's groups use on a switch. */
void inc_switch_load(const struct inc_core_switch *sw, struct inc_load *load);
/* Prints "; job A has most there: …" into buf, for the error of a switch that is full. The text is
 * "" if no job uses the switch. */
void inc_switch_holder(const struct inc_core_switch *sw, char *buf, size_t size);

#define INC_JOB_FIGURES(_, T)                                      \
	_(T, communicators, "", GAUGE, "communicators of the job") \
	_(T, slots, "", GAUGE, "slots of these, each counted once")

/* The figures that quotas limit. */
struct inc_job_load {
	INC_JOB_FIGURES(INC_METRIC_FIELD, inc_job_load)
};
struct inc_job_load inc_group_load(const struct inc_group *group);
/* Adds up the communicators and slots of all groups of the group's job. */
struct inc_job_load inc_job_load(const struct inc_group *group);

/* Checks whether the job's quota lets the group begin another communicator. Returns 0 or
 * -EDQUOT. */
int inc_group_admit(const struct inc_group *group, struct inc_err *err);
/* Checks whether the job's quota of slots has room for the communicator. Returns 0 or -EDQUOT. */
int inc_comm_admit(const struct inc_comm *comm, struct inc_err *err);
/* Returns how many further communicators of this one's size may begin, n at most. They must fit
 * into a quarter of each limit of the job and of the tree's switches, beside what is in use. */
unsigned int inc_comm_spare(const struct inc_comm *comm, unsigned int n);
/* Appends to err the job that uses most of the resource for whose lack no tree was found. */
void inc_comm_name_holder(const struct inc_comm *comm, struct inc_err *err);

#endif
