// SPDX-License-Identifier: BSD-2-Clause
// SIZE: check
/* Tests of lib: the ICRC of captured packets, compared with zlib; errors in YAML and in
 * topologies. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <zlib.h>
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/net/hostport.h"
#include "lib/net/netdev.h"
#include "lib/base/printable.h"
#include "lib/roce/wire.h"
#include "lib/conf/yaml.h"

/* A congestion notification packet that was captured on a ConnectX-4 Lx (scapy,
 * test/contrib/roce.uts), from the IP header to the ICRC. */
static const uint8_t cnp[] = {
	0x45, 0xc2, 0x00, 0x3c, 0x71, 0x8c, 0x40, 0x00, 0x40, 0x11, 0x91, 0x61, 0x0a, 0x00, 0x11,
	0x01, 0x0a, 0x00, 0x12, 0x01, 0x00, 0x00, 0x12, 0xb7, 0x00, 0x28, 0x00, 0x00, 0x81, 0x00,
	0xff, 0xff, 0x40, 0x00, 0x01, 0x18, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x82, 0xfd, 0x00, 0x2a,
};

/* The packet "UC SEND only" of the same file: IP ID 1144, DF, from 192.168.0.7 to itself, UDP port
 * 49152 to 4791. */
static const uint8_t uc_send[] = {
	0x45, 0x01, 0x00, 0x40, 0x04, 0x78, 0x40, 0x00, 0x40, 0x11, 0xb4, 0xd5, 0xc0,
	0xa8, 0x00, 0x07, 0xc0, 0xa8, 0x00, 0x07, 0xc0, 0x00, 0x12, 0xb7, 0x00, 0x2c,
	0xac, 0xa2, 0x24, 0x60, 0xff, 0xff, 0x00, 0x00, 0x00, 0xd3, 0x00, 0xcf, 0x17,
	0x10, 'F',  '0',  0x81, 0x8b, 0xe2, 0x89, '5',  0xd9, 0x0e, 0x9a, 0x95, 'P',
	'T',  0x01, 0xbe, 0x88, '^',  'P',  0x00, 0x00, 0x78, 0xf3, 0x53, 0xf3,
};

/* A packet over IPv6, with a traffic class, a flow label and BECN, which scapy 2.6 has made: SEND
 * only from fd00:1::1, UDP port 51234, to fd00:1::fe. */
static const uint8_t send_ipv6[] = {
	0x66, 0xa1, 0x23, 0x45, 0x00, 0x20, 0x11, 0x3d, 0xfd, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0xfd, 0x00, 0x00, 0x01, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xfe, 0xc8, 0x22, 0x12, 0xb7, 0x00,
	0x20, 0x14, 0xe5, 0x04, 0x00, 0xff, 0xff, 0x40, 0x00, 0x12, 0x34, 0x80, 0x00, 0x56, 0x78,
	0x68, 0x65, 0x6c, 0x6c, 0x6f, 0x31, 0x32, 0x33, 0x00, 0x12, 0x71, 0xf7,
};

static uint32_t stored(const uint8_t *p)
{
	return p[0] | p[1] << 8 | p[2] << 16 | (uint32_t)p[3] << 24;
}

static void check_captured(const uint8_t *packet, size_t len, bool df)
{
	struct inc_udp_path path = {.df = df};
	uint8_t masked[8 + 2048];
	uint32_t ip;

	assert_int_equal(inc_icrc_ipv4(packet, len - 4), stored(packet + len - 4));

	memcpy(&ip, packet + 12, 4);
	path.saddr = inc_addr_of_ipv4(ip);
	memcpy(&ip, packet + 16, 4);
	path.daddr = inc_addr_of_ipv4(ip);
	path.sport = packet[20] << 8 | packet[21];
	path.dport = packet[22] << 8 | packet[23];
	assert_int_equal(inc_icrc_udp(&path, packet[4] << 8 | packet[5], packet + 28, len - 32),
			 stored(packet + len - 4));

	/* computes the ICRC with zlib, and masks the fields that the annex to the specification
	 * names */
	memset(masked, 0xff, 8);
	memcpy(masked + 8, packet, len - 4);
	masked[8 + 1] = masked[8 + 8] = masked[8 + 10] = masked[8 + 11] = 0xff;
	masked[8 + 26] = masked[8 + 27] = masked[8 + 32] = 0xff;
	assert_int_equal(crc32(0, masked, 8 + len - 4), stored(packet + len - 4));
}

