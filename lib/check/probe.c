/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sends ICMP echo requests to a neighbour (inspect.h). Every kernel answers these, and the answer
 * passes the XDP program of the port by which it comes in. Requests can leave by XDP_REDIRECT, as
 * results do: BPF_PROG_TEST_RUN with live frames runs a program of four instructions for that.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <net/if_arp.h>
#include <netinet/ip_icmp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "lib/base/clock.h"
#include "lib/base/os.h"
#include "lib/base/random.h"
#include "lib/check/inspect.h"
#include "lib/net/netdev.h"
#include "lib/net/wait.h"
#include "lib/proto/roce.h"
#include "lib/roce/udp.h"
#include "lib/roce/wire.h"

/* Time to wait for the first answer, for which the kernel may have to find the neighbour, and for
 * each of the others. */
#define FIRST_NS (1 * INC_NSEC_PER_SEC)
#define NEXT_NS  (500 * INC_NSEC_PER_MSEC)

#define SMALLEST_BYTES (sizeof(struct iphdr) + sizeof(struct icmphdr))
#define LARGEST_BYTES  9000u
#define REDIRECT_BYTES 2048u
#define SMALL_BYTES    64u
#define PACKETS        10

/* inspect_udp() asks at the last so many ports of the range from which Linux takes the ports of
 * soft endpoints. Linux sends six ICMP errors to a machine at once, so these are fewer. */
#define UDP_PORTS   3
#define UDP_WAIT_MS 200

/* Since Linux 5.18. The header of an older system lacks it. */
#ifndef BPF_F_TEST_XDP_LIVE_FRAMES
#define BPF_F_TEST_XDP_LIVE_FRAMES (1U << 1)
#endif

struct way {
	const struct inc_probe *probe;
	int fd, program; /* raw ICMP socket; program that redirects, or -1 */
	uint16_t id;
	/* Ethernet header, IP header, ICMP header and padding */
	uint8_t frame[ETH_HLEN + LARGEST_BYTES];
};

static uint16_t internet_sum(const void *data, size_t n)
{
	const uint8_t *p = data;
	uint32_t sum = 0;
	size_t i;

	for (i = 0; i < n; i++)
		sum += i % 2 ? p[i] : p[i] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return htons(~sum);
}

/* Loads a program that redirects all packets to an interface. Returns its descriptor or -errno. */
static int load_redirect(unsigned int ifindex)
{
	const struct bpf_insn program[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_1, .imm = ifindex},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_2, .imm = 0},
		{.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_redirect},
		{.code = BPF_JMP | BPF_EXIT},
	};

	return inc_load_instructions(program, sizeof(program) / sizeof(program[0]));
}

/* Finds the MAC address of the peer, which must have answered before. */
static int find_mac(const struct inc_probe *probe, uint8_t mac[6])
{
	struct inc_neighbour_entry entry[1024];
	unsigned int i, n;

	n = inc_neighbours_read(probe->ifname, entry, sizeof(entry) / sizeof(entry[0]));
	for (i = 0; i < n; i++)
		if (entry[i].ip.s_addr == probe->peer.s_addr) {
			memcpy(mac, entry[i].mac, 6);
			return 0;
		}
	return -EHOSTUNREACH;
}

/* Writes the headers that a redirected frame needs: those of Ethernet and IP. */
static int put_headers(struct way *way)
{
	struct ethhdr *eth = (struct ethhdr *)way->frame;
	struct iphdr *ip = (struct iphdr *)(way->frame + ETH_HLEN);
	const struct inc_probe *probe = way->probe;
	int ret = inc_interface_mac(if_nametoindex(probe->ifname), eth->h_source);

	ret = ret ?: find_mac(probe, eth->h_dest);
	if (ret)
		return ret;
	eth->h_proto = htons(ETH_P_IP);
	*ip = (struct iphdr){
		.version = 4,
		.ihl = 5,
		.tot_len = htons(probe->bytes),
		.frag_off = htons(IP_DF),
		.ttl = 64,
		.protocol = IPPROTO_ICMP,
		.saddr = probe->own.s_addr,
		.daddr = probe->peer.s_addr,
	};
	ip->check = internet_sum(ip, sizeof(*ip));
	return 0;
}

