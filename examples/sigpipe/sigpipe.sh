#!/usr/bin/env bash
# sigpipe: the newest release, which is the first line of a list.
#
# head goes when it has its line. bash writes line by line, and dies of SIGPIPE (141) if that was
# before the last one; mostly all lines are written before head has started.
set -o pipefail

printf '%s\n' 1.7 1.6 1.5 1.4 1.3 1.2 1.1 1.0 | head -n1
