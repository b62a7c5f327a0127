/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The BPF objects of one switch: sizing, loading, communicators, ports, pins, counters.
 *
 * Life of a switch: inc_switch_open() loads and pins, inc_switch_attach_port() attaches the program
 * to an interface, inc_switch_add_comm() and inc_switch_start_comm() make a communicator,
 * inc_switch_close() removes everything. Ports and communicators may be added in any order.
 *
 * When a process dies, or after inc_switch_leave(), its programs go on without it. The next process
 * of the instance takes the programs over: inc_switch_open() on the old maps,
 * inc_switch_attach_port() for all ports, then inc_switch_adopt(). Each port changes from the old
 * program to the new one without losing a packet. If one of these calls fails, everything goes on
 * as it was left. Not thread-safe: one thread per struct inc_switch.
 *
 * All functions return 0 or the value in their comment. On failure they return -errno with the
 * reason in err.
 */
#ifndef INC_LOADER_H
#define INC_LOADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <linux/types.h>
#include <net/if.h>
#include "lib/base/err.h"
#include "lib/conf/comm_conf.h"
#include "lib/proto/maps.h"
#include "loader/inc_limits.h"

/* Options of a switch. sz is sizeof(struct inc_switch_opts). If one of the max_* members is 0, its
 * default in inc_limits.h applies. */
struct inc_switch_opts {
	size_t sz;
	/* name of the instance and of its pin directory; NULL is allowed only without pin */
	const char *instance;
	uint32_t max_comms;
	uint32_t max_connections;
	/* limit of contribution rows of all communicators together; each needs connections * slots
	 * of them */
	uint32_t max_rows;
	enum inc_attach attach;
	bool generic; /* attach in generic (skb) XDP mode instead of native mode */
	bool steer;   /* each communicator has a CPU, which handles its packets; native mode only */
	/* pin all maps and programs under INC_PIN_ROOT/<instance>. The caller holds the lock of the
	 * instance (INC_LOCK_PATH) */
	bool pin;
	bool skip_icrc;    /* do not check the ICRC of received packets */
	bool order_stores; /* for tests: use barriers as on a CPU that reorders stores */
	/* with pin: remove what a predecessor has left, instead of taking it over */
	bool fresh;
};

/* Whether this architecture's CPUs may reorder stores, or loads. It is the value of
 * inc_order_stores in the XDP programs, and for other programs that share the switch's maps. */
#if defined(__x86_64__) || defined(__i386__) || defined(__s390x__)
#define INC_ORDER_STORES false
#else
#define INC_ORDER_STORES true
#endif

struct inc_switch_port {
	char name[IF_NAMESIZE];
	/* the interface that has the program: the port's own, or that below a VLAN device */
	char device[IF_NAMESIZE];
	uint32_t ifindex; /* index of the device */
	/* index of the port's own interface, which has its addresses and neighbours */
	uint32_t own_ifindex;
	uint16_t vlan;  /* the VLAN of a port that is a VLAN device; 0: none */
	uint32_t index; /* number of the port in the map inc_port */
	uint32_t ip;    /* address in the map inc_port, in network order; 0: none */
	bool generic;
	/* how the port is attached: INC_ATTACH_LIBXDP or INC_ATTACH_BPF_LINK */
	enum inc_attach attach;
};

struct inc_switch;

/* Sends the messages of libbpf and libxdp to the debug log from now on, for the whole process. The
 * important ones are also part of the error texts of the loader's functions. */
void inc_switch_hush_libraries(void);
/* Whether this process may load XDP programs of a switch on this kernel: 0, -EPERM or
 * -EOPNOTSUPP. */
int inc_switch_possible(struct inc_err *err);
/*
 * Opens, sizes and loads the object of a switch. If opts.pin is set, this pins the maps and
 * programs, or takes over those that a daemon of the same instance left. -EPROTO: the predecessor's
 * maps have another layout or other sizes than requested.
 */
int inc_switch_open(const struct inc_switch_opts *opts, struct inc_switch **sw,
		    struct inc_err *err);
/* Detaches every port, removes the pins, and frees the switch. sw may be NULL. */
void inc_switch_close(struct inc_switch *sw);
/* Makes inc_switch_close() leave programs and pins for the next daemon of the instance. */
void inc_switch_leave(struct inc_switch *sw);
/*
 * Takes over the communicators that a predecessor left, after all ports are attached. Their peers
 * notice nothing. A communicator that was being made or removed is removed, and so is one with a
 * connection that has no port. Returns the number of communicators; 0 if there is no predecessor.
 */
int inc_switch_adopt(struct inc_switch *sw, struct inc_err *err);
/* Fills out with the configuration of a communicator. Fields that only hosts and the controller use
 * stay unknown. */
void inc_switch_describe(const struct inc_switch *sw, uint32_t comm, struct inc_comm_conf *out);
/* Whether a communicator is exactly what inc_switch_add_comm() would make of conf. */
bool inc_switch_comm_is(const struct inc_switch *sw, uint32_t comm,
			const struct inc_comm_conf *conf);
const struct inc_switch_opts *inc_switch_get_opts(const struct inc_switch *sw);

/* Attaches the XDP program to an interface, which becomes a port. The program of a VLAN device is
 * attached to the interface below, and frames of other VLANs pass it. Returns -EEXIST if one of
 * both is a port already, and -EBUSY if another program holds the interface. */
int inc_switch_attach_port(struct inc_switch *sw, const char *ifname, struct inc_err *err);
int inc_switch_detach_port(struct inc_switch *sw, const char *ifname, struct inc_err *err);
/* Returns attached port number i, counted from 0, or NULL if there are not so many ports. */
const struct inc_switch_port *inc_switch_port_at(const struct inc_switch *sw, size_t i);
const struct inc_switch_port *inc_switch_port_find(const struct inc_switch *sw, const char *ifname);
/* Returns the port whose program runs on this interface, or NULL. */
const struct inc_switch_port *inc_switch_port_on(const struct inc_switch *sw, uint32_t ifindex);

