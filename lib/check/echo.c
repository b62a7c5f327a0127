/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sends echo requests to a port of a switch (inspect.h). The port's XDP program answers them, and
 * not the kernel (docs/protocol.md, "Echo"). So they pass through both directions of the port as
 * contributions and results do, and they need neither a job nor privileges.
 */
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "lib/base/clock.h"
#include "lib/base/os.h"
#include "lib/base/random.h"
#include "lib/check/inspect.h"
#include "lib/net/wait.h"
#include "lib/proto/frame.h"
#include "lib/roce/wire.h"

#define PACKETS 10
/* Time to wait for a reply. Before the first one the kernel may have to find the neighbour. */
#define WAIT_NS (500 * INC_NSEC_PER_MSEC)

/* a packet from its BTH to its ICRC */
#define PACKET_LEN (INC_BTH_LEN + INC_ECHO_LEN + INC_ICRC_LEN)

struct echo {
	int fd;
	struct in_addr own, peer;
	uint16_t port;                 /* own UDP port */
	uint8_t payload[INC_ECHO_LEN]; /* drawn at random, so that no other packet has it */
	bool refused;                  /* the peer's kernel has no socket for RoCEv2 either */
};

static int open_socket(struct echo *echo, const char *ifname)
{
	const struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr = echo->own};
	struct sockaddr_storage bound;
	socklen_t len = sizeof(bound);
	/* with the don't-fragment bit an unconnected socket sends the IP ID 0, which the ICRC
	 * covers; with IP_RECVERR it learns that its packets are refused */
	const int whole = IP_PMTUDISC_DO, yes = 1;
	int ret;

	echo->fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (echo->fd >= 0 &&
	    !setsockopt(echo->fd, SOL_SOCKET, SO_BINDTODEVICE, ifname, strlen(ifname)) &&
	    !setsockopt(echo->fd, IPPROTO_IP, IP_MTU_DISCOVER, &whole, sizeof(whole)) &&
	    !setsockopt(echo->fd, IPPROTO_IP, IP_RECVERR, &yes, sizeof(yes)) &&
	    !bind(echo->fd, (const struct sockaddr *)&own, sizeof(own)) &&
	    !inc_os.stream.own(echo->fd, &bound, &len)) {
		echo->port = ntohs(((const struct sockaddr_in *)&bound)->sin_port);
		return 0;
	}
	ret = -errno;
	if (echo->fd >= 0)
		close(echo->fd);
	return ret;
}

/* Builds a packet from its BTH on. to_peer: its direction. */
static void build(const struct echo *echo, bool to_peer, uint32_t psn, uint8_t packet[PACKET_LEN])
{
	const struct inc_udp_path path = {
		.saddr = inc_addr_of_in(to_peer ? echo->own : echo->peer),
		.daddr = inc_addr_of_in(to_peer ? echo->peer : echo->own),
		.sport = to_peer ? echo->port : INC_ROCE_UDP_PORT,
		.dport = to_peer ? INC_ROCE_UDP_PORT : echo->port,
		.df = true,
	};
	const size_t len = PACKET_LEN - INC_ICRC_LEN;

	inc_put_bth(packet, to_peer ? INC_OP_ECHO_REQUEST : INC_OP_ECHO_REPLY, 0, INC_PKEY_DEFAULT,
		    INC_ECHO_QPN, psn);
	memcpy(packet + INC_BTH_LEN, echo->payload, INC_ECHO_LEN);
	inc_put_icrc(packet + len, inc_icrc_udp(&path, 0, packet, len));
}

/* Reads what the socket has. Returns whether the reply is among it. */
static bool take_reply(struct echo *echo, const uint8_t reply[PACKET_LEN])
{
	uint8_t packet[PACKET_LEN + 1];
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	ssize_t n;

	while ((n = recvfrom(echo->fd, packet, sizeof(packet), 0, (struct sockaddr *)&from,
			     &len)) >= 0) {
		if (n == PACKET_LEN && from.sin_addr.s_addr == echo->peer.s_addr &&
		    from.sin_port == htons(INC_ROCE_UDP_PORT) && !memcmp(packet, reply, n))
			return true;
		len = sizeof(from);
	}
	echo->refused |= errno == ECONNREFUSED;
	return false;
}

