//! Which format an output has, by its ending or by name, and the sink for it.

use std::path::Path;

use super::Sink;
use super::csv::Csv;
pub use super::file_options::{FileOptions, Rotation};
use super::jsonl::Jsonl;
use super::log::Log;
use super::output::{Destination, OpenError, Output};
#[cfg(feature = "parquet")]
use super::parquet;
use super::parts::{Limits, Parts};
use super::per_process::PerProcess;
use super::series::Series;
use super::tree::{Tree, TreeOptions};

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Jsonl,
    Csv,
    /// Tree and summary at the end.
    Text,
    /// A line for each event as it happens.
    Log,
    /// Two tables, of processes and of events.
    Parquet,
}

/// Endings and names, in the order in which messages list them.
const KNOWN: [(&str, Format); 5] = [
    ("jsonl", Format::Jsonl),
    ("csv", Format::Csv),
    ("txt", Format::Text),
    ("log", Format::Log),
    ("parquet", Format::Parquet),
];

/// Why there is no format for an output.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    #[error("the ending of {0:?} names no known format; known are {known}; choose one, or add --format NAME", known = endings())]
    Ending(String),
    #[error("unknown format {0:?}; known are {known}", known = names())]
    Name(String),
    #[error("standard output has no ending: add --format NAME; known are {known}", known = names())]
    NoEnding,
    #[error(
        "-ff writes one file for each process as jsonl or log, not as {0}: choose -o FILE.jsonl or -o FILE.log"
    )]
    PerProcess(&'static str),
    #[error("-ff needs files that it can append to, and a compressed one is none: leave .zst away")]
    PerProcessZstd,
    #[error("-ff needs -o FILE: it writes FILE.PID for each process")]
    PerProcessStream,
    #[error("a Parquet file is compressed by itself: leave .zst away")]
    ParquetZstd,
    #[cfg(feature = "parquet")]
    #[error("Parquet goes to files, not to {0}: choose -o FILE.parquet")]
    ParquetStream(String),
    #[cfg(not(feature = "parquet"))]
    #[error(
        "this tracer was built without Parquet: build it with `--features parquet`, or choose another format"
    )]
    NoParquet,
    #[error(transparent)]
    Open(#[from] OpenError),
}

fn names() -> String {
    KNOWN.map(|(name, _)| name).join(", ")
}

fn endings() -> String {
    let streams = KNOWN.iter().filter(|(_, f)| *f != Format::Parquet);
    let streams: Vec<_> = streams.map(|(name, _)| format!(".{name}")).collect();
    format!("{}, each also with .zst, and .parquet", streams.join(", "))
}

/// A format, and whether the stream is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoding {
    pub format: Format,
    pub zstd: bool,
}

impl Format {
    /// For `--format`.
    pub fn from_name(name: &str) -> Result<Self, FormatError> {
        let known = KNOWN.iter().find(|(known, _)| *known == name);
        known
            .map(|(_, format)| *format)
            .ok_or_else(|| FormatError::Name(name.into()))
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::Jsonl => "jsonl",
            Self::Csv => "csv",
            Self::Text => "txt",
            Self::Log => "log",
            Self::Parquet => "parquet",
        }
    }
}

impl Encoding {
    /// By the ending of `path`; `format` overrides all but `.zst`.
    pub fn from_path(path: &Path, format: Option<Format>) -> Result<Self, FormatError> {
        let extension = |p: &Path| {
            p.extension()
                .and_then(|e| e.to_str())
                .map(str::to_ascii_lowercase)
        };
        let mut stem = path.to_path_buf();
        let zstd = extension(path).is_some_and(|e| e == "zst");
        if zstd {
            stem.set_extension("");
        }
        if let Some(format) = format {
            return Ok(Self { format, zstd });
        }
        if path.as_os_str() == "-" {
            return Err(FormatError::NoEnding);
        }
        let unknown = || FormatError::Ending(path.to_string_lossy().into_owned());
        let format =
            Format::from_name(&extension(&stem).ok_or_else(unknown)?).map_err(|_| unknown())?;
        Ok(Self { format, zstd })
    }
}

/// What sinks for people need to know; the others ignore it.
pub type SinkOptions = TreeOptions;