static void icrc_captured(void **state)
{
	check_captured(cnp, sizeof(cnp), true);
	check_captured(uc_send, sizeof(uc_send), true);
}

static void icrc_of_ipv6(void **state)
{
	const size_t len = sizeof(send_ipv6) - 4;
	struct inc_udp_path path = {.sport = 51234, .dport = 4791};
	uint8_t packet[sizeof(send_ipv6)];
	struct inc_icrc_usual usual;

	assert_int_equal(inc_icrc_ipv6(send_ipv6, len), stored(send_ipv6 + len));
	assert_int_equal(inc_addr_parse("fd00:1::1", &path.saddr), 0);
	assert_int_equal(inc_addr_parse("fd00:1::fe", &path.daddr), 0);
	/* there is no IP ID, so none makes a difference */
	inc_icrc_usual_init(&usual, &path, len - 48 - INC_BTH_LEN);
	for (uint16_t id = 0; id < 200; id += 9) {
		assert_int_equal(inc_icrc_udp(&path, id, send_ipv6 + 48, len - 48),
				 stored(send_ipv6 + len));
		assert_int_equal(inc_icrc_udp_usual(&usual, &path, id, send_ipv6 + 48, len - 48),
				 stored(send_ipv6 + len));
	}
	/* each bit is covered, except those that the annex to the specification names */
	for (size_t bit = 0; bit < 8 * len; bit++) {
		const size_t at = bit / 8;
		const bool free_bit =
			(at < 4 && bit > 3) || at == 7 || at == 46 || at == 47 || at == 52;

		memcpy(packet, send_ipv6, sizeof(packet));
		packet[at] ^= 0x80 >> bit % 8;
		assert_int_equal(inc_icrc_ipv6(packet, len) == stored(send_ipv6 + len), free_bit);
	}
}

/* The headers that are written, as scapy's packet has them apart from what changes on the way. */
static void headers_of_ipv6(void **state)
{
	struct inc_addr from, to;
	uint8_t head[48], want[48];

	inc_addr_parse("fd00:1::1", &from);
	inc_addr_parse("fd00:1::fe", &to);
	memcpy(want, send_ipv6, sizeof(want));
	want[0] = 0x60;
	want[1] = want[2] = want[3] = want[46] = want[47] = 0;
	want[7] = 64;
	inc_put_ipv6_udp(head, &from, &to, 51234, 4791, sizeof(send_ipv6) - 40);
	assert_memory_equal(head, want, sizeof(want));
}

static void icrc_against_zlib(void **state)
{
	uint8_t packet[20 + 8 + 12 + 16 + 4 + 2048], masked[8 + sizeof(packet)];
	uint32_t seed = 1;

	memset(masked, 0xff, 8);
	for (size_t len = 40; len <= sizeof(packet); len += 1 + len / 37) {
		for (size_t i = 0; i < len; i++) {
			seed = seed * 1664525 + 1013904223;
			packet[i] = seed >> 24;
		}
		memcpy(masked + 8, packet, len);
		masked[8 + 1] = masked[8 + 8] = masked[8 + 10] = masked[8 + 11] = 0xff;
		masked[8 + 26] = masked[8 + 27] = masked[8 + 32] = 0xff;
		assert_int_equal(inc_icrc_ipv4(packet, len), crc32(0, masked, 8 + len));
	}
}

