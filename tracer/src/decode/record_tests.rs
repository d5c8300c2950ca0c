//! Records as the kernel side would write them, and as nobody would.

use proptest::prelude::*;
use tracer_common::record::{
    Counters, ExecFailedRecord, ExecRecord, ExitRecord, FAILED_TEXT, FinalRecord, ForkRecord,
    GoneRecord, Header, SignalRecord, TOTALS, Text, Totals, flags, kind, section,
};

use super::exec_tests::{LONG, Sample, args};
use super::{DecodeError, Decoder, Known, Settings};
use crate::model::{Bytes, Event, Field, LossKind, LossPlace, Lost, ProcId, Reason, SignalBy};

pub(super) fn decoder(env: bool) -> Decoder {
    let cgroup = Box::new(|id: u64| Field::Full(Bytes::from(format!("/{id}").into_bytes())));
    Decoder::new(Settings {
        cpus: 2,
        page_size: 4096,
        env,
        known: Known::ALL,
        cgroup,
    })
}

/// The bytes of a record.
pub(super) fn bytes<T: super::read::Record>(record: &T) -> Vec<u8> {
    // SAFETY: a live reference, and a struct of integers without padding.
    unsafe { std::slice::from_raw_parts((&raw const *record).cast::<u8>(), size_of::<T>()) }
        .to_vec()
}

pub(super) fn header(kind: u8, cpu: u16, seq: u32, ts: u64) -> Header {
    Header {
        kind,
        flags: 0,
        cpu,
        seq,
        ts,
        tgid: 10,
        tid: 10,
        start: 5,
    }
}

pub(super) fn feed(d: &mut Decoder, record: &[u8]) -> (Vec<Event>, Result<(), DecodeError>) {
    let mut events = Vec::new();
    let result = d.decode(record, &mut |_, e| events.push(e));
    (events, result)
}

fn lost(ts: u64, cpu: u32, kind: LossKind, count: u64) -> Event {
    Event::Lost(Lost {
        ts,
        cpu: Some(cpu),
        place: LossPlace::Ring,
        kind,
        count,
    })
}

fn gone(cpu: u16, seq: u32, ts: u64) -> Vec<u8> {
    bytes(&GoneRecord {
        h: header(kind::GONE, cpu, seq, ts),
    })
}

#[test]
fn a_gap_is_a_loss_at_its_place() {
    let mut d = decoder(false);
    let fork = |cpu, seq, ts| {
        bytes(&ForkRecord {
            h: header(kind::FORK, cpu, seq, ts),
            ..ForkRecord::default()
        })
    };
    assert_eq!(feed(&mut d, &fork(0, 0, 1)).0.len(), 1);
    assert_eq!(
        feed(&mut d, &fork(1, 2, 2)).0[0],
        lost(2, 1, LossKind::Fork, 2),
        "before the first one"
    );
    assert_eq!(feed(&mut d, &fork(0, 1, 3)).0.len(), 1);
    assert_eq!(
        feed(&mut d, &gone(0, 3, 4)).0[0],
        lost(4, 0, LossKind::Exit, 3)
    );
    assert_eq!(
        feed(&mut d, &fork(0, 5, 5)).0[0],
        lost(5, 0, LossKind::Fork, 3)
    );

    let counters = |fork, text, table_full| {
        let mut c = Counters {
            seq: [0; kind::SLOTS],
            lost: [0; kind::SLOTS],
            table_full,
        };
        c.seq[usize::from(kind::FORK)] = fork;
        c.seq[usize::from(kind::TEXT)] = text;
        c.seq[usize::from(kind::GONE)] = 4;
        c
    };
    let mut quiet = counters(3, 0, 0);
    quiet.seq[usize::from(kind::GONE)] = 0;
    let ring = [counters(8, 9, 5), quiet];
    assert_eq!(
        d.table_losses(&[quiet, counters(0, 0, 2)], 8)
            .map(|l| l.count),
        Some(2)
    );
    assert_eq!(d.table_losses(&[quiet, counters(0, 0, 2)], 8), None);
    let mut events = Vec::new();
    d.finish(&ring, 9, &mut |_, e| events.push(e));
    let table = Lost {
        ts: 9,
        cpu: None,
        place: LossPlace::Table,
        kind: LossKind::Any,
        count: 3,
    };
    assert_eq!(events, [lost(9, 0, LossKind::Fork, 2), Event::Lost(table)]);
}

