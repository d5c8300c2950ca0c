//! `--otlp`: spans as an OpenTelemetry collector gets them.

use std::collections::{HashMap, HashSet};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tracer_tests::otlp::{Receiver, Span};
use tracer_tests::ports::{self, Deaf};
use tracer_tests::run::Running;
use tracer_tests::{Capture, Record, Trace, host, require};

/// Processes of a capture that ended.
fn ended(capture: &Capture) -> usize {
    capture.of("process").filter(|p| !p.flag("running")).count()
}

fn ids(spans: &[Span]) -> HashSet<&[u8]> {
    spans.iter().map(|s| s.id.as_slice()).collect()
}

#[test]
fn a_command_is_a_trace() {
    require!(source);
    let receiver = Receiver::start();
    let script = "for i in 1 2 3; do /bin/true; done; (sh -c '/bin/true; exit 3'); exit 0";
    let outcome = Trace::shell(script)
        .options(["--otlp", &receiver.url()])
        .run()
        .expect_code(0);
    let capture = outcome.capture();
    let spans = receiver.spans();
    assert_eq!(spans.len(), ended(&capture), "{spans:#?}");
    assert_eq!(ids(&spans).len(), spans.len(), "ids are unique");
    let traces: HashSet<_> = spans.iter().map(|s| &s.trace).collect();
    assert_eq!(traces.len(), 1);
    let roots: Vec<_> = spans.iter().filter(|s| s.parent.is_empty()).collect();
    assert_eq!(roots.len(), 1);
    assert_eq!(roots[0].name, "sh");
    // The tree is the same as that of the capture.
    let known = ids(&spans);
    assert!(
        spans
            .iter()
            .all(|s| s.parent.is_empty() || known.contains(s.parent.as_slice()))
    );
    let mut children: HashMap<&[u8], usize> = HashMap::new();
    for span in &spans {
        *children.entry(&span.parent).or_default() += 1;
    }
    let root = capture.root_pid();
    let of_root = capture
        .of("process")
        .filter(|p| p.opt_num("orig_ppid") == Some(root))
        .count();
    assert_eq!(children[roots[0].id.as_slice()], of_root);
}

#[test]
fn two_runs_have_different_ids() {
    require!(source);
    let receiver = Receiver::start();
    let run = || {
        Trace::shell("/bin/true")
            .options(["--otlp", &receiver.url()])
            .run()
            .expect_code(0);
    };
    run();
    let first = receiver.spans().len();
    run();
    let spans = receiver.spans();
    assert_eq!(ids(&spans).len(), spans.len());
    let traces = |spans: &[Span]| {
        spans
            .iter()
            .map(|s| s.trace.clone())
            .collect::<HashSet<_>>()
    };
    assert!(traces(&spans[..first]).is_disjoint(&traces(&spans[first..])));
}

#[test]
fn what_nobody_takes_is_lost_and_said() {
    require!(source);
    let nobody = Deaf::new();
    let url = format!("http://{}", nobody.address);
    let outcome = Trace::shell("/bin/true; /bin/true")
        .options(["--otlp", &url])
        .run();
    let capture = outcome.capture();
    let ended = ended(&capture) as u64;
    let lost: u64 = capture
        .of("lost")
        .filter(|l| l.text("where") == "sink")
        .map(|l| l.num("count"))
        .sum();
    assert_eq!((lost, capture.end().num("lost")), (ended, ended));
    let stderr = outcome.stderr();
    assert!(
        stderr.contains(&format!("{ended} spans are lost")),
        "{stderr}"
    );
    assert_eq!(outcome.code(), 125, "an output is not complete");
}

#[test]
fn a_url_that_will_not_do_is_an_error_before_the_command() {
    for url in ["https://localhost:4318", "localhost:4318", "ftp://x"] {
        let outcome = Trace::shell("echo started")
            .options(["--otlp", url])
            .run()
            .expect_code(125);
        assert!(
            outcome.stderr().contains("--otlp <URL>"),
            "{}",
            outcome.stderr()
        );
        assert!(!outcome.stdout().contains("started"));
    }
}

