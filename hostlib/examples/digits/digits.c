/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Data-parallel training: every rank has the same model and its own share of the rows. In each step
 * every rank computes the gradient of its share, the network sums the gradients, and every rank
 * applies the sum. model.h explains why all runs end with the same weights.
 */
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "hostlib/examples/digits/model.h"
#include "hostlib/tools/job.h"
#include "hostlib/tools/npy.h"
#include "lib/base/log.h"
#include "lib/base/outfile.h"
#include "lib/reduce/floats.h"

#define TRAIN_ROWS(count) ((count)*4 / 5)

struct digits {
	struct job job;
	enum inccl_dtype dtype; /* the type in which the network sums gradients */
	long epochs, batch, reference;
	float rate;
	const char *data, *weights;
	bool verify, json;
	bool native; /* the network has added floats natively in the run that --verify repeats */
	struct dataset set;
	uint32_t *order; /* the training rows, in an order that changes with each epoch */
	int rank, ranks;
	unsigned long steps; /* number of completed steps */
};

static int take_rate(void *rate, const char *text, struct inc_err *err)
{
	float *out = rate;
	char *end;

	*out = strtof(text, &end);
	if (end != text && !*end && *out > 0 && *out <= 10)
		return 0;
	return inc_err_set(err, EINVAL, "'%.300s' is not a number above 0, up to 10", text);
}

static const struct inc_opt_word dtypes[] = {
	{"int32", INCCL_INT32}, {"float32", INCCL_FLOAT32}, {}};

static const struct inc_opt options[] = {
	{.name = "dtype",
	 .preset = "int32",
	 .help = "the type in which gradients are summed: fixed point of the program's own, or "
		 "floats of the "
		 "library's",
	 INC_OPT_WORD(struct digits, dtype, dtypes)},
	{.name = "epochs",
	 .value = "E",
	 .preset = "30",
	 .help = "number of passes through the data",
	 INC_OPT_NUMBER(struct digits, epochs, 1, 1000000)},
	{.name = "batch",
	 .value = "B",
	 .preset = "96",
	 .help = "rows per step, over all ranks",
	 INC_OPT_NUMBER(struct digits, batch, 1, 2048)},
	{.name = "rate",
	 .value = "R",
	 .preset = "0.1",
	 .help = "learning rate",
	 INC_OPT_TAKE(struct digits, rate, take_rate)},
	{.name = "data",
	 .value = "FILE",
	 .help = "64 pixels and a label per line (default: digits.csv beside the program)",
	 INC_OPT_TEXT(struct digits, data, inc_path_check)},
	{.name = "reference",
	 .value = "N",
	 .help = "no network: one process plays N ranks and adds the gradients itself",
	 INC_OPT_NUMBER(struct digits, reference, 1, 65536)},
	{.name = "verify",
	 .help = "rank 0 repeats the run like --reference and compares the weights",
	 INC_OPT_FLAG(struct digits, verify)},
	{.name = "weights",
	 .value = "FILE",
	 .help = "write the final weights (.npy of float32), on each rank with this option",
	 INC_OPT_TEXT(struct digits, weights, inc_path_check)},
	{.name = "json",
	 .help = "rank 0 prints one object at the end",
	 INC_OPT_FLAG(struct digits, json)},
	{},
};

static int check_job(void *settings)
{
	const struct digits *d = settings;

	if (d->dtype == INCCL_FLOAT32 && d->reference > INC_MAX_RANKS)
		return inc_usage("--dtype float32 --reference %ld: at most %d ranks", d->reference,
				 INC_MAX_RANKS);
	return job_check(&d->job);
}

static const struct inc_program program = {
	.name = "inccl-digits",
	.man_section = 1,
	.brief = "train a classifier of handwritten digits, its gradients summed by the network",
	.about = "Trains a classifier of handwritten digits, its rows spread over the ranks of a "
		 "job, every gradient summed by the network.",
	.groups = {{options, 0}, {job_options, offsetof(struct digits, job)}},
	.exits = "0 ok, 1 failure or different weights, 2 wrong command line.",
	.check = check_job,
};

