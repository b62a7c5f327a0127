// SPDX-License-Identifier: BSD-2-Clause
/*
 * One end of the wire: AF_PACKET with virtio-net headers. The headers mark checksums that the
 * sender has left to its device, so that they can be completed here.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <arpa/inet.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <bpf/bpf.h>
#include <linux/bpf.h>
#include <linux/ethtool.h>
#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <linux/virtio_net.h>
#include "lib/base/clock.h"
#include "topo/wire_priv.h"

/* size in bytes of the socket's receive and send buffers, which hold a whole window of every
 * communicator */
#define SOCKET_BUFFER (32 << 20)

/* Attaches an empty XDP program to the interface. The program turns on NAPI there, because
 * ndo_xdp_xmit into this veth needs it. The program also turns off segmentation offload at the
 * peer, so that frames are as long as on a cable. It accepts frames in several buffers, because a
 * veth would refuse it at an MTU over 3,506 otherwise. */
static int attach_pass(struct wire_port *port, struct inc_err *err)
{
	static const struct bpf_insn insns[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = XDP_PASS},
		{.code = BPF_JMP | BPF_EXIT},
	};
	LIBBPF_OPTS(bpf_prog_load_opts, load, .prog_flags = BPF_F_XDP_HAS_FRAGS);
	LIBBPF_OPTS(bpf_link_create_opts, opts, .flags = XDP_FLAGS_DRV_MODE);
	struct ethtool_value gro = {.cmd = ETHTOOL_SGRO, .data = 0};
	struct ifreq ifr = {.ifr_data = (void *)&gro};
	int prog, ret = 0;

	prog = bpf_prog_load(BPF_PROG_TYPE_XDP, "inc_wire_pass", "Dual BSD/GPL", insns,
			     sizeof(insns) / sizeof(insns[0]), &load);
	if (prog < 0)
		return inc_err_set(err, -prog, "%s: loading an empty XDP program: %s", port->ifname,
				   strerror(-prog));
	port->link_fd = bpf_link_create(prog, port->ifindex, BPF_XDP, &opts);
	if (port->link_fd < 0)
		ret = inc_err_set(err, -port->link_fd, "%s: attaching an empty XDP program: %s",
				  port->ifname, strerror(-port->link_fd));
	close(prog);
	if (ret)
		return ret;
	/* turn off generic receive offload, which the XDP program has turned on, because it would
	 * join TCP segments */
	strcpy(ifr.ifr_name, port->ifname);
	if (ioctl(port->fd, SIOCETHTOOL, &ifr))
		return inc_err_set(err, errno, "%s: turning GRO off: %s", port->ifname,
				   strerror(errno));
	return 0;
}

int wire_port_open(struct wire_port *port, const char *ifname, struct inc_err *err)
{
	struct sockaddr_ll ll = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};
	struct packet_mreq mreq = {.mr_type = PACKET_MR_PROMISC};
	int one = 1, size = SOCKET_BUFFER, ret;

	memset(port, 0, sizeof(*port));
	port->fd = port->link_fd = -1;
	if (strlen(ifname) >= sizeof(port->ifname))
		return inc_err_set(err, EINVAL, "%s: not an interface name", ifname);
	strcpy(port->ifname, ifname);
	port->ifindex = if_nametoindex(ifname);
	if (!port->ifindex)
		return inc_err_set(err, ENODEV, "%s: no such interface", ifname);
	port->out = calloc(WIRE_BATCH, WIRE_FRAME_MAX);
	if (!port->out)
		return inc_err_set(err, ENOMEM, "out of memory");
	/* the socket has protocol 0 at first, so that no frame arrives before it is bound */
	port->fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (port->fd < 0) {
		ret = inc_err_set(err, errno, "AF_PACKET socket: %s", strerror(errno));
		goto fail;
	}
	mreq.mr_ifindex = ll.sll_ifindex = port->ifindex;
	if (setsockopt(port->fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) ||
	    setsockopt(port->fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)) ||
	    setsockopt(port->fd, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof(one)) ||
	    setsockopt(port->fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof(one)) ||
	    setsockopt(port->fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &mreq, sizeof(mreq))) {
		ret = inc_err_set(err, errno, "%s: packet socket options: %s", ifname,
				  strerror(errno));
		goto fail;
	}
	ret = attach_pass(port, err);
	if (ret)
		goto fail;
	if (bind(port->fd, (struct sockaddr *)&ll, sizeof(ll))) {
		ret = inc_err_set(err, errno, "%s: bind: %s", ifname, strerror(errno));
		goto fail;
	}
	return 0;
fail:
	wire_port_close(port);
	return ret;
}

void wire_port_close(struct wire_port *port)
{
	if (port->fd >= 0)
		close(port->fd);
	if (port->link_fd >= 0)
		close(port->link_fd);
	free(port->out);
	port->fd = port->link_fd = -1;
	port->out = NULL;
}

/* Computes the Internet checksum that the sender has left to its device to compute. */
static bool complete_checksum(uint8_t *frame, size_t len, const struct virtio_net_hdr *hdr)
{
	size_t start = hdr->csum_start, at = start + hdr->csum_offset;
	uint64_t sum = 0;
	size_t i;

	if (at + 2 > len)
		return false;
	for (i = start; i + 1 < len; i += 2)
		sum += frame[i] << 8 | frame[i + 1];
	if (i < len)
		sum += frame[i] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	sum = ~sum & 0xffff;
	if (!sum)
		sum = 0xffff;
	frame[at] = sum >> 8;
	frame[at + 1] = sum;
	return true;
}

