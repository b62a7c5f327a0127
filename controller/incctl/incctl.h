/* SPDX-License-Identifier: BSD-2-Clause */
/* incctl: shared by its files. incctl_ask.c asks the controller or a switch, and the others compute
 * and print. One thread, and one question at a time. */
#ifndef INC_INCCTL_H
#define INC_INCCTL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <netinet/in.h>
#include <jansson.h>
#include "lib/base/err.h"
#include "lib/base/opt.h"
#include "lib/net/tls.h"
#include "lib/proto/roce.h"

struct ifaddrs;

struct incctl_target {
	const char *controller; /* address of the controller: HOST[:PORT] */
	/* path of a switch's local socket; NULL: the controller is asked */
	const char *socket;
	/* files with keys for the controller; if there is none, TLS is not used */
	struct inc_tls_files tls;
	unsigned int timeout_ms;
};

/*
 * Asks the controller or a switch a question, and returns the data of the answer. For questions to
 * switches the data are [{"switch":…,"data":…}], even from a switch's own socket. communicator is
 * the number of the only communicator of interest, or 0 for all. Returns NULL with the reason in
 * err after an error.
 */
json_t *incctl_ask(const struct incctl_target *target, const char *what, uint32_t communicator,
		   struct inc_err *err);

/* Sets the mode of a switch of the topology. Returns 0, or -EIO with the reason. */
int incctl_set_mode(const struct incctl_target *target, const char *sw, const char *mode,
		    struct inc_err *err);

/* Connects to the controller and authenticates, and closes the connection. default_port: the port
 * to which an address without one leads. Returns 0, or -errno with the reason. */
int incctl_reach(const struct incctl_target *target, unsigned int default_port,
		 struct inc_err *err);

/* An answer, and its time: the middle between the question and the answer. */
struct incctl_sample {
	json_t *data;
	uint64_t at_ns;
};
int incctl_sample(const struct incctl_target *target, const char *what, uint32_t communicator,
		  struct incctl_sample *out, struct inc_err *err);
/* Computes by how much a counter grew per second between two samples that are ns apart. Returns
 * JSON null if a sample lacks the counter, or if the counter went backwards. */
json_t *incctl_rate(const json_t *now, const json_t *before, uint64_t ns);

struct incctl_top {
	double interval_s;
	bool once; /* incctl_top() prints the rates of one interval and ends */
	bool json; /* incctl_top() prints each interval as a line with a JSON object */
};
/* incctl_top.c: prints rates until a signal comes. Returns the exit code. */
int incctl_top(const struct incctl_target *target, const struct incctl_top *top);

struct inc_findings;
struct inc_topo_port;
struct inc_topology;

struct incctl_check {
	struct inc_opt_list port, nic; /* names of interfaces: ports of a switch, and a host's */
	const char *topology;          /* path of a topology file; NULL: none is given */
	bool names_controller;         /* the target's controller is no default */
	bool json;
};
/* incctl_check.c: examines this machine and prints the findings. Returns the exit code. */
int incctl_check(const struct incctl_target *target, const struct incctl_check *what);
/* incctl_ask.c: appends findings about the own key, the way to the controller, and what it lets
 * this key do. named: the user has named the controller. */
void incctl_check_controller(const struct incctl_target *target, bool named,
			     struct inc_findings *f);

/* incctl_cables.c: returns the first IPv4 address of an interface in the list, otherwise an IPv6
 * address that is not link-local; zeros if it has none. */
struct inc_addr incctl_first_address(const struct ifaddrs *list, const char *ifname);
/* incctl_cables.c: returns the name of the interface that has an address, or NULL. */
const char *incctl_interface_with(const struct ifaddrs *list, struct inc_addr ip);

/* incctl_cables.c: whether the kernel has an entry of this neighbour at an interface. */
bool incctl_is_known(const char *ifname, struct in_addr ip);
/* incctl_cables.c: appends a finding if a port's cable leads to another machine than in the
 * topology. said: what running switches answer to "neighbours"; NULL: nothing. */
void incctl_check_cable(const struct inc_topology *topology, const struct inc_topo_port *port,
			const json_t *said, struct inc_findings *f);

/* incctl_ask.c: replaces characters that could control the terminal (printable.h) in all
 * texts of an array or object, at any depth. Keys are not changed. */
void incctl_printable(json_t *value);

/* These functions read a field of a JSON object. They return "", false or 0 if the field is
 * absent. */
static inline const char *incctl_text(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key)) ?: "";
}
static inline bool incctl_true(const json_t *object, const char *key)
{
	return json_is_true(json_object_get(object, key));
}
static inline long long incctl_number(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

/* Prints the numbers of a JSON array into buf as "1 2 3", or "-" if there are none. */
const char *incctl_join_numbers(const json_t *array, char *buf, size_t size);

/* Print text tables on stdout. */
void incctl_print_groups(const json_t *data);
void incctl_print_communicators(const json_t *data);
void incctl_print_switches(const json_t *data);
void incctl_print_connections(const json_t *data);
void incctl_print_ports(const json_t *data);
void incctl_print_counters(const json_t *data);
void incctl_print_events(const json_t *data);
void incctl_print_status(const json_t *data);
/* Prints the rates that incctl_top() has computed for one interval. */
void incctl_print_top(const json_t *shown);
/* incctl_config.c: joins the pages of the answer to "config" into one configuration of switches. */
json_t *incctl_config(const json_t *data);
void incctl_print_config(const json_t *config);
/* incctl_waiting.c: removes from an answer to "waiting" each missing peer that is a switch and
 * waits for a peer itself. So only the last peer of such a chain stays. */
void incctl_waiting(json_t *data);
void incctl_print_waiting(const json_t *data);
/* Prints what groups and communicators wait for that are not complete yet, from an answer to
 * "groups". Returns the number of lines. */
size_t incctl_print_group_waits(const json_t *groups);

/* incctl_tree.c: adds figures of the switches' connections to the edges of the controller's trees.
 * before is an earlier sample, from which rates follow; it may have no data. Returns 0, or -EBADMSG
 * if an answer is no tree, so that it must not be drawn. */
int incctl_tree(json_t *trees, const struct incctl_sample *before, const struct incctl_sample *now,
		struct inc_err *err);
void incctl_print_tree(const json_t *trees);
/* Prints the figures of a tree's edge, such as "4711 received, 4700 acknowledged, 5 resent, 1200
 * packets/s". The text is "" if the edge's switch has not answered. */
const char *incctl_edge_text(const json_t *edge, char *buf, size_t size);
/* Whether the switch is a child of another switch in the tree. */
bool incctl_is_child(const json_t *tree, const char *sw);
/* Prints the trees as pictures: for dot(1), and as SVG. */
void incctl_print_dot(const json_t *trees);
void incctl_print_svg(const json_t *trees);

/* Prints Prometheus text. */
void incctl_print_metrics(const json_t *data);

#endif
