/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "hostlib/examples/digits/data.h"

#define MAX_PIXEL 16

static int parse_row(char *line, struct row *row)
{
	char *at = line, *end;
	unsigned int i;
	long v;

	for (i = 0; i <= PIXELS; i++) {
		v = strtol(at, &end, 10);
		if (end == at || v < 0 || v > (i < PIXELS ? MAX_PIXEL : CLASSES - 1))
			return -EINVAL;
		if (i < PIXELS)
			row->pixel[i] = v / (float)MAX_PIXEL;
		else
			row->label = v;
		if (i < PIXELS && *end != ',')
			return -EINVAL;
		at = end + 1;
	}
	return *end == '\n' || *end == '\r' || !*end ? 0 : -EINVAL;
}

int data_load(const char *path, struct dataset *set, struct inc_err *err)
{
	size_t room = 0, size = 0;
	char *line = NULL;
	struct row *rows;
	FILE *f;
	int ret = 0;

	memset(set, 0, sizeof(*set));
	f = fopen(path, "re");
	if (!f)
		return inc_err_set(err, errno, "%s: %s", path, strerror(errno));
	while (getline(&line, &size, f) > 0) {
		if (set->count == room) {
			room = room ? 2 * room : 1024;
			rows = reallocarray(set->rows, room, sizeof(*rows));
			if (!rows) {
				ret = inc_err_set(err, ENOMEM, "%s: %s", path, strerror(ENOMEM));
				break;
			}
			set->rows = rows;
		}
		ret = parse_row(line, &set->rows[set->count]);
		if (ret) {
			inc_err_set(err, EINVAL,
				    "%s:%zu: want %d pixels (0..%d) and a label (0..%d)", path,
				    set->count + 1, PIXELS, MAX_PIXEL, CLASSES - 1);
			break;
		}
		set->count++;
	}
	if (!ret && ferror(f))
		ret = inc_err_set(err, EIO, "%s: %s", path, strerror(EIO));
	if (!ret && !set->count)
		ret = inc_err_set(err, EINVAL, "%s: no rows", path);
	free(line);
	fclose(f);
	if (ret)
		data_free(set);
	return ret;
}

void data_free(struct dataset *set)
{
	free(set->rows);
	memset(set, 0, sizeof(*set));
}
