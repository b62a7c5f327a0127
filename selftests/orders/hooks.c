// SPDX-License-Identifier: BSD-2-Clause
/*
 * The functions that code compiled with -fsanitize=thread calls. One function for each size of
 * access is called before the access, and one takes the place of each atomic operation. They run on
 * the thread of the search, in the coroutine of the code. Tests without instrumented code have
 * their own versions of these functions.
 */
#include <string.h>
#include "search_priv.h"

static struct op op_at(const void *at, size_t size, bool reads, bool writes, enum search_sync sync)
{
	return (struct op){.at = at, .size = size, .reads = reads, .writes = writes, .sync = sync};
}

static bool concerns(const void *at, size_t size)
{
	return search.self != NO_THREAD && words_shared(at, size);
}

/* Loads word by word, because each word may return another value. Then puts all values into memory
 * together. */
static void load(const void *at, size_t size, enum search_sync sync)
{
	struct op op = op_at(at, size, true, false, sync);
	uint64_t value[MAX_CHOICES];
	unsigned int w, n = 0;

	if (!concerns(at, size))
		return;
	op.wait = words_spun_on(at) ? WAIT_ZERO : WAIT_NOT;
	if (search.options.model == SEARCH_SC ||
	    ((uintptr_t)at & ~7ul) == (((uintptr_t)at + size - 1) & ~7ul)) {
		search_point(&op);
		return;
	}
	FOR_WORDS(&op, w)
	{
		struct op one = op_at(words_memory(w), 8, true, false, sync);

		search_point(&one);
		value[n++] = *words_memory(w);
	}
	n = 0;
	FOR_WORDS(&op, w)
	*words_memory(w) = value[n++];
}

static void store(const void *at, size_t size, enum search_sync sync)
{
	struct op op = op_at(at, size, false, true, sync);

	if (concerns(at, size))
		search_point(&op);
}

static void fence(enum search_sync sync)
{
	if (search.self == NO_THREAD || search.options.model == SEARCH_SC)
		return;
	memory_commit();
	memory_fence(search.self, sync);
}

/* An atomic operation on memory that is not shared is still a barrier. */
static void update(const void *at, size_t size)
{
	struct op op = op_at(at, size, true, true, SEARCH_FULL);

	if (concerns(at, size))
		search_point(&op);
	else
		fence(SEARCH_FULL);
}

#define PLAIN(n)                                  \
	void __tsan_read##n(void *at);            \
	void __tsan_read##n(void *at)             \
	{                                         \
		load(at, n, SEARCH_PLAIN);        \
	}                                         \
	void __tsan_write##n(void *at);           \
	void __tsan_write##n(void *at)            \
	{                                         \
		store(at, n, SEARCH_PLAIN);       \
	}                                         \
	void __tsan_unaligned_read##n(void *at);  \
	void __tsan_unaligned_read##n(void *at)   \
	{                                         \
		load(at, n, SEARCH_PLAIN);        \
	}                                         \
	void __tsan_unaligned_write##n(void *at); \
	void __tsan_unaligned_write##n(void *at)  \
	{                                         \
		store(at, n, SEARCH_PLAIN);       \
	}
PLAIN(1)
PLAIN(2)
PLAIN(4)
PLAIN(8)
PLAIN(16)

static enum search_sync sync_of(int order)
{
	switch (order) {
	case __ATOMIC_RELAXED:
		return SEARCH_PLAIN;
	case __ATOMIC_CONSUME:
	case __ATOMIC_ACQUIRE:
		return SEARCH_ACQUIRE;
	case __ATOMIC_RELEASE:
		return SEARCH_RELEASE;
	default:
		return SEARCH_FULL;
	}
}

/* An atomic operation that returns a value is a full barrier, whatever order it names, because BPF
 * on arm64 makes it so. User space has weaker operations only where that does not matter. */
#define UPDATE(bits, type, name, becomes)                                            \
	type __tsan_atomic##bits##_##name(volatile type *at, type value, int order); \
	type __tsan_atomic##bits##_##name(volatile type *at, type value, int order)  \
	{                                                                            \
		type was;                                                            \
                                                                                     \
		update((const void *)at, sizeof(*at));                               \
		was = *at;                                                           \
		*at = (becomes);                                                     \
		return was;                                                          \
	}
