//! Recorded `format` files and `hist` files of real kernels, for tests.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use super::filter::Machine;
use super::format::EventFormat;
use super::plan::{KeyForm, Plan, ValueForm};
use super::resolve::{Resolve, Symbol};
use super::table::{KeyValue, Row, Table};

pub const HIST_6_1: &str = include_str!("../../tests/data/hist/hist-6.1.txt");
pub const HIST_6_12: &str = include_str!("../../tests/data/hist/hist-6.12.txt");
pub const HIST_MORE: &str = include_str!("../../tests/data/hist/hist-more-6.12.txt");
pub const FORMATS: &str = include_str!("../../tests/data/hist/formats-6.12.txt");
/// `ok|EVENT|TRIGGER|what the trigger file says` or `no|EVENT|TRIGGER|message`
pub const CORPUS: &str = include_str!("../../tests/data/hist/corpus-6.12.txt");

/// Verdict, event, trigger and what was said, escaped, with tabs between.
pub const CORPUS_MORE: &str = include_str!("../../tests/data/hist/corpus-more-6.12.tsv");

/// Verdict, and two triggers with their events.
pub const PAIRS: &str = include_str!("../../tests/data/hist/pairs-6.12.tsv");

/// The guest in which they were judged.
pub struct Guest;

/// Some of its symbols.
const SYMBOLS: [(&str, Range<u64>); 10] = [
    ("_text", 0xffff_ffff_8100_0000..0xffff_ffff_8100_1000),
    ("_stext", 0xffff_ffff_8100_0000..0xffff_ffff_8100_1000),
    ("do_exit", 0xffff_ffff_810c_ad30..0xffff_ffff_810c_b820),
    ("kfree", 0xffff_ffff_813c_5c20..0xffff_ffff_813c_5f90),
    (
        "__x64_sys_close",
        0xffff_ffff_8144_2ad0..0xffff_ffff_8144_2b50,
    ),
    ("schedule", 0xffff_ffff_81c9_ae40..0xffff_ffff_81c9_af00),
    ("_etext", 0xffff_ffff_8200_0000..0xffff_ffff_82c0_0000),
    ("_sdata", 0xffff_ffff_82c0_0000..0xffff_ffff_82c0_4000),
    ("jiffies", 0xffff_ffff_82c0_79c0..0xffff_ffff_82c0_7a00),
    ("init_task", 0xffff_ffff_82c1_0940..0xffff_ffff_82c1_2f80),
];

impl Machine for Guest {
    fn cpus(&self) -> u32 {
        2
    }

    fn function(&self, name: &str) -> Result<Option<Range<u64>>, String> {
        let found = SYMBOLS.iter().find(|s| s.0 == name);
        Ok(found.map(|s| s.1.clone()))
    }

    fn function_at(&self, address: u64) -> Result<Option<Range<u64>>, String> {
        let found = SYMBOLS.iter().find(|s| s.1.contains(&address));
        Ok(found.map(|s| s.1.clone()))
    }
}

/// The format of `sched/sched_process_exit` and its like, on 6.12.
pub fn format(event: &str) -> EventFormat {
    let (system, name) = event.split_once('/').unwrap();
    let (_, text) = FORMATS.split_once(&format!("## {event}/format\n")).unwrap();
    let text = text.split("\n## ").next().unwrap();
    EventFormat::parse(system, name, text).unwrap()
}

/// A block of a recorded `hist` file.
pub struct Sample<'a> {
    pub event: &'a str,
    pub trigger: &'a str,
    /// `None`: the kernel refused it.
    pub text: Option<&'a str>,
}

impl Sample<'_> {
    /// `hist:keys=…:size=2048 [active]`
    pub fn info(&self) -> &str {
        let (_, rest) = self.text.unwrap().split_once("# trigger info: ").unwrap();
        rest.split("\n#\n\n").next().unwrap()
    }
}

