/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Data that the XDP programs and user space share: map values and events. It has
 * fixed-width types only, and both compilers assert sizes and offsets.
 *
 * Terms: a *connection* is one RC queue pair between the switch and a child, or its parent. In a
 * tree of switches a communicator has a connection to the parent at each switch but the root.
 * Packet r of a direction is the packet whose PSN is start_psn + r. r counts in 64 bits here, so
 * it never wraps. A *slot* is r mod slots, a *generation* is r / slots. A *communicator* has a
 * number of the controller; the switch numbers its own communicators from 0 (the index).
 */
#ifndef INC_PROTO_MAPS_H
#define INC_PROTO_MAPS_H

#include <linux/types.h>
#include "lib/proto/counters.h"
#include "lib/proto/rc_end.h"
#include "lib/proto/roce.h"

/* The layout of the maps, which pins have that outlive a daemon. Each change of a struct in this
 * file, of struct inc_xdp_end, or of what a descriptor means, makes the next number. */
#define INC_ABI_VERSION 15
_Static_assert(INC_N_RC_END_FIELDS == 4,
	       "a new field of an end makes the next INC_ABI_VERSION; then change this number");

/* limit of a communicator's children in passthrough mode */
#define INC_MAX_CHILDREN 32
/* limit of a communicator's connections, which are those to the children and one to the parent */
#define INC_MAX_CONNECTIONS (INC_MAX_CHILDREN + 1)
#define INC_MAX_SLOTS       4096
#define INC_MAX_LOG2_SLOTS  12
/* The numbers of slots that a communicator may have. */
#define INC_SLOTS_TEXT "a power of two up to 4096"
INC_INLINE _Bool inc_slots_ok(__u64 slots)
{
	return slots && slots <= INC_MAX_SLOTS && !(slots & (slots - 1));
}
_Static_assert(INC_MAX_SLOTS == 4096, "as INC_SLOTS_TEXT says");
_Static_assert(INC_MAX_SLOTS == 1 << INC_MAX_LOG2_SLOTS, "one is the other's logarithm");

#define INC_RNR_TIMER 12 /* RNR timer code of the switch's RNR NAKs: 0.64 ms */

/* Names of the maps that user space looks up, as they are pinned and as bpftool shows them (15
 * characters at most). bpf/inc_maps.h has all maps. */
#define INC_MAP_CONN_LOOKUP "inc_conn_lookup"
#define INC_MAP_CONN_PLACE  "inc_conn_place"
#define INC_MAP_CONN_CFG    "inc_conn_cfg"
#define INC_MAP_OWN_ADDR    "inc_own_addr"
#define INC_MAP_COMM_CFG    "inc_comm_cfg"
#define INC_MAP_COMM_PORTS  "inc_comm_ports"
#define INC_MAP_PARENT_PORT "inc_parent_port"
#define INC_MAP_ROOT_CHILD  "inc_root_child"
#define INC_MAP_COPY        "inc_copy"
#define INC_MAP_PORT        "inc_port"
#define INC_MAP_ANSWER_PORT "inc_answer_port"
#define INC_MAP_XSK         "inc_xsk"
#define INC_MAP_COUNTER     "inc_counter"
#define INC_MAP_EVENT       "inc_event"
#define INC_MAP_ROUTE       "inc_route"
#define INC_MAP_QUEUE       "inc_queue"
#define INC_MAP_CPU         "inc_cpu"
#define INC_MAP_LAYOUT      "inc_layout"

/* inc_layout[0] describes the maps. It is pinned beside the maps and after all of them, so a daemon
 * that finds it finds all maps. Writer: loader. A daemon with another INC_ABI_VERSION does not use
 * the pinned maps. */
struct inc_layout {
	__u32 abi;
	__u32 generic; /* 1: the ports run the program in generic mode */
};

/* Key of inc_conn_lookup, which gives the connection that a packet belongs to. Writer: loader. The
 * value is a connection id, the index into inc_conn_cfg and inc_conn_state. */
struct inc_conn_key {
	__be32 saddr; /* the peer's address */
	__be32 daddr; /* the switch's address */
	__u32 dqpn;   /* the switch's queue pair number, in host order */
};

