//! Where tables go, and in which form.

use std::fs::OpenOptions;
use std::io::{self, IsTerminal as _, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::cli::Hist;
use crate::hist::render::View;
use crate::sink::escape::escape;

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
    File(PathBuf),
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
            write(path, b"")?;
            list.push((Place::File(path.clone()), form));
        }
        if list.is_empty() {
            let place = match options.command.is_empty() {
                true => Place::Stdout,
                // The command's output stays its own.
                false => Place::Stderr,
            };
            list.push((place, form.unwrap_or(Form::Text)));
        }
        Ok(Self { list })
    }

    /// Shows the tables as they are now; `again`: in place of the last ones.
    ///
    /// # Errors
    /// An output cannot be written.
    pub fn show(&self, views: &[View<'_>], again: bool) -> Result<()> {
        self.write(|form| Ok(render(views, form)), again)
    }

    /// The same for the kernel's own files, which have one form only.
    ///
    /// # Errors
    /// As above; another form was asked for.
    pub fn show_texts(&self, texts: &[Vec<u8>], again: bool) -> Result<()> {
        let only = |form| match form {
            Form::Text => Ok(texts.concat()),
            _ => bail!(
                "the kernel's trigger gives text only; leave --json, --csv, --plot and other files out, or use --backend ebpf"
            ),
        };
        self.write(only, again)
    }

    fn write(&self, render: impl Fn(Form) -> Result<Vec<u8>>, again: bool) -> Result<()> {
        for (place, form) in &self.list {
            let text = render(*form)?;
            match place {
                Place::File(path) => write(path, &text)?,
                Place::Stdout => {
                    let out = io::stdout();
                    let terminal = out.is_terminal();
                    print(&mut out.lock(), &text, *form, terminal, again)
                        .context("standard output cannot be written")?;
                }
                Place::Stderr => {
                    let out = io::stderr();
                    let terminal = out.is_terminal();
                    // As everything that is said there: where nobody can read it it is dropped.
                    let _unheard = print(&mut out.lock(), &text, *form, terminal, again);
                }
            }
        }
        Ok(())
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

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path);
    file.and_then(|mut f| f.write_all(bytes))
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
    let result = match terminal && matches!(form, Form::Text | Form::Csv) {
        true => out.write_all(&harmless(text)),
        false => out.write_all(text),
    };
    let result = result.and_then(|()| out.flush());
    match result {
        // A reader that goes away has seen enough.
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

fn render(views: &[View<'_>], form: Form) -> Vec<u8> {
    let mut out = Vec::new();
    for view in views {
        match form {
            Form::Text => {
                if views.len() > 1 {
                    // The kernel's file does not name its event.
                    out.extend(format!("# event: {}\n", view.plan.event).bytes());
                }
                out.extend(view.text());
            }
            Form::Json => out.extend(view.json().bytes()),
            Form::Csv => out.extend(view.csv()),
            Form::Plot => out.extend(view.plot(columns()).bytes()),
            Form::Svg => out.extend(view.svg().bytes()),
        }
    }
    out
}

/// Texts of strangers, as a terminal may see them.
fn harmless(text: &[u8]) -> Vec<u8> {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive(|b| *b == b'\n') {
        let (line, end) = match line.strip_suffix(b"\n") {
            Some(line) => (line, "\n"),
            None => (line, ""),
        };
        escape(&mut out, line);
        out.push_str(end);
    }
    out.into_bytes()
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
