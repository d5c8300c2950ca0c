//! Execs out of their pieces, whole and not.

use tracer_common::record::{
    ExecRecord, ExecShort, Header, Inline, SHORT_TEXT, Text, flags, kind, section,
};

use super::DecodeError;
use super::record_tests::{bytes, decoder, feed, header};
use crate::model::{Args, Bytes, Event, Exec, Field, ProcId, Reason};

/// An exec in the records of one CPU, cut as the kernel side cuts.
pub(super) struct Sample<'a> {
    pub seq: u32,
    pub argv: &'a [u8],
    pub env: &'a [u8],
    pub piece: usize,
    pub flags: u8,
}

impl Sample<'_> {
    const FILENAME: &'static [u8] = b"/bin/ls";
    const CWD: &'static [u8] = b"b\0a\0";

    fn text(&self, section: u8, offset: usize, body: &[u8]) -> Vec<u8> {
        let first = section == section::FIRST;
        let text = Text {
            h: header(kind::TEXT, 0, 0, 100),
            section,
            exec_seq: self.seq,
            filename_len: if first { 7 } else { 0 },
            cwd_len: if first { 4 } else { 0 },
            offset: u32::try_from(offset).unwrap(),
            len: u32::try_from(body.len()).unwrap(),
            ..Text::default()
        };
        // A reserve has a constant size: what lies behind `len` is of no meaning.
        [bytes(&text), body.to_vec(), vec![0xee; 3]].concat()
    }

    /// The exec record, then its texts.
    pub fn records(&self) -> Vec<Vec<u8>> {
        let head = self.argv.len().min(self.piece);
        let first = [Self::FILENAME, Self::CWD, &self.argv[..head]].concat();
        let mut texts = vec![self.text(section::FIRST, 0, &first)];
        for (i, piece) in self.argv[head..].chunks(self.piece).enumerate() {
            texts.push(self.text(section::ARGV, head + i * self.piece, piece));
        }
        for (i, piece) in self.env.chunks(self.piece).enumerate() {
            texts.push(self.text(section::ENV, i * self.piece, piece));
        }
        let exec = ExecRecord {
            h: Header {
                flags: self.flags,
                ..header(kind::EXEC, 0, self.seq, 100)
            },
            comm: *b"ls\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
            ppid: 9,
            parent_start: 4,
            euid: 1000,
            loginuid: u32::MAX,
            cgroup_id: 77,
            pieces: u16::try_from(texts.len()).unwrap(),
            argv_len: u32::try_from(self.argv.len()).unwrap(),
            env_len: u32::try_from(self.env.len()).unwrap(),
            ..ExecRecord::default()
        };
        texts.insert(0, bytes(&exec));
        texts
    }
}

/// The same exec in one record.
fn short(sample: &Sample<'_>) -> Vec<u8> {
    let records = sample.records();
    let mut exec: ExecRecord = super::read::read(&records[0]).unwrap();
    exec.pieces = 0;
    let text = [Sample::FILENAME, Sample::CWD, sample.argv].concat();
    let inline = Inline {
        filename_len: u16::try_from(Sample::FILENAME.len()).unwrap(),
        cwd_len: u16::try_from(Sample::CWD.len()).unwrap(),
        len: u32::try_from(text.len()).unwrap(),
    };
    let unused = vec![0xee; SHORT_TEXT - text.len()];
    let record = [bytes(&exec), bytes(&inline), text, unused].concat();
    assert_eq!(record.len(), size_of::<ExecShort>());
    record
}

#[test]
fn a_short_exec_is_the_same_as_one_in_pieces() {
    let sample = Sample {
        seq: 0,
        argv: LONG,
        env: b"",
        piece: 100,
        flags: 0,
    };
    let record = short(&sample);
    assert_eq!(
        exec_of(false, std::slice::from_ref(&record)),
        exec_of(false, &sample.records())
    );
    // Lengths that do not fit are an error; what is sure of the exec comes all the same.
    let at = size_of::<ExecRecord>();
    for (place, value) in [(at, 0xff), (at + 2, 0xff), (at + 5, 0xff)] {
        let mut wrong = record.clone();
        wrong[place] = value;
        let (events, result) = feed(&mut decoder(false), &wrong);
        assert_eq!(result, Err(DecodeError::Length { kind: kind::EXEC }));
        let [Event::Exec(exec)] = &*events else {
            panic!("{events:?}")
        };
        assert_eq!(exec.argv, Field::Missing(Reason::Lost));
    }
    let cut = &record[..at + 3];
    assert!(feed(&mut decoder(false), cut).1.is_err());
}

/// Marks text record `lost` (counted from the first text) as one that did not fit.
fn lose(records: &mut Vec<Vec<u8>>, lost: usize) {
    records.remove(lost + 1);
    let mut exec: ExecRecord = super::read::read(&records[0]).unwrap();
    exec.pieces -= 1;
    exec.pieces_lost += 1;
    records[0] = bytes(&exec);
}

