/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdbool.h>
#include <stddef.h>
#include "selftests/connect/model_side.h"

#define NEED(condition, text)        \
	do {                         \
		if (!(condition))    \
			return text; \
	} while (0)

static const char *act_on_tcp(struct model_side *s, enum connect_action_bit action)
{
	switch (action) {
	case CONNECT_ACTION_SEND_QUERY:
		NEED(!s->tcp && !s->clock, "asks twice");
		s->tcp = s->clock = true;
		break;
	case CONNECT_ACTION_SEND_ANSWER:
		NEED(s->qp == QP_RTR && s->receives,
		     "the answer before the queue pair can receive");
		NEED(s->tcp && s->clock && !s->answered, "answers twice");
		s->answered = true;
		break;
	case CONNECT_ACTION_STOP_CLOCK:
		s->clock = false;
		break;
	case CONNECT_ACTION_HANG_UP:
		s->tcp = false;
		break;
	case CONNECT_ACTION_REPORT_READY:
		NEED(!s->told, "a second report to the owner");
		s->told = TOLD_READY;
		break;
	case CONNECT_ACTION_REPORT_FAILED:
		NEED(!s->told, "a second report to the owner");
		s->told = TOLD_FAILED;
		break;
	default:
		return "an unknown action";
	}
	return NULL;
}

static const char *act(struct model_side *s, enum connect_action_bit action)
{
	switch (action) {
	case CONNECT_ACTION_MAKE:
		NEED(s->qp == QP_NONE && s->tcp, "a second queue pair");
		s->qp = QP_INIT;
		break;
	case CONNECT_ACTION_MAKE_FOR_PEER:
		NEED(s->qp == QP_NONE && s->tcp && !s->clock, "a second queue pair");
		s->qp = QP_INIT;
		s->clock = true;
		break;
	case CONNECT_ACTION_ENTER_RTR:
		NEED(s->qp == QP_INIT && !s->aiming, "receives out of order");
		s->aiming = true;
		break;
	case CONNECT_ACTION_POST_RECEIVES:
		NEED(s->qp == QP_RTR && !s->receives, "buffers out of order");
		s->receives = true;
		break;
	case CONNECT_ACTION_ENTER_RTS:
		NEED(s->qp == QP_RTR, "sends out of order");
		s->qp = QP_RTS;
		break;
	case CONNECT_ACTION_POST_PROBE:
		NEED(s->qp == QP_RTS && s->receives && !s->probed, "the probe out of order");
		s->probed = true;
		break;
	case CONNECT_ACTION_POST_CLOSE:
		NEED(s->qp == QP_RTS && !s->clock && !s->closed, "the close out of order");
		s->closed = s->clock = true;
		break;
	case CONNECT_ACTION_STOP:
		s->qp = s->qp == QP_NONE ? QP_NONE : QP_ERR;
		/* a stopped side does not get the report of its step to RTR, which is still in
		 * progress */
		s->aiming = false;
		break;
	default:
		return act_on_tcp(s, action);
	}
	return NULL;
}

const char *model_side_step(struct model_side *side, enum connect_event event)
{
	const struct connect_step step = connect_next(side->state, event);
	enum connect_action_bit action;
	const char *wrong = NULL;

	/* a service's side begins with the TCP connection on which the request came */
	if (event == CONNECT_EVENT_ASKED && side->state == CONNECT_NEW)
		side->tcp = true;
	if (event == CONNECT_EVENT_TIMEOUT)
		side->clock = false;
	if (event == CONNECT_EVENT_CAN_RECEIVE && side->aiming) {
		side->aiming = false;
		side->qp = QP_RTR;
	}
	for (action = 0; !wrong && action < CONNECT_N_ACTIONS; action++)
		if (step.actions & (1u << action))
			wrong = act(side, action);
	side->state = step.to;
	return wrong;
}
