//! A receiver of OTLP/HTTP that only counts, and reads protobuf by hand.

use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::http;

/// What a span says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    pub trace: Vec<u8>,
    pub id: Vec<u8>,
    /// Empty for a root.
    pub parent: Vec<u8>,
    pub name: String,
}

/// Takes whatever comes to `/v1/traces` until the test ends.
pub struct Receiver {
    pub address: SocketAddr,
    spans: Arc<Mutex<Vec<Span>>>,
}

impl Receiver {
    /// On a free port of 127.0.0.1.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let spans = Arc::new(Mutex::new(Vec::new()));
        let theirs = Arc::clone(&spans);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let spans = Arc::clone(&theirs);
                thread::spawn(move || serve(stream.expect("a client"), &spans));
            }
        });
        Self { address, spans }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn spans(&self) -> Vec<Span> {
        self.spans.lock().expect("no panic").clone()
    }
}

fn serve(stream: TcpStream, spans: &Mutex<Vec<Span>>) {
    let mut reader = BufReader::new(stream);
    while let Some(request) = http::read(&mut reader) {
        assert!(
            request.head.starts_with("POST /v1/traces "),
            "{}",
            request.head
        );
        let new = parse(&unpacked(request));
        spans.lock().expect("no panic").extend(new);
        let answer =
            b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n";
        if reader.get_mut().write_all(answer).is_err() {
            return;
        }
    }
}

/// The body; rotel compresses it whatever it is told.
fn unpacked(request: http::Message) -> Vec<u8> {
    if !request
        .head
        .to_lowercase()
        .contains("content-encoding: gzip")
    {
        return request.body;
    }
    let mut body = Vec::new();
    let mut decoder = flate2::read::GzDecoder::new(request.body.as_slice());
    decoder.read_to_end(&mut body).expect("gzip");
    body
}

/// The spans of an ExportTraceServiceRequest: resource_spans (1), scope_spans (2), spans (2).
pub fn parse(request: &[u8]) -> Vec<Span> {
    let nested = |bytes: &[u8], number| -> Vec<Vec<u8>> {
        let found = fields(bytes).into_iter().filter(|(n, _)| *n == number);
        found.map(|(_, value)| value).collect()
    };
    let resources = nested(request, 1);
    let scopes = resources.iter().flat_map(|r| nested(r, 2));
    let spans = scopes.flat_map(|s| nested(&s, 2));
    spans
        .map(|span| {
            let one = |number| nested(&span, number).pop().unwrap_or_default();
            Span {
                trace: one(1),
                id: one(2),
                parent: one(4),
                name: String::from_utf8(one(5)).expect("UTF-8"),
            }
        })
        .collect()
}

/// Number and bytes of each field; numbers that are not nested messages or text have none.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let length = match key & 7 {
            0 => {
                varint(&mut bytes);
                0
            }
            1 => 8,
            2 => usize::try_from(varint(&mut bytes)).expect("a length"),
            5 => 4,
            kind => panic!("no protobuf: wire type {kind}"),
        };
        let (value, rest) = bytes.split_at(length);
        fields.push((
            key >> 3,
            if key & 7 == 2 {
                value.into()
            } else {
                Vec::new()
            },
        ));
        bytes = rest;
    }
    fields
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut n = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first().expect("a whole number");
        *bytes = rest;
        n |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    n
}
