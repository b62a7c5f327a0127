/* SPDX-License-Identifier: BSD-2-Clause */
#include <math.h>
#include <string.h>
#include "hostlib/examples/digits/model.h"

#define OUT_LAYER (HIDDEN * (PIXELS + 1))
#define MOMENTUM  0.9f
/* largest size of a gradient's component, within the range that FIXED_ONE assumes */
#define CLIP 15.0f

struct activations {
	float hidden[HIDDEN];
	float out[CLASSES]; /* probability of each class */
};

/* Sets the weights to small random numbers, the same on every rank (xorshift with a fixed seed). */
void model_init(struct model *model)
{
	uint32_t x = 2463534242u;
	unsigned int i;
	float scale;

	memset(model, 0, sizeof(*model));
	for (i = 0; i < MODEL_WEIGHTS; i++) {
		x ^= x << 13;
		x ^= x >> 17;
		x ^= x << 5;
		scale = i < OUT_LAYER ? 0.25f : 0.2f;
		model->weight[i] = scale * ((float)(x >> 8) / (1 << 23) - 1);
	}
}

static void forward(const struct model *model, const float *pixel, struct activations *a)
{
	const float *w = model->weight;
	float sum, top = -INFINITY, total = 0;
	unsigned int i, k;

	for (k = 0; k < HIDDEN; k++, w += PIXELS + 1) {
		sum = w[PIXELS];
		for (i = 0; i < PIXELS; i++)
			sum += w[i] * pixel[i];
		a->hidden[k] = sum > 0 ? sum : 0;
	}
	for (k = 0; k < CLASSES; k++, w += HIDDEN + 1) {
		sum = w[HIDDEN];
		for (i = 0; i < HIDDEN; i++)
			sum += w[i] * a->hidden[i];
		a->out[k] = sum;
		top = sum > top ? sum : top;
	}
	for (k = 0; k < CLASSES; k++) {
		a->out[k] = expf(a->out[k] - top);
		total += a->out[k];
	}
	for (k = 0; k < CLASSES; k++)
		a->out[k] /= total;
}

static unsigned int best(const struct activations *a)
{
	unsigned int k, at = 0;

	for (k = 1; k < CLASSES; k++)
		if (a->out[k] > a->out[at])
			at = k;
	return at;
}

static void backward(const struct model *model, const struct row *row, const struct activations *a,
		     float *grad)
{
	const float *w = model->weight + OUT_LAYER;
	float back[HIDDEN] = {0}, delta;
	float *g = grad + OUT_LAYER;
	unsigned int i, k;

	for (k = 0; k < CLASSES; k++, w += HIDDEN + 1, g += HIDDEN + 1) {
		delta = a->out[k] - (k == row->label);
		for (i = 0; i < HIDDEN; i++) {
			g[i] += delta * a->hidden[i];
			back[i] += delta * w[i];
		}
		g[HIDDEN] += delta;
	}
	for (k = 0, g = grad; k < HIDDEN; k++, g += PIXELS + 1) {
		if (a->hidden[k] <= 0)
			continue;
		for (i = 0; i < PIXELS; i++)
			g[i] += back[k] * row->pixel[i];
		g[PIXELS] += back[k];
	}
}

static int32_t fixed(float v, float limit)
{
	/* the comparison is false for NaN, too, so that all ranks compute the same even then */
	if (!(v < limit))
		v = limit;
	if (v < -limit)
		v = -limit;
	return lrintf(v * FIXED_ONE);
}

size_t model_gradient(const struct model *model, const struct dataset *set, const uint32_t *order,
		      size_t first, size_t end, size_t stride, float *out)
{
	struct activations a;
	size_t i, rows = 0;
	float p;

	memset(out, 0, STEP_VALUES * sizeof(*out));
	for (i = first; i < end; i += stride) {
		const struct row *row = &set->rows[order[i]];

		forward(model, row->pixel, &a);
		backward(model, row, &a, out);
		p = a.out[row->label];
		out[STEP_LOSS] -= logf(p > 1e-6f ? p : 1e-6f);
		out[STEP_CORRECT] += best(&a) == row->label;
		rows++;
	}
	return rows;
}

void model_to_fixed(int32_t *out, const float *values, size_t rows)
{
	for (unsigned int i = 0; i < STEP_CORRECT; i++)
		out[i] = fixed(values[i], CLIP * rows);
	out[STEP_CORRECT] = values[STEP_CORRECT];
}

void model_from_fixed(float *out, const int32_t *sum)
{
	for (unsigned int i = 0; i < STEP_CORRECT; i++)
		out[i] = sum[i] / FIXED_ONE;
	out[STEP_CORRECT] = sum[STEP_CORRECT];
}

void model_step(struct model *model, const float *sum, size_t rows, float rate)
{
	float scale = 1.0f / rows;
	unsigned int i;

	for (i = 0; i < MODEL_WEIGHTS; i++) {
		model->momentum[i] = MOMENTUM * model->momentum[i] + sum[i] * scale;
		model->weight[i] -= rate * model->momentum[i];
	}
}

size_t model_correct(const struct model *model, const struct dataset *set, size_t first, size_t end,
		     size_t stride)
{
	struct activations a;
	size_t i, correct = 0;

	for (i = first; i < end; i += stride) {
		forward(model, set->rows[i].pixel, &a);
		correct += best(&a) == set->rows[i].label;
	}
	return correct;
}

/* The hash is FNV-1a. */
uint64_t model_hash(const struct model *model)
{
	const uint8_t *p = (const uint8_t *)model->weight;
	uint64_t h = 14695981039346656037ull;
	size_t i;

	for (i = 0; i < sizeof(model->weight); i++)
		h = (h ^ p[i]) * 1099511628211ull;
	return h;
}
