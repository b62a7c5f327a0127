/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A classifier with one hidden layer (64 pixels, 48 rectified units, 10 classes) and its
 * training by gradient descent with momentum.
 *
 * Training is repeatable to the bit: the gradient of one rank's rows is computed by the
 * same code in the same order wherever it runs, then turned into integers, by the model or by the
 * library (docs/floats.md), and integers add up to the same sum in any order. So a run over the
 * network must end with the very weights of a run in one process.
 */
#ifndef DIGITS_MODEL_H
#define DIGITS_MODEL_H

#include <stddef.h>
#include <stdint.h>
#include "hostlib/examples/digits/data.h"

#define HIDDEN        48
#define MODEL_WEIGHTS (HIDDEN * (PIXELS + 1) + CLASSES * (HIDDEN + 1))
/* What goes over the network each step: the gradient, the loss and the right answers. */
#define STEP_LOSS    MODEL_WEIGHTS
#define STEP_CORRECT (MODEL_WEIGHTS + 1)
#define STEP_VALUES  (MODEL_WEIGHTS + 2)

/* The model's own fixed point: a sum of 2^11 rows, each component below 2^4 in size, fits. */
#define FIXED_ONE 65536.0f

struct model {
	float weight[MODEL_WEIGHTS]; /* hidden layer, then output layer; bias last in each unit */
	float momentum[MODEL_WEIGHTS];
};

void model_init(struct model *model);

/* The part of one rank in a step: rows first, first + stride, ... below end of the set (indexes
 * through order), into out, which holds STEP_VALUES of them. Returns how many rows these are. */
size_t model_gradient(const struct model *model, const struct dataset *set, const uint32_t *order,
		      size_t first, size_t end, size_t stride, float *out);

/* STEP_VALUES values of one rank's rows as integers, and the sum of all ranks' back. */
void model_to_fixed(int32_t *out, const float *values, size_t rows);
void model_from_fixed(float *out, const int32_t *sum);

/* One step with the sum over all ranks; rows: how many it is over. */
void model_step(struct model *model, const float *sum, size_t rows, float rate);

/* Right answers among rows first, first + stride, ... below end. */
size_t model_correct(const struct model *model, const struct dataset *set, size_t first, size_t end,
		     size_t stride);

/* 64 bits of the weights' bytes. */
uint64_t model_hash(const struct model *model);

#endif
