/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One RC channel: a reliable connection that moves whole messages, as a queue pair does. There are
 * two kinds, a table of functions each. `soft` is the project's own RC endpoint on a UDP socket,
 * which every machine supports. `verbs` is a queue pair of an RDMA device. A further transport is
 * one more table, in a file of its own. docs/house.md lists the places that name it.
 *
 * A device is where packets arrive and leave: for soft channels a UDP socket at an own address, or
 * at all of them, and for verbs a port of an RDMA device. A channel is one end of a connection
 * there. It is connected when its peer is known. Messages are numbered from 0 in each direction.
 *
 * A channel works in one of two ways, which its owner chooses when it makes the channel:
 *
 *	posted		The owner posts buffers of one size, and each message that arrives fills
 *			one of them. Messages are sent independently of that. Switches in
 *			termination mode use it (userspace/term).
 *	mirrored	Each message sent, a contribution, is answered by one message, its result,
 *			which has the same shape. So the owner says with each message where its
 *			result goes (exchange()), and a soft channel stores results that arrive out
 *			of order. Hosts use it (hostlib/src/endpoint.c; docs/protocol.md).
 *
 * Threads: a device and its channels belong to one thread, or to one lock. Reports come from within
 * progress() and arm(). A handler may call any function but these two, close() and abandon(). No
 * function waits, except probe(), open() and close(), and connect() of a device that may block.
 */
#ifndef INC_CHANNEL_H
#define INC_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lib/base/addr.h"
#include "lib/base/err.h"
#include "lib/proto/rc_end.h"
#include "lib/base/log.h"
#include "lib/proto/roce.h"

struct inc_channel_ops;

/* RNR timer code of the RNR NAKs of posted channels: 164 ms. A peer that keeps to its window
 * receives such a NAK only if an ACK for an RDMA device of the switch was lost. That device
 * requests the ACK again after 0.54 s, and a host's device tries seven times. */
#define INC_CHANNEL_RNR_TIMER 28

/* The longest message of a posted channel on an RDMA device. */
#define INC_CHANNEL_VERBS_MAX_MESSAGE (1 << 20)

/* The public parts of a device and of a channel. Each is the first member of the struct that a kind
 * has for it. */
struct inc_channel_device {
	const struct inc_channel_ops *ops;
};

struct inc_channel {
	struct inc_channel_device *dev;
};

/* ---- reports ---- */

/* The reason why a channel is broken. */
enum inc_channel_reason {
	INC_CHANNEL_INVALID, /* the peer has sent an invalid request */
	INC_CHANNEL_REFUSED, /* the peer has refused a message as invalid */
	INC_CHANNEL_SILENT,  /* the peer does not acknowledge */
	INC_CHANNEL_ENDED,   /* the peer reports that the communicator has ended (NAK 63) */
	/* this end of the channel cannot go on, because its device, port or memory has failed */
	INC_CHANNEL_CUT,
};

struct inc_channel_loss {
	enum inc_channel_reason reason;
	int error; /* a positive errno */
	char text[256];
};

/* A message that has arrived in a posted buffer. For mirrored channels all members are 0. These
 * channels compare a result with what exchange() has described, and a result that differs breaks
 * the channel. */
struct inc_channel_message {
	bool has_imm; /* the message has immediate data, which is in imm in host order */
	uint32_t imm;
	uint32_t length; /* length of the message in bytes */
	void *buffer;    /* the posted buffer that has the message */
};

/* Functions of the owner that a channel calls. ctx is that of the channel's options. */
struct inc_channel_handler {
	/* Reports a message that has arrived; messages come in the order of their numbers. The
	 * buffer belongs to the handler from now on, whatever the length. */
	void (*message)(void *ctx, const struct inc_channel_message *m);
	/* Reports that the peer has acknowledged the oldest message sent, so the channel does not
	 * read that message's memory any more. */
	void (*sent)(void *ctx);
	/* Reports that the channel is broken for good, and neither sends nor receives any more.
	 * Buffers that were posted or sent are the owner's again when the channel is shut.
	 * loss->text is one line. */
	void (*lost)(void *ctx, const struct inc_channel_loss *loss);
};

/* ---- devices ---- */

/* Settings of RDMA devices. The attributes of queue pairs have the names and units of
 * ibv_modify_qp(3). */
