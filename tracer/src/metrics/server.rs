//! Serves the figures over HTTP, from a thread of its own.
//!
//! A client gets one answer and is then let go. There are few connections at a time, each lives
//! for a bounded time, and only so much of a request is read.

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use thiserror::Error;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use super::address::Address;
use super::figures::Figures;
use crate::sys::capabilities::{Need, keep_only};

/// Connections at a time; more wait in the kernel's queue.
const CONNECTIONS: usize = 16;
/// From the connection to the end of the answer.
const LIFETIME: Duration = Duration::from_secs(3);
/// Bytes of a request's head.
const HEAD: usize = 8 * 1024;
/// After an error of accept, such as too many open files.
const BREATH: Duration = Duration::from_millis(200);
/// Niceness of the thread.
const NICE: i32 = 10;

#[derive(Debug, Error)]
pub enum ServeError {
    #[error(
        "--metrics {address}: cannot listen there: {error}; choose another port, or 0 for any that is free"
    )]
    Bind { address: Address, error: io::Error },
    #[error("--metrics: the server cannot be started: {0}")]
    Start(io::Error),
}

/// A bound address, before anything is served.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
}

impl Server {
    /// Takes the address, so that a port in use is an error before the capture begins.
    pub fn bind(address: Address) -> Result<Self, ServeError> {
        let bind = || {
            let listener = TcpListener::bind(address.0)?;
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            Ok(Self { listener, address })
        };
        bind().map_err(|error| ServeError::Bind { address, error })
    }

    /// Where it listens, with the port that was chosen for 0.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until the process ends.
    pub fn start(self, figures: Arc<Figures>) -> Result<(), ServeError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(ServeError::Start)?;
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(self.listener).map_err(ServeError::Start)?
        };
        let work = move || {
            // SAFETY: takes numbers only; 0 is the calling thread, not the process, on Linux.
            unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) };
            // Whoever gets through to this thread has nothing to gain; if it is refused, as before.
            let _ = keep_only(Need::Nothing);
            runtime.block_on(serve(listener, figures));
        };
        let thread = thread::Builder::new().name("metrics".into());
        thread.spawn(work).map_err(ServeError::Start)?;
        Ok(())
    }
}

async fn serve(listener: tokio::net::TcpListener, figures: Arc<Figures>) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else {
            return;
        };
        let Ok((stream, _)) = listener.accept().await else {
            sleep(BREATH).await;
            continue;
        };
        let figures = Arc::clone(&figures);
        tokio::spawn(async move {
            let answer = service_fn(move |request| {
                let answer = answer(&request, &figures);
                async { Ok::<_, Infallible>(answer) }
            });
            let connection = http1::Builder::new()
                .keep_alive(false)
                .max_buf_size(HEAD)
                .timer(TokioTimer::new())
                .header_read_timeout(LIFETIME)
                .serve_connection(TokioIo::new(stream), answer);
            // A client that goes away or is too slow is no error of ours.
            let _ = timeout(LIFETIME, connection).await;
            drop(slot);
        });
    }
}

fn answer(request: &Request<Incoming>, figures: &Figures) -> Response<Full<Bytes>> {
    let plain = |status, text: String| {
        let mut response = Response::new(Full::new(Bytes::from(text)));
        *response.status_mut() = status;
        let kind = "text/plain; version=0.0.4; charset=utf-8";
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(kind));
        response
    };
    if request.method() != Method::GET && request.method() != Method::HEAD {
        let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "GET only\n".into());
        let allowed = hyper::header::HeaderValue::from_static("GET, HEAD");
        response.headers_mut().insert(ALLOW, allowed);
        return response;
    }
    match request.uri().path() {
        "/metrics" => plain(StatusCode::OK, figures.render()),
        "/" => plain(StatusCode::OK, "tracer: see /metrics\n".into()),
        _ => plain(StatusCode::NOT_FOUND, "not here; see /metrics\n".into()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use super::*;

    fn start() -> SocketAddr {
        let server = Server::bind("0".parse().expect("a port")).expect("bind");
        let address = server.address();
        server.start(Arc::default()).expect("start");
        address
    }

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).expect("connect");
        stream.write_all(request.as_bytes()).expect("send");
        let mut answer = String::new();
        // A reset after the answer is as good as its end.
        let _ = stream.read_to_string(&mut answer);
        answer
    }

    #[test]
    fn only_the_figures_are_served() {
        let address = start();
        let answer = ask(address, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.contains("text/plain; version=0.0.4"), "{answer}");
        assert!(answer.contains("\ntracer_processes_alive 0\n"), "{answer}");
        let head = ask(address, "HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.ends_with("\r\n\r\n"));
        for (request, status) in [
            ("GET /etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n", "404"),
            (
                "POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
                "405",
            ),
            ("nonsense\r\n\r\n", "400"),
        ] {
            let answer = ask(address, request);
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status}")),
                "{request}: {answer}"
            );
        }
        let long = format!(
            "GET /metrics HTTP/1.1\r\nx: {}\r\n\r\n",
            "y".repeat(1 << 20)
        );
        let mut stream = TcpStream::connect(address).expect("connect");
        let _ = stream.write_all(long.as_bytes());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(!answer.starts_with(b"HTTP/1.1 200"), "so much is not read");
    }

    #[test]
    fn clients_that_say_nothing_are_let_go() {
        let address = start();
        let idle: Vec<_> = (0..CONNECTIONS * 3)
            .map(|_| TcpStream::connect(address).expect("connect"))
            .collect();
        let answer = ask(address, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        drop(idle);
    }

    #[test]
    fn a_port_in_use_is_an_error_at_once() {
        let address = Address(start());
        let error = Server::bind(address).expect_err("in use").to_string();
        assert!(error.contains("another port"), "{error}");
    }
}
