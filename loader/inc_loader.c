/* SPDX-License-Identifier: BSD-2-Clause */
/* Opens, sizes and loads the BPF object of a switch, and has the functions that return parts of the
 * switch. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <linux/capability.h>
#include "inc_xdp.skel.h"
#include "lib/base/log.h"
#include "loader/inc_crc_tables.h"
#include "loader/inc_loader_priv.h"
#include "loader/inc_raw.h"

/* The last messages of libbpf and libxdp on stderr, line by line, because they explain an error. */
static char capture_text[400];
static libbpf_print_fn_t capture_libbpf;
static libxdp_print_fn_t capture_libxdp;

/* Adds one line to capture_text. */
static void tell(const char *line, size_t len)
{
	size_t used = strlen(capture_text);
	size_t room = sizeof(capture_text) - 1 - used;

	if (room < sizeof("; "))
		return;
	if (used) {
		strcpy(capture_text + used, "; ");
		used += 2;
		room -= 2;
	}
	if (len > room)
		len = room;
	memcpy(capture_text + used, line, len);
	capture_text[used + len] = 0;
}

/* Adds the verifier's last message to capture_text. The message stands before the verifier's line
 * of statistics. */
static void tell_verifier(char *log)
{
	char *end = strstr(log, "\nprocessed "), *line;

	if (!end)
		return;
	*end = 0;
	line = strrchr(log, '\n');
	line = line ? line + 1 : log;
	tell(line, strlen(line));
}

static void capture(bool warning, const char *fmt, va_list ap)
{
	char *text, *line, *next;

	if (vasprintf(&text, fmt, ap) < 0)
		return;
	for (line = text; *line; line = next) {
		size_t len = strcspn(line, "\n");

		next = line + len + (line[len] == '\n');
		inc_debug("%.*s", (int)len, line);
	}
	if (warning && strstr(text, "BEGIN PROG LOAD LOG"))
		tell_verifier(text);
	else if (warning && text[0])
		tell(text, strcspn(text, "\n"));
	free(text);
}

static int capture_bpf(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	capture(level == LIBBPF_WARN, fmt, ap);
	return 0;
}

static int capture_xdp(enum libxdp_print_level level, const char *fmt, va_list ap)
{
	capture(level == LIBXDP_WARN, fmt, ap);
	return 0;
}

void inc_switch_hush_libraries(void)
{
	libbpf_set_print(capture_bpf);
	libxdp_set_print(capture_xdp);
}

void inc_capture_begin(void)
{
	capture_text[0] = 0;
	capture_libbpf = libbpf_set_print(capture_bpf);
	capture_libxdp = libxdp_set_print(capture_xdp);
}

const char *inc_capture_end(void)
{
	libbpf_set_print(capture_libbpf);
	libxdp_set_print(capture_libxdp);
	return capture_text[0] ? capture_text : "no further detail";
}

static int check_capabilities(struct inc_err *err)
{
	struct __user_cap_header_struct hdr = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {};
	uint64_t have;

	if (syscall(SYS_capget, &hdr, data))
		/* without the process's capabilities nothing can be checked here; loading reports
		 * the error */
		return 0;
	have = data[0].effective | (uint64_t)data[1].effective << 32;
	if (have >> CAP_SYS_ADMIN & 1 && have >> CAP_NET_ADMIN & 1)
		return 0;
	if (have >> CAP_BPF & 1 && have >> CAP_PERFMON & 1 && have >> CAP_NET_ADMIN & 1)
		return 0;
	return inc_err_set(err, EPERM,
			   "loading XDP programs needs CAP_NET_ADMIN and CAP_BPF with CAP_PERFMON "
			   "(or CAP_SYS_ADMIN): run as root");
}

static int check_kernel(struct inc_err *err)
{
	static const struct {
		enum bpf_func_id id;
		const char *what;
	} need[] = {
		{BPF_FUNC_xdp_load_bytes, "bpf_xdp_load_bytes (Linux 5.18)"},
		{BPF_FUNC_ringbuf_reserve, "BPF ring buffers (Linux 5.8)"},
	};
	size_t i;

	for (i = 0; i < sizeof(need) / sizeof(need[0]); i++)
		if (libbpf_probe_bpf_helper(BPF_PROG_TYPE_XDP, need[i].id, NULL) == 0)
			return inc_err_set(err, EOPNOTSUPP, "this kernel lacks %s", need[i].what);
	return 0;
}

int inc_switch_possible(struct inc_err *err)
{
	int ret = check_capabilities(err);

	return ret ?: check_kernel(err);
}

uint32_t inc_switch_sum_rows(uint32_t max_rows)
{
	/* half as many result rows as contribution rows suffice, because a communicator of two or
	 * more ranks has at least two contribution rows per result row */
	if (max_rows / 2 >= INC_MAX_SLOTS)
		return max_rows / 2;
	return max_rows < INC_MAX_SLOTS ? max_rows : INC_MAX_SLOTS;
}

