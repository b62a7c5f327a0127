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

#define INC_PROG_SWITCH  "inc_switch"
#define INC_PROG_EGRESS  "inc_egress"
#define INC_PROG_STEERED "inc_steered"

struct inc_xdp;

struct inc_port_slot {
	struct inc_switch_port port;
	/* the attached port, which is &port; NULL: the slot is free */
	struct inc_switch_port *used;
	int link_fd; /* descriptor of the bpf_link that holds the port; -1: none */
	/* id of the XDP program that the interface has while the switch's program is attached to
	 * it; 0: none */
	uint32_t prog_id;
	/* ifindex that the port had before, which its connections still have in the maps; 0:
	 * none */
	uint32_t left_ifindex;
	/* the maps still have old entries for the port's communicators, which must be written
	 * again */
	bool stale;
};

/* How many packets a communicator's route has counted, and how many a second. */
struct inc_steer_rate {
	uint64_t count;
	uint64_t rate;
};

/* The state of a queue to a CPU when the daemon looked last, which is a second ago. A CPU that was
 * offline then has no queue. */
struct inc_steer_queue {
	uint64_t put;
	uint64_t taken;
	bool offline;
};

/* The steering of communicators to CPUs (inc_steer.c). */
struct inc_steering {
	uint32_t n; /* number of CPUs; 0: communicators have no CPUs */
	uint32_t *cpu;
	struct inc_steer_queue *queue; /* [n] */
	struct inc_steer_rate *rate;   /* [max_comms] */
	uint64_t moves;                /* number of communicators that were moved */
};

struct inc_switch {
	/* options, completed with defaults; opts.instance points to the member instance */
	struct inc_switch_opts opts;
	char instance[INC_INSTANCE_LEN];
	uint32_t sum_rows;
	struct inc_xdp *skel;
	/* copy of the BPF object for libxdp, which shares every map */
	struct bpf_object *ext_obj;
	struct xdp_program *ext;
	bool pinned;  /* the pin directory belongs to this process */
	bool adopted; /* the maps are those of a predecessor, whose programs still run */
	/* pins and attached programs stay for the next daemon when this process ends */
	bool leaving;
	struct inc_port_slot slot[INC_MAX_PORTS];
	struct inc_comm_cfg *comm; /* copy of the map inc_comm_cfg: [max_comms] */
	struct inc_conn_cfg *conn; /* copy of the map inc_conn_cfg: [max_connections] */
	/* copy of the map inc_root_child: [inc_switch_root_rows()] */
	struct inc_root_row *root;
	struct inc_conn_state *conn_state;
	struct inc_comm_state *comm_state;
	struct inc_slot *slots;
	struct inc_buf *kept;
	struct inc_buf *sums;
	struct inc_route *routes;
	struct inc_queue *queues;
	struct inc_steering steering;
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
/* Makes the new object use the maps of the predecessor in place of its own, if there is a
 * predecessor. */
int inc_reuse_maps(struct inc_switch *sw, struct inc_err *err);
void inc_instance_release(struct inc_switch *sw);
int inc_pin_all(struct inc_switch *sw, struct inc_err *err);
int inc_pin_fd(struct inc_switch *sw, int fd, const char *name, struct inc_err *err);
void inc_unpin(struct inc_switch *sw, const char *name);
/* Returns a descriptor of the map, program or link that the instance has pinned by this name, or
 * -errno. */
int inc_pinned_fd(const struct inc_switch *sw, const char *name);

/* inc_range.c: the resources of which a communicator has one contiguous range of entries. */
enum inc_range { INC_RANGE_CONN, INC_RANGE_KEPT, INC_RANGE_SUM, INC_RANGE_ROOT };
/* Finds n free entries of a resource that follow each other. *out becomes the first one. Returns 0,
 * or -ENOSPC. */
int inc_range_allocate(const struct inc_switch *sw, enum inc_range what, uint32_t n, uint32_t *out);
/* Returns -ENOSPC and fills err with the reason why no n free entries follow each other: how many
 * are free in total, how many at most in a row, and which communicator uses most. */
int inc_range_refuse(const struct inc_switch *sw, uint32_t communicator, enum inc_range what,
		     uint32_t n, struct inc_err *err);

/* inc_taken.c: rejects a port that is in use. Returns -EBUSY, and err names the owner of the
 * program on the port and the command that frees the port. */
int inc_taken_error(uint32_t ifindex, const char *ifname, const char *prog, uint32_t prog_id,
		    bool generic, struct inc_err *err);

/* inc_purge.c: removes programs of a switch. A program belongs to this switch or a predecessor if
 * it uses the switch's map of ports. */
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
/* Attaches the XDP program to the interface of slot->port, and enters the port in the maps. */
int inc_attach_slot(struct inc_switch *sw, struct inc_port_slot *slot, struct inc_err *err);
/* Whether the port's interface still runs the switch's program, alone or in a dispatcher. xdp_id:
 * id of the interface's XDP program. */
bool inc_carries(const struct inc_switch *sw, struct inc_port_slot *slot, uint32_t xdp_id);
/* Removes the bpf_link that holds the port, and its pin, if there is one. */
void inc_drop_link(struct inc_switch *sw, struct inc_port_slot *slot);
/* inc_enter_port() enters a port in those maps that the programs need before the port is attached.
 * inc_forget_port() removes it from them. */
int inc_enter_port(struct inc_switch *sw, const struct inc_switch_port *port, struct inc_err *err);
void inc_forget_port(struct inc_switch *sw, uint32_t ifindex);
/* Whether ifindex is the number of an attached port. */
bool inc_is_port(const struct inc_switch *sw, uint32_t ifindex);
/* Removes what a predecessor has left on interfaces that are not ports of this switch any more. */
void inc_forget_ports(struct inc_switch *sw);

/* inc_steer.c. Makes the queues to CPUs, if opts.steer is set. */
int inc_steer_open(struct inc_switch *sw, struct inc_err *err);
void inc_steer_close(struct inc_switch *sw);
/* Gives a new communicator the least loaded CPU. No packet can reach it yet. */
void inc_steer_place(struct inc_switch *sw, uint32_t comm);
/* Waits until the packets of a communicator that no packet can reach any more have left its CPU's
 * queue. */
void inc_steer_forget(struct inc_switch *sw, uint32_t comm);
/* Gives a CPU to each of a predecessor's communicators that has none, or removes the CPUs of all
 * if this switch does not steer. */
void inc_steer_adopt(struct inc_switch *sw);

/* inc_port.c: finds the interface that gets the program of a port, which is the port's own, or that
 * below a VLAN device. Fills in port. Returns -EEXIST if one of both belongs to a port already. */
int inc_find_device(const struct inc_switch *sw, const char *ifname, struct inc_switch_port *port,
		    struct inc_err *err);
/* Moves a predecessor's communicators to the present interfaces of their ports. */
int inc_adopt_moved_ports(struct inc_switch *sw, struct inc_err *err);

/* inc_loader.c: these two collect the last messages of libbpf and libxdp for the text of an
 * error. */
void inc_capture_begin(void);
const char *inc_capture_end(void);

#endif
