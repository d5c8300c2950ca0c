//! Pages and formats: of three kernels, and of anything.

use proptest::prelude::*;

use super::format::{EVENTS, Formats};
use super::page::{Missed, Page};
use super::text_tests::{data, part};
use super::{Body, Record};
use crate::model::Comm;

fn formats(kernel: &str) -> Formats {
    let file = [b"\n", &data(kernel)[..]].concat();
    let texts = EVENTS.map(|e| String::from_utf8(part(&file, &format!("{e}/format"))).unwrap());
    Formats::parse(texts.each_ref().map(String::as_str)).unwrap()
}

/// Entries as the kernel writes them.
#[derive(Default)]
struct Built(Vec<u8>);

impl Built {
    fn half(&mut self, value: u32) -> &mut Self {
        self.0.extend(value.to_ne_bytes());
        self
    }

    fn head(&mut self, kind: u32, delta: u32) -> &mut Self {
        self.half(kind | delta << 5)
    }

    /// A record whose length is in its head, or with `long` in a word of its own.
    fn record(&mut self, delta: u32, bytes: &[u8], long: bool) -> &mut Self {
        let padded = bytes.len().next_multiple_of(4);
        let length = u32::try_from(padded).unwrap();
        if long {
            self.head(0, delta).half(length + 4);
        } else {
            self.head(length / 4, delta);
        }
        self.0.extend(bytes);
        self.0.resize(self.0.len() + padded - bytes.len(), 0);
        self
    }

    fn page(&self, ts: u64, flags: i64, missed: Option<u64>) -> Vec<u8> {
        let commit = flags + i64::try_from(self.0.len()).unwrap();
        let mut page = [ts.to_ne_bytes(), commit.to_ne_bytes()].concat();
        page.extend(&self.0);
        page.extend(missed.map(u64::to_ne_bytes).iter().flatten());
        page.resize(4096.max(page.len()), 0);
        page
    }
}

/// `local_add` of an int whose top bit is set: negative.
const MISSED: i64 = -(1 << 31);
const STORED: i64 = 1 << 30;

fn all(page: &[u8]) -> (Vec<(u64, Vec<u8>)>, Missed, bool) {
    let mut page = Page::new(page).unwrap();
    let missed = page.missed();
    let records = (&mut page).map(|(ts, data)| (ts, data.to_vec())).collect();
    (records, missed, page.is_damaged())
}

#[test]
fn entries_of_every_kind() {
    let mut built = Built::default();
    built
        .record(5, b"abcdefgh", false)
        .record(7, b"long", true)
        // Time extend: 3 << 27, and 9.
        .head(30, 9)
        .half(3)
        .record(1, b"next", false)
        // An absolute time.
        .head(31, 8)
        .half(100)
        .record(0, b"stmp", false)
        // A discarded entry of 8 bytes of data.
        .head(29, 1)
        .half(8)
        .half(0)
        .record(2, b"last", false)
        // Nothing more.
        .head(29, 0);
    let (records, missed, damaged) = all(&built.page(1 << 40, 0, None));
    let extended = (1 << 40) + 12 + (3 << 27) + 9 + 1;
    let stamped = (100 << 27) + 8;
    let expected: [(u64, &[u8]); 5] = [
        ((1 << 40) + 5, b"abcdefgh"),
        ((1 << 40) + 12, b"long"),
        (extended, b"next"),
        (stamped, b"stmp"),
        (stamped + 3, b"last"),
    ];
    assert_eq!(records, expected.map(|(ts, data)| (ts, data.to_vec())));
    assert_eq!((missed, damaged), (Missed::None, false));
}

#[test]
fn missed_records_are_told() {
    let mut built = Built::default();
    built.record(1, b"abcd", false);
    for (flags, stored, expected) in [
        (MISSED + STORED, Some(108), Missed::Some(108)),
        (MISSED, None, Missed::Unknown),
        (0, None, Missed::None),
    ] {
        let (records, missed, _) = all(&built.page(7, flags, stored));
        assert_eq!((records, missed), (vec![(8, b"abcd".to_vec())], expected));
    }
}

#[test]
fn an_entry_beyond_the_page_ends_it() {
    let mut built = Built::default();
    built.record(1, b"abcd", false).head(28, 1);
    let (records, _, damaged) = all(&built.page(0, 0, None));
    assert_eq!((records.len(), damaged), (1, true));
    assert!(Page::new(&built.page(0, 5000, None)).is_none());
    assert!(Page::new(b"short").is_none());
}

fn put(record: &mut [u8], offset: usize, bytes: &[u8]) {
    record[offset..offset + bytes.len()].copy_from_slice(bytes);
}

/// Bytes laid out by hand as the formats of the samples say.
#[test]
fn records_of_three_kernels() {
    for (kernel, fork_id, exit_id) in [
        ("ftrace-6.1.txt", 308_u16, 311_u16),
        ("ftrace-6.12.txt", 304, 307),
        ("ftrace-6.18.txt", 366, 369),
    ] {
        let formats = formats(kernel);
        let new = kernel.contains("6.18");
        let mut fork = vec![0; 64];
        put(&mut fork, 0, &fork_id.to_ne_bytes());
        put(&mut fork, 4, &77_u32.to_ne_bytes());
        if new {
            put(&mut fork, 8, &(24_u32 | 4 << 16).to_ne_bytes());
            put(&mut fork, 12, &77_u32.to_ne_bytes());
            put(&mut fork, 20, &78_u32.to_ne_bytes());
            put(&mut fork, 24, b"a)b\0");
        } else {
            put(&mut fork, 8, b"a)b\0");
            put(&mut fork, 24, &77_u32.to_ne_bytes());
            put(&mut fork, 44, &78_u32.to_ne_bytes());
        }
        let comm = Comm::new(b"a)b");
        let expected = (77, Body::Fork { comm, child: 78 });
        assert_eq!(formats.decode(&fork), Some(expected), "{kernel}");

        let mut exit = vec![0; 36];
        put(&mut exit, 0, &exit_id.to_ne_bytes());
        put(&mut exit, 8, b"a)b\0");
        put(&mut exit, 24, &77_u32.to_ne_bytes());
        put(&mut exit, 32, &[1]);
        let group_dead = new.then_some(true);
        let expected = (77, Body::Exit { comm, group_dead });
        assert_eq!(formats.decode(&exit), Some(expected), "{kernel}");

        for short in 0..24 {
            assert_eq!(formats.decode(&fork[..short]), None);
        }
        assert_eq!(formats.decode(&[0; 64]), None, "another event");
    }
}

#[test]
fn a_format_that_lacks_something_is_an_error_that_names_it() {
    let error = Formats::parse(["", "", "", ""]).unwrap_err().to_string();
    assert!(error.contains(EVENTS[0]), "{error}");
    let error = Formats::parse(["ID: 1\n", "", "", ""])
        .unwrap_err()
        .to_string();
    assert!(error.contains("pid"), "{error}");
}

proptest! {
    #[test]
    fn no_page_makes_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600), length in 0_u32..600) {
        let mut page = vec![0; 8];
        page.extend(u64::from(length).to_ne_bytes());
        page.extend(&bytes);
        let formats = formats("ftrace-6.18.txt");
        if let Some(page) = Page::new(&page) {
            for (_, record) in page {
                let decoded = formats.decode(record);
                let _whole = decoded.map(|(tid, body)| Record { ts: 0, cpu: 0, tid, body });
            }
        }
    }
}
