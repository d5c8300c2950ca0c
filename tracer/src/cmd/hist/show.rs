//! Where tables go, and in which form.

use std::fs;
use std::io::{self, IsTerminal as _, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::cli::{Hist, HistBackend};
use crate::hist::render::View;
use crate::sink::escape::escaped_lines;
use crate::sink::output::{open_private, open_replacement};

/// Columns of a terminal that does not say how many it has.
const COLUMNS: usize = 80;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// As the kernel's file.
    Text,
    Json,
    Csv,
    Plot,
    Svg,
}

enum Place {
    Stdout,
    Stderr,
    /// A regular file, without symbolic links in its path.
    File(PathBuf),
    /// A pipe, a device.
    Stream(PathBuf),
}

/// The outputs of a run.
pub struct Outputs {
    list: Vec<(Place, Form)>,
}

impl Outputs {
    /// Opens what `-o` names: what cannot be written is known before anything runs.
    ///
    /// # Errors
    /// An ending that says no form, a file that cannot be written.
    pub fn open(options: &Hist) -> Result<Self> {
        let form = match (options.json, options.csv, options.plot) {
            (true, _, _) => Some(Form::Json),
            (_, true, _) => Some(Form::Csv),
            (_, _, true) => Some(Form::Plot),
            _ => None,
        };
        let mut list = Vec::new();
        for path in &options.output {
            if path.as_os_str() == "-" {
                list.push((Place::Stdout, form.unwrap_or(Form::Text)));
                continue;
            }
            let form = form.map_or_else(|| by_ending(path), Ok)?;
            list.push((Place::open(path)?, form));
        }
        if list.is_empty() {
            let place = match options.command.is_empty() {
                true => Place::Stdout,
                // The command's output stays its own.
                false => Place::Stderr,
            };
            list.push((place, form.unwrap_or(Form::Text)));
        }
        if options.backend == HistBackend::Ftrace && list.iter().any(|(_, f)| *f != Form::Text) {
            bail!(
                "the kernel's trigger gives text only; leave --json, --csv, --plot and other files than .txt out, \
                 or use --backend ebpf"
            );
        }
        Ok(Self { list })
    }

    /// Shows the tables as they are now; `again`: in place of the last ones.
    /// Returns whether anybody may read them: `false` when standard output is the
    /// only one and its reader has gone.
    ///
    /// # Errors
    /// An output cannot be written; the others have been.
    pub fn show(&self, views: &[View<'_>], again: bool) -> Result<bool> {
        self.write(|form, terminal| render(views, form, terminal), again)
    }

    /// The same for the kernel's own files, which have one form only.
    ///
    /// # Errors
    /// As above.
    pub fn show_text(&self, text: &[u8], again: bool) -> Result<bool> {
        self.write(|_, _| text.to_vec(), again)
    }

    fn write(&self, render: impl Fn(Form, bool) -> Vec<u8>, again: bool) -> Result<bool> {
        let mut heard = false;
        let mut fault = Ok(());
        for (place, form) in &self.list {
            let text = render(*form, place.is_terminal());
            match place.write(&text, *form, again) {
                Ok(read) => heard |= read,
                // One that is full must not cost the others.
                Err(error) => fault = fault.and(Err(error)),
            }
        }
        fault.map(|()| heard)
    }
}

impl Place {
    /// Where a table in a file is from now on, which is empty until there is one.
    fn open(path: &Path) -> Result<Self> {
        let is_file = open_private(path, true, true)?.metadata()?.is_file();
        // One that has no name any more cannot be replaced, nor one that is mounted by itself.
        let Some(real) = fs::canonicalize(path).ok().filter(|_| is_file) else {
            return Ok(Self::Stream(path.into()));
        };
        match replace(&real, b"") {
            Err(error) if is_mounted(&error) => Ok(Self::Stream(path.into())),
            replaced => replaced.map(|()| Self::File(real)),
        }
    }