/// The end of a name that says what is in the file, with its dots.
fn ending(path: &Path, encoding: Encoding) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let zst = match name.char_indices().rev().nth(3) {
        Some((at, _)) if encoding.zstd && name.is_char_boundary(at) => name.get(at..),
        _ => None,
    };
    let zst = zst.unwrap_or_default();
    let stem = name.strip_suffix(zst).unwrap_or(&name);
    let known = KNOWN.iter().find_map(|(known, _)| {
        let at = stem.len().checked_sub(known.len() + 1)?;
        let end = stem.get(at..)?;
        let matches = end.strip_prefix('.')?.eq_ignore_ascii_case(known);
        (matches && at > 0).then_some(end)
    });
    format!("{}{zst}", known.unwrap_or_default())
}

/// Opens `to` and makes the sink that writes `encoding` there, to one file.
pub fn build(
    to: &Destination,
    encoding: Encoding,
    options: SinkOptions,
) -> Result<Box<dyn Sink>, FormatError> {
    build_parts(to, encoding, options, &FileOptions::default())
}

/// The same, to one file after the other where `files` want that.
pub fn build_parts(
    to: &Destination,
    encoding: Encoding,
    options: SinkOptions,
    files: &FileOptions,
) -> Result<Box<dyn Sink>, FormatError> {
    let path = match to {
        Destination::File(path) if path.is_file() || !path.exists() => Some(path),
        // Pipes and devices are not rotated.
        _ => None,
    };
    let rotation = files.rotation(encoding.format).filter(|_| path.is_some());
    let size = rotation.and_then(|r| r.size);
    let series = |unfinished| {
        let (path, rotation) = path.zip(rotation)?;
        let ending = ending(path, encoding);
        Some(Series::new(path, &ending, unfinished, rotation.keep))
    };
    let limits = |reserve, plain| {
        let rotation = rotation?;
        Some(Limits {
            size: rotation.size,
            every: rotation.every,
            reserve,
            plain,
        })
    };
    if encoding.format == Format::Parquet {
        if encoding.zstd {
            return Err(FormatError::ParquetZstd);
        }
        #[cfg(not(feature = "parquet"))]
        return Err(FormatError::NoParquet);
        #[cfg(feature = "parquet")]
        {
            let path = path.ok_or_else(|| FormatError::ParquetStream(to.name()))?;
            let sink = parquet::Parquet::open(path, series(true), files.hold)?;
            let outputs = sink.outputs();
            return Ok(Box::new(Parts::new(
                Box::new(sink),
                outputs,
                limits(0, false),
            )));
        }
    }
    let out = Output::open_parts(to, encoding.zstd, series(false), files.hold, size)?;
    let outputs = vec![out.status().clone()];
    let reserve = if encoding.zstd { 0 } else { out.chunk() };
    let limits = limits(reserve, !encoding.zstd);
    let sink: Box<dyn Sink> = match encoding.format {
        Format::Csv => Box::new(Csv::new(out)),
        Format::Text => Box::new(Tree::new(out, options)),
        Format::Log => Box::new(Log::new(out, options.style, options.width)),
        Format::Jsonl | Format::Parquet => Box::new(Jsonl::new(out)),
    };
    Ok(Box::new(Parts::new(sink, outputs, limits)))
}

