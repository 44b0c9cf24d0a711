#!/usr/bin/env bash
# jobs: two background jobs that write one file, report.txt.
#
# The first one makes the file, or empties it; the second one, which starts a little later, adds to
# it. Nothing says that they do so in this order.
set -euo pipefail

printf '%s: passed\n' parser printer server client > report.txt &
words=$(wc -w < "$0")
echo "$words words of code" >> report.txt &
wait

cat report.txt
expected=$(
    printf '%s: passed\n' parser printer server client
    echo "$words words of code"
)
if [[ $(< report.txt) != "$expected" ]]; then
    echo "that is not the whole report"
    exit 1
fi