static int take_opts(struct inc_switch *sw, const struct inc_switch_opts *opts, struct inc_err *err)
{
	struct inc_switch_opts *o = &sw->opts;
	int ret;

	if (opts && (opts->sz < sizeof(size_t) || opts->sz > sizeof(*opts)))
		return inc_err_set(err, EINVAL, "inc_switch_opts of %zu bytes, at most %zu known",
				   opts->sz, sizeof(*opts));
	if (opts)
		memcpy(o, opts, opts->sz);
	o->sz = sizeof(*o);
	o->max_comms = o->max_comms ?: INC_DEF_COMMS;
	o->max_connections = o->max_connections ?: INC_DEF_CONNS;
	o->max_rows = o->max_rows ?: INC_DEF_ROWS;
	if (o->max_comms > INC_MAX_COMMS || o->max_connections > INC_MAX_CONNS ||
	    o->max_rows > INC_MAX_ROWS)
		return inc_err_set(
			err, EINVAL,
			"at most %d communicators, %d connections and %d rows, not %u, %u, %u",
			INC_MAX_COMMS, INC_MAX_CONNS, INC_MAX_ROWS, o->max_comms,
			o->max_connections, o->max_rows);
	if (o->pin || o->instance) {
		ret = inc_instance_name_check(o->instance, err);
		if (ret)
			return ret;
		strcpy(sw->instance, o->instance);
		o->instance = sw->instance;
	}
	sw->sum_rows = inc_switch_sum_rows(o->max_rows);
	return 0;
}

static int set_sizes(struct inc_switch *sw, struct inc_err *err)
{
	const struct inc_switch_opts *o = &sw->opts;
	const struct {
		struct bpf_map *map;
		uint32_t entries;
	} size[] = {
		{sw->skel->maps.inc_conn_lookup, o->max_connections},
		{sw->skel->maps.inc_conn_place, inc_conn_places(o->max_connections)},
		{sw->skel->maps.inc_own_addr, o->max_connections},
		{sw->skel->maps.inc_conn_cfg, o->max_connections},
		{sw->skel->maps.inc_conn_state, o->max_connections},
		{sw->skel->maps.inc_copy, o->max_connections},
		{sw->skel->maps.inc_comm_cfg, o->max_comms},
		{sw->skel->maps.inc_comm_state, o->max_comms},
		{sw->skel->maps.inc_route, o->max_comms},
		{sw->skel->maps.inc_cpu, libbpf_num_possible_cpus()},
		{sw->skel->maps.inc_queue, libbpf_num_possible_cpus()},
		{sw->skel->maps.inc_comm_ports, o->max_comms * INC_PORTS_ROWS},
		{sw->skel->maps.inc_parent_port, o->max_comms},
		{sw->skel->maps.inc_root_child, inc_switch_root_rows(o->max_comms)},
		{sw->skel->maps.inc_kept, o->max_rows},
		{sw->skel->maps.inc_sum, sw->sum_rows},
		{sw->skel->maps.inc_slot, sw->sum_rows},
	};
	size_t i;
	int ret;

	for (i = 0; i < sizeof(size) / sizeof(size[0]); i++) {
		ret = bpf_map__set_max_entries(size[i].map, size[i].entries);
		if (ret)
			return inc_err_set(err, -ret, "map %s: cannot be given %u entries: %s",
					   bpf_map__name(size[i].map), size[i].entries,
					   strerror(-ret));
	}
	return 0;
}

static int load(struct inc_switch *sw, struct inc_err *err)
{
	const char *story;
	int ret;

	inc_capture_begin();
	sw->skel = inc_xdp__open();
	ret = sw->skel ? set_sizes(sw, err) : -errno;
	if (!sw->skel)
		inc_err_set(err, -ret, "BPF object cannot be opened: %s", strerror(-ret));
	if (!ret && sw->adopted)
		ret = inc_reuse_maps(sw, err);
	if (ret) {
		inc_capture_end();
		return ret;
	}
	inc_crc_fill_tables(sw->skel->rodata->inc_crc_table, sw->skel->rodata->inc_shift_table);
	sw->skel->rodata->inc_places = inc_conn_places(sw->opts.max_connections);
	sw->skel->rodata->inc_check_icrc = !sw->opts.skip_icrc;
	sw->skel->rodata->inc_generic = sw->opts.generic;
	sw->skel->rodata->inc_steers = sw->opts.steer;
	bpf_program__set_autoload(sw->skel->progs.inc_steered, sw->opts.steer);
	sw->skel->rodata->inc_order_stores = INC_ORDER_STORES || sw->opts.order_stores;
	ret = inc_xdp__load(sw->skel);
	story = inc_capture_end();
	if (ret)
		return inc_err_set(err, -ret, "XDP program cannot be loaded: %s (%s)",
				   strerror(-ret), story);
	return 0;
}

static size_t mmap_len(const struct bpf_map *map)
{
	size_t page = sysconf(_SC_PAGESIZE);
	size_t len = (size_t)bpf_map__max_entries(map) * bpf_map__value_size(map);

	return (len + page - 1) / page * page;
}

