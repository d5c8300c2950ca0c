//! A JSONL capture, read back.

use std::collections::{BTreeMap, HashSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::Truth;
use crate::knows::UNKNOWN;

/// Members of a record, with a message that shows the record when one is not
/// as the format promises.
pub trait Record {
    fn num(&self, key: &str) -> u64;
    fn opt_num(&self, key: &str) -> Option<u64>;
    fn text(&self, key: &str) -> &str;
    fn flag(&self, key: &str) -> bool;
    fn kind(&self) -> &str {
        self.text("type")
    }
    /// The bytes of a string, exact even where they are not UTF-8.
    fn bytes(&self, key: &str) -> Vec<u8>;
    /// The strings of an array, likewise.
    fn list(&self, key: &str) -> Vec<Vec<u8>>;
    /// (pid, start): who the record is about.
    fn id(&self) -> (u64, u64) {
        (self.num("pid"), self.num("start"))
    }
    /// Exit code (`3`) or signal (`s15`), or [`UNKNOWN`].
    fn code(&self) -> String;
}

impl Record for Value {
    fn num(&self, key: &str) -> u64 {
        self.opt_num(key)
            .unwrap_or_else(|| panic!("no number {key} in {self}"))
    }

    fn opt_num(&self, key: &str) -> Option<u64> {
        self.get(key)?.as_u64()
    }

    fn text(&self, key: &str) -> &str {
        self.get(key)
            .and_then(Value::as_str)
            .unwrap_or_else(|| panic!("no string {key} in {self}"))
    }

    fn flag(&self, key: &str) -> bool {
        self.get(key)
            .and_then(Value::as_bool)
            .unwrap_or_else(|| panic!("no boolean {key} in {self}"))
    }

    fn bytes(&self, key: &str) -> Vec<u8> {
        match self.get(format!("{key}_b64")) {
            Some(b64) => decode(b64),
            None => self.text(key).into(),
        }
    }

    fn list(&self, key: &str) -> Vec<Vec<u8>> {
        if let Some(b64) = self.get(format!("{key}_b64")).and_then(Value::as_array) {
            return b64.iter().map(decode).collect();
        }
        let strings = self
            .get(key)
            .and_then(Value::as_array)
            .unwrap_or_else(|| panic!("no list {key} in {self}"));
        strings
            .iter()
            .map(|s| {
                s.as_str()
                    .unwrap_or_else(|| panic!("not a string: {s}"))
                    .into()
            })
            .collect()
    }

    fn code(&self) -> String {
        match (self.opt_num("exit_code"), self.opt_num("signal")) {
            (Some(code), None) => code.to_string(),
            (None, Some(signal)) => format!("s{signal}"),
            (None, None) if self["exit_code"].is_null() && self["signal"].is_null() => {
                UNKNOWN.into()
            }
            _ => panic!("neither a code nor a signal, or both, in {self}"),
        }
    }
}

fn decode(b64: &Value) -> Vec<u8> {
    let text = b64.as_str().unwrap_or_else(|| panic!("not base64: {b64}"));
    STANDARD
        .decode(text)
        .unwrap_or_else(|e| panic!("{text:?}: {e}"))
}

#[derive(Debug)]
pub struct Capture {
    pub lines: Vec<Value>,
}

impl Capture {
    /// Parses a whole capture and checks what holds for each one: `meta` first
    /// and `end` last, both once; events in order of `ts`; a process once.
    pub fn parse(text: &str) -> Self {
        assert!(
            text.ends_with('\n'),
            "the last line is not whole: {:?}",
            text.lines().last()
        );
        let lines: Vec<Value> = text
            .lines()
            .enumerate()
            .map(|(n, l)| {
                serde_json::from_str(l).unwrap_or_else(|e| panic!("line {}: {e}: {l:?}", n + 1))
            })
            .collect();
        let capture = Self { lines };
        let kinds: Vec<&str> = capture.lines.iter().map(Record::kind).collect();
        assert_eq!(
            (kinds.first(), kinds.last()),
            (Some(&"meta"), Some(&"end")),
            "first and last line"
        );
        assert_eq!(capture.of("meta").count(), 1);
        assert_eq!(capture.of("end").count(), 1);
        let mut last = 0;
        for line in &capture.lines {
            let Some(ts) = line.opt_num("ts") else {
                continue;
            };
            assert!(ts >= last, "out of order by {} ns: {line}", last - ts);
            last = ts;
        }
        let mut seen = HashSet::new();
        for p in capture.of("process") {
            assert!(seen.insert(p.id()), "a process twice: {p}");
        }
        capture
    }

    /// The lines that are there whole, of a capture that is still being written.
    pub fn whole_lines(text: &str) -> Vec<Value> {
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let parse = |(n, l): (usize, &str)| {
            serde_json::from_str(l).unwrap_or_else(|e| panic!("line {}: {e}: {l:?}", n + 1))
        };
        whole.lines().enumerate().map(parse).collect()
    }

    /// Those that ran before, each once.
    pub fn seeds(&self) -> BTreeMap<(u64, u64), &Value> {
        let mut seeds = BTreeMap::new();
        for seed in self.of("seed") {
            assert!(seeds.insert(seed.id(), seed).is_none(), "twice: {seed}");
        }
        seeds
    }

    pub fn of<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.lines.iter().filter(move |l| l.kind() == kind)
    }

    pub fn meta(&self) -> &Value {
        &self.lines[0]
    }

    pub fn end(&self) -> &Value {
        &self.lines[self.lines.len() - 1]
    }

    pub fn root_pid(&self) -> u64 {
        self.meta().num("root_pid")
    }

    /// The command's own row.
    pub fn root(&self) -> &Value {
        self.process(self.root_pid())
    }

    /// The only row of `pid`: for runs too short to use a pid twice.
    pub fn process(&self, pid: u64) -> &Value {
        self.only("process", |p| p.num("pid") == pid)
    }

    /// The only line of `kind` that `matches`.
    pub fn only<'a>(&'a self, kind: &'a str, matches: impl Fn(&Value) -> bool) -> &'a Value {
        let found: Vec<&Value> = self.of(kind).filter(|l| matches(l)).collect();
        assert_eq!(
            found.len(),
            1,
            "expected one {kind}, found {found:#?}\nin {}",
            self.outline()
        );
        found[0]
    }

    /// Ends of processes: exit events without those of threads.
    pub fn ends(&self) -> impl Iterator<Item = &Value> {
        self.of("exit").filter(|e| e.flag("process"))
    }

    /// Records of `kind` that are missing, as the `lost` lines say.
    pub fn lost(&self, kind: &str) -> u64 {
        self.of("lost")
            .filter(|l| l.text("kind") == kind)
            .map(|l| l.num("count"))
            .sum()
    }

    pub fn lost_at_all(&self) -> u64 {
        self.of("lost").map(|l| l.num("count")).sum()
    }

    /// The capture counted as workloads count themselves.
    pub fn tally(&self) -> Truth {
        let root = self.root_pid();
        let mut truth = Truth::default();
        for fork in self.of("fork") {
            *(if fork.flag("thread") {
                &mut truth.threads
            } else {
                &mut truth.forks
            }) += 1;
        }
        truth.execs = self.of("exec").count() as u64;
        if self.of("exec").any(|e| e.num("pid") == root) {
            truth.execs -= 1;
        }
        for exit in self.ends().filter(|e| e.num("pid") != root) {
            truth.exits += 1;
            *truth.codes.entry(exit.code()).or_default() += 1;
        }
        truth
    }

    /// Asserts that the capture has each event of `truth` and nothing else.
    pub fn assert_exact(&self, truth: &Truth) {
        assert_eq!(
            self.of("lost").collect::<Vec<_>>(),
            Vec::<&Value>::new(),
            "nothing may be lost"
        );
        assert_eq!(self.end().num("lost"), 0);
        let mut tally = self.tally();
        if self.of("fork").all(|f| !f.flag("thread")) {
            tally.threads = truth.threads;
        }
        let truth = &self.knowable(truth);
        assert_eq!(&tally, truth, "events (left) and truth (right)");
        // The rows say the same as the events.
        let root = self.root_pid();
        let mut codes = BTreeMap::new();
        for p in self.of("process").filter(|p| p.num("pid") != root) {
            *codes.entry(p.code()).or_default() += 1;
        }
        assert_eq!(codes, truth.codes, "process rows (left) and truth (right)");
        let ended: HashSet<_> = self.ends().map(Record::id).collect();
        for fork in self.of("fork").filter(|f| !f.flag("thread")) {
            let child = (fork.num("child_pid"), fork.num("child_start"));
            assert!(ended.contains(&child), "a fork without an end: {fork}");
        }
        for row in self.of("process") {
            self.assert_no_guess(&row["usage"]);
        }
        let counts = &self.end()["events"];
        assert_eq!(
            (counts.num("fork"), counts.num("exec"), counts.num("exit")),
            (truth.forks, truth.execs + 1, truth.exits + 1),
            "counts of the end line, which include the command's own exec and exit"
        );
    }

    /// The truth as far as the source can know it.
    pub fn knowable(&self, truth: &Truth) -> Truth {
        let mut codes = BTreeMap::new();
        for (code, count) in &truth.codes {
            *codes.entry(self.code(code)).or_default() += count;
        }
        Truth {
            codes,
            ..truth.clone()
        }
    }

    /// A line for each record, for messages.
    pub fn outline(&self) -> String {
        let short = self.lines.iter().take(60).map(|l| {
            let mut text = l.to_string();
            if let Some((at, _)) = text.char_indices().nth(220) {
                text.truncate(at);
            }
            text + "\n"
        });
        short.collect()
    }
}
