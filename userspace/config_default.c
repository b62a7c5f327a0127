/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "lib/base/log.h"
#include "lib/net/netdev.h"
#include "userspace/config.h"

void inc_absent_count(struct inc_absent *absent, const struct inc_yaml_node *map)
{
	size_t i;

	absent->of++;
	for (i = 0; i < absent->schema->n; i++) {
		const struct inc_field *f = &absent->schema->fields[i];

		if ((f->need == INC_TOLD || f->need == INC_LATER) && !inc_yaml_get(map, f->name) &&
		    !(f->alias && inc_yaml_get(map, f->alias)))
			absent->times[i]++;
	}
}

/* Writes a list of the switch's port names, such as "eth0, eth1", to buf. */
static void list_ports(const struct inc_switch_conf *conf, char *buf, size_t size)
{
	const struct inc_settings *s = &conf->settings;
	size_t used = 0;
	uint32_t i;

	*buf = '\0';
	for (i = 0; i < s->n_ports && used < size; i++)
		used += snprintf(buf + used, size - used, "%s%s", i ? ", " : "", s->port[i]);
}

void inc_absent_log(const struct inc_absent *absent, const char *path,
		    const struct inc_switch_conf *conf)
{
	char value[200];
	size_t i;

	for (i = 0; i < absent->schema->n; i++) {
		const struct inc_field *f = &absent->schema->fields[i];

		if (!absent->times[i])
			continue;
		if (f->kind == INC_WORD)
			list_ports(conf, value, sizeof(value));
		else
			snprintf(value, sizeof(value), "%llu", (unsigned long long)f->def);
		inc_info("%s: %u of %u %s lack %s: using %s", path, absent->times[i], absent->of,
			 absent->what, f->name, value);
	}
}

int inc_default_port(const struct inc_yaml_node *node, struct inc_conn_conf *c, struct inc_err *err)
{
	char text[INC_ADDR_TEXT];
	const int ret = inc_interface_with(c->own.ip, c->port);

	if (ret == -EADDRNOTAVAIL)
		return inc_yaml_error(node, err,
				      "'own_name' is missing, and no interface here has %s",
				      inc_addr_text(c->own.ip, text));
	return ret ? inc_err_set(err, -ret, "the interfaces cannot be listed: %s", strerror(-ret))
		   : 0;
}
