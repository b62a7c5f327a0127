/* SPDX-License-Identifier: BSD-2-Clause */
/* All figures of the controller, as Prometheus text. */
#include <stdlib.h>
#include <string.h>
#include "controller/net/ctl.h"
#include "controller/core/admission.h"
#include "controller/core/comm.h"
#include "controller/core/comm_event.h"
#include "controller/core/core.h"
#include "controller/core/group.h"
#include "controller/core/orphan.h"
#include "controller/core/route.h"
#include "controller/core/switch.h"
#include "lib/base/clock.h"

#define ROOM "controller"

/* clang-format off */
#define NOW_FIGURES(_, T) \
	_(T, uptime_seconds, "seconds", GAUGE, "since the controller was started") \
	_(T, clients, "", GAUGE, "connections of members and tools") \
	_(T, switches, "", GAUGE, "switches of the topology") \
	_(T, switches_connected, "", GAUGE, "of them, connected") \
	_(T, unclaimed, "", GAUGE, "communicators that a switch has and no member has claimed")
/* Figures of each switch. The limits among them come from the switch's hello. */
#define SEEN_FIGURES(_, T) \
	_(T, connected, "", GAUGE, "1: the switch is connected") \
	_(T, communicators_limit, "", GAUGE, "communicators that it has room for") \
	_(T, connections_limit, "", GAUGE, "connections that it has room for") \
	_(T, rows_limit, "", GAUGE, "rows of contributions that it has")
/* clang-format on */

struct now {
	NOW_FIGURES(INC_METRIC_FIELD, now)
};
struct seen {
	SEEN_FIGURES(INC_METRIC_FIELD, seen)
};

static const struct inc_metric now_metrics[] = {NOW_FIGURES(INC_METRIC_ROW, now)};
static const struct inc_metric so_far_metrics[] = {
	INC_CTL_FIGURES(INC_METRIC_ROW, inc_ctl_figures)};
static const struct inc_metric core_metrics[] = {
	INC_CORE_FIGURES(INC_METRIC_ROW, inc_core_figures)};
static const struct inc_metric kept_metrics[] = {
	INC_PERSIST_COUNTS(INC_METRIC_ROW, inc_persist_counts)};
static const struct inc_metric seen_metrics[] = {SEEN_FIGURES(INC_METRIC_ROW, seen)};
static const struct inc_metric load_metrics[] = {INC_LOAD_FIGURES(INC_METRIC_ROW, inc_load)};
static const struct inc_metric job_metrics[] = {INC_JOB_FIGURES(INC_METRIC_ROW, inc_job_load)};

/* Prints figures that have no labels, each as a family of its own. */
static void print_plain(FILE *out, const struct inc_metric *table, size_t n, const void *values)
{
	for (size_t i = 0; i < n; i++) {
		inc_metric_print_head(out, ROOM, &table[i]);
		inc_metric_print_sample(out, ROOM, &table[i], values, NULL);
	}
}

static void count_one(const struct inc_core_switch *sw, uint32_t number, void *sum)
{
	++*(uint64_t *)sum;
}

static void print_own(const struct inc_ctl *ctl, FILE *out)
{
	struct now now = {
		.uptime_seconds = (inc_now_ms() - ctl->started_at_ms) / 1000,
		.clients = ctl->n_clients,
		.switches = ctl->topo->n_switches,
	};

	for (unsigned int i = 0; i < ctl->topo->n_switches; i++)
		now.switches_connected += ctl->core.switches[i]->connected;
	inc_orphans_each(&ctl->core, count_one, &now.unclaimed);
	print_plain(out, INC_METRICS(now_metrics), &now);
	print_plain(out, INC_METRICS(so_far_metrics), &ctl->figures);
	print_plain(out, INC_METRICS(core_metrics), &ctl->core.figures);
	print_plain(out, INC_METRICS(kept_metrics), &ctl->persisted);
}

/* Prints a metric family with n samples, which differ in the value of one label. */
static void print_by(FILE *out, const struct inc_metric *m, const char *label,
		     const char *(*name)(unsigned int i), const uint64_t *values, unsigned int n)
{
	inc_metric_print_head(out, ROOM, m);
	for (unsigned int i = 0; i < n; i++) {
		const struct inc_label labels[] = {{label, name(i)}, {}};

		inc_metric_print_sample(out, ROOM, m, &values[i], labels);
	}
}

static const char *event_name(unsigned int kind)
{
	return inc_event_info[kind].name;
}

static const char *comm_phase(unsigned int phase)
{
	return inc_comm_phase_name(phase);
}

static const char *group_phase(unsigned int phase)
{
	return inc_group_phase_name(phase);
}

