/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Examines a machine: its kernel, limits and clocks, network interfaces, the owners of UDP and TCP
 * ports, and the way to neighbours. Each examination appends its findings to a list. incctl runs
 * them for `incctl check`, on its only thread.
 */
#ifndef INC_INSPECT_H
#define INC_INSPECT_H

#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "lib/base/err.h"
#include "lib/net/tls_key.h"
#include "lib/rdma/info.h"

enum inc_finding_level {
	INC_FINDING_OK,
	INC_FINDING_SKIPPED, /* not examined; the text has the reason */
	INC_FINDING_WARNING, /* works, but slower, later or with less information than it could */
	INC_FINDING_PROBLEM, /* something does not work */
	INC_FINDING_LEVELS,
};
extern const char *const inc_finding_levels[INC_FINDING_LEVELS];

struct inc_finding {
	enum inc_finding_level level;
	char where[80];   /* the object, such as "port swp1" */
	const char *item; /* the property of it, such as "mtu" */
	char text[256];
	const char *effect; /* a sentence; NULL for a finding without one */
	char fix[256];      /* a command, or an instruction to a person; "" if there is none */
};

struct inc_findings {
	struct inc_finding *list;
	size_t n, room;
	size_t printed; /* number of findings that inc_findings_print() has printed */
	bool lost;      /* memory was short, so the list lacks findings */
};

/* Appends a finding. The result is valid until the next call, and never NULL. */
struct inc_finding *inc_find(struct inc_findings *f, enum inc_finding_level level,
			     const char *where, const char *item, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));
