/* SPDX-License-Identifier: MIT */
/* The job's parameters: docs/design.md, "Parameters and result". */
#ifndef PARAMS_H
#define PARAMS_H

#include <stddef.h>
#include <time.h>

#define LAYERS_MAX 4

struct bytes {
	char *data;
	size_t size;
};

struct file {
	char *name; /* in /build */
	struct bytes content;
};

struct output {
	char *name;
	char *path; /* /nix/store/... */
};

struct params {
	unsigned int layers;
	time_t epoch;
	struct bytes seed;
	unsigned int cores;
	char *builder;
	char **argv; /* argv[0] is the builder's base name; ends with NULL */
	size_t argc;
	char **envp; /* ends with NULL */
	size_t envc;
	struct file *files;
	size_t file_count;
	struct output *outputs;
	size_t output_count;
	char *shell;
};

/*
 * Reads the parameters in data, which is written to (a NUL ends each value in
 * place) and must outlive the result. fail()s with the place and the reason if
 * they are not what docs/design.md says.
 */
struct params parse_params(char *data, size_t size);

#endif