static void crc_in_parts(void **state)
{
	uint8_t data[257];

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = i * 7;
	for (size_t cut = 0; cut <= sizeof(data); cut++) {
		uint32_t s = inc_crc32_update(0xffffffff, data, cut);

		s = inc_crc32_update(s, data + cut, sizeof(data) - cut);
		assert_int_equal(~s, crc32(0, data, sizeof(data)));
	}
}

#if defined(__x86_64__)
#define HALVES 0x44u /* bits of the state components in use for the upper halves of YMM and ZMM */

/* The CRC uses vector registers, which its caller does not use. The CRC must clear their upper
 * halves, because dirty ones slow down the caller's SSE code. */
static void crc_cleans_registers(void **state)
{
	static const uint8_t data[2048];
	uint32_t a, b, c, d, in_use;

	if (!__get_cpuid_count(0xd, 1, &a, &b, &c, &d) || !(a & 0x4) ||
	    !__builtin_cpu_supports("avx"))
		skip(); /* the CPU has no vectors, or no XGETBV to read the state */
	__asm__ volatile("vpcmpeqd %%xmm0, %%xmm0, %%xmm0\n\t"
			 "vinsertf128 $1, %%xmm0, %%ymm0, %%ymm0"
			 :
			 :
			 : "xmm0");
	__asm__ volatile("xgetbv" : "=a"(in_use) : "c"(1) : "edx");
	assert_true(in_use & HALVES);
	inc_crc32_update(0, data, sizeof(data));
	__asm__ volatile("xgetbv" : "=a"(in_use) : "c"(1) : "edx");
	assert_false(in_use & HALVES);
}
#else
static void crc_cleans_registers(void **state)
{
	skip();
}
#endif

static void opcode_shapes(void **state)
{
	/* length of the extended headers by opcode, as the specification's table has it */
	static const int lengths[] = {0, 0, 0, 4, 0, 4, 16, 0, 0, 4, 16, 20};

	for (int op = 0; op < 256; op++) {
		int want = op < 12 ? lengths[op] : op == INC_OP_ACK ? 4 : -1;

		assert_int_equal(inc_roce_ext_len(op), want);
		assert_int_equal(inc_roce_has_imm(op), op == 3 || op == 5 || op == 9 || op == 11);
		assert_int_equal(inc_roce_has_reth(op), op == 6 || op == 10 || op == 11);
	}
}

static const struct {
	const char *text;
	const char *message; /* expected error; NULL: the file is valid */
} yaml_cases[] = {
	{"a: 1\nb: {c: 2}\n", NULL},
	{"", "t.yaml: empty file"},
	{"a: 1\na: 2\n", "t.yaml:2: key 'a' appears twice"},
	{"a: [1, 2\nb: 3\n", "t.yaml:2:"},
	{"--- 1\n--- 2\n", "t.yaml:2: more than one document"},
	{"? [a]\n: 1\n", "t.yaml:1: a key is not plain text"},
	{"a: \"\\0\"\n", "t.yaml:1: a: NUL character in text"},
	{"a: &x [*x]\n", NULL},
};

static void yaml_documents(void **state)
{
	for (size_t i = 0; i < sizeof(yaml_cases) / sizeof(yaml_cases[0]); i++) {
		const char *text = yaml_cases[i].text, *want = yaml_cases[i].message;
		struct inc_yaml *doc = NULL;
		struct inc_err err = {""};
		int ret = inc_yaml_parse("t.yaml", text, strlen(text), &doc, &err);

		if (want) {
			assert_int_equal(ret, -EINVAL);
			if (strncmp(err.msg, want, strlen(want)) != 0)
				fail_msg("'%s' is not '%s'", err.msg, want);
			continue;
		}
		assert_int_equal(ret, 0);
		inc_yaml_free(doc);
	}
}

