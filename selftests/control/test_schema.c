// SPDX-License-Identifier: BSD-2-Clause
// SIZE: check
/* One table, which reads YAML and JSON, checks values, and prints JSON and YAML. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include <cmocka.h>
#include "lib/base/addr.h"
#include "lib/conf/schema.h"
#include "lib/conf/yaml.h"

struct inner {
	uint16_t n;
};

struct outer {
	uint32_t number;
	double real;
	bool flag;
	struct in_addr ip;
	uint8_t mac[6];
	char word[8];
	char line[12];
	uint8_t choice;
	int code;
	struct inner map;
	uint32_t n_list;
	struct inner list[3];
	uint32_t n_words;
	char words[2][8];
	bool has_mac;
	uint32_t file, message;
	uint64_t even;
	uint32_t told;
	bool has_hint;
	uint32_t hint;
	int32_t whole;
	bool has_later;
	uint32_t later, none, named;
	uint32_t open;
	uint32_t n_seen;
	struct inner seen[2];
};

static bool is_even(uint64_t n)
{
	return !(n & 1);
}

static const char *const choices[] = {"red", "green", "blue", NULL};
static const struct inc_field inner_fields[] = {
	{"n", INC_UINT, INC_REQUIRED, INC_AT(struct inner, n), .max = 65535},
};
static const struct inc_schema inner_schema = INC_SCHEMA(struct inner, inner_fields);
static const struct inc_field word_field[] = {{NULL, INC_WORD, .size = 8, .what = "a name"}};
static const struct inc_schema word_schema = {.fields = word_field, .n = 1, .size = 8};

#define AT(member) INC_AT(struct outer, member)

static const struct inc_field fields[] = {
	{"number", INC_UINT, INC_REQUIRED, AT(number), .min = 2, .max = 10},
	{"real", INC_REAL, INC_OPTIONAL, AT(real), .max = 1},
	{"flag", INC_BOOL, INC_DEFAULT, AT(flag), .def = true},
	{"ip", INC_IPV4, INC_OPTIONAL, AT(ip)},
	{"mac", INC_MAC, INC_OPTIONAL, AT(mac), .given = offsetof(struct outer, has_mac)},
	{"word", INC_WORD, INC_OPTIONAL, AT(word), .empty = true},
	{"line", INC_LINE, INC_OPTIONAL, AT(line)},
	{"choice", INC_CHOICE, INC_DEFAULT, AT(choice), .names = choices, .def = 1},
	{"errno", INC_ERRNO, INC_OPTIONAL, AT(code)},
	{"map", INC_MAP, INC_OPTIONAL, AT(map), .of = &inner_schema},
	{"list", .need = INC_OPTIONAL, INC_LIST_AT(struct outer, list, n_list, &inner_schema)},
	{"words", .need = INC_OPTIONAL, INC_LIST_AT(struct outer, words, n_words, &word_schema)},
	{"file", INC_UINT, INC_DEFAULT, INC_FILE_ONLY, AT(file), .max = 9, .def = 4},
	{"message", INC_UINT, INC_DEFAULT, INC_MESSAGE_ONLY, AT(message), .max = 9, .def = 5},
	{"even", INC_UINT, INC_OPTIONAL, AT(even), .good = is_even, .what = "even"},
	{"signed", INC_INT, INC_DEFAULT, AT(whole), .def = 3},
	{"told", INC_UINT, INC_TOLD, AT(told), .max = 9, .def = 6},
	{"hint", INC_UINT, INC_HINT, INC_MESSAGE_ONLY, AT(hint), .max = 9,
	 .given = offsetof(struct outer, has_hint)},
	{"later", INC_UINT, INC_LATER, AT(later), .max = 9, .def = 6,
	 .given = offsetof(struct outer, has_later)},
	{"none", INC_UINT, INC_OPTIONAL, AT(none), .min = 2, .max = 9, .empty = true},
	{"named", INC_UINT, INC_OPTIONAL, AT(named), .max = 9, .alias = "called"},
	{"open", INC_CHOICE, INC_OPTIONAL, AT(open), .names = choices, .other = "mixed"},
	{"seen", .need = INC_HINT, INC_LIST_AT(struct outer, seen, n_seen, &inner_schema)},
};
static const struct inc_schema schema = INC_SCHEMA(struct outer, fields);

static int read_yaml(const char *text, struct outer *out, struct inc_err *err)
{
	struct inc_yaml *doc;
	int ret = inc_yaml_parse("f", text, strlen(text), &doc, err);

	if (ret)
		return ret;
	ret = inc_schema_read_yaml(&schema, inc_yaml_root(doc), out, err);
	inc_yaml_free(doc);
	return ret;
}

static int read_json(const char *text, struct outer *out, struct inc_err *err)
{
	json_t *object = json_loads(text, 0, NULL);
	int ret;

	assert_non_null(object);
	ret = inc_schema_read_json(&schema, object, out, err);
	json_decref(object);
	return ret;
}

static void check_values(const struct outer *o)
{
	assert_int_equal(o->number, 7);
	assert_true(o->real == 0.25);
	assert_false(o->flag);
	assert_int_equal(o->ip.s_addr, inet_addr("10.0.0.1"));
	assert_memory_equal(o->mac, "\x02\x00\x00\x00\x0a\xff", 6);
	assert_string_equal(o->word, "w-1");
	assert_string_equal(o->line, "two words\?\?"); /* the word is too long, so it is cut */
	assert_int_equal(o->choice, 2);
	assert_int_equal(o->code, EMSGSIZE);
	assert_int_equal(o->map.n, 3);
	assert_int_equal(o->n_list, 2);
	assert_int_equal(o->list[1].n, 5);
	assert_int_equal(o->n_words, 1);
	assert_string_equal(o->words[0], "p0");
	assert_int_equal(o->even, 8);
	assert_int_equal(o->whole, INT32_MIN);
}

