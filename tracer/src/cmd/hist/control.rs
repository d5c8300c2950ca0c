//! Acting on a `tracer hist` that runs: each listens at a socket of its own.
//!
//! A socket and not pinned maps: it reaches tables that are in no map (those of
//! `process_exit`, and the kernel's own triggers), acts on several at once and
//! says whether it could, and vanishes with its process.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

const DIRECTORY: &str = "/run/tracer";
/// A client that says nothing, or does not listen, is forgotten then. Until then it holds up nobody.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(100);
const REQUEST_MAX: u64 = 4096;
/// One that is stopped takes a request, and never answers. Longer than the largest table takes.
const ANSWER: Duration = Duration::from_secs(30);

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// `pause`, `cont`, `clear`, `show`, or `has`, which does nothing.
    pub word: String,
    /// The `name=` of a table; empty: all tables.
    pub name: String,
}

/// Where requests come in, each read by a task of its own.
pub struct Control {
    requests: mpsc::Receiver<(Request, Asker)>,
    reader: JoinHandle<()>,
    path: PathBuf,
}

/// Who asked, and waits for the answer.
pub struct Asker(tokio::net::UnixStream);

impl Control {
    /// Listens. Where that is not possible nobody can act on this run, which
    /// counts all the same.
    pub fn open() -> Option<Self> {
        let dir = Path::new(DIRECTORY);
        let made = fs::DirBuilder::new()
            .mode(0o700)
            .recursive(true)
            .create(dir);
        let path = dir.join(format!("hist-{}.sock", std::process::id()));
        let listener = made.and_then(|()| {
            // In another container somebody may have the same number.
            if is_heard(&path) {
                return Err(io::ErrorKind::AddrInUse.into());
            }
            // It has its name when it is listened at: who finds it before takes it for that of
            // one that was killed.
            let fresh = path.with_extension("new");
            let _left = fs::remove_file(&fresh);
            let listener = UnixListener::bind(&fresh)?;
            fs::set_permissions(&fresh, fs::Permissions::from_mode(0o600))?;
            // A link, which takes the name from nobody.
            let linked = fs::hard_link(&fresh, &path);
            let _one_name = fs::remove_file(&fresh);
            linked.map(|()| listener)
        });
        match listener {
            Ok(listener) => {
                let (send, requests) = mpsc::channel(1);
                let reader = tokio::spawn(async move {
                    loop {
                        let Ok((stream, _)) = listener.accept().await else {
                            // Too many open files; there will be fewer.
                            tokio::time::sleep(PAUSE).await;
                            continue;
                        };
                        let send = send.clone();
                        tokio::spawn(async move {
                            if let Some(asked) = read(stream).await {
                                // Nobody answers any more.
                                let _over = send.send(asked).await;
                            }
                        });
                    }
                });
                Some(Self {
                    requests,
                    reader,
                    path,
                })
            }
            Err(error) => {
                log::info!(
                    "{}: {error}: --pause and the like cannot reach this run",
                    path.display()
                );
                None
            }
        }
    }

    /// The next request. Cancel safe.
    pub async fn next(&mut self) -> Option<(Request, Asker)> {
        self.requests.recv().await
    }
}

async fn read(mut stream: tokio::net::UnixStream) -> Option<(Request, Asker)> {
    let mut text = String::new();
    let mut limited = (&mut stream).take(REQUEST_MAX);
    let read = timeout(PATIENCE, limited.read_to_string(&mut text)).await;
    read.ok()?.ok()?;
    let text = text.trim_end();
    let (word, name) = text.split_once(' ').unwrap_or((text, ""));
    let request = Request {
        word: word.to_owned(),
        name: name.to_owned(),
    };
    // An empty one only looks whether somebody is here.
    (!word.is_empty()).then_some((request, Asker(stream)))
}

impl Drop for Control {
    fn drop(&mut self) {
        self.reader.abort();
        let _gone_already = fs::remove_file(&self.path);
    }
}

impl Asker {
    /// Answers; one that does not listen any more has its own reasons.
    pub fn answer(mut self, result: Result<Vec<u8>>) {
        let answer = match result {
            Ok(text) => [format!("ok {}\n", text.len()).as_bytes(), &text].concat(),
            Err(error) => format!("error {error:#}\n").into_bytes(),
        };
        tokio::spawn(async move {
            let _gone = timeout(PATIENCE, self.0.write_all(&answer)).await;
        });
    }
}

