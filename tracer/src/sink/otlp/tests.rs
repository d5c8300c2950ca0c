use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Mutex;
use std::time::Instant;

use prost::Message;
use socket2::{Domain, Socket, Type};

use super::proto::{ExportRequest, ExportResponse, PartialSuccess, Span, Value};
use super::*;
use crate::model::{ProcId, Status};
use crate::sink::samples::{self, meta};

/// A receiver that answers each request with the next of its answers, and then with the last.
struct Receiver {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Vec<u8>>>>,
}

type Answer = (&'static str, Vec<u8>);

fn ok() -> Answer {
    ("200 OK", Vec::new())
}

impl Receiver {
    fn start(answers: Vec<Answer>) -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").expect("a port"), answers)
    }

    fn on(listener: TcpListener, answers: Vec<Answer>) -> Self {
        let address = listener.local_addr().expect("bound");
        let requests = Arc::new(Mutex::new(Vec::new()));
        let theirs = Arc::clone(&requests);
        thread::spawn(move || {
            let mut count = 0;
            for stream in listener.incoming() {
                let mut reader = BufReader::new(stream.expect("a client"));
                while let Some((head, body)) = read(&mut reader) {
                    assert!(head.starts_with("POST /v1/traces HTTP/1.1"), "{head}");
                    assert!(head.contains("application/x-protobuf"), "{head}");
                    let (status, answer) = &answers[count.min(answers.len() - 1)];
                    count += 1;
                    theirs.lock().expect("lock").push(body);
                    let head = format!(
                        "HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n",
                        answer.len()
                    );
                    let out = reader.get_mut();
                    out.write_all(&[head.as_bytes(), answer].concat())
                        .expect("the client waits");
                }
            }
        });
        Self { address, requests }
    }

    /// Spans of all requests with this number on.
    fn spans(&self, from: usize) -> Vec<Span> {
        let requests = self.requests.lock().expect("lock");
        let decode = |body: &Vec<u8>| ExportRequest::decode(body.as_slice()).expect("protobuf");
        let requests = requests.iter().skip(from).map(decode);
        requests
            .flat_map(|r| r.resource_spans)
            .flat_map(|r| r.scope_spans)
            .flat_map(|s| s.spans)
            .collect()
    }
}

/// A port on which nobody listens, and that is nobody else's meanwhile: neither another test's nor
/// the one that a client connects from.
fn silent() -> (Socket, SocketAddr) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    socket.bind(&any.into()).expect("a port");
    let address = socket.local_addr().expect("bound").as_socket();
    (socket, address.expect("of IPv4"))
}

fn read(reader: &mut impl BufRead) -> Option<(String, Vec<u8>)> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let length = head.to_lowercase();
    let length = length.split("content-length:").nth(1)?;
    let mut body = vec![0; length.lines().next()?.trim().parse().ok()?];
    reader.read_exact(&mut body).ok()?;
    Some((head, body))
}

fn sink(address: SocketAddr, queue: usize) -> Otlp {
    let target = format!("http://{address}").parse().expect("a URL");
    let mut sink = Otlp::new(OtlpOptions { target, queue });
    sink.begin(&meta()).expect("begin");
    sink
}

fn id(pid: u32) -> ProcId {
    samples::pid(pid, u64::from(pid))
}

/// A shell and so many children, all of which end.
fn tree(sink: &mut Otlp, children: u32) {
    let rows = (1..=children).map(|n| samples::process(id(100 + n), Some(id(100)), &["ls"], 5));
    let event = Event::Fork(samples::fork(id(1), id(100)));
    sink.event(&event, None).expect("event");
    for n in 1..=children {
        let event = Event::Fork(samples::fork(id(100), id(100 + n)));
        sink.event(&event, None).expect("event");
    }
    rows.for_each(|row| sink.process(&row).expect("row"));
    let shell = samples::process(id(100), Some(id(1)), &["sh", "-c", "ls"], 50);
    sink.process(&shell).expect("row");
    sink.flush().expect("flush");
}

fn finish(mut sink: Otlp) -> (io::Result<()>, u64) {
    sink.settle();
    let lost = sink.take_lost();
    assert_eq!(sink.take_lost(), 0, "each loss is reported once");
    (sink.end(&samples::end()), lost)
}

#[test]
fn a_tree_is_a_trace() {
    let receiver = Receiver::start(vec![ok()]);
    let mut sink = sink(receiver.address, 1 << 20);
    tree(&mut sink, 3);
    let running = samples::process(id(7), None, &["sleep"], 0);
    sink.process(&Process {
        end: None,
        ..running
    })
    .expect("row");
    let (end, lost) = finish(sink);
    assert!(end.is_ok() && lost == 0, "{end:?}");
    let spans = receiver.spans(0);
    assert_eq!(spans.len(), 4, "what still runs has no span");
    let (roots, children): (Vec<_>, Vec<_>) =
        spans.iter().partition(|s| s.parent_span_id.is_empty());
    assert_eq!((roots.len(), children.len()), (1, 3));
    for child in children {
        assert_eq!(child.parent_span_id, roots[0].span_id);
        assert_eq!(child.trace_id, roots[0].trace_id);
        assert_ne!(child.span_id, roots[0].span_id);
        assert!(child.start_time_unix_nano >= roots[0].start_time_unix_nano);
        assert_eq!(
            child.end_time_unix_nano - child.start_time_unix_nano,
            5_000_000
        );
    }
    assert_eq!((roots[0].trace_id.len(), roots[0].span_id.len()), (16, 8));
}

