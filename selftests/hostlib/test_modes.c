/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/* Effects of the switches' modes on a caller: floats that switches add without conversion, calls
 * that are rejected with their reasons, and the fields that the library reports. Also the rights to
 * memory with which it is registered. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include "lib/proto/desc.h"
#include "lib/reduce/floats.h"
#include "selftests/fakes/switch.h"
#include "selftests/reduce/numbers.h"

#define COUNT 900 /* elements in a collective: several messages of each type */

static struct fake_switch sw;
static uint8_t given[FAKE_SWITCH_RANKS][COUNT * 8], got[FAKE_SWITCH_RANKS][COUNT * 8];
static char why[256];

static uint64_t turned(enum inc_float type, uint64_t bits)
{
	if (sw.conf.byte_order == INCCL_ORDER_LITTLE)
		return bits;
	return __builtin_bswap64(bits) >> (64 - 8 * inc_float_size(type));
}

/* Plays the switch's reduction of floats, which adds one rank after the other. */
static void reduce_floats(const struct fake_switch *l, uint32_t desc, uint8_t *result, size_t len)
{
	const enum inc_float type = (enum inc_float)(INC_DESC_DTYPE(desc) - INC_DTYPE_FLOAT32);
	long double x = 0, y;

	for (size_t i = 0; i < len / inc_element_bytes(desc); i++) {
		for (unsigned int r = 0; r < l->conf.ranks; r++) {
			y = any_float_value(
				type, turned(type, float_bits(type, fake_switch_given(l, r), i)));
			x = r ? float_result(type, INC_DESC_OP(desc), x, y) : y;
		}
		set_float_bits(type, result, i, turned(type, any_float_nearest(type, x)));
	}
}

static const struct fake_switch_conf terminated = {.ranks = 3,
						   .window = 16,
						   .mode = INC_TREE_TERMINATION,
						   .native = true,
						   .reduce_floats = reduce_floats,
						   .agreed_packets = 4,
						   .messages = 8};

static enum inc_float type_of(enum inccl_dtype dtype)
{
	return (enum inc_float)(dtype - INCCL_FLOAT32);
}

/* The expected result for element i: the operator over all ranks in their order. For an average,
 * the sum is divided. */
static uint64_t want(enum inccl_dtype dtype, enum inccl_op op, size_t i)
{
	const enum inc_float type = type_of(dtype);
	long double x = any_float_value(type, float_bits(type, given[0], i));
	uint64_t bits;

	for (unsigned int r = 1; r < sw.conf.ranks; r++)
		x = float_result(type, (enum inc_operator)op, x,
				 any_float_value(type, float_bits(type, given[r], i)));
	bits = any_float_nearest(type, x);
	if (op == INCCL_AVG)
		bits = any_float_quotient(type, any_float_value(type, bits), sw.conf.ranks);
	return bits;
}

static void fill(enum inccl_dtype dtype, uint64_t seed)
{
	for (unsigned int r = 0; r < sw.conf.ranks; r++)
		for (size_t i = 0; i < COUNT; i++) {
			uint64_t bits = random_finite(type_of(dtype), &seed);

			if (random_below(&seed, 40) == 0)
				/* these bits may also be infinities and NaN */
				bits = random_u64(&seed);
			set_float_bits(type_of(dtype), given[r], i, bits);
		}
}

/* Runs an AllReduce. The results of all ranks must have the bits of the reference. */
static void all_reduce(enum inccl_dtype dtype, enum inccl_op op,
		       const struct inccl_collective_opts *opts)
{
	struct inccl_request *requests[FAKE_SWITCH_RANKS];

	fill(dtype, 1 + op + 10 * dtype);
	for (unsigned int r = 0; r < sw.conf.ranks; r++)
		assert_int_equal(inccl_allreduce_start(sw.rank[r].comm, given[r], got[r], COUNT,
						       dtype, op, opts, &requests[r]),
				 0);
	fake_switch_finish(&sw, requests);
	for (unsigned int r = 0; r < sw.conf.ranks; r++)
		for (size_t i = 0; i < COUNT; i++)
			assert_int_equal(float_bits(type_of(dtype), got[r], i), want(dtype, op, i));
}

