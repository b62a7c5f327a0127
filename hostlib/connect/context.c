/* SPDX-License-Identifier: BSD-2-Clause */
/* The context: the RDMA devices of this machine. They are examined again when a device reports an
 * event, and every refresh_ms. The rest are functions that use the context's devices. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "hostlib/connect/context.h"
#include "hostlib/connect/rtr.h"
#include "hostlib/connect/select.h"
#include "lib/base/caller.h"
#include "lib/base/clock.h"
#include "lib/base/printable.h"

void connect_log(struct inc_connect *ctx, const char *fmt, ...)
{
	char line[sizeof(((struct inc_err *)0)->msg)];
	va_list ap;

	if (!ctx->log)
		return;
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	inc_printable(line);
	ctx->log(ctx->log_ctx, line);
}

struct event *connect_watch(struct inc_connect *ctx, const struct inc_connect_socket *socket,
			    event_callback_fn on_socket, void *arg)
{
	struct event *event = event_new(ctx->base, inc_connect_socket_fd(socket),
					EV_READ | EV_PERSIST, on_socket, arg);

	if (event && event_add(event, NULL)) {
		event_free(event);
		return NULL;
	}
	if (event)
		event_active(event, EV_READ, 0);
	return event;
}

void connect_arm(struct event *timer, unsigned int ms)
{
	const struct timeval tv = inc_timeval_of_ms(ms);

	event_add(timer, &tv);
}

/* Whether the port can be used for connections, so that it is in the list that peers receive. */
static bool is_usable(const struct inc_rdma_port_info *port)
{
	return connect_port_active(port) &&
	       (port->link_layer == INC_RDMA_LINK_INFINIBAND || connect_gid_of(port));
}

static const char *state_of(const struct inc_rdma_port_info *port)
{
	if (port->fault.error)
		return strerror(-port->fault.error);
	if (connect_port_active(port) && !is_usable(port))
		return "active, without a RoCE v2 address";
	return inc_rdma_port_state_name(port->state);
}

static void offer_port(const struct connect_config *config, const char *name,
		       const struct inc_rdma_port_info *port, struct inc_connect_port *offered)
{
	struct connect_zones zones;

	connect_port_zones(config, name, port, &zones);
	offered->port = port->number;
	offered->link_layer = port->link_layer;
	offered->n_zones = zones.n;
	memcpy(offered->zones, zones.zone, zones.n * sizeof(zones.zone[0]));
}

static void offer(const struct connect_config *config, const struct inc_rdma_list *list,
		  struct inc_connect_devices *devices)
{
	const struct inc_rdma_device_info *info;
	struct inc_connect_device *device;
	unsigned int i, k;

	for (i = 0; i < list->devices && devices->n_devices < INC_CONNECT_MAX_DEVICES; i++) {
		info = &list->device[i];
		device = &devices->devices[devices->n_devices];
		device->dev = info->index;
		memcpy(device->dev_name, info->name, sizeof(device->dev_name));
		for (k = 0; k < info->ports && device->n_ports < INC_CONNECT_MAX_PORTS; k++)
			if (is_usable(&info->port[k]))
				offer_port(config, info->name, &info->port[k],
					   &device->ports[device->n_ports++]);
		if (device->n_ports)
			devices->n_devices++;
	}
	/* the entry behind the last one is cleared, because a device without a usable port may have
	 * filled it */
	if (devices->n_devices < INC_CONNECT_MAX_DEVICES)
		memset(&devices->devices[devices->n_devices], 0, sizeof(devices->devices[0]));
}

void inc_connect_devices(struct inc_connect *ctx, struct inc_connect_devices *devices)
{
	const struct inc_rdma_list *list = inc_rdma_inventory_get(ctx->inventory);

	memset(devices, 0, sizeof(*devices));
	memcpy(devices->hostname, ctx->hostname, sizeof(devices->hostname));
	offer(&ctx->config, list, devices);
	inc_rdma_list_put(list);
}

static char *text_of(json_t *families)
{
	char *text = families ? connect_figures_text(families) : NULL;

	json_decref(families);
	return text;
}

char *inc_connect_figures(struct inc_connect *ctx)
{
	return text_of(connect_figures_families(ctx->counters));
}

char *inc_connect_figures_part(struct inc_connect *ctx, unsigned int part)
{
	return text_of(connect_figures_part(ctx->counters, part));
}

/* Finds a device's port in another list of devices. */
static const struct inc_rdma_port_info *same_port(const struct inc_rdma_list *list,
						  const struct inc_rdma_device_info *device,
						  const struct inc_rdma_port_info *port)
{
	device = inc_rdma_device_find(list, device->index, device->name);
	return device ? inc_rdma_port_find(device, port->number) : NULL;
}

