// SPDX-License-Identifier: BSD-2-Clause
/* MAC addresses change in the middle of a run: those of ranks' hosts and of switches' ports. What a
 * frame names by an old address is dropped by who has a new one, as a network card does it. */
#include <net/if.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include "loader/inc_loader.h"
#include "neighbour.h"
#include "sim.h"
#include "tree_priv.h"

#define MOVES_MOST 3
/* Until a kernel has heard of a new address, and a daemon of its own port's. */
#define LEARN_MOST_NS  (50 * INC_NSEC_PER_MSEC)
#define FOLLOW_MOST_NS INC_NSEC_PER_MSEC

/* Whose interfaces inc_switch_follow_macs() asks for. */
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
	ifr->ifr_hwaddr.sa_family = 1; /* ARPHRD_ETHER */
	tree_port_mac(&port, (uint8_t *)ifr->ifr_hwaddr.sa_data);
	return 0;
}

void tree_follow_macs(void *arg)
{
	struct tree_switch *sw = arg;

	following = sw;
	inc_switch_follow_macs(xdp_switch(sw->daemon.xdp));
	following = NULL;
	memcpy(sw->followed, sw->moves, sizeof(sw->followed));
}

static void follow(void *arg, uint64_t unused)
{
	struct tree_switch *sw = arg;

	if (!sw->daemon.slow_path)
		return; /* the next one looks when it starts */
	if (sim_now_ns() < sw->daemon.process.paused_until_ns)
		sim_at(sw->daemon.process.paused_until_ns, follow, sw, 0);
	else
		tree_follow_macs(sw);
}

/* A host's kernel, or that of a switch in termination mode, has learned where the other end of its
 * cable is. */
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

/* One of the two ends of a switch's cable to its parent. */
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
		uint32_t whom = sim_below(tree.n_ranks + tree.n_switches);
		struct tree_rank *rank = &tree.rank[sim_below(tree.n_ranks)];
		struct tree_switch *sw = &tree.sw[whom % tree.n_switches];

		if (whom < tree.n_ranks)
			sim_at(at, sim_chance(500) ? move_rank : move_ranks_port, rank, 0);
		else if (sw->parent && !sw->macs_known)
			sim_at(at, move_cable, sw, sim_chance(500));
	}
}

void tree_receive(void *arg, const uint8_t *frame, size_t len)
{
	const struct daemon_port *port = arg;
	uint8_t mac[6];

	tree_port_mac(port, mac);
	if (!memcmp(frame, mac, sizeof(mac)))
		daemon_receive(arg, frame, len);
}

/* A communicator that was made after the last move has the new address already, and one that is
 * older has it as soon as the daemon has followed the move. */
void tree_check_source(const struct tree_switch *sw, unsigned int port, const uint8_t *frame)
{
	sim_require(frame[6 + 2] >= sw->followed[port] && frame[6 + 2] <= sw->moves[port] &&
			    frame[6 + 4] == sw->number && frame[6 + 5] == port,
		    "%s: a frame leaves by port %u from an address that is not the port's",
		    sw->daemon.process.name, port);
}