    fn is_terminal(&self) -> bool {
        match self {
            Self::Stdout => io::stdout().is_terminal(),
            Self::Stderr => io::stderr().is_terminal(),
            Self::File(_) | Self::Stream(_) => false,
        }
    }

    /// Returns `false` where the reader has gone: it has seen enough.
    fn write(&self, text: &[u8], form: Form, again: bool) -> Result<bool> {
        let terminal = self.is_terminal();
        let written = match self {
            Self::File(path) => return replace(path, text).map(|()| true),
            Self::Stream(path) => return write(path, text).map(|()| true),
            Self::Stdout => print(&mut io::stdout().lock(), text, form, terminal, again),
            Self::Stderr => {
                // As everything that is said there: where nobody can read it it is dropped.
                let _unheard = print(&mut io::stderr().lock(), text, form, terminal, again);
                Ok(())
            }
        };
        match written {
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(false),
            written => written
                .map(|()| true)
                .context("standard output cannot be written"),
        }
    }
}

fn by_ending(path: &Path) -> Result<Form> {
    Ok(match path.extension().and_then(|e| e.to_str()) {
        Some("txt") => Form::Text,
        Some("json") => Form::Json,
        Some("csv") => Form::Csv,
        Some("svg") => Form::Svg,
        _ => bail!(
            "-o {}: its ending names no form; use .txt, .json, .csv or .svg, or add --json or --csv",
            path.display()
        ),
    })
}

/// Whoever reads the file meanwhile has the last table or this one, and never half of it.
/// What rename(2) says of a mount point.
fn is_mounted(error: &anyhow::Error) -> bool {
    let cause = error.downcast_ref::<io::Error>();
    cause.and_then(io::Error::raw_os_error) == Some(libc::EBUSY)
}

fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut part = open_replacement(path)?;
    let written = part.append(bytes).and_then(|()| part.publish());
    written.with_context(|| format!("{} cannot be written", path.display()))
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = open_private(path, true, true)?;
    file.write_all(bytes)
        .with_context(|| format!("{} cannot be written", path.display()))
}

fn print(
    out: &mut dyn Write,
    text: &[u8],
    form: Form,
    terminal: bool,
    again: bool,
) -> io::Result<()> {
    if terminal && again {
        // To the top, and all below away.
        out.write_all(b"\x1b[H\x1b[J")?;
    }
    match terminal && matches!(form, Form::Text | Form::Csv) {
        true => out.write_all(escaped_lines(text).as_bytes())?,
        false => out.write_all(text)?,
    }
    out.flush()
}

fn render(views: &[View<'_>], form: Form, terminal: bool) -> Vec<u8> {
    let mut out = Vec::new();
    for (at, view) in views.iter().enumerate() {
        match form {
            Form::Text => {
                out.extend(heading(&view.plan.event, views.len()));
                out.extend(match terminal {
                    true => view.text_for_terminal(),
                    false => view.text(),
                });
            }
            Form::Json => out.extend(view.json().bytes()),
            Form::Csv => {
                // The next table has other columns.
                out.extend((at > 0).then_some(b'\n'));
                out.extend(view.csv());
            }
            Form::Plot => out.extend(view.plot(columns()).bytes()),
            Form::Svg => out.extend(view.svg().bytes()),
        }
    }
    out
}

/// Which of several tables it is: the kernel's file does not name its event.
pub fn heading(event: &str, tables: usize) -> Vec<u8> {
    match tables {
        0 | 1 => Vec::new(),
        _ => format!("# event: {event}\n").into_bytes(),
    }
}

fn columns() -> usize {
    let mut size = libc::winsize {
        ws_row: 0,
        ws_col: 0,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    for fd in [libc::STDOUT_FILENO, libc::STDERR_FILENO] {
        // SAFETY: writes one winsize, which this is.
        if unsafe { libc::ioctl(fd, libc::TIOCGWINSZ, &raw mut size) } == 0 && size.ws_col != 0 {
            return usize::from(size.ws_col);
        }
    }
    COLUMNS
}
