/* SPDX-License-Identifier: BSD-2-Clause */
/* The daemon's parts put together; communicators made and removed. */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "userspace/xdp/neighbour.h"
#include "userspace/xdp/packet.h"
#include "userspace/switchd.h"

static int open_switch(struct inc_daemon *d, struct inc_err *err)
{
	const struct inc_settings *s = &d->conf.settings;
	const struct inc_switch_opts opts = {
		.sz = sizeof(opts),
		.instance = d->instance,
		.max_comms = s->max_comms,
		.max_connections = s->max_connections,
		.max_rows = s->max_rows,
		.attach = d->opt.attach,
		.generic = s->generic,
		.pin = true,
		.skip_icrc = d->opt.skip_icrc,
	};
	const struct inc_slowpath_opts sp_opts = {
		.rto_min_ms = s->rto_min_ms ?: INC_DEF_RTO_MIN_MS,
		.rto_max_ms = s->rto_max_ms ?: INC_DEF_RTO_MAX_MS,
		.ack_delay_ms = s->ack_delay_ms ?: INC_DEF_ACK_DELAY_MS,
	};
	int ret;

	if (d->opt.skip_icrc)
		inc_warn("received packets are taken without a check of their ICRC");
	ret = inc_switch_open(&opts, &d->sw, err);
	if (!ret && inc_configured_init(d))
		ret = inc_err_set(err, ENOMEM, "no memory for communicators");
	return ret ?: inc_slowpath_new(d->base, d->sw, &sp_opts, inc_event_notice, d, &d->sp, err);
}

/* An attribute of an interface; 0, or -1 where there is no such interface. */
static int ask_interface(unsigned long what, const char *ifname, struct ifreq *ifr)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), ret = -1;

	memset(ifr, 0, sizeof(*ifr));
	strncpy(ifr->ifr_name, ifname, sizeof(ifr->ifr_name) - 1);
	if (fd >= 0) {
		ret = ioctl(fd, what, ifr);
		close(fd);
	}
	return ret;
}

/* Before XDP is attached: some drivers take the link down for a moment then. */
static void warn_down(const char *ifname)
{
	struct ifreq ifr;

	if (ask_interface(SIOCGIFFLAGS, ifname, &ifr))
		return;
	if (!(ifr.ifr_flags & IFF_UP))
		inc_warn("port %s is down: no host reaches it (ip link set dev %s up)", ifname,
			 ifname);
	else if (!(ifr.ifr_flags & IFF_RUNNING))
		inc_warn("port %s has no carrier: no host reaches it", ifname);
}

/* Once per port. */
static void warn_mtu(const struct inc_comm_conf *conf, uint32_t i)
{
	unsigned int need = INC_FRAME_MAX - INC_ETH_LEN - INC_MAX_PAYLOAD + conf->payload;
	const char *port = conf->conn[i].port;
	struct ifreq ifr;
	uint32_t k;

	for (k = 0; k < i; k++)
		if (!strcmp(conf->conn[k].port, port))
			return;
	if (!ask_interface(SIOCGIFMTU, port, &ifr) && (unsigned int)ifr.ifr_mtu < need)
		inc_warn("port %s: MTU %d is too small for payload %u of communicator %u, whose "
			 "packets have up to %u bytes",
			 port, ifr.ifr_mtu, conf->payload, conf->communicator, need);
}

static int open_ports(struct inc_daemon *d, struct inc_err *err)
{
	const struct inc_settings *s = &d->conf.settings;
	uint32_t i;
	int ret;

	for (i = 0; i < s->n_ports; i++) {
		warn_down(s->port[i]);
		ret = inc_switch_attach_port(d->sw, s->port[i], err);
		ret = ret
			      ?: inc_slowpath_add_port(
					 d->sp, inc_switch_port_find(d->sw, s->port[i]), err);
		if (ret)
			return ret;
	}
	return 0;
}

/* Hosts ask by ARP for the address they send to; the kernel answers, if it has it. */
static void warn_foreign_address(const struct inc_conn_conf *c)
{
	struct ifaddrs *list, *a;
	char text[INET_ADDRSTRLEN];
	bool found = false;

	if (getifaddrs(&list))
		return;
	for (a = list; a && !found; a = a->ifa_next)
		found = a->ifa_addr && a->ifa_addr->sa_family == AF_INET &&
			((struct sockaddr_in *)a->ifa_addr)->sin_addr.s_addr == c->own_ip.s_addr;
	freeifaddrs(list);
	if (!found)
		inc_warn("port %s: no interface here has %s, so rank %u may not find it", c->port,
			 inet_ntop(AF_INET, &c->own_ip, text, sizeof(text)), c->rank);
}