/* Sends one request and waits for its reply. Returns 0, also without a reply, or -errno. */
static int exchange(struct echo *echo, struct inc_probed *out)
{
	const struct sockaddr_in to = {.sin_family = AF_INET,
				       .sin_addr = echo->peer,
				       .sin_port = htons(INC_ROCE_UDP_PORT)};
	const uint64_t sent_at_ns = inc_now_ns();
	uint8_t request[PACKET_LEN], reply[PACKET_LEN];
	bool late = false, came = false;

	build(echo, true, out->sent, request);
	build(echo, false, out->sent, reply);
	out->sent++;
	if (sendto(echo->fd, request, sizeof(request), 0, (const struct sockaddr *)&to,
		   sizeof(to)) < 0) {
		echo->refused = errno == ECONNREFUSED;
		/* EHOSTUNREACH: the kernel's ARP requests got no answer, so the peer is silent */
		return echo->refused || errno == EHOSTUNREACH ? 0 : -errno;
	}
	/* This process may have stood still until after the deadline. So the packets that have come
	 * are read once more. */
	while (!late && !came && !echo->refused) {
		late = inc_wait_for(echo->fd, POLLIN, -1, sent_at_ns + WAIT_NS);
		came = take_reply(echo, reply);
	}
	if (came)
		inc_probed_note(out, inc_now_ns() - sent_at_ns);
	return 0;
}

/* Returns 0, also if no request is answered, or -errno with the reason. */
static int ask(struct echo *echo, const char *ifname, struct inc_probed *out, struct inc_err *err)
{
	int ret = inc_random_bytes(echo->payload, sizeof(echo->payload), err);

	if (ret)
		return ret;
	ret = open_socket(echo, ifname);
	if (ret)
		return inc_err_set(err, -ret, "UDP socket on %s: %s", ifname, strerror(-ret));
	while (!ret && !echo->refused && inc_probed_goes_on(out, PACKETS))
		ret = exchange(echo, out);
	close(echo->fd);
	return ret ? inc_err_set(err, -ret, "send: %s", strerror(-ret)) : 0;
}

void inc_inspect_echo(struct inc_findings *f, const char *where, const struct inc_check_peer *peer,
		      enum inc_finding_level silence)
{
	struct echo echo = {.own = peer->own, .peer = peer->ip};
	struct inc_probed seen = {0};
	char text[INC_ROUND_TRIP_TEXT], who[INC_CHECK_PEER_TEXT], kernel[64] = "";
	struct inc_err err;
	int ret;

	inc_check_peer_write(peer, who);
	ret = ask(&echo, peer->ifname, &seen, &err);
	if (echo.refused)
		snprintf(kernel, sizeof(kernel), ", and its kernel has no socket at UDP port %u",
			 INC_ROCE_UDP_PORT);
	if (ret)
		inc_find(f, INC_FINDING_SKIPPED, where, "echo", "%s: %.150s", who, err.msg);
	else if (seen.received && seen.received == seen.sent)
		inc_find(f, INC_FINDING_OK, where, "echo",
			 "%s: its XDP program answers %u of %u packets, %s", who, seen.received,
			 seen.sent, inc_round_trip(&seen, text));
	else if (seen.received)
		inc_find_fix(inc_find(f, INC_FINDING_PROBLEM, where, "echo",
				      "%s: of %u packets to its XDP program and back, %u are lost",
				      who, seen.sent, seen.sent - seen.received),
			     "Each lost packet makes a collective wait until it is retransmitted.",
			     "examine the cable, the devices on the way, and there: incctl check");
	else if (silence != INC_FINDING_OK)
		inc_find_fix(inc_find(f, silence, where, "echo",
				      "%s: no XDP program answers at this address%s", who, kernel),
			     "If inc-switchd does not run there, no job can begin.",
			     "on the switch: systemctl start inc-switchd; incctl ports. With "
			     "--mode termination XDP is attached with the first job in passthrough "
			     "mode, and an older inc-switchd does not answer");
}
