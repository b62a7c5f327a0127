/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/* Which interfaces count as a port, in a network namespace that the test makes. They are the port
 * itself, also if it is renamed or made again, the bridge that the port joins, and loopback. No
 * other interface counts. The last tests send packets to channels at two ports, by one socket. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include "lib/base/clock.h"
#include "userspace/interface.h"
#include "lib/channel/channel.h"
#include "lib/channel/ingress.h"
#include "lib/proto/roce.h"
#include "selftests/fakes/rc_peer.h"

#define LOOPBACK 1

static uint64_t now_ns = INC_NSEC_PER_SEC;

static void ip(const char *args)
{
	char command[256];

	snprintf(command, sizeof(command), "ip link %s", args);
	assert_int_equal(system(command), 0);
	now_ns += INC_NSEC_PER_SEC;
}

static bool ok(struct inc_channel_ingress *in, const char *ifname)
{
	return inc_channel_ingress_ok(in, if_nametoindex(ifname), now_ns);
}

static int setup(void **state)
{
	ip("add p0 type veth peer name x0");
	ip("add p1 type veth peer name x1");
	return 0;
}

static int teardown(void **state)
{
	ip("del p0");
	ip("del p1");
	return 0;
}

static void test_own(void **state)
{
	struct inc_channel_ingress in;

	assert_int_equal(inc_channel_ingress_init(&in, "p0", NULL), 0);
	assert_false(ok(&in, "p1"));
	assert_true(ok(&in, "p0"));
	assert_false(ok(&in, "p1"));
	assert_true(ok(&in, "lo"));
	assert_int_equal(if_nametoindex("lo"), LOOPBACK);
	/* interface 0: the kernel has named no interface */
	assert_false(inc_channel_ingress_ok(&in, 0, now_ns));
}

static void test_renamed(void **state)
{
	const unsigned int index = if_nametoindex("p0");
	struct inc_channel_ingress in;

	assert_int_equal(inc_channel_ingress_init(&in, "p0", NULL), 0);
	assert_true(ok(&in, "p0"));
	ip("set p0 name q0");
	assert_true(inc_channel_ingress_ok(&in, index, now_ns));
	assert_false(ok(&in, "p1"));
	assert_true(inc_channel_ingress_ok(&in, index, now_ns));
	ip("set q0 name p0");
}

/* The port is renamed, and another interface gets its name, before the first packet arrives. */
static void test_renamed_first(void **state)
{
	const unsigned int index = if_nametoindex("p0");
	struct inc_channel_ingress in;

	assert_int_equal(inc_channel_ingress_init(&in, "p0", NULL), 0);
	ip("set p0 name q0");
	ip("set p1 name p0");
	assert_true(inc_channel_ingress_ok(&in, index, now_ns));
	assert_false(ok(&in, "p0"));
	ip("set p0 name p1");
	ip("set q0 name p0");
}

static void test_made_again(void **state)
{
	const unsigned int index = if_nametoindex("p0");
	struct inc_channel_ingress in;

	assert_int_equal(inc_channel_ingress_init(&in, "p0", NULL), 0);
	assert_true(ok(&in, "p0"));
	ip("del p0");
	ip("add p0 type veth peer name x0");
	assert_int_not_equal(if_nametoindex("p0"), index);
	assert_true(ok(&in, "p0"));
	assert_false(inc_channel_ingress_ok(&in, index, now_ns));
}

/* An interface that gets the port's name does not become the port, and the port remains the
 * port. */
static void test_names_exchanged(void **state)
{
	const unsigned int own = if_nametoindex("p0"), other = if_nametoindex("p1");
	struct inc_channel_ingress in;

	assert_int_equal(inc_channel_ingress_init(&in, "p0", NULL), 0);
	assert_true(ok(&in, "p0"));
	ip("set p0 name q0");
	ip("set p1 name p0");
	ip("set q0 name p1");
	assert_false(inc_channel_ingress_ok(&in, other, now_ns));
	assert_true(inc_channel_ingress_ok(&in, own, now_ns));
	ip("del p1");
	assert_true(inc_channel_ingress_ok(&in, other, now_ns));
	assert_false(inc_channel_ingress_ok(&in, own, now_ns));
	ip("add p1 type veth peer name x0");
}