static void yaml_nodes(void **state)
{
	static const char text[] = "n: 010\nlist: [{x: 1}, {x: q}]\nempty: ''\n";
	const struct inc_yaml_node *root, *second;
	struct inc_yaml *doc;
	struct inc_err err;
	const char *got;

	assert_int_equal(inc_yaml_parse("t.yaml", text, sizeof(text) - 1, &doc, &err), 0);
	root = inc_yaml_root(doc);
	assert_int_equal(inc_yaml_get_str(root, "n", &got, &err), 0);
	assert_string_equal(got, "010");
	assert_int_equal(inc_yaml_get_str(root, "absent", &got, &err), -EINVAL);
	assert_string_equal(err.msg, "t.yaml:1: 'absent' is missing");
	assert_int_equal(inc_yaml_get_str(root, "list", &got, &err), -EINVAL);
	assert_string_equal(err.msg, "t.yaml:2: list: is not a single value");
	assert_int_equal(inc_yaml_get_str(root, "empty", &got, &err), -EINVAL);
	second = inc_yaml_at(inc_yaml_get(root, "list"), 1);
	assert_int_equal(inc_yaml_error(inc_yaml_get(second, "x"), &err, "is not"), -EINVAL);
	assert_string_equal(err.msg, "t.yaml:2: list[1].x: is not");
	assert_null(inc_yaml_at(inc_yaml_get(root, "list"), 2));
	inc_yaml_free(doc);
}

static const struct {
	const char *text, *host, *port; /* parts of the text; host NULL: the text is invalid */
} hostports[] = {
	{"h", "h", "52200"},
	{"10.0.0.1:1", "10.0.0.1", "1"},
	{"node.example:65535", "node.example", "65535"},
	{"h:0052200", "h", "52200"},
	{"[fe80::1]:99", "fe80::1", "99"},
	{"[fe80::1]", "fe80::1", "52200"},
	{"fe80::1", "fe80::1", "52200"},
	{"", NULL, NULL},
	{":1", NULL, NULL},
	{"h:", NULL, NULL},
	{"h:0", NULL, NULL},
	{"h:65536", NULL, NULL},
	{"h:99999", NULL, NULL},
	{"h:4294967297", NULL, NULL}, /* a port number that wraps to 1 in 32 bits */
	{"h:18446744073709551617", NULL, NULL},
	{"h:-1", NULL, NULL},
	{"h:+1", NULL, NULL},
	{"h: 1", NULL, NULL},
	{"h:1x", NULL, NULL},
	{"h:http", NULL, NULL},
	{"[::1", NULL, NULL},
	{"[::1]1", NULL, NULL},
	{"[]:1", NULL, NULL},
	{"[::1]:", NULL, NULL},
};

static void hostport(void **state)
{
	char longest[300];

	for (size_t i = 0; i < sizeof(hostports) / sizeof(hostports[0]); i++) {
		struct inc_hostport at;
		struct inc_err err = {""};
		int ret = inc_hostport_parse("controller", hostports[i].text, 52200, &at, &err);

		if (!hostports[i].host) {
			assert_int_equal(ret, -EINVAL);
			assert_non_null(strstr(err.msg, hostports[i].text));
			continue;
		}
		assert_int_equal(ret, 0);
		assert_string_equal(at.host, hostports[i].host);
		assert_string_equal(at.port, hostports[i].port);
	}
	for (size_t len = 255; len <= 256; len++) {
		struct inc_hostport at;
		struct inc_err err = {""};

		memset(longest, 'h', len);
		strcpy(longest + len, ":7");
		assert_int_equal(inc_hostport_parse("controller", longest, 1, &at, &err),
				 len == 255 ? 0 : -EINVAL);
	}
}

