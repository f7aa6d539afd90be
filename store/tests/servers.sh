#!/usr/bin/env bash
# store/tests/servers.sh COMMAND...: runs a command while a Redis server and an S3 server (moto) run, which it finds at
# FAK_TEST_REDIS and FAK_TEST_S3. Both listen on loopback only, keep nothing, and end with it, whatever ends it.
# Installs nothing: if something is missing it says what and exits 77. FAK_TEST_PYTHONPATH may say where moto lies.
set -uo pipefail
[ $# -gt 0 ] || { echo "usage: store/tests/servers.sh COMMAND..." >&2; exit 2; }

export PYTHONPATH="${FAK_TEST_PYTHONPATH:-}${PYTHONPATH:+:${PYTHONPATH}}"
command -v redis-server > /dev/null || { echo "missing: redis-server (apt-get install redis-server)"; exit 77; }
command -v redis-cli > /dev/null || { echo "missing: redis-cli (apt-get install redis-tools)"; exit 77; }
python3 -c 'import moto.server, flask' 2> /dev/null ||
  { echo "missing: moto (python3 -m pip install --target DIR 'moto[server]', then FAK_TEST_PYTHONPATH=DIR)"; exit 77; }

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

s3_port=$(port)
(cd "$place" && exec python3 -m moto.server -H 127.0.0.1 -p "$s3_port") > "$place/moto.log" 2>&1 &
started+=($!)
answers moto $! python3 -c "import urllib.request; urllib.request.urlopen('http://127.0.0.1:$s3_port/moto-api/')"
python3 - "$s3_port" << 'PYTHON' || { echo "moto made no bucket" >&2; exit 1; }
import sys, urllib.request
urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{sys.argv[1]}/fak", method="PUT"))
PYTHON

export FAK_TEST_REDIS="redis://127.0.0.1:$redis_port" FAK_TEST_S3="http://127.0.0.1:$s3_port"
"$@" &
command_id=$!
started+=("$command_id")
wait "$command_id"
