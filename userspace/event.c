/* SPDX-License-Identifier: BSD-2-Clause */
#include <time.h>
#include "lib/inc_log.h"
#include "userspace/switchd.h"

void inc_event_notice(void *arg, const char *event, uint32_t group, uint32_t mask, uint64_t r,
		      const char *text)
{
	struct inc_daemon *d = arg;
	const struct inc_group_cfg *cfg = inc_switch_group(d->sw, group);
	json_t *ranks = json_array(), *object;
	struct timespec now;
	uint32_t c;

	if (!cfg) {
		json_decref(ranks);
		return;
	}
	for (c = 0; c < cfg->children; c++)
		if (mask >> c & 1)
			json_array_append_new(
				ranks,
				json_integer(inc_switch_conn(d->sw, cfg->conn_base + c)->rank));
	clock_gettime(CLOCK_REALTIME, &now);
	inc_warn("%s: communicator %u, chunk %llu: %s", event, cfg->communicator,
		 (unsigned long long)r, text);
	object = json_pack("{s:s, s:s, s:I, s:s, s:I, s:o, s:I, s:s}", "type", "event", "switch",
			   d->conf.name, "time_ns",
			   (json_int_t)now.tv_sec * 1000000000 + now.tv_nsec, "event", event,
			   "communicator", (json_int_t)cfg->communicator, "ranks", ranks, "r",
			   (json_int_t)r, "message", text);
	if (!object)
		return;
	if (json_array_size(ranks))
		json_object_set(object, "rank", json_array_get(ranks, 0));
	if (json_array_size(d->events) >= INC_EVENTS_KEPT)
		json_array_remove(d->events, 0);
	json_array_append(d->events, object);
	if (d->client)
		inc_client_event(d->client, object);
	else
		json_decref(object);
}
