/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A competitor that the benchmark measures for comparison with the switch: a ring AllReduce of
 * int32 over TCP, with reduce-scatter and allgather as MPI and NCCL do it, on the same hosts and
 * links. Rank and size come from INCCL_RANK and INCCL_WORLD_SIZE, and the addresses of all ranks
 * from the command line. Rank 0 prints one JSON object per size.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "lib/base/clock.h"
#include "lib/base/opt.h"
#include "lib/base/addr.h"

#define PORT        53199
#define CONNECT_MS  10000
#define MAX_SAMPLES 64

struct ring {
	int rank, size;
	/* sockets to the next rank (rank + 1) and from the previous one (rank - 1) */
	int next, prev;
};

static int die(const char *what)
{
	fprintf(stderr, "ring: %s: %s\n", what, strerror(errno));
	return -errno;
}

static int connect_ring(struct ring *r, const char *const *addrs)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(PORT)};
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(PORT)};
	uint64_t deadline = inc_now_ns() + CONNECT_MS * 1000000ull;
	int one = 1, lfd = socket(AF_INET, SOCK_STREAM, 0);
	struct pollfd p = {.fd = lfd, .events = POLLIN};

	setsockopt(lfd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(lfd, (struct sockaddr *)&any, sizeof(any)) || listen(lfd, 1))
		return die("listen");
	if (inet_pton(AF_INET, addrs[(r->rank + 1) % r->size], &to.sin_addr) != 1)
		return die("address");
	for (;;) {
		r->next = socket(AF_INET, SOCK_STREAM, 0);
		if (!connect(r->next, (struct sockaddr *)&to, sizeof(to)))
			break;
		if (inc_now_ns() > deadline)
			return die("connect");
		close(r->next);
		poll(NULL, 0, 10); /* waits, because the neighbour may still be starting */
	}
	if (poll(&p, 1, CONNECT_MS) != 1 || (r->prev = accept(lfd, NULL, NULL)) < 0)
		return die("accept");
	setsockopt(r->next, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	close(lfd);
	return 0;
}

/* Sends and receives at the same time. Otherwise every rank could block because the next rank's
 * buffer is full. */
static int exchange(struct ring *r, const char *out, size_t out_len, char *in, size_t in_len)
{
	while (out_len || in_len) {
		struct pollfd p[2] = {
			{.fd = out_len ? r->next : -1, .events = POLLOUT},
			{.fd = in_len ? r->prev : -1, .events = POLLIN},
		};
		ssize_t n;

		if (poll(p, 2, CONNECT_MS) <= 0)
			return die("poll");
		if (p[0].revents) {
			n = send(r->next, out, out_len, MSG_DONTWAIT | MSG_NOSIGNAL);
			if (n < 0 && errno != EAGAIN)
				return die("send");
			out += n > 0 ? n : 0;
			out_len -= n > 0 ? n : 0;
		}
		if (p[1].revents) {
			n = recv(r->prev, in, in_len, MSG_DONTWAIT);
			if (n == 0 || (n < 0 && errno != EAGAIN))
				return die("recv");
			in += n > 0 ? n : 0;
			in_len -= n > 0 ? n : 0;
		}
	}
	return 0;
}

static int allreduce(struct ring *r, int32_t *v, size_t count, int32_t *tmp)
{
	size_t part = (count + r->size - 1) / r->size;

#define AT(i)  ((size_t)(((i) % r->size + r->size) % r->size) * part)
#define LEN(i) (AT(i) >= count ? 0 : (count - AT(i) < part ? count - AT(i) : part))
	for (int step = 0; step < r->size - 1; step++) {
		int out = r->rank - step, in = r->rank - step - 1;
		size_t n = LEN(in);

		if (exchange(r, (char *)(v + AT(out)), LEN(out) * 4, (char *)tmp, n * 4))
			return -1;
		for (size_t i = 0; i < n; i++)
			v[AT(in) + i] = (int32_t)((uint32_t)v[AT(in) + i] + (uint32_t)tmp[i]);
	}
	for (int step = 0; step < r->size - 1; step++) {
		int out = r->rank + 1 - step, in = r->rank - step;

		if (exchange(r, (char *)(v + AT(out)), LEN(out) * 4, (char *)(v + AT(in)),
			     LEN(in) * 4))
			return -1;
	}
	return 0;
}

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