static int map_memory(const struct bpf_map *map, void **addr, struct inc_err *err)
{
	void *p =
		mmap(NULL, mmap_len(map), PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(map), 0);

	if (p == MAP_FAILED)
		return inc_err_set(err, errno, "map %s cannot be mapped into memory: %s",
				   bpf_map__name(map), strerror(errno));
	*addr = p;
	return 0;
}

static void unmap_memory(const struct bpf_map *map, void *addr)
{
	if (addr)
		munmap(addr, mmap_len(map));
}

static int map_all(struct inc_switch *sw, struct inc_err *err)
{
	int ret;

	ret = map_memory(sw->skel->maps.inc_conn_state, (void **)&sw->conn_state, err);
	ret = ret ?: map_memory(sw->skel->maps.inc_comm_state, (void **)&sw->comm_state, err);
	ret = ret ?: map_memory(sw->skel->maps.inc_slot, (void **)&sw->slots, err);
	ret = ret ?: map_memory(sw->skel->maps.inc_route, (void **)&sw->routes, err);
	ret = ret ?: map_memory(sw->skel->maps.inc_queue, (void **)&sw->queues, err);
	ret = ret ?: map_memory(sw->skel->maps.inc_kept, (void **)&sw->kept, err);
	return ret ?: map_memory(sw->skel->maps.inc_sum, (void **)&sw->sums, err);
}

int inc_switch_open(const struct inc_switch_opts *opts, struct inc_switch **out,
		    struct inc_err *err)
{
	struct rlimit unlimited = {RLIM_INFINITY, RLIM_INFINITY};
	struct inc_switch *sw;
	int ret, i;

	*out = NULL;
	sw = calloc(1, sizeof(*sw));
	if (!sw)
		return inc_err_set(err, ENOMEM, "no memory for a switch");
	for (i = 0; i < INC_MAX_PORTS; i++)
		sw->slot[i].link_fd = -1;
	ret = take_opts(sw, opts, err);
	if (ret)
		goto fail;
	sw->comm = calloc(sw->opts.max_comms, sizeof(*sw->comm));
	sw->conn = calloc(sw->opts.max_connections, sizeof(*sw->conn));
	sw->root = calloc(inc_switch_root_rows(sw->opts.max_comms), sizeof(*sw->root));
	if (!sw->comm || !sw->conn || !sw->root) {
		ret = inc_err_set(err, ENOMEM, "no memory for %u connections",
				  sw->opts.max_connections);
		goto fail;
	}
	ret = inc_switch_possible(err);
	if (ret)
		goto fail;
	/* kernels before 5.11 count the memory of maps against this limit, and later ones
	 * ignore it */
	setrlimit(RLIMIT_MEMLOCK, &unlimited);
	if (sw->opts.pin) {
		ret = inc_bpffs_mount(err);
		ret = ret ?: inc_instance_claim(sw, err);
		if (ret)
			goto fail;
	}
	ret = load(sw, err);
	ret = ret ?: map_all(sw, err);
	if (!ret && sw->opts.pin)
		ret = inc_pin_all(sw, err);
	ret = ret ?: inc_steer_open(sw, err);
	if (ret)
		goto fail;
	*out = sw;
	return 0;

fail:
	inc_switch_close(sw);
	return ret;
}

void inc_switch_close(struct inc_switch *sw)
{
	if (!sw)
		return;
	inc_attach_close(sw);
	inc_instance_release(sw);
	if (sw->skel) {
		unmap_memory(sw->skel->maps.inc_conn_state, sw->conn_state);
		unmap_memory(sw->skel->maps.inc_comm_state, sw->comm_state);
		unmap_memory(sw->skel->maps.inc_slot, sw->slots);
		unmap_memory(sw->skel->maps.inc_route, sw->routes);
		unmap_memory(sw->skel->maps.inc_queue, sw->queues);
		unmap_memory(sw->skel->maps.inc_kept, sw->kept);
		unmap_memory(sw->skel->maps.inc_sum, sw->sums);
		inc_xdp__destroy(sw->skel);
	}
	inc_steer_close(sw);
	free(sw->comm);
	free(sw->conn);
	free(sw->root);
	free(sw);
}

void inc_switch_leave(struct inc_switch *sw)
{
	sw->leaving = sw->pinned;
}

const struct inc_switch_opts *inc_switch_get_opts(const struct inc_switch *sw)
{
	return &sw->opts;
}

int inc_switch_map_fd(const struct inc_switch *sw, const char *name)
{
	struct bpf_map *map = bpf_object__find_map_by_name(sw->skel->obj, name);

	return map ? bpf_map__fd(map) : -ENOENT;
}

int inc_switch_prog_fd(const struct inc_switch *sw, const char *name)
{
	struct bpf_program *prog = bpf_object__find_program_by_name(sw->skel->obj, name);

	return prog ? bpf_program__fd(prog) : -ENOENT;
}

uint32_t *inc_switch_copies_shared(const struct inc_switch *sw)
{
	return &sw->skel->bss->inc_copies_shared;
}
