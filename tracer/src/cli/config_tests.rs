use std::io::Write as _;

use super::super::{Invocation, Record, parse as parse_cli};

/// `tracer record --config FILE ARGS`, with a file of this text.
fn record(text: &str, args: &[&str]) -> Result<Record, String> {
    let mut file = tempfile::Builder::new()
        .suffix(".toml")
        .tempfile()
        .expect("a file");
    file.write_all(text.as_bytes()).expect("written");
    let path = file.path().to_str().expect("UTF-8").to_owned();
    let command = ["tracer", "record", "--config", &path];
    let args = command.iter().chain(args).map(Into::into);
    match parse_cli(args) {
        Ok(Invocation::Record(record)) => Ok(*record),
        Ok(other) => panic!("{other:?}"),
        Err(stop) => Err(stop.to_string().replace(&path, "FILE")),
    }
}

#[test]
fn keys_are_options() {
    let record = record(
        "# a comment\nall = true\noutput = [\"a.jsonl\", \"b.csv\"]\nsignals = true\nthreads = false\n\
         duration = \"1h 30min\"\nmax-events = 1_000\nring-size = 65536\nuid-filter = \"root\"\n",
        &[],
    )
    .expect("a good file");
    let capture = &record.capture;
    assert!(record.all && capture.signals && !capture.threads);
    assert_eq!(capture.outputs().expect("two").len(), 2);
    assert_eq!(record.duration.expect("given").as_secs(), 5400);
    assert_eq!((record.max_events, capture.ring_size), (Some(1000), 65536));
    assert_eq!(capture.uid_filter, [0]);
}

#[test]
fn the_command_line_beats_the_file() {
    let text =
        "all = true\nquiet = true\noutput = \"a.jsonl\"\nmax-argv = \"1K\"\nring-size = \"1M\"\n";
    let record = record(text, &["-lob.csv", "-p", "1", "--max-argv=2K"]).expect("good");
    let capture = &record.capture;
    assert!(capture.log && !capture.quiet, "-l excludes --quiet");
    assert!(!record.all, "-p excludes --all");
    assert_eq!(record.pids(), [1]);
    assert_eq!((capture.max_argv, capture.ring_size), (2048, 1 << 20));
    let outputs = capture.outputs().expect("one");
    assert_eq!(outputs.len(), 1);
    assert!(outputs[0].0.name().contains("b.csv"));
}

#[test]
fn faults_name_line_and_key() {
    for (text, message) in [
        (
            "all = true\nouput = 'x'\n",
            "FILE:2: ouput: there is no such option; is output meant?",
        ),
        (
            "max_events = 1",
            "FILE:1: max_events: there is no such option; is max-events meant?",
        ),
        (
            "\n\nwhatever = 1",
            "FILE:3: whatever: there is no such option; see: tracer record --help",
        ),
        ("config = 'x'", "FILE:1: config: there is no such option"),
        ("help = true", "FILE:1: help: there is no such option"),
        ("all = 1", "FILE:1: all: takes true or false"),
        (
            "ring-size = true",
            "FILE:1: ring-size: takes SIZE, as a text or a number",
        ),
        (
            "all = true\nring-size = '5K'",
            "FILE:2: ring-size: invalid value '5K' for '--ring-size <SIZE>': 5K is not a power of two; take 4KiB or 8KiB",
        ),
        ("ring-size = 0x1000", "FILE:1: ring-size: takes SIZE"),
        (
            "backend = 'magic'",
            "FILE:1: backend: invalid value 'magic'",
        ),
        (
            "color = ['always', 'never']",
            "FILE:1: color: takes one value only",
        ),
        (
            "comm = [\n'a',\n1979-05-27,\n]",
            "FILE:3: comm: takes GLOB, as a text or a number",
        ),
        (
            "[record]\nall = true",
            "FILE:1: record: there is no such option",
        ),
        ("all = true\nall = true", "FILE:2: duplicate key"),
        (
            "all = true\noutput = ['x.jsonl', 'x.foo']",
            "FILE:2: output: -o x.foo: the ending",
        ),
        (
            "all = true\noutput = 'x.jsonl'\nkeep = 3\nkeep-size = 9",
            "FILE:3: keep: the argument '--keep <N>' cannot be used with '--keep-size <SIZE>'",
        ),
        (
            "all = true\ncomm = ['a*', '[b']",
            "FILE:2: comm: invalid value '[b' for '--comm <GLOB>': the pattern",
        ),
        ("all = true\noutput = \"x", "FILE:2: "),
        ("= 1", "FILE:1: "),
    ] {
        let error = record(text, &[]).expect_err(text);
        assert!(error.contains(message), "{text:?}: {error}");
    }
}

#[test]
fn what_neither_says_is_still_missing() {
    let error = record("output = 'x.jsonl'", &[]).expect_err("whom?");
    assert!(error.contains("--all"), "{error}");
    assert!(record("output = 'x.jsonl'", &["-a"]).is_ok());
    let error = record("", &["-a", "--no-such-option"]).expect_err("unknown");
    assert!(error.contains("--no-such-option"), "{error}");
    // Nor is the file blamed for what it does not say.
    let error = record("quiet = true", &["-a", "-o", "x.foo"]).expect_err("odd");
    assert!(error.contains("error: -o x.foo"), "{error}");
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    for path in ["/no/such/file.toml", "/"] {
        let args = ["tracer", "record", "-a", "--config"];
        let args = args.iter().chain([&path]).map(Into::into);
        let error = parse_cli(args).expect_err(path).to_string();
        assert!(
            error.contains(path) && error.contains("cannot be read"),
            "{error}"
        );
    }
}
