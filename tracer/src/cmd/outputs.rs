//! The sinks that the command line asks for. Files are opened here, before the
//! command starts: what cannot be written must be known before it runs.

use std::fs::{self, File};
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use anyhow::{Result, bail};

use crate::cli::{Capture, Color, TreeStyle};
use crate::filter::failed::FailedOnly;
use crate::pipeline::Pipeline;
use crate::sink::Sink;
use crate::sink::format::{Encoding, FileOptions, Format, build, build_parts, build_per_process};
use crate::sink::output::Destination;
use crate::sink::style::Style;
use crate::sink::tree::TreeOptions;

/// Opens every output that `options` name, files as `files` says; `tree` is the one at the end where they say
/// nothing of it.
pub fn open(
    options: &Capture,
    files: &FileOptions,
    tree: TreeStyle,
    pipeline: &mut Pipeline,
) -> Result<()> {
    super::export::open(options, pipeline)?;
    let mut add = |to: &Destination, sink| add(options, pipeline, to.name(), sink);
    let tree = options.tree.unwrap_or(tree);
    // What goes to a file has no colours and no width.
    let for_files = TreeOptions {
        full: tree == TreeStyle::Full,
        filtered: options.is_filtered(),
        ..TreeOptions::default()
    };
    let mut open = Vec::new();
    let mut names = Vec::new();
    for (to, encoding) in options.outputs()? {
        // Those of a series are not there under the name that was given.
        if names.contains(&to) {
            bail!("{} is given twice; give -o each file once", to.name());
        }
        names.push(to.clone());
        let sink = match options.per_process() {
            true => build_per_process(&to, encoding)?,
            false => build_parts(&to, encoding, for_files, files)?,
        };
        if let Some(file) = identity(&to) {
            if open.contains(&file) {
                bail!(
                    "two outputs would be written over each other in {}; give -o each file once",
                    to.name()
                );
            }
            open.push(file);
        }
        add(&to, sink);
    }
    if options.quiet {
        return Ok(());
    }
    let terminal = io::stderr().is_terminal();
    let for_people = TreeOptions {
        style: Style {
            color: color(options.color, terminal),
        },
        width: terminal.then(terminal_width).flatten(),
        ..for_files
    };
    let to = Destination::Stderr;
    for (wanted, format) in [
        (options.log, Format::Log),
        (tree != TreeStyle::None, Format::Text),
    ] {
        if wanted {
            let encoding = Encoding {
                format,
                zstd: false,
            };
            add(&to, build(&to, encoding, for_people)?);
        }
    }
    Ok(())
}

/// Puts a sink behind the filters that are evaluated at the sinks.
pub(super) fn add(options: &Capture, pipeline: &mut Pipeline, name: String, sink: Box<dyn Sink>) {
    let sink = match options.failed {
        true => Box::new(FailedOnly::new(sink)),
        false => sink,
    };
    pipeline.add(name, sink);
}

/// What tells an open file from others, whatever names it has. Devices take
/// several writers, but stdout is one output even there.
fn identity(to: &Destination) -> Option<(u64, u64)> {
    let meta = match to {
        Destination::File(path) => fs::metadata(path),
        Destination::Stdout => {
            let copy = io::stdout().as_fd().try_clone_to_owned();
            copy.and_then(|fd| File::from(fd).metadata())
        }
        Destination::Stderr => return None,
    };
    let meta = meta.ok()?;
    let is_device = meta.file_type().is_char_device();
    (!is_device || *to == Destination::Stdout).then(|| (meta.dev(), meta.ino()))
}

/// As <https://no-color.org> wants it.
fn color(when: Color, terminal: bool) -> bool {
    match when {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => {
            let no_color = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
            let dumb = std::env::var_os("TERM").is_some_and(|v| v == "dumb");
            terminal && !no_color && !dumb
        }
    }
}

/// Columns of the terminal at stderr.
fn terminal_width() -> Option<usize> {
    let mut size = libc::winsize {
        ws_row: 0,
        ws_col: 0,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: TIOCGWINSZ writes one winsize, which this is.
    let r = unsafe { libc::ioctl(libc::STDERR_FILENO, libc::TIOCGWINSZ, &raw mut size) };
    (r == 0 && size.ws_col > 0).then_some(usize::from(size.ws_col))
}
