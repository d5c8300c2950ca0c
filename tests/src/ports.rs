//! Ports of 127.0.0.1 that nobody listens on, and that nobody else is given meanwhile.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use socket2::{Domain, Socket, Type};

/// A port at which whoever comes is refused, as long as this lives: one that was only let
/// go could be another's by then, or the one that a client comes from.
pub struct Deaf {
    pub address: SocketAddr,
    _bound: Socket,
}

impl Deaf {
    pub fn new() -> Self {
        let bound = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        bound.bind(&any.into()).expect("a port");
        let address = bound.local_addr().expect("bound").as_socket();
        Self {
            address: address.expect("of IPv4"),
            _bound: bound,
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
    // Where the kernel gives all of them, those that it gives last will do.
    let first = first.filter(|first| *first > 2048).unwrap_or(32_768);
    // Two runs of the tests shall not choose the same.
    let own = usize::try_from(std::process::id()).expect("small");
    let all: Vec<u16> = (1024..first).collect();
    let mut free = all
        .iter()
        .copied()
        .cycle()
        .skip(own % all.len())
        .take(all.len());
    let address = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
    let port = free.find(|port| TcpListener::bind(address(*port)).is_ok());
    address(port.expect("a free port"))
}