#define ALL_JSON                                                                           \
	"{\"number\":7,\"real\":0.25,\"flag\":false,\"ip\":\"10.0.0.1\","                  \
	"\"mac\":\"02:00:00:00:0A:fF\",\"word\":\"w-1\",\"line\":\"two words\xc3\xa9 x\"," \
	"\"choice\":\"blue\",\"errno\":\"EMSGSIZE\",\"map\":{\"n\":3},"                    \
	"\"list\":[{\"n\":4},{\"n\":5}],\"words\":[\"p0\"],\"even\":8,"                    \
	"\"signed\":-2147483648,"

static void both_forms(void **state)
{
	struct outer j = {0}, y = {0}, again = {0};
	struct inc_err err;
	char *text;
	size_t len;
	json_t *print;
	FILE *f;

	assert_int_equal(
		read_json(ALL_JSON "\"told\":1,\"file\":\"not read\",\"more\":[]}", &j, &err), 0);
	check_values(&j);
	assert_int_equal(j.told, 1);
	assert_int_equal(j.file, 0);
	assert_int_equal(j.message, 5);
	assert_int_equal(read_yaml(ALL_JSON "file: 9}", &y, &err), 0);
	check_values(&y);
	assert_int_equal(y.told, 6);
	assert_int_equal(y.file, 9);
	assert_int_equal(y.message, 0);

	print = inc_schema_print(&schema, INC_FILE_ONLY, &y);
	assert_null(json_object_get(print, "message"));
	f = open_memstream(&text, &len);
	inc_yaml_write(f, print);
	fclose(f);
	assert_int_equal(read_yaml(text, &again, &err), 0);
	assert_memory_equal(&again, &y, sizeof(y));
	free(text);
	json_decref(print);
}

static void absent(void **state)
{
	struct outer o = {.even = 2, .real = 1};
	struct inc_err err;
	json_t *print;

	assert_int_equal(read_yaml("number: 0xa\n", &o, &err), 0);
	assert_int_equal(o.number, 10);
	assert_int_equal(o.choice, 1);
	assert_true(o.flag);
	assert_int_equal(o.even, 2); /* the earlier value is unchanged */
	assert_int_equal(o.whole, 3);
	assert_false(o.has_mac);
	print = inc_schema_print(&schema, INC_FILE_ONLY, &o);
	assert_null(json_object_get(print, "mac"));
	json_decref(print);
	assert_int_equal(read_json("{\"number\":2,\"told\":0,\"word\":\"\"}", &o, &err), 0);
	assert_string_equal(o.word, "");
}

