/* SPDX-License-Identifier: BSD-2-Clause */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include "lib/inc_log.h"
#include "userspace/switchd.h"

static void on_signal(evutil_socket_t number, short what, void *arg)
{
	inc_info("stopping: %s", strsignal(number));
	event_base_loopbreak(arg);
}

/* A signal while the daemon starts waits until its handler stands, and stops it then. */
static void hold_signals(int how)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(how, &set, NULL);
}

static int run(struct inc_daemon *d)
{
	struct event *term = evsignal_new(d->base, SIGTERM, on_signal, d->base);
	struct event *intr = evsignal_new(d->base, SIGINT, on_signal, d->base);
	int ret = 1;

	if (term && intr && !event_add(term, NULL) && !event_add(intr, NULL)) {
		hold_signals(SIG_UNBLOCK);
		ret = event_base_dispatch(d->base) < 0;
	}
	if (ret)
		inc_error("the event loop does not run");
	if (term)
		event_free(term);
	if (intr)
		event_free(intr);
	return ret;
}

int main(int argc, char **argv)
{
	struct inc_daemon d = {};
	struct inc_err err = {};
	int ret;

	inc_log_init("inc-switchd");
	if (inc_options_parse(argc, argv, &d.opt, &ret))
		return ret;
	signal(SIGPIPE, SIG_IGN);
	hold_signals(SIG_BLOCK);
	ret = inc_daemon_start(&d, &err);
	if (ret) {
		inc_error("%s", err.msg);
		ret = 1;
	} else if (d.opt.check_only) {
		printf("%s: switch %s, %u communicators, %u ports\n", d.opt.config, d.conf.name,
		       d.conf.n_groups, d.conf.settings.n_ports);
	} else {
		ret = run(&d);
	}
	inc_daemon_stop(&d);
	return ret;
}
