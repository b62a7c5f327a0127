/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Attaches the XDP program to ports. libxdp puts the program into a dispatcher, where other XDP
 * programs can run beside it. For that libxdp loads another copy of the program. If libxdp cannot
 * do that, the plain program is attached by a bpf_link.
 *
 * A port that a predecessor has left changes its program while packets arrive. A bpf_link is
 * updated to the new program. In a dispatcher the new program is added beside the old one, which is
 * then removed. For that moment the first of them handles the switch's packets, and other packets
 * pass through both. A program belongs to a predecessor if it uses the map of ports, which
 * predecessor and successor share.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <linux/if_link.h>
#include "inc_xdp.skel.h"
#include "lib/base/log.h"
#include "loader/inc_comm_plan.h"
#include "loader/inc_loader_priv.h"

const char *inc_attach_name(enum inc_attach attach)
{
	return attach == INC_ATTACH_LIBXDP     ? "libxdp"
	       : attach == INC_ATTACH_BPF_LINK ? "bpf_link"
					       : "auto";
}

static uint32_t prog_id(int fd)
{
	struct bpf_prog_info info = {};
	__u32 len = sizeof(info);

	return bpf_obj_get_info_by_fd(fd, &info, &len) ? 0 : info.id;
}

/* Whether an XDP program belongs to this switch, or to a predecessor of it. */
static bool is_own(const struct inc_switch *sw, const struct xdp_program *prog)
{
	int fd = bpf_prog_get_fd_by_id(xdp_program__id(prog));
	bool own;

	if (fd < 0)
		return false;
	own = inc_uses_map(fd, inc_map_id(inc_switch_map_fd(sw, INC_MAP_PORT)));
	close(fd);
	return own;
}

static enum xdp_attach_mode xdp_mode(bool generic)
{
	return generic ? XDP_MODE_SKB : XDP_MODE_NATIVE;
}

/* Opens a second object from the same bytes for libxdp. The two objects share every map. */
static int open_ext(struct inc_switch *sw, struct inc_err *err)
{
	LIBBPF_OPTS(bpf_object_open_opts, open_opts, .object_name = "inc_xdp");
	DECLARE_LIBXDP_OPTS(xdp_program_opts, prog_opts, .prog_name = INC_PROG_SWITCH);
	struct bpf_program *prog;
	struct bpf_map *map, *own;
	const void *elf;
	size_t size;
	int ret;

	elf = inc_xdp__elf_bytes(&size);
	sw->ext_obj = bpf_object__open_mem(elf, size, &open_opts);
	if (!sw->ext_obj)
		return inc_err_set(err, errno, "BPF object cannot be opened for libxdp: %s",
				   strerror(errno));
	bpf_object__for_each_map (map, sw->ext_obj) {
		own = bpf_object__find_map_by_name(sw->skel->obj, bpf_map__name(map));
		ret = own ? bpf_map__reuse_fd(map, bpf_map__fd(own)) : -ENOENT;
		if (ret) {
			ret = inc_err_set(err, -ret, "map %s cannot be shared with libxdp: %s",
					  bpf_map__name(map), strerror(-ret));
			goto fail;
		}
	}
	bpf_object__for_each_program (prog, sw->ext_obj)
		bpf_program__set_autoload(prog, !strcmp(bpf_program__name(prog), INC_PROG_SWITCH));
	prog_opts.obj = sw->ext_obj;
	sw->ext = xdp_program__create(&prog_opts);
	ret = libxdp_get_error(sw->ext);
	if (ret) {
		sw->ext = NULL;
		ret = inc_err_set(err, -ret, "libxdp does not take the program: %s",
				  strerror(-ret));
		goto fail;
	}
	xdp_program__set_chain_call_enabled(sw->ext, XDP_PASS, true);
	return 0;

fail:
	bpf_object__close(sw->ext_obj);
	sw->ext_obj = NULL;
	return ret;
}

