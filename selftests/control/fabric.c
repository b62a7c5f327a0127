/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include "selftests/control/fabric.h"

/* Writes a port of a link. Each link has a network of two addresses, counted from 10.0.0.0. */
static void put_port(FILE *f, const char *name, unsigned int n, unsigned int link, int end,
		     const char *peer, unsigned int peer_n)
{
	const unsigned int ip = 10u << 24 | (2 * link + end);

	fprintf(f, "      - {name: %s%u, ip: %u.%u.%u.%u, peer: %s%u}\n", name, n, ip >> 24,
		ip >> 16 & 255, ip >> 8 & 255, ip & 255, peer, peer_n);
}

static void put_cores(FILE *f, const struct fabric *s, unsigned int first_link)
{
	for (unsigned int c = 0; c < s->aggs * s->cores; c++) {
		fprintf(f, "  - name: c%u\n    root: true\n    ports:\n", c);
		for (unsigned int pod = 0; pod < s->pods; pod++)
			put_port(f, "d", pod, first_link + c * s->pods + pod, 0, "a",
				 pod * s->aggs + c / s->cores);
	}
}

static void put_aggs(FILE *f, const struct fabric *s, unsigned int edge_link,
		     unsigned int core_link)
{
	for (unsigned int a = 0; a < s->pods * s->aggs; a++) {
		const unsigned int pod = a / s->aggs;

		fprintf(f, "  - name: a%u\n    ports:\n", a);
		for (unsigned int i = 0; i < s->cores; i++) {
			const unsigned int c = a % s->aggs * s->cores + i;

			put_port(f, "u", i, core_link + c * s->pods + pod, 1, "c", c);
		}
		for (unsigned int e = 0; e < s->edges; e++)
			put_port(f, "d", e, edge_link + a * s->edges + e, 0, "e",
				 pod * s->edges + e);
	}
}

static void put_edges(FILE *f, const struct fabric *s, unsigned int edge_link)
{
	for (unsigned int e = 0; e < s->pods * s->edges; e++) {
		const unsigned int pod = e / s->edges;

		fprintf(f, "  - name: e%u\n    ports:\n", e);
		for (unsigned int i = 0; i < s->aggs; i++) {
			const unsigned int a = pod * s->aggs + i;

			put_port(f, "u", i, edge_link + a * s->edges + e % s->edges, 1, "a", a);
		}
		for (unsigned int h = 0; h < s->hosts; h++)
			put_port(f, "p", h, e * s->hosts + h, 0, "h", e * s->hosts + h);
	}
}

char *fabric_text(const struct fabric *s, size_t *len)
{
	const unsigned int hosts = s->pods * s->edges * s->hosts;
	const unsigned int core_link = hosts + s->pods * s->aggs * s->edges;
	char *text = NULL;
	FILE *f = open_memstream(&text, len);

	if (!f)
		return NULL;
	fprintf(f, "hosts:\n");
	for (unsigned int h = 0; h < hosts; h++) {
		const unsigned int ip = 10u << 24 | (2 * h + 1);

		fprintf(f, "  - {name: h%u, ip: %u.%u.%u.%u}\n", h, ip >> 24, ip >> 16 & 255,
			ip >> 8 & 255, ip & 255);
	}
	fprintf(f, "switches:\n");
	put_cores(f, s, core_link);
	put_aggs(f, s, hosts, core_link);
	put_edges(f, s, hosts);
	fprintf(f, "defaults: {prefix: 31");
	if (s->rate_mbit)
		fprintf(f, ", rate_mbit: %u", s->rate_mbit);
	fprintf(f, "}\n");
	return fclose(f) ? NULL : text;
}
