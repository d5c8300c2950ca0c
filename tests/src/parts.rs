//! The files of a series.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::{Capture, Record};

/// The files of a series in their order.
pub fn parts(dir: &Path, stem: &str, ending: &str) -> Vec<PathBuf> {
    let mut parts: Vec<PathBuf> = fs::read_dir(dir)
        .expect("a directory")
        .map(|e| e.expect("an entry").path())
        .filter(|p| {
            let name = p.file_name().unwrap_or_default().to_string_lossy();
            name.strip_prefix(stem)
                .is_some_and(|rest| rest.starts_with("-0") && rest.ends_with(ending))
        })
        .collect();
    parts.sort();
    parts
}

/// Its text, also of a compressed one.
pub fn read(path: &Path) -> String {
    let bytes = fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let bytes = match path.extension().is_some_and(|e| e == "zst") {
        true => zstd::decode_all(bytes.as_slice()).expect("a whole stream"),
        false => bytes,
    };
    String::from_utf8(bytes).expect("UTF-8")
}

/// Checks each part by itself and puts them together as one capture.
pub fn joined(parts: &[PathBuf]) -> Capture {
    let captures: Vec<Capture> = parts.iter().map(|p| Capture::parse(&read(p))).collect();
    for (part, capture) in (1..).zip(&captures) {
        assert_eq!(capture.meta().num("part"), part);
        let is_last = part == captures.len() as u64;
        assert_eq!(capture.end().get("continued").is_none(), is_last);
        assert_eq!(capture.end()["exit_code"].is_null(), !is_last);
        let count = |kind| capture.of(kind).count() as u64;
        assert_eq!(capture.end()["events"].num("exec"), count("exec"));
        assert_eq!(capture.end()["events"].num("fork"), count("fork"));
    }
    let sum =
        |count: &dyn Fn(&Value) -> u64| -> u64 { captures.iter().map(|c| count(c.end())).sum() };
    let mut end = captures.last().expect("a part").end().clone();
    for kind in ["fork", "exec", "exit"] {
        end["events"][kind] = sum(&|e| e["events"].num(kind)).into();
    }
    end["lost"] = sum(&|e| e.num("lost")).into();
    let mut lines = vec![captures[0].meta().clone()];
    for capture in &captures {
        lines.extend(capture.lines[1..capture.lines.len() - 1].iter().cloned());
    }
    lines.push(end);
    let text: String = lines.iter().map(|l| l.to_string() + "\n").collect();
    Capture::parse(&text)
}

/// A file that was being written when tracer was killed: its whole lines.
pub fn whole_lines(path: &Path) -> String {
    let bytes = fs::read(path).expect("it is there");
    let mut text = Vec::new();
    match path.extension().is_some_and(|e| e == "zst") {
        true => {
            use std::io::Read as _;
            // The missing end is an error; what comes before it counts.
            let _ = zstd::Decoder::new(bytes.as_slice()).map(|mut d| d.read_to_end(&mut text));
        }
        false => text = bytes,
    }
    let end = text
        .iter()
        .rposition(|b| *b == b'\n')
        .map_or(0, |at| at + 1);
    text.truncate(end);
    String::from_utf8(text).expect("UTF-8")
}