static int load_data(struct digits *d)
{
	char self[PATH_MAX], path[PATH_MAX + 16];
	struct inc_err why;
	ssize_t n;
	int err;

	if (!d->data) {
		n = readlink("/proc/self/exe", self, sizeof(self) - 1);
		if (n < 0)
			return -errno;
		self[n] = 0;
		snprintf(path, sizeof(path), "%s/digits.csv", dirname(self));
		d->data = path;
	}
	err = data_load(d->data, &d->set, &why);
	if (!err && !TRAIN_ROWS(d->set.count))
		err = inc_err_set(&why, EINVAL,
				  "%s: one row: want one to train with and one to test", d->data);
	d->data = NULL;
	if (err) {
		inc_error("%s", why.msg);
		return err;
	}
	d->order = calloc(d->set.count, sizeof(*d->order));
	return d->order ? 0 : -ENOMEM;
}

/* Shuffles the rows in the same way on every rank: Fisher-Yates, with the epoch as the seed. */
static void shuffle(uint32_t *order, uint32_t count, uint32_t epoch)
{
	uint32_t x = 88172645u + epoch * 2654435761u, i, k, t;

	for (i = 0; i < count; i++)
		order[i] = i;
	for (i = count - 1; i; i--) {
		x ^= x << 13;
		x ^= x >> 17;
		x ^= x << 5;
		k = x % (i + 1);
		t = order[i];
		order[i] = order[k];
		order[k] = t;
	}
}

static void add(int32_t *sums, const int32_t *part)
{
	for (unsigned int i = 0; i < STEP_VALUES; i++)
		sums[i] = (uint32_t)sums[i] + (uint32_t)part[i];
}

#define HEADS (STEP_VALUES / INC_FIXED_BLOCK + 1)

static void merge_heads(struct inc_fixed_head *heads, const struct inc_fixed_head *part)
{
	for (unsigned int i = 0; i < HEADS; i++) {
		if (part[i].exponent > heads[i].exponent)
			heads[i].exponent = part[i].exponent;
		heads[i].special |= part[i].special;
	}
}

/* Sums the gradients of all ranks in one process, in the way of the library and the switches for
 * floats that are sent as integers. Each rank's gradient is computed twice: first for the exponents
 * and special values on which all ranks agree, then for its integers. */
static int sum_floats(struct digits *d, const struct model *model, size_t begin, size_t end,
		      float *values)
{
	struct inc_fixed_head heads[HEADS] = {{0}}, own[HEADS] = {{0}};
	uint8_t kinds[STEP_VALUES] = {0}, own_kinds[STEP_VALUES];
	int32_t sums[STEP_VALUES] = {0}, part[STEP_VALUES];
	struct inc_fixed fixed;
	struct inc_err why;
	int r, i, err;

	err = inc_fixed_init(&fixed, INC_FLOAT32, INC_FIXED_BLOCK, d->ranks, &why);
	for (r = 0; r < d->ranks && !err; r++) {
		model_gradient(model, &d->set, d->order, begin + r, end, d->ranks, values);
		inc_fixed_heads(&fixed, own, values, STEP_VALUES);
		merge_heads(heads, own);
		inc_fixed_kinds(&fixed, own_kinds, values, STEP_VALUES);
		for (i = 0; i < STEP_VALUES; i++)
			kinds[i] |= own_kinds[i];
	}
	for (r = 0; r < d->ranks && !err; r++) {
		model_gradient(model, &d->set, d->order, begin + r, end, d->ranks, values);
		err = inc_fixed_put(&fixed, part, values, heads, 0, STEP_VALUES, &why);
		add(sums, part);
	}
	if (err)
		inc_error("%d ranks in one process: %s", d->ranks, why.msg);
	else
		inc_fixed_get(&fixed, values, sums, heads, kinds, 0, STEP_VALUES, 1);
	return err;
}

/* Sums the gradients of all ranks in one process, in the way of a switch that adds floats natively:
 * one rank after the other. */
static void add_floats(struct digits *d, const struct model *model, size_t begin, size_t end,
		       float *values)
{
	float part[STEP_VALUES];

	model_gradient(model, &d->set, d->order, begin, end, d->ranks, values);
	for (int r = 1; r < d->ranks; r++) {
		model_gradient(model, &d->set, d->order, begin + r, end, d->ranks, part);
		for (unsigned int i = 0; i < STEP_VALUES; i++)
			values[i] += part[i];
	}
}

/* A function that computes the gradients of rows begin to end, and sums them over all ranks into
 * values[STEP_VALUES]. */
