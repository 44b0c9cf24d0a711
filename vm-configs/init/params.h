/* SPDX-License-Identifier: MIT */
/* The job's parameters: docs/design.md, "Parameters and result". */
#ifndef PARAMS_H
#define PARAMS_H

#include <stdbool.h>
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
	/*
	 * Where the job starts in layer 0, if that is its root directory; NULL for
	 * a job that has Nix's sandbox.
	 */
	char *root;
	char *builder;
	char **argv; /* argv[0] is the builder's base name, or with a root it itself; ends with NULL */
	size_t argc;
	char **envp; /* ends with NULL */
	size_t envc;
	struct file *files;
	size_t file_count;
	struct output *outputs;
	size_t output_count;
	char *shell;
};

/* What a shell in a fork is to be: docs/design.md, "A shell in a fork". */
struct shell_params {
	unsigned int pid; /* whose view it has, as the job's PID namespace numbers it */
	bool has_layer;
	unsigned int layer; /* with what is to be there besides */
	unsigned int rows; /* of the user's terminal; 0: there is none */
	unsigned int columns;
	bool going; /* the job is to go on */
	char **paths; /* to be first in PATH; ends with NULL */
	size_t path_count;
	char **envp; /* NAME=VALUE, to replace what is there; ends with NULL */
	size_t envc;
	char **argv; /* a command instead of a shell; ends with NULL */
	size_t argc;
	char *script; /* for the shell's -c, or NULL */
	char *shell; /* the shell to take, or NULL */
};

/*
 * Reads the parameters in data, which is written to (a NUL ends each value in
 * place) and must outlive the result. fail()s with the place and the reason if
 * they are not what docs/design.md says.
 */
struct params parse_params(char *data, size_t size);

/* The same for a shell's. */
struct shell_params parse_shell_params(char *data, size_t size);

#endif
