/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * inc-wire: a cable with faults, between the veth of a host and the veth of a switch. Direction
 * "up" is host to switch. inc-wire has one thread, which owns every structure.
 */
#ifndef INC_TOPO_WIRE_PRIV_H
#define INC_TOPO_WIRE_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/un.h>
#include <jansson.h>
#include "lib/base/err.h"
#include "lib/base/opt.h"

/* limit of a frame in bytes, which is above the largest MTU of a link in a topology file */
#define WIRE_FRAME_MAX 16384
/* number of frames that a burst loses in a row, the first included */
#define WIRE_BURST_FRAMES 50
/* limit of the settings queue_frames and mark_frames */
#define WIRE_QUEUE_FRAMES_MAX 4096

enum wire_dir { WIRE_UP, WIRE_DOWN, WIRE_DIRS };
extern const char *const wire_dir_names[WIRE_DIRS];

/* The class of a frame. Faults count the frames of each class. */
enum wire_class { WIRE_DATA, WIRE_ACK, WIRE_OTHER, WIRE_CLASSES };

enum wire_act {
	WIRE_DROP,
	WIRE_DUP,
	WIRE_CORRUPT,
	WIRE_CORRUPT_ETH,
	WIRE_CORRUPT_ANY,
	WIRE_REORDER,
	WIRE_BURST,
	WIRE_DELAY,
	WIRE_MARK, /* set CE, if the sender can react to congestion */
	WIRE_ACTS
};

/* A deterministic fault, which hits frame number `index` of its class. */
struct wire_fault {
	enum wire_act act;
	enum wire_class class; /* class of the frame: WIRE_DATA or WIRE_ACK */
	uint64_t index;        /* number of the frame in its class, counted from the wire's start */
	uint64_t delay_ns;     /* for WIRE_DELAY: the additional delay of the frame */
};

struct wire_counters {
	uint64_t received;
	uint64_t forwarded; /* number of frames sent, with their duplicates */
	/* number of frames lost on purpose: by probability, by a deterministic fault, or because
	 * the link is down */
	uint64_t lost;
	uint64_t duplicated;
	uint64_t corrupted;
	uint64_t reordered;
	uint64_t delayed; /* number of frames delayed by a fault */
	uint64_t marked;  /* number of frames that got CE (congestion experienced) */
	/* number of frames lost unintentionally: queue full, socket buffer full or frame too
	 * long */
	uint64_t overflow;
	uint64_t send_errors;
	uint64_t class[WIRE_CLASSES];
};

/* The frames that wait for the rate of a line, by the times when the line will have sent them. A
 * frame that waits only for the line's delay has left the queue. */
struct wire_backlog {
	uint64_t leaves_at_ns[WIRE_QUEUE_FRAMES_MAX]; /* a ring, the oldest at `first` */
	unsigned int first, n;
};

/* One direction of the wire. */
struct wire_line {
	/* probability with which each act hits a frame; that of WIRE_DELAY is unused */
	double p[WIRE_ACTS];
	uint64_t rate_bps;         /* rate of the line; 0: unlimited */
	uint64_t delay_ns;         /* propagation delay of the line */
	uint64_t queue_max_bytes;  /* limit of queued_bytes */
	uint64_t queued_bytes;     /* number of bytes in the queue that the line's rate causes */
	unsigned int queue_frames; /* limit of the frames in `backlog`; 0: none */
	/* A frame that finds so many frames in `backlog` gets CE; 0: none does. */
	unsigned int mark_frames;
	struct wire_backlog backlog; /* used only with a rate and one of both limits */
	/* time when the line will have sent all bits of the frames accepted so far */
	uint64_t line_free_at_ns;
	/* end of the present outage of the link: frames before this time are lost */
	uint64_t up_at_ns;
	unsigned int burst; /* number of frames that the present burst will still drop */
	uint64_t rng[2];
	struct wire_fault *faults; /* deterministic faults, owned */
	size_t n_faults;
	struct wire_counters n;
	/* The held frame, which waits until other frames have overtaken it. */
	uint8_t *held; /* the frame, owned; NULL: none */
	size_t held_len;
	/* number of frames that must overtake the held frame before it is sent */
	unsigned int held_gap;
	/* time when the held frame is sent even if no frame has overtaken it */
	uint64_t held_due_at_ns;
};

struct wire_verdict {
	bool drop;
	unsigned int copies; /* number of times that the frame is sent, 1 or 2 */
	bool corrupt;
	bool corrupt_eth;
	bool corrupt_any;
	bool mark;
	/* random number that selects the bit to flip, modulo the number of bits */
	uint32_t corrupt_at;
	/* number of frames that shall overtake this frame; 0: it stays in its place */
	unsigned int reorder_gap;
	uint64_t delay_ns;
};

void wire_line_seed(struct wire_line *line, uint64_t seed, enum wire_dir dir);
void wire_line_free(struct wire_line *line);

/* Sets a property of a line, or a fault, from a SPEC (see inc-wire --help and wire_opts.c). SPECs
 * come from the command line and the control socket. Faults count frames from the moment when they
 * are set. Returns 0, or -EINVAL with a message. */
int wire_set(struct wire_line lines[WIRE_DIRS], const char *spec, struct inc_err *err);

