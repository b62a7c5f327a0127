/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A classifier with one hidden layer (64 pixels, 48 rectified units, 10 classes), trained by
 * gradient descent with momentum.
 *
 * Training is repeatable to the bit. The gradient of a rank's rows is always computed by the same
 * code in the same order. It is then converted to integers, by the model or by the library
 * (docs/floats.md), and sums of integers do not depend on the order. So a run over the network must
 * end with exactly the weights of a run in one process.
 */
#ifndef DIGITS_MODEL_H
#define DIGITS_MODEL_H

#include <stddef.h>
#include <stdint.h>
#include "hostlib/examples/digits/data.h"

#define HIDDEN        48
#define MODEL_WEIGHTS (HIDDEN * (PIXELS + 1) + CLASSES * (HIDDEN + 1))
/* The indexes of the values that each step sums over the network: the gradient, then the loss, and
 * the number of correct answers. */
#define STEP_LOSS    MODEL_WEIGHTS
#define STEP_CORRECT (MODEL_WEIGHTS + 1)
#define STEP_VALUES  (MODEL_WEIGHTS + 2)

/* The factor by which the model's numbers become fixed-point integers. A sum of 2^11 rows fits into
 * 32 bits if the size of each component is below 2^4. */
#define FIXED_ONE 65536.0f

struct model {
	/* weights of the hidden layer, then of the output layer; the last weight of each unit is
	 * its bias */
	float weight[MODEL_WEIGHTS];
	float momentum[MODEL_WEIGHTS];
};

void model_init(struct model *model);

/* Computes one rank's part of a training step: the sum of the gradients of rows order[first],
 * order[first + stride] and so on, below order[end]. out receives STEP_VALUES values. Returns the
 * number of rows. */
size_t model_gradient(const struct model *model, const struct dataset *set, const uint32_t *order,
		      size_t first, size_t end, size_t stride, float *out);

/* These functions convert STEP_VALUES values of one rank's rows to integers, and the sum over all
 * ranks back. */
void model_to_fixed(int32_t *out, const float *values, size_t rows);
void model_from_fixed(float *out, const int32_t *sum);

/* Applies one training step to the weights. sum is the sum over all ranks, and rows the number of
 * rows in it. */
void model_step(struct model *model, const float *sum, size_t rows, float rate);

/* Counts the model's correct answers among rows first, first + stride and so on, below end. */
size_t model_correct(const struct model *model, const struct dataset *set, size_t first, size_t end,
		     size_t stride);

/* Returns a 64-bit hash of the weights, by which runs are compared. */
uint64_t model_hash(const struct model *model);

#endif
