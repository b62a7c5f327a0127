// SPDX-License-Identifier: BSD-2-Clause
/* Changes of interfaces in the middle of a run. The MAC addresses of ranks' hosts and of switches'
 * ports change, and a card with a new address drops frames for the old one. Interfaces of switches
 * are taken down and up again, or deleted and made again with other numbers. Events call this file,
 * and so does the creation of a communicator. */
#include <stdio.h>
#include <net/if.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include "loader/inc_loader.h"
#include "neighbour.h"
#include "selftests/unit/frame.h"
#include "sim.h"
#include "tree_priv.h"
#include "userspace/xdp/slowpath.h"

#define MOVES_MOST 3
/* Greatest delay until a kernel has learned a peer's new MAC address, and until a daemon has
 * learned that of its own port. */
#define LEARN_MOST_NS  (50 * INC_NSEC_PER_MSEC)
#define FOLLOW_MOST_NS INC_NSEC_PER_MSEC
/* Number and lengths of the times in which interfaces are away. All short ones together are shorter
 * than the ranks' timeout. */
#define LOSSES_MOST        3
#define BRIEF_LOSS_MOST_NS (100 * INC_NSEC_PER_MSEC)
#define SHORT_LOSS_MOST_NS (5 * INC_NSEC_PER_SEC / LOSSES_MOST)
#define LONG_LOSS_MOST_NS  (30 * INC_NSEC_PER_SEC)
#define EARLY_LOSS_NS      (2 * INC_NSEC_PER_MSEC)

/* The switch whose interfaces inc_switch_follow_macs() queries. */
static const struct tree_switch *following;

int __wrap_ioctl(int fd, unsigned long what, ...);
int __wrap_ioctl(int fd, unsigned long what, ...)
{
	struct daemon_port port;
	struct ifreq *ifr;
	va_list ap;

	va_start(ap, what);
	ifr = va_arg(ap, struct ifreq *);
	va_end(ap);
	sim_require(what == SIOCGIFHWADDR && following, "ioctl %lx", what);
	port = (struct daemon_port){(struct daemon *)&following->daemon, ifr->ifr_name[1] - '0'};
	ifr->ifr_hwaddr.sa_family = 1; /* the value of ARPHRD_ETHER */
	tree_port_mac(&port, (uint8_t *)ifr->ifr_hwaddr.sa_data);
	return 0;
}

void tree_follow_macs(void *arg)
{
	struct tree_switch *sw = arg;

	tree_look_at_ports(sw);
	following = sw;
	inc_switch_follow_macs(xdp_switch(sw->daemon.xdp));
	following = NULL;
	memcpy(sw->followed, sw->moves, sizeof(sw->followed));
}

/* If the daemon stands still, lets it read the kernel's notice (with `read`) when it goes on.
 * Returns false if the daemon can read the notice now. */
static bool reads_later(struct tree_switch *sw, void (*read)(void *arg, uint64_t unused))
{
	const uint64_t until_ns = sw->daemon.process.paused_until_ns;

	if (sim_now_ns() >= until_ns)
		return false;
	sim_at(until_ns, read, sw, 0);
	return true;
}

static void follow(void *arg, uint64_t unused)
{
	struct tree_switch *sw = arg;

	if (!sw->daemon.slow_path)
		return; /* the daemon is dead, and the next one reads the state when it starts */
	if (!reads_later(sw, follow))
		tree_follow_macs(sw);
}

/* The kernel of a host, or of a switch in termination mode, learns the new MAC address at the other
 * end of its cable. */
static void learn_rank(void *arg, uint64_t unused)
{
	const struct tree_rank *rank = arg;

	memcpy(tree_switch_of(&rank->port)->host[rank->port.port].gateway, rank->host.mac, 6);
}

static void learn_port(void *arg, uint64_t unused)
{
	struct tree_rank *rank = arg;

	tree_port_mac(&rank->port, rank->host.gateway);
}

static void learn_own_port(void *arg, uint64_t unused)
{
	struct tree_switch *sw = arg;

	tree_port_mac(&sw->there, sw->host[sw->port.port].gateway);
}

static void learn_port_below(void *arg, uint64_t unused)
{
	struct tree_switch *sw = arg;

	tree_port_mac(&sw->port, sw->parent->host[sw->there.port].gateway);
}

static void later(void (*fn)(void *arg, uint64_t unused), void *arg)
{
	sim_after(sim_between(0, LEARN_MOST_NS), fn, arg, 0);
}

static void move_rank(void *arg, uint64_t unused)
{
	struct tree_rank *rank = arg;

	rank->host.mac[2]++;
	sim_figures.moves++;
	sim_note(rank->host.process.name, "moves", rank->host.mac[2], 0, 0);
	neighbour_moves(rank->host.addr, rank->host.mac);
	later(learn_rank, rank);
}

