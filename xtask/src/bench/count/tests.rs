//! Lines as the tools print them.

use super::*;

fn all(fork: u64, exec: u64, exit: u64, lost: Option<u64>) -> Counts {
    Counts {
        fork: Some(fork),
        exec: Some(exec),
        exit: Some(exit),
        lost,
    }
}

#[test]
fn strace_with_calls_that_were_interrupted() {
    let text = "10 execve(\"./a\", [\"./a\"], 0x7 /* 9 vars */) = 0
10 vfork( <unfinished ...>
11 execve(\"./b\", [\"./b\"], 0x7 /* 9 vars */ <unfinished ...>
10 <... vfork resumed>) = 11
11 <... execve resumed>) = 0
11 execve(\"./c\", [\"./c\"], 0x7 /* 9 vars */) = -1 ENOENT (No such file or directory)
10 clone(child_stack=NULL, flags=SIGCHLD) = 12
12 +++ killed by SIGTERM +++
11 +++ exited with 0 +++
10 wait4(-1, NULL, 0, NULL) = 11
10 +++ exited with 0 +++
";
    assert_eq!(strace(text.as_bytes(), 10).unwrap(), all(2, 1, 2, None));
}

#[test]
fn tracepoints_of_four_tools() {
    let ftrace = "\
 stamp-10    [001] ..... 1.0: sched_process_fork: comm=stamp pid=10 child_comm=stamp child_pid=11
 a b-11      [001] ..... 1.1: sched_process_exec: filename=./tiny pid=11 old_pid=11
CPU:1 [LOST 108 EVENTS]
 x-77        [001] ..... 1.2: sched_process_exit: comm=x pid=77 prio=120 group_dead=true
 tiny-11     [001] ..... 1.2: sched_process_exit: comm=tiny pid=11 prio=120 group_dead=true
 stamp-10    [001] ..... 1.3: sched_process_exit: comm=stamp pid=10 prio=120 group_dead=true
";
    assert_eq!(
        tracepoints(ftrace.as_bytes(), 10).unwrap(),
        all(1, 1, 1, Some(108))
    );
    let perf_trace = "\
 0.000 stamp/10 sched:sched_process_fork(parent_comm: \"stamp\", parent_pid: 10 (stamp), child_comm: \"stamp\", child_pid: 11 (stamp))
 0.100 tiny/11 sched:sched_process_exec(filename: \"./tiny\", pid: 11 (tiny), old_pid: 11 (tiny))
 0.200 tiny/11 sched:sched_process_exit(comm: \"tiny\", pid: 11 (tiny), prio: 120)
";
    assert_eq!(
        tracepoints(perf_trace.as_bytes(), 10).unwrap(),
        all(1, 1, 1, Some(0))
    );
}

#[test]
fn bpftrace_out_of_order() {
    let text =
        "Attaching 3 probes...\nexit 30 11 11\nexec 20 11 ./tiny\nfork 10 10 11\nLost 7 events\n";
    assert_eq!(
        bpftrace(text.as_bytes(), 10).unwrap(),
        all(1, 1, 1, Some(7))
    );
}

#[test]
fn snoops() {
    let execs = "PCOMM            PID     PPID    RET ARGS
stamp            10      1         0 ./stamp -o out
tiny             11      10        0 ./tiny
tiny             12      10       -2 ./tinier
";
    assert_eq!(snoop(execs.as_bytes(), 10).unwrap(), 1);
    let exits = "PCOMM            PID     PPID    TID     AGE(s)  EXIT_CODE
tiny             11      10      11      0.00    code 3
a b              12      10      12      0.00    0
";
    assert_eq!(snoop(exits.as_bytes(), 10).unwrap(), 2);
}

#[test]
fn forkstat_with_a_parent_that_is_unknown() {
    let text = "Time     Event     PID Info   Duration Process
11:00:00 exec       10               ./stamp
11:00:00 fork       10 parent        ./stamp
11:00:00 fork       11 child         ./stamp
11:00:00 fork        0 parent        
11:00:00 fork       12 child         
11:00:00 exec       12               ./tiny
11:00:00 exit       12      3   0.001 ./tiny
11:00:00 exit       11      0   0.002 ./stamp
11:00:00 exit       10      0   0.003 ./stamp
";
    assert_eq!(forkstat(text), all(2, 1, 2, None));
    fn forkstat(text: &str) -> Counts {
        tree::forkstat(text.as_bytes(), 10).unwrap()
    }
}

#[test]
fn tracers_own() {
    let summary =
        "10 sh\n\n1,051 processes, 51 execs, at most 2 at a time, 2 levels deep\n3 events lost\n";
    let counts = each(summary.as_bytes(), Summary::default(), Summary::line)
        .unwrap()
        .counts();
    assert_eq!(
        (counts.fork, counts.exec, counts.exit, counts.lost),
        (Some(1050), Some(50), None, Some(3))
    );
    let lines = r#"{"type":"exec","ts":1,"pid":10,"start":1}
{"type":"fork","ts":1,"pid":10,"child_pid":11,"thread":false}
{"type":"fork","ts":1,"pid":10,"child_pid":10,"thread":true}
{"type":"exec","ts":1,"pid":11}
{"type":"lost","ts":1,"where":"ring","kind":"fork","count":4}
{"type":"exit","ts":1,"pid":11,"process":true}
{"type":"exit","ts":1,"pid":10,"process":true}
"#;
    assert_eq!(jsonl(lines.as_bytes(), 10).unwrap(), all(1, 1, 1, Some(4)));
    let log = "11<sh>: \"/bin/ls\"\n12<sh>: \"/x\" = -2 (ENOENT)\n10<stamp>: \"./stamp\"\n";
    assert_eq!(tracexec(log.as_bytes(), 10).unwrap().exec, Some(1));
}
