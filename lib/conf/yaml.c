/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <unistd.h>
#include "lib/base/fd.h"
#include "lib/conf/yaml_priv.h"

/* first size of the buffer for a file's text, which fits most files */
#define YAML_FIRST_BYTES (64u << 10)
#define YAML_MAX_BYTES   (16u << 20)
/* limit of the depth to which flow collections ([], {}) are nested, because libyaml takes quadratic
 * time for deep ones */
#define YAML_MAX_FLOW_DEPTH 64

struct inc_yaml {
	char *name;
	yaml_document_t document;
	struct inc_yaml_node *nodes;
	size_t n;
};

static const yaml_node_t *node_at(const struct inc_yaml *doc, int id)
{
	return &doc->document.nodes.start[id - 1];
}

static int compare_keys(const void *a, const void *b)
{
	const struct inc_yaml_node *const *x = a, *const *y = b;
	int c = strcmp((const char *)(*x)->node->data.scalar.value,
		       (const char *)(*y)->node->data.scalar.value);

	return c ? c : ((*x)->node > (*y)->node) - ((*x)->node < (*y)->node);
}

/* Checks that all keys of a mapping are scalars and none appears twice. It sorts the keys, so that
 * a hostile file costs n log n. */
static int check_mapping(struct inc_yaml *doc, struct inc_yaml_node *map, struct inc_err *err)
{
	const yaml_node_pair_t *pairs = map->node->data.mapping.pairs.start;
	size_t n = map->node->data.mapping.pairs.top - pairs;
	const struct inc_yaml_node **keys;
	int ret = 0;

	if (!n)
		return 0;
	keys = calloc(n, sizeof(*keys));
	if (!keys)
		return inc_err_set(err, ENOMEM, "%s: out of memory", doc->name);
	for (size_t i = 0; i < n && !ret; i++) {
		keys[i] = &doc->nodes[pairs[i].key - 1];
		if (keys[i]->node->type != YAML_SCALAR_NODE)
			ret = inc_yaml_error(map, err, "a key is not plain text");
	}
	if (!ret) {
		qsort(keys, n, sizeof(*keys), compare_keys);
		for (size_t i = 1; i < n && !ret; i++) {
			const char *key = (const char *)keys[i]->node->data.scalar.value;

			if (strcmp((const char *)keys[i - 1]->node->data.scalar.value, key) != 0)
				continue;
			ret = inc_err_set(err, EINVAL, "%s:%zu: key '%.64s' appears twice",
					  doc->name, keys[i]->node->start_mark.line + 1, key);
		}
	}
	free(keys);
	return ret;
}

static void adopt(struct inc_yaml *doc, size_t parent, int child, const char *key, size_t index)
{
	struct inc_yaml_node *c = &doc->nodes[child - 1];

	if ((size_t)child - 1 <= parent || c->parent)
		return;
	c->parent = &doc->nodes[parent];
	c->key = key;
	c->index = index;
}

static int index_nodes(struct inc_yaml *doc, struct inc_err *err)
{
	doc->n = doc->document.nodes.top - doc->document.nodes.start;
	doc->nodes = calloc(doc->n, sizeof(*doc->nodes));
	if (!doc->nodes)
		return inc_err_set(err, ENOMEM, "%s: out of memory", doc->name);
	for (size_t i = 0; i < doc->n; i++) {
		doc->nodes[i].doc = doc;
		doc->nodes[i].node = node_at(doc, i + 1);
	}
	for (size_t i = 0; i < doc->n; i++) {
		const yaml_node_t *node = doc->nodes[i].node;
		int ret;

		switch (node->type) {
		case YAML_SCALAR_NODE:
			if (memchr(node->data.scalar.value, 0, node->data.scalar.length))
				return inc_yaml_error(&doc->nodes[i], err, "NUL character in text");
			break;
		case YAML_SEQUENCE_NODE: {
			const yaml_node_item_t *items = node->data.sequence.items.start;
			size_t n = node->data.sequence.items.top - items;

			for (size_t k = 0; k < n; k++)
				adopt(doc, i, items[k], NULL, k);
			break;
		}
		case YAML_MAPPING_NODE: {
			const yaml_node_pair_t *pair = node->data.mapping.pairs.start;

			ret = check_mapping(doc, &doc->nodes[i], err);
			if (ret)
				return ret;
			for (; pair < node->data.mapping.pairs.top; pair++)
				adopt(doc, i, pair->value,
				      (const char *)node_at(doc, pair->key)->data.scalar.value, 0);
			break;
		}
		default:
			return inc_yaml_error(&doc->nodes[i], err, "unknown kind of node");
		}
	}
	return 0;
}

