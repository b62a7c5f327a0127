/* SPDX-License-Identifier: BSD-2-Clause */
/* inc-controller: options, listeners, signals. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <arpa/inet.h>
#include "lib/base/addr.h"
#include "lib/net/hostport.h"
#include "lib/net/listen.h"
#include "lib/net/loop.h"
#include "lib/net/tls.h"
#include "lib/base/clock.h"
#include "controller/net/ctl.h"
#include "controller/net/address_limit.h"
#include "controller/store/lease.h"
#include "lib/base/log.h"
#include "lib/base/notify.h"
#include "lib/base/opt.h"
#include "lib/base/stdout.h"

#define DAY_MS 86400000
/* most connections on each port that the kernel keeps until they are accepted */
#define BACKLOG 512

static const struct inc_opt options[] = {
	{.name = "topology",
	 .value = "FILE",
	 .help = "hosts, switches and links (docs/control.md); required without --plan or "
		 "--discover",
	 INC_OPT_TEXT(struct inc_ctl_options, topology, inc_path_check)},
	{.name = "check",
	 .help = "only check the topology file, print what it has, and end; no key is needed",
	 INC_OPT_FLAG(struct inc_ctl_options, check)},
	{.name = "database",
	 .value = "FILE",
	 .preset = INC_PERSIST_DEFAULT,
	 .help = "where groups and communicators are kept, so that they outlive the controller: a "
		 "file, which one controller at a time can have; "
		 "etcd://HOST[:PORT][,...]/PREFIX, of whose controllers one leads; or none",
	 INC_OPT_TEXT(struct inc_ctl_options, database, inc_database_check)},
	{.name = "etcd-ca",
	 .value = "FILE",
	 .help = "PEM file with the CA of the etcd's certificates: use HTTPS (default: HTTP)",
	 INC_OPT_TEXT(struct inc_ctl_options, etcd.ca, inc_path_check)},
	{.name = "etcd-cert",
	 .value = "FILE",
	 .help = "PEM file with the certificate for the etcd",
	 INC_OPT_TEXT(struct inc_ctl_options, etcd.cert, inc_path_check)},
	{.name = "etcd-key",
	 .value = "FILE",
	 .help = "PEM file with the private key of that certificate",
	 INC_OPT_TEXT(struct inc_ctl_options, etcd.key, inc_path_check)},
	{.name = "listen",
	 .value = "ADDR",
	 .preset = "0.0.0.0",
	 .help = "IPv4 address to listen on",
	 INC_OPT_TEXT(struct inc_ctl_options, listen, inc_ipv4_check)},
	{.name = "member-port",
	 .value = "PORT",
	 .preset = INC_STR(INC_PORT_MEMBERS),
	 .help = "for members and tools; 0: any free one",
	 INC_OPT_NUMBER(struct inc_ctl_options, member_port, 0, 65535)},
	{.name = "switch-port",
	 .value = "PORT",
	 .preset = INC_STR(INC_PORT_SWITCHES),
	 .help = "for switches; 0: any free one",
	 INC_OPT_NUMBER(struct inc_ctl_options, switch_port, 0, 65535)},
	{.name = "group-timeout-ms",
	 .value = "MS",
	 .preset = "60000",
	 .help = "how long ranks wait for each other",
	 INC_OPT_NUMBER(struct inc_ctl_options, group_timeout_ms, 1, DAY_MS)},
	{.name = "client-timeout-ms",
	 .value = "MS",
	 .preset = "10000",
	 .help = "for a message to be completed, and for a client without a group to say something",
	 INC_OPT_NUMBER(struct inc_ctl_options, client_timeout_ms, 1, DAY_MS)},
	{.name = "switch-timeout-ms",
	 .value = "MS",
	 .preset = "5000",
	 .help = "for a switch to answer",
	 INC_OPT_NUMBER(struct inc_ctl_options, switch_timeout_ms, 1, DAY_MS)},
	{.name = "member-timeout-ms",
	 .value = "MS",
	 .preset = "3000",
	 .help = "a member that does not answer for so long is lost, as one whose process has "
		 "ended; "
		 "0: a member may be silent for ever",
	 INC_OPT_NUMBER(struct inc_ctl_options, member_timeout_ms, 0, DAY_MS)},
	{.name = "max-clients",
	 .value = "N",
	 .preset = "4096",
	 .help = "connections on the member port; fewer where the limit of open files, ulimit -n, "
		 "does not allow them",
	 INC_OPT_NUMBER(struct inc_ctl_options, max_clients, 1, 1 << 20)},
	{.name = "peer-connections",
	 .value = "N",
	 .preset = "1024",
	 .help = "connections of one address, on both ports",
	 INC_OPT_NUMBER(struct inc_ctl_options, peer_connections, 1, 1 << 20)},
	{.name = "peer-messages",
	 .value = "N",
	 .preset = "5000",
	 .help = "messages a second of one address: what comes faster waits; 0: any number",
	 INC_OPT_NUMBER(struct inc_ctl_options, peer_messages_s, 0, 1000000)},
	{.name = "metrics",
	 .value = "ADDRESS[:PORT]",
	 .help = "answer GET /metrics there over HTTP with all figures, as Prometheus reads them; "
		 "without a port: any free one, which the log names (default: nowhere)",
	 INC_OPT_TEXT(struct inc_ctl_options, metrics, inc_scrape_check)},
	{.name = "http",
	 .value = "ADDRESS[:PORT]",
	 .help = "show a page for a browser there over HTTP: the topology with the rates of its "
		 "links, jobs, waits and events; without a port: any free one, which the log names "
		 "(default: nowhere)",
	 INC_OPT_TEXT(struct inc_ctl_options, http, inc_scrape_check)},
	{.name = "job-communicators",
	 .value = "N",
	 .preset = INC_STR(INC_MAX_GROUP_COMMS),
	 .help = "quota: communicators of one job, in all groups of its name, at a time",
	 INC_OPT_NUMBER(struct inc_ctl_options, job_communicators, 1, 1 << 20)},
	{.name = "job-slots",
	 .value = "N",
	 .preset = "0",
	 .help = "quota: slots of all communicators of one job, each counted once, however many "
		 "switches its tree has; 0: any number",
	 INC_OPT_NUMBER(struct inc_ctl_options, job_slots, 0, 1 << 30)},
	{.name = "insecure",
	 .help = "without keys: let anybody who reaches the ports rule the switches. Needed where "
		 "--listen is not an address of this machine alone",
	 INC_OPT_FLAG(struct inc_ctl_options, insecure)},
	{},
};