typedef int (*sum_fn)(struct digits *d, const struct model *model, size_t begin, size_t end,
		      float *values);

static int sum_network(struct digits *d, const struct model *model, size_t begin, size_t end,
		       float *values)
{
	INCCL_OPTS(inccl_collective_opts, how, .mode = d->job.mode);
	int32_t fixed[STEP_VALUES];
	size_t rows;
	int err;

	rows = model_gradient(model, &d->set, d->order, begin + d->rank, end, d->ranks, values);
	if (d->dtype == INCCL_FLOAT32)
		return inccl_allreduce(d->job.comm, values, values, STEP_VALUES, INCCL_FLOAT32,
				       INCCL_SUM, &how);
	model_to_fixed(fixed, values, rows);
	err = inccl_allreduce(d->job.comm, fixed, fixed, STEP_VALUES, INCCL_INT32, INCCL_SUM, &how);
	if (!err)
		model_from_fixed(values, fixed);
	return err;
}

static int sum_reference(struct digits *d, const struct model *model, size_t begin, size_t end,
			 float *values)
{
	int32_t fixed[STEP_VALUES] = {0}, part[STEP_VALUES];
	size_t rows;

	if (d->native) {
		add_floats(d, model, begin, end, values);
		return 0;
	}
	if (d->dtype == INCCL_FLOAT32)
		return sum_floats(d, model, begin, end, values);
	for (int r = 0; r < d->ranks; r++) {
		rows = model_gradient(model, &d->set, d->order, begin + r, end, d->ranks, values);
		model_to_fixed(part, values, rows);
		add(fixed, part);
	}
	model_from_fixed(values, fixed);
	return 0;
}

static int train(struct digits *d, struct model *model, sum_fn sum, bool verbose)
{
	size_t train_rows = TRAIN_ROWS(d->set.count), begin, end, correct;
	float values[STEP_VALUES];
	double loss;
	long epoch;
	int err;

	model_init(model);
	d->steps = 0;
	for (epoch = 0; epoch < d->epochs; epoch++) {
		shuffle(d->order, train_rows, epoch);
		loss = correct = 0;
		for (begin = 0; begin < train_rows; begin = end) {
			end = begin + d->batch < train_rows ? begin + d->batch : train_rows;
			err = sum(d, model, begin, end, values);
			if (err)
				return err;
			model_step(model, values, end - begin, d->rate);
			loss += values[STEP_LOSS];
			correct += lrintf(values[STEP_CORRECT]);
			d->steps++;
		}
		if (!verbose || (epoch + 1 != d->epochs && (epoch + 1) % 5 && epoch))
			continue;
		printf("epoch %3ld  steps %5lu  loss %.4f  accuracy %5.1f %%  on unseen digits "
		       "%5.1f %%\n",
		       epoch + 1, d->steps, loss / train_rows, 100.0 * correct / train_rows,
		       100.0 * model_correct(model, &d->set, train_rows, d->set.count, 1) /
			       (d->set.count - train_rows));
		fflush(stdout);
	}
	return 0;
}

/* Checks that all ranks have the same weights, by comparing hashes. Returns 0, or -EBADMSG if they
 * differ. */
static int compare_ranks(struct digits *d, uint64_t hash)
{
	int32_t *all = calloc(d->ranks, 2 * sizeof(*all));
	int r, err;

	if (!all)
		return -ENOMEM;
	all[2 * d->rank] = hash;
	all[2 * d->rank + 1] = hash >> 32;
	err = inccl_allreduce(d->job.comm, all, all, 2 * (size_t)d->ranks, INCCL_INT32, INCCL_SUM,
			      NULL);
	for (r = 0; r < d->ranks && !err; r++) {
		uint64_t other = (uint64_t)(uint32_t)all[2 * r + 1] << 32 | (uint32_t)all[2 * r];

		if (other != hash) {
			inc_error("rank %d has the weights %016llx, rank %d %016llx", d->rank,
				  (unsigned long long)hash, r, (unsigned long long)other);
			err = -EBADMSG;
		}
	}
	free(all);
	return err;
}

static int save_weights(const struct digits *d, const struct model *model)
{
	const struct npy npy = {.dtype = INCCL_FLOAT32,
				.ndim = 1,
				.shape = {MODEL_WEIGHTS},
				.count = MODEL_WEIGHTS};
	struct inc_err why;
	int err;

	err = npy_save(d->weights, &npy, model->weight, &why);
	if (err)
		inc_error("%s", why.msg);
	return err;
}