/* inc_conn_place[inc_conn_place_of(queue pair number, places)] is where the program looks for a
 * packet's connection first. Queue pair numbers that end in the same bits share a place, and
 * only one of their connections is there. inc_conn_lookup has all connections. The number of
 * places is a power of two. */
INC_INLINE __u32 inc_conn_place_of(__u32 qpn, __u32 places)
{
	return qpn & (places - 1);
}

/* The number of places in inc_conn_place, at least four times the connections. So even if all
 * connections are in use, at most one in nine of the controller's random queue pair numbers finds
 * its place taken. */
INC_INLINE __u32 inc_conn_places(__u32 max_connections)
{
	__u32 places = 1;

	while (places < 4 * max_connections)
		places <<= 1;
	return places;
}

/* results to the peer have a UDP checksum, so that the peer can use UDP_GRO */
#define INC_CONN_F_UDP_CSUM  0x1
#define INC_CONN_F_FIXED_MAC 0x2 /* the peer's MAC address is configured and never changes */
#define INC_CONN_F_UP        0x4 /* the peer is the parent switch */
#define INC_CONN_F_SWITCH    0x8 /* the peer is a switch, parent or child */
/* own_mac is configured; otherwise own_mac follows the MAC address of the port */
#define INC_CONN_F_OWN_MAC 0x10
/* traffic_class is configured; otherwise packets to the peer have the class that is mirrored */
#define INC_CONN_F_CLASS 0x20
/* the priority in `tag` is configured; otherwise tags to the peer have the priority that is
 * mirrored */
#define INC_CONN_F_PCP 0x40

#define INC_NO_PSN 0xffffffffu

/* A MAC address that is read and written as one word. */
union inc_mac {
	struct {
		__u8 addr[6];
		__u8 known; /* 1 if there is an address; then the word is not 0 */
		__u8 resv;
	};
	__u64 word;
};

/*
 * inc_conn_cfg[connection id]: the configuration of a connection. Writer: loader, before it adds
 * the look-up entry. After that only own_mac changes (inc_switch_follow_macs()). A program may read
 * own_mac half written. One frame then has a mixed source MAC address, which no receiver of this
 * protocol checks.
 */
struct inc_conn_cfg {
	__u32 comm; /* the communicator: index into inc_comm_cfg */
	/* number of the child in the communicator, from 0 to children - 1, where children of one
	 * port stand together; the parent has the number `children` */
	__u32 child;
	/* rank of the child; for a child that is a switch, the lowest rank below it; for the
	 * parent, the lowest rank below this switch */
	__u16 rank;
	/* the VLAN in which packets from and to the peer are, 0: none; with INC_CONN_F_PCP also the
	 * priority, at INC_TAG_PCP_SHIFT */
	__u16 tag;
	__u32 ifindex;           /* packets of this connection must arrive at this interface */
	struct inc_xdp_end own;  /* the switch's end; its PSN is that of result 0 to the peer */
	struct inc_xdp_end peer; /* the peer's end; its PSN is that of the peer's packet 0 */
	__u16 pkey;
	__u16 flags; /* INC_CONN_F_* */
	/* the switch's MAC address, which is the source of every frame to the peer */
	__u8 own_mac[6];
	__u8 port_first;    /* ordinal of the first child on this child's port */
	__u8 port_children; /* number of children on this child's port */
	/* number of ranks behind the child; for the parent the number of ranks below this switch */
	__u16 ranks;
	/* with INC_CONN_F_CLASS: TOS byte of packets to the peer; otherwise 0 */
	__u8 traffic_class;
	__u8 resv;
};

/*
 * inc_conn_state[connection id]: the state of a connection. Writer: the XDP program that holds
 * busy, one at a time. The egress program writes data_cache and clears becn_due. The program that
 * holds child 0 writes traffic_class and tag of the parent, and the one that holds the parent sets
 * becn_due and cnp_due of the children. User space fills it before the look-up entry exists. After
 * that user space writes `mac`, by compare-and-exchange (inc_switch_found_peer()), and clears
 * becn_due. Each state has two cache lines of its own.
 */