pub fn samples(file: &str) -> Vec<Sample<'_>> {
    let blocks = file.split("\n#### ").filter_map(|block| {
        let (title, body) = block.split_once('\n')?;
        let (event, trigger) = title.split_once(": ")?;
        let text = body.split("---- trigger file:").next()?;
        Some(Sample {
            event: event.contains('/').then_some(event)?,
            trigger,
            text: (!body.starts_with("WRITE FAILED")).then_some(text),
        })
    });
    blocks.collect()
}

/// Names that were read out of a recorded file.
#[derive(Default)]
pub struct Recorded {
    symbols: BTreeMap<u64, String>,
    syscalls: BTreeMap<u64, String>,
}

impl Resolve for Recorded {
    fn symbol(&self, address: u64) -> Option<Symbol<'_>> {
        let text = self.symbols.get(&address)?;
        let number = |s: &str| u64::from_str_radix(s.trim_start_matches("0x"), 16).unwrap();
        let (text, module) = match text.split_once(" [") {
            Some((text, module)) => (text, Some(module.trim_end_matches(']'))),
            None => (text.as_str(), None),
        };
        let (name, place) = text.split_once("+0x").unwrap_or((text, "0/0"));
        let (offset, size) = place.split_once('/').unwrap();
        // An address without a symbol is printed as a number.
        (!name.starts_with("0x")).then(|| Symbol {
            name,
            offset: number(offset),
            size: number(size),
            module,
        })
    }

    fn syscall(&self, number: u64) -> Option<Cow<'_, str>> {
        let name = self
            .syscalls
            .get(&number)
            .filter(|n| *n != "unknown_syscall");
        name.map(|n| Cow::Borrowed(n.as_str()))
    }
}

/// Reads a `hist` file back. Of shares and bars no more than what is shown is known: the
/// values are such that they give the same shares and bars.
pub fn read(plan: &Plan, text: &str) -> (Table, Recorded) {
    let (_, rest) = text.split_once("]\n#\n\n").unwrap();
    let (rows, totals) = rest.rsplit_once("\nTotals:\n").unwrap();
    let total = |what: &str| -> u64 {
        let (_, rest) = totals.split_once(what).unwrap();
        rest.split_whitespace().next().unwrap().parse().unwrap()
    };
    let mut reader = Reader {
        text: rows,
        names: Recorded::default(),
    };
    let mut table = Table {
        hits: total("Hits:"),
        dropped: total("Dropped:"),
        ..Table::default()
    };
    while !reader.text.is_empty() {
        table.rows.push(reader.row(plan));
    }
    assert_eq!(table.rows.len() as u64, total("Entries:"));
    for (i, value) in plan.values.iter().enumerate() {
        if value.form == ValueForm::Percent {
            spread(&mut table, i);
        }
    }
    (table, reader.names)
}

/// Makes values of shares in hundredths of a per cent.
fn spread(table: &mut Table, column: usize) {
    const UNIT: u64 = 1_000_000;
    let shares: u64 = table.rows.iter().map(|r| r.values[column]).sum();
    let rest = (10_000 * UNIT).saturating_sub(shares * UNIT);
    let count = table.rows.len() as u64;
    for (i, row) in table.rows.iter_mut().enumerate() {
        let last = if i == 0 { rest % count } else { 0 };
        row.values[column] = row.values[column] * UNIT + rest / count + last;
    }
    if shares == 0 {
        table.rows.iter_mut().for_each(|r| r.values[column] = 0);
    }
}

struct Reader<'a> {
    text: &'a str,
    names: Recorded,
}

impl<'a> Reader<'a> {
    fn expect(&mut self, what: &str) {
        self.text = self.text.strip_prefix(what).unwrap_or_else(|| {
            panic!("{what:?} expected at {:?}", self.text.lines().next());
        });
    }

