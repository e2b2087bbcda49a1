#!/bin/bash
# Runs a parameter server for as long as the workers need it: bash serve-until-done.sh HOST:PORT COMMAND…
#
# HOST:PORT is the workers' rendezvous. Worker 0 opens it before it trains; it is gone when all workers are done, and
# also when worker 0 has failed, however that came. So the pod ends with the run, without a token for Kubernetes' API.
#
# Ends with the command's status; the command gets SIGTERM when the run is over or this script gets SIGTERM.
# With status 1 when the rendezvous has not opened within START_SECONDS.
set -u
start_seconds=${START_SECONDS:-600}
pause_seconds=${PAUSE_SECONDS:-2}
rendezvous=$1
shift

is_open() {
    timeout 5 bash -c "exec 3<> /dev/tcp/${rendezvous%:*}/${rendezvous##*:}" 2> /dev/null
}

"$@" &
ps=$!
stop() { kill -TERM "$ps" 2> /dev/null; }
trap stop TERM INT

seen=no
misses=0
status=
while kill -0 "$ps" 2> /dev/null; do
    if is_open; then
        seen=yes
        misses=0
    elif [ $seen = yes ]; then
        misses=$((misses + 1))
        if [ $misses -ge 5 ]; then # not one lost packet or one slow name server
            echo "the workers' rendezvous $rendezvous is gone: the run is over"
            stop
            break
        fi
    elif [ $SECONDS -ge "$start_seconds" ]; then
        echo "the workers' rendezvous $rendezvous did not open within $start_seconds s" >&2
        status=1
        stop
        break
    fi
    sleep "$pause_seconds" &
    wait $! # unlike sleep itself, a signal ends it at once
done
wait "$ps"
exit "${status:-$?}"