/* Packets that arrive by foreign interfaces do not each cause a query of the kernel. */
static void test_asks_seldom(void **state)
{
	struct inc_channel_ingress in;

	assert_int_equal(inc_channel_ingress_init(&in, "p0", NULL), 0);
	assert_false(ok(&in, "p1"));
	assert_int_equal(in.ifindex, if_nametoindex("p0"));
	in.ifindex = 0;
	now_ns += 99 * INC_NSEC_PER_MSEC;
	assert_false(ok(&in, "p0"));
	now_ns += INC_NSEC_PER_MSEC;
	assert_true(ok(&in, "p0"));
}

static void test_bridge(void **state)
{
	struct inc_channel_ingress in;

	assert_int_equal(inc_channel_ingress_init(&in, "p0", NULL), 0);
	ip("add br0 type bridge");
	assert_false(ok(&in, "br0"));
	ip("set p1 master br0");
	assert_false(ok(&in, "br0"));
	ip("set p0 master br0");
	assert_true(ok(&in, "br0"));
	assert_true(ok(&in, "p0"));
	assert_false(ok(&in, "p1"));
	ip("set p0 nomaster");
	assert_false(ok(&in, "br0"));
	ip("del br0");
}

static void test_find(void **state)
{
	struct inc_interface_place place;

	assert_int_equal(inc_interface_find("p0", &place), 0);
	assert_int_equal(place.ifindex, if_nametoindex("p0"));
	assert_int_equal(place.master, 0);
	assert_int_equal(inc_interface_find("p9", &place), -ENODEV);
	assert_int_equal(inc_interface_at(if_nametoindex("p1"), &place), 0);
	assert_int_equal(place.ifindex, if_nametoindex("p1"));
	assert_int_equal(inc_interface_at(0, &place), -ENODEV);
	assert_int_equal(inc_interface_at(1 << 30, &place), -ENODEV);
}

/* While it is not 0, the kernel's answers describe a device of this VLAN, above interface 1. away:
 * that interface is in another network namespace. */
static struct {
	uint16_t vlan;
	uint16_t protocol;
	bool away;
} pretend;

static size_t add_attribute(uint8_t *at, uint16_t type, const void *data, size_t size)
{
	const struct rtattr attr = {.rta_type = type, .rta_len = RTA_LENGTH(size)};

	memcpy(at, &attr, sizeof(attr));
	memcpy(at + RTA_LENGTH(0), data, size);
	return RTA_SPACE(size);
}

ssize_t recv(int fd, void *buffer, size_t size, int flags)
{
	ssize_t n = syscall(SYS_recvfrom, fd, buffer, size, flags, NULL, NULL);
	uint8_t data[64] = {}, info[128] = {}, *end = (uint8_t *)buffer + n;
	const int32_t zero = 0;
	const uint32_t one = 1;
	size_t len, kind;

	if (n <= 0 || !pretend.vlan)
		return n;
	len = add_attribute(data, IFLA_VLAN_ID, &pretend.vlan, sizeof(pretend.vlan));
	len += add_attribute(data + len, IFLA_VLAN_PROTOCOL, &pretend.protocol,
			     sizeof(pretend.protocol));
	kind = add_attribute(info, IFLA_INFO_KIND, "vlan", sizeof("vlan"));
	len = add_attribute(info + kind, IFLA_INFO_DATA, data, len);
	end += add_attribute(end, IFLA_LINKINFO, info, kind + len);
	end += add_attribute(end, IFLA_LINK, &one, sizeof(one));
	if (pretend.away)
		end += add_attribute(end, IFLA_LINK_NETNSID, &zero, sizeof(zero));
	((struct nlmsghdr *)buffer)->nlmsg_len = end - (uint8_t *)buffer;
	return end - (uint8_t *)buffer;
}

/* Interfaces in different network namespaces may have the same index, so the interface below a VLAN
 * device is not taken for one of this namespace. */
