/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>
#include "lib/base/clock.h"
#include "lib/net/netdev.h"
#include "lib/channel/ingress.h"

/* index of the loopback interface, which the kernel gives it in every network namespace */
#define LOOPBACK 1
/* Time between two questions to the kernel, because an unknown sender can cause one by each packet.
 * Peers of a port that was created again retransmit meanwhile. */
#define ASK_EVERY_NS (100 * INC_NSEC_PER_MSEC)
/* For this time the kernel's answer about a port is used again. Later the port may have left its
 * bridge, or another interface may have the port's index. */
#define KEEP_NS INC_NSEC_PER_SEC

static bool is_known(const struct inc_channel_ingress *in, unsigned int ifindex)
{
	return ifindex == in->ifindex || ifindex == in->master;
}

/* Asks the kernel for the port's interface. The port stays the interface that it has been, whatever
 * the interface's name is now. Only when that interface is gone does the port become the interface
 * that has its name. */
static int ask(struct inc_channel_ingress *in)
{
	struct inc_interface_place place;
	int ret = inc_interface_at(in->ifindex, &place);

	if (ret == -ENODEV)
		ret = inc_interface_find(in->ifname, &place);
	if (ret)
		return ret;
	in->ifindex = place.ifindex;
	in->master = place.master;
	return 0;
}

int inc_channel_ingress_init(struct inc_channel_ingress *in, const char *ifname,
			     struct inc_err *err)
{
	int ret;

	memset(in, 0, sizeof(*in));
	strncpy(in->ifname, ifname, sizeof(in->ifname) - 1);
	ret = ask(in);
	/* a port that does not exist now is no error, because it may be created later */
	return !ret || ret == -ENODEV
		       ? 0
		       : inc_err_set(err, -ret, "port %s: %s", ifname, strerror(-ret));
}

bool inc_channel_ingress_ok(struct inc_channel_ingress *in, unsigned int ifindex, uint64_t now_ns)
{
	const uint64_t age_ns = now_ns - in->asked_at_ns;

	if (!ifindex || ifindex == LOOPBACK)
		return ifindex;
	if (in->asked_at_ns && age_ns < (is_known(in, ifindex) ? KEEP_NS : ASK_EVERY_NS))
		return is_known(in, ifindex);
	in->asked_at_ns = now_ns;
	ask(in);
	return is_known(in, ifindex);
}