struct inc_conn_state {
	/* number r of the next packet expected from the peer; all packets before it are stored */
	__u64 rx_next;
	__u64 tx_acked; /* the peer has acknowledged all packets sent to it before this r */
	/* one past the highest r of the peer's packets that have requested an ACK */
	__u64 ack_asked;
	/* one past the highest r of the peer's packets that XDP has acknowledged. While ack_asked >
	 * ack_sent the switch owes an ACK, which the slow path sends after a delay */
	__u64 ack_sent;
	/* cache of the ICRC of ACKs to the peer: key << 32 | CRC state over the first 36 bytes of
	 * their headers */
	__u64 ack_cache;
	__u64 data_cache; /* cache of the ICRC of results to the peer, in the form of ack_cache */
	__u32 msn;        /* number of messages that the child has completed, modulo 2^24 */
	__u32 desc;       /* descriptor of the collective in progress */
	/* enum inc_open_message: whether the peer's next packet is in the middle of a message */
	__u8 open_message;
	__u8 desc_valid; /* desc is valid, because the peer has sent a descriptor */
	/* a NAK 60 or RNR NAK has requested packet rx_next, so later packets cause no further
	 * NAK */
	__u8 nak_sent;
	__u8 error;      /* AETH syndrome that ended the connection; 0: alive */
	__u8 refusal;    /* syndrome of the last fatal NAK from the peer; 0: none */
	__u8 ahead_asks; /* a packet that was kept ahead of a gap has requested an ACK */
	/* While packets are missing: number of packets from rx_next on to the last one that was
	 * kept or named in a NAK. 0: no packet is missing, as far as the program knows. Only with
	 * INC_COMM_F_REORDER. */
	__u16 ahead;
	/* TOS byte of packets to the peer: the configured one, or that of the peer's own packets
	 * without a mark of congestion (inc_tos_mirrored()). For the parent it is that of the
	 * packets of child 0, because the parent sends nothing before it has a partial sum. */
	__u8 traffic_class;
	/* TOS byte of the peer's last packet without a mark of congestion, or what traffic_class
	 * would be after one with a mark. So each packet with a mark differs from it. */
	__u8 rx_tos;
	/* tag of packets to the peer (frame.h), 0: they have none. Where the peer is in a VLAN, all
	 * have one; otherwise those to a peer that sends priority tags */
	__u16 tag;
	__u16 rx_tag; /* tag of the peer's last packet */
	/* Reports of congestion that are due to a child (inc_report()): the next result to it has
	 * BECN; the next packet of it that needs no other answer becomes a CNP. */
	__u8 becn_due;
	__u8 cnp_due;
	__u16 cnp_at; /* time of the last CNP to the peer, in units of INC_CNP_TIME_SHIFT */
	__u16 cnps;   /* number of CNPs received from the peer, modulo 2^16 */
	/* number of packets received with r below rx_next; this counter and the next four are
	 * modulo 2^32 */
	__u32 duplicates;
	__u32 naks_sent; /* number of NAKs sent to the peer */
	__u32 rnrs_sent;
	__u32 naks_received;
	/* number of ACKs received, even of those that acknowledge nothing new */
	__u32 acks_received;
	/* one past the result that the peer's last ACK has named, even if that acknowledged nothing
	 * new */
	__u64 ack_named;
	/* The MAC address for frames to the peer: configured, from the kernel's neighbour table,
	 * or the source of two successive frames. */
	union inc_mac mac;
	/* A second MAC address of the peer: the source of one frame that differs from mac, or the
	 * address before mac changed. Frames go to it while mac is not known. */
	union inc_mac mac_hint;
	__u32 busy;     /* 1: a program works on a packet of this connection */
	__u32 hint_psn; /* PSN of the frame that had the address mac_hint, or INC_NO_PSN */
};

/* Times of CNPs are in units of 2^14 ns. A CNP is INC_CNP_PACE units later than the one before it,
 * or more. As units are cut, the distance may be shorter by one of them, and is above 65 us. */
#define INC_CNP_TIME_SHIFT 14
#define INC_CNP_PACE       5

enum inc_open_message {
	INC_OPEN_NONE = 0,
	INC_OPEN_SEND = 1,
	INC_OPEN_WRITE = 2,
};

#define INC_COMM_F_VALID     0x1
#define INC_COMM_F_NET_ORDER 0x2 /* elements are big endian on the wire */
#define INC_COMM_F_UP        0x4 /* the switch is below the root: it has a parent */
#define INC_COMM_F_UDP_CSUM  0x8 /* a child wants UDP checksums */
/* All children accept results in any order, and NAKs that name gaps. So contributions ahead of a
 * gap are kept, and chunks complete in any order. The switch has no parent then. */