static const struct {
	const char *text; /* text of a field in JSON, which is valid YAML, too */
	const char *wrong;
} refused[] = {
	{"\"number\":1", "number: 1 is not between 2 and 10"},
	{"\"number\":-1", "number: '-1' is not a whole number"},
	{"\"number\":1.0", NULL},
	{"\"number\":[]", "number: is not a whole number"},
	{"\"number\":7,\"real\":\"nan\"", NULL},
	{"\"number\":7,\"real\":1.5", "real: 1.5 is not between 0 and 1"},
	{"\"number\":7,\"flag\":7", "flag: '7' is not true or false"},
	{"\"number\":7,\"ip\":\"10.0.0\"", "ip: '10.0.0' is not an IPv4 address"},
	{"\"number\":7,\"ip\":\"224.0.0.1\"", "ip: 224.0.0.1 is not a unicast address"},
	{"\"number\":7,\"mac\":\"02:00\"", "mac: '02:00' is not a MAC address (02:00:00:00:00:01)"},
	{"\"number\":7,\"mac\":\"01:00:5e:00:00:01\"",
	 "mac: 01:00:5e:00:00:01 is not a unicast address"},
	{"\"number\":7,\"word\":\"a b\"",
	 "word: 'a b' is not a text (1 to 7 characters without blanks)"},
	{"\"number\":7,\"word\":\"12345678\"",
	 "word: '12345678' is not a text (1 to 7 characters without blanks)"},
	{"\"number\":7,\"choice\":\"grey\"", "choice: 'grey' is not red, green or blue"},
	{"\"number\":7,\"open\":\"light grey\"", "open: 'light grey' is not red, green or blue"},
	{"\"number\":7,\"open\":\"\"", "open: is empty"},
	{"\"number\":7,\"errno\":\"EGAL\"", "errno: 'EGAL' is not the name of an error"},
	{"\"number\":7,\"map\":{\"n\":65536}", "map.n: 65536 is not between 0 and 65535"},
	{"\"number\":7,\"map\":{}", "map: 'n' is missing"},
	{"\"number\":7,\"list\":{}", "list: is not a list"},
	{"\"number\":7,\"list\":[{\"n\":1},{\"n\":\"x\"}]", NULL},
	{"\"number\":7,\"list\":[{\"n\":1},{\"n\":2},{\"n\":3},{\"n\":4}]",
	 "list: has 4 entries, not 0 to 3"},
	{"\"number\":7,\"words\":[\"a\",[]]",
	 "words[1]: is not a name (1 to 7 characters without blanks)"},
	{"\"number\":7,\"even\":7", "even: 7 is not even"},
	{"\"number\":7,\"signed\":2147483648",
	 "signed: '2147483648' is not a whole number from -2147483648 to 2147483647"},
	{"\"number\":7,\"signed\":-2147483649",
	 "signed: '-2147483649' is not a whole number from -2147483648 to 2147483647"},
	{"\"number\":7,\"signed\":1.5", NULL},
	{"\"flag\":true", "'number' is missing"},
};

static void wrong_values(void **state)
{
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		struct outer o = {0};
		struct inc_err err;
		char text[200], want[200];

		snprintf(text, sizeof(text), "{%s,\"told\":1}", refused[i].text);
		assert_int_equal(read_json(text, &o, &err), -EINVAL);
		if (refused[i].wrong)
			assert_string_equal(err.msg, refused[i].wrong);
		snprintf(text, sizeof(text), "\n{%s}", refused[i].text);
		assert_int_equal(read_yaml(text, &o, &err), -EINVAL);
		snprintf(want, sizeof(want), "f:2: %s", refused[i].wrong ?: "");
		if (refused[i].wrong)
			assert_string_equal(err.msg, want);
	}
}

