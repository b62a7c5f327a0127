/* SPDX-License-Identifier: BSD-2-Clause */
/* Resolves job, rank, controller and address: from the options first, then from INCCL_*, then from
 * the variables that launchers set. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lib/base/clock.h"
#include "lib/base/opt.h"
#include "lib/base/printable.h"
#include "lib/base/random.h"
#include "lib/proto/roce.h"
#include "hostlib/src/coll/coll.h"
#include "hostlib/src/internal.h"

static const char *env(const char *name)
{
	const char *v = getenv(name);

	return v && *v ? v : NULL;
}

static int parse_number(const char *name, const char *text, long min, long max, long *out,
			struct inc_err *err)
{
	char *end;
	long v;

	errno = 0;
	v = strtol(text, &end, 10);
	if (errno || end == text || *end || v < min || v > max)
		return inc_err_set(err, EINVAL, "%s: '%s' is not a number from %ld to %ld", name,
				   text, min, max);
	*out = v;
	return 0;
}

static const struct {
	const char *rank;
	const char *size;
} rank_vars[] = {
	{"INCCL_RANK", "INCCL_WORLD_SIZE"},
	{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
	{"PMI_RANK", "PMI_SIZE"},
	{"SLURM_PROCID", "SLURM_NTASKS"},
	{"RANK", "WORLD_SIZE"},
};

static int resolve_rank(const struct inccl_group_opts *opts, struct inccl_place *place,
			struct inc_err *err)
{
	long rank, size;
	size_t i;
	int ret;

	if (opts->world_size) {
		place->rank = opts->rank;
		place->world_size = opts->world_size;
	} else {
		for (i = 0; i < sizeof(rank_vars) / sizeof(rank_vars[0]); i++)
			if (env(rank_vars[i].rank) && env(rank_vars[i].size))
				break;
		if (i == sizeof(rank_vars) / sizeof(rank_vars[0]))
			return inc_err_set(
				err, EINVAL,
				"rank and world size: neither given nor in the environment "
				"(INCCL_RANK and INCCL_WORLD_SIZE)");
		ret = parse_number(rank_vars[i].rank, env(rank_vars[i].rank), 0, 65535, &rank, err);
		if (!ret)
			ret = parse_number(rank_vars[i].size, env(rank_vars[i].size), 1, 65536,
					   &size, err);
		if (ret)
			return ret;
		place->rank = rank;
		place->world_size = size;
	}
	if (place->world_size < 1 || place->rank < 0 || place->rank >= place->world_size)
		return inc_err_set(err, EINVAL, "rank %d of %d is not possible", place->rank,
				   place->world_size);
	return 0;
}

static int resolve_job(const struct inccl_group_opts *opts, struct inccl_place *place,
		       struct inc_err *err)
{
	static const char *const variables[] = {"INCCL_JOB", "PMIX_NAMESPACE", "SLURM_JOB_ID"};
	const char *job = opts->job, *source = "job";
	size_t i;

	for (i = 0; !job && i < sizeof(variables) / sizeof(variables[0]); i++) {
		source = variables[i];
		job = env(source);
	}
	if (!job)
		job = "default";
	if (strlen(job) >= sizeof(place->job) || !inc_is_word(job))
		return inc_err_set(err, EINVAL,
				   "%s '%.300s': want 1 to 64 printable ASCII characters without "
				   "blanks",
				   source, job);
	strcpy(place->job, job);
	return 0;
}

static int resolve_controller(const struct inccl_group_opts *opts, struct inccl_place *place,
			      struct inc_err *err)
{
	const char *text = opts->controller;

	if (!text)
		text = env("INCCL_CONTROLLER");
	if (!text)
		text = env("MASTER_ADDR");
	if (!text)
		return inc_err_set(err, EINVAL,
				   "controller: neither given nor in the environment "
				   "(INCCL_CONTROLLER)");
	return inc_hostports_parse("controller", text, INC_PORT_MEMBERS, &place->controllers, err);
}

int inccl_place_resolve(const struct inccl_group_opts *opts, struct inccl_place *place,
			struct inc_err *err)
{
	int ret;

	memset(place, 0, sizeof(*place));
	ret = resolve_job(opts, place, err);
	if (!ret)
		ret = resolve_rank(opts, place, err);
	if (!ret)
		ret = resolve_controller(opts, place, err);
	if (ret)
		return ret;
	place->tls = inc_tls_of_environment();
	place->address = opts->address;
	place->interface = opts->interface;
	if (!place->address && !place->interface) {
		place->address = env("INCCL_ADDR");
		place->interface = env("INCCL_IFNAME");
	}
	return 0;
}

const char *inccl_env_transport(void)
{
	return env("INCCL_TRANSPORT");
}

int inccl_env_start_psn(uint32_t *psn, struct inc_err *err)
{
	const char *text = env("INCCL_START_PSN");
	long v;
	int ret;

	if (!text)
		return inc_random24(psn, err);
	ret = parse_number("INCCL_START_PSN", text, 0, INC_PSN_MASK, &v, err);
	if (!ret)
		*psn = v;
	return ret;
}

int inccl_env_channels(unsigned int *channels, struct inc_err *err)
{
	const char *text = env("INCCL_CHANNELS");
	long n = 0;
	int ret = text ? parse_number("INCCL_CHANNELS", text, 1, INC_MAX_CHANNELS, &n, err) : 0;

	*channels = n;
	return ret;
}

/* Adds one word to a use: a size, or the name of a type or operator, or "write". */
static int add_word(struct inc_msg_use *use, const char *word, bool *has_size)
{
	enum inccl_dtype dtype;
	enum inccl_op op;
	const char *end;

	if (!strcmp(word, "write")) {
		use->writes = true;
	} else if (!inccl_dtype_parse(word, &dtype)) {
		use->floats |= inccl_is_float(dtype);
	} else if (!inccl_op_parse(word, &op)) {
		use->products |= op == INCCL_PROD;
	} else {
		if (*has_size || inc_opt_size(word, &end, &use->bytes) || *end)
			return -EINVAL;
		*has_size = true;
	}
	return 0;
}

