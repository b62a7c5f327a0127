/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * inc-lab makes a topology of network namespaces, which is called a lab. It writes the parts of a
 * lab to /run/inc-lab/NAME.json before it makes any of them, so that `down` can always remove them.
 */
#ifndef INC_TOPO_LAB_H
#define INC_TOPO_LAB_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include <netinet/in.h>
#include <jansson.h>
#include "lib/base/addr.h"
#include "lib/base/err.h"
#include "lib/base/opt.h"
#include "lib/proto/roce.h"

#define LAB_DIR     "/run/inc-lab"
#define LAB_PIN_DIR "/sys/fs/bpf/inc"
#define LAB_RUN_DIR "/run/inc"

/* Size of a lab's name, which is "inc-12ab34", or the value of --name. Together with a switch's
 * name it is the name of an instance of inc-switchd, which has at most 31 characters. */
#define LAB_NAME_MAX 16
#define LAB_NODE_MAX 40
#define LAB_NS_MAX   (LAB_NAME_MAX + LAB_NODE_MAX + 2)
/* limit of a lab's nodes, for which the management network has enough addresses */
#define LAB_NODES 250
/* Limit of the ranks of a job, several of which may share a host. */
#define LAB_RANKS 512

/* time limit for the lock of a lab; one switch of the other process may take half of it to become
 * ready */
#define LAB_LOCK_LIMIT_S 120

enum lab_role { LAB_CONTROLLER, LAB_HOST, LAB_SWITCH, LAB_BRIDGE, LAB_WIRE, LAB_ROLES };
extern const char *const lab_role_names[LAB_ROLES];

struct lab_node {
	char name[LAB_NODE_MAX]; /* name of the node: controller, h0, s0, b0; for a wire h0-s0 */
	enum lab_role role;
	char netns[LAB_NS_MAX];
	struct in_addr mgmt;  /* management address 10.99.0.x; bridges and wires have none */
	struct inc_addr addr; /* address of a host's (first) data port */
	bool has_rails;       /* the host has several data ports */
	int rank;             /* position of a host in the topology file */
	/* mode of a switch in the topology file, known only while the lab is made; NULL: the file
	 * has none */
	const char *mode;
	/* process of the node; 0: none */
	pid_t pid;
	/* start time of that process (field 22 of /proc/PID/stat), which distinguishes it from a
	 * later process with the same pid */
	uint64_t start_time;
	/* once ended is set: status of the process from waitpid(), if it was a child of this
	 * process */
	int child_status;
	bool ended;
	/* The lab owns the node's namespace, and the pins and sockets of a switch, because this
	 * process has made them or the lab's file lists them. A failing `up` removes only what it
	 * has made. */
	bool netns_made, pins_made;
};

struct lab_end {
	int node;        /* the node at this end of the cable: index into lab.nodes */
	char ifname[16]; /* interface with the address; in a VLAN, a device on the cable's end */
	char device[16]; /* the cable's end itself */
	struct inc_addr ip;
	char mac[18];
};

/* A cable. end[0] is a host or a switch; end[1] is a switch, or a bridge, whose end has no address.
 * Between two switches, end[1] is the switch that comes first in the topology file. */
struct lab_link {
	struct lab_end end[2];
	unsigned int prefix;
	unsigned int mtu;
	unsigned int vlan; /* the VLAN of both ends' addresses; 0: none */
	/* wire of the cable: index into lab.nodes; -1: none, so the cable is a veth pair */
	int wire;
	char wire_args[8][48]; /* options --set with which the cable's inc-wire starts */
	unsigned int n_wire_args;
	uint64_t seed;
};

struct lab {
	char name[LAB_NAME_MAX];
	char tag[64]; /* INC_LAB_TAG of the process that made the lab, to find leftovers */
	char topology[PATH_MAX];
	char state_path[PATH_MAX];
	char dir[PATH_MAX / 2]; /* directory of the lab, with logs and sockets */
	/* the directory exists, because this process has made it or the lab's file lists it */
	bool dir_made;
	/* Descriptor of the lock on dir, which the process that makes or removes the lab holds; -1:
	 * not held. The commands of that process inherit the lock. So if the process is killed, the
	 * next one waits until these commands have ended. */
	int lock;
	struct lab_node nodes[LAB_NODES];
	unsigned int n_nodes;
	struct lab_link *links; /* the cables, which are known only while the lab is made; owned */
	unsigned int n_links;
	/* connection to the controller for the questions that wait for switches, only while the lab
	 * is made */
	struct lab_line *line;
};