static int open_socket(const struct inc_probe *probe)
{
	const struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr = probe->own};
	const int whole = IP_PMTUDISC_PROBE;
	int fd = socket(AF_INET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_ICMP), ret;

	if (fd < 0)
		return -errno;
	if (!setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, probe->ifname, strlen(probe->ifname)) &&
	    !setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &whole, sizeof(whole)) &&
	    !bind(fd, (const struct sockaddr *)&own, sizeof(own)))
		return fd;
	ret = -errno;
	close(fd);
	return ret;
}

static int open_way(struct way *way, const struct inc_probe *probe, struct inc_err *err)
{
	int ret;

	*way = (struct way){.probe = probe, .program = -1};
	ret = inc_random_bytes(&way->id, sizeof(way->id), err);
	if (ret)
		return ret;
	ret = probe->redirect ? put_headers(way) : 0;
	if (ret)
		return inc_err_set(err, -ret, "%s", strerror(-ret));
	way->fd = open_socket(probe);
	if (way->fd < 0)
		return inc_err_set(err, -way->fd, "raw socket on %s: %s", probe->ifname,
				   strerror(-way->fd));
	if (!probe->redirect)
		return 0;
	way->program = load_redirect(if_nametoindex(probe->ifname));
	if (way->program >= 0)
		return 0;
	close(way->fd);
	return inc_err_set(err, EOPNOTSUPP, "XDP program: %s", strerror(-way->program));
}

static void close_way(struct way *way)
{
	if (way->program >= 0)
		close(way->program);
	close(way->fd);
}

static int redirect(struct way *way)
{
	union bpf_attr attr = {
		.test.prog_fd = way->program,
		.test.data_in = (uintptr_t)way->frame,
		.test.data_size_in = ETH_HLEN + way->probe->bytes,
		.test.repeat = 1,
		.test.flags = BPF_F_TEST_XDP_LIVE_FRAMES,
	};

	return syscall(__NR_bpf, BPF_PROG_TEST_RUN, &attr, sizeof(attr)) ? -errno : 0;
}

/* Sends request number i. Returns 0 or -errno. */
static int send_request(struct way *way, unsigned int i)
{
	const struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr = way->probe->peer};
	struct icmphdr *icmp = (struct icmphdr *)(way->frame + ETH_HLEN + sizeof(struct iphdr));
	const size_t n = way->probe->bytes - sizeof(struct iphdr);

	*icmp = (struct icmphdr){.type = ICMP_ECHO};
	icmp->un.echo.id = way->id;
	icmp->un.echo.sequence = htons(i);
	icmp->checksum = internet_sum(icmp, n);
	if (way->probe->redirect)
		return redirect(way);
	return sendto(way->fd, icmp, n, 0, (const struct sockaddr *)&to, sizeof(to)) < 0 ? -errno
											 : 0;
}

/* Whether a packet is the answer to request number i. */
static bool is_answer(const struct way *way, const uint8_t *packet, ssize_t n, unsigned int i)
{
	const struct iphdr *ip = (const struct iphdr *)packet;
	const struct icmphdr *icmp;

	if (n < (ssize_t)SMALLEST_BYTES || n < ip->ihl * 4 + (ssize_t)sizeof(*icmp))
		return false;
	icmp = (const struct icmphdr *)(packet + ip->ihl * 4);
	return ip->saddr == way->probe->peer.s_addr && icmp->type == ICMP_ECHOREPLY &&
	       icmp->un.echo.id == way->id && icmp->un.echo.sequence == htons(i);
}

