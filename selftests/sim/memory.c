// SPDX-License-Identifier: BSD-2-Clause
/* Memory of processes (process.h). */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <openssl/ssl.h>
#include "process.h"
#include "sim.h"

#define MAGIC   0x5349d4a11c0ffee5
#define OBJECTS 1024

/* Head in front of each piece of memory. Memory without such a head comes from another
 * allocator. */
struct head {
	struct head *next, *prev;
	const struct process *process;
	size_t size;
	/* constant combined with the head's address, so that a copy of a head is not valid */
	uint64_t magic;
	uint64_t apart; /* 1: the piece is of a library with a cache, which memory_pieces() leaves
			   out */
};

uint64_t memory_failures;

static struct head all = {.next = &all, .prev = &all};
static struct {
	const struct process *process;
	uint64_t n;
	bool failed;
	bool spared; /* the call that runs now must not fail */
} failing;

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);
void __wrap_free(void *at);
char *__wrap_strdup(const char *text);
SSL_CTX *__wrap_SSL_CTX_new(const SSL_METHOD *method);
SSL_CTX *__real_SSL_CTX_new(const SSL_METHOD *method);
void __wrap_SSL_CTX_free(SSL_CTX *ctx);
void __real_SSL_CTX_free(SSL_CTX *ctx);
SSL *__wrap_SSL_new(SSL_CTX *ctx);
SSL *__real_SSL_new(SSL_CTX *ctx);
void __wrap_SSL_free(SSL *ssl);
void __real_SSL_free(SSL *ssl);
void *__real_malloc(size_t size);
void *__real_realloc(void *old, size_t size);
void __real_free(void *at);

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

void *memory_allocate(size_t size)
{
	void *at;

	failing.spared = true;
	at = __wrap_malloc(size);
	failing.spared = false;
	if (at && head_of(at))
		head_of(at)->apart = 1;
	return at;
}

void memory_release(void *at)
{
	__wrap_free(at);
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

/* --- OpenSSL's objects --- */

/* OpenSSL has an allocator of its own. Each of its objects therefore counts as one piece of its
 * process's memory. */
static struct object {
	const struct process *process; /* owner of the object; NULL: this entry is free */
	SSL_CTX *ctx;
	SSL *ssl; /* one of ssl and ctx is NULL */
} objects[OBJECTS];

static void add_object(SSL_CTX *ctx, SSL *ssl)
{
	struct object *o = objects;

	if (!task_process() || (!ctx && !ssl))
		return;
	while (o < objects + OBJECTS && o->process)
		o++;
	sim_require(o < objects + OBJECTS, "more than %u objects of TLS", OBJECTS);
	*o = (struct object){task_process(), ctx, ssl};
}

static void drop_object(const SSL_CTX *ctx, const SSL *ssl)
{
	struct object *o;

	for (o = objects; o < objects + OBJECTS; o++)
		if (o->process && o->ctx == ctx && o->ssl == ssl)
			o->process = NULL;
}

SSL_CTX *__wrap_SSL_CTX_new(const SSL_METHOD *method)
{
	SSL_CTX *ctx = __real_SSL_CTX_new(method);

	add_object(ctx, NULL);
	return ctx;
}

void __wrap_SSL_CTX_free(SSL_CTX *ctx)
{
	drop_object(ctx, NULL);
	__real_SSL_CTX_free(ctx);
}

SSL *__wrap_SSL_new(SSL_CTX *ctx)
{
	SSL *ssl = __real_SSL_new(ctx);

	add_object(NULL, ssl);
	return ssl;
}

void __wrap_SSL_free(SSL *ssl)
{
	drop_object(NULL, ssl);
	__real_SSL_free(ssl);
}

static size_t objects_of(const struct process *process)
{
	size_t i, n = 0;

	for (i = 0; i < OBJECTS; i++)
		n += objects[i].process == process;
	return n;
}

static void free_objects(const struct process *process)
{
	struct object *o;

	for (o = objects; o < objects + OBJECTS; o++) {
		if (o->process != process)
			continue;
		o->process = NULL;
		__real_SSL_free(o->ssl);
		__real_SSL_CTX_free(o->ctx);
	}
}

size_t memory_pieces(const struct process *process, size_t *size)
{
	const struct head *h;
	size_t n = 0;

	*size = 0;
	for (h = all.next; h != &all; h = h->next) {
		if (h->process != process || h->apart)
			continue;
		*size = n++ ? *size : h->size;
	}
	return n + objects_of(process);
}

size_t memory_apart(const struct process *process)
{
	const struct head *h;
	size_t n = 0;

	for (h = all.next; h != &all; h = h->next)
		n += h->process == process && h->apart;
	return n;
}

void memory_free(const struct process *process)
{
	struct head *h, *next;

	free_objects(process);
	for (h = all.next; h != &all; h = next) {
		next = h->next;
		if (h->process == process)
			__wrap_free(h + 1);
	}
}