static void only_in_one_form(void **state)
{
	struct outer o = {0};
	struct inc_err err;

	assert_int_equal(read_json("{\"number\":2}", &o, &err), -EINVAL);
	assert_string_equal(err.msg, "'told' is missing");
	assert_int_equal(read_yaml("number: 2\nmore: 3\n", &o, &err), -EINVAL);
	assert_string_equal(err.msg, "f:2: unknown key 'more'");
	assert_int_equal(read_yaml("number: 2\nmessage: 3\n", &o, &err), -EINVAL);
	/* the JSON parser itself rejects a number of that size */
	assert_int_equal(read_yaml("number: 18446744073709551616\n", &o, &err), -EINVAL);
	assert_string_equal(err.msg, "f:1: number: 18446744073709551616 is not between 2 and 10");
	/* a leading 0 does not make a number octal */
	assert_int_equal(read_yaml("number: 010\n", &o, &err), 0);
	assert_int_equal(o.number, 10);
	assert_int_equal(read_json("[]", &o, &err), -EINVAL);
	assert_int_equal(inc_schema_read_json(&schema, NULL, &o, &err), -EINVAL);
}

/* A field that is a hint counts as absent if its value is invalid, and the rest is read. */
static void hints(void **state)
{
	static const struct {
		const char *text;
		bool there;
	} cases[] = {{"", false},
		     {",\"hint\":5", true},
		     {",\"hint\":10", false},
		     {",\"hint\":\"x\"", false},
		     {",\"hint\":null", false}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct outer o = {.hint = 4};
		struct inc_err err = {""};
		char text[100];

		snprintf(text, sizeof(text), "{\"number\":7%s,\"told\":1}", cases[i].text);
		assert_int_equal(read_json(text, &o, &err), 0);
		assert_int_equal(o.told, 1);
		assert_int_equal(o.has_hint, cases[i].there);
		assert_int_equal(o.hint, cases[i].there ? 5 : 4);
		assert_string_equal(err.msg, "");
	}
}

/* A list that is a hint counts as absent if one of its elements cannot be read. */
static void hint_list(void **state)
{
	struct outer o = {};
	struct inc_err err;

	assert_int_equal(read_json("{\"number\":2,\"told\":0,\"seen\":[{\"n\":1},{}]}", &o, &err),
			 0);
	assert_int_equal(o.n_seen, 0);
	assert_int_equal(read_json("{\"number\":2,\"told\":0,\"seen\":[{\"n\":1}]}", &o, &err), 0);
	assert_int_equal(o.n_seen, 1);
	assert_int_equal(o.seen[0].n, 1);
}

/* A field with a list of words may have one value that stands for all other words. */
static void other_word(void **state)
{
	static const char *const words[] = {"red", "green", "blue", "mixed", "grey"};
	struct inc_err err;
	char text[60];

	for (uint32_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		struct outer o = {};
		json_t *print;

		snprintf(text, sizeof(text), "{\"number\":2,\"told\":0,\"open\":\"%s\"}", words[i]);
		assert_int_equal(read_json(text, &o, &err), 0);
		assert_int_equal(o.open, i < 3 ? i : 3);
		print = inc_schema_print(&schema, INC_MESSAGE_ONLY, &o);
		assert_string_equal(json_string_value(json_object_get(print, "open")),
				    words[i < 3 ? i : 3]);
		json_decref(print);
	}
}

/* A field that may be added later must have a value in a file, and may be absent in a message. */
static void later(void **state)
{
	struct outer o = {.later = 3};
	struct inc_err err;

	assert_int_equal(read_json("{\"number\":2,\"told\":0}", &o, &err), 0);
	assert_false(o.has_later);
	assert_int_equal(o.later, 3);
	assert_int_equal(read_json("{\"number\":2,\"told\":0,\"later\":0}", &o, &err), 0);
	assert_true(o.has_later);
	assert_int_equal(o.later, 0);
	assert_int_equal(read_yaml("number: 2\n", &o, &err), 0);
	assert_int_equal(o.later, 6);
}