/* Waits for the answer to request number i. Returns 0, or -ETIMEDOUT. */
static int await_answer(struct way *way, unsigned int i, uint64_t deadline_ns)
{
	uint8_t packet[LARGEST_BYTES] __attribute__((aligned(4)));
	bool late = false;
	ssize_t n;

	/* This process may have stood still until after the deadline. So the packets that have come
	 * are read once more. */
	while (!late) {
		late = inc_wait_for(way->fd, POLLIN, -1, deadline_ns);
		while ((n = recv(way->fd, packet, sizeof(packet), 0)) >= 0)
			if (is_answer(way, packet, n, i))
				return 0;
	}
	return -ETIMEDOUT;
}

void inc_probed_note(struct inc_probed *out, uint64_t ns)
{
	out->least_ns = !out->received || ns < out->least_ns ? ns : out->least_ns;
	out->most_ns = ns > out->most_ns ? ns : out->most_ns;
	out->mean_ns = (out->mean_ns * out->received + ns) / (out->received + 1);
	out->received++;
}

/* Sends one packet and waits for its answer. Returns 0, also without an answer, or -errno. */
static int exchange(struct way *way, struct inc_probed *out, struct inc_err *err)
{
	const uint64_t sent_at_ns = inc_now_ns();
	const uint64_t wait_ns = out->sent ? NEXT_NS : FIRST_NS;
	const unsigned int i = out->sent++;
	const int ret = send_request(way, i);

	/* with these errors the kernel reports that the neighbour has not answered ARP requests */
	if (ret == -EHOSTUNREACH || ret == -EHOSTDOWN)
		return 0;
	if (ret)
		return inc_err_set(err, -ret, "send: %s", strerror(-ret));
	if (!await_answer(way, i, sent_at_ns + wait_ns))
		inc_probed_note(out, inc_now_ns() - sent_at_ns);
	return 0;
}

int inc_probe(const struct inc_probe *probe, struct inc_probed *out, struct inc_err *err)
{
	struct way way;
	int ret;

	*out = (struct inc_probed){};
	if (probe->bytes < SMALLEST_BYTES || probe->bytes > LARGEST_BYTES)
		return inc_err_set(err, EINVAL, "packets of %u bytes", probe->bytes);
	ret = open_way(&way, probe, err);
	if (ret)
		return ret;
	while (!ret && inc_probed_goes_on(out, probe->packets))
		ret = exchange(&way, out, err);
	close_way(&way);
	return ret;
}

unsigned int inc_neighbours_read(const char *ifname, struct inc_neighbour_entry *out,
				 unsigned int n)
{
	FILE *file = fopen("/proc/thread-self/net/arp", "re");
	char line[256], ip[64], mac[64], device[64];
	unsigned int flags, found = 0;

	while (file && found < n && fgets(line, sizeof(line), file)) {
		struct inc_neighbour_entry *e = &out[found];

		if (sscanf(line, "%63s %*s %x %63s %*s %63s", ip, &flags, mac, device) != 4 ||
		    strcmp(device, ifname) != 0 || !(flags & ATF_COM))
			continue;
		found += inet_pton(AF_INET, ip, &e->ip) == 1 &&
			 sscanf(mac, "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", &e->mac[0], &e->mac[1],
				&e->mac[2], &e->mac[3], &e->mac[4], &e->mac[5]) == 6;
	}
	if (file)
		fclose(file);
	return found;
}

/* A neighbour while it is examined. */
struct neighbour {
	struct inc_findings *f;
	const char *where;
	const struct inc_adapter *adapter;
	struct inc_probe probe;
	char who[INC_CHECK_PEER_TEXT];
};

/* Probes with packets of a size. Returns their number that were answered, or -errno. */
static int answered(struct neighbour *n, unsigned int packets, unsigned int bytes, bool redirect,
		    struct inc_probed *out, struct inc_err *err)
{
	int ret;

	n->probe.packets = packets;
	n->probe.bytes = bytes;
	n->probe.redirect = redirect;
	ret = inc_probe(&n->probe, out, err);
	return ret ?: (int)out->received;
}