static void test_vlan(void **state)
{
	struct inc_interface_place place;
	char device[IF_NAMESIZE];

	assert_int_equal(inc_interface_find("p0", &place), 0);
	assert_false(place.is_vlan || place.below);
	pretend.vlan = 5;
	pretend.protocol = htons(ETH_P_8021Q);
	assert_int_equal(inc_interface_find("p0", &place), 0);
	assert_true(place.is_vlan && place.vlan == 5 && place.below == 1 && !place.service_tag);
	assert_int_equal(inc_interface_device("p0", device), 0);
	assert_string_equal(device, "lo");
	pretend.protocol = htons(ETH_P_8021AD);
	pretend.away = true;
	assert_int_equal(inc_interface_find("p0", &place), 0);
	assert_true(place.is_vlan && place.vlan == 5 && !place.below && place.service_tag);
	assert_int_equal(inc_interface_device("p0", device), 0);
	assert_string_equal(device, "p0");
	pretend.vlan = 0;
	assert_int_equal(inc_interface_device("p9", device), -ENODEV);
}

/* A channel whose port the kernel cannot be asked for would drop all packets, so it is not made. */
static void test_no_descriptor(void **state)
{
	const struct inc_channel_device_opts device = {
		.own_ip = inc_addr_of_ipv4(htonl(INADDR_LOOPBACK))};
	const struct inc_channel_opts opts = {
		.ifname = "p0", .payload = 1024, .messages = 1, .what = "the channel"};
	struct inc_channel_device *dev;
	struct inc_channel_own own;
	struct inc_channel *ch;
	struct rlimit all, few;
	struct inc_err err;
	int last = dup(STDERR_FILENO), ret;

	close(last);
	getrlimit(RLIMIT_NOFILE, &all);
	assert_int_equal(system("ip link set lo up"), 0);
	assert_int_equal(inc_channel_soft.open(&device, &dev, &err), 0);
	few = (struct rlimit){.rlim_cur = last, .rlim_max = all.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	ret = inc_channel_soft.make(dev, &opts, &ch, &own, &err);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &all), 0);
	assert_int_equal(ret, -EMFILE);
	assert_string_equal(err.msg, "the channel: port p0: Too many open files");
	assert_int_equal(inc_channel_soft.make(dev, &opts, &ch, &own, &err), 0);
	inc_channel_soft.shut(ch, 0);
	inc_channel_soft.close(dev);
	assert_int_equal(dup(STDERR_FILENO), last);
	close(last);
}

/* ---- channels at two ports ---- */

#define PORTS       2
#define PORT_IP(i)  (0x0a090001 + ((i) << 8)) /* 10.9.i.1 and 10.9.i.2 */
#define PEER_IP(i)  (PORT_IP(i) + 1)
#define PAYLOAD     256
#define OWN_PSN     500
#define PEER_PSN    70
#define PATIENCE_NS (10 * INC_NSEC_PER_SEC)

struct at_port {
	struct inc_channel *ch;
	struct rc_peer peer;
	uint8_t in[PAYLOAD];
	unsigned int n_got, n_given, n_sent, n_lost;
};

static struct {
	pid_t other; /* a process in the network namespace of the peers */
	struct inc_channel_device *dev;
	struct at_port at[PORTS];
	unsigned int n_logged;
} net;