/* Finds out how the network has summed the gradients. Returns an error if a single process cannot
 * repeat that. */
static int check_repeatable(struct digits *d)
{
	struct inccl_communicator_info info = {.sz = sizeof(info)};

	if (d->dtype != INCCL_FLOAT32)
		return 0;
	inccl_communicator_info(d->job.comm, &info);
	d->native = !strcmp(info.floats, "native");
	if (!d->native || job_one_switch(&info))
		return 0;
	inc_error("--verify: the switches of %s add floats as they are, each in an order of its "
		  "own, which one process cannot repeat",
		  info.tree);
	return -EOPNOTSUPP;
}

static int verify(struct digits *d, uint64_t hash)
{
	struct model model;
	uint64_t want;
	int err;

	err = check_repeatable(d);
	if (!err)
		err = train(d, &model, sum_reference, false);
	if (err)
		return err;
	want = model_hash(&model);
	if (want != hash) {
		inc_error("one process that plays %d ranks ends with %016llx, the network's run "
			  "with %016llx",
			  d->ranks, (unsigned long long)want, (unsigned long long)hash);
		return -EBADMSG;
	}
	return 0;
}

static void print_end(const struct digits *d, const struct model *model, uint64_t hash)
{
	size_t train_rows = TRAIN_ROWS(d->set.count), unseen = d->set.count - train_rows;
	size_t correct = model_correct(model, &d->set, train_rows, d->set.count, 1);

	if (d->json)
		printf("{\"ranks\":%d,\"dtype\":\"%s\",\"steps\":%lu,\"values\":%d,\"unseen\":%zu,"
		       "\"correct\":%zu,\"accuracy\":%.4f,\"weights\":\"%016llx\",\"reference\":%s,"
		       "\"verified\":%s}"
		       "\n",
		       d->ranks, inccl_dtype_name(d->dtype), d->steps, STEP_VALUES, unseen, correct,
		       (double)correct / unseen, (unsigned long long)hash,
		       d->reference ? "true" : "false", d->verify ? "true" : "false");
	else if (d->reference)
		printf("weights %016llx (one process, %d parts)\n", (unsigned long long)hash,
		       d->ranks);
	else
		printf("weights %016llx on all %d ranks%s\n", (unsigned long long)hash, d->ranks,
		       d->verify ? ", and the same in one process, bit for bit" : "");
}

static int run(struct digits *d)
{
	struct model model;
	uint64_t hash;
	int err;

	err = train(d, &model, d->reference ? sum_reference : sum_network,
		    d->rank == 0 && !d->json);
	if (err) {
		job_report(&d->job, "training", err);
		return err;
	}
	hash = model_hash(&model);
	if (!d->reference)
		err = compare_ranks(d, hash);
	if (err) {
		job_report(&d->job, "comparing the weights", err);
		return err;
	}
	if (d->verify && !d->reference && !d->rank) {
		unsigned long steps = d->steps;

		err = verify(d, hash);
		d->steps = steps;
	}
	if (!err && d->weights)
		err = save_weights(d, &model);
	if (!err && !d->rank)
		print_end(d, &model, hash);
	return err;
}

int main(int argc, char **argv)
{
	struct digits d = {0};
	struct inc_err why;
	int err, left;

	inc_log_init("inccl-digits");
	job_init(&d.job);
	err = inc_opt_parse(&program, argc, argv, &d, NULL);
	if (err >= 0)
		return err;
	/* the output file is checked before the long training, whose result would be lost
	 * otherwise */
	err = d.weights ? inc_outfile_check(d.weights, &why) : 0;
	if (err) {
		inc_error("--weights %s", why.msg);
		goto out;
	}
	err = load_data(&d);
	if (err)
		goto out;
	if (d.reference) {
		d.ranks = d.reference;
		err = run(&d);
		goto out;
	}
	err = job_start(&d.job);
	if (err)
		goto out;
	d.rank = inccl_group_rank(d.job.group);
	d.ranks = inccl_group_size(d.job.group);
	err = run(&d);
	left = job_end(&d.job);
	if (!err)
		err = left;
out:
	free(d.order);
	data_free(&d.set);
	return err || job_flush() ? 1 : 0;
}
