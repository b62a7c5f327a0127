/* SPDX-License-Identifier: BSD-2-Clause */
/* The output of inc-connect. Names from a peer are made printable, because they may contain any
 * bytes. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "hostlib/tools/connect_tool.h"
#include "lib/base/err.h"
#include "lib/base/printable.h"

#define PORT_SIZE (INC_CONNECT_NAME_SIZE + sizeof(" port 255"))

static const char *link_text(uint8_t link_layer)
{
	return link_layer == INC_CONNECT_INFINIBAND ? "InfiniBand" : "Ethernet";
}

static void print_port(char text[PORT_SIZE], const char *device, uint8_t port)
{
	snprintf(text, PORT_SIZE, "%s port %u", device, port);
	inc_printable(text);
}

static void print_object(json_t *object)
{
	json_dumpf(object, stdout, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(6));
	putchar('\n');
	json_decref(object);
}

static json_t *zones_json(const struct inc_connect_port *port)
{
	json_t *zones = json_array();

	for (uint32_t i = 0; i < port->n_zones; i++)
		json_array_append_new(zones, json_string(port->zones[i].name));
	return zones;
}

static json_t *device_json(const struct inc_connect_device *device)
{
	const struct inc_connect_port *port;
	json_t *ports = json_array();

	for (port = device->ports; port < device->ports + device->n_ports; port++)
		json_array_append_new(ports, json_pack("{s:i, s:s, s:o}", "port", port->port,
						       "link_layer", link_text(port->link_layer),
						       "zones", zones_json(port)));
	return json_pack("{s:i, s:s, s:o}", "dev", device->dev, "dev_name", device->dev_name,
			 "ports", ports);
}

static void print_device(const struct inc_connect_device *device)
{
	const struct inc_connect_port *port;
	char text[PORT_SIZE];

	for (port = device->ports; port < device->ports + device->n_ports; port++) {
		print_port(text, device->dev_name, port->port);
		printf("  %-24s %-11s", text, link_text(port->link_layer));
		for (uint32_t i = 0; i < port->n_zones; i++) {
			char zone[INC_CONNECT_NAME_SIZE];

			memcpy(zone, port->zones[i].name, sizeof(zone));
			inc_printable(zone);
			printf("%s%s", i ? ", " : " zones ", zone);
		}
		putchar('\n');
	}
}

void connect_print_devices(const struct connect_tool *tool,
			   const struct inc_connect_devices *devices)
{
	char hostname[INC_CONNECT_HOST_SIZE];
	json_t *list;

	if (tool->json) {
		list = json_array();
		for (uint32_t i = 0; i < devices->n_devices; i++)
			json_array_append_new(list, device_json(&devices->devices[i]));
		print_object(
			json_pack("{s:s, s:o}", "hostname", devices->hostname, "devices", list));
		return;
	}
	memcpy(hostname, devices->hostname, sizeof(hostname));
	inc_printable(hostname);
	printf("%s: %s\n", hostname,
	       devices->n_devices ? "ports that are active" : "no port that is active");
	for (uint32_t i = 0; i < devices->n_devices; i++)
		print_device(&devices->devices[i]);
}

void connect_print_found(const struct connect_found *found)
{
	char remote[PORT_SIZE], local[PORT_SIZE];
	const struct inc_connect_pair *pair;

	printf("# %-22s %-24s %-11s\n", "port there", "port here", "link");
	for (pair = found->pairs; pair < found->pairs + found->n_pairs; pair++) {
		print_port(remote, pair->remote_name, pair->remote_port);
		print_port(local, pair->local_name, pair->local_port);
		printf("%-24s %-24s %-11s %s\n", remote, local, link_text(pair->link_layer),
		       inc_connect_reason_text(pair->reason));
	}
	if (found->zones_ignored)
		puts("# no pair has a zone in common, and that is allowed");
	fflush(stdout);
}

void connect_print_info(const struct inc_connect_socket_info *info)
{
	char remote[PORT_SIZE], local[PORT_SIZE], peer[INC_CONNECT_HOST_SIZE];

	print_port(remote, info->remote_name, info->remote_port);
	print_port(local, info->local_name, info->local_port);
	memcpy(peer, info->peer, sizeof(peer));
	inc_printable(peer);
	printf("# connected to %s in %.3f ms: %s, queue pair %u, to %s, queue pair %u, MTU %u\n",
	       peer, info->latency_ns / 1e6, local, info->local_qpn, remote, info->remote_qpn,
	       info->mtu_bytes);
	fflush(stdout);
}

const char *connect_mode_word(enum connect_mode mode)
{
	static const char *const words[] = {
#define WORD(number, word) [number] = word,
		CONNECT_MODES(WORD)
#undef WORD
	};

	return words[mode];
}

void connect_print_measured(const struct connect_tool *tool,
			    const struct connect_measured *measured)
{
	printf("#%5s %10s %8s %10s %10s %10s %10s %12s\n", "mode", "bytes", "iters", "min",
	       "median", "p99", "bandwidth", "operations");
	printf("#%5s %10s %8s %10s %10s %10s %10s %12s\n", "", "", "", "(us)", "(us)", "(us)",
	       "(Gbit/s)", "(1/s)");
	printf("%6s %10llu %8u %10.2f %10.2f %10.2f %10.3f %12.0f\n", connect_mode_word(tool->mode),
	       (unsigned long long)tool->bytes, tool->iters, measured->min_us, measured->median_us,
	       measured->p99_us, measured->gbps, measured->operations_per_s);
}

static json_t *end_json(uint8_t dev, const char *name, uint8_t port)
{
	return json_pack("{s:i, s:s, s:i}", "dev", dev, "dev_name", name, "port", port);
}

static json_t *found_json(const struct connect_found *found)
{
	const struct inc_connect_pair *p;
	json_t *list = json_array();

	for (p = found->pairs; p < found->pairs + found->n_pairs; p++)
		json_array_append_new(
			list,
			json_pack("{s:o, s:o, s:s, s:b, s:s}", "remote",
				  end_json(p->remote_dev, p->remote_name, p->remote_port), "local",
				  end_json(p->local_dev, p->local_name, p->local_port),
				  "link_layer", link_text(p->link_layer), "chosen",
				  p->reason == INC_CONNECT_CHOSEN, "reason",
				  inc_connect_reason_text(p->reason)));
	return json_pack("{s:o, s:b}", "pairs", list, "zones_ignored", found->zones_ignored);
}

static json_t *info_json(const struct inc_connect_socket_info *info)
{
	return json_pack("{s:s, s:s, s:i, s:s, s:i, s:s, s:I, s:I, s:I, s:f}", "peer", info->peer,
			 "local_name", info->local_name, "local_port", info->local_port,
			 "remote_name", info->remote_name, "remote_port", info->remote_port,
			 "link_layer", link_text(info->link_layer), "mtu_bytes",
			 (json_int_t)info->mtu_bytes, "local_qpn", (json_int_t)info->local_qpn,
			 "remote_qpn", (json_int_t)info->remote_qpn, "connect_us",
			 info->latency_ns / 1e3);
}

static json_t *measured_json(const struct connect_tool *tool,
			     const struct connect_measured *measured)
{
	return json_pack("{s:s, s:I, s:I, s:{s:f, s:f, s:f}, s:f, s:f}", "mode",
			 connect_mode_word(tool->mode), "bytes", (json_int_t)tool->bytes, "iters",
			 (json_int_t)tool->iters, "latency_us", "min", measured->min_us, "median",
			 measured->median_us, "p99", measured->p99_us, "bandwidth_gbps",
			 measured->gbps, "operations_per_s", measured->operations_per_s);
}

void connect_print_json(const struct connect_tool *tool, const struct connect_outcome *outcome)
{
	const char *name = inc_errno_name(-outcome->error);
	char *address = strdup(tool->host);
	json_t *error = json_null();

	if (address)
		/* the address goes into JSON, and jansson rejects text that is not UTF-8 */
		inc_printable(address);
	if (outcome->error)
		error = json_pack("{s:s?, s:s}", "errno", name, "message", outcome->why);
	print_object(
		json_pack("{s:s?, s:o, s:o, s:o, s:o}", "address", address, "choice",
			  outcome->found ? found_json(outcome->found) : json_null(), "connection",
			  outcome->info ? info_json(outcome->info) : json_null(), "measured",
			  outcome->measured ? measured_json(tool, outcome->measured) : json_null(),
			  "error", error));
	free(address);
}
