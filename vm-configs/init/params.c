// SPDX-License-Identifier: MIT
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "fail.h"
#include "io.h"
#include "params.h"

#define STORE "/nix/store/"

/* What parse_params is looking at, for what is said of a value that is wrong. */
struct value {
	const char *key;
	size_t offset; /* of the key, in the parameters */
	char *data;    /* followed by a NUL */
	size_t size;
};

static void __attribute__((noreturn)) reject(const struct value *v, const char *why)
{
	fail("parameters: %s at byte %zu: %s", v->key, v->offset, why);
}

static void once(const struct value *v, bool given)
{
	if (given)
		reject(v, "given twice");
}

/* Digits and nothing else, at most limit. */
static uint64_t number(const struct value *v, uint64_t limit)
{
	uint64_t n = 0;

	if (!v->size)
		reject(v, "not a number");
	for (size_t i = 0; i < v->size; i++) {
		unsigned int digit = (unsigned char)v->data[i] - '0';

		if (digit > 9)
			reject(v, "not a number");
		if (digit > limit || n > (limit - digit) / 10)
			reject(v, "too large");
		n = n * 10 + digit;
	}
	return n;
}

static char *string(const struct value *v)
{
	if (memchr(v->data, 0, v->size))
		reject(v, "has a NUL in it");
	return v->data;
}

static char *absolute(const struct value *v)
{
	if (string(v)[0] != '/')
		reject(v, "not an absolute path");
	return v->data;
}

/* "NAME\0REST": the name, and the rest through *rest. */
static char *pair(const struct value *v, struct bytes *rest)
{
	char *end = memchr(v->data, 0, v->size);

	if (!end)
		reject(v, "has no NUL after the name");
	rest->data = end + 1;
	rest->size = v->size - (rest->data - v->data);
	if (end == v->data)
		reject(v, "empty name");
	return v->data;
}

/* A name that stays in its directory. */
static bool is_file_name(const char *name)
{
	return *name && strlen(name) <= NAME_MAX && !strchr(name, '/') &&
	       strcmp(name, ".") && strcmp(name, "..");
}

static void add_file(struct params *p, const struct value *v)
{
	struct file file;

	file.name = pair(v, &file.content);
	if (!is_file_name(file.name))
		reject(v, "not a file name");
	p->files = must_allocate(p->files, p->file_count + 1, sizeof(*p->files));
	p->files[p->file_count++] = file;
}

static void add_output(struct params *p, const struct value *v)
{
	struct output output;
	struct bytes path;

	output.name = pair(v, &path);
	output.path = path.data;
	if (strpbrk(output.name, "\n/"))
		reject(v, "not a name of an output");
	if (memchr(path.data, 0, path.size) || strncmp(path.data, STORE, strlen(STORE)) ||
	    !is_file_name(path.data + strlen(STORE)))
		reject(v, "not a path in " STORE);
	for (size_t i = 0; i < p->output_count; i++)
		if (!strcmp(p->outputs[i].name, output.name) ||
		    !strcmp(p->outputs[i].path, output.path))
			reject(v, "given twice");
	if (p->output_count == CHANNEL_LIMIT - CHANNEL_OUTPUT)
		reject(v, "more outputs than there are channels");
	p->outputs = must_allocate(p->outputs, p->output_count + 1, sizeof(*p->outputs));
	p->outputs[p->output_count++] = output;
}

static void add_string(char ***list, size_t *count, char *s)
{
	*list = must_allocate(*list, *count + 2, sizeof(**list));
	(*list)[(*count)++] = s;
	(*list)[*count] = NULL;
}

static void take(struct params *p, const struct value *v, bool *has_epoch)
{
	const char *key = v->key;

	if (!strcmp(key, "layers")) {
		once(v, p->layers);
		p->layers = number(v, LAYERS_MAX);
		if (!p->layers)
			reject(v, "a job has at least one");
	} else if (!strcmp(key, "epoch")) {
		once(v, *has_epoch);
		p->epoch = number(v, INT64_MAX);
		*has_epoch = true;
	} else if (!strcmp(key, "seed")) {
		once(v, p->seed.data);
		if (!v->size || v->size > 4096)
			reject(v, "not 1 to 4096 bytes");
		p->seed.data = v->data;
		p->seed.size = v->size;
	} else if (!strcmp(key, "cores")) {
		once(v, p->cores);
		p->cores = number(v, UINT32_MAX);
		if (!p->cores)
			reject(v, "a machine has at least one");
	} else if (!strcmp(key, "root")) {
		once(v, p->root);
		p->root = absolute(v);
	} else if (!strcmp(key, "builder")) {
		once(v, p->builder);
		p->builder = string(v);
		if (!v->size)
			reject(v, "empty");
	} else if (!strcmp(key, "shell")) {
		once(v, p->shell);
		p->shell = absolute(v);
	} else if (!strcmp(key, "arg")) {
		add_string(&p->argv, &p->argc, string(v));
	} else if (!strcmp(key, "env")) {
		if (!strchr(string(v), '='))
			reject(v, "has no =");
		add_string(&p->envp, &p->envc, v->data);
	} else if (!strcmp(key, "file")) {
		add_file(p, v);
	} else if (!strcmp(key, "output")) {
		add_output(p, v);
	} else {
		reject(v, "unknown");
	}
}