static int check_options(void *settings)
{
	const struct inc_ctl_options *opt = settings;

	if (opt->plan.topology)
		return 0;
	if (opt->discover.wanted && opt->topology)
		return inc_usage("--discover and --topology exclude each other");
	if (!opt->discover.wanted && !opt->topology)
		return inc_usage("--topology is missing");
	if (opt->check && opt->topology)
		return 0;
	if (opt->member_port && opt->member_port == opt->switch_port)
		return inc_usage("--member-port and --switch-port are both %u", opt->member_port);
	if ((opt->etcd.ca || opt->etcd.cert || opt->etcd.key) && !inc_etcd_wanted(opt->database))
		return inc_usage(
			"--etcd-ca, --etcd-cert and --etcd-key need --database etcd://...");
	if (!opt->etcd.cert != !opt->etcd.key)
		return inc_usage("--etcd-cert and --etcd-key need each other");
	if (opt->etcd.cert && !opt->etcd.ca)
		return inc_usage("--etcd-cert needs --etcd-ca");
	if (opt->insecure && inc_tls_wanted(&opt->tls))
		return inc_usage("--insecure and keys exclude each other");
	if (!opt->insecure && !inc_tls_wanted(&opt->tls) && strncmp(opt->listen, "127.", 4))
		return inc_usage("without keys anybody who reaches %s rules the switches: give "
				 "--key FILE or certificates, --listen 127.0.0.1, or --insecure",
				 opt->listen);
	return 0;
}

