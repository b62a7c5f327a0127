/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads the counters of the XDP programs, summed over the CPUs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "loader/inc_loader_priv.h"

#define READ_ATTEMPTS 4

const struct inc_counter_info inc_counter_info[INC_CTR_MAX] = {
#define _(ID, name, class, text) [INC_CTR_##ID] = {#name, class, text},
	INC_COUNTERS(_)
#undef _
};

static int read_values(int fd, uint64_t *cpu, int cpus, uint64_t value[INC_CTR_MAX],
		       struct inc_err *err)
{
	uint32_t i;
	int c;

	for (i = 0; i < INC_CTR_MAX; i++) {
		if (bpf_map_lookup_elem(fd, &i, cpu))
			return inc_err_set(err, errno, "map %s: counter %s cannot be read: %s",
					   INC_MAP_COUNTER, inc_counter_info[i].name,
					   strerror(errno));
		value[i] = 0;
		for (c = 0; c < cpus; c++)
			value[i] += cpu[c];
	}
	return 0;
}

static uint64_t add_up(struct inc_counters *out)
{
	uint32_t i;

	out->received = out->passed = out->dropped = 0;
	out->absorbed = out->answered = out->multicast = 0;
	for (i = 0; i < INC_CTR_MAX; i++) {
		switch (inc_counter_info[i].class) {
		case 'R':
			out->received += out->value[i];
			break;
		case 'P':
			out->passed += out->value[i];
			break;
		case 'D':
			out->dropped += out->value[i];
			break;
		case 'A':
			out->absorbed += out->value[i];
			break;
		case 'W':
			out->answered += out->value[i];
			break;
		case 'M':
			out->multicast += out->value[i];
			break;
		}
	}
	return out->passed + out->dropped + out->absorbed + out->answered + out->multicast;
}

/* Adds up how many packets have left the queues to CPUs, or were put into them. */
static uint64_t queued(const struct inc_switch *sw, bool left)
{
	uint64_t n = 0;
	uint32_t i;

	for (i = 0; i < sw->steering.n; i++) {
		const struct inc_queue *queue = &sw->queues[sw->steering.cpu[i]];

		n += __atomic_load_n(left ? &queue->taken : &queue->put, __ATOMIC_ACQUIRE);
	}
	return n;
}

int inc_switch_read_counters(const struct inc_switch *sw, struct inc_counters *out,
			     struct inc_err *err)
{
	int fd = inc_switch_map_fd(sw, INC_MAP_COUNTER), cpus = libbpf_num_possible_cpus();
	uint64_t *cpu, before, after, received, left, waiting;
	int ret, attempt;

	if (fd < 0 || cpus < 0)
		return inc_err_set(err, ENOENT, "counters cannot be read");
	cpu = calloc(cpus, sizeof(*cpu));
	if (!cpu)
		return inc_err_set(err, ENOMEM, "no memory for the counters of %d CPUs", cpus);
	memset(out, 0, sizeof(*out));
	ret = read_values(fd, cpu, cpus, out->value, err);
	after = add_up(out);
	/*
	 * A packet is counted as received first and on its outcome last. So the number of received
	 * packets is at least the outcomes read before. It exceeds the outcomes read after it by at
	 * most the packets in progress, one per CPU, and those in the queues to CPUs.
	 */
	for (attempt = 0; !ret && attempt < READ_ATTEMPTS; attempt++) {
		before = after;
		left = queued(sw, true);
		ret = read_values(fd, cpu, cpus, out->value, err);
		received = out->value[INC_CTR_RX];
		after = add_up(out);
		waiting = queued(sw, false) - left;
		if (before == after && received == after) {
			out->balanced = true;
			break;
		}
		out->balanced = (before != after || waiting) && before <= received &&
				received <= after + cpus + waiting;
	}
	free(cpu);
	return ret;
}