/* Where the peer is: as configured, else as the kernel knows its neighbour; else its first frames
 * will tell. */
static void find_peer(const struct inc_conn_conf *c, struct inc_child_spec *spec)
{
	int ret;

	if (c->has_own_mac)
		memcpy(spec->own_mac, c->own_mac, 6);
	if (c->has_peer_mac) {
		memcpy(spec->peer_mac, c->peer_mac, 6);
		spec->flags |= INC_CONN_F_FIXED_MAC;
		return;
	}
	ret = inc_neighbour_mac(spec->ifindex, c->peer_ip, spec->peer_mac);
	if (ret && ret != -ENOENT)
		inc_warn("port %s, rank %u: the kernel's neighbours cannot be read: %s", c->port,
			 c->rank, strerror(-ret));
}

static int make_spec(const struct inc_daemon *d, const struct inc_comm_conf *conf,
		     struct inc_comm_spec *spec, struct inc_err *err)
{
	uint32_t i;

	*spec = (struct inc_comm_spec){
		.communicator = conf->communicator,
		.payload = conf->payload,
		.slots = conf->slots,
		.flags = conf->byte_order == INC_ORDER_NETWORK ? INC_COMM_F_NET_ORDER : 0,
		.children = conf->n_conns,
	};
	for (i = 0; i < conf->n_conns; i++) {
		const struct inc_conn_conf *c = &conf->conn[i];
		const struct inc_switch_port *port = inc_switch_port_find(d->sw, c->port);

		if (!port)
			return inc_err_set(err, ENODEV,
					   "communicator %u, rank %u: %s is not a port of this "
					   "switch",
					   conf->communicator, c->rank, c->port);
		spec->child[i] = (struct inc_child_spec){
			.rank = c->rank,
			.ifindex = port->ifindex,
			.peer_addr = c->peer_ip.s_addr,
			.own_addr = c->own_ip.s_addr,
			.peer_qpn = c->peer_qp,
			.own_qpn = c->own_qp,
			.peer_port = c->peer_port,
			.own_port = c->own_port,
			.pkey = c->pkey,
			.flags = c->udp_csum ? INC_CONN_F_UDP_CSUM : 0,
			.rx_start_psn = c->peer_psn,
			.tx_start_psn = c->own_psn,
		};
		find_peer(c, &spec->child[i]);
	}
	return 0;
}

int inc_daemon_configure(struct inc_daemon *d, const struct inc_comm_conf *conf,
			 struct inc_err *err)
{
	struct inc_comm_spec spec;
	int ret, comm;
	uint32_t i;

	ret = make_spec(d, conf, &spec, err);
	if (ret)
		return ret;
	comm = inc_switch_add_comm(d->sw, &spec, err);
	if (comm < 0)
		return comm;
	ret = inc_configured_add(d, comm, conf);
	if (ret) {
		inc_err_set(err, -ret, "communicator %u: no memory", conf->communicator);
		goto remove;
	}
	ret = inc_slowpath_add_comm(d->sp, comm, err);
	if (ret)
		goto remove;
	ret = inc_switch_start_comm(d->sw, comm, err);
	if (ret)
		goto forget;
	for (i = 0; i < conf->n_conns; i++) {
		warn_foreign_address(&conf->conn[i]);
		warn_mtu(conf, i);
	}
	inc_info("communicator %u: %u children, payload %u, %u slots", conf->communicator,
		 conf->n_conns, conf->payload, conf->slots);
	return 0;

forget:
	inc_slowpath_remove_comm(d->sp, comm);
remove:
	inc_configured_remove(d, comm);
	inc_switch_remove_comm(d->sw, comm, NULL);
	return ret;
}

