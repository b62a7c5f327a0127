/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A context's file with random damage, the same on every run: what is not refused with one line
 * that has the place keeps all bounds, says the same when it is read once more on top of
 * itself, and can be worked with. What is refused changes nothing. Built with the sanitizers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "lib/base/clock.h"
#include "hostlib/connect/config.h"
#include "selftests/control/damage.h"

#define ROUNDS     20000
#define MAX_TIME_S 20

static const char base[] =
	"zones:\n"
	"- {subnet: 10.1.0.0/16, zones: [rack7]}\n"
	"- subnet: 10.2.0.0/31\n  zones: [rack8, row3, a, b, c, d, e, f]\n"
	"- {subnet: 0.0.0.0/0, zones: [all]}\n"
	"default_zones: [other, \"x\"]\n"
	"devices:\n- {device: mlx5_0}\n- {device: rxe0, port: 2, zones: [storage]}\n"
	"allow_unknown_zone: true\nprefer_ibdevice: no\n"
	"allow_no_usable_devices: false\nfork_safe: off\nrefresh_ms: 15000\n"
	"accept_timeout_ms: 1\n"
	"queue_pair:\n  sl: 0\n  traffic_class: 255\n  pkey_index: 65535\n  start_psn: 0xffffff\n"
	"  min_rnr_timer: 1\n  timeout: 14\n  retry_cnt: 7\n  rnr_retry: 0\n  max_sge: 16\n"
	"  max_rdma_wr: 128\n  max_rdma_wr_per_post: 32\n  max_rd_atomic: 16\n  buf_size: 16384\n"
	"  send_buf_cnt: 33\n  buf_ack_batch: 8\n  buf_signal_batch: 33\n  event_ack_batch: 128\n"
	"  record_latency_per_peer: false\n";

static unsigned int round_n, good;

/* Both in blocks of their own size. */
struct pair {
	struct connect_config *before, *config;
	int fd;
	char path[32];
};

static int fail(const char *text, size_t len, const char *why)
{
	printf("not ok config fuzz: %s in round %u: %.*s\n", why, round_n, (int)len, text);
	return 1;
}

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

/* The file, the line where it is one, and what is wrong there. */
static bool is_refusal(const char *msg, const char *path)
{
	const size_t n = strlen(path);
	unsigned int line;

	if (strncmp(msg, path, n) != 0 || strchr(msg, '\n'))
		return false;
	return (sscanf(msg + n, ":%u: %*c", &line) == 1 && line) ||
	       !strcmp(msg + n, ": empty file") || !strncmp(msg + n, ": nested deeper", 15);
}

static const char *check(const struct pair *p)
{
	struct inc_err err = {""};

	connect_config_init(p->config);
	memcpy(p->before, p->config, sizeof(*p->before));
	if (connect_config_read(p->path, p->config, &err)) {
		if (memcmp(p->before, p->config, sizeof(*p->before)))
			return "refused, and yet it changed something";
		return is_refusal(err.msg, p->path) ? NULL : err.msg[0] ? "no place" : "no message";
	}
	good++;
	if (!lists_hold(p->config) || !settings_hold(&p->config->queue_pair))
		return "out of bounds";
	if (!can_be_worked_with(p->config))
		return "of no use";
	memcpy(p->before, p->config, sizeof(*p->before));
	if (connect_config_read(p->path, p->config, &err))
		return "refused the second time";
	return memcmp(p->before, p->config, sizeof(*p->before)) ? "another thing the second time"
								: NULL;
}

static int try_one(const struct pair *p)
{
	const char *why = "not written";
	size_t len;
	char *text = damage(base, sizeof(base) - 1, &len);
	int ret;

	if (!ftruncate(p->fd, 0) && pwrite(p->fd, text, len, 0) == (ssize_t)len)
		why = check(p);
	ret = why ? fail(text, len, why) : 0;
	free(text);
	return ret;
}

int main(void)
{
	const time_t start = inc_now_s();
	struct pair p = {.before = malloc(sizeof(*p.before)),
			 .config = malloc(sizeof(*p.config)),
			 .fd = memfd_create("connect.yaml", MFD_CLOEXEC)};
	int ret = 0;

	if (!p.before || !p.config || p.fd < 0)
		return fail("", 0, "no memory");
	snprintf(p.path, sizeof(p.path), "/proc/self/fd/%d", p.fd);
	for (; !ret && round_n < ROUNDS && inc_now_s() - start < MAX_TIME_S; round_n++)
		ret = try_one(&p);
	if (!ret && (round_n < 1000 || good < round_n / 20 || good == round_n))
		ret = fail("", 0, "too few rounds, or all alike");
	if (!ret)
		printf("ok config fuzz (%u damaged files, %u still valid)\n", round_n, good);
	close(p.fd);
	free(p.before);
	free(p.config);
	return ret;
}
