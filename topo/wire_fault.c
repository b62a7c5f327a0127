// SPDX-License-Identifier: BSD-2-Clause
/*
 * Decides which fault each frame gets, by probabilities and deterministic faults, and parses their
 * texts.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include "lib/base/clock.h"
#include "lib/proto/frame.h"
#include "lib/proto/roce.h"
#include "topo/wire_priv.h"

#define FAULTS_MAX 4096
#define IP6_LEN    40

const char *const wire_dir_names[WIRE_DIRS] = {"up", "down"};

static uint64_t splitmix64(uint64_t *x)
{
	uint64_t z = *x += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

/* Draws the next random number, by xoroshiro128+. */
static uint64_t rng_next(uint64_t s[2])
{
	uint64_t s0 = s[0], s1 = s[1], r = s0 + s1;

	s1 ^= s0;
	s[0] = (s0 << 24 | s0 >> 40) ^ s1 ^ s1 << 16;
	s[1] = s1 << 37 | s1 >> 27;
	return r;
}

/* Makes a number from 0 to below 1 of a random one. */
static double unit(uint64_t random)
{
	return (double)(random >> 11) * 0x1p-53;
}

void wire_line_seed(struct wire_line *line, uint64_t seed, enum wire_dir dir)
{
	uint64_t x = seed * 2 + dir;

	line->rng[0] = splitmix64(&x);
	line->rng[1] = splitmix64(&x);
}

void wire_line_free(struct wire_line *line)
{
	free(line->faults);
	free(line->held);
}

static int fault_add(struct wire_line *line, const struct wire_fault *fault, struct inc_err *err)
{
	struct wire_fault *v;

	if (line->n_faults == FAULTS_MAX)
		return inc_err_set(err, E2BIG, "more than %d faults armed", FAULTS_MAX);
	v = reallocarray(line->faults, line->n_faults + 1, sizeof(*v));
	if (!v)
		return inc_err_set(err, ENOMEM, "out of memory");
	line->faults = v;
	line->faults[line->n_faults++] = *fault;
	return 0;
}

/* Parses a direction at the beginning of the text, "up:" or "down:". Returns the direction and
 * moves *text behind it, or returns -1 if the text has no direction. */
static int take_dir(const char **text)
{
	for (int d = 0; d < WIRE_DIRS; d++) {
		size_t n = strlen(wire_dir_names[d]);

		if (!strncmp(*text, wire_dir_names[d], n) && (*text)[n] == ':') {
			*text += n + 1;
			return d;
		}
	}
	return -1;
}

/* Parses the value of a deterministic fault: numbers of frames, such as "3" or "0,5,9". With "@20"
 * behind them, the fault is a delay of 20 ms. */
static int set_fault(struct wire_line lines[WIRE_DIRS], enum wire_act act, enum wire_class class,
		     const char *spec, const char *text, struct inc_err *err)
{
	struct wire_fault fault = {.act = act, .class = class};
	int dir = take_dir(&text);
	const char *at = strchr(text, '@');
	char *end;
	int ret;

	if (dir < 0)
		return inc_err_set(err, EINVAL, "'%s': wants up:N or down:N", spec);
	if ((act == WIRE_DELAY) != !!at)
		return inc_err_set(err, EINVAL, "'%s': wants %s", spec,
				   at ? "no @" : "@MILLISECONDS behind the numbers");
	if (at) {
		double ms = strtod(at + 1, &end);

		if (end == at + 1 || *end || !(ms >= 0 && ms <= 60000))
			return inc_err_set(err, EINVAL, "'%s': '%s' is not 0 to 60000 ms", spec,
					   at + 1);
		fault.delay_ns = ms * INC_NSEC_PER_MSEC;
	}
	for (;;) {
		unsigned long long n;

		if (*text < '0' || *text > '9')
			return inc_err_set(err, EINVAL, "'%s': '%s' is not a number", spec, text);
		errno = 0;
		n = strtoull(text, &end, 10);
		if (errno || (*end && *end != ',' && end != at))
			return inc_err_set(err, EINVAL, "'%s': '%s' is not a number", spec, text);
		fault.index = lines[dir].n.class[class] + n;
		ret = fault_add(&lines[dir], &fault, err);
		if (ret || *end != ',')
			return ret;
		text = end + 1;
	}
}

