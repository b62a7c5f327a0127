// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <event2/bufferevent.h>
#include "memory.h"
#include "sim.h"

#define MAGIC 0x5349d4a11c0ffee5

/* Before each piece. What has none of them is another allocator's. */
struct head {
	struct head *next, *prev;
	const struct process *process;
	size_t size;
	uint64_t magic; /* with the head's address, so that no copy of it is one */
	uint64_t unused;
};

uint64_t memory_failures;

static struct head all = {.next = &all, .prev = &all};
static struct {
	const struct process *process;
	uint64_t n;
	bool failed;
	bool spared; /* what is called now may not fail */
} failing;

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);
void __wrap_free(void *at);
char *__wrap_strdup(const char *text);
void __wrap_bufferevent_setwatermark(struct bufferevent *bev, short what, size_t low, size_t high);
void __real_bufferevent_setwatermark(struct bufferevent *bev, short what, size_t low, size_t high);
void *__real_malloc(size_t size);
void *__real_realloc(void *old, size_t size);
void __real_free(void *at);

/* libevent 2.1 looks at what it could not allocate there. */
void __wrap_bufferevent_setwatermark(struct bufferevent *bev, short what, size_t low, size_t high)
{
	failing.spared = true;
	__real_bufferevent_setwatermark(bev, what, low, high);
	failing.spared = false;
}

void memory_open(void)
{
	json_set_alloc_funcs(__wrap_malloc, __wrap_free);
	json_object_seed(1);
}

void memory_begin(void)
{
	memset(&failing, 0, sizeof(failing));
}

void memory_fail(const struct process *process, uint64_t n)
{
	failing.process = process;
	failing.n = n;
	failing.failed = false;
}

const struct process *memory_failed(void)
{
	return failing.failed ? failing.process : NULL;
}

static uint64_t magic_of(const struct head *h)
{
	return MAGIC ^ (uint64_t)h;
}

static struct head *head_of(void *at)
{
	struct head *h = (struct head *)at - 1;

	return h->magic == magic_of(h) ? h : NULL;
}

static bool fails(const struct process *process)
{
	if (failing.spared || !failing.n || process != failing.process || --failing.n)
		return false;
	failing.failed = true;
	memory_failures++;
	sim_note(process->name, "has an allocation fail", 0, 0, 0);
	return true;
}

void *__wrap_malloc(size_t size)
{
	const struct process *process = task_process();
	struct head *h;

	if (!process)
		return __real_malloc(size);
	h = fails(process) ? NULL : __real_malloc(sizeof(*h) + size);
	if (!h) {
		errno = ENOMEM;
		return NULL;
	}
	*h = (struct head){.next = &all, .prev = all.prev, .process = process, .size = size};
	h->magic = magic_of(h);
	all.prev->next = h;
	all.prev = h;
	return h + 1;
}

void __wrap_free(void *at)
{
	struct head *h = at ? head_of(at) : NULL;

	if (!h) {
		__real_free(at);
		return;
	}
	h->magic = 0;
	h->next->prev = h->prev;
	h->prev->next = h->next;
	__real_free(h);
}

void *__wrap_calloc(size_t n, size_t size)
{
	void *at = size && n > SIZE_MAX / 2 / size ? NULL : __wrap_malloc(n * size);

	if (at)
		memset(at, 0, n * size);
	return at;
}

void *__wrap_realloc(void *old, size_t size)
{
	struct head *h = old ? head_of(old) : NULL;
	void *at;

	if (old && !h)
		return __real_realloc(old, size);
	at = __wrap_malloc(size);
	if (!at || !old)
		return at;
	memcpy(at, old, h->size < size ? h->size : size);
	__wrap_free(old);
	return at;
}

char *__wrap_strdup(const char *text)
{
	const size_t size = strlen(text) + 1;
	char *copy = __wrap_malloc(size);

	return copy ? memcpy(copy, text, size) : NULL;
}

size_t memory_pieces(const struct process *process, size_t *size)
{
	const struct head *h;
	size_t n = 0;

	*size = 0;
	for (h = all.next; h != &all; h = h->next) {
		if (h->process != process)
			continue;
		*size = n++ ? *size : h->size;
	}
	return n;
}

void memory_free(const struct process *process)
{
	struct head *h, *next;

	for (h = all.next; h != &all; h = next) {
		next = h->next;
		if (h->process == process)
			__wrap_free(h + 1);
	}
}