/* Reads "KEY LENGTH\nBYTES\n" at *at, and moves *at behind it. */
static struct value next_value(char *data, size_t size, size_t *at)
{
	struct value v = { .key = data + *at, .offset = *at };
	struct value length = { .key = "length", .offset = *at };
	char *line_end = memchr(data + *at, '\n', size - *at);
	char *space = line_end ? memchr(v.key, ' ', line_end - v.key) : NULL;

	if (!space || space - v.key > 16)
		fail("parameters: no key and length at byte %zu", *at);
	/* A key with something odd in it is unknown, and is printed: end it first. */
	*space = 0;
	*line_end = 0;
	length.data = space + 1;
	length.size = line_end - length.data;
	v.data = line_end + 1;
	v.size = number(&length, size);
	if (v.size >= (size_t)(data + size - v.data))
		reject(&v, "longer than what is left");
	if (v.data[v.size] != '\n')
		reject(&v, "not followed by a line feed");
	v.data[v.size] = 0;
	*at = v.data + v.size + 1 - data;
	return v;
}

struct params parse_params(char *data, size_t size)
{
	struct params p = { 0 };
	bool has_epoch = false;
	size_t at = 0;

	add_string(&p.argv, &p.argc, NULL); /* argv[0] comes with the builder */
	p.envp = must_allocate(NULL, 1, sizeof(*p.envp));
	p.envp[0] = NULL;
	while (at < size) {
		struct value v = next_value(data, size, &at);

		take(&p, &v, &has_epoch);
	}
	const struct {
		const char *key;
		bool given;
	} required[] = {
		{ "layers", p.layers }, { "epoch", has_epoch },     { "seed", p.seed.data },
		{ "cores", p.cores },	{ "builder", p.builder },
		/* What only Nix's sandbox has. */
		{ "shell", p.shell || p.root },
		{ "output", p.outputs || p.root },
	};

	for (size_t i = 0; i < ARRAY_SIZE(required); i++)
		if (!required[i].given)
			fail("parameters: no %s", required[i].key);
	if (p.root && (p.shell || p.files || p.outputs))
		fail("parameters: a job with a root has no shell, files and outputs");
	p.argv[0] = p.builder;
	/* Nix gives a builder its base name. */
	if (!p.root && strrchr(p.builder, '/'))
		p.argv[0] = strrchr(p.builder, '/') + 1;
	return p;
}

static void take_for_shell(struct shell_params *p, const struct value *v, bool *has_pid)
{
	const char *key = v->key;

	if (!strcmp(key, "pid")) {
		once(v, *has_pid);
		p->pid = number(v, INT32_MAX);
		*has_pid = true;
	} else if (!strcmp(key, "layer")) {
		once(v, p->has_layer);
		p->layer = number(v, LAYERS_MAX - 1);
		p->has_layer = true;
	} else if (!strcmp(key, "rows")) {
		once(v, p->rows);
		p->rows = number(v, UINT16_MAX);
	} else if (!strcmp(key, "columns")) {
		once(v, p->columns);
		p->columns = number(v, UINT16_MAX);
	} else if (!strcmp(key, "going")) {
		once(v, p->going);
		p->going = number(v, 1);
	} else if (!strcmp(key, "path")) {
		add_string(&p->paths, &p->path_count, absolute(v));
	} else if (!strcmp(key, "env")) {
		if (!strchr(string(v), '='))
			reject(v, "has no =");
		add_string(&p->envp, &p->envc, v->data);
	} else if (!strcmp(key, "arg")) {
		add_string(&p->argv, &p->argc, string(v));
	} else if (!strcmp(key, "script")) {
		once(v, p->script);
		p->script = string(v);
	} else if (!strcmp(key, "shell")) {
		once(v, p->shell);
		p->shell = absolute(v);
	} else {
		reject(v, "unknown");
	}
}

struct shell_params parse_shell_params(char *data, size_t size)
{
	struct shell_params p = { 0 };
	bool has_pid = false;
	size_t at = 0;

	while (at < size) {
		struct value v = next_value(data, size, &at);

		take_for_shell(&p, &v, &has_pid);
	}
	if (!has_pid)
		fail("parameters: no pid");
	return p;
}
