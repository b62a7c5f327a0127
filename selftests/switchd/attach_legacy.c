/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * attach-legacy PORT PORT: attaches the XDP program to the first port through libxdp's dispatcher.
 * Then makes libxdp use no dispatcher, as libxdp does itself if a dispatcher cannot be loaded, and
 * attaches the program to the second port. Prints how each program is attached, detaches the first
 * one, and reports whether its port has no program any more. Exit code 77: no dispatcher works
 * here.
 */
#include <stdio.h>
#include <stdlib.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <bpf/libbpf.h>
#include "loader/inc_loader.h"

static uint32_t prog_on(const char *ifname)
{
	uint32_t id = 0;

	bpf_xdp_query_id(if_nametoindex(ifname), 0, &id);
	return id;
}

static int run(struct inc_switch *sw, char **port, struct inc_err *err)
{
	int ret;

	ret = inc_switch_attach_port(sw, port[0], err);
	if (ret)
		return ret;
	if (inc_switch_port_find(sw, port[0])->attach != INC_ATTACH_LIBXDP)
		return 77;
	setenv("LIBXDP_SKIP_DISPATCHER", "1", 1);
	ret = inc_switch_attach_port(sw, port[1], err);
	unsetenv("LIBXDP_SKIP_DISPATCHER");
	if (ret)
		return ret;
	printf("attached %s %s\n", inc_attach_name(inc_switch_port_find(sw, port[0])->attach),
	       inc_attach_name(inc_switch_port_find(sw, port[1])->attach));
	fflush(stdout);
	ret = inc_switch_detach_port(sw, port[0], err);
	if (!ret)
		printf("detached %s %s\n", prog_on(port[0]) ? "taken" : "bare",
		       prog_on(port[1]) ? "taken" : "bare");
	return ret;
}

int main(int argc, char **argv)
{
	const struct inc_switch_opts opts = {.sz = sizeof(opts)};
	struct inc_err err = {};
	struct inc_switch *sw;
	int ret;

	if (argc != 3)
		return 2;
	ret = inc_switch_open(&opts, &sw, &err);
	if (!ret) {
		ret = run(sw, argv + 1, &err);
		inc_switch_close(sw);
	}
	if (ret < 0)
		fprintf(stderr, "%s\n", err.msg);
	return ret < 0 ? 1 : ret;
}