/* Whether flow collections are nested too deeply. The count ignores quotes and comments, because
 * it only limits the work of libyaml. */
static bool too_deep(const char *text, size_t len)
{
	int depth = 0;

	for (size_t i = 0; i < len; i++) {
		if (text[i] == '[' || text[i] == '{')
			depth++;
		else if ((text[i] == ']' || text[i] == '}') && depth)
			depth--;
		if (depth > YAML_MAX_FLOW_DEPTH)
			return true;
	}
	return false;
}

int inc_yaml_parse(const char *name, const char *text, size_t len, struct inc_yaml **out,
		   struct inc_err *err)
{
	struct inc_yaml *doc;
	yaml_document_t extra;
	yaml_parser_t parser;
	const yaml_node_t *second;
	int ret;

	if (len > YAML_MAX_BYTES)
		return inc_err_set(err, EFBIG, "%s: larger than %u bytes", name, YAML_MAX_BYTES);
	if (too_deep(text, len))
		return inc_err_set(err, EINVAL, "%s: nested deeper than %d brackets", name,
				   YAML_MAX_FLOW_DEPTH);
	doc = calloc(1, sizeof(*doc));
	if (!doc)
		return inc_err_set(err, ENOMEM, "%s: out of memory", name);
	doc->name = strdup(name);
	if (!doc->name || !yaml_parser_initialize(&parser)) {
		ret = inc_err_set(err, ENOMEM, "%s: out of memory", name);
		goto err_doc;
	}
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
	if (!yaml_parser_load(&parser, &doc->document))
		goto err_syntax;
	if (!yaml_document_get_root_node(&doc->document)) {
		ret = inc_err_set(err, EINVAL, "%s: empty file", name);
		goto err_parser;
	}
	if (!yaml_parser_load(&parser, &extra))
		goto err_syntax;
	second = yaml_document_get_root_node(&extra);
	if (second)
		ret = inc_err_set(err, EINVAL, "%s:%zu: more than one document", name,
				  second->start_mark.line + 1);
	else
		ret = index_nodes(doc, err);
	yaml_document_delete(&extra);
	if (ret)
		goto err_parser;
	yaml_parser_delete(&parser);
	*out = doc;
	return 0;

err_syntax:
	ret = inc_err_set(err, EINVAL, "%s:%zu: %s%s%s", name, parser.problem_mark.line + 1,
			  parser.problem ? parser.problem : "not YAML", parser.context ? " " : "",
			  parser.context ? parser.context : "");
err_parser:
	yaml_parser_delete(&parser);
err_doc:
	inc_yaml_free(doc);
	return ret;
}

/* Reads a file into *text, which the caller frees. It reads at most a little more than
 * YAML_MAX_BYTES, so that the caller notices a file that is too large. */