/// Lets one that runs do something. `whom`: its process number, the name of a
/// table, or nothing where there is one only.
///
/// # Errors
/// None that runs, several, or what it answers.
pub fn ask(word: &str, whom: &str) -> Result<Vec<u8>> {
    let running = running()?;
    let by_pid = whom.parse::<u32>().ok();
    let by_pid = by_pid.and_then(|pid| running.iter().find(|(p, _)| *p == pid));
    if let Some((_, path)) = by_pid {
        return request(path, word, "");
    }
    let mut meant = Vec::new();
    for one in &running {
        if whom.is_empty() || has(one, whom)? {
            meant.push(one);
        }
    }
    match meant.as_slice() {
        [(_, path)] => request(path, word, whom),
        [] if running.is_empty() => bail!("no tracer hist runs here"),
        [] => bail!(
            "no tracer hist that runs has the number or a table named {whom:?}; those that run: {}",
            numbers(running.iter())
        ),
        several => bail!(
            "several run; name one by its number: {}",
            numbers(several.iter().copied())
        ),
    }
}

/// Whether one has a table of this name.
fn has((_, path): &(u32, PathBuf), name: &str) -> Result<bool> {
    match request(path, "has", name) {
        Ok(_) => Ok(true),
        // One that has just ended does not have it either; who is stopped has to be named by its number.
        Err(error) if error.is::<NoSuchTable>() || error.is::<Gone>() => Ok(false),
        Err(error) => Err(error),
    }
}

fn numbers<'a>(running: impl Iterator<Item = &'a (u32, PathBuf)>) -> String {
    let numbers: Vec<String> = running.map(|(pid, _)| pid.to_string()).collect();
    numbers.join(", ")
}

/// The process has no table of that name.
#[derive(Debug, thiserror::Error)]
#[error("no table has this name")]
pub struct NoSuchTable;

/// Nobody answers any more.
#[derive(Debug, thiserror::Error)]
#[error("the tracer hist at {} does not answer: {}", .0.display(), .1)]
struct Gone(PathBuf, String);

/// Those that run: numbers and sockets. Sockets that nobody listens at are removed.
fn running() -> Result<Vec<(u32, PathBuf)>> {
    let entries = match fs::read_dir(DIRECTORY) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.with_context(|| {
            format!("{DIRECTORY}, where those that run listen; only root may act on them (sudo)")
        })?,
    };
    let sockets = entries.flatten().filter_map(|entry| {
        let name = entry.file_name();
        let pid = name
            .to_str()?
            .strip_prefix("hist-")?
            .strip_suffix(".sock")?;
        Some((pid.parse().ok()?, entry.path()))
    });
    let mut running: Vec<_> = sockets.filter(|(_, path)| is_heard(path)).collect();
    running.sort();
    Ok(running)
}

/// Whether somebody listens there; the socket of one that was killed is removed.
fn is_heard(path: &Path) -> bool {
    match UnixStream::connect(path) {
        Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => {
            let _gone_already = fs::remove_file(path);
            false
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => false,
        _ => true,
    }
}

fn request(path: &Path, word: &str, name: &str) -> Result<Vec<u8>> {
    let talk = || {
        let mut stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(ANSWER))?;
        stream.write_all(format!("{word} {name}\n").as_bytes())?;
        stream.shutdown(std::net::Shutdown::Write)?;
        let mut reader = BufReader::new(stream);
        let mut first = String::new();
        reader.read_line(&mut first)?;
        let mut rest = Vec::new();
        reader.read_to_end(&mut rest)?;
        io::Result::Ok((first, rest))
    };
    let gone = |why: String| Gone(path.to_path_buf(), why);
    let (first, rest) = talk().map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => gone(format!(
            "nothing in {} s, it may be stopped",
            ANSWER.as_secs()
        )),
        _ => gone(error.to_string()),
    })?;
    match first.trim_end().split_once(' ') {
        Some(("ok", length)) if length.parse() == Ok(rest.len()) => Ok(rest),
        Some(("error", error)) if error == NoSuchTable.to_string() => Err(NoSuchTable.into()),
        Some(("error", error)) => bail!("{error}"),
        // It has ended meanwhile, or did not wait for us any longer.
        _ => Err(gone("its answer is not whole".to_owned()).into()),
    }
}
