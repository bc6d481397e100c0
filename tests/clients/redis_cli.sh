#!/usr/bin/env bash
# redis-cli and redis-benchmark against a running server: redis_cli.sh PORT
set -euo pipefail
port=$1
cli() { timeout 60 redis-cli -p "$port" "$@"; }
want() { # want NAME PATTERN TEXT
    grep -Eq -- "$2" <<<"$3" || { echo "redis-cli $1: no /$2/ in: $3" >&2; exit 1; }
}

want ping '^PONG$' "$(cli ping)"
want stdin '^v$' "$(printf 'set k v\nget k\n' | cli)"
want pipe 'errors: 0, replies: 20000' "$(for i in $(seq 20000); do printf 'SET pipe:%d v%d\r\n' "$i" "$i"; done | cli --pipe)"
want pipe-result '^v20000$' "$(cli get pipe:20000)"
cli set bigstring "$(head -c 5000 /dev/zero | tr '\0' x)" >/dev/null
want bigkeys 'Biggest string found .?"?bigstring"?.* has 5000 bytes' "$(cli --bigkeys)"
want memkeys 'Biggest string found .?"?bigstring"?.* has [0-9]+ bytes' "$(cli --memkeys)"
want scan '^20000$' "$(cli --scan --pattern 'pipe:*' | sort -u | wc -l)"
want stat 'keys +mem +clients' "$(timeout 3 stdbuf -oL redis-cli -p "$port" --stat -i 0.2 </dev/null | head -4 || true)"
want latency '^[0-9]+ [0-9]+ [0-9.]+ [0-9]+' "$(timeout 4 redis-cli -p "$port" --latency -i 1 --raw </dev/null | head -1 || true)"
for pipeline in 1 16; do
    out=$(timeout 120 redis-benchmark -p "$port" -t ping_inline,ping_mbulk,set,get,incr -n 20000 -P $pipeline -r 1000 --csv)
    want "benchmark at pipeline $pipeline" '^"INCR"' "$out"
    out=$(timeout 120 redis-benchmark -p "$port" -t mset -n 5000 -P $pipeline -r 1000 --csv)
    want "benchmark of mset at pipeline $pipeline" '^"MSET' "$out"
done
echo "redis-cli, redis-benchmark: passed"
