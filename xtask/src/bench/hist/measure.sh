# Measures what counting events costs, on the machine it runs on. The caller sets TRACER, CALLS (a program that
# makes events), LOOPS, ROUNDS, STATS (1: the kernel's own measurement of eBPF programs, too, in runs of their own),
# and calls `measure` for each case. Each result is a line: RECORD case round engine events CPU-ns run-ns runs.
T=/sys/kernel/tracing
DIR=$(mktemp -d) || exit 1
trap 'rm -rf "$DIR"' EXIT
stats=/proc/sys/kernel/bpf_stats_enabled

give_up() {
    echo "hist: $case: $*" >&2
    cat "$DIR/out" >&2
    exit 1
}

# Run time and runs of the programs of a process.
bpf_time() {
    cat /proc/"$1"/fdinfo/* 2>/dev/null | awk '/^run_time_ns/ { t += $2 } /^run_cnt/ { n += $2 } END { printf "%d %d\n", t, n }'
}

# One run of the loop while engine $1 counts, in process $2 if it has one.
loop() {
    before='0 0'
    [ -z "$2" ] || before=$(bpf_time "$2")
    cpu=$("$CALLS" "$LOOPS" "$kind") || give_up "the loop fails"
    cpu=${cpu##*CPU }
    after='0 0'
    [ -z "$2" ] || after=$(bpf_time "$2")
    echo "RECORD $case $round $1 $LOOPS $cpu $((${after% *} - ${before% *})) $((${after#* } - ${before#* }))"
}

# Runs the loop while the process $pid counts, as engine $1, without and with the kernel's measurement.
under() {
    loop "$1" "$pid"
    if [ "$STATS" = 1 ]; then
        old=$(cat $stats)
        echo 1 >$stats
        loop "$1-stats" "$pid"
        echo "$old" >$stats
    fi
    kill -INT "$pid"
    wait "$pid" || give_up "$1 ends with $?"
}

alive() {
    kill -0 "$pid" 2>/dev/null || give_up "$1 does not run"
}

untraced() {
    loop untraced
}

tracer() {
    "$TRACER" hist "$event" "$trigger" >"$DIR/out" 2>&1 &
    pid=$!
    until [ -S "/run/tracer/hist-$pid.sock" ]; do alive tracer; sleep 0.1; done
    under tracer
}

tree() {
    "$TRACER" hist "$event" "$trigger" -p $$ >"$DIR/out" 2>&1 &
    pid=$!
    until [ -S "/run/tracer/hist-$pid.sock" ]; do alive tracer; sleep 0.1; done
    under tree
}

file=
kernel() {
    file=$T/events/$(echo "$event" | tr : /)/trigger
    echo "$trigger" >"$file" || give_up "no trigger"
    loop kernel
    echo "!$trigger" >"$file" || give_up "the trigger stays"
}

kernel_tree() {
    echo 1 >$T/options/event-fork
    echo $$ >$T/set_event_pid
    file=$T/events/$(echo "$event" | tr : /)/trigger
    echo "$trigger" >"$file" || give_up "no trigger"
    loop kernel_tree
    echo "!$trigger" >"$file" || give_up "the trigger stays"
    echo >$T/set_event_pid
    echo 0 >$T/options/event-fork
}

bpftrace() {
    command bpftrace -e "$script" >"$DIR/out" 2>&1 &
    pid=$!
    until ls -l /proc/$pid/fd 2>/dev/null | grep -q 'perf_event\|bpf.link'; do alive bpftrace; sleep 0.2; done
    sleep 0.3
    under bpftrace
}

# measure CASE KIND EVENT TRIGGER SCRIPT ENGINE...
measure() {
    case=$1 kind=$2 event=$3 trigger=$4 script=$5
    shift 5
    round=0
    while [ $round -lt "$ROUNDS" ]; do
        # In turn: what drifts hits all alike.
        for engine in "$@"; do $engine; done
        first=$1
        shift
        set -- "$@" "$first"
        round=$((round + 1))
    done
}
