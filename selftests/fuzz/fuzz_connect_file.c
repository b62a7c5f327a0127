// SPDX-License-Identifier: BSD-2-Clause
/*
 * RUNS: 3000
 *
 * Target: the file of a context of the connection service. The error of a rejected file must be one
 * line that has the place in the file, and the file must change nothing. An accepted file must be
 * within all bounds, have the same effect when it is read again into the same struct, and be
 * usable.
 */
#include <stdlib.h>
#include <string.h>
#include "hostlib/connect/config.h"
#include "selftests/fuzz/fuzz.h"

static bool zones_hold(const struct connect_zones *zones)
{
	uint32_t i;

	for (i = 0; i < zones->n && i < INC_CONNECT_MAX_ZONES; i++)
		if (!zones->zone[i].name[0] || strpbrk(zones->zone[i].name, " \t\r\n"))
			return false;
	return i == zones->n;
}

static bool lists_hold(const struct connect_config *c)
{
	uint32_t i;

	if (c->n_subnets > CONNECT_MAX_SUBNETS || c->n_allowed > CONNECT_MAX_ALLOWED)
		return false;
	for (i = 0; i < c->n_subnets; i++) {
		const struct connect_subnet *s = &c->subnets[i];

		if ((s->net & ~s->mask) || (~s->mask & (~s->mask + 1)) || !s->zones.n ||
		    !zones_hold(&s->zones))
			return false;
	}
	for (i = 0; i < c->n_allowed; i++)
		if (!c->allowed[i].device[0] || !zones_hold(&c->allowed[i].zones))
			return false;
	return zones_hold(&c->default_zones);
}

static bool settings_hold(const struct inc_connect_settings *s)
{
	struct inc_err why;

#define BETWEEN(name, type, preset, least, most, about)                                \
	if ((int64_t)s->name < (int64_t)(least) || (int64_t)s->name > (int64_t)(most)) \
		return false;
	INC_CONNECT_SETTINGS(BETWEEN)
#undef BETWEEN
	return !connect_settings_wrong(s, &why) && connect_recv_wr(s) > s->send_buf_cnt &&
	       connect_cq_entries(s) > connect_send_wr(s);
}

static bool can_be_worked_with(const struct connect_config *c)
{
	static const struct inc_rdma_gid gids[] = {
		{.type = INC_RDMA_GID_ROCE_V2, .raw = {0xfe, 0x80, [15] = 1}},
		{.type = INC_RDMA_GID_ROCE_V2, .raw = {[10] = 0xff, 0xff, 10, 1, 2, 3}},
		{.type = INC_RDMA_GID_ROCE_V2, .raw = {[10] = 0xff, 0xff, 10, 2, 0, 1}},
	};
	const struct inc_rdma_port_info port = {.number = 2, .gid = gids, .gids = 3};
	struct inc_rdma_filter_entry *entries = calloc(CONNECT_MAX_ALLOWED, sizeof(*entries));
	struct inc_rdma_filter filter;
	struct connect_zones zones;
	bool fine;

	connect_config_filter(c, entries, &filter);
	fine = filter.entries == c->n_allowed &&
	       (!c->n_allowed ||
		!strcmp(entries[c->n_allowed - 1].device, c->allowed[c->n_allowed - 1].device));
	free(entries);
	connect_port_zones(c, "rxe0", &port, &zones);
	return fine && zones_hold(&zones);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct connect_config *before = malloc(sizeof(*before)), *config = malloc(sizeof(*config));
	const char *path = fuzz_file(data, size);
	struct inc_err err = {""};

	fuzz_require(before && config, "no memory");
	connect_config_init(config);
	memcpy(before, config, sizeof(*before));
	if (connect_config_read(path, config, &err)) {
		fuzz_require(!memcmp(before, config, sizeof(*before)),
			     "refused, and yet it changed something");
		fuzz_check_file_refusal(&err, path);
		goto out;
	}
	fuzz_require(lists_hold(config) && settings_hold(&config->queue_pair), "out of bounds");
	fuzz_require(can_be_worked_with(config), "of no use");
	memcpy(before, config, sizeof(*before));
	fuzz_require(!connect_config_read(path, config, &err), "refused the second time: %s",
		     err.msg);
	fuzz_require(!memcmp(before, config, sizeof(*before)), "another thing the second time");
out:
	free(before);
	free(config);
	return 0;
}
