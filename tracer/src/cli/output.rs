//! Which format a file of `-o` gets.

use std::path::Path;

use clap::ValueEnum;

use crate::sink::output::Destination;

// Not doc comments on the variants: clap would make --help three times as long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    // One JSON object a line: every event and every process.
    Jsonl,
    // One row a process.
    Csv,
    // The tree and the summary.
    Txt,
}

/// One `-o`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    pub to: Destination,
    pub format: Format,
    /// Compressed (`.zst`).
    pub zstd: bool,
}

impl Output {
    /// `forced` is that of `--format`; without it the ending decides, and
    /// stdout is JSONL.
    pub(super) fn new(path: &Path, forced: Option<Format>) -> Result<Self, String> {
        let to = Destination::from_arg(path);
        if to == Destination::Stdout {
            return Ok(Self {
                to,
                format: forced.unwrap_or(Format::Jsonl),
                zstd: false,
            });
        }
        let zstd = path.extension().is_some_and(|e| e == "zst");
        let plain = if zstd {
            path.with_extension("")
        } else {
            path.to_path_buf()
        };
        let ending = plain
            .extension()
            .and_then(|e| e.to_str())
            .unwrap_or_default();
        let format = match forced {
            Some(format) => format,
            None => Format::from_str(ending, true).map_err(|_| {
                format!(
                    "-o {}: no format is known by that ending; use .jsonl, .csv or .txt (or these with .zst), or add --format",
                    path.display()
                )
            })?,
        };
        Ok(Self { to, format, zstd })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ending_decides_unless_the_format_is_given() {
        let of =
            |path: &str, forced| Output::new(Path::new(path), forced).map(|o| (o.format, o.zstd));
        assert_eq!(of("a.jsonl", None), Ok((Format::Jsonl, false)));
        assert_eq!(of("dir.csv/a.TXT", None), Ok((Format::Txt, false)));
        assert_eq!(of("a.csv.zst", None), Ok((Format::Csv, true)));
        assert_eq!(of("-", None), Ok((Format::Jsonl, false)));
        assert_eq!(of("-", Some(Format::Csv)), Ok((Format::Csv, false)));
        assert_eq!(of("/dev/null", Some(Format::Csv)), Ok((Format::Csv, false)));
        for wrong in ["a", "a.xls", ".jsonl", "a.zst", ""] {
            let error = of(wrong, None).unwrap_err();
            assert!(error.contains("--format"), "{error}");
        }
    }
}
