#!/usr/bin/env bash
# jobs: two background jobs that write one file, report.txt.
#
# The first one makes the file, or empties it; the second one, which starts a little later, adds to
# it. Nothing says that they do so in this order.
set -euo pipefail

echo "12 tests passed" > report.txt &
words=$(wc -w < "$0")
echo "of $words words of code" >> report.txt &
wait

cat report.txt
if [[ $(< report.txt) != "12 tests passed"$'\n'"of $words words of code" ]]; then
    echo "that is not the whole report"
    exit 1
fi