static void print_states(const struct inc_ctl *ctl, FILE *out)
{
	static const struct inc_metric groups = {"groups", "", INC_METRIC_GAUGE, "groups by state",
						 0};
	static const struct inc_metric comms = {"communicators", "", INC_METRIC_GAUGE,
						"communicators by state", 0};
	static const struct inc_metric events = {"events", "", INC_METRIC_COUNTER,
						 "events that switches have reported, by kind", 0};
	uint64_t by_group[GROUP_OVER + 1] = {}, by_comm[COMM_REFUSED + 1] = {};
	const struct inc_group *group;
	const struct inc_comm *comm;

	LIST_FOREACH (group, &ctl->core.groups, entry) {
		by_group[group->phase]++;
		LIST_FOREACH (comm, &group->comms, entry)
			by_comm[comm->phase]++;
	}
	print_by(out, &groups, "state", group_phase, by_group, GROUP_OVER + 1);
	print_by(out, &comms, "state", comm_phase, by_comm, COMM_REFUSED + 1);
	print_by(out, &events, "event", event_name, ctl->core.events, INC_EVENT_KIND_MAX);
}

static void print_switches(const struct inc_ctl *ctl, FILE *out)
{
	const unsigned int n = ctl->topo->n_switches;
	struct inc_load *loads = calloc(n, sizeof(*loads));

	for (unsigned int s = 0; loads && s < n; s++)
		inc_switch_load(ctl->core.switches[s], &loads[s]);
	for (size_t i = 0; i < sizeof(seen_metrics) / sizeof(seen_metrics[0]); i++) {
		inc_metric_print_head(out, ROOM "_switch", &seen_metrics[i]);
		for (unsigned int s = 0; s < n; s++) {
			const struct inc_core_switch *sw = ctl->core.switches[s];
			const struct inc_label labels[] = {{"switch", inc_switch_name(sw)}, {}};
			const struct inc_msg_limits *limits =
				inc_routes_limits(ctl->core.routes, s);
			const struct seen seen = {
				.connected = sw->connected,
				.communicators_limit = limits->communicators,
				.connections_limit = limits->connections,
				.rows_limit = limits->rows,
			};

			inc_metric_print_sample(out, ROOM "_switch", &seen_metrics[i], &seen,
						labels);
		}
	}
	for (size_t i = 0; loads && i < sizeof(load_metrics) / sizeof(load_metrics[0]); i++) {
		inc_metric_print_head(out, ROOM "_switch", &load_metrics[i]);
		for (unsigned int s = 0; s < n; s++) {
			const struct inc_label labels[] = {
				{"switch", inc_switch_name(ctl->core.switches[s])}, {}};

			inc_metric_print_sample(out, ROOM "_switch", &load_metrics[i], &loads[s],
						labels);
		}
	}
	free(loads);
}

static void print_jobs(const struct inc_ctl *ctl, FILE *out)
{
	const struct inc_group *group;
	char number[16];

	for (size_t i = 0; i < sizeof(job_metrics) / sizeof(job_metrics[0]); i++) {
		inc_metric_print_head(out, ROOM "_job", &job_metrics[i]);
		LIST_FOREACH (group, &ctl->core.groups, entry) {
			const struct inc_label labels[] = {
				{"job", group->job}, {"group", number}, {}};
			const struct inc_job_load load = inc_group_load(group);

			snprintf(number, sizeof(number), "%u", group->number);
			inc_metric_print_sample(out, ROOM "_job", &job_metrics[i], &load, labels);
		}
	}
}

/* Prints a family whose samples are always 1. Their labels tell which communicator a number belongs
 * to. */
static void print_comms(const struct inc_ctl *ctl, FILE *out)
{
	static const struct inc_metric info = {"communicator_info", "", INC_METRIC_GAUGE,
					       "always 1; whose communicator a number is", 0};
	static const uint64_t one = 1;
	const struct inc_group *group;
	const struct inc_comm *comm;
	char number[16], group_number[16], channel[16];

	inc_metric_print_head(out, ROOM, &info);
	LIST_FOREACH (group, &ctl->core.groups, entry) {
		snprintf(group_number, sizeof(group_number), "%u", group->number);
		LIST_FOREACH (comm, &group->comms, entry) {
			const struct inc_label labels[] = {{"communicator", number},
							   {"job", group->job},
							   {"group", group_number},
							   {"channel", channel},
							   {}};

			if (!comm->number)
				continue;
			snprintf(number, sizeof(number), "%u", comm->number);
			snprintf(channel, sizeof(channel), "%u", inc_channel_of(comm->index));
			inc_metric_print_sample(out, ROOM, &info, &one, labels);
		}
	}
}

bool inc_ctl_figures_part(void *arg, struct inc_scrape_at *at, FILE *out)
{
	static void (*const sections[])(const struct inc_ctl *ctl, FILE *out) = {
		print_own, print_states, print_switches, print_jobs, print_comms};

	sections[at->section++](arg, out);
	return at->section < sizeof(sections) / sizeof(sections[0]);
}