#define INC_COMM_F_REORDER 0x10

/* The place of an interface in inc_comm_cfg.port_child[], where the program looks first for a
 * communicator's children on this port. The number of places is a power of two and equals
 * INC_MAX_PORTS, so interfaces that are made one after another do not share a place. */
#define INC_PORT_PLACES 64
INC_INLINE __u32 inc_port_place_of(__u32 ifindex)
{
	return ifindex & (INC_PORT_PLACES - 1);
}

/* inc_comm_cfg[communicator]: the configuration of a communicator. Writer: loader, before it adds
 * the look-up entries. */
struct inc_comm_cfg {
	__u32 flags;     /* INC_COMM_F_* */
	__u32 children;  /* number of children: 1..INC_MAX_CHILDREN */
	__u32 full_mask; /* mask with one bit for each child */
	__u32 log2_slots;
	__u32 payload; /* path MTU of the communicator, see inc_payload_ok() */
	/* first connection id of the communicator: child c has the id conn_base + c, and the parent
	 * the id after the children's */
	__u32 conn_base;
	/* first row of the communicator in inc_kept: slot s of child c has row kept_base + (c <<
	 * log2_slots) + s, and the parent's rows follow those of the children */
	__u32 kept_base;
	/* first row of the communicator in inc_sum and inc_slot: slot s has row sum_base + s */
	__u32 sum_base;
	__u32 communicator; /* the controller's number, by which user space finds the
			     * communicator */
	/* first row of the communicator in inc_root_child; rank R has row root_base +
	 * inc_root_row_of(R) */
	__u32 root_base;
	/* number of the communicator's rows in inc_root_child; a rank that has no row is not below
	 * this switch */
	__u32 root_rows;
	__u32 resv[5];
	/* The first child on the port that has this place, plus 1; 0: no port of the communicator
	 * has the place. If two ports share a place, one of them is here, and the program finds the
	 * children of the other by a search through all children. */
	__u8 port_child[INC_PORT_PLACES];
};

/* Returns the number of connections of a communicator, which is one for each child and one for the
 * parent, if there is one. */
INC_INLINE __u32 inc_comm_conns(const struct inc_comm_cfg *comm)
{
	return comm->children + (comm->flags & INC_COMM_F_UP ? 1 : 0);
}

/* Returns up to which r a peer must have received packets from the switch, as the peer's own
 * packets prove. The parameter rx_next is the r of the peer's next packet. A child that contributes
 * to chunk r + slots has result r, even if its ACK was lost. A parent that sends result r has
 * partial sum r. */
INC_INLINE __u64 inc_implied(const struct inc_comm_cfg *comm, const struct inc_conn_cfg *conn,
			     __u64 rx_next)
{
	__u64 late = conn->flags & INC_CONN_F_UP ? 0 : 1ull << (comm->log2_slots & 15);

	return rx_next > late ? rx_next - late : 0;
}

/* inc_comm_state[communicator]: the state of a communicator. Writers: the CPU with the last
 * contribution to a chunk; for tx_next below the root, the CPU with the parent's result; the slow
 * path, which may end the communicator (error, error_r). */
struct inc_comm_state {
	/* Results before this r are complete. Results complete in order. The CPU with the last
	 * contribution to r keeps its connection busy until it has written tx_next, and no later
	 * chunk is complete without that child's contribution. Below the root the same holds for
	 * the parent's connection. With INC_COMM_F_REORDER results complete in any order, and this
	 * is the first incomplete one. */
	__u64 tx_next;
	__u32 error; /* AETH syndrome that ended the communicator; 0: alive */
	__u32 resv0;
	__u64 error_r; /* chunk at which the communicator ended */
	/* Below the root: partial sums before this r are complete, in the same order. up_next is
	 * at least tx_next, and at most the number of slots ahead of it. */
	__u64 up_next;
	__u64 resv[4];
};

/* inc_root_child[row]: for each of INC_ROOTS_PER_ROW successive ranks, the child behind which the
 * rank is. Writer: loader, before it adds the look-up entries. */