int inccl_use(const char *text, struct inc_msg_use *use, bool *known, struct inc_err *err)
{
	const char *from = text ? "use" : "INCCL_USE";
	char copy[128], *save, *word;
	bool has_size = false;

	text = text ?: env("INCCL_USE");
	*use = (struct inc_msg_use){0};
	*known = text;
	if (!text)
		return 0;
	snprintf(copy, sizeof(copy), "%s", text);
	for (word = strtok_r(copy, ",", &save); word; word = strtok_r(NULL, ",", &save))
		if (strlen(text) >= sizeof(copy) || add_word(use, word, &has_size))
			return inc_err_set(err, EINVAL,
					   "%s: '%s' is no type, operator, 'write', or the one "
					   "size of vectors (%.200s)",
					   from, word, text);
	if (!has_size)
		return inc_err_set(err, EINVAL,
				   "%s: '%s' has no size of vectors, such as in float32,16M", from,
				   text);
	return 0;
}

int inccl_env_node(bool *shares_memory, struct inc_err *err)
{
	const char *text = env("INCCL_NODE");

	*shares_memory = !text || !strcmp(text, "on");
	if (!*shares_memory && strcmp(text, "off"))
		return inc_err_set(err, EINVAL, "INCCL_NODE: '%s' is not one of on, off", text);
	return 0;
}

int inccl_env_poll_ns(uint64_t *poll_ns, struct inc_err *err)
{
	const char *text = env("INCCL_POLL_US");
	long us = INC_SPIN_DEF_US;
	int ret = text ? parse_number("INCCL_POLL_US", text, 0, INC_SPIN_MAX_US, &us, err) : 0;

	*poll_ns = us * INC_NSEC_PER_USEC;
	return ret;
}
