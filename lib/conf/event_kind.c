/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stddef.h>
#include "lib/conf/event_kind.h"

const struct inc_event_info inc_event_info[INC_EVENT_KIND_MAX] = {
#define _(NAME, name, code, about, text) {#name, code, INC_EVENT_ABOUT_##about, text},
	INC_EVENT_KINDS(_)
#undef _
		[INC_EVENT_KIND_OTHER] = {INC_EVENT_OTHER, 0, INC_EVENT_ABOUT_PEER,
					  "any other event"},
};

const char *const inc_event_names[] = {
#define _(NAME, name, code, about, text) #name,
	INC_EVENT_KINDS(_)
#undef _
		NULL,
};
