//! How many of the kernel side's records a second the user side takes: decoder, reorderer, process table, JSON Lines;
//! and how many lines of ftrace's text its parser.
//!
//! `cargo run --release --example throughput [PROCESSES]` makes up the records of that many short processes on two
//! CPUs (fork, exec with its text, exit, final totals) as they would lie in the ring, and writes to `/dev/null`.

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tracer::decode::ftrace::Text as FtraceText;
use tracer::decode::{Decoder, Known, Settings};
use tracer::model::{Bytes, Event, Field, Meta, ProcId};
use tracer::pipeline::Pipeline;
use tracer::sink::Destination;
use tracer::sink::jsonl::Jsonl;
use tracer::sink::output::Output;
use tracer::source::Drained;
use tracer_common::record::{
    ExecRecord, ExitRecord, FinalRecord, ForkRecord, Header, Text, Totals, kind,
};

const CPUS: u16 = 2;
/// Records between two looks at the clock and the sinks, as the source has it.
const BATCH: usize = 4096;
const FILENAME: &[u8] = b"/usr/lib/gcc/x86_64-linux-gnu/14/cc1";
/// Components from the leaf upward, as the kernel side gives them.
const CWD: &[u8] = b"build\0project\0user\0home\0";
const ARGV: &[u8] = b"/usr/lib/gcc/x86_64-linux-gnu/14/cc1\0-quiet\0-imultiarch\0x86_64-linux-gnu\0src/unit.c\0-quiet\0\
-dumpdir\0out/\0-dumpbase\0unit.c\0-mtune=generic\0-march=x86-64\0-O2\0-Wall\0-o\0/tmp/ccABCDEF.s\0";
const ROUNDS: usize = 5;
const ROOT: (u32, u64) = (1000, 1);

fn main() -> Result<()> {
    let processes = match std::env::args().nth(1) {
        Some(arg) => arg.parse().context("usage: throughput [PROCESSES]")?,
        None => 100_000,
    };
    let records = records(processes);
    println!(
        "{} records of {processes} processes, best of {ROUNDS} rounds",
        records.len()
    );
    println!("| stage | records/s | ns a record | ns a process |");
    println!("|---|---|---|---|");
    report("decode", &records, processes, decode);
    report("decode → order → table", &records, processes, |r| {
        all(r, None)
    });
    let null = || Output::open(&Destination::from_arg(Path::new("/dev/null")), false);
    null()?;
    report(
        "decode → order → table → JSONL",
        &records,
        processes,
        |r| {
            all(r, null().ok());
        },
    );
    text();
    Ok(())
}

/// Lines a second of ftrace's text: what a real trace printed, over and over, in
/// pieces as a pipe gives them.
fn text() {
    const SAMPLE: &[u8] = include_bytes!("../tests/data/ftrace/ftrace-6.18.txt");
    const TIMES: usize = 500;
    const PIECE: usize = 64 << 10;
    let input = SAMPLE.repeat(TIMES);
    let lines = input.iter().filter(|b| **b == b'\n').count();
    let mut best = Duration::MAX;
    let mut records = 0;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let mut parser = FtraceText::new();
        for piece in input.chunks(PIECE) {
            parser.push(piece);
            while let Some(item) = parser.next(false) {
                black_box(item);
            }
        }
        best = best.min(start.elapsed());
        records = parser.records();
    }
    println!();
    println!(
        "ftrace text: {lines} lines, {records} records: {:.0} lines/s",
        lines as f64 / best.as_secs_f64()
    );
}

fn report(name: &str, records: &[Vec<u8>], processes: u32, run: impl Fn(&[Vec<u8>])) {
    let mut best = Duration::MAX;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        run(records);
        best = best.min(start.elapsed());
    }
    // Counts are far below what f64 cannot hold.
    let (secs, count) = (best.as_secs_f64(), records.len() as f64);
    println!(
        "| {name} | {:.0} | {:.0} | {:.0} |",
        count / secs,
        secs * 1e9 / count,
        secs * 1e9 / f64::from(processes.max(1))
    );
}

fn decoder() -> Decoder {
    let path = Bytes::from(b"/user.slice/user-1000.slice/session-1.scope".to_vec());
    Decoder::new(Settings {
        cpus: CPUS.into(),
        page_size: 4096,
        env: false,
        known: Known::ALL,
        cgroup: Box::new(move |_| Field::Full(path.clone())),
    })
}

fn decode(records: &[Vec<u8>]) {
    let mut decoder = decoder();
    for record in records {
        let done = decoder.decode(record, &mut |order, event| {
            black_box((order, event));
        });
        black_box(done.is_ok());
    }
}

fn all(records: &[Vec<u8>], output: Option<Output>) {
    let mut pipeline = Pipeline::new();
    if let Some(output) = output {
        pipeline.add("/dev/null", Box::new(Jsonl::new(output)));
    }
    pipeline.begin(&Meta {
        backend: "ebpf",
        kernel: String::new(),
        host: String::new(),
        boot_id: String::new(),
        cpus: CPUS.into(),
        wall_start_ns: 0,
        boot_start_ns: 0,
        command: Vec::new(),
        root: Some(ProcId::exact(ROOT.0, ROOT.1)),
        part: None,
    });
    let mut decoder = decoder();
    let mut events: Vec<(u64, Event)> = Vec::new();
    for batch in records.chunks(BATCH) {
        for record in batch {
            let done = decoder.decode(record, &mut |order, event| events.push((order, event)));
            black_box(done.is_ok());
        }
        let drained = Drained {
            complete_to: decoder.watermark(),
            empty: false,
        };
        pipeline.take(&mut events, drained);
        pipeline.flush();
    }
    black_box(pipeline.finish(&mut events, 0, 0));
}

