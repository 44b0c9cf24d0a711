# check.sh PROGRAM: starts the daemon, waits for its pid file, and stops it.
set -euo pipefail

"$1" daemon.pid &
daemon=$!
trap 'kill -KILL $daemon 2>/dev/null || true' EXIT

end=$((SECONDS + 60))
until [[ -e daemon.pid ]]; do
    ((SECONDS < end))
    sleep 0.01
done

kill "$(<daemon.pid)"
wait $daemon
echo "the daemon has stopped"