static int set_number(struct wire_line lines[WIRE_DIRS], const char *key, const char *spec,
		      const char *text, struct inc_err *err)
{
	static const char *const probabilities[WIRE_ACTS] = {[WIRE_DROP] = "loss",
							     [WIRE_DUP] = "duplicate",
							     [WIRE_CORRUPT] = "corrupt",
							     [WIRE_CORRUPT_ETH] = "corrupt_eth",
							     [WIRE_CORRUPT_ANY] = "corrupt_any",
							     [WIRE_REORDER] = "reorder",
							     [WIRE_BURST] = "burst",
							     [WIRE_MARK] = "mark"};
	int dir = take_dir(&text);
	char *end;
	double v = strtod(text, &end);

	if (end == text || *end || !isfinite(v) || v < 0)
		return inc_err_set(err, EINVAL, "'%s': '%s' is not a number of 0 or more", spec,
				   text);
	for (int d = 0; d < WIRE_DIRS; d++) {
		if (dir >= 0 && d != dir)
			continue;
		if (!strcmp(key, "rate") && v <= 1e6) {
			lines[d].rate_bps = v * 1e6;
			continue;
		} else if (!strcmp(key, "delay_us") && v <= 60e6) {
			lines[d].delay_ns = v * INC_NSEC_PER_USEC;
			continue;
		} else if (!strcmp(key, "queue_kib") && v >= 16 && v <= 1 << 20) {
			lines[d].queue_max_bytes = v * 1024;
			continue;
		} else if (!strcmp(key, "queue_frames") && v <= WIRE_QUEUE_FRAMES_MAX) {
			lines[d].queue_frames = v;
			continue;
		} else if (!strcmp(key, "mark_frames") && v <= WIRE_QUEUE_FRAMES_MAX) {
			lines[d].mark_frames = v;
			continue;
		} else if (!strcmp(key, "down_ms") && v <= 60000) {
			lines[d].up_at_ns = inc_now_ns() + (uint64_t)(v * INC_NSEC_PER_MSEC);
			continue;
		}
		int a;

		for (a = 0; a < WIRE_ACTS && strcmp(key, probabilities[a] ?: ""); a++)
			;
		if (a == WIRE_ACTS || v > 1)
			return inc_err_set(err, EINVAL, "'%s': no such setting, or out of range",
					   spec);
		lines[d].p[a] = v;
	}
	return 0;
}