static const struct inc_program program = {
	.name = "inc-controller",
	.man_section = 8,
	.brief = "the control plane of switches that add up",
	.about = "The control plane: forms groups, computes routes, configures switches.",
	.groups = {{options, 0},
		   {inc_tls_options, offsetof(struct inc_ctl_options, tls)},
		   {inc_plan_options, offsetof(struct inc_ctl_options, plan)},
		   {inc_discover_options, offsetof(struct inc_ctl_options, discover)}},
	.notes = "Once it listens it prints one line: ready members ADDR:PORT switches "
		 "ADDR:PORT\n\nSIGTERM and SIGINT end it. SIGHUP reads the topology and the keys "
		 "again: jobs and connections stay.",
	.check = check_options,
};

/* Explains why the controller cannot listen. The usual ports are among those that the kernel gives
 * to outgoing connections, so another program may have one without listening there. */
static void explain_listen(const struct inc_ctl *ctl, unsigned int port, int error,
			   struct inc_err *err)
{
	if (error != EADDRINUSE)
		inc_err_set(err, error, "cannot listen on %s:%u: %s", ctl->opt.listen, port,
			    strerror(error));
	else
		inc_err_set(
			err, error,
			"cannot listen on %s:%u: %s; 'ss -tanp sport = :%u' shows the program, and "
			"'sysctl -w net.ipv4.ip_local_reserved_ports=%u' keeps outgoing "
			"connections off the port",
			ctl->opt.listen, port, strerror(error), port, port);
}

/* Listens for TCP connections on *port. If that is 0, the kernel chooses the port, which *port then
 * receives. text receives the address and the port. */
static struct evconnlistener *listen_on(struct inc_ctl *ctl, unsigned int *port,
					evconnlistener_cb cb, char *text, size_t size,
					struct inc_err *err)
{
	struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(*port)};
	struct sockaddr_storage own;
	struct evconnlistener *l;
	socklen_t len;
	int ret;

	inet_pton(AF_INET, ctl->opt.listen, &addr.sin_addr);
	ret = inc_listener_open(ctl->base, (struct sockaddr *)&addr, sizeof(addr), BACKLOG, cb, ctl,
				&l);
	if (ret) {
		explain_listen(ctl, *port, -ret, err);
		return NULL;
	}
	if (!inc_os.stream.own(evconnlistener_get_fd(l), &own, &len))
		*port = ntohs(((const struct sockaddr_in *)&own)->sin_port);
	snprintf(text, size, "%s:%u", ctl->opt.listen, *port);
	return l;
}

static void on_signal(evutil_socket_t signal, short what, void *arg)
{
	inc_info("signal %d, leaving", (int)signal);
	event_base_loopbreak(arg);
}

static void on_reload(evutil_socket_t signal, short what, void *arg)
{
	inc_reload(arg, (int)signal);
}

/* Installs the handlers of signals. SIGTERM and SIGINT end the controller. SIGHUP reads the
 * topology and the keys again. */
static int hear_signals(struct inc_ctl *ctl)
{
	const struct {
		int number;
		event_callback_fn call;
		void *arg;
	} signals[CTL_SIGNALS] = {
		{SIGTERM, on_signal, ctl->base},
		{SIGINT, on_signal, ctl->base},
		{SIGHUP, on_reload, ctl},
	};

	for (unsigned int i = 0; i < CTL_SIGNALS; i++) {
		ctl->signals[i] =
			evsignal_new(ctl->base, signals[i].number, signals[i].call, signals[i].arg);
		if (!ctl->signals[i] || event_add(ctl->signals[i], NULL))
			return -ENOMEM;
	}
	return 0;
}

