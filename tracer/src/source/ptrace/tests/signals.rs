//! Signals reach the command once, with their number, and stops stay stops.

use std::fs;

use super::{Options, run_env, sh};
use crate::model::{Event, SignalBy};

#[test]
fn every_signal_once() {
    let dir = tempfile::tempdir().unwrap();
    let count = dir.path().join("count");
    // Flow control: the sender waits for an answer to each of its signals. The
    // first may come before `c` is set, hence `$!`.
    let script = format!(
        "n=0; trap 'n=$((n+1)); kill -USR2 $!' USR1; sh -c '
            k=0; trap \"k=\\$((k+1))\" USR2
            while [ $k -lt 200 ]; do o=$k; kill -USR1 $1; while [ $k = $o ]; do :; done; done; echo $k > {0}.k' x $$ &
        c=$!; while ! wait $c; do kill -0 $c 2>/dev/null || break; done; wait; echo $n > {0}",
        count.display()
    );
    let run = sh(&script);
    assert_eq!(run.end.status.exit_code, Some(0));
    assert_eq!(fs::read_to_string(&count).unwrap(), "200\n");
    assert_eq!(
        fs::read_to_string(format!("{}.k", count.display())).unwrap(),
        "200\n"
    );
}

#[test]
fn traps_and_real_time_signals_are_passed_on() {
    let run = sh("trap 'exit 42' TRAP; kill -TRAP $$; exit 1");
    assert_eq!(run.end.status.exit_code, Some(42));
    let run = sh("kill -63 $$");
    assert_eq!(run.end.status.signal, Some(63));
}

#[test]
fn a_stopped_process_stays_stopped() {
    // The parent sees T in /proc, and only SIGCONT ends it.
    let run = sh("sh -c 'kill -STOP $$; exit 9' & p=$!
        state() { sed 's/.*) //; s/ .*//' /proc/$p/stat; }
        until [ \"$(state)\" = T ] || [ \"$(state)\" = t ]; do :; done
        i=0; while [ $i -lt 20 ]; do [ -d /proc/$p ] || exit 1; i=$((i+1)); done
        kill -CONT $p; wait $p");
    assert_eq!(run.end.status.exit_code, Some(9));
}

#[test]
fn who_sent_it() {
    let options = Options {
        signals: true,
        ..Options::default()
    };
    let script = "sh -c 'while :; do :; done' & kill -TERM $!; wait $!; ulimit -c 0; trap : USR1; kill -USR1 $$; exit 0";
    let run = run_env(options, &["/bin/sh", "-c", script], &[]);
    let signals: Vec<_> = run
        .events
        .iter()
        .filter_map(|e| {
            if let Event::Signal(s) = e {
                Some(s)
            } else {
                None
            }
        })
        .collect();
    let [signal] = signals[..] else {
        panic!("{signals:?}")
    };
    assert_eq!((signal.signal, signal.by), (15, SignalBy::Process));
    assert_eq!(signal.sender, Some(run.root));
    assert_eq!(signal.target, run.forks()[0].child);
    assert_eq!(signal.sender_comm.unwrap().as_slice(), b"sh");
}