int inc_daemon_remove(struct inc_daemon *d, uint32_t communicator, struct inc_err *err)
{
	int comm = inc_switch_find_comm(d->sw, communicator), ret;
	uint64_t results;

	if (comm < 0)
		return inc_err_set(err, ENOENT, "no communicator %u", communicator);
	results = inc_switch_comm_state(d->sw)[comm].tx_next;
	inc_slowpath_remove_comm(d->sp, comm);
	inc_event_forget(d, communicator);
	inc_configured_remove(d, comm);
	ret = inc_switch_remove_comm(d->sw, comm, err);
	if (!ret)
		inc_info("communicator %u removed after %llu results", communicator,
			 (unsigned long long)results);
	return ret;
}

static int take_config(struct inc_daemon *d, struct inc_err *err)
{
	struct inc_settings settings = d->opt.settings;
	char host[256] = "";
	int ret;

	if (d->opt.config) {
		ret = inc_config_load(d->opt.config, d->opt.name, &d->conf, err);
		if (ret)
			return ret;
	} else if (d->opt.name) {
		strncpy(d->conf.name, d->opt.name, sizeof(d->conf.name) - 1);
	} else {
		gethostname(host, sizeof(host) - 1);
		host[strcspn(host, ".")] = 0;
		ret = inc_instance_name_check(host, err);
		if (ret)
			return ret;
		strcpy(d->conf.name, host);
	}
	inc_settings_merge(&settings, &d->conf.settings);
	d->conf.settings = settings;
	strcpy(d->instance, d->conf.name);
	if (d->opt.instance)
		strcpy(d->instance, d->opt.instance);
	return d->opt.config ? inc_config_fits(d->opt.config, &d->conf, err) : 0;
}

static void tell_ready(const struct inc_daemon *d)
{
	static const char text[] = "ready\n";

	inc_info("ready: switch %s, instance %s, %u ports", d->conf.name, d->instance,
		 d->conf.settings.n_ports);
	if (d->opt.ready_fd < 0)
		return;
	if (write(d->opt.ready_fd, text, sizeof(text) - 1) < 0)
		inc_warn("--ready-fd %d: %s", d->opt.ready_fd, strerror(errno));
	close(d->opt.ready_fd);
}

int inc_daemon_start(struct inc_daemon *d, struct inc_err *err)
{
	uint32_t i;
	int ret;

	d->started_ns = inc_now_ns();
	ret = take_config(d, err);
	if (ret || d->opt.check_only)
		return ret;
	d->events = json_array();
	d->failures = json_array();
	d->base = event_base_new();
	if (!d->events || !d->failures || !d->base)
		return inc_err_set(err, ENOMEM, "no event loop");
	ret = open_switch(d, err);
	ret = ret ?: open_ports(d, err);
	for (i = 0; !ret && i < d->conf.n_comms; i++)
		ret = inc_daemon_configure(d, &d->conf.comm[i], err);
	if (!ret && d->opt.controller)
		ret = inc_client_start(d, &d->client, err);
	/* last, so that who finds the socket finds a switch */
	ret = ret ?: inc_query_server_start(d, &d->server, err);
	if (!ret)
		tell_ready(d);
	return ret;
}

static void log_totals(const struct inc_daemon *d)
{
	const struct inc_slowpath_stats *s;
	struct inc_counters c;

	if (!d->sp || inc_switch_read_counters(d->sw, &c, NULL))
		return;
	s = inc_slowpath_stats(d->sp);
	inc_info(
		"received %llu = passed %llu + dropped %llu + absorbed %llu + answered %llu + "
		"multicast %llu (%s); resent %llu, timeouts %llu, NAKs served %llu, ACKs paid %llu",
		(unsigned long long)c.received, (unsigned long long)c.passed,
		(unsigned long long)c.dropped, (unsigned long long)c.absorbed,
		(unsigned long long)c.answered, (unsigned long long)c.multicast,
		c.balanced ? "balanced" : "NOT balanced", (unsigned long long)s->results_resent,
		(unsigned long long)s->timeouts, (unsigned long long)s->naks_served,
		(unsigned long long)s->acks_paid);
}

void inc_daemon_stop(struct inc_daemon *d)
{
	inc_query_server_stop(d->server);
	inc_client_stop(d->client);
	log_totals(d);
	inc_slowpath_free(d->sp);
	inc_configured_free(d);
	inc_switch_close(d->sw);
	inc_ndjson_drain_stop();
	if (d->base)
		event_base_free(d->base);
	json_decref(d->events);
	json_decref(d->failures);
	inc_config_free(&d->conf);
}