    fn until(&mut self, end: impl Fn(char) -> bool) -> &'a str {
        let at = self.text.find(end).unwrap();
        let (text, rest) = self.text.split_at(at);
        self.text = rest;
        text
    }

    fn number(&mut self, radix: u32) -> u64 {
        self.text = self.text.trim_start_matches(' ');
        u64::from_str_radix(self.until(|c| !c.is_ascii_hexdigit()), radix).unwrap()
    }

    /// Of this width at least, longer up to a blank.
    fn padded(&mut self, width: usize) -> &'a str {
        let whole = self.text;
        let mut at = width;
        while !whole[..at].ends_with(' ') && !whole[at..].starts_with([',', ' ', '[']) {
            at += 1;
        }
        self.text = &whole[at..];
        whole[..at].trim_end()
    }

    fn row(&mut self, plan: &Plan) -> Row {
        self.expect("{ ");
        let mut keys = Vec::new();
        for (i, key) in plan.keys.iter().enumerate() {
            if i > 0 {
                self.expect(", ");
            }
            self.expect(match key.form {
                KeyForm::Stack => key.spec(),
                _ => &key.name,
            });
            self.expect(":");
            keys.push(self.key(key.form));
        }
        self.text = self.text.trim_start_matches(' ');
        self.expect("}");
        let mut hitcount = 0;
        if !plan.no_hitcount {
            self.expect(" hitcount:");
            hitcount = self.number(10);
        }
        let mut values = Vec::new();
        for value in &plan.values {
            self.expect(&format!("  {}", value.name));
            values.push(match value.form {
                ValueForm::Percent => {
                    self.expect(" (%):");
                    let whole = self.number(10);
                    self.expect(".");
                    100 * whole + self.number(10)
                }
                ValueForm::Graph => {
                    self.expect(": ");
                    let (bar, rest) = self.text.split_at(20);
                    self.text = rest;
                    bar.matches('#').count() as u64 * 1000
                }
                ValueForm::Hex => {
                    self.expect(":");
                    self.number(16)
                }
                ValueForm::Decimal => {
                    self.expect(":");
                    self.number(10)
                }
            });
        }
        self.expect("\n");
        Row {
            keys,
            hitcount,
            values,
            ..Row::default()
        }
    }

    fn key(&mut self, form: KeyForm) -> KeyValue {
        match form {
            KeyForm::Stack => {
                self.expect("\n");
                let mut frames = Vec::new();
                while self.text.starts_with("         ") {
                    let line = self.until(|c| c == '\n').trim();
                    self.expect("\n");
                    let known = self.names.symbols.iter().find(|(_, name)| *name == line);
                    let next = 0xffff_ffff_0000_0000 + self.names.symbols.len() as u64;
                    let address = known.map_or(next, |(address, _)| *address);
                    self.names.symbols.insert(address, line.to_owned());
                    frames.push(address);
                }
                return KeyValue::Stack(frames);
            }
            KeyForm::Text => {
                self.expect(" ");
                return KeyValue::Text(self.padded(50).into());
            }
            KeyForm::ExecName => {
                self.expect(" ");
                let (comm, rest) = self.text.split_at(16);
                self.text = rest;
                self.expect("[");
                let number = self.number(10);
                self.expect("]");
                let comm = comm.trim_end().into();
                return KeyValue::Task { number, comm };
            }
            _ => {}
        }
        KeyValue::Number(match form {
            KeyForm::Hex => self.number(16),
            KeyForm::Symbol | KeyForm::SymbolOffset => {
                self.expect(" [");
                let address = self.number(16);
                self.expect("] ");
                let width = if form == KeyForm::Symbol { 45 } else { 55 };
                let name = self.padded(width).to_owned();
                self.names.symbols.insert(address, name);
                address
            }
            KeyForm::Syscall => {
                self.expect(" ");
                let name = self.padded(30).to_owned();
                self.expect("[");
                let number = self.number(10);
                self.expect("]");
                self.names.syscalls.insert(number, name);
                number
            }
            KeyForm::Log2 => {
                self.expect(" ~ 2^");
                let exponent = self.number(10);
                if exponent < 10 {
                    self.expect(" ");
                }
                exponent
            }
            KeyForm::Buckets(_) => {
                self.expect(" ~ ");
                let low = self.number(10);
                self.expect("-");
                self.number(10);
                low
            }
            _ => self.number(10),
        })
    }
}
