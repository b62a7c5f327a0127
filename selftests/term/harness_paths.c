/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "selftests/term/harness_paths.h"

uint32_t path_choose(struct path *path, uint32_t n)
{
	const uint32_t at = path->at++;

	assert_true(at < PATH_STEPS && n > 0);
	if (at == path->length) {
		path->taken[at] = 0;
		path->length++;
	}
	path->of[at] = n;
	return path->taken[at];
}

bool path_step(struct path *path, struct node_harness *h, bool late)
{
	uint32_t moves[NODE_MOVES], n = node_moves(h, late, moves);

	if (n)
		node_move(h, late, moves[path_choose(path, n)]);
	return n;
}

/* Advances to the next path: changes the last choice that has another alternative left. */
static bool advance(struct path *path)
{
	while (path->length && path->taken[path->length - 1] + 1 == path->of[path->length - 1])
		path->length--;
	if (!path->length)
		return false;
	path->taken[path->length - 1]++;
	path->at = 0;
	return true;
}

uint64_t path_all(void (*run)(struct path *path, void *arg), void *arg)
{
	struct path path = {};
	uint64_t n = 0;

	do {
		run(&path, arg);
		n++;
	} while (advance(&path));
	return n;
}