static void native_floats(void **state)
{
	static const enum inccl_op ops[] = {INCCL_SUM, INCCL_PROD, INCCL_MIN, INCCL_MAX, INCCL_AVG};
	struct fake_switch_conf conf = terminated;

	for (unsigned int order = 0; order < 2; order++) {
		conf.byte_order = order ? INCCL_ORDER_NETWORK : INCCL_ORDER_LITTLE;
		fake_switch_up(&sw, &conf);
		for (enum inccl_dtype dtype = INCCL_FLOAT32; dtype <= INCCL_FLOAT64; dtype++)
			for (unsigned int o = 0; o < 5; o++)
				all_reduce(dtype, ops[o], NULL);
		assert_true(fake_switch_logged(&sw,
					       "(sum of float32): 1 blocks, messages of 4 packets, "
					       "16 packets under way, through s0 (127.0.0.1), as "
					       "floats\n"));
		fake_switch_down(&sw);
	}
}

/* If switches add floats without conversion, only the elements are on the wire, without exponents
 * and integers. */
static void only_elements_on_the_wire(void **state)
{
	fake_switch_up(&sw, &terminated);
	fake_switch_reset(&sw);
	all_reduce(INCCL_BFLOAT16, INCCL_SUM, NULL);
	for (unsigned int r = 0; r < sw.conf.ranks; r++)
		assert_int_equal(sw.rank[r].gave, COUNT * 2);
	fake_switch_down(&sw);
}

static void options_without_effect(void **state)
{
	const int exponent = 999;
	INCCL_OPTS(inccl_collective_opts, opts, .float_block = 7, .float_exponent = &exponent);
	static const char note[] = "float_block and float_exponent have no effect";
	char *first;

	fake_switch_up(&sw, &terminated);
	all_reduce(INCCL_FLOAT32, INCCL_SUM, NULL);
	assert_false(fake_switch_logged(&sw, note));
	for (unsigned int i = 0; i < 2; i++)
		all_reduce(INCCL_FLOAT32, INCCL_SUM, &opts);
	assert_true(fake_switch_logged(&sw, note));
	/* each rank logs the reason once */
	first = sw.log;
	for (unsigned int r = 0; r < sw.conf.ranks; r++)
		first = strstr(first, note) + 1;
	assert_null(strstr(first, note));
	fake_switch_down(&sw);
}

static void reported_fields(void **state)
{
	struct inccl_communicator_info info = {.sz = sizeof(info)};
	struct fake_switch_conf conf = terminated;

	fake_switch_up(&sw, &conf);
	assert_int_equal(inccl_communicator_info(sw.rank[1].comm, &info), 0);
	assert_string_equal(info.mode, "termination");
	assert_string_equal(info.floats, "native");
	assert_int_equal(info.float_bits, 0);
	assert_int_equal(info.message_packets, 4);
	assert_int_equal(info.window, 4);
	assert_non_null(
		strstr(sw.rank[1].controller.received, "\"message_packets\":0,\"window\":16,"));
	assert_non_null(strstr(sw.rank[1].controller.received, "\"floats\":\"native\""));
	assert_true(
		fake_switch_logged(&sw, "(termination, floats native), payload 256, window 4 x 4"));
	fake_switch_down(&sw);

	conf.mode = INC_TREE_MIXED;
	conf.native = false;
	conf.agreed_packets = 1;
	fake_switch_up(&sw, &conf);
	info.sz = sizeof(info);
	assert_int_equal(inccl_communicator_info(sw.rank[1].comm, &info), 0);
	assert_string_equal(info.mode, "mixed");
	assert_string_equal(info.floats, "fixed");
	assert_int_equal(info.float_bits, 29);
	assert_int_equal(info.window, 8); /* window is the agreed limit of messages in flight */
	fake_switch_down(&sw);
}

static void refuse(enum inccl_dtype dtype, enum inccl_op op, enum inccl_mode mode, const char *text)
{
	INCCL_OPTS(inccl_collective_opts, opts, .mode = mode, .error = why,
		   .error_size = sizeof(why));

	why[0] = 0;
	assert_int_equal(inccl_allreduce(sw.rank[0].comm, given[0], got[0], 4, dtype, op, &opts),
			 -EOPNOTSUPP);
	if (!strstr(why, text))
		fail_msg("%s", why);
	assert_null(inccl_communicator_error(sw.rank[0].comm));
}

