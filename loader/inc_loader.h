/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The BPF objects of one switch: sizing, loading, communicators, ports, pins, counters.
 *
 * Life of a switch: inc_switch_open() loads and pins, inc_switch_attach_port() puts
 * the program on an interface, inc_switch_add_comm() makes a communicator work,
 * inc_switch_close() takes everything away. Ports and communicators may come in any order.
 *
 * What a process leaves when it dies, or after inc_switch_leave(), works on without it. The next
 * one of the instance takes it over: inc_switch_open() on its maps, inc_switch_attach_port() for
 * all its ports, each of which goes from the old program to the new one without a packet between
 * them, then inc_switch_adopt(). Where one of these fails all goes on as it was left.
 * Not thread-safe: one thread per struct inc_switch.
 *
 * All functions return 0 (or what they say) or -errno and tell the story in err.
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

/* sz is sizeof(struct inc_switch_opts); for a max_* of 0 inc_limits.h has a default. */
struct inc_switch_opts {
	size_t sz;
	const char *instance; /* names the pin directory; required with pin */
	uint32_t max_comms;
	uint32_t max_connections;
	uint32_t max_rows; /* contribution rows: connections * slots, summed over communicators */
	enum inc_attach attach;
	bool generic;      /* generic (skb) XDP instead of native */
	bool pin;          /* pin everything under INC_PIN_ROOT/<instance>, whose lock the caller
			    * holds (INC_LOCK_PATH) */
	bool skip_icrc;    /* do not check the ICRC of what comes in */
	bool order_stores; /* as on a CPU that reorders stores, also where it does not (tests) */
	bool fresh;        /* with pin: what a predecessor left is removed, not taken over */
};

/* Programs that share the switch's maps set their inc_order_stores to this. */
#if defined(__x86_64__) || defined(__i386__) || defined(__s390x__)
#define INC_ORDER_STORES false
#else
#define INC_ORDER_STORES true
#endif

struct inc_switch_port {
	char name[IF_NAMESIZE];
	uint32_t ifindex;
	uint32_t index; /* in inc_port */
	bool generic;
	enum inc_attach attach; /* how: INC_ATTACH_LIBXDP or INC_ATTACH_BPF_LINK */
};

struct inc_switch;

/* From here on what libbpf and libxdp have to say goes to the debug log, for the whole process: the
 * errors of these functions carry what matters of it. */
void inc_switch_hush_libraries(void);
/* Whether this process may load such programs on this kernel: 0, -EPERM or -EOPNOTSUPP. */
int inc_switch_possible(struct inc_err *err);
/*
 * Opens, sizes, loads and (with pin) pins, or takes over what a daemon of the same instance left.
 * -EPROTO where that has another layout of maps or other sizes than asked for.
 */
int inc_switch_open(const struct inc_switch_opts *opts, struct inc_switch **sw,
		    struct inc_err *err);
/* Detaches every port, unpins, frees. NULL is fine. */
void inc_switch_close(struct inc_switch *sw);
/* From now on inc_switch_close() leaves programs and pins for the instance's next daemon. */
void inc_switch_leave(struct inc_switch *sw);
/*
 * Takes over the communicators that are left, once all ports are attached: who sends to them
 * notices nothing. Those that were being made or removed, and those with a connection at no port,
 * are removed. Returns how many there are; 0 where nothing was left.
 */
int inc_switch_adopt(struct inc_switch *sw, struct inc_err *err);
/* What a communicator was made from; what only hosts and the controller care about is not known. */
void inc_switch_describe(const struct inc_switch *sw, uint32_t comm, struct inc_comm_conf *out);
/* Would inc_switch_add_comm() of conf make just what this communicator is? */
bool inc_switch_comm_is(const struct inc_switch *sw, uint32_t comm,
			const struct inc_comm_conf *conf);
const struct inc_switch_opts *inc_switch_get_opts(const struct inc_switch *sw);

/* -EEXIST where the port is attached already, -EBUSY where another program holds it. */
int inc_switch_attach_port(struct inc_switch *sw, const char *ifname, struct inc_err *err);
int inc_switch_detach_port(struct inc_switch *sw, const char *ifname, struct inc_err *err);
/* Attached ports, 0..n-1; NULL behind the last. */
const struct inc_switch_port *inc_switch_port_at(const struct inc_switch *sw, size_t i);
const struct inc_switch_port *inc_switch_port_find(const struct inc_switch *sw, const char *ifname);