/* A field may accept 0 for "none", although its least value is greater. */
static void zero_is_none(void **state)
{
	struct outer o = {.none = 7};
	struct inc_err err;
	json_t *print;

	assert_int_equal(read_yaml("number: 2\nnone: 1\n", &o, &err), -EINVAL);
	assert_string_equal(err.msg, "f:2: none: 1 is not between 2 and 9");
	assert_int_equal(read_yaml("number: 2\nnone: 0\n", &o, &err), 0);
	assert_int_equal(o.none, 0);
	print = inc_schema_print(&schema, INC_FILE_ONLY, &o);
	assert_null(json_object_get(print, "none"));
	json_decref(print);
	assert_int_equal(read_yaml("number: 2\nnone: 2\n", &o, &err), 0);
	print = inc_schema_print(&schema, INC_FILE_ONLY, &o);
	assert_int_equal(json_integer_value(json_object_get(print, "none")), 2);
	json_decref(print);
}

/* Files may use the alias of a field's name, messages may not. */
static void aliases(void **state)
{
	struct outer o = {};
	struct inc_err err;

	assert_int_equal(read_yaml("number: 2\ncalled: 5\n", &o, &err), 0);
	assert_int_equal(o.named, 5);
	assert_int_equal(read_yaml("number: 2\ncalled: 10\n", &o, &err), -EINVAL);
	assert_string_equal(err.msg, "f:2: called: 10 is not between 0 and 9");
	assert_int_equal(read_yaml("number: 2\ncalled: 5\nnamed: 5\n", &o, &err), -EINVAL);
	assert_string_equal(err.msg, "f:1: 'named' and 'called' are the same");
	o.named = 0;
	assert_int_equal(read_json("{\"number\":2,\"told\":0,\"called\":5}", &o, &err), 0);
	assert_int_equal(o.named, 0);
}

/* A text that was cut in the middle of a UTF-8 character is printed nevertheless. */
static void cut_line(void **state)
{
	struct outer o = {.line = "caf\xc3"};
	json_t *print = inc_schema_print(&schema, INC_FILE_ONLY, &o);

	assert_string_equal(json_string_value(json_object_get(print, "line")), "caf?");
	json_decref(print);
}

static void written(void **state)
{
	static const char json[] =
		"{\"a\":[],\"b\":{},\"c\":[[1,2],{\"d\":\"yes\"}],\"e\":\"10\","
		"\"f\":\"a: b\",\"g\":\"\",\"h\":true,\"i j\":null,\"k\":\"p-0\"}";
	static const char yaml[] = "a: []\nb: {}\nc:\n  - - 1\n    - 2\n  - d: \"yes\"\ne: \"10\"\n"
				   "f: \"a: b\"\ng: \"\"\nh: true\n\"i j\": null\nk: p-0\n";
	json_t *value = json_loads(json, 0, NULL);
	char *text;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	inc_yaml_write(f, value);
	fclose(f);
	assert_string_equal(text, yaml);
	free(text);
	json_decref(value);
}

