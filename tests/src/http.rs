//! As much of HTTP/1.1 as the tests need, by hand: what they talk to must not be judged by its own library.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};

/// A request or an answer: its head, and its body.
pub struct Message {
    pub head: String,
    pub body: Vec<u8>,
}

/// Reads one; `None` when the other side has closed.
pub fn read(reader: &mut impl BufRead) -> Option<Message> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let lower = head.to_lowercase();
    let value = |name: &str| {
        let line = lower.lines().find_map(|l| l.strip_prefix(name))?;
        Some(line.trim().to_owned())
    };
    let mut body = Vec::new();
    if value("transfer-encoding:").is_some_and(|v| v.contains("chunked")) {
        loop {
            let mut size = String::new();
            reader.read_line(&mut size).ok()?;
            let size = usize::from_str_radix(size.trim(), 16).ok()?;
            let mut chunk = vec![0; size + 2];
            reader.read_exact(&mut chunk).ok()?;
            if size == 0 {
                break;
            }
            body.extend_from_slice(&chunk[..size]);
        }
    } else {
        let length = value("content-length:").map_or(0, |v| v.parse().expect("a length"));
        body.resize(length, 0);
        reader.read_exact(&mut body).ok()?;
    }
    Some(Message { head, body })
}

/// `GET path`.
pub fn get(address: SocketAddr, path: &str) -> Option<Message> {
    let mut stream = TcpStream::connect(address).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").ok()?;
    read(&mut BufReader::new(stream))
}