struct settings {
	uint64_t bytes;
	unsigned int iters;
	struct inc_opt_list addrs;
	struct ring ring;
};

static const struct inc_opt options[] = {
	{.value = "BYTES", .required = true, INC_OPT_NUMBER(struct settings, bytes, 4, 1ull << 32)},
	{.value = "ITERATIONS",
	 .required = true,
	 INC_OPT_NUMBER(struct settings, iters, 1, MAX_SAMPLES)},
	{.value = "ADDRESS",
	 .required = true,
	 .help = "of rank 0, of rank 1 and so on",
	 INC_OPT_LIST(struct settings, addrs, inc_ipv4_check)},
	{},
};

static int take_variable(const char *name, uint64_t min, uint64_t max, int *out)
{
	struct inc_err err;
	uint64_t v;

	if (inc_opt_number(getenv(name) ?: "", min, max, &v, &err))
		return inc_usage("%s: %s", name, err.msg);
	*out = v;
	return 0;
}

static int check(void *settings)
{
	struct settings *s = settings;
	struct ring *r = &s->ring;

	if (take_variable("INCCL_WORLD_SIZE", 2, 65536, &r->size) ||
	    take_variable("INCCL_RANK", 0, r->size - 1, &r->rank))
		return -EINVAL;
	if (s->addrs.count != (unsigned int)r->size)
		return inc_usage("%u addresses, but INCCL_WORLD_SIZE is %d", s->addrs.count,
				 r->size);
	return 0;
}

static const struct inc_program program = {
	.name = "ring",
	.about = "A ring AllReduce over TCP. Rank and size come from INCCL_RANK and "
		 "INCCL_WORLD_SIZE.",
	.groups = {{options, 0}},
	.check = check,
};

/* Measures all iterations. Sets ns[i] to the time of iteration i. Returns how many elements were
 * wrong, or -1. */
static int64_t measure(const struct settings *s, struct ring *r, uint64_t *ns)
{
	size_t count = s->bytes / 4;
	int32_t *v = malloc(s->bytes), *tmp = malloc(s->bytes);
	int64_t wrong = -1;

	if (!v || !tmp || connect_ring(r, s->addrs.text))
		goto out;
	wrong = 0;
	for (int k = -1; k < (int)s->iters; k++) {
		uint64_t t0;

		for (size_t i = 0; i < count; i++)
			v[i] = (int32_t)(i * 7 + r->rank);
		t0 = inc_now_ns();
		if (allreduce(r, v, count, tmp)) {
			wrong = -1;
			break;
		}
		if (k >= 0)
			ns[k] = inc_now_ns() - t0;
		for (size_t i = 0; i < count; i++)
			wrong += (uint32_t)v[i] !=
				 (uint32_t)(i * 7 * r->size + r->size * (r->size - 1) / 2);
	}
out:
	free(v);
	free(tmp);
	return wrong;
}

int main(int argc, char **argv)
{
	struct settings s = {};
	uint64_t ns[MAX_SAMPLES];
	int64_t wrong;
	int ret;

	ret = inc_opt_parse(&program, argc, argv, &s, NULL);
	if (ret >= 0)
		goto out;
	wrong = measure(&s, &s.ring, ns);
	ret = wrong != 0;
	if (wrong < 0)
		goto out;
	qsort(ns, s.iters, sizeof(ns[0]), compare_u64);
	if (s.ring.rank == 0)
		printf("{\"collective\":\"allreduce\",\"transport\":\"tcp-ring\",\"ranks\":%d,"
		       "\"bytes\":%llu,"
		       "\"iters\":%u,\"time_us\":%.1f,\"algbw_gbps\":%.3f,\"wrong\":%lld}\n",
		       s.ring.size, (unsigned long long)s.bytes, s.iters, ns[s.iters / 2] / 1e3,
		       s.bytes * 8.0 / ns[s.iters / 2], (long long)wrong);
out:
	inc_opt_list_free(&s.addrs);
	return ret;
}