/* What the kernel says of the interface that is a port now. */
struct inc_port_seen {
	char name[IF_NAMESIZE];
	uint32_t ifindex; /* another one than before where the interface was made again */
	uint32_t xdp_id;  /* its XDP program; 0: none */
};

/*
 * Compares port n with what the kernel says, and makes again what has gone: the program on the
 * interface, and the interface's entries in maps. Its communicators go on. 0: nothing was missing;
 * 1: something was, and is there again; -EBUSY and so on where that cannot be done, and err says
 * what the operator can do.
 */
int inc_switch_check_port(struct inc_switch *sw, size_t n, const struct inc_port_seen *seen,
			  struct inc_err *err);

/*
 * Validates all of conf, then applies all of it or nothing. Its children are at interfaces of any
 * kind, the parent, if one connection is up, at a port; children are sorted by ifindex (their
 * ordinal in the switch is not their rank). Returns the communicator's index. No packet finds the
 * communicator until inc_switch_start_comm(): the caller makes itself ready for its events in
 * between.
 */
int inc_switch_add_comm(struct inc_switch *sw, const struct inc_comm_conf *conf,
			struct inc_err *err);
int inc_switch_start_comm(struct inc_switch *sw, uint32_t comm, struct inc_err *err);
/* When it returns no program works on the communicator's rows any more. Where it fails the
 * communicator is as it was. */
int inc_switch_remove_comm(struct inc_switch *sw, uint32_t comm, struct inc_err *err);
/* A port's MAC address may have changed: from now on the connections there send from the new one,
 * unless theirs is configured. Where the map cannot be written the next call tries again. */
void inc_switch_follow_macs(struct inc_switch *sw);
/* The same for one port. */
void inc_switch_follow_mac(struct inc_switch *sw, const struct inc_switch_port *port);
/* NULL where there is no such communicator. */
const struct inc_comm_cfg *inc_switch_comm(const struct inc_switch *sw, uint32_t comm);
const struct inc_conn_cfg *inc_switch_conn(const struct inc_switch *sw, uint32_t conn);
/* Do the ranks behind this child get data of the collective, or a packet of length 0? */
bool inc_switch_child_gets(const struct inc_switch *sw, uint32_t comm, uint32_t child,
			   uint32_t desc);
/* Index of the communicator with this number, or -ENOENT. */
int inc_switch_find_comm(const struct inc_switch *sw, uint32_t communicator);

/* What a switch has of something, and how much of it communicators hold. */
struct inc_usage_of {
	uint32_t used;
	uint32_t max;
};

struct inc_usage {
	struct inc_usage_of communicators;
	struct inc_usage_of connections;
	struct inc_usage_of rows;      /* of contributions */
	struct inc_usage_of slots;     /* and as many result rows */
	struct inc_usage_of root_rows; /* of ranks that can be a root, INC_ROOTS_PER_ROW each */
};

void inc_switch_usage(const struct inc_switch *sw, struct inc_usage *out);

/* File descriptors by name (INC_MAP_*; programs inc_switch, inc_egress) or -ENOENT.
 * They stay the switch's. inc_switch is the plain XDP program (BPF_PROG_TEST_RUN). */
int inc_switch_map_fd(const struct inc_switch *sw, const char *name);
int inc_switch_prog_fd(const struct inc_switch *sw, const char *name);
/* bpf_map_update_elem() of a map by its name. */
int inc_switch_map_set(const struct inc_switch *sw, const char *name, const void *key,
		       const void *value, uint64_t flags, struct inc_err *err);

struct inc_counters {
	uint64_t value[INC_CTR_MAX]; /* summed over the CPUs */
	uint64_t received, passed, dropped, absorbed, answered, multicast;
	bool balanced; /* received is the sum of the five that follow it */
};

struct inc_counter_info {
	const char *name;
	char class; /* R, P, D, A, W, M or X */
	const char *text;
};

extern const struct inc_counter_info inc_counter_info[INC_CTR_MAX];
/* While traffic runs the books are open by the packets under way, one per CPU at most:
 * that still counts as balanced. At rest the sums must be equal. */
int inc_switch_read_counters(const struct inc_switch *sw, struct inc_counters *out,
			     struct inc_err *err);

const char *inc_attach_name(enum inc_attach attach);
/* Whether this process can attach ports through libxdp, and detach them: 0, or -EOPNOTSUPP (the
 * kernel) or -EPERM (no CAP_SYS_ADMIN) and why. */
int inc_attach_can_share(struct inc_err *why);

#endif