static void close_ext(struct inc_switch *sw)
{
	if (sw->ext)
		xdp_program__close(sw->ext);
	if (sw->ext_obj)
		bpf_object__close(sw->ext_obj);
	sw->ext = NULL;
	sw->ext_obj = NULL;
}

/* Returns the id of the XDP program on the port's interface; 0: the interface has none. */
static uint32_t attached_id(const struct inc_switch_port *port)
{
	LIBBPF_OPTS(bpf_xdp_query_opts, has);

	if (bpf_xdp_query(port->ifindex, 0, &has))
		return 0;
	return port->generic ? has.skb_prog_id : has.drv_prog_id;
}

/* Rejects a port with any XDP program. Without CAP_SYS_ADMIN libxdp cannot read whose it is. */
static int check_taken_unseen(uint32_t ifindex, const char *ifname, bool generic,
			      struct inc_err *err)
{
	const struct inc_switch_port port = {.ifindex = ifindex, .generic = generic};
	uint32_t id = attached_id(&port);

	return id ? inc_err_set(err, EBUSY,
				"interface %s is taken by another XDP program (id %u): detach it "
				"first (ip link set dev %s %s off)",
				ifname, id, ifname, generic ? "xdpgeneric" : "xdpdrv")
		  : 0;
}

/* Rejects a port that another program or another switch uses; the error says how to free it. */
static int check_taken(const struct inc_switch *sw, uint32_t ifindex, const char *ifname,
		       struct inc_err *err)
{
	struct xdp_multiprog *mp = xdp_multiprog__get_from_ifindex(ifindex);
	struct xdp_program *prog = NULL;
	int ret = 0;

	if (libxdp_get_error(mp))
		return check_taken_unseen(ifindex, ifname, sw->opts.generic, err);
	if (xdp_multiprog__is_legacy(mp)) {
		prog = xdp_multiprog__main_prog(mp);
		if (!is_own(sw, prog))
			ret = inc_taken_error(ifindex, ifname, xdp_program__name(prog),
					      xdp_program__id(prog),
					      xdp_multiprog__attach_mode(mp) == XDP_MODE_SKB, err);
	}
	/* another switch's program would leave neither packets nor receive queues to ours */
	while (!ret && (prog = xdp_multiprog__next_prog(prog, mp)))
		if (!strcmp(xdp_program__name(prog), INC_PROG_SWITCH) && !is_own(sw, prog))
			ret = inc_err_set(err, EBUSY,
					  "interface %s is taken by another switch, whose XDP "
					  "program '%s' (id %u) is in libxdp's dispatcher: stop "
					  "that switch, or xdp-loader unload %s --id %u",
					  ifname, INC_PROG_SWITCH, xdp_program__id(prog), ifname,
					  xdp_program__id(prog));
	xdp_multiprog__close(mp);
	return ret;
}

/* Whether the interface has a program without a dispatcher. libxdp would attach the plain program
 * if libxdp's dispatcher does not work. A plain program cannot share the port, and no descriptor
 * detaches it when the process dies, so a bpf_link is better. */
static bool is_legacy(uint32_t ifindex)
{
	struct xdp_multiprog *mp = xdp_multiprog__get_from_ifindex(ifindex);
	bool legacy;

	if (libxdp_get_error(mp))
		return false;
	legacy = xdp_multiprog__is_legacy(mp);
	xdp_multiprog__close(mp);
	return legacy;
}

/* Whether any port is attached through libxdp, and so uses the copy of the program for libxdp. */
static bool in_dispatcher(const struct inc_switch *sw)
{
	int i;

	for (i = 0; i < INC_MAX_PORTS; i++)
		if (sw->slot[i].used && sw->slot[i].port.attach == INC_ATTACH_LIBXDP)
			return true;
	return false;
}