#[test]
fn sequence_numbers_wrap() {
    let mut d = decoder(false);
    feed(&mut d, &gone(0, u32::MAX / 2, 1)).1.unwrap();
    feed(&mut d, &gone(0, u32::MAX - 1, 2)).1.unwrap();
    assert_eq!(
        feed(&mut d, &gone(0, 1, 3)).0[0],
        lost(3, 0, LossKind::Exit, 2)
    );
    assert_eq!(feed(&mut d, &gone(0, 2, 4)).0.len(), 1);
    // A step back is no loss, and does not make the next one look like one.
    assert_eq!(feed(&mut d, &gone(0, 1, 5)).0.len(), 1);
    assert_eq!(feed(&mut d, &gone(0, 3, 6)).0.len(), 1);
}

#[test]
fn the_watermark_is_the_time_of_the_record_before() {
    let mut d = decoder(false);
    for (cpu, seq, ts, watermark) in [
        (0, 0, 10, 0),
        (1, 0, 8, 0),
        (1, 1, 20, 8),
        (0, 1, 15, 10),
        (0, 2, 30, 15),
    ] {
        feed(&mut d, &gone(cpu, seq, ts)).1.unwrap();
        assert_eq!(d.watermark(), watermark);
    }
    // An exec that waits for its text (ts 100) holds back what is later.
    let records = Sample {
        seq: 0,
        argv: LONG,
        env: b"",
        piece: 100,
        flags: 0,
    }
    .records();
    feed(&mut d, &records[0]).1.unwrap();
    for (seq, ts) in [(2, 150), (3, 200), (4, 210)] {
        feed(&mut d, &gone(1, seq, ts)).1.unwrap();
    }
    assert_eq!(d.watermark(), 99);
    let mut orders = Vec::new();
    d.decode(&records[1], &mut |order, _| orders.push(order))
        .unwrap();
    d.decode(&gone(1, 5, 220), &mut |order, _| orders.push(order))
        .unwrap();
    assert_eq!(d.watermark(), 210);
    assert!(
        orders[1] - orders[0] > 6,
        "the exec keeps its place in the ring: {orders:?}"
    );
}

#[test]
fn ids_that_are_not_known_are_absent() {
    let exit = ExitRecord {
        h: header(kind::EXIT, 0, 0, 9),
        uid: u32::MAX,
        status: 0x8b,
        ..ExitRecord::default()
    };
    let (events, _) = feed(&mut decoder(false), &bytes(&exit));
    let Event::Exit(e) = &events[0] else {
        panic!("{events:?}")
    };
    assert_eq!(
        (e.parent, e.orig_parent, e.uid, e.gid, e.ns_pid, e.threads),
        (None, None, None, Some(0), None, None)
    );
    assert_eq!(e.cgroup, Field::Missing(Reason::Kernel));
    assert!(
        e.status
            .is_some_and(|s| s.core_dumped && s.signal == Some(11))
    );
    assert!(!e.usage.is_final);
}

#[test]
fn a_failed_exec_has_its_arguments() {
    let mut r = ExecFailedRecord {
        h: header(kind::EXEC_FAILED, 0, 0, 9),
        comm: [0; 16],
        errno: 2,
        filename_len: 2,
        argc: 2,
        argv_len: 4,
        argv_cut: 0,
        _pad: [0; 5],
        text: [0; FAILED_TEXT],
    };
    r.text[..6].copy_from_slice(b"/xa\0b\0");
    let read = |r: &ExecFailedRecord| match feed(&mut decoder(false), &bytes(r)) {
        (events, Ok(())) => match &events[..] {
            [Event::ExecFailed(e)] => Ok(e.argv.clone()),
            other => panic!("{other:?}"),
        },
        (_, Err(e)) => Err(e),
    };
    assert_eq!(read(&r), Ok(Field::Full(args(b"a\0b\0"))));
    assert_eq!(
        read(&ExecFailedRecord { argv_cut: 1, ..r }),
        Ok(Field::Truncated(args(b"a\0b\0")))
    );
    assert_eq!(
        read(&ExecFailedRecord { argc: 3, ..r }),
        Ok(Field::Truncated(args(b"a\0b\0")))
    );
    assert_eq!(
        read(&ExecFailedRecord {
            argv_len: 2000,
            ..r
        }),
        Err(DecodeError::Length {
            kind: kind::EXEC_FAILED
        })
    );
}