#define ATOMIC(bits, type)                                                                  \
	type __tsan_atomic##bits##_load(const volatile type *at, int order);                \
	type __tsan_atomic##bits##_load(const volatile type *at, int order)                 \
	{                                                                                   \
		load((const void *)at, sizeof(*at), sync_of(order) & SEARCH_ACQUIRE);       \
		return *at;                                                                 \
	}                                                                                   \
	void __tsan_atomic##bits##_store(volatile type *at, type value, int order);         \
	void __tsan_atomic##bits##_store(volatile type *at, type value, int order)          \
	{                                                                                   \
		store((const void *)at, sizeof(*at), sync_of(order) & SEARCH_RELEASE);      \
		*at = value;                                                                \
	}                                                                                   \
	UPDATE(bits, type, exchange, value)                                                 \
	UPDATE(bits, type, fetch_or, was | value)                                           \
	UPDATE(bits, type, fetch_add, was + value)                                          \
	type __tsan_atomic##bits##_compare_exchange_val(volatile type *at, type expected,   \
							type value, int order, int failed); \
	type __tsan_atomic##bits##_compare_exchange_val(volatile type *at, type expected,   \
							type value, int order, int failed)  \
	{                                                                                   \
		type was;                                                                   \
                                                                                            \
		update((const void *)at, sizeof(*at));                                      \
		was = *at;                                                                  \
		*at = was == expected ? value : was;                                        \
		return was;                                                                 \
	}
ATOMIC(8, uint8_t)
ATOMIC(32, uint32_t)
ATOMIC(64, uint64_t)

void __tsan_atomic_thread_fence(int order);
void __tsan_atomic_thread_fence(int order)
{
	fence(sync_of(order));
}

void __tsan_init(void);
void __tsan_init(void)
{
}

/* Replaces memcpy() and memset(). The compiler generates calls of them from accesses that it could
 * have instrumented. The objects' symbols are renamed (Makefile). */
void *orders_memcpy(void *to, const void *from, size_t size);
void *orders_memcpy(void *to, const void *from, size_t size)
{
	/* copy of the data, because other threads may run between the load and the store */
	uint8_t seen[4096];

	if (!size || (!concerns(from, size) && !concerns(to, size)) || size > sizeof(seen))
		return memcpy(to, from, size);
	load(from, size, SEARCH_PLAIN);
	memcpy(seen, from, size);
	store(to, size, SEARCH_PLAIN);
	return memcpy(to, seen, size);
}

void *orders_memset(void *to, int byte, size_t size);
void *orders_memset(void *to, int byte, size_t size)
{
	if (size)
		store(to, size, SEARCH_PLAIN);
	return memset(to, byte, size);
}

uint64_t search_load(const uint64_t *word, enum search_sync sync)
{
	load(word, sizeof(*word), sync);
	return *word;
}

void search_store(uint64_t *word, uint64_t value, enum search_sync sync)
{
	store(word, sizeof(*word), sync);
	*word = value;
}

uint64_t search_fetch_add(uint64_t *word, uint64_t add)
{
	uint64_t was;

	update(word, sizeof(*word));
	was = *word;
	*word = was + add;
	return was;
}

void search_wait(const uint64_t *word, uint64_t at_least)
{
	struct op op = op_at(word, sizeof(*word), true, false, SEARCH_ACQUIRE);

	op.wait = WAIT_AT_LEAST;
	op.at_least = at_least;
	search_point(&op);
}

uint64_t search_latest(const void *at)
{
	uint64_t *memory = words_memory(words_number(at));

	if (search.options.model == SEARCH_SC)
		return *memory;
	memory_commit();
	return memory_latest(words_number(at));
}

void search_settle(const void *from, size_t size)
{
	struct op op = op_at(from, size, false, false, SEARCH_PLAIN);
	unsigned int w;

	if (search.options.model == SEARCH_SC)
		return;
	memory_commit();
	FOR_WORDS(&op, w)
	*words_memory(w) = memory_latest(w);
}