#define INC_ROOTS_PER_ROW 64
struct inc_root_row {
	/* number of the child behind which the rank is, plus 1; 0: the rank is not below this
	 * switch */
	__u8 child_plus_1[INC_ROOTS_PER_ROW];
};

/* Returns in which row of its communicator in inc_root_child a rank is, counted from root_base. */
INC_INLINE __u32 inc_root_row_of(__u32 rank)
{
	return rank / INC_ROOTS_PER_ROW;
}

/* Returns the place of a rank inside its row of inc_root_child. */
INC_INLINE __u8 *inc_root_place(struct inc_root_row *row, __u32 rank)
{
	return &row->child_plus_1[rank % INC_ROOTS_PER_ROW];
}

/* Finds the row of a rank in inc_root_child, counted from the first row of the map. Returns false
 * if the communicator has no row for the rank, because the rank is not below this switch. */
INC_INLINE _Bool inc_root_row(const struct inc_comm_cfg *comm, __u32 rank, __u32 *row)
{
	*row = comm->root_base + inc_root_row_of(rank);
	return inc_root_row_of(rank) < comm->root_rows;
}

/*
 * inc_slot[row]: the state of a slot, generation << 32 | arrival bits. Writer: XDP, atomically. A
 * contribution counts once its bit is set. The slot moves to the next generation once its result is
 * complete. Below the root all bits are set from the moment when the partial sum is complete until
 * the parent's result comes.
 */
struct inc_slot {
	__u64 word;
};

#define INC_SLOT_GENERATION(word) ((__u32)((word) >> 32))
#define INC_SLOT_ARRIVED(word)    ((__u32)(word))

#define INC_BUF_F_ACKREQ 0x1 /* the contribution requested an ACK, so its result does, too */
#define INC_BUF_F_SE     0x2 /* the contribution had the solicited event bit */
#define INC_BUF_F_BECN   0x4 /* in struct inc_mirror alone: the result reports congestion */
#define INC_BUF_HDR      64
#define INC_BUF_TAIL     128

/*
 * One row of inc_kept or inc_sum.
 * inc_kept: the contribution of child c to the slot. Writer: the CPU that holds the child's
 *   connection (busy), before it sets the arrival bit. Result r to child c mirrors this row:
 *   its opcode, flags, immediate and RETH come from here. The parent's rows store the results
 *   that the parent has sent.
 * inc_sum: the sum of the children's contributions. It is the result of the slot, or, below the
 *   root, the partial sum as it goes to the parent (opcode and flags, too). Writer: the CPU with
 *   the last contribution.
 */
struct inc_buf {
	__u64 r;   /* the chunk in this row; the slow path checks it before and after it reads
		    * the row */
	__u32 len; /* length of the payload without its pad */
	/* the collective's descriptor, from the packet's immediate or from the packet before it */
	__u32 desc;
	__u8 opcode; /* BTH opcode of a contribution or partial sum */
	__u8 flags;  /* INC_BUF_F_* of a contribution or partial sum */
	__u8 resv[14];
	/* The RETH of a contribution, as received, if its opcode has one. It names the child's
	 * memory into which the result of this message is written. */
	__be64 va;
	__be32 rkey;
	__be32 dmalen;
	__u32 crc; /* CRC-32 of a result's payload and pad, from state 0, without the final xor */
	/* ones' complement sum (32 bits) of a result's payload and pad; valid only with
	 * INC_COMM_F_UDP_CSUM */
	__u32 csum;
	__u32 givers; /* mask of the children that sent data to this sum */
	/* for a sum: mask of the children whose descriptor or length differs from that of child
	 * 0 */
	__u32 differ;
	/* the packet's headers from IP to the last extended header, masked for the ICRC; they end
	 * where payload begins */
	__u8 hdr[INC_BUF_HDR];
	__u8 payload[INC_MAX_PAYLOAD];
	__u8 tail[INC_BUF_TAIL]; /* ICRC, and room so that the verifier accepts the bounds of a
				  * copy */
};

/* Returns the flag by which a partial sum reports its byte order to the parent: the solicited event
 * bit is set if the elements are in network order. A parent with the other order would compute
 * wrong sums, and no other field shows the order. */
INC_INLINE __u8 inc_comm_order(const struct inc_comm_cfg *comm)
{
	return comm->flags & INC_COMM_F_NET_ORDER ? INC_BUF_F_SE : 0;
}