proptest! {
    #[test]
    fn any_bytes_are_survived(
        records in proptest::collection::vec(
            // Bytes with a header that is plausible often enough to get behind it.
            (0u8..11, any::<u8>(), 0u16..4, 0u32..4, proptest::collection::vec(any::<u8>(), 0..1400)),
            0..40,
        ),
    ) {
        let mut d = decoder(true);
        let mut n = 0usize;
        for (kind, flags, cpu, seq, mut body) in records {
            let mut record = bytes(&Header { kind, flags, ..header(kind, cpu, seq, 1) });
            if body.len() > 40 {
                record.append(&mut body);
            } else {
                record = body;
            }
            let _ = d.decode(&record, &mut |_, _| n += 1);
            d.watermark();
        }
        d.finish(&[], 2, &mut |_, _| n += 1);
    }

    #[test]
    fn text_lengths_are_checked(
        section in 0u8..4, filename_len: u16, cwd_len: u16, offset in 0u32..20, len in 0u32..40,
        body in proptest::collection::vec(any::<u8>(), 0..60),
    ) {
        let mut d = decoder(true);
        let exec = ExecRecord { h: header(kind::EXEC, 0, 0, 1), pieces: 2, argv_len: 20, ..ExecRecord::default() };
        feed(&mut d, &bytes(&exec)).1.unwrap();
        let (filename_len, cwd_len) = (filename_len % 30, cwd_len % 30);
        let h = header(kind::TEXT, 0, 0, 1);
        let text = Text { h, section, filename_len, cwd_len, offset, len, ..Text::default() };
        let fits = len as usize <= body.len()
            && section <= section::ENV
            && (section != section::FIRST || u32::from(filename_len + cwd_len) <= len);
        let (_, result) = feed(&mut d, &[bytes(&text), body].concat());
        prop_assert_eq!(result.is_ok(), fits);
    }

    #[test]
    fn fork_round_trip(tgid: u32, start: u64, child: u32, child_start: u64, real in 1u32.., thread: bool, ns: u32) {
        let h = Header { tgid, start, flags: u8::from(thread), ..header(kind::FORK, 1, 0, 7) };
        let r = ForkRecord {
            h, child_tgid: child, child_start, real_ppid: real, child_ns_pid: ns, ..ForkRecord::default()
        };
        let (events, _) = feed(&mut decoder(false), &bytes(&r));
        let Event::Fork(e) = &events[0] else { panic!("{events:?}") };
        let parent = if thread { ProcId::exact(tgid, start) } else { ProcId::exact(real, 0) };
        prop_assert_eq!((e.parent, e.child, e.thread), (parent, ProcId::exact(child, child_start), thread));
        prop_assert_eq!((e.ts, e.cpu, e.child_ns_pid.unwrap_or(0)), (7, Some(1), ns));
    }

    #[test]
    fn totals_round_trip(run: u64, minflt: u64, read_bytes: u64, threads in 1u64..) {
        let totals = Totals { runtime_ns: run, minflt, read_bytes, threads, ..Totals::default() };
        let r = FinalRecord { h: header(kind::FINAL, 0, 0, 7), totals };
        let (events, _) = feed(&mut decoder(false), &bytes(&r));
        let Event::Final(e) = &events[0] else { panic!("{events:?}") };
        prop_assert!(e.usage.is_final);
        prop_assert_eq!((e.usage.cpu_ns, e.usage.minflt), (Some(run), Some(minflt)));
        prop_assert_eq!((e.usage.read_bytes, e.threads), (Some(read_bytes), Some(threads)));
    }

    #[test]
    fn short_totals_are_the_same(short: [u32; TOTALS], kind in prop::sample::select(vec![kind::EXIT, kind::FINAL])) {
        let head = match kind {
            kind::EXIT => bytes(&ExitRecord { h: header(kind, 0, 0, 7), ..ExitRecord::default() }),
            _ => bytes(&FinalRecord { h: header(kind, 0, 0, 7), ..FinalRecord::default() }),
        };
        let head = &head[..head.len() - size_of::<Totals>()];
        let wide: Vec<u8> = short.iter().flat_map(|v| u64::from(*v).to_ne_bytes()).collect();
        let short: Vec<u8> = short.iter().flat_map(|v| v.to_ne_bytes()).collect();
        let decoded = |totals: &[u8]| feed(&mut decoder(false), &[head, totals].concat());
        prop_assert_eq!(decoded(&short), decoded(&wide));
        prop_assert!(decoded(&short[1..]).1.is_err());
    }

    #[test]
    fn signal_round_trip(signal in 1u32..65, sender: u32, oom: bool, kernel: bool) {
        let flags = if kernel { flags::BY_KERNEL } else { 0 };
        let kind = if oom { kind::OOM } else { kind::SIGNAL };
        let h = Header { flags, ..header(kind, 0, 0, 7) };
        let r = SignalRecord { h, signal, sender_tgid: sender, ..SignalRecord::default() };
        let (events, _) = feed(&mut decoder(false), &bytes(&r));
        let Event::Signal(e) = &events[0] else { panic!("{events:?}") };
        let by = if oom { SignalBy::Oom } else if kernel { SignalBy::Kernel } else { SignalBy::Process };
        prop_assert_eq!((e.by, e.sender.map_or(0, |s| s.pid)), (by, sender));
        prop_assert_eq!(e.target, ProcId::exact(10, 5));
    }
}
