use std::time::Duration;

use super::*;

fn parse_line(line: &str) -> Result<Invocation, Stop> {
    parse(
        format!("tracer {line}")
            .split_whitespace()
            .map(OsString::from),
    )
}

fn trace(line: &str) -> Trace {
    match parse_line(line) {
        Ok(Invocation::Trace(trace)) => *trace,
        Ok(other) => panic!("{line}: {other:?}"),
        Err(stop) => panic!("{line}: {stop}"),
    }
}

/// The message of a usage error.
fn error(line: &str) -> String {
    let stop = parse_line(line).unwrap_err();
    assert_eq!(stop.exit_code(), 125, "{line}");
    stop.to_string()
}

#[test]
fn the_definition_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn everything_after_the_dashes_is_the_commands() {
    let t = trace("-l -- ls --help -q -- x");
    assert!(t.capture.log && !t.capture.quiet);
    assert_eq!(t.command, ["ls", "--help", "-q", "--", "x"]);
    assert_eq!(trace("-- check").command, ["check"], "not the subcommand");
}

#[test]
fn defaults() {
    let t = trace("-- true");
    assert_eq!(
        (t.capture.max_argv, t.capture.ring_size),
        (64 << 10, 8 << 20)
    );
    assert_eq!(
        (t.capture.backend, t.capture.color, t.capture.tree),
        (Backend::Auto, Color::Auto, None)
    );
    assert!(
        !t.capture.per_process() && t.capture.outputs().unwrap().is_empty() && t.timeout.is_none()
    );
}

#[test]
fn values() {
    let t = trace(
        "--tree=full --backend ebpf --ring-size 4K --max-argv 2M --timeout 1.5 --comm cc1 --comm ld* -- true",
    );
    assert_eq!(
        (t.capture.tree, t.capture.backend),
        (Some(TreeStyle::Full), Backend::Ebpf)
    );
    assert_eq!((t.capture.ring_size, t.capture.max_argv), (4096, 2 << 20));
    assert_eq!(t.timeout, Some(Duration::from_millis(1500)));
    assert_eq!(t.capture.comm, ["cc1", "ld*"]);
    assert_eq!(
        trace("--tree -- true").capture.tree,
        Some(TreeStyle::Folded)
    );
    assert_eq!(trace("--timeout 0 -- true").timeout, None);
    let t = trace("--uid-filter root --uid 0 -- true");
    assert_eq!(t.capture.uid_filter, [0]);
    assert_eq!(t.uid.unwrap().name, "root");
}

#[test]
fn a_file_for_each_process_as_strace_has_it() {
    assert!(trace("-ff -o out.txt -- true").capture.per_process());
    assert!(trace("-lff -oout.txt -- true").capture.per_process());
    assert!(
        trace("--per-process -o out.txt -- true")
            .capture
            .per_process()
    );
    assert!(error("-f -o out.txt -- true").contains("-ff"));
    assert!(error("-ff -- true").contains("-o FILE"));
    assert!(error("--per-process -- true").contains("--output <FILE>"));
}

#[test]
fn a_command_without_dashes_is_told_where_to_put_them() {
    for line in ["ls", "ls -l", "-q ls", "-o x.jsonl ls"] {
        let message = error(line);
        assert!(message.contains("tracer -- ls"), "{line}: {message}");
    }
    assert!(error("").contains("after --"));
    assert!(error("-l").contains("after --"));
    assert!(error("--").contains("after --"));
}

#[test]
fn usage_errors_name_the_remedy() {
    for (line, remedy) in [
        ("--bogus -- true", "--help"),
        ("--ring-size 0 -- true", "4KiB"),
        ("--ring-size 3KiB -- true", "4KiB"),
        ("--ring-size 5M -- true", "8MiB"),
        ("--max-argv 3M -- true", "2MiB"),
        ("--timeout soon -- true", "1.5m"),
        ("--backend bpf -- true", "ebpf"),
        ("--color -- true", "auto"),
        ("--uid no-such-user -- true", "getent"),
        ("--uid-filter no-such-user -- true", "getent"),
        ("-o out.xls -- true", "--format"),
        ("--format csv -- true", "--output <FILE>"),
        ("--rotate-size 1M -- true", "-o FILE"),
        ("record -a --rotate-every 1m", "-o FILE"),
        ("-q -l -- true", "cannot be used with"),
        ("-q check", "tracer check --help"),
        ("check now", "--help"),
        (
            "--uid-filter 1 --uid-filter 2 --uid-filter 3 --uid-filter 4 --uid-filter 5 --uid-filter 6 --uid-filter 7 --uid-filter 8 --uid-filter 9 -- true",
            "8 times",
        ),
    ] {
        let message = error(line);
        assert!(message.contains(remedy), "{line}: {message}");
    }
}

#[test]
fn help_and_version_are_no_errors() {
    for line in ["--help", "-h", "--version", "-V", "check --help"] {
        let stop = parse_line(line).unwrap_err();
        assert_eq!(stop.exit_code(), 0, "{line}");
    }
    let help = parse_line("--help").unwrap_err().to_string();
    for needed in [
        "Filters:",
        "Output:",
        "Examples:",
        "Exit status:",
        "--failed",
        "check",
    ] {
        assert!(help.contains(needed), "{needed} in {help}");
    }
}

#[test]
fn other_invocations() {
    assert!(matches!(
        parse_line("check --json"),
        Ok(Invocation::Check(Check {
            json: true,
            offsets: false
        }))
    ));
    assert!(matches!(parse_line("man"), Ok(Invocation::Man(None))));
    let Ok(Invocation::Completions(shell)) = parse_line("completions bash") else {
        panic!()
    };
    let mut script = Vec::new();
    completions(shell, &mut script).unwrap();
    assert!(String::from_utf8(script).unwrap().contains("--ring-size"));
    let mut page = Vec::new();
    man(None, &mut page).unwrap();
    assert!(String::from_utf8(page).unwrap().contains(".TH tracer"));
}
