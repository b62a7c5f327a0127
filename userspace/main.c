/* SPDX-License-Identifier: BSD-2-Clause */
/* inc-switchd: main(), the signals that stop it, and the event loop. */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include "lib/base/log.h"
#include "lib/base/stdout.h"
#include "lib/net/loop.h"
#include "userspace/switchd.h"

static void on_signal(evutil_socket_t number, short what, void *arg)
{
	struct inc_daemon *d = arg;

	if (number == SIGUSR1 && d->pins_private && d->engine[INC_PASSTHROUGH]) {
		inc_error("SIGUSR1 is refused, and the daemon goes on: the next daemon would not "
			  "find the pins, because %s is mounted in this process's mount namespace "
			  "alone. Start inc-switchd by `nsenter --net=/run/netns/NS`, not by `ip "
			  "netns exec` (SIGTERM stops it, and its jobs)",
			  INC_BPFFS);
		return;
	}
	d->leaving = number == SIGUSR1;
	inc_info("stopping%s: %s", d->leaving ? ", traffic goes on" : "", strsignal(number));
	event_base_loopbreak(d->base);
}

/* Signals that stop the daemon and remove its programs, pins and files. A terminal that closes
 * sends SIGHUP. SIGUSR1 stops the daemon before an upgrade, and leaves programs and pins to the
 * next daemon. */
static const int stop_signals[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1};

#define STOP_SIGNALS (sizeof(stop_signals) / sizeof(stop_signals[0]))

/* Whether SIGHUP is ignored, as nohup does it. Then the daemon must not handle it either. */
static bool is_ignored(int number)
{
	struct sigaction action;

	return number == SIGHUP && !sigaction(number, NULL, &action) &&
	       action.sa_handler == SIG_IGN;
}

/* Blocks or unblocks the stop signals. They are blocked while the daemon starts, so a signal waits
 * until its handler is installed, and then stops the daemon. */
static void hold_signals(int how)
{
	sigset_t set;
	size_t i;

	sigemptyset(&set);
	for (i = 0; i < STOP_SIGNALS; i++)
		sigaddset(&set, stop_signals[i]);
	sigprocmask(how, &set, NULL);
}

static int run(struct inc_daemon *d)
{
	struct event *stop[STOP_SIGNALS] = {};
	bool ready = true;
	int ret = 1;
	size_t i;

	for (i = 0; i < STOP_SIGNALS; i++) {
		if (is_ignored(stop_signals[i]))
			continue;
		stop[i] = evsignal_new(d->base, stop_signals[i], on_signal, d);
		ready = ready && stop[i] && !event_add(stop[i], NULL);
	}
	if (ready) {
		hold_signals(SIG_UNBLOCK);
		ret = inc_loop.run(d->base) ? 1 : 0;
	}
	if (ret)
		inc_error("the event loop does not run");
	/* Without an event a signal has its default action, so another one would kill the daemon
	 * while it removes its programs and pins. */
	hold_signals(SIG_BLOCK);
	for (i = 0; i < STOP_SIGNALS; i++)
		if (stop[i])
			event_free(stop[i]);
	return ret;
}

int main(int argc, char **argv)
{
	struct inc_daemon d = {};
	struct inc_err err = {};
	int ret;

	inc_log_init("inc-switchd");
	ret = inc_options_parse(argc, argv, &d.opt);
	if (ret >= 0)
		return ret;
	inc_stdio_hold();
	inc_log_sink(inc_log_unblocked);
	signal(SIGPIPE, SIG_IGN);
	hold_signals(SIG_BLOCK);
	ret = inc_daemon_start(&d, &err);
	if (ret) {
		inc_error("%s", err.msg);
		ret = 1;
	} else if (d.opt.check_only) {
		printf("%s: switch %s, %u communicators, %u ports\n", d.opt.config, d.conf.name,
		       d.conf.n_comms, d.conf.settings.n_ports);
		ret = inc_stdout_flush(&err) ? 1 : 0;
		if (ret)
			inc_error("%s", err.msg);
	} else {
		ret = run(&d);
	}
	inc_daemon_stop(&d);
	return ret;
}