fn exec_of(env: bool, records: &[Vec<u8>]) -> Exec {
    let mut d = decoder(env);
    let mut events = Vec::new();
    for (i, record) in records.iter().enumerate() {
        assert!(events.is_empty(), "given before text {i} came");
        d.decode(record, &mut |_, e| events.push(e)).unwrap();
    }
    let Some(Event::Exec(exec)) = events.pop() else {
        panic!("no exec")
    };
    (*exec).clone()
}

pub(super) fn args(b: &[u8]) -> Args {
    Args(b.into())
}

pub(super) const LONG: &[u8] = b"ls\0-l\0\0a rather long argument\0";

#[test]
fn an_exec_comes_whole_out_of_its_pieces() {
    for piece in [1, 5, 100] {
        let sample = Sample {
            seq: 0,
            argv: LONG,
            env: b"A=1\0B=\0",
            piece,
            flags: 0,
        };
        let e = exec_of(true, &sample.records());
        assert_eq!(e.argv, Field::Full(args(LONG)));
        assert_eq!(e.env, Some(Field::Full(args(b"A=1\0B=\0"))));
        assert_eq!(e.filename, Field::Full(Bytes::from(&b"/bin/ls"[..])));
        assert_eq!(e.cwd, Field::Full(Bytes::from(&b"/a/b"[..])));
        assert_eq!(e.cgroup, Field::Full(Bytes::from(&b"/77"[..])));
        assert_eq!(e.parent, Some(ProcId::exact(9, 4)));
        assert_eq!(
            (e.loginuid, e.euid, e.tty, e.ns_pid, e.old_tid),
            (None, Some(1000), None, None, None)
        );
        assert_eq!(exec_of(false, &sample.records()).env, None);
    }
}

#[test]
fn what_is_missing_of_an_exec_is_marked() {
    let sample = |flags| Sample {
        seq: 0,
        argv: LONG,
        env: b"A=1\0",
        piece: 5,
        flags,
    };
    let mut records = sample(0).records();
    lose(&mut records, 2);
    let e = exec_of(true, &records);
    assert_eq!(
        e.argv,
        Field::Truncated(args(&LONG[..10])),
        "nothing from behind the hole"
    );
    assert_eq!(e.env, Some(Field::Full(args(b"A=1\0"))));

    let mut records = sample(0).records();
    lose(&mut records, 0);
    let e = exec_of(false, &records);
    assert_eq!(e.filename, Field::Missing(Reason::Lost));
    assert_eq!(e.cwd, Field::Missing(Reason::Lost));
    assert_eq!(e.argv, Field::Missing(Reason::Lost));
    assert_eq!(e.id, ProcId::exact(10, 5));

    let e = exec_of(
        false,
        &sample(flags::USER_FAULT | flags::FILENAME_CUT | flags::CWD_CUT).records(),
    );
    assert_eq!(e.argv, Field::Truncated(args(LONG)));
    assert_eq!(e.filename.state(), "truncated");
    assert_eq!(e.cwd, Field::Truncated(Bytes::from(&b"a/b"[..])));

    let mut fault = Sample {
        argv: b"",
        env: b"",
        ..sample(flags::USER_FAULT)
    }
    .records();
    let mut exec: ExecRecord = super::read::read(&fault[0]).unwrap();
    exec.argv_len = 12;
    fault[0] = bytes(&exec);
    assert_eq!(exec_of(false, &fault).argv, Field::Missing(Reason::Fault));

    // A cap: the kernel side took less than there was.
    let mut capped = sample(0).records();
    exec = super::read::read(&capped[0]).unwrap();
    exec.argv_len = 100_000;
    capped[0] = bytes(&exec);
    assert_eq!(exec_of(false, &capped).argv, Field::Truncated(args(LONG)));
}

#[test]
fn text_that_never_comes_does_not_hold_up_its_exec_for_ever() {
    let mut d = decoder(false);
    let records = Sample {
        seq: 0,
        argv: LONG,
        env: b"",
        piece: 5,
        flags: 0,
    }
    .records();
    for record in &records[..3] {
        assert_eq!(feed(&mut d, record), (vec![], Ok(())));
    }
    let mut events = Vec::new();
    d.finish(&[], 9, &mut |_, e| events.push(e));
    assert!(
        matches!(&events[..], [Event::Exec(e)] if e.argv == Field::Truncated(args(&LONG[..10])))
    );
    // What comes all the same has no exec any more.
    assert!(matches!(
        feed(&mut d, &records[3]).1,
        Err(DecodeError::Orphan { .. })
    ));

    // Another exec on the same CPU ends the wait, too.
    feed(
        &mut d,
        &Sample {
            seq: 1,
            argv: LONG,
            env: b"",
            piece: 5,
            flags: 0,
        }
        .records()[0],
    )
    .1
    .unwrap();
    let (events, result) = feed(
        &mut d,
        &Sample {
            seq: 2,
            argv: LONG,
            env: b"",
            piece: 5,
            flags: 0,
        }
        .records()[0],
    );
    assert_eq!(
        (events.len(), result),
        (1, Err(DecodeError::Incomplete { cpu: 0 }))
    );
}