/* Set by the handler of SIGINT, SIGTERM and SIGHUP while a lab is being made. */
extern volatile int lab_interrupted;

/* Whether a node of this role has a process. */
static inline bool lab_has_process(const struct lab_node *node)
{
	return node->role != LAB_HOST && node->role != LAB_BRIDGE;
}

/* lab_state.c */
/* Checks whether a lab may have this name. Returns 0, or -EINVAL and a message. */
int lab_name_check(const char *name, struct inc_err *err);
/* Initializes only the name and the paths of a lab. name NULL: chooses a random name. */
int lab_init(struct lab *lab, const char *name, struct inc_err *err);
/* Writes the lab's file completely or not at all. create: fails with -EEXIST if the file exists. */
int lab_save(const struct lab *lab, bool create, struct inc_err *err);
/* Takes the lock under which a lab's names are taken or given back, by one process at a time.
 * Without it two labs could share names, and a reader could find half a lab. Returns a descriptor
 * to close, or -errno. */
int lab_lock_names(struct inc_err *err);
/* Takes lab->lock on the directory that was just made. The caller holds the lock of the names. */
int lab_lock_new(struct lab *lab, struct inc_err *err);
/* Takes lab->lock of the lab with this name. If another process holds it, logs that and waits.
 * -EBUSY after LAB_LOCK_LIMIT_S, -ENOENT if the lab is gone then. */
int lab_lock(struct lab *lab, struct inc_err *err);
/* Reads the file of a lab. name NULL: reads that of the only lab. */
int lab_load(struct lab *lab, const char *name, struct inc_err *err);
json_t *lab_to_json(const struct lab *lab);
/* Returns the names of all labs as a JSON array of strings. */
json_t *lab_names(void);
struct lab_node *lab_find(struct lab *lab, const char *name);
/* Writes the path of a node's log, socket or statistics to path. suffix: "log", "sock" or
 * "json". */
void lab_path(const struct lab *lab, const struct lab_node *node, const char *suffix,
	      char path[PATH_MAX]);
void lab_instance(const struct lab *lab, const struct lab_node *node, char instance[LAB_NS_MAX]);
unsigned int lab_hosts(const struct lab *lab);

/* lab_keys.c */
/* Makes the keys of all nodes, as files in the lab's directory. */
int lab_keys_make(const struct lab *lab, struct inc_err *err);
bool lab_has_keys(const struct lab *lab);
/* These make the path of the controller's file with all keys, and of the key file for programs on a
 * node. A switch has a key of its own, all hosts share a member's key, and the controller's node
 * has an admin's key. */
void lab_keys_path(const struct lab *lab, char path[PATH_MAX]);
void lab_key_path(const struct lab *lab, const struct lab_node *node, char path[PATH_MAX]);

/* lab_topo.c: reads nodes and links from a topology file, and finds the routes between the
 * nodes. */
int lab_read_topology(struct lab *lab, const char *path, struct inc_err *err);
unsigned int lab_segment(const struct lab *lab, unsigned int link);
void lab_write_routes(const struct lab *lab, unsigned int from, FILE *f);
const char *lab_ip_text(struct inc_addr a);

/* lab_net.c */
int lab_net_namespaces(struct lab *lab, struct inc_err *err);
/* Makes the lab's links and addresses inside its namespaces. queues: number of receive queues, and
 * of send queues, of each end of a link. */
int lab_net_up(struct lab *lab, unsigned int queues, struct inc_err *err);
/* Checks whether all ports of a bridge forward, which takes up to a second after their cables are
 * up. Returns 0, or -EIO with the port that does not. */
int lab_net_forwards(const struct lab_node *bridge, struct inc_err *err);
/* Removes the lab's namespaces. Returns how many are left. */
unsigned int lab_net_down(const struct lab *lab);
bool lab_netns_exists(const char *netns);
/* Enables threaded NAPI for the ports of a switch, on one CPU. cpu -1: any CPU. */
int lab_napi_threaded(const struct lab *lab, const struct lab_node *node, int cpu,
		      struct inc_err *err);

/* lab_proc.c */
/* Finds a program that was built or installed with inc-lab. If there is none, execvp() will search
 * PATH. */
void lab_find_program(const char *name, char path[PATH_MAX]);
/* Sets the INCCL_* variables for a rank on a host, and a PATH that begins with this build's
 * programs. size: number of ranks. */