static void log_changes(struct inc_connect *ctx, const struct inc_rdma_list *was,
			const struct inc_rdma_list *now)
{
	const struct inc_rdma_device_info *device;
	const struct inc_rdma_port_info *port, *before;

	for (device = was->device; device < was->device + was->devices; device++)
		for (port = device->port; port < device->port + device->ports; port++)
			if (!same_port(now, device, port))
				connect_log(ctx, "%s/%u: gone", device->name, port->number);
	for (device = now->device; device < now->device + now->devices; device++)
		for (port = device->port; port < device->port + device->ports; port++) {
			before = same_port(was, device, port);
			if (!before || strcmp(state_of(before), state_of(port)))
				connect_log(ctx, "%s/%u: %s", device->name, port->number,
					    state_of(port));
		}
}

static void refresh_devices(struct inc_connect *ctx)
{
	const struct inc_rdma_list *was = inc_rdma_inventory_get(ctx->inventory), *now;
	struct inc_err err;
	int ret = inc_rdma_inventory_refresh(ctx->inventory, &err);

	if (ret < 0)
		connect_log(ctx, "%s", err.msg);
	if (ret > 0) {
		now = inc_rdma_inventory_get(ctx->inventory);
		log_changes(ctx, was, now);
		inc_rdma_list_put(now);
	}
	inc_rdma_list_put(was);
}

static void on_refresh(evutil_socket_t fd, short what, void *arg)
{
	refresh_devices(arg);
}

static void on_device_event(evutil_socket_t fd, short what, void *arg)
{
	struct inc_connect *ctx = arg;

	if (inc_rdma_inventory_take(ctx->inventory))
		refresh_devices(ctx);
}

static int make_socket(struct inc_connect *ctx, const struct inc_rdma_device_info *info,
		       const struct inc_rdma_port_info *port,
		       const struct inc_connect_settings *settings,
		       struct inc_connect_socket **socket, struct inc_err *err)
{
	struct inc_rdma_device *device =
		inc_rdma_inventory_device(ctx->inventory, info->index, info->name);
	const struct connect_socket_opts opts = {
		.device = device,
		.dev = info->index,
		.port = port,
		.settings = settings,
		.hostname = ctx->hostname,
		.counters = ctx->counters,
	};
	int ret;

	if (!device)
		return inc_err_set(err, ENODEV, "%s is gone", info->name);
	ret = connect_socket_make(&opts, socket, err);
	inc_rdma_device_put(device);
	return ret;
}

int connect_make_on(struct inc_connect *ctx, uint8_t dev, const char *name, uint8_t number,
		    const struct inc_connect_settings *settings, struct inc_connect_socket **socket,
		    struct inc_err *err)
{
	const struct inc_rdma_list *list = inc_rdma_inventory_get(ctx->inventory);
	const struct inc_rdma_device_info *device = inc_rdma_device_find(list, dev, name);
	const struct inc_rdma_port_info *port = device ? inc_rdma_port_find(device, number) : NULL;
	int ret;

	if (!device)
		ret = inc_err_set(err, ENODEV, "no RDMA device '%s' with the number %u here", name,
				  dev);
	else if (device->fault.error)
		ret = inc_err_set(err, -device->fault.error, "%s: %s: %s", name, device->fault.step,
				  strerror(-device->fault.error));
	else if (!port)
		ret = inc_err_set(err, ENODEV, "%s has no port %u to be used", name, number);
	else if (!connect_port_active(port))
		ret = inc_err_set(err, ENETDOWN, "%s/%u: %s", name, number, state_of(port));
	else
		ret = make_socket(ctx, device, port, settings, socket, err);
	inc_rdma_list_put(list);
	return ret;
}

static int take_opts(struct inc_connect *ctx, const struct inc_connect_opts *opts,
		     struct inc_err *err)
{
	int ret = 0;

	connect_config_init(&ctx->config);
	if (opts->config)
		ret = connect_config_read(opts->config, &ctx->config, err);
	if (!ret && opts->settings)
		ret = connect_settings_take(opts->settings, &ctx->config.queue_pair, err);
	ctx->config.allow_no_usable_devices |= opts->allow_no_usable_devices;
	ctx->log = opts->log;
	ctx->log_ctx = opts->log_ctx;
	return ret;
}

static void name_host(struct inc_connect *ctx)
{
	if (gethostname(ctx->hostname, sizeof(ctx->hostname)))
		ctx->hostname[0] = '\0';
	ctx->hostname[sizeof(ctx->hostname) - 1] = '\0';
	inc_printable(ctx->hostname);
}