int wire_set(struct wire_line lines[WIRE_DIRS], const char *spec, struct inc_err *err)
{
	static const struct {
		const char *name;
		enum wire_act act;
		enum wire_class class;
	} faults[] = {
		{"drop", WIRE_DROP, WIRE_DATA},
		{"drop-ack", WIRE_DROP, WIRE_ACK},
		{"dup", WIRE_DUP, WIRE_DATA},
		{"dup-ack", WIRE_DUP, WIRE_ACK},
		{"corrupt", WIRE_CORRUPT, WIRE_DATA},
		{"corrupt-ack", WIRE_CORRUPT, WIRE_ACK},
		{"corrupt-eth", WIRE_CORRUPT_ETH, WIRE_DATA},
		{"corrupt-any", WIRE_CORRUPT_ANY, WIRE_DATA},
		{"reorder", WIRE_REORDER, WIRE_DATA},
		{"reorder-ack", WIRE_REORDER, WIRE_ACK},
		{"burst", WIRE_BURST, WIRE_DATA},
		{"delay", WIRE_DELAY, WIRE_DATA},
		{"delay-ack", WIRE_DELAY, WIRE_ACK},
		{"mark", WIRE_MARK, WIRE_DATA},
		{"mark-ack", WIRE_MARK, WIRE_ACK},
	};
	const char *eq = strchr(spec, '=');
	size_t n = eq ? (size_t)(eq - spec) : 0;
	char key[16];

	if (!strcmp(spec, "clear")) {
		for (int d = 0; d < WIRE_DIRS; d++)
			lines[d].n_faults = lines[d].burst = 0;
		return 0;
	}
	if (!n || n >= sizeof(key))
		return inc_err_set(err, EINVAL, "'%s': wants KEY=VALUE or clear", spec);
	memcpy(key, spec, n);
	key[n] = 0;
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		const char *text = eq + 1;

		if (strcmp(key, faults[i].name))
			continue;
		/* For corrupt, reorder, burst and mark a value with a dot or without a direction is
		 * a probability. Otherwise it is the number of a frame, as in corrupt=up:1. */
		if ((!strcmp(key, "corrupt") || !strcmp(key, "reorder") || !strcmp(key, "burst") ||
		     !strcmp(key, "mark")) &&
		    (strchr(text, '.') || !strchr(text, ':')))
			break;
		return set_fault(lines, faults[i].act, faults[i].class, spec, text, err);
	}
	return set_number(lines, key, spec, eq + 1, err);
}

/* Returns the offset of the BTH; 0 if the frame is not RoCEv2 over IPv4. */
static size_t bth_offset(const uint8_t *frame, size_t len)
{
	size_t l4 = INC_ETH_LEN + INC_IP_LEN;
	uint16_t v;

	if (len < l4 + INC_UDP_LEN + INC_BTH_LEN || frame[12] != 0x08 || frame[13] != 0x00 ||
	    frame[14] != 0x45 || frame[23] != IPPROTO_UDP)
		return 0;
	/* a RoCE frame has 4791 as its destination port, or, if it is a result, as its source
	 * port */
	memcpy(&v, frame + l4, 2);
	if (ntohs(v) != INC_ROCE_UDP_PORT) {
		memcpy(&v, frame + l4 + 2, 2);
		if (ntohs(v) != INC_ROCE_UDP_PORT)
			return 0;
	}
	return l4 + INC_UDP_LEN;
}

enum wire_class wire_classify(const uint8_t *frame, size_t len)
{
	size_t bth = bth_offset(frame, len);

	if (!bth)
		return WIRE_OTHER;
	if (frame[bth] == INC_OP_CNP)
		return WIRE_OTHER; /* its number depends on the time */
	return frame[bth] == INC_OP_ACK ? WIRE_ACK : WIRE_DATA;
}

void wire_decide(struct wire_line *line, enum wire_class class, uint64_t now_ns,
		 struct wire_verdict *verdict)
{
	uint64_t index = line->n.class[class]++;
	bool hit[WIRE_ACTS] = {0};
	uint64_t bits;

	memset(verdict, 0, sizeof(*verdict));
	line->n.received++;
	for (int a = 0; a < WIRE_DELAY; a++)
		hit[a] = unit(rng_next(line->rng)) < line->p[a];
	bits = rng_next(line->rng);
	verdict->corrupt_at = bits;
	/* made from the last value, so that a seed gives the same faults with marks and without */
	hit[WIRE_MARK] = unit(splitmix64(&(uint64_t){bits})) < line->p[WIRE_MARK];
	if (hit[WIRE_REORDER])
		verdict->reorder_gap = 1 + (bits >> 32) % 3;
	for (size_t i = 0; i < line->n_faults;) {
		const struct wire_fault *f = &line->faults[i];

		if (f->class != class || f->index != index) {
			i++;
			continue;
		}
		hit[f->act] = true;
		if (f->act == WIRE_DELAY)
			verdict->delay_ns = f->delay_ns;
		if (f->act == WIRE_REORDER)
			verdict->reorder_gap = 1;
		line->faults[i] = line->faults[--line->n_faults];
	}
	if (hit[WIRE_BURST] && !line->burst)
		line->burst = WIRE_BURST_FRAMES;
	verdict->drop = hit[WIRE_DROP] || line->burst || now_ns < line->up_at_ns;
	line->burst -= line->burst > 0;
	verdict->copies = hit[WIRE_DUP] ? 2 : 1;
	verdict->corrupt = hit[WIRE_CORRUPT];
	verdict->corrupt_eth = hit[WIRE_CORRUPT_ETH];
	verdict->corrupt_any = hit[WIRE_CORRUPT_ANY];
	verdict->mark = hit[WIRE_MARK];
}