/* Adds the effect of a finding, a static text, and the command that removes its cause. */
void inc_find_fix(struct inc_finding *finding, const char *effect, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
size_t inc_findings_count(const struct inc_findings *f, enum inc_finding_level level);
/* Prints the findings that have come since the last call on stdout, a line for each. */
void inc_findings_print(struct inc_findings *f);
/* Prints a line with the number of findings of each level. */
void inc_findings_print_total(const struct inc_findings *f);
/* Prints all findings as one JSON object. */
void inc_findings_print_json(const struct inc_findings *f);
void inc_findings_free(struct inc_findings *f);

/* kernel.c: what the machine of a switch needs, and what every machine needs. has_rdma: RDMA
 * devices are used here, which lock memory. */
void inc_inspect_kernel(struct inc_findings *f);
void inc_inspect_bpf(struct inc_findings *f);
void inc_inspect_limits(struct inc_findings *f, bool is_switch, bool has_rdma);
void inc_inspect_clocks(struct inc_findings *f);
/* Whether the BPF file system that this process uses belongs to its mount namespace alone, as in a
 * process that `ip netns exec` has started. Its pins end with the processes of that namespace.
 * Other such namespaces are found only with the right to look at process 1. */
bool inc_bpffs_is_private(void);

struct bpf_insn;
/* kernel.c: loads an XDP program of n instructions. Returns its descriptor or -errno. */
int inc_load_instructions(const struct bpf_insn *program, uint32_t n);

/* key.c: examines a file of keys. Writes the identity of the first key, or leaves it as it is if
 * the file is not valid. */
void inc_inspect_key(struct inc_findings *f, const char *path,
		     char identity[INC_TLS_IDENTITY_MAX + 1]);

/* listener.c: the socket that has a UDP port, or that listens at a TCP port. */
struct inc_listener {
	bool found;
	unsigned int pid; /* a process that has the socket; 0: no process that can be seen here */
	char program[32]; /* name of that process */
};
void inc_listener_find(bool udp, uint16_t port, struct inc_listener *out);
/* Examines the ports that RoCEv2 and a controller use. */
void inc_inspect_listeners(struct inc_findings *f);

/* adapter.c: an interface as its driver describes it. */
struct inc_adapter {
	char name[IF_NAMESIZE];
	/* the interface that has the driver, if it is another one: that below a VLAN device */
	char device[IF_NAMESIZE];
	char driver[32];
	bool up, carrier;
	unsigned int mtu, speed_mbit; /* 0: not known */
	bool has_program;             /* an XDP program is attached */
	bool has_features;            /* the kernel reports what XDP can do here */
	uint64_t xdp_features;        /* INC_XDP_* */
	unsigned int queues;
	bool has_spread; /* the driver reports how it spreads UDP packets over the queues */
	bool spreads_by_ports;
	bool gro, lro, hw_gro;
	bool strips_vlan;       /* the NIC removes VLAN tags before XDP sees a packet */
	char vlan[IF_NAMESIZE]; /* a VLAN device on the interface; "": there is none */
};

/* The abilities of a driver's XDP. The bits are the kernel's (enum netdev_xdp_act), whose header
 * older systems lack. */
#define INC_XDP_BASIC    0x1u
#define INC_XDP_REDIRECT 0x2u
#define INC_XDP_XMIT     0x4u /* it sends packets that XDP programs redirect to the interface */

/* Whether the abilities show by which an interface sends redirected packets. Most drivers have
 * them only while an XDP program is attached. Those of a veth depend on its other end. */
bool inc_adapter_shows_xmit(const struct inc_adapter *a);
/* The command that makes the interface send redirected packets, or NULL if it sends them, or if
 * that does not show. */
const char *inc_adapter_fix_xmit(const struct inc_adapter *a);

/* Writes the command that makes the driver leave VLAN tags in the frames that XDP sees. Returns
 * fix, or NULL if it leaves them there already. */
#define INC_ADAPTER_FIX 64
const char *inc_adapter_fix_tags(const struct inc_adapter *a, char fix[INC_ADAPTER_FIX]);

/* How an interface is used. */
enum inc_adapter_use {
	INC_ADAPTER_PASSTHROUGH, /* a port of a switch in passthrough mode */
	INC_ADAPTER_TERMINATION, /* a port of a switch in termination mode */
	INC_ADAPTER_HOST,        /* the interface of a rank */
};

/* Returns -ENODEV if there is no such interface, or another -errno. */
int inc_adapter_read(const char *ifname, struct inc_adapter *out);
/* Finds a VLAN device that uses the interface in the kernel's list (/proc/net/vlan/config), which
 * is NULL where the kernel has none. Writes its name, or nothing if there is none. Closes the list.
 */
void inc_adapter_find_vlan(FILE *list, const char *ifname, char vlan[IF_NAMESIZE]);
void inc_adapter_judge(struct inc_findings *f, const char *where, const struct inc_adapter *a,
		       enum inc_adapter_use use);

/* rdma.c: the RDMA devices of a host. own: its address (0: any). */
void inc_rdma_judge(struct inc_findings *f, const struct inc_rdma_list *devices,
		    struct in_addr own);
void inc_inspect_rdma(struct inc_findings *f, struct in_addr own, bool *has_devices);

/* probe.c: packets to a neighbour, which its kernel answers. */
struct inc_probe {
	const char *ifname;
	struct in_addr own, peer;
	unsigned int packets; /* number of packets to send */
	unsigned int bytes;   /* size of the IP packet, which is not fragmented */
	bool redirect;        /* the packets leave the port by XDP_REDIRECT, as results do */
};
struct inc_probed {
	unsigned int sent, received;
	uint64_t least_ns, mean_ns, most_ns; /* round-trip time */
};
/* After so many packets without any answer, no more are sent. */
#define INC_PROBE_PATIENCE 3
/* Whether another packet shall be sent, of this many. */
static inline bool inc_probed_goes_on(const struct inc_probed *probed, unsigned int packets)
{
	return probed->sent < packets && (probed->received || probed->sent < INC_PROBE_PATIENCE);
}
/* Notes the round-trip time of an answer. */
void inc_probed_note(struct inc_probed *probed, uint64_t ns);
/* Writes the round-trip times of packets that were answered. Returns text. */
#define INC_ROUND_TRIP_TEXT 80
const char *inc_round_trip(const struct inc_probed *probed, char text[INC_ROUND_TRIP_TEXT]);
/* Returns 0, also if no packet is answered, or -errno with the reason. -EOPNOTSUPP: this kernel
 * cannot send the packets by XDP_REDIRECT. */
int inc_probe(const struct inc_probe *probe, struct inc_probed *out, struct inc_err *err);

/* A neighbour that is examined. */
struct inc_check_peer {
	const char *ifname; /* own interface, behind which it is */
	struct in_addr own, ip;
	const char *name; /* "": not known */
};
/* Writes its name and its address. */
#define INC_CHECK_PEER_TEXT 64
void inc_check_peer_write(const struct inc_check_peer *peer, char text[INC_CHECK_PEER_TEXT]);
/* Probes a neighbour and appends findings: loss and round-trip time, the largest packet that
 * passes and, in passthrough mode, whether redirected packets arrive. must_answer: without an
 * answer it is a problem, and otherwise a warning. Returns whether it answers. */
bool inc_inspect_neighbour(struct inc_findings *f, const char *where, const struct inc_adapter *a,
			   const struct inc_check_peer *peer, enum inc_adapter_use use,
			   bool must_answer);

/* echo.c: asks the XDP program of a switch's port, and appends a finding. silence: level of the
 * finding if it does not answer. INC_FINDING_OK: the neighbour need not be such a port, so there is
 * no finding then. */
void inc_inspect_echo(struct inc_findings *f, const char *where, const struct inc_check_peer *peer,
		      enum inc_finding_level silence);

/* A complete entry of the kernel's table of neighbours. */
struct inc_neighbour_entry {
	struct in_addr ip;
	uint8_t mac[6];
};
/* Reads the entries of an interface. Returns their number, at most n. */
unsigned int inc_neighbours_read(const char *ifname, struct inc_neighbour_entry *out,
				 unsigned int n);

#endif
