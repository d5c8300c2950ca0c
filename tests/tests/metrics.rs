//! `--metrics`: figures as Prometheus gets them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};

use tracer_tests::run::Running;
use tracer_tests::{Trace, host, http, require};

/// Samples by name and labels.
struct Scrape {
    text: String,
    values: BTreeMap<String, f64>,
}

impl Scrape {
    fn of(address: SocketAddr) -> Self {
        let answer = http::get(address, "/metrics").expect("an answer");
        assert!(answer.head.starts_with("HTTP/1.1 200"), "{}", answer.head);
        let text = String::from_utf8(answer.body).expect("UTF-8");
        let samples = text.lines().filter(|l| !l.starts_with('#'));
        let values = samples.map(|l| {
            let (name, value) = l.rsplit_once(' ').expect("a sample");
            (name.to_owned(), value.parse().expect("a number"))
        });
        Self {
            values: values.collect(),
            text,
        }
    }

    fn value(&self, name: &str) -> f64 {
        *self
            .values
            .get(name)
            .unwrap_or_else(|| panic!("no {name} in\n{}", self.text))
    }

    fn sum(&self, name: &str) -> f64 {
        let begin = format!("{name}{{");
        self.values
            .iter()
            .filter(|(n, _)| n.starts_with(&begin))
            .map(|(_, v)| v)
            .sum()
    }

    /// Names without labels.
    fn names(&self) -> BTreeSet<&str> {
        self.values
            .keys()
            .filter_map(|n| n.split('{').next())
            .collect()
    }
}

/// A recording of what this test starts (other work on the machine is not to make it lose), and where its figures are.
fn record(options: &[&str]) -> (Running, SocketAddr) {
    let mut running = Trace::record(["-p", &std::process::id().to_string(), "--metrics", "0"])
        .options(options)
        .start();
    running.await_recording();
    let stderr = |r: &Running| fs::read_to_string(r.path("stderr")).unwrap_or_default();
    let find = |text: &str| {
        let (_, rest) = text.split_once("metrics at http://")?;
        rest.split_once("/metrics")?.0.parse().ok()
    };
    running.await_condition("address", |r| find(&stderr(r)).is_some());
    let address = find(&stderr(&running)).expect("seen just now");
    (running, address)
}

fn work(count: usize) {
    let script = format!("i=0; while [ $i -lt {count} ]; do /bin/true; i=$((i+1)); done; exit 7");
    let status = Command::new("/bin/sh").args(["-c", &script]).status();
    assert_eq!(status.expect("a shell").code(), Some(7));
}

#[test]
fn figures_are_those_of_the_capture() {
    require!(bpf);
    let (mut running, address) = record(&["--bpf-stats"]);
    work(100);
    let forks = "tracer_events_total{kind=\"fork\"}";
    running.await_condition("count of the work", |_| {
        Scrape::of(address).value(forks) >= 101.0
    });
    running.await_condition("rows of the work", |_| {
        Scrape::of(address).value("tracer_processes_ended_total{outcome=\"failure\"}") >= 1.0
    });
    let scrape = Scrape::of(address);
    assert!(scrape.value("tracer_events_total{kind=\"exec\"}") >= 101.0);
    assert!(scrape.sum("tracer_processes_ended_total") >= 1.0);
    assert!(
        scrape.value("tracer_processes_alive") >= 2.0,
        "tracer and this test at least"
    );
    assert_eq!(scrape.sum("tracer_lost_total"), 0.0);
    assert!(scrape.value("tracer_buffer_used_max_bytes") > 0.0);
    assert!(scrape.value("process_cpu_seconds_total") > 0.0);
    assert!(scrape.value("process_resident_memory_bytes") > 1e6);
    assert!(scrape.value("tracer_bpf_runs_total{program=\"process_exec\"}") >= 101.0);
    assert!(scrape.value("tracer_bpf_run_seconds_total{program=\"process_exec\"}") > 0.0);
    // Counters never go back.
    let later = Scrape::of(address);
    for (name, value) in scrape.values.iter().filter(|(n, _)| n.contains("_total")) {
        assert!(later.value(name) >= *value, "{name}");
    }
    running.signal(libc::SIGTERM);
    let outcome = running.finish().expect_code(0);
    let capture = outcome.capture();
    let at_the_end = capture.end()["events"]["fork"].as_f64().expect("a number");
    assert!(
        later.value(forks) <= at_the_end,
        "{} {at_the_end}",
        later.value(forks)
    );
}