enum wire_class wire_classify(const uint8_t *frame, size_t len);
/* Decides what happens to the next frame of a line, and counts the frame. It draws the same number
 * of random values for every frame. So decisions depend only on the seed and the frame's number,
 * except while a link is down. */
void wire_decide(struct wire_line *line, enum wire_class class, uint64_t now_ns,
		 struct wire_verdict *verdict);
/* Flips one bit of a frame: behind the UDP header of a RoCE frame, or behind the Ethernet header of
 * another frame. at: random number that selects the bit. */
void wire_corrupt(uint8_t *frame, size_t len, enum wire_class class, uint32_t at);
/* Sets CE in the frame's IP header, as a router with a long queue does, and corrects the header's
 * checksum. Returns false if the frame has CE already, or is no IP packet of a sender that can
 * react (ECT). Such a frame stays as it is. */
bool wire_mark(uint8_t *frame, size_t len);
/* Flips one bit of the two MAC addresses, which no checksum of a RoCE frame covers. */
void wire_corrupt_eth(uint8_t *frame, uint32_t at);
/* Flips one bit anywhere in the frame: also in MAC addresses, EtherType, IP and UDP headers. */
void wire_corrupt_any(uint8_t *frame, size_t len, uint32_t at);

json_t *wire_stats_json(const struct wire_line lines[WIRE_DIRS]);

/* A frame that waits in the heap until its time due_at_ns. */
struct wire_queued {
	uint64_t due_at_ns;
	uint64_t order;
	enum wire_dir dir;
	bool counted; /* the frame's bytes are counted in line->queued_bytes */
	size_t len;
	uint8_t data[];
};
struct wire_heap {
	/* the heap, an array of frames; the array and the frames are owned */
	struct wire_queued **v;
	size_t len, cap;
	uint64_t order;
};
int wire_heap_push(struct wire_heap *heap, struct wire_queued *q);
/* Returns the frame that is due first, which stays in the heap. NULL: the heap is empty. */
struct wire_queued *wire_heap_min(const struct wire_heap *heap);
/* Removes the frame that is due first from the heap and returns it. The caller frees it. */
struct wire_queued *wire_heap_pop(struct wire_heap *heap);
void wire_heap_free(struct wire_heap *heap);

#define WIRE_BATCH 64 /* limit of the frames that one system call reads or sends */

/* One end of the wire: a veth in native XDP mode, read and written by AF_PACKET. The veth's XDP
 * program is empty. It provides NAPI for frames redirected into the veth, and no segmentation
 * offload at its peer. */
struct wire_port {
	char ifname[16];
	int ifindex;
	int fd;
	bool stamps; /* the kernel notes when each frame arrives */
	/* descriptor of the bpf_link that holds the empty XDP program on the interface */
	int link_fd;
	unsigned int n_out;
	uint8_t *out; /* buffer for up to WIRE_BATCH frames that are sent together; owned */
	size_t out_len[WIRE_BATCH];
};

int wire_port_open(struct wire_port *port, const char *ifname, struct inc_err *err);
void wire_port_close(struct wire_port *port);
/* Makes the kernel note when each frame arrives, or ends that, which saves time. Without, a frame
 * counts as arrived when it is read. */
int wire_port_stamp(struct wire_port *port, bool on, struct inc_err *err);
/* Reads up to WIRE_BATCH frames. Frame i is at frames + i * WIRE_FRAME_MAX and has lens[i] bytes,
 * with complete checksums; lens[i] 0: the frame was too long. It arrived at arrived_at_ns[i], by
 * the monotonic clock. Returns the number of frames, 0 if there are none. */
int wire_port_read(struct wire_port *port, uint8_t *frames, size_t lens[WIRE_BATCH],
		   uint64_t arrived_at_ns[WIRE_BATCH]);
/* Queues a frame, and sends the batch if it is full. Returns the number of frames that failed. */
unsigned int wire_port_write(struct wire_port *port, const uint8_t *frame, size_t len);
unsigned int wire_port_flush(struct wire_port *port);
/* Returns the number of frames that the kernel has dropped since the last call because they were
 * not read in time. */
uint64_t wire_port_drops(struct wire_port *port);

/* size of the buffer for a request on the control socket, and of that for its answer */
#define WIRE_MESSAGE_MAX 4096

/* The values of inc-wire's command line (wire_opts.c). */
struct wire_args {
	const char *ifname[WIRE_DIRS];
	const char *netns;
	struct inc_opt_list specs;
	uint64_t seed;
	/* paths of the file for statistics and of the control socket; NULL: none */
	const char *stats_path, *control_path;
	/* the command is `inc-wire ctl`, whose request is in the next member */
	bool is_ctl;
	char request[WIRE_MESSAGE_MAX];
};

/* Parses the command line. Returns -1 if the program shall go on, else the exit code. The caller
 * frees args->specs. */
int wire_parse(int argc, char **argv, struct wire_args *args);
/* Sends the request to the wire at control_path; returns the exit code. */
int wire_ctl(const struct wire_args *args);
/* Makes the address of a socket from its path, which must have passed inc_socket_path_check(). */
void wire_socket_address(struct sockaddr_un *sun, const char *path);

#endif