static void move_port(const struct daemon_port *port)
{
	struct tree_switch *sw = tree_switch_of(port);
	uint8_t mac[6];

	sw->moves[port->port]++;
	sim_figures.moves++;
	sim_note(sw->daemon.process.name, "moves", port->port, sw->moves[port->port], 0);
	tree_port_mac(port, mac);
	memcpy(sw->host[port->port].mac, mac, sizeof(mac));
	if (sw->mode == INC_PASSTHROUGH)
		sim_after(sim_between(0, FOLLOW_MOST_NS), follow, sw, 0);
}

static void move_ranks_port(void *arg, uint64_t unused)
{
	struct tree_rank *rank = arg;

	move_port(&rank->port);
	later(learn_port, rank);
}

/* Changes the MAC address at one of the two ends of a switch's cable to its parent. */
static void move_cable(void *arg, uint64_t upper)
{
	struct tree_switch *sw = arg;
	const struct daemon_port *port = upper ? &sw->there : &sw->port;
	uint8_t mac[6];

	move_port(port);
	tree_port_mac(port, mac);
	neighbour_moves(tree_port_addr(port), mac);
	later(upper ? learn_own_port : learn_port_below, sw);
}

void tree_choose_moves(void)
{
	uint32_t n = sim_chance(300) ? 1 + sim_below(MOVES_MOST) : 0, i;

	for (i = 0; i < n; i++) {
		uint64_t at = sim_between(sim_now_ns(), tree.faults_end_at_ns);
		uint32_t which = sim_below(tree.n_ranks + tree.n_switches);
		struct tree_rank *rank = &tree.rank[sim_below(tree.n_ranks)];
		struct tree_switch *sw = &tree.sw[which % tree.n_switches];

		if (which < tree.n_ranks)
			sim_at(at, sim_chance(500) ? move_rank : move_ranks_port, rank, 0);
		else if (sw->parent && !sw->macs_known)
			sim_at(at, move_cable, sw, sim_chance(500));
	}
}

/* --- interfaces of ports that disappear and return --- */

static void look_in_passthrough(struct tree_switch *sw, unsigned int port, const char *why)
{
	struct inc_switch *own = xdp_switch(sw->daemon.xdp);
	const struct inc_switch_port *at = inc_switch_port_at(own, port);
	struct inc_slowpath *slow_path = sw->daemon.slow_path;
	struct inc_port_seen seen = {.ifindex = xdp_ifindex_now(sw->daemon.xdp, port),
				     .xdp_id = xdp_program_id(sw->daemon.xdp, port)};
	struct inc_err err = {""};
	int ret = 0;

	snprintf(seen.name, sizeof(seen.name), "p%u", port);
	if (seen.ifindex)
		ret = inc_switch_check_port(own, port, &seen, &err);
	if (ret >= 0 && seen.ifindex && slow_path)
		ret = inc_slowpath_check_port(slow_path, at, &err);
	sim_require(ret >= 0, "%s: %s", sw->daemon.process.name, err.msg);
	if (slow_path)
		inc_slowpath_port_is(slow_path, at, sw->port_is[port], why);
}

/* Gives the state of all ports to the switch's daemon. It does the same as userspace/engine.c and
 * the engines of both modes. */
void tree_look_at_ports(struct tree_switch *sw)
{
	char why[64];
	unsigned int i;

	for (i = 0; tree.loses_ports && i < sw->daemon.ports; i++) {
		snprintf(why, sizeof(why), "port p%u %s", i,
			 sw->port_is[i] == INC_PORT_LOST ? "is gone" : "is down");
		if (sw->port_is[i] == INC_PORT_UP)
			why[0] = '\0';
		if (sw->mode == INC_PASSTHROUGH)
			look_in_passthrough(sw, i, why);
		else
			tree_term_look(sw, i, why);
	}
}

/* The daemon reads the kernel's notice about an interface. */
static void look(void *arg, uint64_t unused)
{
	struct tree_switch *sw = arg;

	if (sw->mode == INC_PASSTHROUGH ? !sw->daemon.slow_path : sw->dead)
		return; /* the daemon is dead, and the next one reads the state when it starts */
	if (!reads_later(sw, look))
		tree_look_at_ports(sw);
}

static void lose_port(void *arg, uint64_t what)
{
	const struct daemon_port *port = arg;
	struct tree_switch *sw = tree_switch_of(port);
	const unsigned int i = port->port;

	if (sw->port_is[i] != INC_PORT_UP)
		return;
	sim_note(sw->daemon.process.name, "loses a port", i, what, 0);
	sw->port_is[i] = what;
	sw->left_at_ns[i] = sim_now_ns();
	sw->daemon.away[i] = sw->host[i].away = true;
	if (what == INC_PORT_LOST && sw->mode == INC_PASSTHROUGH) {
		xdp_delete(sw->daemon.xdp, i);
		daemon_lose_sockets(&sw->daemon, i);
	}
	sim_after(sim_between(0, FOLLOW_MOST_NS), look, sw, 0);
}