struct inc_channel_verbs_settings {
	char device[64]; /* name of the device; "": the device that has the address */
	int port;        /* number of the RDMA device's port; 0: any */
	int gid_index;   /* index of the GID; -1: that of the address */
	int timeout;     /* the ACK timeout is 4.096 us * 2^timeout */
	/* number of retransmissions after timeouts, before a queue pair fails; 7 means for ever on
	 * some devices (rxe) */
	int retry_cnt;
	/* number of retransmissions after RNR NAKs; 7 means for ever on every device */
	int rnr_retry;
	int min_rnr_timer; /* code of the delay that this end's RNR NAKs request */
	int sl;            /* service level: the 802.1p priority on a VLAN */
	int traffic_class; /* TOS byte of the IP header: DSCP * 4 + ECN */
	int hop_limit;     /* TTL of the IP header */
	/* flow label of the queue pair, from which some devices also choose the UDP source port; 0:
	 * the device chooses it */
	int flow_label;
	/* index of a P_Key in the port's table; -1: the index of the P_Key in the channel's
	 * options */
	int pkey_index;
	/* most that a queue pair sends, in kbit/s; 0: no limit */
	int rate_limit;
	int max_rd_atomic; /* number of RDMA READs in flight in each direction; channels use none */
	int port_down_ms;  /* after a port has been down for this time, its channels break */
	/* limit in MiB of the memory registrations that are kept for reuse; 0: none is kept */
	int cache_mib;
};

/* The settings of a switch that has no others. */
extern const struct inc_channel_verbs_settings inc_channel_verbs_of_switch;

struct inc_channel_device_opts {
	/* RDMA devices: name of the port's network interface; NULL: any. Soft devices do not use
	 * it, because each channel names its port (struct inc_channel_opts). */
	const char *ifname;
	/* own address of the device; inc_addr_any(): all addresses of the machine of that family,
	 * for kinds with serves_all_ports, where each channel names its own address */
	struct inc_addr own_ip;
	/* soft channels: UDP port on which they receive; 0: any free port */
	uint16_t udp_port;
	uint64_t rto_min_ns, rto_max_ns; /* soft channels: bounds of the retransmission timeout */
	/* soft channels: size of the socket's buffer in each direction, if the kernel allows it; 0:
	 * 8 MiB */
	int buffer_bytes;
	const struct inc_channel_handler *handler;
	/* Another device of this kind that the same thread serves. The two share memory that they
	 * use in turn. NULL: there is none. */
	const struct inc_channel_device *beside;
	/* RDMA devices: connect() may block until the peer's Ethernet address is known. If this is
	 * false, a thread waits for it, and the channel is connected later. Also, only a device
	 * that must not block notices that its hardware was removed. */
	bool may_block;
	/* settings of RDMA devices; NULL: inc_channel_verbs_of_switch */
	const struct inc_channel_verbs_settings *verbs;
	/* Logs one line without a newline. NULL: the line goes to the program's log. */
	void (*log)(void *ctx, enum inc_log_level level, const char *fmt, ...)
		__attribute__((format(printf, 3, 4)));
	void *log_ctx;
};

/* The capabilities of a device, as probe() finds them. */
struct inc_channel_offer {
	/* name of the device, such as "mlx5_0 port 1, GID 3"; the address of a soft device */
	char device[64];
	/* most payload bytes of a packet; 0: the device has no limit, so the path has one */
	uint32_t payload_bytes;
	uint32_t max_message_bytes;
	uint32_t max_messages; /* most messages under way in a mirrored channel */
	/* number of packets that the device can store until progress() is called, if each payload
	 * has at most INC_MAX_PAYLOAD; a packet with a larger one counts as two. UINT32_MAX: no
	 * limit */
	uint32_t receive_packets;
	bool udp_csum; /* peers that send packets to the device should give them UDP checksums */
	/* mirrored channels of the device can send contributions and receive results in any
	 * order */
	bool reorder;
};

/* The rights of a device to a region of memory. */
enum inc_channel_access {
	INC_CHANNEL_READ,    /* the device may send from the region */
	INC_CHANNEL_RECEIVE, /* the device may also store messages in the region */
	INC_CHANNEL_WRITE,   /* the peer, too, may write to the region by RDMA WRITE */
};

/* A region of memory that a device may use. */
struct inc_channel_region {
	void *addr;
	size_t len;
	uint32_t lkey;
	uint32_t rkey; /* R_Key, which names the region in a RETH */
	uint64_t va;   /* the address in a RETH that means addr */
	void *priv;    /* data of the device */
};

