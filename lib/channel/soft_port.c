/* SPDX-License-Identifier: BSD-2-Clause */
/* Addresses and ports of soft channels. Channels of one port share its state. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include "lib/channel/soft_priv.h"

/* Whether the address is one of this machine. If it is not, no packet from it could be sent.
 * ifname: name of the port for the error, or NULL. */
static int check_address(struct inc_addr own_ip, const char *ifname, struct inc_err *err)
{
	struct inc_udp udp;
	struct inc_err why;
	int ret = inc_udp_open(&udp, own_ip, 0, 0, &why);

	inc_udp_close(&udp);
	return ret ? inc_err_set(err, -ret, "%s%s%s%s", ifname ? "port " : "", ifname ?: "",
				 ifname ? ": " : "", why.msg)
		   : 0;
}

/* Makes the socket's buffers larger if the device has more ports than ever before. */
static void grow_buffers(struct soft_device *dev)
{
	const int64_t bytes = (int64_t)dev->n_ports * dev->buffer_bytes;

	if (bytes <= dev->granted_bytes || bytes > INT_MAX)
		return;
	dev->granted_bytes = bytes;
	inc_udp_grow(&dev->udp, bytes);
}

static int use_port(struct soft_channel *ch, const char *ifname, struct inc_err *err)
{
	struct soft_device *dev = soft_device_of(ch);
	struct soft_port *port;
	int ret;

	LIST_FOREACH (port, &dev->ports, entry)
		if (!strcmp(port->ingress.ifname, ifname))
			break;
	if (!port) {
		port = calloc(1, sizeof(*port));
		if (!port)
			return inc_err_set(err, ENOMEM, "%s", strerror(ENOMEM));
		ret = inc_channel_ingress_init(&port->ingress, ifname, err);
		if (ret) {
			free(port);
			return ret;
		}
		LIST_INSERT_HEAD(&dev->ports, port, entry);
		dev->n_ports++;
		grow_buffers(dev);
	}
	port->users++;
	ch->port = port;
	return 0;
}

int inc_soft_place(struct soft_channel *ch, const struct inc_channel_opts *opts,
		   struct inc_err *err)
{
	struct soft_device *dev = soft_device_of(ch);
	const bool everywhere = !inc_addr_given(dev->own_ip);
	struct inc_err why;
	int ret = 0;

	ch->own_ip = everywhere ? opts->own.ip : dev->own_ip;
	if (inc_addr_is_ipv4(ch->own_ip) != inc_addr_is_ipv4(dev->own_ip))
		return inc_err_set(err, EAFNOSUPPORT, "%s: its device has %s addresses alone",
				   opts->what, inc_addr_family(dev->own_ip));
	if (everywhere)
		ret = check_address(ch->own_ip, opts->ifname, &why);
	if (!ret && !dev->shows_arrival && (opts->ifname || everywhere)) {
		ret = inc_udp_show_arrival(&dev->udp, &why);
		dev->shows_arrival = !ret;
	}
	if (!ret && opts->ifname)
		ret = use_port(ch, opts->ifname, &why);
	return ret ? inc_err_set(err, -ret, "%s: %s", opts->what, why.msg) : 0;
}

void inc_soft_set_paths(struct soft_channel *ch, const struct inc_rc_end *peer)
{
	const struct soft_device *dev = soft_device_of(ch);
	struct inc_tx_peer *to = &ch->tx.to;

	inc_addr_to_sockaddr(peer->ip, peer->udp_port, &to->addr);
	to->source = inc_addr_given(dev->own_ip) ? (struct inc_addr){} : ch->own_ip;
	to->path = (struct inc_udp_path){
		.saddr = ch->own_ip,
		.daddr = peer->ip,
		.sport = dev->udp.port,
		.dport = peer->udp_port,
		.df = true,
	};
	ch->from_peer = (struct inc_udp_path){
		.saddr = peer->ip,
		.daddr = ch->own_ip,
		.sport = peer->udp_port,
		.dport = dev->udp.port,
		.df = true,
	};
}

void inc_soft_leave_port(struct soft_channel *ch)
{
	struct soft_port *port = ch->port;

	ch->port = NULL;
	if (!port || --port->users)
		return;
	soft_device_of(ch)->n_ports--;
	LIST_REMOVE(port, entry);
	free(port);
}