/* Makes the interface of a port again. It has another number, and mostly another MAC address. */
static void make_again(const struct daemon_port *port)
{
	struct tree_switch *sw = tree_switch_of(port);
	unsigned int i;

	if (sw->mode == INC_PASSTHROUGH)
		xdp_make(sw->daemon.xdp, port->port);
	else
		sw->host[port->port].ifindex += XDP_NUMBERS;
	if (sim_chance(300))
		return;
	for (i = 0; i < tree.n_ranks; i++)
		if (tree.rank[i].at == sw && tree.rank[i].port.port == port->port)
			move_ranks_port(&tree.rank[i], 0);
	for (i = 1; i < tree.n_switches; i++) {
		struct tree_switch *other = &tree.sw[i];

		if (!other->macs_known && other == sw && other->port.port == port->port)
			move_cable(other, false);
		if (!other->macs_known && other->parent == sw && other->there.port == port->port)
			move_cable(other, true);
	}
}

static void return_port(void *arg, uint64_t unused)
{
	const struct daemon_port *port = arg;
	struct tree_switch *sw = tree_switch_of(port);
	const unsigned int i = port->port;
	const bool was_gone = sw->port_is[i] == INC_PORT_LOST;

	if (sw->port_is[i] == INC_PORT_UP)
		return;
	sim_note(sw->daemon.process.name, "has a port again", i, 0, 0);
	if (sim_now_ns() - sw->left_at_ns[i] < INC_PORT_LOST_S * INC_NSEC_PER_SEC)
		sim_figures.short_losses++;
	else
		sim_figures.long_losses++;
	sw->port_is[i] = INC_PORT_UP;
	sw->daemon.away[i] = sw->host[i].away = false;
	if (was_gone)
		make_again(port);
	sim_after(sim_between(0, FOLLOW_MOST_NS), look, sw, 0);
	tree_make_if_asked();
}

static uint64_t absence_ns(void)
{
	if (tree.patient && sim_chance(600))
		return sim_between(0, LONG_LOSS_MOST_NS);
	return sim_between(0, sim_chance(500) ? SHORT_LOSS_MOST_NS : BRIEF_LOSS_MOST_NS);
}

void tree_choose_losses(void)
{
	const uint32_t n = sim_chance(200) ? 1 + sim_below(LOSSES_MOST) : 0;
	/* the ports that are arguments of the events */
	static struct daemon_port ports[LOSSES_MOST];
	uint32_t i;

	tree.loses_ports = n;
	for (i = 0; i < n; i++) {
		struct daemon *daemon = &tree.sw[sim_below(tree.n_switches)].daemon;
		const uint64_t early = sim_now_ns() + sim_between(0, EARLY_LOSS_NS);
		const uint64_t from =
			sim_chance(700) ? early : sim_between(sim_now_ns(), tree.faults_end_at_ns);
		const uint64_t to = from + absence_ns();

		ports[i] = (struct daemon_port){daemon, sim_below(daemon->ports)};
		if (tree.quiet_at_ns < to)
			tree.quiet_at_ns = to;
		sim_at(from, lose_port, &ports[i], sim_chance(500) ? INC_PORT_DOWN : INC_PORT_LOST);
		sim_at(to, return_port, &ports[i], 0);
	}
}

/* --- frames that a switch receives --- */

void tree_take(const struct daemon_port *port, const uint8_t *frame, size_t len,
	       enum host_from from)
{
	struct tree_switch *sw = tree_switch_of(port);
	unsigned int i;

	if (sw->mode == INC_PASSTHROUGH) {
		daemon_receive((void *)port, frame, len);
		return;
	}
	/* the kernel delivers the frame to the socket with its destination address, whatever
	 * interface the frame arrives by */
	for (i = 0; i < sw->daemon.ports; i++)
		if (len >= FRAME_UDP && !memcmp(frame + FRAME_IP + 16, &sw->host[i].addr, 4))
			host_take(&sw->host[i], frame, len, sw->host[port->port].ifindex, from);
}

void tree_receive(void *arg, const uint8_t *frame, size_t len)
{
	const struct daemon_port *port = arg;
	uint8_t mac[6];

	tree_port_mac(port, mac);
	if (!port->daemon->away[port->port] && !memcmp(frame, mac, sizeof(mac)))
		tree_take(port, frame, len, HOST_FROM_PEER);
}

/* Checks the source MAC address of a frame. A communicator that was made after the last change has
 * the new address. An older one has it as soon as the daemon has read the change. */
void tree_check_source(const struct tree_switch *sw, unsigned int port, const uint8_t *frame)
{
	sim_require(frame[6 + 2] >= sw->followed[port] && frame[6 + 2] <= sw->moves[port] &&
			    frame[6 + 4] == sw->number && frame[6 + 5] == port,
		    "%s: a frame leaves by port %u from an address that is not the port's",
		    sw->daemon.process.name, port);
}