/* Counters of packets that belong to no channel, and of system calls. */
struct inc_channel_device_figures {
	/* number of packets for no channel, or from another sender than the channel's peer */
	uint64_t strangers;
	/* packets of a channel's peer that arrived at another interface than the channel's port */
	uint64_t wrong_port;
	/* packets that are malformed, contradictory, or have a wrong checksum */
	uint64_t damaged;
	/* numbers of calls of the kernel, or of the device, that send and that receive */
	uint64_t send_calls, recv_calls;
};

/* ---- channels ---- */

/* The rule of a channel for messages that arrive: whether the last packet of each must have the
 * solicited event bit. */
enum inc_channel_se {
	INC_CHANNEL_SE_ANY,
	/* messages must lack the solicited event bit; a message with it is an invalid request */
	INC_CHANNEL_SE_LACKS,
	/* messages must have the solicited event bit; a message without it is an invalid request */
	INC_CHANNEL_SE_HAS,
};

struct inc_channel_opts {
	/* The own end of the new channel, as the caller wants it. Its qpn is 0 for any, or the
	 * queue pair number of a soft channel, because RDMA devices choose it themselves. Its psn
	 * is that of the first packet that this end sends. Its ip is the channel's own address if
	 * the device is at all addresses. */
	struct inc_rc_end own;
	/* soft channels: name of the port. The channel accepts only packets that arrive there.
	 * NULL: packets may arrive at any interface, which suits a host. */
	const char *ifname;
	uint16_t pkey;
	uint32_t payload;           /* most payload bytes of a packet */
	uint32_t max_message_bytes; /* the size of a posted buffer */
	/* Posted channels: the most receives that are posted, and the most messages that are sent
	 * and not acknowledged. Mirrored channels: the most messages whose results are not here. */
	uint32_t messages;
	/* the channel is mirrored: its owner calls exchange() instead of post() and send() */
	bool mirrored;
	/* the last packet of each message sent has the solicited event bit; other packets may have
	 * it, too */
	bool se;
	/* the bit that the peer's messages must have; for soft channels only, because an RDMA
	 * device does not report the bit */
	enum inc_channel_se peer_se;
	/* RDMA devices that must not block: settings of this queue pair, copied; NULL: those of the
	 * device. Its members device, port, port_down_ms and cache_mib have no meaning here. Soft
	 * channels use its traffic_class and sl alone; NULL: 0. */
	const struct inc_channel_verbs_settings *verbs;
	/* soft channels: reports the TOS byte of the peer's packets when it has changed, which is 0
	 * at first; NULL: the owner does not need it */
	void (*class_seen)(void *ctx, uint8_t tos);
	/* posted channels: the region that contains all buffers that are posted or sent */
	const struct inc_channel_region *memory;
	/* name of the channel for error messages, such as "communicator 12, rank 3"; copied */
	const char *what;
	void *ctx; /* argument for the handler */
};

/* The parameters of a channel's own end, which the peer must know. */
struct inc_channel_own {
	/* the end in the channel's options, with the numbers and the UDP port that it has now */
	struct inc_rc_end end;
	uint16_t pkey;
	/* RDMA devices: indexes of this P_Key and of the GID in the port's tables */
	uint16_t pkey_index;
	uint8_t gid_index;
};

struct inc_channel_peer {
	/* name of the peer for error messages; NULL: the name in the channel's options */
	const char *name;
	struct inc_rc_end end;
	/* Soft channels: the peer is an RDMA device, and a UDP socket cannot know the IP IDs of its
	 * packets. So the channel accepts any IP ID, at the price of 16 of the ICRC's 32 bits. */
	bool any_ip_id;
	/* Soft channels: the peer uses a result as the acknowledgement of its contribution, as soft
	 * hosts do. So no ACK need accompany the result, and ACKs may be rare. */
	bool results_acknowledge;
	/* Soft channels: the peer is a switch. Each end may wait for the other with nothing to
	 * send. So the channel accepts a NAK 63 of the peer whatever packet it names, and sends
	 * closing NAKs to the peer for minutes. A host gets them for seconds. */
	bool is_switch;
	/* Soft mirrored channels: the peer answers probes. So contributions request no ACK, and a
	 * channel that has received no result for long sends a probe. */
	bool answers_probes;
	/* Soft mirrored channels: the peer, which answers probes, keeps contributions ahead of a
	 * gap and sends results in any order. So a result acknowledges its own contribution alone,
	 * and NAKs name gaps. Messages should be of one packet and have an immediate, because the
	 * peer keeps no others. */
	bool reorder;
	/* shortest retransmission timeout of the peer of a mirrored channel; 0: not known */
	uint64_t rto_min_ns;
	/* payload bytes of a packet of a mirrored channel, as agreed with the peer; at most those
	 * of the options */
	uint32_t payload;
	uint32_t packets; /* most packets that a mirrored channel has under way, a power of two */
	/* Mirrored channels: a message and its result may have different numbers of packets, so a
	 * result acknowledges a whole message. If this is false, packet r of a message corresponds
	 * to packet r of its result. */
	bool by_message;
	/* most messages that a mirrored channel has under way, if by_message is set */
	uint32_t messages;
};

