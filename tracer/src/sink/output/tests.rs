//! Tests of [`Output`](super::Output): privacy, errors, slow and absent readers.

use std::io::Read;
use std::net::Shutdown;
use std::os::unix::ffi::OsStrExt;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::*;

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path)
        .expect("metadata")
        .permissions()
        .mode()
        & 0o7777
}

fn fifo(path: &Path) {
    let c = std::ffi::CString::new(path.as_os_str().as_bytes()).expect("no NUL");
    // SAFETY: `c` is a string that ends with NUL and lives through the call.
    assert_eq!(unsafe { libc::mkfifo(c.as_ptr(), 0o600) }, 0);
}

#[test]
fn files_are_private_and_empty() {
    let dir = tempfile::tempdir().expect("tempdir");
    let (new, old) = (dir.path().join("new"), dir.path().join("old"));
    std::fs::write(&old, "earlier, longer contents").expect("write");
    std::fs::set_permissions(&old, Permissions::from_mode(0o644)).expect("chmod");
    for path in [&new, &old] {
        let mut out = Output::open(&Destination::File(path.clone()), false).expect("open");
        assert_eq!(mode(path), 0o600, "before anything is written");
        out.write_all(b"now").expect("write");
        out.finish().expect("finish");
        assert_eq!(std::fs::read(path).expect("read"), b"now");
    }
}

#[test]
fn an_error_names_path_cause_and_remedy() {
    let dir = tempfile::tempdir().expect("tempdir");
    let missing = dir.path().join("none/x.jsonl");
    let error = Output::open(&Destination::File(missing), false)
        .err()
        .expect("no directory")
        .to_string();
    assert!(
        error.contains("none/x.jsonl") && error.contains("No such file"),
        "{error}"
    );
    assert!(error.contains("create the directory"), "{error}");
    let error = Output::open(&Destination::File(dir.path().into()), false)
        .err()
        .expect("a directory")
        .to_string();
    assert!(error.contains("name a file in that directory"), "{error}");
}

#[test]
fn a_full_device_is_reported() {
    let mut out = Output::open(&Destination::File("/dev/full".into()), false).expect("open");
    out.write_all(b"x").expect("goes to the buffer");
    let error = out.finish().expect_err("no space");
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    assert!(
        out.write_all(&[b'x'; CHUNK]).is_err(),
        "and again from each later call"
    );
}

#[test]
fn a_slow_reader_does_not_block_the_writer() {
    let dir = tempfile::tempdir().expect("tempdir");
    let path = dir.path().join("pipe");
    fifo(&path);
    let (go, wait) = mpsc::channel::<()>();
    let from = path.clone();
    let reader = thread::spawn(move || {
        let mut pipe = File::open(from).expect("open");
        wait.recv().expect("go");
        let mut all = Vec::new();
        pipe.read_to_end(&mut all).expect("read");
        all
    });
    let mut out = Output::open(&Destination::File(path), false).expect("open");
    // 4 MB into a pipe of 64 KiB that nobody reads.
    for i in 0..500_000u32 {
        out.write_all(&i.to_le_bytes()).expect("write");
        out.write_all(b"....").expect("write");
    }
    out.flush().expect("flush");
    assert!(out.backlog() > 3_000_000, "{}", out.backlog());
    go.send(()).expect("go");
    out.finish().expect("finish");
    assert_eq!(out.backlog(), 0);
    let all = reader.join().expect("reader");
    assert_eq!(all.len(), 4_000_000);
    assert!(
        all.chunks(8)
            .zip(0u32..)
            .all(|(c, i)| c[..4] == i.to_le_bytes()),
        "in order"
    );
}

#[test]
fn a_reader_that_leaves_is_an_error_for_a_file_and_none_for_stdout() {
    for quiet in [false, true] {
        let (reader, writer) = std::os::unix::net::UnixStream::pair().expect("pair");
        // Not by closing it: what other tests fork at this time has a copy.
        reader.shutdown(Shutdown::Both).expect("shut down");
        let file = File::from(std::os::fd::OwnedFd::from(writer));
        let place = Place::Stream(Target { file, quiet });
        let mut out =
            Output::start(place, None, "it".into(), false, HOLD, CHUNK).expect("a thread");
        out.write_all(b"x").expect("buffered");
        assert_eq!(out.finish().is_ok(), quiet);
        assert_eq!(out.write_all(&[b'\n'; CHUNK]).is_ok(), quiet);
        assert_eq!(out.backlog(), if quiet { 0 } else { CHUNK });
    }
}

#[test]
fn compressed_bytes_come_out_while_the_stream_is_open() {
    let dir = tempfile::tempdir().expect("tempdir");
    let path = dir.path().join("x.zst");
    let mut out = Output::open(&Destination::File(path.clone()), true).expect("open");
    out.write_all(b"hello\n").expect("write");
    out.flush().expect("flush");
    loop {
        let bytes = std::fs::read(&path).expect("read");
        let mut text = Vec::new();
        // The frame has no end yet: what can be read counts.
        let _ = zstd::Decoder::new(bytes.as_slice()).map(|mut d| d.read_to_end(&mut text));
        if text == b"hello\n" {
            break;
        }
        thread::sleep(Duration::from_millis(10));
    }
    out.finish().expect("finish");
    let whole = std::fs::read(&path).expect("read");
    assert_eq!(
        zstd::decode_all(whole.as_slice()).expect("a whole frame"),
        b"hello\n"
    );
}

#[test]
fn a_non_blocking_descriptor_is_waited_for() {
    let (mut reader, writer) = std::os::unix::net::UnixStream::pair().expect("pair");
    writer.set_nonblocking(true).expect("fcntl");
    let file = File::from(std::os::fd::OwnedFd::from(writer));
    let mut target = Target { file, quiet: false };
    let (full, wait) = mpsc::channel();
    let thread = thread::spawn(move || {
        // More than any socket buffer: the middle of it meets EAGAIN.
        target.write_all(&vec![7; 8 << 20]).expect("write");
        full.send(()).expect("send");
    });
    let mut all = Vec::new();
    reader.read_to_end(&mut all).expect("read");
    wait.recv().expect("written");
    thread.join().expect("thread");
    assert_eq!(all, vec![7; 8 << 20]);
}
