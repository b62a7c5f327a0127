/* SPDX-License-Identifier: BSD-2-Clause */
/* Groups that are derived from another group (shrink, grow), and communicators that are derived
 * from another communicator (split, duplicate) and own a group. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "hostlib/src/internal.h"

/* A derivation: a new group or communicator that the caller wants to make of an old one, with its
 * time limits. */
struct derivation {
	struct inc_msg_derive derive;
	int world_size;
	unsigned int connect_timeout_ms;
	struct inccl_limit limit;
	/* log of the new group: that of the old group, or one of its own */
	struct inccl_log *log;
};

/* Prepares a derivation, and counts it. It counts even if it fails on this rank, because it counts
 * on the other ranks. */
static void derivation_init(struct derivation *derivation, struct inccl_group *group,
			    enum inc_derive_how how)
{
	const unsigned int count = how == INC_DERIVE_SHRINK;

	memset(derivation, 0, sizeof(*derivation));
	derivation->derive.how = how;
	derivation->derive.has_of = true;
	derivation->world_size = group->world_size;
	derivation->log = group->log;
	if (inccl_is_inherited(group))
		return;
	pthread_mutex_lock(&group->lock);
	derivation->derive.of = group->number;
	derivation->derive.round = group->derived[count]++;
	pthread_mutex_unlock(&group->lock);
}

/* Checks that a new group can be derived from this group. A shrink is for a group that has failed,
 * so it only needs the connection to the controller. */
static int check_parent(struct inccl_group *group, enum inc_derive_how how, struct inc_err *err)
{
	int ret = 0;

	pthread_mutex_lock(&group->lock);
	if (group->error && (how != INC_DERIVE_SHRINK || group->link != LINK_UP))
		ret = inc_err_set(err, group->error, "%s", group->error_text);
	pthread_mutex_unlock(&group->lock);
	return ret;
}

/* Derives a group from another. *out is NULL if this rank of a split has asked for no group. */
static int derive(struct inccl_group *parent, struct derivation *derivation,
		  struct inccl_group **out, struct inc_err *err)
{
	struct inc_msg_join msg = {
		.has_derive = true,
		.derive = derivation->derive,
	};
	struct inccl_group *group;
	int ret = check_parent(parent, derivation->derive.how, err);

	if (ret)
		return ret;
	ret = inccl_group_new(parent->job, parent->rank, derivation->world_size, derivation->log,
			      &group);
	if (ret)
		return inc_err_set(err, -ret, "%s", strerror(-ret));
	group->shares_memory = parent->shares_memory;
	group->rails.chosen = parent->rails.chosen;
	inccl_rails_introduce(parent, &msg);
	ret = inccl_control_connect_beside(
		group, parent, derivation->connect_timeout_ms ?: CONNECT_TIMEOUT_MS, err);
	if (ret)
		goto free_group;
	ret = inccl_control_start(group);
	if (ret) {
		inc_err_set(err, -ret, "control thread: %s", strerror(-ret));
		goto free_group;
	}
	ret = inccl_group_join(group, &msg, &derivation->limit, err);
	if (ret)
		goto free_group;
	inccl_log_line(parent->log, "%s %u of group %u: %s",
		       inc_derive_hows[derivation->derive.how], derivation->derive.round,
		       parent->number, group->world_size ? "made" : "this rank is in none");
	inccl_log_deliver(parent->log);
	if (!group->world_size)
		goto leave_group;
	inccl_rails_inherit(group, parent);
	*out = group;
	return 0;

leave_group:
	inccl_group_leave(group);
	return 0;

free_group:
	inccl_group_free(group);
	return ret;
}

/* Reports to the controller that this rank cannot take part in a derivation, because the other
 * ranks wait for it. The old group's connection is used. */
static void report_failure(struct inccl_group *parent, const struct derivation *derivation,
			   int error, const char *text)
{
	pthread_mutex_lock(&parent->lock);
	inccl_control_report_derive(parent, &derivation->derive, error, text);
	pthread_mutex_unlock(&parent->lock);
	inccl_log_line(parent->log, "%s %u of group %u: %s",
		       inc_derive_hows[derivation->derive.how], derivation->derive.round,
		       parent->number, text);
	inccl_log_deliver(parent->log);
}

static int check_comm(struct inccl_communicator *comm, struct inc_err *err)
{
	int ret = 0;

	pthread_mutex_lock(&comm->lock);
	if (comm->error)
		ret = inc_err_set(err, comm->error, "%s", comm->error_text);
	pthread_mutex_unlock(&comm->lock);
	return ret;
}

/* Derives a communicator, together with a group that only this communicator uses. */
static int derive_comm(struct inccl_communicator *comm, struct derivation *derivation,
		       const struct inccl_communicator_opts *opts, struct inccl_communicator **out,
		       struct inc_err *err)
{
	struct inccl_group *group = NULL;
	int ret;

	derivation->limit = inccl_limit_ms(opts->create_timeout_ms ?: CREATE_TIMEOUT_MS);
	ret = check_comm(comm, err);
	if (!ret)
		ret = derive(comm->group, derivation, &group, err);
	if (ret)
		report_failure(comm->group, derivation, -ret, err->msg);
	if (ret || !group)
		return ret;
	ret = inccl_comm_create(group, 0, opts, &derivation->limit, out, err);
	if (ret)
		inccl_group_leave(group);
	else
		(*out)->owns_group = true;
	return ret;
}