void lab_set_env(const struct lab *lab, const struct lab_node *host, int rank, int size,
		 const char *job);
/* Moves a new child process into a namespace for good. Returns -errno on failure. */
int lab_join(const char *netns);
/* Moves this thread into a namespace and returns a descriptor of the old one, with which
 * lab_leave() moves it back, or -errno. */
int lab_enter(const char *netns);
void lab_leave(int fd);
/* Starts a program in the background inside the node's namespace. Its output goes to the node's
 * log. */
int lab_daemon(const struct lab *lab, struct lab_node *node, char *const argv[],
	       struct inc_err *err);
/* Runs a command on one node in place of this process. It returns only on failure. */
int lab_exec(struct lab *lab, const char *node, char *const argv[], struct inc_err *err);
/* Moves a new child process to a host for good, with the host name there. Returns -errno on
 * failure. Like lab_join(), it changes no memory, so a child of vfork(2) may call it. */
int lab_be_mpi_host(const struct lab_node *host);
/* Removes the variables of libinccl that the launcher of an MPI replaces for each of its ranks.
 * no_switch: INCCL_CONTROLLER, too. */
void lab_unset_rank(bool no_switch);
/* Does what ssh(1) does for the launcher of an MPI: runs the words of argv in a shell on a host,
 * which is given by name or address. It returns only on failure. */
int lab_agent(struct lab *lab, const char *host, bool no_switch, char *const argv[],
	      struct inc_err *err);
struct lab_mpi_options {
	unsigned int ranks;
	unsigned int per_host; /* limit of the ranks of a host; 0: as even as possible */
	bool mpich;            /* hydra of MPICH is the launcher, instead of that of Open MPI */
	bool component;        /* Open MPI loads its component, and no library is preloaded */
	bool mgmt;             /* MPI's own messages use the management network */
	bool no_switch;        /* without INCCL_CONTROLLER and without the library for MPI */
};
struct lab_run_options;
/* Runs an MPI program on the lab's hosts. limits: its time limit and its variables. Returns the
 * exit code of inc-lab. */
int lab_mpirun(struct lab *lab, const struct lab_mpi_options *options,
	       const struct lab_run_options *limits, char *const argv[]);
bool lab_alive(struct lab_node *node);
/* Ends the processes of the lab, first by SIGTERM and then by SIGKILL. Returns how many are
 * left. */
unsigned int lab_kill(struct lab *lab);

/* lab_up.c */
struct lab_up_options {
	/* more arguments for the command lines of switches, and of the controller; NULL: none */
	const char *switch_args;
	const char *controller_args;
	bool insecure; /* the lab has no keys */
	bool napi_threaded;
	int napi_cpu;        /* CPU on which threaded NAPI runs; -1: any */
	unsigned int queues; /* number of receive queues, and of send queues, of each cable's end */
};
int lab_up(struct lab *lab, const struct lab_up_options *options, struct inc_err *err);
/* Removes the whole lab, in whatever state it is. If something is left, returns -EBUSY with a
 * message, and the lab's file stays for another try. */
int lab_down(struct lab *lab, struct inc_err *err);
/* Sends a question of incctl to the lab's controller. The caller owns the answer *data. Returns 0,
 * or -errno with a message. */
int lab_ask(const struct lab *lab, const char *what, json_t **data, struct inc_err *err);

/* lab_run.c */
struct lab_run_options {
	const char *ranks;     /* list of ranks to start, such as "0,2-3"; NULL: all */
	const char *hosts;     /* list of hosts that have a rank, such as "0,2-3"; NULL: all */
	unsigned int per_host; /* ranks on each host; 0: one */
	bool no_prefix;
	/* only the output of this rank is shown; -1: that of all ranks is */
	int only;
	double timeout_s; /* time limit; 0: none */
	/* the command is the launcher of an MPI: its host has a host name of its own, and the
	 * launcher numbers the ranks */
	bool mpi;
	bool no_switch; /* INCCL_CONTROLLER is not set */
	/* INCCL_ADDR is not set, because hydra would give it to the ranks of all hosts */
	bool no_addr;
	struct inc_opt_list env; /* variables of the environment, K=V */
};
/* Checks whether the text can be a list of ranks or hosts of any lab. Returns 0, or -EINVAL and a
 * message. */
int lab_list_check(const char *text, struct inc_err *err);
/* Runs a command on each selected host of the lab. Returns the exit code of inc-lab. */
int lab_run(struct lab *lab, const struct lab_run_options *options, char *const argv[]);

#endif
