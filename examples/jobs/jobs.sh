#!/usr/bin/env bash
# jobs: two background jobs that write one file, report.txt.
#
# The first one makes the file, or empties it; the second one adds to it. Nothing says that they do
# so in this order.
set -euo pipefail

echo "12 tests passed" > report.txt &
date --utc --date="@${SOURCE_DATE_EPOCH:-0}" "+built on %F" >> report.txt &
wait

cat report.txt
if [[ $(sort report.txt) != "12 tests passed"$'\n'"built on "* ]]; then
    echo "that is not the whole report"
    exit 1
fi
