/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * other-xdp libxdp|direct IFNAME: attaches a foreign XDP program to the interface, prints
 * "attached", waits for the end of stdin, prints how many packets the program has counted, and
 * detaches it. Exit codes: 0 done, 1 failure, 2 usage, 77 if libxdp's dispatcher does not work.
 */
#include <errno.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <bpf/libbpf.h>
#include <linux/if_link.h>
#include <xdp/libxdp.h>
#include "other_xdp.skel.h"

#define EXIT_SKIP 77

static int silent(enum libxdp_print_level level, const char *fmt, va_list ap)
{
	return 0;
}

static void wait_and_report(struct bpf_object *obj)
{
	struct bpf_map *bss = bpf_object__find_map_by_name(obj, ".bss");
	unsigned long long packets = 0;
	unsigned int key = 0;
	char c;

	printf("attached\n");
	fflush(stdout);
	while (read(0, &c, 1) > 0)
		;
	if (bss)
		bpf_map__lookup_elem(bss, &key, sizeof(key), &packets, sizeof(packets), 0);
	printf("packets %llu\n", packets);
}

static int run_direct(struct other_xdp *skel, int ifindex)
{
	int fd, ret = other_xdp__load(skel);

	if (ret) {
		fprintf(stderr, "other-xdp: load: %s\n", strerror(-ret));
		return 1;
	}
	fd = bpf_program__fd(skel->progs.other_pass);
	ret = bpf_xdp_attach(ifindex, fd, XDP_FLAGS_DRV_MODE | XDP_FLAGS_UPDATE_IF_NOEXIST, NULL);
	if (ret) {
		fprintf(stderr, "other-xdp: attach: %s\n", strerror(-ret));
		return 1;
	}
	wait_and_report(skel->obj);
	bpf_xdp_detach(ifindex, XDP_FLAGS_DRV_MODE, NULL);
	return 0;
}

static int run_libxdp(struct other_xdp *skel, int ifindex)
{
	DECLARE_LIBXDP_OPTS(xdp_program_opts, opts, .obj = skel->obj, .prog_name = "other_pass");
	struct xdp_program *prog;
	int ret;

	libxdp_set_print(silent);
	if (libbpf_probe_bpf_prog_type(BPF_PROG_TYPE_EXT, NULL) == 0) {
		printf("no extension programs in this kernel\n");
		return EXIT_SKIP;
	}
	prog = xdp_program__create(&opts);
	ret = libxdp_get_error(prog);
	if (!ret) {
		xdp_program__set_chain_call_enabled(prog, XDP_PASS, true);
		ret = xdp_program__attach(prog, ifindex, XDP_MODE_NATIVE, 0);
	}
	if (ret) {
		fprintf(stderr, "other-xdp: libxdp: %s\n", strerror(-ret));
		return 1;
	}
	wait_and_report(skel->obj);
	ret = xdp_program__detach(prog, ifindex, XDP_MODE_NATIVE, 0);
	if (ret)
		fprintf(stderr, "other-xdp: detach: %s\n", strerror(-ret));
	xdp_program__close(prog);
	return ret ? 1 : 0;
}

int main(int argc, char **argv)
{
	struct other_xdp *skel;
	int ifindex, ret;

	if (argc != 3 || (strcmp(argv[1], "libxdp") && strcmp(argv[1], "direct"))) {
		fprintf(stderr, "usage: other-xdp libxdp|direct IFNAME\n");
		return 2;
	}
	ifindex = if_nametoindex(argv[2]);
	skel = other_xdp__open();
	if (!ifindex || !skel) {
		fprintf(stderr, "other-xdp: %s: %s\n", argv[2], strerror(errno));
		return 1;
	}
	ret = !strcmp(argv[1], "direct") ? run_direct(skel, ifindex) : run_libxdp(skel, ifindex);
	other_xdp__destroy(skel);
	return ret;
}