static void hostport_list(void **state)
{
	static const struct {
		const char *text;
		unsigned int n; /* number of controllers; 0: the text is invalid */
	} lists[] = {
		{"h", 1},
		{"h,g:7,[fe80::1]:9", 3},
		{"a,b,c,d,e,f,g,h", 8},
		{"a,b,c,d,e,f,g,h,i", 0},
		{"", 0},
		{",", 0},
		{"h,", 0},
		{",h", 0},
		{"h,,g", 0},
		{"h,g:0", 0},
	};
	struct inc_hostports all;
	struct inc_err err;

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		int ret = inc_hostports_parse("controller", lists[i].text, 52200, &all, &err);

		assert_int_equal(ret, lists[i].n ? 0 : -EINVAL);
		assert_int_equal(inc_hostports_check(lists[i].text, &err), ret);
		if (lists[i].n)
			assert_int_equal(all.n, lists[i].n);
	}
	assert_int_equal(inc_hostports_parse("controller", "h,g:7,[fe80::1]:9", 52200, &all, &err),
			 0);
	assert_string_equal(all.at[0].port, "52200");
	assert_string_equal(all.at[1].host, "g");
	assert_string_equal(all.at[1].port, "7");
	assert_string_equal(all.at[2].host, "fe80::1");
}

static void listen_address(void **state)
{
	static const struct {
		const char *text;
		int family; /* address family; 0: the text is no address */
		int port;
	} texts[] = {
		{"127.0.0.1", AF_INET, 52400}, {"127.0.0.1:7", AF_INET, 7},
		{"127.0.0.1:0", AF_INET, 0},   {"::", AF_INET6, 52400},
		{"[::1]:0", AF_INET6, 0},      {"::0", AF_INET6, 52400},
		{"localhost", 0, 0},           {"127.0.0.1:65536", 0, 0},
		{"127.0.0.1:", 0, 0},          {"", 0, 0},
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct inc_err err = {""};
		struct addrinfo *at;
		int ret = inc_hostport_listen("listen", texts[i].text, 52400, &at, &err);

		if (!texts[i].family) {
			assert_int_equal(ret, -EINVAL);
			assert_non_null(strstr(err.msg, "listen '"));
			continue;
		}
		assert_int_equal(ret, 0);
		assert_int_equal(at->ai_family, texts[i].family);
		/* the sockaddr of both families has the port at the same offset */
		assert_int_equal(ntohs(((struct sockaddr_in *)at->ai_addr)->sin_port),
				 texts[i].port);
		freeaddrinfo(at);
	}
}

static const struct {
	const char *text, *want;
} printables[] = {
	{"", ""},
	{"plain ~ text", "plain ~ text"},
	{"gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80",
	 "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80"},
	{"\x1b[2J\x1b]0;title\x07", "?[2J?]0;title?"},
	{"a\nb\r\tc", "a b  c"},
	{"\x7f\x01", "??"},
	{"csi \xc2\x9b"
	 "1m",
	 "csi ??1m"}, /* the control character CSI (C1) in UTF-8 */
	{"csi \x9b"
	 "1m",
	 "csi ?1m"},                         /* the control character CSI as a single byte */
	{"\xc0\x9b \xe0\x80\x9b", "?? ???"}, /* overlong encodings */
	{"\xed\xa0\x80 \xf4\x90\x80\x80 \xff", "??? ???? ?"},
	{"cut \xe2\x82", "cut ??"},
	{"\xe2\x80\xae"
	 "desrever \xe2\x81\xa6 \xe2\x80\xa8",
	 "???desrever ??? ???"},
};

static void printable(void **state)
{
	char text[64];

	for (size_t i = 0; i < sizeof(printables) / sizeof(printables[0]); i++) {
		strcpy(text, printables[i].text);
		inc_printable(text);
		assert_string_equal(text, printables[i].want);
	}
	/* the shown text contains no control character, whatever two bytes it is made from */
	for (unsigned int n = 0; n < 1u << 16; n++) {
		char two[] = {(char)(n & 0xff), (char)(n >> 8), 'm', 0};

		inc_printable(two);
		for (unsigned char *p = (unsigned char *)two; *p; p++)
			assert_true(*p >= 0x20 && *p != 0x7f &&
				    (*p < 0x80 || *p >= 0xa0 || p > (unsigned char *)two));
	}
}

