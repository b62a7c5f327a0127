/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The NICs of this host. If it has several, each channel of a communicator uses one of them, and
 * the controller chooses them (docs/control.md, "Rails"). Before each communicator they are
 * checked, and those that do not work are left out.
 */
#ifndef INCCL_RAILS_H
#define INCCL_RAILS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "lib/base/addr.h"
#include "lib/base/err.h"
#include "lib/conf/messages.h"
#include "lib/proto/roce.h"

struct inccl_communicator;
struct inccl_group;

struct inccl_rail {
	struct inc_addr addr; /* address of the NIC */
	/* The NIC's name when it was found last, why it is left out ("": it works), and the address
	 * of the switch at the other end of the last connection (zeros: there was none). The
	 * group's lock protects them. */
	char name[INC_CONTROL_PORT_LEN], reason[INC_CONTROL_REASON_LEN];
	struct inc_addr peer;
	/* A communicator that used the NIC has failed, so the switch must answer before the NIC is
	 * used again. */
	atomic_bool suspect;
};

/* The NICs of a group's rank. n is 0 if the host has only one, or if the caller has chosen one. The
 * addresses do not change any more. */
struct inccl_rails {
	bool chosen; /* the caller has named an address or an interface */
	unsigned int n;
	struct inccl_rail rail[INC_MAX_RAILS];
};

/* The NICs of a communicator. */
struct inccl_lanes {
	struct inc_addr own; /* address of this channel's NIC */
	/* In channel 0: the addresses that the channels use in turn. n is 0 if all use `own`. */
	unsigned int n;
	struct inc_addr addr[INC_MAX_RAILS];
};

/* The NICs of a rank, as it describes them when it asks for a communicator. */
struct inccl_survey {
	unsigned int n, usable; /* number of NICs, and of those that can be used */
	struct inc_msg_rail rail[INC_MAX_RAILS];
};

/* Stores which NICs the controller knows. Called under the group's lock. */
void inccl_rails_set(struct inccl_group *group, const struct inc_msg_joined *joined);
/* Adds an address of this host to those of the message. Returns 0 or -E2BIG. */
int inccl_rails_add_address(struct inc_msg_join *msg, struct inc_addr addr, struct inc_err *err);
/* Fills in the addresses of this host for a group that is made of this one. */
void inccl_rails_introduce(const struct inccl_group *group, struct inc_msg_join *msg);
/* Gives a group what the group of which it was made knows about the NICs. */
void inccl_rails_inherit(struct inccl_group *group, struct inccl_group *parent);
/* Chooses the NIC of a channel. For channel 0 it checks all NICs, and logs those that are left out
 * and those that work again. That takes 0.4 s for each one that does not answer, and up to 7.1 s
 * more if a NIC's switch answers TCP alone. */
void inccl_rails_choose(struct inccl_communicator *comm, struct inccl_survey *survey);
/* Takes from the controller's answer for channel 0 which NICs its channels use. Returns 0, or
 * -EPROTO if the host does not have them. */
int inccl_rails_take(struct inccl_communicator *comm, const struct inc_msg_made *made,
		     struct inc_err *err);
/* The communicator has failed, so its NIC is checked before it is used again. Takes no lock. */
void inccl_rails_suspect(struct inccl_communicator *comm);

#endif