int wire_port_stamp(struct wire_port *port, bool on, struct inc_err *err)
{
	const int value = on;

	if (port->stamps == on)
		return 0;
	if (setsockopt(port->fd, SOL_SOCKET, SO_TIMESTAMPNS, &value, sizeof(value)))
		return inc_err_set(err, errno, "%s: times of arrival: %s", port->ifname,
				   strerror(errno));
	port->stamps = on;
	return 0;
}

/* Returns the time of a frame's arrival by the monotonic clock. Without a stamp it is now. The
 * kernel's stamps count from the epoch, `epoch_ns` before the monotonic clock's beginning. */
static uint64_t arrival(struct msghdr *msg, uint64_t now_ns, int64_t epoch_ns)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(msg);
	struct timespec at;
	int64_t ns;

	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SO_TIMESTAMPNS)
		return now_ns;
	memcpy(&at, CMSG_DATA(c), sizeof(at));
	ns = at.tv_sec * (int64_t)INC_NSEC_PER_SEC + at.tv_nsec - epoch_ns;
	/* the clock may have been set meanwhile */
	return ns > 0 && (uint64_t)ns < now_ns && now_ns - ns < INC_NSEC_PER_SEC ? (uint64_t)ns
										 : now_ns;
}

int wire_port_read(struct wire_port *port, uint8_t *frames, size_t lens[WIRE_BATCH],
		   uint64_t arrived_at_ns[WIRE_BATCH])
{
	union {
		char space[CMSG_SPACE(sizeof(struct timespec))];
		struct cmsghdr align;
	} control[WIRE_BATCH];
	struct virtio_net_hdr hdr[WIRE_BATCH];
	uint64_t now_ns;
	int64_t epoch_ns;
	struct mmsghdr msg[WIRE_BATCH];
	struct iovec iov[WIRE_BATCH][2];
	int n;

	memset(msg, 0, sizeof(msg));
	for (int i = 0; i < WIRE_BATCH; i++) {
		iov[i][0] = (struct iovec){&hdr[i], sizeof(hdr[i])};
		iov[i][1] = (struct iovec){frames + (size_t)i * WIRE_FRAME_MAX, WIRE_FRAME_MAX};
		msg[i].msg_hdr.msg_iov = iov[i];
		msg[i].msg_hdr.msg_iovlen = 2;
		if (port->stamps) {
			msg[i].msg_hdr.msg_control = &control[i];
			msg[i].msg_hdr.msg_controllen = sizeof(control[i]);
		}
	}
	n = recvmmsg(port->fd, msg, WIRE_BATCH, MSG_DONTWAIT | MSG_TRUNC, NULL);
	if (n < 0)
		/* nothing to read: the error is EAGAIN, or ENETDOWN when the interface is gone */
		return 0;
	now_ns = inc_now_ns();
	epoch_ns = port->stamps ? (int64_t)(inc_wall_ns() - now_ns) : 0;
	for (int i = 0; i < n; i++) {
		uint8_t *frame = iov[i][1].iov_base;

		arrived_at_ns[i] = arrival(&msg[i].msg_hdr, now_ns, epoch_ns);
		lens[i] = 0;
		if (msg[i].msg_len < sizeof(hdr[i]) + ETH_HLEN ||
		    msg[i].msg_len > sizeof(hdr[i]) + WIRE_FRAME_MAX ||
		    hdr[i].gso_type != VIRTIO_NET_HDR_GSO_NONE)
			continue;
		lens[i] = msg[i].msg_len - sizeof(hdr[i]);
		if ((hdr[i].flags & VIRTIO_NET_HDR_F_NEEDS_CSUM) &&
		    !complete_checksum(frame, lens[i], &hdr[i]))
			lens[i] = 0;
	}
	return n;
}

unsigned int wire_port_write(struct wire_port *port, const uint8_t *frame, size_t len)
{
	unsigned int failed = port->n_out == WIRE_BATCH ? wire_port_flush(port) : 0;

	memcpy(port->out + (size_t)port->n_out * WIRE_FRAME_MAX, frame, len);
	port->out_len[port->n_out++] = len;
	return failed;
}

unsigned int wire_port_flush(struct wire_port *port)
{
	static const struct virtio_net_hdr none;
	struct mmsghdr msg[WIRE_BATCH];
	struct iovec iov[WIRE_BATCH][2];
	unsigned int failed = 0, done = 0, n = port->n_out;

	memset(msg, 0, sizeof(msg));
	for (unsigned int i = 0; i < n; i++) {
		iov[i][0] = (struct iovec){(void *)&none, sizeof(none)};
		iov[i][1] =
			(struct iovec){port->out + (size_t)i * WIRE_FRAME_MAX, port->out_len[i]};
		msg[i].msg_hdr.msg_iov = iov[i];
		msg[i].msg_hdr.msg_iovlen = 2;
	}
	while (done < n) {
		int sent = sendmmsg(port->fd, msg + done, n - done, MSG_DONTWAIT);

		if (sent > 0) {
			done += sent;
			continue;
		}
		if (sent < 0 && errno == EINTR)
			continue;
		failed++; /* only this frame has failed */
		done++;
	}
	port->n_out = 0;
	return failed;
}

uint64_t wire_port_drops(struct wire_port *port)
{
	struct tpacket_stats st = {0};
	socklen_t len = sizeof(st);

	if (getsockopt(port->fd, SOL_PACKET, PACKET_STATISTICS, &st, &len))
		return 0;
	return st.tp_drops;
}
