// SPDX-License-Identifier: BSD-2-Clause
/*
 * Makes the keys of a lab, with which every program in the lab authenticates to the controller. The
 * keys are in the lab's directory and are removed with that directory. A user who may not read that
 * directory has no key.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "lib/net/tls_key.h"
#include "topo/lab.h"

void lab_key_path(const struct lab *lab, const struct lab_node *node, char path[PATH_MAX])
{
	if (node->role == LAB_SWITCH)
		lab_path(lab, node, "key", path);
	else
		snprintf(path, PATH_MAX, "%s/%s.identity", lab->dir,
			 node->role == LAB_CONTROLLER ? "admin" : "member");
}

void lab_keys_path(const struct lab *lab, char path[PATH_MAX])
{
	snprintf(path, PATH_MAX, "%s/keys", lab->dir);
}

bool lab_has_keys(const struct lab *lab)
{
	char path[PATH_MAX];

	lab_keys_path(lab, path);
	return !access(path, F_OK);
}

/* Makes one more key for the controller's file of all keys, and a file with only this key for its
 * owner. */
static int add(struct inc_tls_keys *all, const char *identity, const char *path,
	       struct inc_err *err)
{
	struct inc_tls_key *key = &all->key[all->n];
	const struct inc_tls_keys own = {.n = 1, .key = key};
	int ret = inc_tls_key_make(key, identity, err);

	if (ret)
		return ret;
	all->n++;
	return inc_tls_keys_write(path, &own, err);
}

static int add_all(const struct lab *lab, struct inc_tls_keys *all, struct inc_err *err)
{
	static const struct lab_node member = {.role = LAB_HOST};
	char identity[LAB_NODE_MAX + sizeof("switch:")], path[PATH_MAX];
	int ret;

	lab_key_path(lab, &lab->nodes[0], path);
	ret = add(all, "admin", path, err);
	lab_key_path(lab, &member, path);
	ret = ret ?: add(all, "member", path, err);
	for (unsigned int i = 0; i < lab->n_nodes && !ret; i++) {
		if (lab->nodes[i].role != LAB_SWITCH)
			continue;
		snprintf(identity, sizeof(identity), "switch:%s", lab->nodes[i].name);
		lab_key_path(lab, &lab->nodes[i], path);
		ret = add(all, identity, path, err);
	}
	return ret;
}

int lab_keys_make(const struct lab *lab, struct inc_err *err)
{
	struct inc_tls_keys all = {.key = calloc(lab->n_nodes + 2, sizeof(*all.key))};
	char path[PATH_MAX];
	int ret;

	if (!all.key)
		return inc_err_set(err, ENOMEM, "keys: %s", strerror(ENOMEM));
	ret = add_all(lab, &all, err);
	lab_keys_path(lab, path);
	ret = ret ?: inc_tls_keys_write(path, &all, err);
	inc_tls_keys_free(&all);
	return ret;
}