static void addresses(void **state)
{
	static const struct {
		const char *text, *printed;
		int ret;
		bool is_ipv4;
	} cases[] = {
		{"10.0.0.1", "10.0.0.1", 0, true},
		{"255.255.255.255", "255.255.255.255", -ERANGE, true},
		{"224.0.0.1", "224.0.0.1", -ERANGE, true},
		{"0.0.0.0", "0.0.0.0", -ERANGE, true},
		{"0.1.2.3", "0.1.2.3", -ERANGE, true},
		{"::ffff:10.0.0.1", "10.0.0.1", 0, true},
		{"::FFFF:a00:1", "10.0.0.1", 0, true},
		{"fd00:1::1", "fd00:1::1", 0, false},
		{"FD00:0001:0000::0001", "fd00:1::1", 0, false},
		{"2001:db8:1:2:3:4:5:6", "2001:db8:1:2:3:4:5:6", 0, false},
		{"::1", "::1", 0, false},
		{"::", "::", -ERANGE, false},
		{"ff02::1", "ff02::1", -ERANGE, false},
		{"fe80::1", "fe80::1", -ERANGE, false},
		{"febf::1", "febf::1", -ERANGE, false},
		{"fec0::1", "fec0::1", 0, false},
	};
	static const char *const bad[] = {
		"",          "10.0.0",       "10.0.0.1.2",    "10.0.0.256",   "10.0.0.1/24",
		" 10.0.0.1", "fe80::1%eth0", "fd00::1%1",     "fd00::/64",    "[fd00::1]",
		"fd00:::1",  "fd00::1 ",     "1:2:3:4:5:6:7", "::ffff:1.2.3", "g::1",
		"localhost",
	};
	char text[INC_ADDR_TEXT];
	union inc_sockaddr at;
	struct inc_addr addr;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(inc_addr_parse_host(cases[i].text, &addr), cases[i].ret);
		assert_string_equal(inc_addr_text(addr, text), cases[i].printed);
		assert_int_equal(inc_addr_is_ipv4(addr), cases[i].is_ipv4);
		assert_int_equal(inc_addr_is_host(addr), !cases[i].ret);
		inc_addr_to_sockaddr(addr, 4791, &at);
		assert_int_equal(inc_sockaddr_port(&at), 4791);
		assert_int_equal(at.any.sa_family, cases[i].is_ipv4 ? AF_INET : AF_INET6);
		assert_true(inc_addr_same(inc_addr_of_sockaddr(&at.any), addr));
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(inc_addr_parse_host(bad[i], &addr), -EINVAL);
	assert_false(inc_addr_given((struct inc_addr){}));
	assert_false(inc_addr_given(inc_addr_of_ipv4(0)));
	assert_false(inc_addr_given(inc_addr_of_sockaddr(NULL)));
}

static bool in_one_network(const char *a, const char *b, unsigned int bits)
{
	struct inc_addr x, y;

	assert_int_equal(inc_addr_parse(a, &x) | inc_addr_parse(b, &y), 0);
	return inc_addr_same_network(x, y, bits);
}

static void networks(void **state)
{
	char text[INC_ADDR_TEXT];
	struct inc_addr addr;

	assert_true(in_one_network("10.1.2.3", "10.1.2.200", 24));
	assert_false(in_one_network("10.1.2.3", "10.1.2.200", 25));
	assert_true(in_one_network("10.1.2.3", "200.1.2.3", 0));
	assert_true(in_one_network("fd00:1:2:3::1", "fd00:1:2:3:ffff::", 64));
	assert_false(in_one_network("fd00:1:2:3::1", "fd00:1:2:3:ffff::", 65));
	assert_false(in_one_network("fd00:1:2:3::1", "fd00:1:2:2::1", 64));
	assert_true(in_one_network("fd00::5", "fd00::5", 128));
	assert_false(in_one_network("fd00::5", "fd00::4", 128));
	assert_false(in_one_network("10.1.2.3", "::a01:203", 0));
	inc_addr_parse("fd00:1:2:3:ffff:ffff:ffff:ffff", &addr);
	assert_string_equal(inc_addr_text(inc_addr_network(addr, 66), text), "fd00:1:2:3:c000::");
	inc_addr_parse("10.1.255.255", &addr);
	assert_string_equal(inc_addr_text(inc_addr_network(addr, 18), text), "10.1.192.0");
	assert_string_equal(inc_addr_text(inc_addr_network(addr, 32), text), "10.1.255.255");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses),    cmocka_unit_test(networks),
		cmocka_unit_test(both_forms),   cmocka_unit_test(absent),
		cmocka_unit_test(wrong_values), cmocka_unit_test(only_in_one_form),
		cmocka_unit_test(written),      cmocka_unit_test(hints),
		cmocka_unit_test(later),        cmocka_unit_test(zero_is_none),
		cmocka_unit_test(aliases),      cmocka_unit_test(cut_line),
		cmocka_unit_test(hint_list),    cmocka_unit_test(other_word),
	};

	return cmocka_run_group_tests_name("schema", tests, NULL, NULL) ? 1 : 0;
}