#[test]
fn a_span_says_what_the_row_says() {
    let mut row = samples::process(id(9), Some(id(1)), &["ls", "-l", "\u{fffd}"], 5);
    row.status = Some(Status::from_wait(0x8b));
    row.cgroup = Some(samples::full("/system.slice/ssh.service"));
    let mut context = span::Context::new(&meta());
    let place = lineage::Place {
        root: id(9),
        parent: None,
    };
    let span = context.span(&row, row.end.expect("ended"), &place);
    let values: HashMap<&str, &Value> = span
        .attributes
        .iter()
        .filter_map(|a| Some((a.key.as_str(), a.value.as_ref()?.value.as_ref()?)))
        .collect();
    assert_eq!(values["process.pid"], &Value::Int(9));
    assert_eq!(values["process.parent_pid"], &Value::Int(1));
    assert_eq!(values["tracer.signal"], &Value::String("SIGSEGV".into()));
    assert_eq!(values["tracer.core_dumped"], &Value::Bool(true));
    assert_eq!(values["process.command"], &Value::String("ls".into()));
    assert!(matches!(values["process.command_args"], Value::Array(a) if a.values.len() == 3));
    assert_eq!(
        values["tracer.usage.cpu_ns"],
        &Value::Int(row.usage.cpu_ns.expect("known").cast_signed())
    );
    assert!(
        !values.contains_key("process.exit.code"),
        "a signal ended it"
    );
    let status = span.status.expect("an error");
    assert_eq!(
        (status.code, status.message.as_str()),
        (proto::ERROR, "SIGSEGV")
    );
    let resource = context.resource(span::cgroup(&row).map(|c| c.as_slice()));
    assert!(resource.attributes.iter().any(|a| a.key == "systemd.unit"));
    let wall = meta().wall_start_ns - meta().boot_start_ns;
    assert_eq!(span.start_time_unix_nano, wall + row.id.start);
}

#[test]
fn a_receiver_that_comes_later_gets_everything() {
    let (port, address) = silent();
    let mut sink = sink(address, 1 << 20);
    tree(&mut sink, 9);
    let figures = sink.figures();
    let began = Instant::now();
    while figures.retries.load(Ordering::Relaxed) == 0 {
        assert!(began.elapsed() < Duration::from_secs(30), "no second try");
        thread::yield_now();
    }
    port.listen(16).expect("listening");
    let receiver = Receiver::on(port.into(), vec![ok()]);
    let (end, lost) = finish(sink);
    assert!(end.is_ok() && lost == 0, "{end:?}");
    assert_eq!(receiver.spans(0).len(), 10);
    assert_eq!(figures.sent.load(Ordering::Relaxed), 10);
    assert_eq!(figures.waiting.load(Ordering::Relaxed), 0);
}

#[test]
fn a_receiver_that_is_busy_is_asked_again() {
    let busy = ("503 Service Unavailable\r\nretry-after: 0", Vec::new());
    let receiver = Receiver::start(vec![busy.clone(), busy, ok()]);
    let mut sink = sink(receiver.address, 1 << 20);
    tree(&mut sink, 2);
    let (end, lost) = finish(sink);
    assert!(end.is_ok() && lost == 0, "{end:?}");
    assert_eq!(receiver.spans(2).len(), 3);
}

#[test]
fn what_is_refused_is_lost_and_counted() {
    let receiver = Receiver::start(vec![("400 Bad Request", Vec::new())]);
    let mut sink = sink(receiver.address, 1 << 20);
    tree(&mut sink, 2);
    let (end, lost) = finish(sink);
    assert_eq!(lost, 3);
    assert!(
        end.expect_err("an incomplete output")
            .to_string()
            .contains("3 spans")
    );

    let partial = ExportResponse {
        partial_success: Some(PartialSuccess {
            rejected_spans: 2,
            error_message: "too old".into(),
        }),
    };
    let receiver = Receiver::start(vec![("200 OK", partial.encode_to_vec())]);
    let mut sink = self::sink(receiver.address, 1 << 20);
    tree(&mut sink, 2);
    let figures = sink.figures();
    assert_eq!(finish(sink).1, 2);
    assert_eq!(figures.sent.load(Ordering::Relaxed), 1);
}

#[test]
fn what_does_not_fit_is_lost_and_counted() {
    let (_port, address) = silent();
    let mut sink = sink(address, 64 * 1024);
    tree(&mut sink, 2000);
    let figures = sink.figures();
    let lost = sink.take_lost();
    let waiting = figures.waiting.load(Ordering::Relaxed) as u64;
    assert_eq!(lost + waiting, 2001);
    assert!(lost > 0 && waiting > 0);
    assert!(figures.waiting_bytes.load(Ordering::Relaxed) <= 64 * 1024);
    // Nobody ever listens: the end waits for a bounded time, and says what is lost.
    let began = Instant::now();
    let (end, rest) = finish(sink);
    assert!(end.is_err());
    assert_eq!(lost + rest, 2001);
    assert!(began.elapsed() < PATIENCE * 4);
}

#[test]
fn any_bytes_of_an_answer_are_endured() {
    for answer in [&b"\xff\xff\xff"[..], b"<html>", &[0x0a, 0xff, 0x01]] {
        let receiver = Receiver::start(vec![("200 OK", answer.to_vec())]);
        let mut sink = sink(receiver.address, 1 << 20);
        tree(&mut sink, 1);
        assert_eq!(finish(sink).1, 0);
    }
}
