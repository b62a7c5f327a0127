/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/* Histograms (lib/metric/histogram.h): which bucket counts a value, how a histogram is sent, and
 * its text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "lib/metric/histogram.h"
#include "lib/metric/metric.h"

static const struct inc_histogram_bounds weights = {.n = 2, .bound = {5, 70}};

#define CAT_HISTOGRAMS(_, T)                                 \
	_(T, weight, "grams", weights, "of what it catches") \
	_(T, sleep_us, "microseconds", weights, "how long it is asleep")

struct cat {
	uint64_t name; /* the first member, so that no histogram has offset 0 */
	CAT_HISTOGRAMS(INC_HISTOGRAM_FIELD, cat)
};
static const struct inc_histogram_metric cat_table[] = {CAT_HISTOGRAMS(INC_HISTOGRAM_ROW, cat)};

static char *print(const json_t *families)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	assert_non_null(out);
	inc_metric_print(out, families);
	assert_int_equal(fclose(out), 0);
	return text;
}

static void a_value_is_in_the_first_bucket_that_holds_it(void **state)
{
	static const struct {
		uint64_t value;
		unsigned int bucket;
	} rows[] = {{0, 0}, {4, 0}, {5, 0}, {6, 1}, {69, 1}, {70, 1}, {71, 2}, {UINT64_MAX, 2}};
	struct inc_histogram h;
	size_t i, k;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		memset(&h, 0, sizeof(h));
		inc_histogram_observe(&h, &weights, rows[i].value);
		for (k = 0; k <= INC_HISTOGRAM_MAX; k++)
			assert_int_equal(h.counts[k], k == rows[i].bucket);
		assert_int_equal(h.sum, rows[i].value);
	}
}

static void as_many_bounds_as_there_may_be(void **state)
{
	struct inc_histogram_bounds full = {.n = INC_HISTOGRAM_MAX};
	struct inc_histogram h = {};
	uint64_t i;

	for (i = 0; i < INC_HISTOGRAM_MAX; i++)
		full.bound[i] = i;
	for (i = 0; i <= INC_HISTOGRAM_MAX; i++)
		inc_histogram_observe(&h, &full, i);
	for (i = 0; i <= INC_HISTOGRAM_MAX; i++)
		assert_int_equal(h.counts[i], 1);
}

static void bounds_of_times_grow(void **state)
{
	const struct inc_histogram_bounds *b = &inc_histogram_times_us;
	unsigned int i;

	assert_in_range(b->n, 1, INC_HISTOGRAM_MAX);
	for (i = 1; i < b->n; i++)
		assert_true(b->bound[i] == 2 * b->bound[i - 1] ||
			    2 * b->bound[i] == 5 * b->bound[i - 1]);
	assert_int_equal(b->bound[0], 100);
	assert_int_equal(b->bound[b->n - 1], 20000000);
}

static json_t *two_cats(void)
{
	json_t *families = json_array(), *more = json_array();
	const char *const from[2] = {"house", "7"};
	struct cat cat = {};

	inc_histogram_observe(&cat.weight, &weights, 5);
	inc_histogram_observe(&cat.weight, &weights, 6);
	inc_histogram_observe(&cat.weight, &weights, 1000);
	inc_histogram_observe(&cat.sleep_us, &weights, 2000070);
	inc_histogram_sample(families, "cat", INC_METRICS(cat_table), &cat, NULL);
	memset(&cat, 0, sizeof(cat));
	inc_histogram_sample(more, "cat", INC_METRICS(cat_table), &cat,
			     json_pack("{s:s}", "name", "a \"b\""));
	inc_metric_merge(families, more, from);
	json_decref(more);
	return families;
}

