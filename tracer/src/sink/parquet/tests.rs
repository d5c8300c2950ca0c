//! Tests of the Parquet sink that need no other reader: files, names, footers.

use parquet::file::reader::{FileReader, SerializedFileReader};

use super::*;
use crate::sink::Stats;
use crate::sink::format::{Encoding, FileOptions, Rotation, SinkOptions, build_parts};
use crate::sink::output::Destination;
use crate::sink::samples::{end, every_event, every_process, meta};
use crate::sink::series::Keep;

fn sink(path: &Path, rotation: Option<Rotation>) -> Box<dyn Sink> {
    let encoding = Encoding::from_path(path, None).expect("known");
    let files = FileOptions {
        rotation,
        ..FileOptions::default()
    };
    let to = Destination::File(path.into());
    build_parts(&to, encoding, SinkOptions::default(), &files).expect("open")
}

fn fill(sink: &mut dyn Sink) {
    every_event()
        .iter()
        .for_each(|e| sink.event(e, None).expect("event"));
    every_process()
        .iter()
        .for_each(|p| sink.process(p).expect("process"));
}

fn rows(path: &Path) -> i64 {
    let file = fs::File::open(path).expect("open");
    let reader = SerializedFileReader::new(file).expect("a footer");
    let rows = reader.metadata().file_metadata().num_rows();
    let read = reader.get_row_iter(None).expect("rows");
    let read: Vec<_> = read.map(|r| r.expect("a row")).collect();
    assert_eq!(read.len() as i64, rows);
    rows
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir)
        .expect("read")
        .map(|e| e.expect("entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Events that have a row.
fn events() -> i64 {
    let has_row = |e: &&Event| !matches!(e, Event::Final(_) | Event::Gone { .. });
    every_event().iter().filter(has_row).count() as i64
}

#[test]
fn a_file_appears_when_it_is_complete() {
    let dir = tempfile::tempdir().expect("tempdir");
    let path = dir.path().join("x.parquet");
    fs::write(&path, "of an earlier run").expect("write");
    let mut sink = sink(&path, None);
    assert_eq!(
        names(dir.path()),
        ["x.events.parquet.tmp", "x.parquet.tmp"],
        "what was there has gone"
    );
    sink.begin(&meta()).expect("begin");
    fill(sink.as_mut());
    sink.end(&end()).expect("end");
    assert_eq!(names(dir.path()), ["x.events.parquet", "x.parquet"]);
    assert_eq!(rows(&path), every_process().len() as i64);
    assert_eq!(rows(&dir.path().join("x.events.parquet")), events());
}

#[test]
fn two_outputs_do_not_share_a_file() {
    let dir = tempfile::tempdir().expect("tempdir");
    let path = dir.path().join("x.parquet");
    let _first = sink(&path, None);
    let error = Parquet::open(&path, None, 0).err().expect("it is open");
    assert!(error.to_string().contains("another"), "{error}");
}

#[test]
fn pairs_of_files_have_one_number_and_every_row_once() {
    let dir = tempfile::tempdir().expect("tempdir");
    let path = dir.path().join("x.parquet");
    let rotation = Rotation {
        size: None,
        every: None,
        keep: Keep::All,
    };
    for run in 0..2 {
        let mut sink = sink(&path, Some(rotation));
        sink.begin(&meta()).expect("begin");
        fill(sink.as_mut());
        sink.rotate().expect("rotate");
        fill(sink.as_mut());
        sink.end(&end()).expect("end");
        let Stats {
            rotations, lost, ..
        } = sink.stats();
        assert_eq!((rotations, lost), (1, 0), "run {run}");
    }
    let names = names(dir.path());
    let of =
        |prefix: &str| -> Vec<&String> { names.iter().filter(|n| n.starts_with(prefix)).collect() };
    let (processes, events_) = (of("x-00000"), of("x.events-00000"));
    assert_eq!((processes.len(), events_.len(), names.len()), (4, 4, 8));
    for (a, b) in processes.iter().zip(&events_) {
        assert_eq!(a[1..8], b[8..15]);
    }
    let sum = |names: &[&String]| -> i64 { names.iter().map(|n| rows(&dir.path().join(n))).sum() };
    assert_eq!(sum(&processes), 4 * every_process().len() as i64);
    assert_eq!(sum(&events_), 4 * events());
}

#[test]
fn row_groups_are_bounded() {
    let dir = tempfile::tempdir().expect("tempdir");
    let path = dir.path().join("x.parquet");
    let mut sink = sink(&path, None);
    sink.begin(&meta()).expect("begin");
    let process = every_process().remove(0);
    for _ in 0..70_000 {
        sink.process(&process).expect("process");
    }
    sink.end(&end()).expect("end");
    let reader = SerializedFileReader::new(fs::File::open(&path).expect("open")).expect("footer");
    assert!(reader.num_row_groups() > 1, "{}", reader.num_row_groups());
    assert_eq!(reader.metadata().file_metadata().num_rows(), 70_000);
}