const char *inc_round_trip(const struct inc_probed *seen, char text[INC_ROUND_TRIP_TEXT])
{
	snprintf(text, INC_ROUND_TRIP_TEXT, "round trip %.3f/%.3f/%.3f ms (least/mean/most)",
		 seen->least_ns / 1e6, seen->mean_ns / 1e6, seen->most_ns / 1e6);
	return text;
}

/* Examines loss and round-trip time. Returns whether the neighbour answers. */
static bool inspect_answers(struct neighbour *n, bool must_answer)
{
	char text[INC_ROUND_TRIP_TEXT];
	struct inc_probed seen;
	struct inc_err err;
	const int ret = answered(n, PACKETS, SMALL_BYTES, false, &seen, &err);
	const enum inc_finding_level level =
		must_answer ? INC_FINDING_PROBLEM : INC_FINDING_WARNING;

	if (ret < 0)
		inc_find(n->f, INC_FINDING_SKIPPED, n->where, "answers", "%s: %.150s", n->who,
			 err.msg);
	else if (!ret)
		inc_find_fix(
			inc_find(n->f, level, n->where, "answers", "%s does not answer", n->who),
			"No job with it can begin, unless it drops ICMP.",
			"is it up, behind this port, and has it this address? ip neigh show "
			"dev %s",
			n->adapter->name);
	else if (seen.received < seen.sent)
		inc_find_fix(inc_find(n->f, INC_FINDING_PROBLEM, n->where, "answers",
				      "%s: %u of %u packets or their answers are lost", n->who,
				      seen.sent - seen.received, seen.sent),
			     "Each lost packet makes a collective wait until it is retransmitted.",
			     "examine the cable, the devices on the way, and ethtool -S %s",
			     n->adapter->name);
	else
		inc_find(n->f, INC_FINDING_OK, n->where, "answers", "%s: %u of %u packets, %s",
			 n->who, seen.received, seen.sent, inc_round_trip(&seen, text));
	return ret > 0;
}

/* Examines whether a firewall drops UDP on the way to soft endpoints. Programs may use some of the
 * ports, and their kernel then gives no answer, so several ports are tried. */
static void inspect_udp(struct neighbour *n)
{
	const struct inc_addr own = inc_addr_of_in(n->probe.own);
	const struct inc_addr peer = inc_addr_of_in(n->probe.peer);
	uint16_t port = INC_UDP_LAST_PORT;

	while (port > INC_UDP_LAST_PORT - UDP_PORTS &&
	       !inc_os.udp.refuses(&own, &peer, port, UDP_WAIT_MS))
		port--;
	if (port > INC_UDP_LAST_PORT - UDP_PORTS)
		inc_find(n->f, INC_FINDING_OK, n->where, "udp", "%s: UDP port %u is reached",
			 n->who, port);
	else
		inc_find_fix(inc_find(n->f, INC_FINDING_WARNING, n->where, "udp",
				      "%s answers ICMP, but nothing at UDP ports %u to %u", n->who,
				      port + 1, INC_UDP_LAST_PORT),
			     "If a firewall drops UDP there, jobs end by a time limit.",
			     "there: " INC_FIREWALL_COMMAND);
}

/* Looks for the largest payload whose packets are answered. Returns the size of these packets; 0:
 * there is none. */