/// The same for `-ff`: a file for each process beside `to`.
pub fn build_per_process(
    to: &Destination,
    encoding: Encoding,
) -> Result<Box<dyn Sink>, FormatError> {
    let Destination::File(path) = to else {
        return Err(FormatError::PerProcessStream);
    };
    if encoding.zstd {
        return Err(FormatError::PerProcessZstd);
    }
    let jsonl = match encoding.format {
        Format::Jsonl => true,
        Format::Log | Format::Text => false,
        Format::Csv | Format::Parquet => {
            return Err(FormatError::PerProcess(encoding.format.name()));
        }
    };
    Ok(Box::new(PerProcess::new(
        path,
        jsonl,
        Output::open(to, false)?,
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::file_options::Rotation;
    use crate::sink::samples::{end, every_event, every_process, meta};
    use crate::sink::series::Keep;

    fn of(path: &str) -> Result<Encoding, FormatError> {
        Encoding::from_path(Path::new(path), None)
    }

    #[test]
    fn endings_name_formats() {
        for (path, format, zstd) in [
            ("a.jsonl", Format::Jsonl, false),
            ("dir.csv/a.jsonl.zst", Format::Jsonl, true),
            ("a.b.csv", Format::Csv, false),
            ("a.txt.zst", Format::Text, true),
            ("x.log", Format::Log, false),
            ("X.TXT", Format::Text, false),
        ] {
            assert_eq!(of(path).expect(path), Encoding { format, zstd });
        }
        for path in ["a", "a.", "a.json5", ".zst", "a.zst", "", "jsonl"] {
            let error = of(path).expect_err(path).to_string();
            assert!(
                error.contains(".jsonl, .csv, .txt, .log, each also with .zst, and .parquet"),
                "{error}"
            );
        }
        assert!(
            of("-")
                .expect_err("no ending")
                .to_string()
                .contains("--format")
        );
    }

    #[test]
    fn a_name_overrides() {
        let encoding = Encoding::from_path(Path::new("-"), Some(Format::Csv)).expect("a name");
        assert_eq!(
            encoding,
            Encoding {
                format: Format::Csv,
                zstd: false
            }
        );
        let encoding =
            Encoding::from_path(Path::new("x.zst"), Some(Format::Jsonl)).expect("a name");
        assert!(encoding.zstd);
        assert!(
            Format::from_name("xml")
                .expect_err("unknown")
                .to_string()
                .contains("jsonl, csv, txt, log, parquet")
        );
        for (name, format) in KNOWN {
            assert_eq!(
                (Format::from_name(name).expect(name), format.name()),
                (format, name)
            );
        }
    }

    #[test]
    fn sinks_of_all_formats_run_side_by_side() {
        let dir = tempfile::tempdir().expect("tempdir");
        let mut sinks: Vec<Box<dyn Sink>> = Vec::new();
        for ending in ["jsonl", "csv", "txt", "log"] {
            for zst in ["", ".zst"] {
                let path = dir.path().join(format!("t.{ending}{zst}"));
                let encoding = Encoding::from_path(&path, None).expect("known");
                let to = Destination::File(path);
                sinks.push(build(&to, encoding, SinkOptions::default()).expect("open"));
            }
        }
        for sink in &mut sinks {
            sink.begin(&meta()).expect("begin");
            every_event()
                .iter()
                .for_each(|e| sink.event(e, None).expect("event"));
            every_process()
                .iter()
                .for_each(|p| sink.process(p).expect("process"));
            sink.flush().expect("flush");
            sink.end(&end()).expect("end");
            assert_eq!(sink.backlog(), 0);
        }
        for ending in ["jsonl", "csv", "txt", "log"] {
            let read = |name: String| std::fs::read(dir.path().join(name)).expect("read");
            let (plain, packed) = (read(format!("t.{ending}")), read(format!("t.{ending}.zst")));
            assert!(!plain.is_empty());
            assert_eq!(zstd::decode_all(packed.as_slice()).expect("zstd"), plain);
        }
    }

    /// However much has been handed over at what moment.
    #[test]
    fn no_part_is_longer_than_asked_for() {
        const SIZE: u64 = 32 << 10;
        let files = FileOptions {
            rotation: Some(Rotation {
                size: Some(SIZE),
                every: None,
                keep: Keep::All,
            }),
            ..FileOptions::default()
        };
        for ending in ["jsonl", "csv", "log"] {
            for between_flushes in [1, 2, 3, 5, 8, 13, 21, 34] {
                let dir = tempfile::tempdir().expect("tempdir");
                let path = dir.path().join("run").with_extension(ending);
                let encoding = Encoding::from_path(&path, None).expect("known");
                let to = Destination::File(path);
                let options = SinkOptions::default();
                let mut sink = build_parts(&to, encoding, options, &files).expect("open");
                sink.begin(&meta()).expect("begin");
                for round in 0..20 * between_flushes {
                    for event in every_event() {
                        sink.event(&event, None).expect("event");
                    }
                    for process in every_process() {
                        sink.process(&process).expect("process");
                    }
                    if round % between_flushes == 0 {
                        sink.flush().expect("flush");
                    }
                }
                sink.end(&end()).expect("end");
                for part in std::fs::read_dir(dir.path()).expect("read") {
                    let part = part.expect("a part");
                    let bytes = part.metadata().expect("there").len();
                    assert!(bytes <= SIZE, "{:?}: {bytes}", part.path());
                }
            }
        }
    }

    #[test]
    fn per_process_files_need_a_plain_file_of_lines() {
        let refused = |to: &Destination, format, zstd| {
            build_per_process(to, Encoding { format, zstd })
                .err()
                .expect("refused")
                .to_string()
        };
        assert!(refused(&Destination::Stdout, Format::Jsonl, false).contains("-o FILE"));
        let file = Destination::File("x.csv".into());
        assert!(refused(&file, Format::Csv, false).contains("FILE.jsonl"));
        assert!(refused(&file, Format::Jsonl, true).contains(".zst"));
    }
}
