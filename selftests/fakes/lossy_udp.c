/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "lib/base/datagram.h"
#include "selftests/fakes/memory_os.h"

#define HELD 4096

struct held {
	struct held *next;
	int fd;
	unsigned int later; /* number of receive calls until the packet is delivered */
	struct inc_datagram d;
	uint8_t bytes[];
};

static struct lossy_faults faults;
static uint64_t state, done;
static struct held *first, **last = &first;
static unsigned int n_held;

uint64_t lossy_done(void)
{
	return done;
}

static uint64_t draw(void)
{
	state = state * 6364136223846793005ull + 1442695040888963407ull;
	return state >> 33;
}

static bool chance(unsigned int of_1000)
{
	return draw() % 1000 < of_1000;
}

/* Holds the `size` bytes at `at` of a datagram that was received. */
static void hold(int fd, const struct inc_datagram *d, size_t at, size_t size, unsigned int later)
{
	struct held *h = malloc(sizeof(*h) + size);

	assert_non_null(h);
	*h = (struct held){.fd = fd, .later = later, .d = *d};
	h->d.size = size;
	memcpy(h->bytes, d->data + at, size);
	*last = h;
	last = &h->next;
	n_held++;
}

static void pass_packet(int fd, struct inc_datagram *d, size_t at, size_t size)
{
	unsigned int later = 0;

	d->step = size;
	if (chance(faults.lose)) {
		done++;
		return;
	}
	if (chance(faults.damage)) {
		done++;
		((uint8_t *)d->data)[at + draw() % size] ^= 1 << draw() % 8;
	}
	if (chance(faults.delay)) {
		done++;
		later = 1 + draw() % 3;
	}
	if (chance(faults.repeat)) {
		done++;
		hold(fd, d, at, size, draw() % 4);
	}
	hold(fd, d, at, size, later);
}

static void pass_datagram(int fd, struct inc_datagram *d)
{
	const size_t step = d->step;
	size_t at, n;

	if (d->size > step && !chance(faults.part)) {
		hold(fd, d, 0, d->size, 0);
		return;
	}
	for (at = 0; at < d->size; at += n) {
		n = d->size - at < step ? d->size - at : step;
		pass_packet(fd, d, at, n);
	}
}

/* Delivers held datagrams of fd that are due. */
static int deliver(int fd, uint8_t *room, struct inc_datagram *out)
{
	struct held **at = &first, *h;
	int n = 0;

	while ((h = *at)) {
		if (h->fd != fd || n == INC_UDP_RECVS || (h->later && h->later--)) {
			at = &h->next;
			continue;
		}
		memcpy(room, h->bytes, h->d.size);
		out[n] = h->d;
		out[n++].data = room;
		room += INC_UDP_RECV_BYTES;
		*at = h->next;
		if (last == &h->next)
			last = at;
		free(h);
		n_held--;
	}
	return n ?: -EAGAIN;
}

static int receive(int fd, uint8_t *room, struct inc_datagram *out)
{
	int n = 0, i;

	while (n_held < HELD && (n = inc_os_kernel.udp.receive(fd, room, out)) > 0)
		for (i = 0; i < n; i++)
			pass_datagram(fd, &out[i]);
	return deliver(fd, room, out);
}

void lossy_set(const struct lossy_faults *f, uint64_t seed)
{
	struct held *h;

	faults = *f;
	state = seed * 2 + 1;
	done = 0;
	while ((h = first)) {
		first = h->next;
		free(h);
	}
	last = &first;
	n_held = 0;
	inc_os.udp.receive = receive;
}
