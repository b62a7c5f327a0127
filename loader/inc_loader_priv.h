/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the loader share. */
#ifndef INC_LOADER_PRIV_H
#define INC_LOADER_PRIV_H

#include <stdbool.h>
#include <stdint.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <xdp/libxdp.h>
#include "lib/base/err.h"
#include "lib/proto/maps.h"
#include "loader/inc_loader.h"

#define INC_PROG_SWITCH "inc_switch"
#define INC_PROG_EGRESS "inc_egress"

struct inc_xdp;

struct inc_port_slot {
	struct inc_switch_port port;
	struct inc_switch_port *used; /* &port, or NULL: free */
	int link_fd;                  /* of a bpf_link, else -1 */
	uint32_t prog_id;             /* of the XDP program that the interface has then; 0: none */
	uint32_t left_ifindex;        /* that its connections still have, if another one; else 0 */
	bool stale;                   /* its communicators' entries in the maps are written again */
};

struct inc_switch {
	struct inc_switch_opts opts; /* defaults filled in; opts.instance is instance */
	char instance[INC_INSTANCE_LEN];
	uint32_t sum_rows;
	struct inc_xdp *skel;
	struct bpf_object *ext_obj; /* the copy that libxdp loads; shares every map */
	struct xdp_program *ext;
	bool pinned;  /* the pin directory is ours */
	bool adopted; /* the maps are those of a daemon that is gone, and its programs ran on */
	bool leaving; /* what is pinned and attached stays, whatever becomes of this process */
	struct inc_port_slot slot[INC_MAX_PORTS];
	struct inc_comm_cfg *comm; /* [max_comms], what inc_comm_cfg holds */
	struct inc_conn_cfg *conn; /* [max_connections], what inc_conn_cfg holds */
	struct inc_root_row *root; /* [inc_switch_root_rows()], what inc_root_child holds */
	struct inc_conn_state *conn_state;
	struct inc_comm_state *comm_state;
	struct inc_slot *slots;
	struct inc_buf *kept;
	struct inc_buf *sums;
};

/* inc_pin.c */
int inc_bpffs_mount(struct inc_err *err);
/*
 * Takes what the instance's predecessor left for its own (sw->adopted), or removes it: where it had
 * not come to its end of starting, or opts.fresh asks for that. -EPROTO where its maps are of
 * another layout, and what it left runs on.
 */
int inc_instance_claim(struct inc_switch *sw, struct inc_err *err);
/* Of what is adopted: the predecessor's map takes the place of the object's. */
int inc_reuse_maps(struct inc_switch *sw, struct inc_err *err);
void inc_instance_release(struct inc_switch *sw);
int inc_pin_all(struct inc_switch *sw, struct inc_err *err);
int inc_pin_fd(struct inc_switch *sw, int fd, const char *name, struct inc_err *err);
void inc_unpin(struct inc_switch *sw, const char *name);
/* The descriptor of what is pinned by this name, or -errno. */
int inc_pinned_fd(const struct inc_switch *sw, const char *name);

/* inc_range.c: what a communicator holds one run of each. */
enum inc_range { INC_RANGE_CONN, INC_RANGE_KEPT, INC_RANGE_SUM, INC_RANGE_ROOT };
/* Finds n free ones in a row. 0, or -ENOSPC. */
int inc_range_allocate(const struct inc_switch *sw, enum inc_range what, uint32_t n, uint32_t *out);
/* -ENOSPC, and why the communicator cannot have n in a row: how many are free, also where they lie
 * apart, and which communicator holds most. */
int inc_range_refuse(const struct inc_switch *sw, uint32_t communicator, enum inc_range what,
		     uint32_t n, struct inc_err *err);

/* inc_taken.c: -EBUSY, with who has the port by this program, and the command that frees it. */
int inc_taken_error(uint32_t ifindex, const char *ifname, const char *prog, uint32_t prog_id,
		    bool generic, struct inc_err *err);

/* inc_purge.c: a program is this switch's, or a predecessor's, where it works on its map of ports.
 */
uint32_t inc_map_id(int fd);
bool inc_uses_map(int prog_fd, uint32_t map_id);
/* Takes all programs that work on the map out of libxdp's dispatcher on ifindex, not the one with
 * the id spare (0: none). One that died while it took over has left two. False where there was
 * none. */
bool inc_purge_interface(uint32_t ifindex, uint32_t map_id, uint32_t spare);
/* Takes away a dispatcher, whose program is xdp_id, that runs nothing but programs which work on
 * the map. libxdp finds none that its interface has brought under another number, because it looks
 * for pins by number. Returns the former number; 0: there is no such dispatcher. */
uint32_t inc_purge_moved(uint32_t ifindex, uint32_t xdp_id, bool generic, uint32_t map_id);
/* Out of all dispatchers, also of those whose interface has gone; not of ports of spare, if that is
 * not NULL. */
void inc_dispatchers_purge(uint32_t map_id, const struct inc_switch *spare);

/* inc_attach.c */
void inc_attach_close(struct inc_switch *sw);
/* Puts the program on the interface of a slot, whose port is filled in, and enters it in the maps.
 */
int inc_attach_slot(struct inc_switch *sw, struct inc_port_slot *slot, struct inc_err *err);
/* Whether the interface, whose XDP program is xdp_id, still has the switch's program. */
bool inc_carries(const struct inc_switch *sw, struct inc_port_slot *slot, uint32_t xdp_id);
/* Gives up the port's bpf_link and its pin, where it has one. */
void inc_drop_link(struct inc_switch *sw, struct inc_port_slot *slot);
/* What the programs must know of a port before it has them; and takes it away. */
int inc_enter_port(struct inc_switch *sw, const struct inc_switch_port *port, struct inc_err *err);
void inc_forget_port(struct inc_switch *sw, uint32_t ifindex);
/* Attached ports, by ifindex. */
bool inc_is_port(const struct inc_switch *sw, uint32_t ifindex);
/* What is left on interfaces that are no ports any more. */
void inc_forget_ports(struct inc_switch *sw);

/* inc_port.c: communicators of a predecessor's go to the interfaces that its ports are now. */
int inc_adopt_moved_ports(struct inc_switch *sw, struct inc_err *err);

/* inc_loader.c: the last lines that libbpf and libxdp said, for an error's story. */
void inc_capture_begin(void);
const char *inc_capture_end(void);

#endif
