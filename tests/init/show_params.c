// SPDX-License-Identifier: MIT
/*
 * show-params: reads parameters on standard input, and prints what init takes
 * them to be: a job's, or those of a shell if there is an argument.
 */
#include <stdio.h>

#include "fail.h"
#include "io.h"
#include "params.h"

/* Without what it ends with: the test compares bytes, and looks for what follows a NUL. */
static void show(const char *key, const void *data, size_t size)
{
	printf("%s %zu ", key, size);
	fwrite(data, 1, size, stdout);
	putchar('\n');
}

static void show_string(const char *key, const char *s)
{
	size_t size = 0;

	while (s[size])
		size++;
	show(key, s, size);
}

static void show_strings(const char *key, char **list)
{
	for (char **s = list; s && *s; s++)
		show_string(key, *s);
}

static void show_shell(char *data, size_t size)
{
	struct shell_params p = parse_shell_params(data, size);

	printf("pid %u\nrows %u\ncolumns %u\n", p.pid, p.rows, p.columns);
	if (p.going)
		printf("going\n");
	if (p.has_layer)
		printf("layer %u\n", p.layer);
	show_strings("path", p.paths);
	show_strings("envp", p.envp);
	show_strings("argv", p.argv);
	if (p.script)
		show_string("script", p.script);
	if (p.shell)
		show_string("shell", p.shell);
}

int main(int argc, char **argv)
{
	(void)argv;
	/* Allocated, so that a sanitizer sees a step beyond it. */
	char *data = NULL;
	size_t size = 0, n;
	struct params p;

	do {
		data = must_allocate(data, size + 4096, 1);
		n = fread(data + size, 1, 4096, stdin);
		size += n;
	} while (n > 0);
	data = must_allocate(data, size ? size : 1, 1);
	if (argc > 1) {
		show_shell(data, size);
		return 0;
	}
	p = parse_params(data, size);
	printf("layers %u\nepoch %lld\ncores %u\n", p.layers, (long long)p.epoch, p.cores);
	show("seed", p.seed.data, p.seed.size);
	if (p.root)
		show_string("root", p.root);
	show_string("builder", p.builder);
	if (p.shell)
		show_string("shell", p.shell);
	for (char **arg = p.argv; *arg; arg++)
		show_string("argv", *arg);
	for (char **env = p.envp; *env; env++)
		show_string("envp", *env);
	for (size_t i = 0; i < p.file_count; i++) {
		show_string("file", p.files[i].name);
		show("content", p.files[i].content.data, p.files[i].content.size);
	}
	for (size_t i = 0; i < p.output_count; i++) {
		show_string("output", p.outputs[i].name);
		show_string("path", p.outputs[i].path);
	}
	return 0;
}