/* A list has the items for which there is room, and never more bytes than the buffer. */
static void list(void **state)
{
	const size_t least = sizeof(" and more"), last = sizeof("a, bcd and more");
	char buf[40];

	for (size_t size = least; size <= last; size++) {
		struct inc_list made;

		memset(buf, '#', sizeof(buf));
		made = inc_list_begin(buf, size);
		assert_string_equal(buf, "");
		inc_list_add(&made, "%s", "a");
		inc_list_add(&made, "bc%c", 'd');
		inc_list_add(&made, "%0100d", 0);
		inc_list_add(&made, "e");
		assert_string_equal(buf, size == least  ? " and more"
					 : size == last ? "a, bcd and more"
							: "a and more");
		assert_int_equal(buf[size], '#');
	}
	struct inc_list made = inc_list_begin(buf, sizeof(buf));

	inc_list_add(&made, "rank %d", 2);
	inc_list_add(&made, "rank %d", 5);
	assert_string_equal(buf, "rank 2, rank 5");
}

static void error_text(void **state)
{
	struct inc_err err;

	assert_int_equal(inc_err_set(&err, EINVAL, "peer says '%s'", "\x1b[31m"), -EINVAL);
	assert_string_equal(err.msg, "peer says '?[31m'");
}

static char logged[256];

/* A failing output of the log. */
static void take_line(const char *line, size_t len)
{
	snprintf(logged, sizeof(logged), "%.*s", (int)len, line);
	errno = EIO;
}

/* Log lines contain no control characters, because a terminal may show them. Logging preserves
 * errno, because a caller may log before it reads errno. */
static void log_line(void **state)
{
	inc_log_init("test");
	inc_log_sink(take_line);
	errno = ENOENT;
	inc_error("peer says '%s'", "\x1b[31m");
	assert_int_equal(errno, ENOENT);
	assert_non_null(strstr(logged, "peer says '?[31m'"));
	inc_log_sink(NULL);
}

/* With this timeout poll() returns when the time has come, neither a millisecond earlier nor at
 * once. */
static void ms_until(void **state)
{
	assert_int_equal(inc_ms_until(5, 5), 0);
	assert_int_equal(inc_ms_until(5, 6), 0);
	assert_int_equal(inc_ms_until(6, 5), 1);
	assert_int_equal(inc_ms_until(5 + INC_NSEC_PER_MSEC, 5), 1);
	assert_int_equal(inc_ms_until(6 + INC_NSEC_PER_MSEC, 5), 2);
	assert_int_equal(inc_ms_until(UINT64_MAX, 0), INT_MAX);
}

/* Appends a TLV to a frame. Returns the place behind it. */
static uint8_t *tlv(uint8_t *at, unsigned int type, const char *value, size_t len)
{
	at[0] = type << 1 | len >> 8;
	at[1] = len & 0xff;
	memcpy(at + 2, value, len);
	return at + 2 + len;
}