static int from_comm(struct inccl_communicator *comm, struct derivation *derivation,
		     const struct inccl_communicator_opts *given, struct inccl_communicator **out)
{
	struct inccl_communicator_opts opts = comm->settings;
	struct inc_err err = {INC_CALLER_OPTS_REFUSED};
	int ret = given ? inc_caller_opts(&opts, sizeof(opts), given) : 0;

	if (!ret)
		ret = inccl_comm_check_opts(&opts, &err);
	if (inccl_is_inherited(comm->group))
		ret = inc_err_set(&err, ECHILD, INCCL_INHERITED_TEXT);
	else if (ret)
		report_failure(comm->group, derivation, -ret, err.msg);
	else
		ret = derive_comm(comm, derivation, &opts, out, &err);
	if (ret)
		inc_caller_explain(opts.error, opts.error_size, &err);
	return ret;
}

int inccl_communicator_split(struct inccl_communicator *comm, int color, int key,
			     const struct inccl_communicator_opts *opts,
			     struct inccl_communicator **out)
{
	INCCL_UNCANCELLED(cancel_state);
	struct derivation derivation;

	if (!out)
		return -EINVAL;
	*out = NULL;
	if (!comm)
		return -EINVAL;
	derivation_init(&derivation, comm->group, INC_DERIVE_SPLIT);
	derivation.derive.has_color = color >= 0;
	derivation.derive.color = color;
	derivation.derive.key = key;
	return from_comm(comm, &derivation, opts, out);
}

int inccl_communicator_duplicate(struct inccl_communicator *comm,
				 const struct inccl_communicator_opts *opts,
				 struct inccl_communicator **out)
{
	INCCL_UNCANCELLED(cancel_state);
	struct derivation derivation;

	if (!out)
		return -EINVAL;
	*out = NULL;
	if (!comm)
		return -EINVAL;
	derivation_init(&derivation, comm->group, INC_DERIVE_DUPLICATE);
	return from_comm(comm, &derivation, opts, out);
}

/* Checks the options of a group that is derived from another. Its job, controller and ranks are
 * those of the old group, so the options must not have them. */
static int check_group_opts(const struct inccl_group_opts *opts, struct inc_err *err)
{
	if (opts->no_node || opts->job || opts->controller || opts->rank || opts->world_size ||
	    opts->address || opts->interface || opts->join)
		return inc_err_set(
			err, EINVAL,
			"job, controller, rank, world_size, address, interface, join and "
			"no_node are the group's own: they must be 0");
	return inccl_group_check_limits(opts, err);
}

static int check_world(const struct inccl_group *group, const struct derivation *derivation,
		       struct inc_err *err)
{
	if (derivation->derive.how == INC_DERIVE_SHRINK)
		return 0;
	if (derivation->world_size > group->world_size && derivation->world_size <= INC_MAX_WORLD)
		return 0;
	return inc_err_set(err, EINVAL, "world_size %d: want %d to %d", derivation->world_size,
			   group->world_size + 1, INC_MAX_WORLD);
}

/* Derives a group with a log of its own. The old and the new group are destroyed independently, so
 * they cannot share a log, although both logs may call the same function. */
static int derive_logging(struct inccl_group *parent, struct derivation *derivation,
			  const struct inccl_group_opts *opts, struct inccl_group **out,
			  struct inc_err *err)
{
	const struct inccl_log *old = parent->log;
	int ret = opts->log ? inccl_log_new(opts->log, opts->log_ctx, &derivation->log)
			    : inccl_log_new(old->fn, old->ctx, &derivation->log);

	if (ret)
		return inc_err_set(err, -ret, "%s", strerror(-ret));
	ret = derive(parent, derivation, out, err);
	inccl_log_put(derivation->log);
	return ret;
}

static int from_group(struct inccl_group *parent, struct derivation *derivation,
		      const struct inccl_group_opts *given, struct inccl_group **out)
{
	struct inccl_group_opts opts;
	struct inc_err err = {INC_CALLER_OPTS_REFUSED};
	int ret = inc_caller_opts(&opts, sizeof(opts), given);

	derivation->connect_timeout_ms = opts.connect_timeout_ms;
	derivation->limit = inccl_limit_ms(opts.create_timeout_ms ?: CREATE_TIMEOUT_MS);
	if (inccl_is_inherited(parent))
		ret = inc_err_set(&err, ECHILD, INCCL_INHERITED_TEXT);
	if (!ret)
		ret = check_group_opts(&opts, &err);
	if (!ret)
		ret = check_world(parent, derivation, &err);
	if (!ret)
		ret = derive_logging(parent, derivation, &opts, out, &err);
	if (ret) {
		if (!inccl_is_inherited(parent))
			report_failure(parent, derivation, -ret, err.msg);
		inc_caller_explain(opts.error, opts.error_size, &err);
	}
	return ret;
}

int inccl_group_shrink(struct inccl_group *group, const struct inccl_group_opts *opts,
		       struct inccl_group **out)
{
	INCCL_UNCANCELLED(cancel_state);
	struct derivation derivation;

	if (!out)
		return -EINVAL;
	*out = NULL;
	if (!group)
		return -EINVAL;
	derivation_init(&derivation, group, INC_DERIVE_SHRINK);
	return from_group(group, &derivation, opts, out);
}

int inccl_group_grow(struct inccl_group *group, int world_size, const struct inccl_group_opts *opts,
		     struct inccl_group **out)
{
	INCCL_UNCANCELLED(cancel_state);
	struct derivation derivation;

	if (!out)
		return -EINVAL;
	*out = NULL;
	if (!group)
		return -EINVAL;
	derivation_init(&derivation, group, INC_DERIVE_GROW);
	derivation.world_size = world_size;
	return from_group(group, &derivation, opts, out);
}