int inc_attach_can_share(struct inc_err *why)
{
	uint32_t id;

	if (libbpf_probe_bpf_prog_type(BPF_PROG_TYPE_EXT, NULL) == 0)
		return inc_err_set(why, EOPNOTSUPP,
				   "libxdp's dispatcher needs extension programs (freplace), which "
				   "this kernel does not offer");
	if (bpf_prog_get_next_id(0, &id) && errno == EPERM)
		return inc_err_set(why, EPERM,
				   "libxdp finds programs by their number, which takes "
				   "CAP_SYS_ADMIN");
	return 0;
}

static int attach_libxdp(struct inc_switch *sw, struct inc_port_slot *slot, struct inc_err *err)
{
	const struct inc_switch_port *port = &slot->port;
	struct inc_err why = {};
	const char *story;
	int ret;

	/* libxdp must not attach the program if this process could not detach it later */
	ret = inc_attach_can_share(&why);
	if (ret)
		return inc_err_set(err, -ret, "interface %s: %s", port->name, why.msg);
	inc_capture_begin();
	ret = sw->ext ? 0 : open_ext(sw, &why);
	if (!ret) {
		ret = xdp_program__attach(sw->ext, port->ifindex, xdp_mode(port->generic), 0);
		if (ret)
			inc_err_set(&why, -ret, "%s", strerror(-ret));
	}
	if (!ret && is_legacy(port->ifindex)) {
		xdp_program__detach(sw->ext, port->ifindex, xdp_mode(port->generic), 0);
		if (!in_dispatcher(sw))
			close_ext(sw); /* no port uses libxdp's copy of the program */
		ret = inc_err_set(&why, EOPNOTSUPP, "its dispatcher does not work here");
	}
	story = inc_capture_end();
	if (ret)
		return inc_err_set(err, -ret, "interface %s: libxdp cannot attach: %s (%s)",
				   port->name, why.msg, story);
	if (sw->adopted)
		inc_purge_interface(port->ifindex, inc_map_id(inc_switch_map_fd(sw, INC_MAP_PORT)),
				    prog_id(xdp_program__fd(sw->ext)));
	return 0;
}

static void link_name(const struct inc_switch_port *port, char name[32])
{
	snprintf(name, 32, "link_%u", port->ifindex);
}

/* Updates a predecessor's link, by descriptor fd, to the new program. */
static int update_link(struct inc_switch *sw, struct inc_port_slot *slot, int fd,
		       struct inc_err *err)
{
	if (bpf_link_update(fd, inc_switch_prog_fd(sw, INC_PROG_SWITCH), NULL)) {
		inc_err_set(err, errno, "interface %s: its bpf_link does not take the program: %s",
			    slot->port.name, strerror(errno));
		close(fd);
		return -EIO;
	}
	slot->link_fd = fd;
	return 0;
}

/* Whether the link holds its program on the port. It does not if the operator has detached it, if
 * its interface is gone, or if the link's interface number is that of an interface in another
 * namespace. */
static bool link_holds(int fd, const struct inc_switch_port *port)
{
	struct bpf_link_info info = {};
	__u32 len = sizeof(info);

	return !bpf_obj_get_info_by_fd(fd, &info, &len) && info.type == BPF_LINK_TYPE_XDP &&
	       info.xdp.ifindex == port->ifindex && info.prog_id == attached_id(port);
}

/* Finds the link of an interface that has another number now, because it was moved to another
 * namespace and back. The name of the link's pin has the old number, so this renames the pin.
 * -ENOENT: there is no such link. */
static int moved_link(struct inc_switch *sw, struct inc_port_slot *slot)
{
	int map = inc_switch_map_fd(sw, INC_MAP_PORT), fd;
	struct inc_switch_port was = {};
	char name[32], old_name[32];
	uint32_t next;
	bool more = !bpf_map_get_next_key(map, NULL, &next);

	while (more) {
		was.ifindex = next;
		more = !bpf_map_get_next_key(map, &was.ifindex, &next);
		link_name(&was, old_name);
		fd = was.ifindex == slot->port.ifindex ? -ENOENT : inc_pinned_fd(sw, old_name);
		if (fd < 0)
			continue;
		if (link_holds(fd, &slot->port)) {
			link_name(&slot->port, name);
			inc_unpin(sw, old_name);
			inc_pin_fd(sw, fd, name, NULL);
			slot->left_ifindex = was.ifindex;
			return fd;
		}
		close(fd);
	}
	return -ENOENT;
}