/* A contribution of a mirrored channel, and the memory for its result. */
struct inc_channel_exchange {
	/* contribution, send_len bytes in send_region; its owner does not change it until the
	 * result is here */
	const void *send;
	/* Memory for the result, recv_len bytes in recv_region. It may be that of the contribution,
	 * but not that of another contribution whose result is not here. Its content has no meaning
	 * until the result is here. */
	void *recv;
	/* If a length is 0, nothing is sent, or nothing is received. If packets correspond to each
	 * other, only a message of one packet may have a length of 0. */
	uint32_t send_len, recv_len;
	/* the registered regions that contain `send` and `recv`; NULL if the length is 0 */
	const struct inc_channel_region *send_region, *recv_region;
	/* immediate data in host order, if has_imm is set */
	uint32_t imm;
	bool has_imm; /* the last packet of the contribution has immediate data */
	/* the contribution is an RDMA WRITE that names `recv`, to which the switch writes the
	 * result */
	bool write;
	/* the contribution is the last of its collective, so it requests an ACK and is sent without
	 * delay */
	bool last;
};

/* Counters of a channel's packets. For a posted channel on an RDMA device all are 0, because the
 * device does not count the packets of a single queue pair. */
struct inc_channel_figures {
	/* soft channels: CNPs to the peer, and reports of congestion on the way to it */
	uint64_t cnps_sent, congested;
	uint64_t rx_packets, duplicates, reordered, naks_sent, naks_received, rnrs_sent,
		rnrs_received;
	uint64_t tx_packets, retransmits, acks_sent, acks_received, timeouts;
	uint64_t timeouts_in_a_row; /* since the last answer of the peer; 0: not known */
	uint64_t srtt_ns;           /* smoothed round trip time; 0: not measured */
};

struct inc_channel_ops {
	const char *name; /* name of the kind, such as "soft" */
	/* one device can serve all ports and addresses of the machine (own_ip 0) */
	bool serves_all_ports;

	/* Finds out what a device would offer, without opening it. 0, or -ENODEV if there is none.
	 * why: one line for the log in both cases. */
	int (*probe)(const struct inc_channel_device_opts *opts, struct inc_channel_offer *out,
		     struct inc_err *why);
	int (*open)(const struct inc_channel_device_opts *opts, struct inc_channel_device **out,
		    struct inc_err *err);
	void (*offer)(const struct inc_channel_device *dev, struct inc_channel_offer *out);
	/* Closes a device, after all its channels are shut and all its memory is unmapped. */
	void (*close)(struct inc_channel_device *dev);
	/* Does what close() does, in a forked child and together with the device's channels. It
	 * frees memory and closes descriptors, and does not disturb the parent's device. */
	void (*abandon)(struct inc_channel_device *dev);

	/* Makes memory known to the device. */
	int (*map)(struct inc_channel_device *dev, void *addr, size_t len,
		   enum inc_channel_access access, struct inc_channel_region *region,
		   struct inc_err *err);
	/* Removes a region from the device. If a mirrored channel still awaits a result in the
	 * region, the channel breaks, because the device must not write there any more. */
	void (*unmap)(struct inc_channel_device *dev, struct inc_channel_region *region);

	/* Makes a channel, which can receive as soon as it is connected. */
	int (*make)(struct inc_channel_device *dev, const struct inc_channel_opts *opts,
		    struct inc_channel **out, struct inc_channel_own *own, struct inc_err *err);
	/* Connects a channel to its peer. -EALREADY: the channel has its peer already. */
	int (*connect)(struct inc_channel *ch, const struct inc_channel_peer *peer,
		       struct inc_err *err);
	/* Ends a channel and frees ch. Buffers posted and messages sent are the owner's again when
	 * this returns, and nothing is reported. If syndrome is not 0, a soft channel sends closing
	 * NAKs with it to its peer: at once, several times, and in answer to each further packet.
	 * INC_AETH_NAK_OPERATION reports that the communicator has ended. */
	void (*shut)(struct inc_channel *ch, uint8_t syndrome);

