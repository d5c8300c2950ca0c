//! Ports of 127.0.0.1 that nobody listens on, and that nobody else is given meanwhile.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};

/// A port at which whoever comes is refused, as long as this lives: one that was only let
/// go could be another's by then.
pub struct Deaf {
    pub address: SocketAddr,
    _ends: (TcpListener, TcpStream),
}

impl Deaf {
    pub fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let there = listener.local_addr().expect("bound");
        // The other end of a connection has a port that nobody listens on.
        let stream = TcpStream::connect(there).expect("somebody listens");
        Self {
            address: stream.local_addr().expect("connected"),
            _ends: (listener, stream),
        }
    }
}

impl Default for Deaf {
    fn default() -> Self {
        Self::new()
    }
}

/// A port for a server that begins later, or again: free, and not one of those that the
/// kernel gives to whoever does not choose.
pub fn chosen() -> SocketAddr {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
    let first = range
        .ok()
        .and_then(|r| r.split_whitespace().next()?.parse().ok());
    // Two runs of the tests shall not choose the same.
    let own = usize::try_from(std::process::id() % 10_000).expect("small");
    let mut free = (1024..first.unwrap_or(32_768)).rev().skip(own);
    let address = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
    let port = free.find(|port| TcpListener::bind(address(*port)).is_ok());
    address(port.expect("a free port"))
}
