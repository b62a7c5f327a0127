/* SPDX-License-Identifier: BSD-2-Clause */
/* Declarations that the files of the loader share. */
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
	struct inc_switch_port *used; /* the attached port, &port; NULL: the slot is free */
	int link_fd;                  /* descriptor of the port's bpf_link, else -1 */
	/* id of the XDP program that the interface has while ours is attached; 0: none */
	uint32_t prog_id;
	/* former ifindex, which the port's connections still have; 0: there is none */
	uint32_t left_ifindex;
	/* the entries in maps of the port's communicators must be written again */
	bool stale;
};

struct inc_switch {
	/* options with defaults filled in; opts.instance is the member instance */
	struct inc_switch_opts opts;
	char instance[INC_INSTANCE_LEN];
	uint32_t sum_rows;
	struct inc_xdp *skel;
	/* copy of the object that libxdp loads; the copy shares every map */
	struct bpf_object *ext_obj;
	struct xdp_program *ext;
	bool pinned;  /* the pin directory belongs to this process */
	bool adopted; /* the maps are those of a predecessor, whose programs still run */
	bool leaving; /* pins and attached programs stay when this process ends */
	struct inc_port_slot slot[INC_MAX_PORTS];
	struct inc_comm_cfg *comm; /* [max_comms]: copy of the content of inc_comm_cfg */
	struct inc_conn_cfg *conn; /* [max_connections]: copy of the content of inc_conn_cfg */
	/* [inc_switch_root_rows()]: copy of the content of inc_root_child */
	struct inc_root_row *root;
	struct inc_conn_state *conn_state;
	struct inc_comm_state *comm_state;
	struct inc_slot *slots;
	struct inc_buf *kept;
	struct inc_buf *sums;
};

/* inc_pin.c */
int inc_bpffs_mount(struct inc_err *err);
/*
 * Takes over what the instance's predecessor left, and sets sw->adopted. If the predecessor had not
 * finished its start or its end, or opts.fresh is set, this removes what it left. Returns -EPROTO
 * if the predecessor's maps have another layout, or its programs run in the other XDP mode. They go
 * on then.
 */
int inc_instance_claim(struct inc_switch *sw, struct inc_err *err);
/* If there is a predecessor, replaces the object's maps by the predecessor's. */
int inc_reuse_maps(struct inc_switch *sw, struct inc_err *err);
void inc_instance_release(struct inc_switch *sw);
int inc_pin_all(struct inc_switch *sw, struct inc_err *err);
int inc_pin_fd(struct inc_switch *sw, int fd, const char *name, struct inc_err *err);
void inc_unpin(struct inc_switch *sw, const char *name);
/* Returns a descriptor of the object that is pinned by this name, or -errno. */
int inc_pinned_fd(const struct inc_switch *sw, const char *name);

/* inc_range.c: the resources of which a communicator has one contiguous run of entries. */
enum inc_range { INC_RANGE_CONN, INC_RANGE_KEPT, INC_RANGE_SUM, INC_RANGE_ROOT };
/* Finds n free entries in a row of a resource. Returns 0, or -ENOSPC. */
int inc_range_allocate(const struct inc_switch *sw, enum inc_range what, uint32_t n, uint32_t *out);
/* Returns -ENOSPC and fills err with the reason why there are no n entries in a row: how many
 * are free in total, how many in a row, and which communicator uses most. */
int inc_range_refuse(const struct inc_switch *sw, uint32_t communicator, enum inc_range what,
		     uint32_t n, struct inc_err *err);

/* inc_taken.c: rejects a port that is in use. Returns -EBUSY, and err names the owner of the
 * program on the port and the command that frees the port. */
int inc_taken_error(uint32_t ifindex, const char *ifname, const char *prog, uint32_t prog_id,
		    bool generic, struct inc_err *err);

/* inc_purge.c. A program belongs to this switch or a predecessor if it uses the switch's map of
 * ports. */
uint32_t inc_map_id(int fd);
bool inc_uses_map(int prog_fd, uint32_t map_id);
/* Removes all programs that use the map from libxdp's dispatcher on ifindex, except the program
 * with the id spare (0: none). A predecessor that died while it took over has left two programs.
 * Returns false if there was none. */
bool inc_purge_interface(uint32_t ifindex, uint32_t map_id, uint32_t spare);
/* Removes a dispatcher that has program xdp_id, if all programs that it runs use the map. It is for
 * an interface that has another number now, because libxdp looks for pins by number and does not
 * find that dispatcher. Returns the interface's former number; 0: there is no such dispatcher. */
uint32_t inc_purge_moved(uint32_t ifindex, uint32_t xdp_id, bool generic, uint32_t map_id);
/* Removes programs that use the map from all dispatchers, even if a dispatcher's interface is gone.
 * If spare is not NULL, the ports of that switch keep their programs. */
void inc_dispatchers_purge(uint32_t map_id, const struct inc_switch *spare);

/* inc_attach.c */
void inc_attach_close(struct inc_switch *sw);
/* Attaches the program to the interface of a slot whose port is filled in, and enters the port in
 * the maps. */
int inc_attach_slot(struct inc_switch *sw, struct inc_port_slot *slot, struct inc_err *err);
/* Whether the interface, whose XDP program is xdp_id, still has the switch's program. */
bool inc_carries(const struct inc_switch *sw, struct inc_port_slot *slot, uint32_t xdp_id);
/* Removes the port's bpf_link and its pin, if it has one. */
void inc_drop_link(struct inc_switch *sw, struct inc_port_slot *slot);
/* These two enter a port in the maps that the programs need before the port is attached, and remove
 * it from them. */
int inc_enter_port(struct inc_switch *sw, const struct inc_switch_port *port, struct inc_err *err);
void inc_forget_port(struct inc_switch *sw, uint32_t ifindex);
/* Whether ifindex is the number of an attached port. */
bool inc_is_port(const struct inc_switch *sw, uint32_t ifindex);
/* Removes what a predecessor has left on interfaces that are not ports of this switch any more. */
void inc_forget_ports(struct inc_switch *sw);

/* inc_port.c: moves a predecessor's communicators to the present interfaces of their ports. */
int inc_adopt_moved_ports(struct inc_switch *sw, struct inc_err *err);

/* inc_loader.c: these collect the last messages of libbpf and libxdp for an error. */
void inc_capture_begin(void);
const char *inc_capture_end(void);

#endif