/* Finds the link by which a predecessor has attached the port. -ENOENT: there is no such link. If
 * the link does not hold the port any more, this removes the link's pin. */
static int left_link(struct inc_switch *sw, struct inc_port_slot *slot)
{
	const struct inc_switch_port *port = &slot->port;
	char name[32];
	int fd;

	if (!sw->adopted)
		return -ENOENT;
	link_name(port, name);
	fd = inc_pinned_fd(sw, name);
	if (fd < 0)
		return moved_link(sw, slot);
	if (link_holds(fd, port))
		return fd;
	inc_warn("port %s: the bpf_link that a predecessor left does not hold its program there "
		 "any more: the port is attached again",
		 port->name);
	close(fd);
	inc_unpin(sw, name);
	return moved_link(sw, slot);
}

/* Whether a predecessor has left a link that holds the port. It may change pins, like
 * left_link(). */
static bool keep_left_link(struct inc_switch *sw, struct inc_port_slot *slot)
{
	int fd = left_link(sw, slot);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/* Removes a predecessor's program from a port that is attached in the other way now. way: the new
 * way, which is libxdp or a bpf_link. */
static void drop_other_way(struct inc_switch *sw, struct inc_port_slot *slot, enum inc_attach way)
{
	const struct inc_switch_port *port = &slot->port;
	char name[32];

	link_name(port, name);
	if (sw->adopted && way == INC_ATTACH_LIBXDP)
		inc_unpin(sw, name); /* the unpinned link is gone, which detaches the program */
	else if (sw->adopted && !keep_left_link(sw, slot))
		inc_purge_interface(port->ifindex, inc_map_id(inc_switch_map_fd(sw, INC_MAP_PORT)),
				    0);
}

/* Whether to attach a port through libxdp. A port that a predecessor's link holds keeps it. */
static bool tries_libxdp(struct inc_switch *sw, struct inc_port_slot *slot)
{
	if (sw->opts.attach != INC_ATTACH_AUTO)
		return sw->opts.attach == INC_ATTACH_LIBXDP;
	return !keep_left_link(sw, slot);
}

static int attach_link(struct inc_switch *sw, struct inc_port_slot *slot, struct inc_err *err)
{
	const struct inc_switch_port *port = &slot->port;
	LIBBPF_OPTS(bpf_link_create_opts, opts,
		    .flags = port->generic ? XDP_FLAGS_SKB_MODE : XDP_FLAGS_DRV_MODE);
	char name[32];
	int fd = left_link(sw, slot), ret;

	if (fd >= 0)
		return update_link(sw, slot, fd, err);
	link_name(port, name);
	fd = bpf_link_create(inc_switch_prog_fd(sw, INC_PROG_SWITCH), port->ifindex, BPF_XDP,
			     &opts);
	if (fd < 0) {
		ret = -errno;
		return inc_err_set(err, -ret, "interface %s: %s XDP cannot be attached: %s%s",
				   port->name, port->generic ? "generic" : "native", strerror(-ret),
				   port->generic || ret == -EBUSY
					   ? ""
					   : " (driver without native XDP, or an MTU over one "
					     "page? generic mode works with both)");
	}
	ret = sw->pinned ? inc_pin_fd(sw, fd, name, err) : 0;
	if (ret) {
		close(fd);
		return ret;
	}
	slot->link_fd = fd;
	return 0;
}

void inc_forget_port(struct inc_switch *sw, uint32_t ifindex)
{
	bpf_map_delete_elem(inc_switch_map_fd(sw, INC_MAP_PORT), &ifindex);
	bpf_map_delete_elem(inc_switch_map_fd(sw, INC_MAP_ANSWER_PORT), &ifindex);
}

int inc_enter_port(struct inc_switch *sw, const struct inc_switch_port *port, struct inc_err *err)
{
	struct bpf_devmap_val answer = {.ifindex = port->ifindex};
	struct inc_port val = {.index = port->index, .vlan = port->vlan, .ip = port->ip};
	int ret;

	answer.bpf_prog.fd = inc_switch_prog_fd(sw, INC_PROG_EGRESS);
	ret = inc_switch_map_set(sw, INC_MAP_PORT, &port->ifindex, &val, BPF_ANY, err);
	if (!ret && bpf_map_update_elem(inc_switch_map_fd(sw, INC_MAP_ANSWER_PORT), &port->ifindex,
					&answer, BPF_ANY))
		ret = inc_err_set(err, errno, "map %s: port %s cannot be entered: %s",
				  INC_MAP_ANSWER_PORT, port->name, strerror(errno));
	if (ret && !sw->leaving)
		inc_forget_port(sw, port->ifindex);
	return ret;
}

void inc_drop_link(struct inc_switch *sw, struct inc_port_slot *slot)
{
	char name[32];

	if (slot->link_fd < 0)
		return;
	link_name(&slot->port, name);
	if (sw->pinned)
		inc_unpin(sw, name);
	close(slot->link_fd);
	slot->link_fd = -1;
}

static void detach(struct inc_switch *sw, struct inc_port_slot *slot)
{
	struct inc_switch_port *port = &slot->port;
	int ret;

	if (slot->link_fd >= 0) {
		inc_drop_link(sw, slot);
	} else if (sw->ext && slot->prog_id) {
		inc_capture_begin();
		ret = xdp_program__detach(sw->ext, port->ifindex, xdp_mode(port->generic), 0);
		inc_capture_end();
		if (ret)
			inc_debug("interface %s: libxdp cannot detach: %s", port->name,
				  strerror(-ret));
	}
	inc_forget_port(sw, port->ifindex);
	slot->used = NULL;
}

bool inc_carries(const struct inc_switch *sw, struct inc_port_slot *slot, uint32_t xdp_id)
{
	struct xdp_multiprog *mp;
	struct xdp_program *prog = NULL;
	bool own = false;

	if (!xdp_id || !slot->prog_id)
		return false;
	if (xdp_id == slot->prog_id)
		return true;
	/* the interface may have another program because libxdp has replaced the dispatcher, as it
	 * does when programs enter or leave */
	mp = xdp_multiprog__get_from_ifindex(slot->port.ifindex);
	if (libxdp_get_error(mp))
		return false;
	while (!own && !xdp_multiprog__is_legacy(mp) && (prog = xdp_multiprog__next_prog(prog, mp)))
		own = is_own(sw, prog);
	xdp_multiprog__close(mp);
	if (own)
		slot->prog_id = xdp_id;
	return own;
}

int inc_attach_slot(struct inc_switch *sw, struct inc_port_slot *slot, struct inc_err *err)
{
	struct inc_switch_port *port = &slot->port;
	struct inc_err why = {}, link_why = {};
	uint32_t was;
	int ret;

	slot->prog_id = 0;
	was = inc_purge_moved(port->ifindex, attached_id(port), port->generic,
			      inc_map_id(inc_switch_map_fd(sw, INC_MAP_PORT)));
	if (was)
		slot->left_ifindex = was;
	ret = inc_bpffs_mount(err); /* libxdp keeps pins of its own on this file system */
	if (!ret && !keep_left_link(sw, slot))
		ret = check_taken(sw, port->ifindex, port->device, err);
	ret = ret ?: inc_enter_port(sw, port, err);
	if (ret)
		return ret;

	ret = -ENOTSUP;
	if (tries_libxdp(sw, slot)) {
		port->attach = INC_ATTACH_LIBXDP;
		drop_other_way(sw, slot, INC_ATTACH_LIBXDP);
		ret = attach_libxdp(sw, slot, &why);
		if (ret && sw->opts.attach == INC_ATTACH_AUTO)
			inc_info("%s; using a bpf_link", why.msg);
	}
	if (ret && sw->opts.attach != INC_ATTACH_LIBXDP) {
		port->attach = INC_ATTACH_BPF_LINK;
		drop_other_way(sw, slot, INC_ATTACH_BPF_LINK);
		ret = attach_link(sw, slot, &link_why);
		why = link_why;
	}
	if (ret)
		return inc_err_set(err, -ret, "%s", why.msg);
	slot->prog_id = attached_id(port);
	return 0;
}

int inc_switch_attach_port(struct inc_switch *sw, const char *ifname, struct inc_err *err)
{
	struct inc_switch_port port = {.generic = sw->opts.generic};
	struct inc_port_slot *slot = NULL;
	int ret = inc_find_device(sw, ifname, &port, err);
	uint32_t i;

	if (ret)
		return ret;
	for (i = 0; i < INC_MAX_PORTS && !slot; i++)
		if (!sw->slot[i].used)
			slot = &sw->slot[i];
	if (!slot)
		return inc_err_set(err, ENOSPC, "interface %s: all %d ports are in use", ifname,
				   INC_MAX_PORTS);
	port.index = slot - sw->slot;
	slot->port = port;
	ret = inc_attach_slot(sw, slot, err);
	if (ret) {
		if (!sw->leaving) /* while leaving is set, the program stays for the next daemon */
			inc_forget_port(sw, port.ifindex);
		return ret;
	}
	slot->used = &slot->port;
	inc_info("port %s: %s XDP attached through %s%s", ifname,
		 sw->opts.generic ? "generic" : "native", inc_attach_name(slot->port.attach),
		 sw->opts.generic ? " (generic was asked for; it is several times slower)" : "");
	return 0;
}

int inc_switch_detach_port(struct inc_switch *sw, const char *ifname, struct inc_err *err)
{
	int i;

	for (i = 0; i < INC_MAX_PORTS; i++) {
		if (sw->slot[i].used && !strcmp(sw->slot[i].port.name, ifname)) {
			detach(sw, &sw->slot[i]);
			return 0;
		}
	}
	return inc_err_set(err, ENOENT, "interface %s is not a port", ifname);
}

bool inc_is_port(const struct inc_switch *sw, uint32_t ifindex)
{
	return inc_switch_port_on(sw, ifindex);
}

void inc_forget_ports(struct inc_switch *sw)
{
	int fd = inc_switch_map_fd(sw, INC_MAP_PORT);
	struct inc_switch_port port = {};
	uint32_t next;
	char name[32];
	bool more = !bpf_map_get_next_key(fd, NULL, &next);

	while (more) {
		port.ifindex = next;
		more = !bpf_map_get_next_key(fd, &port.ifindex, &next);
		if (inc_is_port(sw, port.ifindex))
			continue;
		link_name(&port, name);
		inc_unpin(sw, name); /* the unpinned link is gone, which detaches the program */
		inc_forget_port(sw, port.ifindex);
	}
	inc_dispatchers_purge(inc_map_id(fd), sw);
}

void inc_attach_close(struct inc_switch *sw)
{
	int i;

	for (i = 0; i < INC_MAX_PORTS; i++) {
		if (!sw->slot[i].used)
			continue;
		if (!sw->leaving)
			detach(sw, &sw->slot[i]);
		else if (sw->slot[i].link_fd >= 0)
			close(sw->slot[i].link_fd);
	}
	if (sw->ext && !sw->leaving)
		inc_dispatchers_purge(inc_map_id(inc_switch_map_fd(sw, INC_MAP_PORT)), NULL);
	close_ext(sw);
}