#[test]
fn programs_are_absent_where_the_kernel_does_not_count() {
    require!(bpf);
    let counts = fs::read_to_string("/proc/sys/kernel/bpf_stats_enabled");
    if counts.is_ok_and(|c| c.trim() == "1") {
        return host::skipped("this kernel counts the run time of programs anyway");
    }
    let (running, address) = record(&[]);
    // Another test may let the kernel count meanwhile, but that is not for this tracer to say.
    assert!(!Scrape::of(address).text.contains("tracer_bpf_"));
    running.signal(libc::SIGTERM);
    running.finish().expect_code(0);
}

#[test]
fn promtool_has_nothing_to_object() {
    require!(bpf, promtool);
    // With everything there is.
    let (running, address) = record(&["--bpf-stats", "--otlp", "http://127.0.0.1:9"]);
    let text = Scrape::of(address).text;
    let mut promtool = Command::new(host::extra("promtool").expect("it is there"))
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    promtool
        .stdin
        .take()
        .expect("a pipe")
        .write_all(text.as_bytes())
        .expect("it reads");
    let output = promtool.wait_with_output().expect("it ends");
    let said = [output.stdout, output.stderr].concat();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&said)
    );
    assert_eq!(String::from_utf8_lossy(&said), "");
    running.signal(libc::SIGTERM);
    // Nobody takes its spans.
    running.finish();
}

#[test]
fn the_dashboard_asks_for_what_there_is() {
    require!(bpf);
    let text = include_str!("../../dist/grafana.json");
    let dashboard: serde_json::Value = serde_json::from_str(text).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let exprs: Vec<&str> = panels
        .iter()
        .flat_map(|p| p["targets"].as_array().into_iter().flatten())
        .map(|t| t["expr"].as_str().expect("a query"))
        .collect();
    assert!(exprs.len() >= panels.len() - 1, "each panel asks something");
    let (running, address) = record(&["--bpf-stats", "--otlp", "http://127.0.0.1:9"]);
    let scrape = Scrape::of(address);
    let names = scrape.names();
    let mut used = BTreeSet::new();
    for expr in &exprs {
        let words = expr.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let metrics = words.filter(|w| w.starts_with("tracer_") || w.starts_with("process_"));
        for metric in metrics {
            assert!(names.contains(metric), "{metric} of {expr} is not there");
            used.insert(metric);
        }
    }
    let unseen: Vec<_> = names
        .iter()
        .filter(|n| n.starts_with("tracer_") && !used.contains(*n))
        .collect();
    assert!(unseen.is_empty(), "no panel shows {unseen:?}");
    running.signal(libc::SIGTERM);
    running.finish();
}

#[test]
fn hostile_clients_do_not_disturb_the_capture() {
    require!(bpf);
    let (mut running, address) = record(&[]);
    // Some that say nothing, some that never end their request, one that never reads.
    let idle: Vec<TcpStream> = (0..40)
        .map(|_| TcpStream::connect(address).expect("connect"))
        .collect();
    let mut slow = TcpStream::connect(address).expect("connect");
    slow.write_all(b"GET /metrics HTTP/1.1\r\nx: ")
        .expect("sent");
    let mut deaf = TcpStream::connect(address).expect("connect");
    deaf.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        .expect("sent");
    work(300);
    running.await_condition("the whole work", |r| {
        r.so_far().matches("\"type\":\"exec\"").count() >= 301
    });
    // A scraper still gets its answer, if later.
    assert!(Scrape::of(address).value("tracer_processes_alive") > 0.0);
    drop((idle, slow, deaf));
    running.signal(libc::SIGTERM);
    let outcome = running.finish().expect_code(0);
    assert_eq!(outcome.capture().lost_at_all(), 0);
}

#[test]
fn an_address_that_cannot_be_used_is_an_error_before_anything_starts() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = taken.local_addr().expect("bound").to_string();
    for (address, message) in [
        (taken.as_str(), "cannot listen there"),
        (":9435", "leaves the address open"),
        ("everywhere", "neither a port nor an address"),
    ] {
        let outcome = Trace::shell("echo started")
            .options(["--metrics", address])
            .run()
            .expect_code(125);
        assert!(outcome.stderr().contains(message), "{}", outcome.stderr());
        assert!(!outcome.stdout().contains("started"));
    }
}
