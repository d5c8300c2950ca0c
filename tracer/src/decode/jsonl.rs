//! Our own captures (JSON Lines, schema 1), read back: plain or `.zst`.
//!
//! [`Head`] is the part of a line that says what it is about; the whole line is
//! for whoever needs every member ([`object`]).

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::model::{Precision, ProcId};
use crate::sink::jsonl::SCHEMA;

/// Magic number of a zstd frame.
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// A file as it was written, decompressed.
#[derive(Debug, Default)]
pub struct Contents {
    pub bytes: Vec<u8>,
    /// The compressed stream has no end: its writer was killed.
    pub cut: bool,
}

/// Reads a whole file, decompressing what begins as zstd does.
///
/// # Errors
/// It cannot be opened or read, or the compressed data is damaged.
pub fn read(path: &Path) -> io::Result<Contents> {
    let mut file = BufReader::new(File::open(path)?);
    let begin = file.fill_buf()?;
    if begin.starts_with(&ZSTD) {
        to_end(&mut zstd::stream::read::Decoder::with_buffer(file)?)
    } else {
        to_end(&mut file)
    }
}

fn to_end(from: &mut impl Read) -> io::Result<Contents> {
    let mut contents = Contents::default();
    match from.read_to_end(&mut contents.bytes) {
        Ok(_) => {}
        // What came before is whole.
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => contents.cut = true,
        Err(e) => return Err(e),
    }
    Ok(contents)
}

/// Why a line is none of ours. The caller knows its number.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    #[error("expected a JSON object with a member `type`: {0}")]
    Json(#[from] serde_json::Error),
    #[error("schema {0} was written by another version of tracer, this one reads schema {SCHEMA}")]
    Schema(u64),
    #[error("a line of type `{kind}` needs `{member}`")]
    Lacks { kind: String, member: &'static str },
}

/// What a line is about. Members that its type does not have are absent.
#[derive(Debug, Default, Deserialize)]
pub struct Head<'a> {
    #[serde(rename = "type", borrow)]
    pub kind: Cow<'a, str>,
    pub schema: Option<u64>,
    pub ts: Option<u64>,
    pub cpu: Option<u32>,
    pub pid: Option<u32>,
    pub start: Option<u64>,
    #[serde(borrow)]
    start_precision: Option<Cow<'a, str>>,
    pub tid: Option<u32>,
    pub child_pid: Option<u32>,
    child_start: Option<u64>,
    #[serde(borrow)]
    child_start_precision: Option<Cow<'a, str>>,
    pub child_tid: Option<u32>,
    pub thread: Option<bool>,
    pub process: Option<bool>,
    pub kthread: Option<bool>,
    pub end: Option<u64>,
    pub signal: Option<u32>,
    pub count: Option<u64>,
    /// Of `lost`: what is missing.
    #[serde(rename = "kind", borrow)]
    pub lost_kind: Option<Cow<'a, str>>,
}

impl<'a> Head<'a> {
    /// # Errors
    /// It is no JSON object, has no `type`, or its schema is another one.
    pub fn parse(line: &'a [u8]) -> Result<Self, LineError> {
        let head: Self = serde_json::from_slice(line)?;
        match head.schema {
            Some(schema) if head.kind == "meta" && schema != u64::from(SCHEMA) => {
                Err(LineError::Schema(schema))
            }
            _ => Ok(head),
        }
    }

    /// The process that the line names as its own.
    pub fn id(&self) -> Option<ProcId> {
        identity(self.pid, self.start, self.start_precision.as_deref())
    }

    pub fn child(&self) -> Option<ProcId> {
        identity(
            self.child_pid,
            self.child_start,
            self.child_start_precision.as_deref(),
        )
    }

    /// `value`, or an error that names what the line lacks.
    ///
    /// # Errors
    /// There is no value.
    pub fn need<T>(&self, value: Option<T>, member: &'static str) -> Result<T, LineError> {
        value.ok_or_else(|| LineError::Lacks {
            kind: self.kind.clone().into_owned(),
            member,
        })
    }
}

/// The whole line.
///
/// # Errors
/// It is no JSON object.
pub fn object(line: &[u8]) -> Result<Map<String, Value>, LineError> {
    Ok(serde_json::from_slice(line)?)
}

/// An identity in the members `pid`, `start` and `precision` of a line.
pub fn member_id(
    object: &Map<String, Value>,
    [pid, start, precision]: [&str; 3],
) -> Option<ProcId> {
    let number = |key| object.get(key).and_then(Value::as_u64);
    identity(
        number(pid).and_then(|pid| u32::try_from(pid).ok()),
        number(start),
        object.get(precision).and_then(Value::as_str),
    )
}

fn identity(pid: Option<u32>, start: Option<u64>, precision: Option<&str>) -> Option<ProcId> {
    Some(ProcId {
        pid: pid?,
        start: start?,
        precision: match precision {
            Some("tick") => Precision::Tick,
            Some("inferred") => Precision::Inferred,
            _ => Precision::Exact,
        },
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_head_knows_its_identities() {
        let line = br#"{"type":"fork","ts":5,"cpu":1,"pid":7,"start":3,"start_precision":"tick","tid":7,"comm":"\u001b","child_pid":8,"child_start":4,"child_tid":8,"thread":false,"new":[1]}"#;
        let head = Head::parse(line).unwrap();
        assert_eq!(head.id().map(|id| id.precision), Some(Precision::Tick));
        assert_eq!(head.child(), Some(ProcId::exact(8, 4)));
        let object = object(line).unwrap();
        let child = member_id(&object, ["child_pid", "child_start", "-"]);
        assert_eq!(child, Some(ProcId::exact(8, 4)));
    }

    #[test]
    fn what_is_no_line_of_ours_is_an_error_that_says_so() {
        for line in ["", "[]", "{}", "{\"type\":1}", "not json"] {
            assert!(Head::parse(line.as_bytes()).is_err(), "{line}");
        }
        let other = Head::parse(br#"{"type":"meta","schema":2}"#).unwrap_err();
        assert!(other.to_string().contains("schema 2"), "{other}");
    }

    #[test]
    fn a_cut_compressed_file_gives_what_it_has() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.zst");
        let mut encoder = zstd::Encoder::new(File::create(&path).unwrap(), 3).unwrap();
        encoder.write_all(b"{\"type\":\"x\"}\n").unwrap();
        encoder.flush().unwrap();
        drop(encoder);
        let contents = read(&path).unwrap();
        assert_eq!(contents.bytes, b"{\"type\":\"x\"}\n");
        assert!(contents.cut);
    }
}
