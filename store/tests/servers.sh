#!/usr/bin/env bash
# store/tests/servers.sh COMMAND...: runs a command while a Redis server runs, which it finds at FAK_TEST_REDIS. It listens on
# loopback only, keeps nothing, and ends with the command, whatever ends it.
# Installs nothing: if something is missing it says what and exits 77.
set -uo pipefail
[ $# -gt 0 ] || { echo "usage: store/tests/servers.sh COMMAND..." >&2; exit 2; }

command -v redis-server > /dev/null || { echo "missing: redis-server (apt-get install redis-server)"; exit 77; }
command -v redis-cli > /dev/null || { echo "missing: redis-cli (apt-get install redis-tools)"; exit 77; }

place=$(mktemp -d)
started=()
stop() {
  trap - EXIT INT TERM HUP
  for id in ${started[@]+"${started[@]}"}; do
    kill "$id" 2> /dev/null
    wait "$id" 2> /dev/null
  done
  rm -rf "$place"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
answers() { # NAME ID COMMAND...: waits until the server answers, or is gone
  local name=$1 id=$2
  shift 2
  for _ in $(seq 300); do
    "$@" > /dev/null 2>&1 && return
    kill -0 "$id" 2> /dev/null || break
    sleep 0.1
  done
  echo "$name did not start:" >&2
  cat "$place/$name.log" >&2
  exit 1
}

redis_port=$(port)
(cd "$place" && exec redis-server --port "$redis_port" --bind 127.0.0.1 --save '' --appendonly no --dir "$place") \
  > "$place/redis.log" 2>&1 &
started+=($!)
answers redis $! redis-cli -h 127.0.0.1 -p "$redis_port" ping

export FAK_TEST_REDIS="redis://127.0.0.1:$redis_port"
"$@" &
command_id=$!
started+=("$command_id")
wait "$command_id"