	/* Posts one more receive. This is allowed before connect() as well. Returns 0 or
	 * -ENOBUFS. */
	int (*post)(struct inc_channel *ch, void *buffer);
	/* Sends a message. buffer is NULL if length is 0. Returns 0 or -errno. On failure the
	 * channel is broken, and the handler receives a report. The message leaves at flush() at
	 * the latest. */
	int (*send)(struct inc_channel *ch, const void *buffer, uint32_t length, bool has_imm,
		    uint32_t imm);
	/* Sends a contribution and expects its result; x is copied. Returns 0. -EAGAIN: the queue
	 * is full, so call again after progress(). -ENOTCONN: the channel is broken. */
	int (*exchange)(struct inc_channel *ch, const struct inc_channel_exchange *x);
	/* The owner reports that the peer's own messages prove that the peer has the first n
	 * messages sent to it. This counts as an ACK of them. n counts from the channel's first
	 * message. The function is NULL for RDMA devices, because these read what they send until
	 * the ACK itself has come. */
	void (*shown)(struct inc_channel *ch, uint64_t n);
	/* Sends all messages that the device's channels have queued. A mirrored soft channel may
	 * wait for more messages, while results are due that will open its window. */
	void (*flush)(struct inc_channel_device *dev);

	/* Receives a bounded number of packets that have arrived, answers them, and retransmits
	 * what is due. True: more packets may have arrived. The caller calls flush() afterwards. */
	bool (*progress)(struct inc_channel_device *dev);
	/* Prepares the device for the owner's sleep, so that its descriptor becomes readable when
	 * something arrives. Returns true if something has arrived already, perhaps reported by
	 * now. The owner then calls progress() instead of sleeping. */
	bool (*arm)(struct inc_channel_device *dev);
	/* The descriptor to wait for, and what to wait for: *events is POLLIN, with POLLOUT while
	 * the send buffer is full. A caller of many devices may wait for POLLIN alone, because
	 * the deadline of posted channels considers a full buffer. events may be NULL. */
	int (*fd)(const struct inc_channel_device *dev, short *events);
	/* The time at which progress() must be called at the latest (CLOCK_MONOTONIC; UINT64_MAX:
	 * none). */
	uint64_t (*deadline_ns)(const struct inc_channel_device *dev);

	/* For mirrored channels. Returns the number of packets of contributions whose results are
	 * not here. */
	uint64_t (*under_way)(const struct inc_channel *ch);
	/* For mirrored channels. Returns when progress() must be called to send an ACK of results
	 * that is held back. UINT64_MAX: no ACK is held back. */
	uint64_t (*ack_at_ns)(const struct inc_channel *ch);
	/* For mirrored channels. Sets whether the owner will call again soon. If it will not, the
	 * channel holds no ACK back once all results are here. */
	void (*attend)(struct inc_channel *ch, bool attended);
	/* For mirrored channels. Returns a number that grows with everything new that arrives,
	 * which is a result, or an ACK of more than before. */
	uint64_t (*moved)(const struct inc_channel *ch);
	/* For mirrored channels. Writes what the channel waits for: "contribution 17 is not
	 * acknowledged (40 sent, 3 timeouts)". */
	void (*describe)(const struct inc_channel *ch, char *buf, size_t size);

	/* Sets the TOS byte of all packets that the channel sends from now on. NULL for RDMA
	 * devices, whose queue pairs keep the class with which they were connected. */
	void (*set_class)(struct inc_channel *ch, uint8_t traffic_class);

	void (*figures)(const struct inc_channel *ch, struct inc_channel_figures *out);
	void (*device_figures)(const struct inc_channel_device *dev,
			       struct inc_channel_device_figures *out);
};

/* Whether the MTU of the interface with the address `ip` has become too small for
 * packets with this payload. Writes its name, its MTU, the MTU that they need, and the command that
 * sets it. */
bool inc_channel_mtu_too_small(struct inc_addr ip, uint32_t payload, char *buf, size_t size);

/* The program's log (lib/base/log.h), which is the default of a device's log. */
void inc_channel_log(void *ctx, enum inc_log_level level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

extern const struct inc_channel_ops inc_channel_soft;
extern const struct inc_channel_ops inc_channel_verbs;

#endif