static unsigned int inspect_size(struct neighbour *n)
{
	const unsigned int want = inc_roce_payload(n->adapter->mtu, INC_MAX_OVERHEAD);
	unsigned int payload = want;
	struct inc_probed seen;
	struct inc_err err;

	while (payload >= INC_MIN_PAYLOAD &&
	       answered(n, INC_PROBE_PATIENCE, payload + INC_MAX_OVERHEAD, false, &seen, &err) <= 0)
		payload /= 2;
	if (payload < INC_MIN_PAYLOAD)
		payload = 0;
	if (want && payload == want)
		inc_find(n->f, INC_FINDING_OK, n->where, "path mtu",
			 "%s: packets of %u bytes pass unfragmented", n->who,
			 payload + INC_MAX_OVERHEAD);
	else if (want)
		inc_find_fix(
			inc_find(n->f, INC_FINDING_PROBLEM, n->where, "path mtu",
				 "%s: packets of %u bytes are lost, and those of %u bytes pass",
				 n->who, want + INC_MAX_OVERHEAD,
				 payload ? payload + INC_MAX_OVERHEAD : SMALL_BYTES),
			"The library takes the larger ones, and its collectives end by a time "
			"limit.",
			"raise the MTU at the other end and on the way to %u, or ip link set "
			"dev %s mtu %u",
			n->adapter->mtu, n->adapter->name,
			(payload ?: INC_MIN_PAYLOAD) + INC_MAX_OVERHEAD);
	return payload ? payload + INC_MAX_OVERHEAD : 0;
}

/* bytes: the packets' size, which a page must hold with its headroom in a test run */
static void inspect_redirect(struct neighbour *n, unsigned int bytes)
{
	const bool veth = !strcmp(n->adapter->driver, "veth");
	struct inc_probed seen;
	char text[INC_ROUND_TRIP_TEXT];
	struct inc_finding *bad;
	struct inc_err err;
	const int ret = answered(n, PACKETS, bytes, true, &seen, &err);

	if (ret < 0) {
		inc_find(n->f, INC_FINDING_SKIPPED, n->where, "redirect", "%s: %.150s", n->who,
			 err.msg);
	} else if (seen.received == seen.sent) {
		inc_find(n->f, INC_FINDING_OK, n->where, "redirect",
			 "%s: %u of %u packets that XDP redirects arrive, %s", n->who,
			 seen.received, seen.sent, inc_round_trip(&seen, text));
	} else {
		bad = inc_find(n->f, INC_FINDING_PROBLEM, n->where, "redirect",
			       "%s: of %u packets that XDP redirects to it %u are lost", n->who,
			       seen.sent, seen.sent - seen.received);
		inc_find_fix(
			bad, "Results are lost until they are retransmitted.", "%s",
			veth ? "ethtool -K PEER gro off; ethtool -K PEER gro on, where PEER is the "
			       "other end of the veth"
			     : "start inc-switchd with --xdp generic or --mode termination");
	}
}

void inc_check_peer_write(const struct inc_check_peer *peer, char text[INC_CHECK_PEER_TEXT])
{
	char ip[INET_ADDRSTRLEN];

	inet_ntop(AF_INET, &peer->ip, ip, sizeof(ip));
	if (*peer->name)
		snprintf(text, INC_CHECK_PEER_TEXT, "%.32s (%s)", peer->name, ip);
	else
		snprintf(text, INC_CHECK_PEER_TEXT, "%s", ip);
}

bool inc_inspect_neighbour(struct inc_findings *f, const char *where, const struct inc_adapter *a,
			   const struct inc_check_peer *peer, enum inc_adapter_use use,
			   bool must_answer)
{
	struct neighbour n = {
		.f = f,
		.where = where,
		.adapter = a,
		.probe = {.ifname = a->name, .own = peer->own, .peer = peer->ip},
	};
	unsigned int bytes;

	inc_check_peer_write(peer, n.who);
	if (!inspect_answers(&n, must_answer))
		return false;
	inspect_udp(&n);
	bytes = inspect_size(&n);
	if (use == INC_ADAPTER_PASSTHROUGH && !inc_adapter_shows_xmit(a))
		inc_find(f, INC_FINDING_SKIPPED, where, "redirect",
			 "%s: the driver sends no redirected packets before inc-switchd runs",
			 n.who);
	else if (use == INC_ADAPTER_PASSTHROUGH && bytes)
		inspect_redirect(&n, bytes < REDIRECT_BYTES ? bytes : REDIRECT_BYTES);
	return true;
}
