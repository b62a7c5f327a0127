/* SPDX-License-Identifier: BSD-2-Clause */
/* Communicators as their switches see them: the negotiation, the requests to each switch, and its
 * answers. */
#ifndef INC_COMM_CONFIG_H
#define INC_COMM_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lib/base/err.h"
#include "lib/conf/messages.h"

struct inc_comm;
struct inc_core;
struct inc_core_switch;
struct inc_tree_node;

/* ---- comm_config.c ---- */

/* Finds a tree for the communicator and configures its switches, because all members have asked for
 * it. */
void inc_comm_configure(struct inc_comm *comm);
void inc_comm_unconfigure(struct inc_comm *comm);
/* Finds the first switch of the communicator's tree that is not connected; NULL if all are. */
const struct inc_core_switch *inc_comm_absent(const struct inc_comm *comm);
/* Handles a switch's answer to message configure. If code is 0, made describes what the switch has
 * made, or is NULL if the answer cannot be read, and text has the reason. Otherwise code and text
 * are the switch's error. */
void inc_comm_answered(struct inc_core_switch *sw, uint32_t number, int code, const char *text,
		       const struct inc_msg_configured *made);
/* Handles a switch's answer to message connect. confirmed is the communicator that the answer
 * names. */
void inc_comm_connected(struct inc_core_switch *sw, uint32_t number, int code, const char *text,
			uint32_t confirmed);
/* Handles the database's answer for a communicator that begins. stored is 0, or -errno with the
 * reason in because. */
void inc_comm_stored(struct inc_core *core, uint32_t number, int stored,
		     const struct inc_err *because);
/* Lets the communicators go on that wait for the switch, because it has answered half of its
 * requests. */
void inc_comm_switch_answered(struct inc_core_switch *sw);
/* comm_report.c: begins the time limit again of each communicator that waits although all its
 * switches are connected, if this switch is one of them, because it is lost now. The owner calls it
 * while the switch still counts as connected. */
void inc_comms_await_switch(const struct inc_core_switch *sw);
/* comm_report.c: records that the switch's connection has ended, with the communicators that use
 * the switch. */
void inc_comms_record_lost(const struct inc_core_switch *sw, bool peer_closed);
/* comm_report.c: ends the communicators that are not announced yet and that the lost switch has
 * confirmed. Those whose confirmation is awaited end by the failed request. */
void inc_comms_end_unmade(const struct inc_core_switch *sw);
/* comm_report.c: the lost switch has announced that it will connect again, for whatever reason. So
 * the communicators that are being made on it are made again, on other switches or as soon as it is
 * back. */
void inc_comms_begin_again(const struct inc_core_switch *sw);
/* comm_report.c: the switch's machine has closed the connection. In termination mode the daemon's
 * memory has the switch's part of a communicator, so that ends with the daemon. The first function
 * returns whether there is such a communicator. The second one reports the loss to the members of
 * these communicators as a notice. The third one fails them, because the switch has not come
 * back. */
bool inc_comms_live_in_daemon(const struct inc_core_switch *sw);
void inc_comms_note_closed(const struct inc_core_switch *sw);
void inc_comms_end_with_daemon(const struct inc_core_switch *sw);
/* Frees the trees of the communicators that wait for switches, because the topology changes.
 * inc_comms_retry() must follow before any other event, and finds another tree for each of them. */
void inc_comms_drop_waiting(struct inc_core *core);
/* Looks for a tree for each communicator that waits, because a switch has connected or the topology
 * has changed. */
void inc_comms_retry(struct inc_core *core);
/* Whether the switch has the communicator, as far as the controller knows. */
bool inc_comm_keeps(const struct inc_comm *comm, const struct inc_core_switch *sw);
/* Whether a switch that lists the communicator in its hello shall keep it. If the communicator
 * comes from an earlier controller, the switch becomes one of its switches. */
bool inc_comm_takes(struct inc_comm *comm, struct inc_core_switch *sw);
/* Fails the communicators of the switch that are not among the n communicators that the switch's
 * hello lists. */
void inc_comm_check_kept(struct inc_core_switch *sw, const uint32_t *listed, size_t n);

/* ---- comm_choice.c ---- */

/* Finds a tree for the communicator of so many hosts, as inc_route_compute() does, and chooses the
 * mode of its switches with INC_AUTO. */
int inc_comm_find_tree(struct inc_comm *comm, const unsigned int *hosts, unsigned int n_hosts,
		       struct inc_err *err);
/* Returns the mode that suits the use of a communicator of so many hosts, and why. If known is
 * false, a member has not named its use. That is taken for a training job, which sends large
 * vectors of floats. */
enum inc_mode_of_switch inc_mode_of_use(const struct inc_msg_use *use, bool known,
					unsigned int n_hosts, const char **why);
/* Whether the members send floats, or have not named their use of the communicator. */
bool inc_comm_uses_floats(const struct inc_comm *comm);

/* ---- comm_mode.c ---- */

/* Returns how many bytes a packet of the communicator has at most besides its payload. */
unsigned int inc_comm_overhead(const struct inc_comm *comm);
/* Checks that the switch of a node can make the communicator in a mode. Returns 0, -EOPNOTSUPP, or
 * -EAFNOSUPPORT if passthrough mode would need IPv6. */
int inc_comm_check_node(const struct inc_comm *comm, unsigned int n, enum inc_mode_of_switch mode,
			struct inc_err *err);

/* Stores in the answer to the members whether their switch answers probes, so that they need
 * request no ACKs. */
void inc_comm_offer_probes(const struct inc_comm *comm, struct inc_msg_made *made);

/* Stores in the answer to rank 0 why the modes of the switches cost speed, although they could be
 * other ones. Returns false if they do not. */
bool inc_comm_find_slow(const struct inc_comm *comm, struct inc_msg_made *made);

/* Prints which member's NIC or route makes the payload smaller than the others could use. Returns
 * false if no member does. */
bool inc_comm_find_narrow(const struct inc_comm *comm, char *buf, size_t size);

/* Returns the switch of a node of the communicator's tree. */
struct inc_core_switch *inc_comm_switch(const struct inc_comm *comm,
					const struct inc_tree_node *node);

/* Sets the number of slots that the members' windows need, before there is a tree. */
void inc_comm_choose_slots(struct inc_comm *comm);
/* Negotiates the modes, sizes and form of floats that all switches of the tree and all members
 * support. Returns 0, or -errno if a switch does not support its mode, or a member asks for too
 * much. */
int inc_comm_agree(struct inc_comm *comm, struct inc_err *err);

/* ---- comm_ends.c: the numbers of a communicator's connections ---- */

/* Allocates the numbers of the switches' ends of all connections. Switches in termination mode may
 * change theirs. Returns 0 or -errno. */
int inc_comm_number_ends(struct inc_comm *comm);
void inc_comm_drop_ends(struct inc_comm *comm);
/* Stores the numbers that a switch has chosen for the connections of its node. Returns 0, or
 * -EPROTO if they are for other connections than those of configure. */
int inc_comm_take_ends(struct inc_comm *comm, unsigned int node,
		       const struct inc_msg_configured *made, struct inc_err *err);
/* Lists the numbers of a node's neighbours that were unknown when its switch was configured.
 * Returns false if there are none. */
bool inc_comm_list_peers(struct inc_comm *comm, unsigned int node, struct inc_msg_connect *out);

#endif