/* inc_port[ifindex]: a port of the switch. Writer: loader. */
struct inc_port {
	/* number of the port in the switch, from 0; its queue q has row index * INC_PORT_QUEUES + q
	 * in inc_xsk */
	__u16 index;
	__u16 vlan; /* the VLAN in which the port is; 0: none */
	/* first IPv4 address of the port's interface, at which the program answers echo requests;
	 * 0: none, or not known yet */
	__be32 ip;
};

#define INC_MAX_PORTS   64
#define INC_PORT_QUEUES 16

/*
 * Rows of a communicator in inc_comm_ports[communicator * INC_PORTS_ROWS + row], a devmap each: the
 * ports to which a template is multicast. If the frame is too short for the sum, it goes as a bare
 * template. The egress program then adds the payload to each copy from the sum's row. Copies that
 * the kernel makes have a page each and can grow. The last copy is the frame itself, which may lack
 * the room. So the devmap of a bare template has one entry more than receivers, and the egress
 * program drops the last copy.
 */
enum inc_ports_row {
	INC_PORTS_DOWN, /* the template is multicast to the port of each child */
	/* a bare template is sent to the port of each child, and once more to that of the last
	 * child */
	INC_PORTS_DOWN_BARE,
	/* below the root a bare template is sent to the parent's port twice, because the last copy
	 * is dropped */
	INC_PORTS_UP_BARE,
	INC_PORTS_ROWS
};

/*
 * inc_route[communicator]: the CPU that handles the communicator's packets, and how many packets
 * are on their way to it. Writers: each line of the struct has its own. A port's program adds 1 to
 * word, and learns by the same instruction to which CPU the packet belongs. The CPU adds 1 to done
 * when it has handled the packet. User space changes the CPU, but only in a word of which no packet
 * is under way (inc_switch_move_comm()).
 */
struct inc_route {
	/* number of the CPU plus 1, 0: any; << INC_ROUTE_CPU_SHIFT | number of packets that ports
	 * have counted for it, modulo 2^INC_ROUTE_CPU_SHIFT */
	__u64 word;
	__u64 refused; /* number of these packets that found no room in the CPU's queue */
	__u64 resv0[6];
	__u64 done; /* number of these packets that the CPU has handled */
	__u64 resv1[7];
};

/* At ten million packets a second the count wraps after fourteen years. */
#define INC_ROUTE_CPU_SHIFT 52
#define INC_ROUTE_MAX_CPUS  4094
INC_INLINE __u32 inc_route_cpu_plus_1(__u64 word)
{
	return word >> INC_ROUTE_CPU_SHIFT;
}

INC_INLINE __u64 inc_route_count(__u64 word)
{
	return word & ((1ull << INC_ROUTE_CPU_SHIFT) - 1);
}

/* inc_queue[CPU]: how full the queue of inc_cpu to this CPU is. Writers: the ports' programs add to
 * put, and the program of the CPU adds to taken. */
struct inc_queue {
	__u64 put; /* number of packets that were put into the queue */
	__u64 resv0[7];
	__u64 taken; /* number of packets that have left it */
	__u64 resv1[7];
};

/* The number of packets that a queue of inc_cpu holds, and how many the programs put into it. The
 * kernel frees the places of packets that it has taken in batches of 16, and takes 8 at a time. As
 * the programs leave these places free, the kernel never has to drop a packet by itself. */
#define INC_QUEUE_PACKETS 4096
#define INC_QUEUE_ROOM    (INC_QUEUE_PACKETS - 64)

/* inc_copy[connection id of the first child on a port, or of the parent], per CPU: the number of
 * the copy that has left last. The egress program counts the copies of one multicast by it, because
 * the kernel makes all copies alike. Writer: the egress program. */
struct inc_copy {
	__u64 r_plus_1; /* chunk of the copy that has left last, plus 1; 0: none yet */
	__u32 ordinal;  /* number of that copy among the copies for its port */
	__u32 resv;
};