static void lldp_frames(void **state)
{
	static const uint8_t mac[6] = {2, 0, 0, 0, 0, 9};
	static const char longest[] =
		"0123456789012345678901234567890123456789012345678901234567890123";
	uint8_t frame[INC_LLDP_FRAME_BYTES], more[600], unknown[300];
	const size_t least = inc_lldp_write(frame, mac, "s0", "p1", 120);
	struct inc_lldp said;
	uint8_t *end;

	assert_int_equal(least, INC_LLDP_FRAME_MIN);
	assert_int_equal(frame[12] << 8 | frame[13], INC_LLDP_ETHERTYPE);
	assert_memory_equal(frame + 6, mac, 6);
	assert_int_equal(inc_lldp_parse(frame + 14, least - 14, &said), 0);
	assert_string_equal(said.chassis, "s0");
	assert_string_equal(said.port, "p1");
	assert_string_equal(said.name, "s0");
	assert_int_equal(said.ttl_s, 120);
	assert_false(said.has_address);
	/* texts that are too long are cut off, and the frame has room for them */
	assert_true(inc_lldp_write(frame, mac, longest, longest, 1) <= sizeof(frame));
	assert_int_equal(inc_lldp_parse(frame + 14, sizeof(frame) - 14, &said), 0);
	assert_int_equal(strlen(said.name), INC_LLDP_TEXT - 1);
	/* identities that are addresses, and a TLV of more than 255 bytes */
	memset(unknown, 'y', sizeof(unknown));
	end = tlv(more, 1, "\4\2\0\0\0\0\7", 7);
	end = tlv(end, 2, "\4\1\12\0\0\7", 6);
	end = tlv(end, 3, "\1\0", 2);
	end = tlv(end, 127, (const char *)unknown, sizeof(unknown));
	end = tlv(end, 8, "\5\1\12\0\0\10\1\0\0\0\0\0", 12);
	end = tlv(end, 5, "a\33b", 3);
	end = tlv(end, 0, "", 0);
	assert_int_equal(inc_lldp_parse(more, end - more, &said), 0);
	assert_string_equal(said.chassis, "02:00:00:00:00:07");
	assert_string_equal(said.port, "10.0.0.7");
	assert_string_equal(said.name, "a?b");
	assert_int_equal(said.ttl_s, 256);
	assert_true(said.has_address && said.address.s_addr == htonl(0x0a000008));
}

/* Frames that the standard forbids are refused, however short they are. */
static void lldp_strangers(void **state)
{
	static const uint8_t mac[6] = {2, 0, 0, 0, 0, 9};
	uint8_t frame[INC_LLDP_FRAME_BYTES], bad[INC_LLDP_FRAME_BYTES];
	struct inc_lldp said;
	size_t len = 6 + 5 + 4 + 4 + 2; /* behind the Ethernet header, without its padding */

	inc_lldp_write(frame, mac, "s0", "p1", 120);
	for (size_t n = 0; n < len; n++) {
		memcpy(bad, frame + 14, n);
		assert_int_equal(inc_lldp_parse(bad, n, &said), n < 20 ? -EBADMSG : 0);
	}
	memcpy(bad, frame + 14, sizeof(frame) - 14);
	bad[0] = 2 << 1; /* a port before the chassis */
	assert_int_equal(inc_lldp_parse(bad, len, &said), -EBADMSG);
	bad[0] = 1 << 1;
	bad[1] = 1; /* an identity without a value */
	assert_int_equal(inc_lldp_parse(bad, len, &said), -EBADMSG);
	bad[0] = 1 << 1 | 1; /* a length beyond the end */
	assert_int_equal(inc_lldp_parse(bad, len, &said), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(icrc_captured),  cmocka_unit_test(icrc_against_zlib),
		cmocka_unit_test(icrc_of_ipv6),   cmocka_unit_test(headers_of_ipv6),
		cmocka_unit_test(crc_in_parts),   cmocka_unit_test(crc_cleans_registers),
		cmocka_unit_test(opcode_shapes),  cmocka_unit_test(yaml_documents),
		cmocka_unit_test(yaml_nodes),     cmocka_unit_test(hostport),
		cmocka_unit_test(hostport_list),  cmocka_unit_test(listen_address),
		cmocka_unit_test(ms_until),       cmocka_unit_test(printable),
		cmocka_unit_test(list),           cmocka_unit_test(error_text),
		cmocka_unit_test(log_line),       cmocka_unit_test(lldp_frames),
		cmocka_unit_test(lldp_strangers),
	};

	return cmocka_run_group_tests_name("lib", tests, NULL, NULL) ? 1 : 0;
}
