//! Where the figures are served.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;

use thiserror::Error;

#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum AddressError {
    #[error(
        "{0:?} is neither a port nor an address; write PORT (on 127.0.0.1 only), or IP:PORT, as in 9435 or [::1]:9435"
    )]
    Unknown(String),
    #[error(
        "{0:?} leaves the address open; write PORT for 127.0.0.1 only, or say that everybody may connect: 0.0.0.0:PORT or [::]:PORT"
    )]
    Open(String),
}

/// An address to listen on. Only a port means this machine alone; others must be written out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address(pub SocketAddr);

impl Address {
    /// Whether other machines can connect.
    pub fn is_public(&self) -> bool {
        !self.0.ip().to_canonical().is_loopback()
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let local = |port| Self(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
        if let Ok(port) = text.parse() {
            return Ok(local(port));
        }
        if let Some(port) = text.strip_prefix("localhost:").and_then(|p| p.parse().ok()) {
            return Ok(local(port));
        }
        if text.starts_with(':') || text.starts_with("*:") {
            return Err(AddressError::Open(text.into()));
        }
        let address = text.parse().map(Self);
        address.map_err(|_| AddressError::Unknown(text.into()))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_for_this_machine_alone() {
        for (text, address, public) in [
            ("9435", "127.0.0.1:9435", false),
            ("0", "127.0.0.1:0", false),
            ("localhost:9435", "127.0.0.1:9435", false),
            ("127.0.0.2:1", "127.0.0.2:1", false),
            ("[::1]:9435", "[::1]:9435", false),
            ("[::ffff:127.0.0.1]:9435", "[::ffff:127.0.0.1]:9435", false),
            ("0.0.0.0:9435", "0.0.0.0:9435", true),
            ("[::]:9435", "[::]:9435", true),
            ("10.1.2.3:9435", "10.1.2.3:9435", true),
        ] {
            let parsed: Address = text.parse().expect(text);
            assert_eq!(
                (parsed.to_string().as_str(), parsed.is_public()),
                (address, public)
            );
        }
    }

    #[test]
    fn what_is_not_explicit_is_refused() {
        for text in [":9435", "*:9435"] {
            let error = text.parse::<Address>().expect_err(text);
            assert_eq!(error, AddressError::Open(text.into()));
        }
        for text in [
            "",
            "-1",
            "65536",
            "host:9435",
            "1.2.3.4",
            "[::1]:x",
            "9435 x",
        ] {
            let error = text.parse::<Address>().expect_err(text).to_string();
            assert!(error.contains("9435"), "{error}");
        }
    }
}