bool wire_mark(uint8_t *frame, size_t len)
{
	const size_t tag = len > 13 && frame[12] == 0x81 && frame[13] == 0x00 ? 4 : 0;
	uint8_t *type = frame + 12 + tag, *ip = frame + INC_ETH_LEN + tag;
	uint32_t sum;

	if (len >= INC_ETH_LEN + tag + IP6_LEN && type[0] == 0x86 && type[1] == 0xdd) {
		if (!(ip[1] & INC_ECN_MASK << 4) || (ip[1] & INC_ECN_MASK << 4) == INC_ECN_CE << 4)
			return false;
		ip[1] |= INC_ECN_CE << 4;
		return true;
	}
	if (len < INC_ETH_LEN + tag + INC_IP_LEN || type[0] != 0x08 || type[1] != 0x00 ||
	    !(ip[1] & INC_ECN_MASK) || (ip[1] & INC_ECN_MASK) == INC_ECN_CE)
		return false;
	/* RFC 1624: the checksum falls by what the word of the TOS byte rises */
	sum = (ip[10] << 8 | ip[11]) + 0xffff - (INC_ECN_CE - (ip[1] & INC_ECN_MASK));
	sum = (sum & 0xffff) + (sum >> 16);
	ip[1] |= INC_ECN_CE;
	ip[10] = sum >> 8;
	ip[11] = sum;
	return true;
}

void wire_corrupt_eth(uint8_t *frame, uint32_t at)
{
	uint32_t bit = at % (2 * 6 * 8);

	frame[bit / 8] ^= 1 << bit % 8;
}

void wire_corrupt_any(uint8_t *frame, size_t len, uint32_t at)
{
	uint32_t bit = at % (len * 8);

	frame[bit / 8] ^= 1 << bit % 8;
}

void wire_corrupt(uint8_t *frame, size_t len, enum wire_class class, uint32_t at)
{
	size_t start = class == WIRE_OTHER ? INC_ETH_LEN : bth_offset(frame, len);
	uint32_t bit;

	if (len <= start)
		return;
	bit = at % ((len - start) * 8);
	frame[start + bit / 8] ^= 1 << bit % 8;
}

json_t *wire_stats_json(const struct wire_line lines[WIRE_DIRS])
{
	json_t *out = json_object();

	for (int d = 0; d < WIRE_DIRS; d++) {
		const struct wire_counters *n = &lines[d].n;
		const struct {
			const char *name;
			uint64_t value;
		} v[] = {{"received", n->received},
			 {"forwarded", n->forwarded},
			 {"lost", n->lost},
			 {"duplicated", n->duplicated},
			 {"corrupted", n->corrupted},
			 {"reordered", n->reordered},
			 {"delayed", n->delayed},
			 {"marked", n->marked},
			 {"overflow", n->overflow},
			 {"send_errors", n->send_errors},
			 {"data", n->class[WIRE_DATA]},
			 {"acks", n->class[WIRE_ACK]},
			 {"other", n->class[WIRE_OTHER]},
			 {"armed", lines[d].n_faults}};
		json_t *o = json_object();

		for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++)
			json_object_set_new(o, v[i].name, json_integer(v[i].value));
		json_object_set_new(out, wire_dir_names[d], o);
	}
	return out;
}