static int read_all(int fd, char **text, size_t *len)
{
	size_t size = 0;
	char *grown;
	ssize_t n;

	for (;;) {
		if (*len == size) {
			size = size ? 2 * size : YAML_FIRST_BYTES;
			grown = realloc(*text, size);
			if (!grown)
				return -ENOMEM;
			*text = grown;
		}
		n = read(fd, *text + *len, size - *len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		*len += n;
		if (!n || *len > YAML_MAX_BYTES)
			return 0;
	}
}

int inc_yaml_load(const char *path, struct inc_yaml **doc, struct inc_err *err)
{
	const int fd = inc_fd_high(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
	char *text = NULL;
	size_t len = 0;
	int ret;

	if (fd < 0)
		return inc_err_set(err, errno, "%s: %s", path, strerror(errno));
	ret = read_all(fd, &text, &len);
	if (ret)
		inc_err_set(err, -ret, "%s: %s", path, strerror(-ret));
	else
		ret = inc_yaml_parse(path, text, len, doc, err);
	free(text);
	close(fd);
	return ret;
}

void inc_yaml_free(struct inc_yaml *doc)
{
	if (!doc)
		return;
	if (doc->document.nodes.start)
		yaml_document_delete(&doc->document);
	free(doc->nodes);
	free(doc->name);
	free(doc);
}

const struct inc_yaml_node *inc_yaml_root(const struct inc_yaml *doc)
{
	return &doc->nodes[0];
}

/* Writes the path of a node ("hosts[1].ip") so that it ends at the end of buf. */
static const char *node_path(const struct inc_yaml_node *node, char *buf, size_t size)
{
	size_t at = size - 1;
	char part[80];

	buf[at] = '\0';
	for (; node->parent; node = node->parent) {
		size_t n;

		if (node->key)
			snprintf(part, sizeof(part), "%s%.64s", node->parent->parent ? "." : "",
				 node->key);
		else
			snprintf(part, sizeof(part), "[%zu]", node->index);
		n = strlen(part);
		if (n > at)
			break;
		at -= n;
		memcpy(buf + at, part, n);
	}
	return buf + at;
}

int inc_yaml_verror(const struct inc_yaml_node *node, struct inc_err *err, const char *fmt,
		    va_list ap)
{
	char buf[160], where[sizeof(err->msg)] = "";
	const char *path;

	if (node) {
		path = node_path(node, buf, sizeof(buf));
		snprintf(where, sizeof(where), "%s:%zu%s%s", node->doc->name,
			 node->node->start_mark.line + 1, *path ? ": " : "", path);
	}
	return inc_err_vset(err, EINVAL, where, fmt, ap);
}

int inc_yaml_error(const struct inc_yaml_node *node, struct inc_err *err, const char *fmt, ...)
{
	va_list ap;
	int ret;

	va_start(ap, fmt);
	ret = inc_yaml_verror(node, err, fmt, ap);
	va_end(ap);
	return ret;
}

const struct inc_yaml_node *inc_yaml_get(const struct inc_yaml_node *map, const char *key)
{
	const yaml_node_pair_t *pair;

	if (!map || map->node->type != YAML_MAPPING_NODE)
		return NULL;
	for (pair = map->node->data.mapping.pairs.start; pair < map->node->data.mapping.pairs.top;
	     pair++) {
		const yaml_node_t *k = node_at(map->doc, pair->key);

		if (strcmp((const char *)k->data.scalar.value, key) == 0)
			return &map->doc->nodes[pair->value - 1];
	}
	return NULL;
}

size_t inc_yaml_len(const struct inc_yaml_node *seq)
{
	if (!seq || seq->node->type != YAML_SEQUENCE_NODE)
		return 0;
	return seq->node->data.sequence.items.top - seq->node->data.sequence.items.start;
}

const struct inc_yaml_node *inc_yaml_at(const struct inc_yaml_node *seq, size_t i)
{
	if (i >= inc_yaml_len(seq))
		return NULL;
	return &seq->doc->nodes[seq->node->data.sequence.items.start[i] - 1];
}

int inc_yaml_check_keys(const struct inc_yaml_node *map, const char *const *known,
			struct inc_err *err)
{
	const yaml_node_pair_t *pair;
	int ret = inc_yaml_want_map(map, err);

	if (ret)
		return ret;
	for (pair = map->node->data.mapping.pairs.start; pair < map->node->data.mapping.pairs.top;
	     pair++) {
		const struct inc_yaml_node *key = &map->doc->nodes[pair->key - 1];
		const char *text = inc_yaml_text(key);
		const char *const *k = known;

		while (*k && strcmp(*k, text) != 0)
			k++;
		if (!*k) {
			/* a node with the line of the key and the path of the mapping, as the error
			 * message needs them */
			struct inc_yaml_node at = *map;

			at.node = key->node;
			return inc_yaml_error(&at, err, "unknown key '%.64s'", text);
		}
	}
	return 0;
}