static int show_figures(struct inc_ctl *ctl, struct inc_err *err)
{
	if (!ctl->opt.metrics)
		return 0;
	return inc_scrape_start(ctl->base, ctl->opt.metrics, inc_ctl_figures_part, ctl,
				&ctl->scrape, err);
}

static void on_elected(void *arg)
{
	const struct inc_ctl *ctl = arg;

	event_base_loopbreak(ctl->base);
}

/* Begins the program again, so that it stands by. Nothing else of this process may act meanwhile,
 * not even code that is about to send a message. All connections are closed first, so that peers
 * try the next controller. A signal ends the program until its new handlers are there. */
static void __attribute__((noreturn)) on_lost(void *arg, const char *why)
{
	const struct inc_ctl *ctl = arg;

	inc_error("%s; this controller does not lead any more, and begins again", why);
	signal(SIGTERM, SIG_DFL);
	signal(SIGINT, SIG_DFL);
	/* ignored until the program has its handler again, because it reads all files anyway */
	signal(SIGHUP, SIG_IGN);
	close_range(STDERR_FILENO + 1, ~0U, 0);
	execv("/proc/self/exe", ctl->argv);
	inc_error("cannot begin again: %s", strerror(errno));
	_exit(1);
}

/* Waits until this controller leads. Returns 0, -ECANCELED after a signal that ends the program, or
 * -errno with the reason. */
static int stand_by(struct inc_ctl *ctl, struct inc_err *err)
{
	static const struct inc_lease_ops ops = {.elected = on_elected, .lost = on_lost};
	int ret = inc_lease_start(ctl->base, ctl->opt.database, &ctl->opt.etcd, &ops, ctl,
				  &ctl->lease, err);

	if (ret)
		return ret;
	/* the service manager need not wait until this controller leads */
	inc_notify_ready();
	if (inc_loop.run(ctl->base))
		return inc_err_set(err, EIO, "the event loop failed");
	return inc_lease_leads(ctl->lease) ? 0 : -ECANCELED;
}

static int open_database(struct inc_ctl *ctl, struct inc_err *err)
{
	return ctl->lease ? inc_persist_start_etcd(&ctl->core, ctl->base, ctl->lease,
						   &ctl->persisted, &ctl->persist, err)
			  : inc_persist_start(&ctl->core, ctl->base, ctl->opt.database,
					      &ctl->persisted, &ctl->persist, err);
}

static int start_parts(struct inc_ctl *ctl, struct inc_err *err)
{
	int ret;

	if (inc_tls_wanted(&ctl->opt.tls)) {
		ctl->tls = inc_tls_server(&ctl->opt.tls, err);
		if (!ctl->tls)
			return -EINVAL;
	}
	ret = inc_links_init(ctl);
	ret = ret ?: inc_reload_start(ctl);
	if (!ret && hear_signals(ctl))
		ret = inc_err_set(err, ENOMEM, "out of memory");
	/* before the core begins, because its time limits count from then on */
	if (!ret && inc_etcd_wanted(ctl->opt.database))
		ret = stand_by(ctl, err);
	ret = ret ?: inc_carry_start(ctl, err) ?: open_database(ctl, err);
	if (ret)
		return ret;
	if (ctl->lease)
		inc_core_record(&ctl->core, INC_RECORD_LEADS, 0, "this controller leads");
	/* groups from the database have time limits, so the core's timer is started before any peer
	 * connects */
	inc_ctl_step(ctl, &(struct inc_core_event){.kind = CORE_EVENT_TIME});
	return inc_keepalive_start(ctl);
}

static void free_parts(struct inc_ctl *ctl)
{
	inc_clients_free(ctl);
	inc_queries_free(ctl);
	inc_links_free(ctl);
	inc_carry_stop(ctl);
	inc_reload_stop(ctl);
	inc_address_limits_free(ctl);
	inc_ndjson_drain_stop(NULL);
	inc_tls_free(ctl->tls);
}