static void buckets_add_up_and_times_are_seconds(void **state)
{
	json_t *families = two_cats();
	char *text = print(families);

	assert_string_equal(
		text,
		"# HELP inc_cat_weight of what it catches (grams)\n"
		"# TYPE inc_cat_weight histogram\n"
		"inc_cat_weight_bucket{le=\"5\"} 1\n"
		"inc_cat_weight_bucket{le=\"70\"} 2\n"
		"inc_cat_weight_bucket{le=\"+Inf\"} 3\n"
		"inc_cat_weight_sum 1011\n"
		"inc_cat_weight_count 3\n"
		"inc_cat_weight_bucket{name=\"a \\\"b\\\"\",house=\"7\",le=\"5\"} 0\n"
		"inc_cat_weight_bucket{name=\"a \\\"b\\\"\",house=\"7\",le=\"70\"} 0\n"
		"inc_cat_weight_bucket{name=\"a \\\"b\\\"\",house=\"7\",le=\"+Inf\"} 0\n"
		"inc_cat_weight_sum{name=\"a \\\"b\\\"\",house=\"7\"} 0\n"
		"inc_cat_weight_count{name=\"a \\\"b\\\"\",house=\"7\"} 0\n"
		"# HELP inc_cat_sleep_seconds how long it is asleep (seconds)\n"
		"# TYPE inc_cat_sleep_seconds histogram\n"
		"inc_cat_sleep_seconds_bucket{le=\"0.000005\"} 0\n"
		"inc_cat_sleep_seconds_bucket{le=\"0.000070\"} 0\n"
		"inc_cat_sleep_seconds_bucket{le=\"+Inf\"} 1\n"
		"inc_cat_sleep_seconds_sum 2.000070\n"
		"inc_cat_sleep_seconds_count 1\n"
		"inc_cat_sleep_seconds_bucket{name=\"a \\\"b\\\"\",house=\"7\",le=\"0.000005\"} 0\n"
		"inc_cat_sleep_seconds_bucket{name=\"a \\\"b\\\"\",house=\"7\",le=\"0.000070\"} 0\n"
		"inc_cat_sleep_seconds_bucket{name=\"a \\\"b\\\"\",house=\"7\",le=\"+Inf\"} 0\n"
		"inc_cat_sleep_seconds_sum{name=\"a \\\"b\\\"\",house=\"7\"} 0.000000\n"
		"inc_cat_sleep_seconds_count{name=\"a \\\"b\\\"\",house=\"7\"} 0\n");
	free(text);
	json_decref(families);
}

/* A received histogram that is inconsistent is left out. */
static void what_is_no_histogram_is_left_out(void **state)
{
	static const char *const bad[] = {
		"{}",
		"[]",
		"{'value':1}",
		"{'counts':[1],'sum':1}",
		"{'bounds':[1],'sum':1}",
		"{'bounds':[1],'counts':[1,2]}",
		"{'bounds':[1],'counts':[1],'sum':1}",
		"{'bounds':[1],'counts':[1,2,3],'sum':1}",
		"{'bounds':[1,1],'counts':[1,2,3],'sum':1}",
		"{'bounds':[2,1],'counts':[1,2,3],'sum':1}",
		"{'bounds':[-1],'counts':[1,2],'sum':1}",
		"{'bounds':['1'],'counts':[1,2],'sum':1}",
		"{'bounds':[1],'counts':[-1,2],'sum':1}",
		"{'bounds':[1],'counts':[1,2.5],'sum':1}",
		"{'bounds':[1],'counts':[1,2],'sum':-1}",
		"{'bounds':[1],'counts':[1,2],'sum':'1'}",
		"{'bounds':{},'counts':[1],'sum':1}",
	};
	const char *const good = "{'labels':{'le':'9','x':'y'},'bounds':[],'counts':[4],'sum':8}";
	char text[300], *printed;
	json_t *families;
	size_t i, k;

	for (i = 0; i <= sizeof(bad) / sizeof(bad[0]); i++) {
		const bool fine = i == sizeof(bad) / sizeof(bad[0]);

		snprintf(text, sizeof(text), "[{'name':'f','kind':'histogram','samples':[%s]}]",
			 fine ? good : bad[i]);
		for (k = 0; text[k]; k++)
			if (text[k] == '\'')
				text[k] = '"';
		families = json_loads(text, 0, NULL);
		assert_non_null(families);
		printed = print(families);
		assert_string_equal(printed, fine ? "# HELP f \n# TYPE f histogram\n"
						    "f_bucket{x=\"y\",le=\"+Inf\"} 4\n"
						    "f_sum{x=\"y\"} 8\nf_count{x=\"y\"} 4\n"
						  : "# HELP f \n# TYPE f histogram\n");
		free(printed);
		json_decref(families);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_value_is_in_the_first_bucket_that_holds_it),
		cmocka_unit_test(as_many_bounds_as_there_may_be),
		cmocka_unit_test(bounds_of_times_grow),
		cmocka_unit_test(buckets_add_up_and_times_are_seconds),
		cmocka_unit_test(what_is_no_histogram_is_left_out),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("histogram", tests, NULL, NULL);
}