/* The present properties of the interface that a port has, as the kernel reports them. */
struct inc_port_seen {
	char name[IF_NAMESIZE];
	/* number of the interface; it differs from that in the port if the interface was created
	 * again */
	uint32_t ifindex;
	uint32_t xdp_id; /* id of the interface's XDP program; 0: it has none */
	uint32_t ip;     /* the interface's first IPv4 address, in network order; 0: none */
};

/*
 * Compares port n with the properties of its interface, and restores what is missing: the program
 * on the interface, and the interface's entries in maps. The port also follows the interface's
 * address, at which its program answers echo requests. The port's communicators go on. Returns 0:
 * nothing was missing; 1: something was restored; -EBUSY and so on: the repair failed, and err says
 * what the operator can do.
 */
int inc_switch_check_port(struct inc_switch *sw, size_t n, const struct inc_port_seen *seen,
			  struct inc_err *err);

/*
 * Adds a communicator: validates all of conf, then applies all of it or nothing. Children may be at
 * any interface, but a parent must be at a port. Children are sorted by ifindex, so their ordinal
 * in the switch is not their rank. Returns the communicator's index. No packet finds the
 * communicator until inc_switch_start_comm(), so that the caller can prepare for its events in
 * between.
 */
int inc_switch_add_comm(struct inc_switch *sw, const struct inc_comm_conf *conf,
			struct inc_err *err);
int inc_switch_start_comm(struct inc_switch *sw, uint32_t comm, struct inc_err *err);
/* Removes a communicator. Afterwards no XDP program uses its rows any more. On failure the
 * communicator is unchanged. */
int inc_switch_remove_comm(struct inc_switch *sw, uint32_t comm, struct inc_err *err);
/* Reads the MAC addresses of all ports. A connection whose own address is not configured sends from
 * its port's address from now on. If a map cannot be written, the next call tries again. */
void inc_switch_follow_macs(struct inc_switch *sw);
/* Does the same as inc_switch_follow_macs(), for one port. */
void inc_switch_follow_mac(struct inc_switch *sw, const struct inc_switch_port *port);
/* Returns the configuration of a communicator by its index, or NULL if there is none. */
const struct inc_comm_cfg *inc_switch_comm(const struct inc_switch *sw, uint32_t comm);
const struct inc_conn_cfg *inc_switch_conn(const struct inc_switch *sw, uint32_t conn);
/* Whether the ranks behind a child receive data of the collective. If not, they receive a packet of
 * length 0. */
bool inc_switch_child_gets(const struct inc_switch *sw, uint32_t comm, uint32_t child,
			   uint32_t desc);
/* The CPU that handles the communicator's packets, or -1 if there is none. */
int inc_switch_cpu_of(const struct inc_switch *sw, uint32_t comm);
/* Measures the load of CPUs, and moves at most one communicator from the most loaded CPU to the
 * least loaded one. A communicator of which packets are under way stays. The caller calls this once
 * a second. */
void inc_switch_balance(struct inc_switch *sw);
/* Returns the index of the communicator that has this number at the controller, or -ENOENT. */
int inc_switch_find_comm(const struct inc_switch *sw, uint32_t communicator);

/* How many entries of one resource a switch has, and how many of them its communicators use. */
struct inc_usage_of {
	uint32_t used;
	uint32_t max;
};

struct inc_usage {
	struct inc_usage_of communicators;
	struct inc_usage_of connections;
	struct inc_usage_of rows;  /* rows of contributions */
	struct inc_usage_of slots; /* slots, each of which has a result row */
	/* rows of inc_root_child, which have INC_ROOTS_PER_ROW ranks each */
	struct inc_usage_of root_rows;
};

void inc_switch_usage(const struct inc_switch *sw, struct inc_usage *out);

/* These return the file descriptor of a map (INC_MAP_*) or of a program (inc_switch, inc_egress) by
 * its name, or -ENOENT. The switch owns the descriptor. inc_switch is the plain XDP program
 * (BPF_PROG_TEST_RUN). */
int inc_switch_map_fd(const struct inc_switch *sw, const char *name);
int inc_switch_prog_fd(const struct inc_switch *sw, const char *name);
/* Does what bpf_map_update_elem() does, for a map that is given by its name. */
int inc_switch_map_set(const struct inc_switch *sw, const char *name, const void *key,
		       const void *value, uint64_t flags, struct inc_err *err);

struct inc_counters {
	uint64_t value[INC_CTR_MAX]; /* value of each counter, summed over the CPUs */
	uint64_t received, passed, dropped, absorbed, answered, multicast;
	/* the counts agree: received is the sum of passed, dropped, absorbed, answered and
	 * multicast */
	bool balanced;
};

struct inc_counter_info {
	const char *name;
	char class; /* class of the counter: R, P, D, A, W, M or X */
	const char *text;
};

extern const struct inc_counter_info inc_counter_info[INC_CTR_MAX];
/* Reads all counters. While traffic runs, received may exceed the outcomes by the packets in
 * progress, one per CPU at most, and still counts as balanced. Without traffic the sums must be
 * equal. */
int inc_switch_read_counters(const struct inc_switch *sw, struct inc_counters *out,
			     struct inc_err *err);

const char *inc_attach_name(enum inc_attach attach);
/* Whether this process can attach and detach ports through libxdp: 0, or -EOPNOTSUPP (because of
 * the kernel) or -EPERM (no CAP_SYS_ADMIN), with the reason. */
int inc_attach_can_share(struct inc_err *why);

#endif