static void rejected_calls(void **state)
{
	static const struct {
		enum inc_tree_mode mode;
		bool native, write;
		const char *prod; /* part of the error of a PROD; NULL: PROD is supported */
	} cases[] = {
		{INC_TREE_PASSTHROUGH, false, true, "the switches are in passthrough mode"},
		{INC_TREE_MIXED, false, false, "not all of the switches are in termination mode"},
		{INC_TREE_TERMINATION, false, false, "not every rank and switch supports floats"},
		{INC_TREE_TERMINATION, true, false, NULL},
	};
	struct fake_switch_conf conf = terminated;

	for (unsigned int i = 0; i < 4; i++) {
		conf.mode = cases[i].mode;
		conf.native = cases[i].native;
		fake_switch_up(&sw, &conf);
		refuse(INCCL_FLOAT32, INCCL_AND, INCCL_MODE_SENDRECV,
		       "and of float32: floats have sum");
		if (cases[i].prod) {
			refuse(INCCL_FLOAT32, INCCL_PROD, INCCL_MODE_SENDRECV, cases[i].prod);
			refuse(INCCL_FLOAT64, INCCL_PROD, INCCL_MODE_SENDRECV,
			       "prod of float64: floats go through ");
		}
		if (!cases[i].write)
			refuse(INCCL_FLOAT32, INCCL_SUM, INCCL_MODE_WRITE,
			       "mode write: a switch of ");
		fake_switch_silent(&sw); /* the rejected calls have sent nothing */
		fake_switch_down(&sw);
	}
}

static struct {
	const struct inc_channel_ops *real;
	struct inc_channel_ops ops;
	int32_t *read_only;    /* memory that the program itself may not write */
	unsigned int writable; /* number of registrations that allow writing */
} strict;

/* Registers memory as an RDMA device does, which refuses to write where the program may not. */
static int map_strictly(struct inc_channel_device *dev, void *addr, size_t len,
			enum inc_channel_access access, struct inc_channel_region *region,
			struct inc_err *err)
{
	strict.writable += access != INC_CHANNEL_READ;
	if (access != INC_CHANNEL_READ && addr == strict.read_only)
		return inc_err_set(err, EFAULT, "%p is read-only", addr);
	return strict.real->map(dev, addr, len, access, region, err);
}

static void use_ops(const struct inc_channel_ops *ops)
{
	for (unsigned int i = 0; i < sw.conf.ranks; i++) {
		pthread_mutex_lock(&sw.rank[i].comm->lock);
		sw.rank[i].comm->ep->ops = ops;
		pthread_mutex_unlock(&sw.rank[i].comm->lock);
	}
}

/* The root of a broadcast in place only reads its memory, so that memory may be read-only. */
static void read_only_root(void **state)
{
	const struct fake_switch_conf conf = {.ranks = 2, .window = 4, .message_packets = 1};
	struct inccl_request *requests[FAKE_SWITCH_RANKS];
	int32_t came = 0;

	strict.read_only =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(strict.read_only, MAP_FAILED);
	*strict.read_only = 77;
	assert_int_equal(mprotect(strict.read_only, 4096, PROT_READ), 0);
	fake_switch_up(&sw, &conf);
	strict.real = sw.rank[0].comm->ep->ops;
	strict.ops = *strict.real;
	strict.ops.map = map_strictly;
	use_ops(&strict.ops);
	for (unsigned int i = 0; i < conf.ranks; i++)
		assert_int_equal(inccl_broadcast_start(sw.rank[i].comm, strict.read_only,
						       i ? &came : strict.read_only, 1, INCCL_INT32,
						       0, NULL, &requests[i]),
				 0);
	fake_switch_finish(&sw, requests);
	assert_int_equal(came, 77);
	assert_int_equal(strict.writable, 1);
	use_ops(strict.real);
	fake_switch_down(&sw);
	munmap(strict.read_only, 4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(native_floats),
		cmocka_unit_test(only_elements_on_the_wire),
		cmocka_unit_test(options_without_effect),
		cmocka_unit_test(reported_fields),
		cmocka_unit_test(rejected_calls),
		cmocka_unit_test(read_only_root),
	};

	return cmocka_run_group_tests_name("modes", tests, NULL, NULL);
}
