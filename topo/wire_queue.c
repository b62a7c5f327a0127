// SPDX-License-Identifier: BSD-2-Clause
/* A binary heap of frames by due time. Frames with equal times stay in order. */
#include <errno.h>
#include <stdlib.h>
#include "topo/wire_priv.h"

static bool before(const struct wire_queued *a, const struct wire_queued *b)
{
	return a->due_at_ns != b->due_at_ns ? a->due_at_ns < b->due_at_ns : a->order < b->order;
}

int wire_heap_push(struct wire_heap *heap, struct wire_queued *q)
{
	size_t i;

	if (heap->len == heap->cap) {
		size_t cap = heap->cap ? heap->cap * 2 : 256;
		struct wire_queued **v = reallocarray(heap->v, cap, sizeof(*v));

		if (!v)
			return -ENOMEM;
		heap->v = v;
		heap->cap = cap;
	}
	q->order = heap->order++;
	for (i = heap->len++; i; i = (i - 1) / 2) {
		struct wire_queued *parent = heap->v[(i - 1) / 2];

		if (!before(q, parent))
			break;
		heap->v[i] = parent;
	}
	heap->v[i] = q;
	return 0;
}

struct wire_queued *wire_heap_min(const struct wire_heap *heap)
{
	return heap->len ? heap->v[0] : NULL;
}

struct wire_queued *wire_heap_pop(struct wire_heap *heap)
{
	struct wire_queued *min, *last;
	size_t i = 0;

	if (!heap->len)
		return NULL;
	min = heap->v[0];
	last = heap->v[--heap->len];
	for (;;) {
		size_t c = 2 * i + 1;

		if (c >= heap->len)
			break;
		if (c + 1 < heap->len && before(heap->v[c + 1], heap->v[c]))
			c++;
		if (!before(heap->v[c], last))
			break;
		heap->v[i] = heap->v[c];
		i = c;
	}
	heap->v[i] = last;
	return min;
}

void wire_heap_free(struct wire_heap *heap)
{
	for (size_t i = 0; i < heap->len; i++)
		free(heap->v[i]);
	free(heap->v);
}