/* Checks whether the machine has a usable port, unless the configuration needs none. Returns 0, or
 * -ENODEV with the state of each port in err. */
static int check_usable(struct inc_connect *ctx, struct inc_err *err)
{
	const struct inc_rdma_list *list = inc_rdma_inventory_get(ctx->inventory);
	const struct inc_rdma_device_info *device;
	const struct inc_rdma_port_info *port;
	bool usable = ctx->config.allow_no_usable_devices;

	inc_err_set(err, ENODEV, "no RDMA %s",
		    list->devices       ? "port that can be used"
		    : list->passed_over ? "device that the file allows"
					: "device here");
	for (device = list->device; device < list->device + list->devices; device++) {
		if (device->fault.error)
			inc_err_add(err, "%s: %s", device->name, strerror(-device->fault.error));
		for (port = device->port; port < device->port + device->ports; port++) {
			usable |= is_usable(port);
			inc_err_add(err, "%s/%u: %s", device->name, port->number, state_of(port));
		}
	}
	inc_rdma_list_put(list);
	return usable ? 0 : -ENODEV;
}

static int open_devices(struct inc_connect *ctx, struct inc_err *err)
{
	struct inc_rdma_filter_entry *entries = calloc(CONNECT_MAX_ALLOWED, sizeof(*entries));
	struct inc_rdma_filter filter;
	int ret;

	if (!entries)
		return inc_err_set(err, ENOMEM, "RDMA devices: %s", strerror(ENOMEM));
	connect_config_filter(&ctx->config, entries, &filter);
	ret = ctx->config.fork_safe ? inc_rdma_fork_safe() : 0;
	if (ret)
		inc_err_set(err, -ret, "fork_safe: %s", strerror(-ret));
	else
		ret = inc_rdma_inventory_open(&filter, &ctx->inventory, err);
	free(entries);
	return ret ?: check_usable(ctx, err);
}

static int watch_devices(struct inc_connect *ctx, struct inc_err *err)
{
	const struct timeval every = inc_timeval_of_ms(ctx->config.refresh_ms);

	ctx->counters = connect_counters_new();
	ctx->device_events = event_new(ctx->base, inc_rdma_inventory_fd(ctx->inventory),
				       EV_READ | EV_PERSIST, on_device_event, ctx);
	ctx->refresh = event_new(ctx->base, -1, EV_PERSIST, on_refresh, ctx);
	if (!ctx->counters || !ctx->device_events || event_add(ctx->device_events, NULL) ||
	    !ctx->refresh || event_add(ctx->refresh, &every))
		return inc_err_set(err, ENOMEM, "%s", strerror(ENOMEM));
	return 0;
}

int inc_connect_create(struct event_base *base, const struct inc_connect_opts *given,
		       struct inc_connect **out)
{
	struct inc_connect *ctx = calloc(1, sizeof(*ctx));
	struct inc_connect_opts opts;
	struct inc_err err;
	int ret = inc_caller_opts(&opts, sizeof(opts), given);

	if (ret)
		inc_err_set(&err, -ret, INC_CALLER_OPTS_REFUSED);
	else if (!base)
		ret = inc_err_set(&err, EINVAL, "no event base");
	else if (!ctx)
		ret = inc_err_set(&err, ENOMEM, "%s", strerror(ENOMEM));
	if (!ret) {
		ctx->base = base;
		connect_peers_init(&ctx->peers);
		name_host(ctx);
		ret = take_opts(ctx, &opts, &err) ?: open_devices(ctx, &err)
						   ?: watch_devices(ctx, &err);
	}
	if (ret) {
		inc_caller_explain(opts.error, opts.error_size, &err);
		inc_connect_destroy(ctx);
		return ret;
	}
	*out = ctx;
	return 0;
}

void inc_connect_destroy(struct inc_connect *ctx)
{
	if (!ctx)
		return;
	while (!LIST_EMPTY(&ctx->services))
		inc_connect_service_close(LIST_FIRST(&ctx->services));
	while (!LIST_EMPTY(&ctx->requests))
		inc_connect_cancel(LIST_FIRST(&ctx->requests));
	connect_rtr_stop_all(ctx);
	inc_ndjson_drain_stop(&ctx->draining);
	if (ctx->device_events)
		event_free(ctx->device_events);
	if (ctx->refresh)
		event_free(ctx->refresh);
	connect_counters_release(ctx->counters);
	inc_rdma_inventory_close(ctx->inventory);
	connect_peers_free(&ctx->peers);
	free(ctx);
}