enum inc_event_type {
	/* the children have called different collectives; mask: the children whose descriptor or
	 * length differs from child 0's */
	INC_EVENT_MISMATCH = 1,
	/* the switch has ended a connection by a fatal NAK; arg: the NAK's syndrome; mask: the
	 * child, or 0 for the parent */
	INC_EVENT_CONN_ERROR,
	/* a peer has sent a fatal NAK; arg: the NAK's syndrome; mask: the child, or 0 for the
	 * parent */
	INC_EVENT_PEER_NAK,
	INC_EVENT_RESULT_PENDING, /* result r is in its row, and the slow path must send it to
				   * all children */
	/* partial sum r is in its row, and the slow path must send it to the parent */
	INC_EVENT_PARTIAL_PENDING,
	/* The kernel's copies of a frame share their bytes, so the slow path must send all results
	 * from now on. The event belongs to no communicator. */
	INC_EVENT_COPIES_SHARED,
};

/* An event in the ring buffer inc_event. Writer: XDP. */
struct inc_event {
	__u64 time_ns; /* time of the event by CLOCK_MONOTONIC */
	__u32 type;    /* enum inc_event_type */
	__u32 comm;
	__u32 conn;
	__u32 arg;
	__u64 r;
	__u32 mask; /* one bit for each child that the event concerns */
	__u32 resv;
};

#define INC_ASSERT_SIZE(type, size) \
	_Static_assert(sizeof(struct type) == (size), "size of struct " #type)
#define INC_ASSERT_OFFSET(type, field, offset)                             \
	_Static_assert(__builtin_offsetof(struct type, field) == (offset), \
		       "offset of " #type "." #field)

INC_ASSERT_SIZE(inc_conn_key, 12);
INC_ASSERT_SIZE(inc_conn_cfg, 64);
INC_ASSERT_OFFSET(inc_conn_cfg, tag, 10);
INC_ASSERT_OFFSET(inc_conn_cfg, own, 16);
INC_ASSERT_OFFSET(inc_conn_cfg, peer, 32);
INC_ASSERT_OFFSET(inc_conn_cfg, own_mac, 52);
INC_ASSERT_OFFSET(inc_conn_cfg, port_first, 58);
INC_ASSERT_OFFSET(inc_conn_cfg, traffic_class, 62);
INC_ASSERT_SIZE(inc_conn_state, 128);
INC_ASSERT_OFFSET(inc_conn_state, msn, 48);
INC_ASSERT_OFFSET(inc_conn_state, ahead, 62);
INC_ASSERT_OFFSET(inc_conn_state, traffic_class, 64);
INC_ASSERT_OFFSET(inc_conn_state, tag, 66);
INC_ASSERT_OFFSET(inc_conn_state, becn_due, 70);
INC_ASSERT_OFFSET(inc_conn_state, cnp_at, 72);
INC_ASSERT_OFFSET(inc_conn_state, duplicates, 76);
INC_ASSERT_OFFSET(inc_conn_state, mac, 104);
INC_ASSERT_OFFSET(inc_conn_state, busy, 120);
INC_ASSERT_SIZE(inc_comm_cfg, 128);
INC_ASSERT_OFFSET(inc_comm_cfg, port_child, 64);
INC_ASSERT_OFFSET(inc_comm_cfg, sum_base, 28);
INC_ASSERT_SIZE(inc_comm_state, 64);
INC_ASSERT_OFFSET(inc_comm_state, error_r, 16);
INC_ASSERT_OFFSET(inc_comm_state, up_next, 24);
INC_ASSERT_SIZE(inc_root_row, 64);
INC_ASSERT_SIZE(inc_slot, 8);
INC_ASSERT_OFFSET(inc_buf, va, 32);
INC_ASSERT_OFFSET(inc_buf, givers, 56);
INC_ASSERT_OFFSET(inc_buf, hdr, 64);
INC_ASSERT_OFFSET(inc_buf, payload, 128);
INC_ASSERT_SIZE(inc_buf, 2304);
INC_ASSERT_SIZE(inc_port, 8);
INC_ASSERT_OFFSET(inc_port, vlan, 2);
INC_ASSERT_OFFSET(inc_port, ip, 4);
INC_ASSERT_SIZE(inc_route, 128);
INC_ASSERT_OFFSET(inc_route, done, 64);
INC_ASSERT_SIZE(inc_queue, 128);
INC_ASSERT_OFFSET(inc_queue, taken, 64);
INC_ASSERT_SIZE(inc_copy, 16);
INC_ASSERT_SIZE(inc_event, 40);
INC_ASSERT_SIZE(inc_layout, 8);

#endif