/// The ring's contents: processes alternate between the CPUs, and a process's totals become final when some others
/// have come and gone.
fn records(processes: u32) -> Vec<Vec<u8>> {
    const LATE: u32 = 64;
    let mut ring = Ring::default();
    for number in 0..processes.saturating_add(LATE) {
        if number < processes {
            ring.life(number);
        }
        if let Some(number) = number.checked_sub(LATE) {
            ring.totals_final(number);
        }
    }
    ring.records
}

#[derive(Default)]
struct Ring {
    records: Vec<Vec<u8>>,
    seq: [[u32; kind::COUNT]; CPUS as usize],
    ts: u64,
}

impl Ring {
    fn header(&mut self, kind: u8, cpu: u16, (tgid, start): (u32, u64)) -> Header {
        let counters = self.seq.get_mut(usize::from(cpu));
        let next = counters.and_then(|kinds| kinds.get_mut(usize::from(kind)));
        let seq = next.map_or(0, |next| std::mem::replace(next, *next + 1));
        self.ts += 1000;
        Header {
            kind,
            flags: 0,
            cpu,
            seq,
            ts: self.ts,
            tgid,
            tid: tgid,
            start,
        }
    }

    fn life(&mut self, number: u32) {
        let (cpu, child) = (cpu(number), identity(number));
        let fork = ForkRecord {
            h: self.header(kind::FORK, cpu, ROOT),
            comm: *b"make\0\0\0\0\0\0\0\0\0\0\0\0",
            child_tgid: child.0,
            child_tid: child.0,
            child_start: child.1,
            real_ppid: ROOT.0,
            child_ns_pid: 0,
            real_parent_start: ROOT.1,
        };
        self.push(&fork, &[]);

        let comm = *b"cc1\0\0\0\0\0\0\0\0\0\0\0\0\0";
        let exec = ExecRecord {
            h: self.header(kind::EXEC, cpu, child),
            comm,
            ppid: ROOT.0,
            parent_start: ROOT.1,
            uid: 1000,
            euid: 1000,
            gid: 1000,
            egid: 1000,
            loginuid: 1000,
            sid: ROOT.0,
            pgid: ROOT.0,
            cgroup_id: 42,
            pieces: 1,
            argv_len: length(ARGV),
            ..ExecRecord::default()
        };
        self.push(&exec, &[]);
        let body = [FILENAME, CWD, ARGV].concat();
        let text = Text {
            h: self.header(kind::TEXT, cpu, child),
            exec_seq: exec.h.seq,
            // Constants of a few dozen bytes.
            filename_len: FILENAME.len() as u16,
            cwd_len: CWD.len() as u16,
            len: length(&body),
            ..Text::default()
        };
        self.push(&text, &body);

        let exit = ExitRecord {
            h: self.header(kind::EXIT, cpu, child),
            comm,
            ppid: ROOT.0,
            orig_ppid: ROOT.0,
            parent_start: ROOT.1,
            orig_parent_start: ROOT.1,
            status: if number.is_multiple_of(64) { 256 } else { 0 },
            ns_pid: 0,
            uid: 1000,
            gid: 1000,
            thread_start: child.1,
            cgroup_id: 42,
            totals: totals(number),
        };
        self.push(&exit, &[]);
    }

    fn totals_final(&mut self, number: u32) {
        let record = FinalRecord {
            h: self.header(kind::FINAL, cpu(number), identity(number)),
            totals: totals(number),
        };
        self.push(&record, &[]);
    }

    fn push<T: Record>(&mut self, record: &T, text: &[u8]) {
        // SAFETY: a live value of a repr(C) struct without padding (contract of Record), and its size.
        let bytes = unsafe {
            std::slice::from_raw_parts((&raw const *record).cast::<u8>(), size_of::<T>())
        };
        self.records.push([bytes, text].concat());
    }
}

/// A record's struct, as the kernel side writes it.
///
/// # Safety
/// It must be `repr(C)`, of integers, and without padding.
unsafe trait Record {}

macro_rules! records {
    ($($name:ident)*) => {$(
        // SAFETY: repr(C), integers only, padded by members of its own (a rule of tracer-common).
        unsafe impl Record for $name {}
    )*};
}

records! { ForkRecord ExecRecord Text ExitRecord FinalRecord }

fn length(text: &[u8]) -> u32 {
    u32::try_from(text.len()).unwrap_or(0)
}

const fn cpu(number: u32) -> u16 {
    if number.is_multiple_of(2) { 0 } else { 1 }
}

fn identity(number: u32) -> (u32, u64) {
    // Numbers come again, as the kernel's do.
    (2000 + number % 30_000, 10_000 + u64::from(number))
}

fn totals(number: u32) -> Totals {
    let some = u64::from(number % 1000);
    Totals {
        utime_ns: 4_000_000,
        stime_ns: 4_000_000,
        runtime_ns: 6_123_456 + some,
        minflt: 800 + some,
        nvcsw: 3,
        nivcsw: 7,
        oublock: 16,
        rchar: 123_456,
        wchar: 4096,
        write_bytes: 8192,
        run_delay_ns: 345_678,
        maxrss_pages: 9000 + some,
        mm_peak_pages: 9000 + some,
        threads: 1,
        ..Totals::default()
    }
}