static int serve(struct inc_ctl *ctl, struct inc_err *err)
{
	struct evconnlistener *members = NULL, *switches = NULL;
	char member_addr[64], switch_addr[64];
	int ret = inc_err_set(err, ENOMEM, "starting: %s", strerror(ENOMEM));

	ctl->started_at_ms = inc_now_ms();
	ctl->base = event_base_new();
	if (!ctl->base || inc_timeouts_start(&ctl->timeouts, ctl->base))
		goto out;
	ret = start_parts(ctl, err);
	if (ret)
		goto out;
	ret = -EIO; /* if one of the following calls fails, it sets err to the reason */
	members = listen_on(ctl, &ctl->opt.member_port, inc_client_accept, member_addr,
			    sizeof(member_addr), err);
	if (!members)
		goto out;
	switches = listen_on(ctl, &ctl->opt.switch_port, inc_switch_accept, switch_addr,
			     sizeof(switch_addr), err);
	if (!switches)
		goto out;
	ret = show_figures(ctl, err);
	ret = ret ?: inc_page_start(ctl, err);
	if (ret)
		goto out;
	inc_info("topology %s: %u hosts, %u switches", ctl->opt.topology,
		 ctl->topo->n_hosts - ctl->topo->n_nics, ctl->topo->n_switches);
	printf("ready members %s switches %s\n", member_addr, switch_addr);
	/* an error of stdout ends the program, because a script that waits for this line would wait
	 * for ever */
	ret = inc_stdout_flush(err);
	if (ret)
		goto out;
	inc_notify_ready();
	ret = inc_loop.run(ctl->base) ? inc_err_set(err, EIO, "the event loop failed") : 0;
out:
	inc_persist_stop(ctl->persist);
	ctl->persist = NULL;
	inc_scrape_stop(ctl->scrape);
	inc_page_stop(ctl);
	inc_keepalive_stop(ctl);
	if (switches)
		evconnlistener_free(switches);
	if (members)
		evconnlistener_free(members);
	for (unsigned int i = 0; i < CTL_SIGNALS; i++)
		if (ctl->signals[i])
			event_free(ctl->signals[i]);
	free_parts(ctl);
	inc_lease_stop(ctl->lease);
	inc_timeouts_stop(&ctl->timeouts);
	if (ctl->base)
		event_base_free(ctl->base);
	libevent_global_shutdown();
	return ret;
}

int main(int argc, char **argv)
{
	struct inc_ctl ctl = {.argv = argv};
	char doubt[INC_TOPO_DOUBT_TEXT];
	struct inc_err err;
	int ret;

	inc_log_init("inc-controller");
	ret = inc_opt_parse(&program, argc, argv, &ctl.opt, NULL);
	if (ret >= 0)
		return ret;
	inc_stdio_hold();
	if (ctl.opt.plan.topology)
		return inc_plan_run(&ctl.opt.plan);
	if (ctl.opt.discover.wanted)
		return inc_discover(&ctl.opt);
	if (ctl.opt.check)
		return inc_topology_check(ctl.opt.topology, ctl.opt.plan.json);
	inc_log_sink(inc_log_unblocked);
	signal(SIGPIPE, SIG_IGN);
	TAILQ_INIT(&ctl.clients);
	ret = inc_topology_load(ctl.opt.topology, &ctl.topo, &err);
	if (ret) {
		inc_error("%s", err.msg);
		return 1;
	}
	if (*inc_topology_doubt(ctl.topo, doubt))
		inc_warn("%s: %s", ctl.opt.topology, doubt);
	ret = inc_links_share_descriptors(&ctl, ctl.topo->n_switches, &err);
	if (!ret)
		ret = serve(&ctl, &err);
	if (ret == -ECANCELED)
		ret = 0;
	if (ret)
		inc_error("%s", err.msg);
	inc_topology_free(ctl.topo);
	return ret ? 1 : 0;
}