static void shell(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void shell(const char *fmt, ...)
{
	char command[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(command, sizeof(command), fmt, ap);
	va_end(ap);
	assert_int_equal(system(command), 0);
}

/* Starts a process that stays in a network namespace of its own. */
static pid_t start_other(void)
{
	int ready[2];
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (!unshare(CLONE_NEWNET) && write(ready[1], "", 1) == 1)
			pause();
		_exit(1);
	}
	assert_int_equal(read(ready[0], &(char){0}, 1), 1);
	close(ready[0]);
	close(ready[1]);
	return pid;
}

/* Makes port i, whose other end is in the peers' namespace. */
static void make_port(unsigned int i)
{
	shell("ip link add p%u type veth peer name x%u netns %d", i, i, net.other);
	shell("ip address add 10.9.%u.1/24 dev p%u && ip link set p%u up", i, i, i);
	shell("nsenter -n -t %d sh -c 'ip address add 10.9.%u.2/24 dev x%u && ip link set x%u up'",
	      net.other, i, i, i);
	shell("for n in all default p%u; do echo 0 >/proc/sys/net/ipv4/conf/$n/rp_filter; done", i);
}

/* Opens the peer's socket in its namespace, where it stays. */
static uint16_t open_peer(struct at_port *at, unsigned int i)
{
	const int own = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	uint16_t port;
	char path[64];
	int ns;

	snprintf(path, sizeof(path), "/proc/%d/ns/net", net.other);
	ns = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(own >= 0 && ns >= 0);
	assert_int_equal(setns(ns, CLONE_NEWNET), 0);
	port = rc_peer_open_at(&at->peer, PEER_IP(i));
	assert_int_equal(setns(own, CLONE_NEWNET), 0);
	close(ns);
	close(own);
	return port;
}

static void on_message(void *ctx, const struct inc_channel_message *m)
{
	struct at_port *at = ctx;

	at->n_got++;
	assert_int_equal(inc_channel_soft.post(at->ch, m->buffer), 0);
}

static void on_sent(void *ctx)
{
	((struct at_port *)ctx)->n_sent++;
}

static void on_lost(void *ctx, const struct inc_channel_loss *loss)
{
	((struct at_port *)ctx)->n_lost++;
}

static void on_log(void *ctx, enum inc_log_level level, const char *fmt, ...)
{
	net.n_logged++;
}

static void make_channel(struct at_port *at, unsigned int i)
{
	char name[IF_NAMESIZE];
	const struct inc_channel_opts opts = {
		.own = {.ip = inc_addr_of_ipv4(htonl(PORT_IP(i))), .psn = OWN_PSN},
		.ifname = name,
		.pkey = INC_PKEY_DEFAULT,
		.payload = PAYLOAD,
		.max_message_bytes = PAYLOAD,
		.messages = 4,
		.what = "the channel",
		.ctx = at};
	const struct inc_channel_peer peer = {.end.ip = inc_addr_of_ipv4(htonl(PEER_IP(i))),
					      .end.udp_port = open_peer(at, i),
					      .end.qpn = RC_PEER_QPN,
					      .end.psn = PEER_PSN};
	struct inc_channel_own own;
	struct inc_err err = {""};

	snprintf(name, sizeof(name), "p%u", i);
	if (inc_channel_soft.make(net.dev, &opts, &at->ch, &own, &err) ||
	    inc_channel_soft.connect(at->ch, &peer, &err))
		fail_msg("%s", err.msg);
	assert_int_equal(inc_channel_soft.post(at->ch, at->in), 0);
	rc_peer_connect(&at->peer, own.end.udp_port, own.end.qpn, OWN_PSN, PEER_PSN);
	rc_peer_channel_at(&at->peer, PORT_IP(i));
}

static int setup_channels(void **state)
{
	static const struct inc_channel_handler handler = {on_message, on_sent, on_lost};
	const struct inc_channel_device_opts opts = {.own_ip = inc_addr_of_ipv4(INADDR_ANY),
						     .rto_min_ns = 5 * INC_NSEC_PER_MSEC,
						     .rto_max_ns = 20 * INC_NSEC_PER_MSEC,
						     .handler = &handler,
						     .log = on_log};
	struct inc_err err = {""};
	unsigned int i;

	memset(&net, 0, sizeof(net));
	net.other = start_other();
	if (inc_channel_soft.open(&opts, &net.dev, &err))
		fail_msg("%s", err.msg);
	for (i = 0; i < PORTS; i++) {
		make_port(i);
		make_channel(&net.at[i], i);
	}
	return 0;
}

static int teardown_channels(void **state)
{
	unsigned int i;

	for (i = 0; i < PORTS; i++) {
		inc_channel_soft.shut(net.at[i].ch, 0);
		rc_peer_close(&net.at[i].peer);
		ip(i ? "del p1" : "del p0");
	}
	inc_channel_soft.close(net.dev);
	kill(net.other, SIGKILL);
	waitpid(net.other, NULL, 0);
	return 0;
}

static void turn(void)
{
	while (inc_channel_soft.progress(net.dev))
		;
	inc_channel_soft.flush(net.dev);
}

static void give(struct at_port *at)
{
	rc_peer_send(&at->peer, &(struct rc_packet){.opcode = INC_OP_SEND_ONLY,
						    .psn = PEER_PSN + at->n_given,
						    .payload = "four",
						    .len = 4});
}

static uint64_t wrong_port(void)
{
	struct inc_channel_device_figures f;

	inc_channel_soft.device_figures(net.dev, &f);
	return f.wrong_port;
}

/* Gives messages until one has arrived, as a peer that retransmits does. */
static void exchange(struct at_port *at)
{
	const uint64_t end_ns = inc_now_ns() + PATIENCE_NS;
	const unsigned int sent = at->n_sent;
	struct inc_roce_packet pkt;

	while (at->n_got == at->n_given) {
		assert_true(inc_now_ns() < end_ns);
		give(at);
		turn();
	}
	at->n_given++;
	assert_int_equal(inc_channel_soft.send(at->ch, "sent", 4, false, 0), 0);
	while (at->n_sent == sent) {
		assert_true(inc_now_ns() < end_ns);
		turn();
		while (rc_peer_receive(&at->peer, &pkt, 0))
			if (pkt.opcode == INC_OP_SEND_ONLY)
				rc_peer_ack(&at->peer, INC_AETH_ACK, pkt.psn);
	}
	assert_int_equal(at->n_got, at->n_given);
	assert_int_equal(at->n_lost, 0);
}

/* A packet that is right but for its port is dropped and counted, although the channel of the port
 * where it arrives has the same socket. */
static void test_other_port(void **state)
{
	const uint64_t end_ns = inc_now_ns() + PATIENCE_NS;
	struct at_port *at = &net.at[0];

	exchange(&net.at[0]);
	exchange(&net.at[1]);
	shell("nsenter -n -t %d ip route add 10.9.0.1/32 via 10.9.1.1 dev x1", net.other);
	for (give(at); !wrong_port(); turn())
		assert_true(inc_now_ns() < end_ns);
	assert_int_equal(wrong_port(), 1);
	assert_int_equal(at->n_got, at->n_given);
	assert_int_equal(net.n_logged, 1);
	exchange(&net.at[1]);
	shell("nsenter -n -t %d ip route del 10.9.0.1/32 via 10.9.1.1 dev x1", net.other);
	exchange(at);
	assert_int_equal(wrong_port(), 1);
}

/* A port disappears with its address, while its channel has something to send. The other port's
 * channel goes on meanwhile, and this one does when the port is made again. */
static void test_port_gone(void **state)
{
	unsigned int sent;

	exchange(&net.at[0]);
	ip("del p0");
	sent = net.at[0].n_sent;
	assert_int_equal(inc_channel_soft.send(net.at[0].ch, "gone", 4, false, 0), 0);
	exchange(&net.at[1]);
	assert_int_equal(net.at[0].n_sent, sent);
	make_port(0);
	exchange(&net.at[0]);
	exchange(&net.at[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_own, setup, teardown),
		cmocka_unit_test_setup_teardown(test_renamed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_renamed_first, setup, teardown),
		cmocka_unit_test_setup_teardown(test_made_again, setup, teardown),
		cmocka_unit_test_setup_teardown(test_names_exchanged, setup, teardown),
		cmocka_unit_test_setup_teardown(test_asks_seldom, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bridge, setup, teardown),
		cmocka_unit_test_setup_teardown(test_find, setup, teardown),
		cmocka_unit_test_setup_teardown(test_vlan, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_descriptor, setup, teardown),
		cmocka_unit_test_setup_teardown(test_other_port, setup_channels, teardown_channels),
		cmocka_unit_test_setup_teardown(test_port_gone, setup_channels, teardown_channels),
	};

	if (unshare(CLONE_NEWNET)) {
		printf("skip term ingress: needs root (network namespaces)\n");
		return 0;
	}
	return cmocka_run_group_tests_name("term ingress", tests, NULL, NULL);
}
