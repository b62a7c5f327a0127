/* SPDX-License-Identifier: BSD-2-Clause */
/* The modes that each switch supports by its last hello, and its mode for new communicators. Called
 * by switch.c for a hello, and by core.c for a tool that sets the mode. */
#include <errno.h>
#include <string.h>
#include "controller/core/core.h"
#include "controller/core/route.h"
#include "controller/core/switch.h"
#include "lib/base/log.h"
#include "lib/base/numbers.h"
#include "lib/proto/desc.h"

/* Returns the largest valid payload of a packet within so many bytes, an endpoint's limit. */
static unsigned int round_payload(unsigned int bytes)
{
	return inc_pow2_down(bytes < INC_MAX_RC_PAYLOAD ? bytes : INC_MAX_RC_PAYLOAD);
}

/* Reads the endpoints of a switch's ports for one mode from its hello. Passthrough mode has no
 * endpoints. */
static void take_endpoints(struct inc_core_switch *sw, const struct inc_msg_engine *engine)
{
	const struct inc_topo_switch *topo = &sw->core->topo->switches[sw->index];

	for (uint32_t i = 0; i < engine->n_endpoints; i++) {
		const struct inc_msg_offer *said = &engine->endpoints[i];

		/* a draining port may have the name of another one */
		for (unsigned int p = 0; p < topo->n_ports; p++) {
			if (strcmp(topo->ports[p].name, said->port) != 0 ||
			    (said->kind == INC_ENDPOINT_VERBS &&
			     !inc_addr_is_ipv4(topo->ports[p].ip)))
				continue;
			sw->ports[p].payload[said->kind] = round_payload(said->payload);
			sw->ports[p].message_bytes[said->kind] = said->message_bytes;
		}
	}
}

/* Whether the switch adds floats natively: all types of floats with each operator that they
 * have. */
static bool adds_floats(const struct inc_msg_engine *engine)
{
	const uint32_t floats = ((1u << INC_N_NATIVES) - 1) << INC_DTYPE_FLOAT32;
	const uint32_t want = 1u << INC_OPERATOR_SUM | 1u << INC_OPERATOR_MIN |
			      1u << INC_OPERATOR_MAX | 1u << INC_OPERATOR_PROD;
	uint32_t can = 0;

	for (uint32_t i = 0; i < engine->n_kernels; i++) {
		const struct inc_msg_kernel *k = &engine->kernels[i];
		uint32_t types = 0;

		for (uint32_t t = 0; t < k->n_types; t++)
			types |= 1u << k->types[t];
		if ((types & floats) == floats)
			can |= 1u << k->op;
	}
	return (can & want) == want;
}

/* Warns of an older switch, which ignores the topology's settings of queue pairs in this mode. */
static void check_verbs(const struct inc_core_switch *sw, enum inc_mode_of_switch mode)
{
	const struct inc_topo_switch *topo = &sw->core->topo->switches[sw->index];
	const bool passes = mode == INC_PASSTHROUGH;
	const struct inc_core_engine *can = &sw->engines[mode];
	char text[INC_VERBS_CONF_TEXT];

	for (unsigned int p = 0; can->there && !can->verbs && p < topo->n_live_ports; p++) {
		const struct inc_topo_port *port = &topo->ports[p];

		if (passes ? !port->verbs.has_traffic_class && !port->verbs.has_sl
			   : !inc_verbs_conf_any(&port->verbs))
			continue;
		inc_warn("switch %s is older than this controller and ignores '%s' of its ports "
			 "in the topology%s (%s: %s): update inc-switchd there",
			 inc_switch_name(sw), passes ? "traffic_class" : "verbs",
			 passes ? " in passthrough mode" : "", port->name,
			 inc_verbs_conf_text(&port->verbs, text));
		return;
	}
}

/* Reads the modes that a switch supports. If its hello has no engines, the switch supports
 * passthrough mode only, and the limits of that mode are in the hello itself. */
void inc_switch_take_engines(struct inc_core_switch *sw, const struct inc_msg_hello *said)
{
	memset(sw->engines, 0, sizeof(sw->engines));
	sw->own_mode = said->mode;
	sw->engines[INC_PASSTHROUGH].there = !said->n_engines;
	sw->engines[INC_PASSTHROUGH].limits = said->limits;
	sw->engines[INC_PASSTHROUGH].cpus = 1;
	for (uint32_t i = 0; i < said->n_engines; i++) {
		const struct inc_msg_engine *engine = &said->engines[i];
		struct inc_core_engine *can = &sw->engines[engine->mode];

		can->there = true;
		if (engine->has_limits)
			can->limits = engine->limits;
		can->probes = engine->mode == INC_PASSTHROUGH && engine->probes;
		can->reorder = can->probes && engine->reorder;
		can->rto_min_ms = engine->rto_min_ms;
		can->cpus = engine->cpus;
		can->floats = engine->mode == INC_TERMINATION && adds_floats(engine);
		can->verbs = engine->verbs;
		take_endpoints(sw, engine);
	}
	check_verbs(sw, INC_PASSTHROUGH);
	check_verbs(sw, INC_TERMINATION);
}

int inc_switch_can(const struct inc_core_switch *sw, enum inc_mode_of_switch mode,
		   struct inc_err *err)
{
	if (sw->engines[mode].there)
		return 0;
	return inc_err_set(err, EOPNOTSUPP, "switch %s cannot do %s mode (its log says why)",
			   inc_switch_name(sw), inc_modes_of_switch[mode]);
}

uint32_t inc_switch_setting(const struct inc_core_switch *sw)
{
	const struct inc_topo_switch *topo = &sw->core->topo->switches[sw->index];

	return sw->mode_set ? sw->mode : topo->has_mode ? topo->mode : sw->own_mode;
}

void inc_switch_offer(struct inc_core_switch *sw)
{
	const uint32_t mode = inc_switch_setting(sw);
	const struct inc_core_engine *engine =
		&sw->engines[mode == INC_AUTO ? INC_PASSTHROUGH : mode];

	inc_routes_set_mode(sw->core->routes, sw->index, mode,
			    sw->engines[INC_TERMINATION].limits.children);
	inc_routes_offer(sw->core->routes, sw->index, sw->connected ? &engine->limits : NULL);
}

int inc_switch_set_mode(struct inc_core_switch *sw, uint32_t mode, struct inc_err *err)
{
	int ret = sw->connected && mode < INC_AUTO ? inc_switch_can(sw, mode, err) : 0;

	if (ret)
		return ret;
	sw->mode_set = mode != INC_MODE_DEFAULT;
	sw->mode = sw->mode_set ? mode : INC_PASSTHROUGH;
	inc_info("switch %s: communicators are made in %s mode from now on", inc_switch_name(sw),
		 inc_mode_settings[inc_switch_setting(sw)]);
	inc_act_store_switch(sw);
	inc_switch_offer(sw);
	return 0;
}