/// rotel, an OpenTelemetry collector, that hands on to `receiver`.
struct Rotel(Child);

impl Rotel {
    fn start(running: &Running, address: SocketAddr, receiver: &Receiver) -> Self {
        let rotel = host::extra("rotel").expect("it is there");
        let log = std::fs::File::create(running.path("rotel.log")).expect("a file");
        let child = Command::new(rotel)
            .arg("start")
            .args(["--otlp-http-endpoint", &address.to_string()])
            .args(["--otlp-grpc-endpoint", "127.0.0.1:0"])
            .args(["--exporter", "otlp", "--otlp-exporter-protocol", "http"])
            .args(["--otlp-exporter-endpoint", &receiver.url()])
            .stdin(Stdio::null())
            .stderr(log.try_clone().expect("a file"))
            .stdout(log)
            .spawn()
            .expect("it starts");
        let mut rotel = Self(child);
        let began = Instant::now();
        while TcpStream::connect(address).is_err() {
            let ended = rotel.0.try_wait().expect("a child");
            let log = std::fs::read_to_string(running.path("rotel.log")).unwrap_or_default();
            assert!(
                ended.is_none() && began.elapsed() < Duration::from_secs(60),
                "{log}"
            );
            sleep(Duration::from_millis(20));
        }
        rotel
    }

    /// Ends it in order: what it holds goes out.
    fn stop(mut self) {
        tracer_tests::run::send(i32::try_from(self.0.id()).expect("a pid"), libc::SIGTERM);
        let _ = self.0.wait();
    }
}

impl Drop for Rotel {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_collector_hands_on_each_process_though_it_is_down_for_ten_seconds() {
    require!(bpf, rotel);
    let receiver = Receiver::start();
    let address = ports::chosen();
    let url = format!("http://{address}");
    // Nobody else's processes: what is on its way when the collector ends may come twice.
    let script =
        "while read n; do i=0; while [ $i -lt $n ]; do /bin/true; i=$((i+1)); done; echo; done";
    let mut shell = Command::new("/bin/sh")
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a shell");
    let mut running = Trace::record(["-p", &shell.id().to_string(), "--otlp", &url]).start();
    running.await_recording();
    let mut orders = shell.stdin.take().expect("a pipe");
    let mut done = BufReader::new(shell.stdout.take().expect("a pipe"));
    let mut work = |count: usize| {
        writeln!(orders, "{count}").expect("it reads");
        let read = done.read_line(&mut String::new());
        assert_eq!(read.expect("a line"), 1);
    };
    let arrives = |running: &mut Running, least: usize| {
        running.await_condition("arrival of the spans", |_| receiver.spans().len() >= least);
    };
    let rotel = Rotel::start(&running, address, &receiver);
    work(200);
    arrives(&mut running, 200);
    rotel.stop();
    let down = Instant::now();
    let mut worked = 0;
    while down.elapsed() < Duration::from_secs(10) {
        work(50);
        worked += 50;
        sleep(Duration::from_millis(500));
    }
    let before = receiver.spans().len();
    let rotel = Rotel::start(&running, address, &receiver);
    arrives(&mut running, before + worked);
    work(100);
    running.signal(libc::SIGINT);
    let outcome = running.finish().expect_code(0);
    rotel.stop();
    drop(orders);
    assert!(shell.wait().expect("it ends").success());
    let capture = outcome.capture();
    assert_eq!(capture.lost_at_all(), 0, "{}", outcome.stderr());
    let spans = receiver.spans();
    assert_eq!(ids(&spans).len(), ended(&capture));
    assert_eq!(spans.len(), ended(&capture), "each once");
    let stderr = outcome.stderr();
    assert!(
        stderr.contains("trying again") && stderr.contains("works again"),
        "{stderr}"
    );
}
