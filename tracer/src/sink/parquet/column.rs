//! Rows by columns, as Parquet wants them: values one after the other, and for each
//! row a level that says whether there is one.

use std::sync::Arc;

use super::Capture;
use crate::model::{Args, Field};
use crate::sink::output::queue::Chunk;

/// Rows of a row group at most.
const ROWS: u64 = 65_536;
/// Bytes of a row group, before encoding, when it is full.
const BYTES: usize = 4 << 20;

/// What a column holds. Every column may be null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Bool,
    Int,
    Long,
    /// Nanoseconds since 1970, UTC.
    Time,
    Text,
    /// Bytes; for what is not UTF-8.
    Blob,
    Texts,
    Blobs,
}

/// Names and kinds of a table's columns, in order.
#[derive(Clone, Copy)]
pub struct Schema {
    /// For the file's schema.
    pub name: &'static str,
    /// By function, as the tables' definitions have more in them.
    pub columns: fn() -> Vec<(&'static str, Kind)>,
}

pub enum Values {
    Bools(Vec<bool>),
    Ints(Vec<i32>),
    Longs(Vec<i64>),
    /// All bytes, and where each value ends.
    Bytes(Vec<u8>, Vec<usize>),
}

pub struct Column {
    pub values: Values,
    /// 1 with a value, 0 without. In a list: 0 no list, 1 an empty one, 2 a value.
    pub defined: Vec<i16>,
    /// In a list: 0 for the first entry of a row, 1 for a further one.
    pub repeated: Option<Vec<i16>>,
}

impl Column {
    fn new(kind: Kind) -> Self {
        let values = match kind {
            Kind::Bool => Values::Bools(Vec::new()),
            Kind::Int => Values::Ints(Vec::new()),
            Kind::Long | Kind::Time => Values::Longs(Vec::new()),
            Kind::Text | Kind::Blob | Kind::Texts | Kind::Blobs => {
                Values::Bytes(Vec::new(), Vec::new())
            }
        };
        Self {
            values,
            defined: Vec::new(),
            repeated: matches!(kind, Kind::Texts | Kind::Blobs).then(Vec::new),
        }
    }

    fn bytes(&self) -> usize {
        let values = match &self.values {
            Values::Bools(v) => v.len(),
            Values::Ints(v) => v.len() * 4,
            Values::Longs(v) => v.len() * 8,
            Values::Bytes(v, ends) => v.len() + ends.len() * 8,
        };
        values + self.defined.len() * 2 + self.repeated.as_ref().map_or(0, |r| r.len() * 2)
    }

    fn entry(&mut self, defined: i16, repeated: i16) {
        self.defined.push(defined);
        if let Some(r) = &mut self.repeated {
            r.push(repeated);
        }
    }

    pub fn null(&mut self) {
        self.entry(0, 0);
    }

    pub fn bool(&mut self, value: Option<bool>) {
        match (value, &mut self.values) {
            (Some(value), Values::Bools(v)) => {
                v.push(value);
                self.entry(1, 0);
            }
            _ => self.null(),
        }
    }

    /// Pids, codes, small counts.
    pub fn int(&mut self, value: Option<impl TryInto<i32>>) {
        match (value.and_then(|v| v.try_into().ok()), &mut self.values) {
            (Some(value), Values::Ints(v)) => {
                v.push(value);
                self.entry(1, 0);
            }
            _ => self.null(),
        }
    }

    /// Times, sizes, user ids. What does not fit into 63 bits does not occur.
    pub fn long(&mut self, value: Option<impl TryInto<i64>>) {
        match (value.and_then(|v| v.try_into().ok()), &mut self.values) {
            (Some(value), Values::Longs(v)) => {
                v.push(value);
                self.entry(1, 0);
            }
            _ => self.null(),
        }
    }

    pub fn time(&mut self, boot_ns: Option<u64>, capture: &Capture) {
        self.long(boot_ns.and_then(|t| capture.wall(t)));
    }

    fn push(&mut self, value: &[u8]) {
        if let Values::Bytes(bytes, ends) = &mut self.values {
            bytes.extend_from_slice(value);
            ends.push(bytes.len());
        }
    }

    /// What is not UTF-8 is lossy here.
    pub fn text(&mut self, value: Option<&[u8]>) {
        let Some(value) = value else {
            return self.null();
        };
        self.push(String::from_utf8_lossy(value).as_bytes());
        self.entry(1, 0);
    }

    /// Only what is not UTF-8: the rest has lost nothing as text.
    pub fn blob(&mut self, value: Option<&[u8]>) {
        match value.filter(|v| std::str::from_utf8(v).is_err()) {
            Some(value) => {
                self.push(value);
                self.entry(1, 0);
            }
            None => self.null(),
        }
    }

    pub fn texts(&mut self, args: Option<&Args>) {
        self.list(args, |column, value| {
            column.push(String::from_utf8_lossy(value).as_bytes());
        });
    }

    /// All strings as soon as one is not UTF-8.
    pub fn blobs(&mut self, args: Option<&Args>) {
        let odd = args.filter(|a| std::str::from_utf8(&a.0).is_err());
        self.list(odd, Self::push);
    }

    fn list(&mut self, args: Option<&Args>, push: fn(&mut Self, &[u8])) {
        let Some(args) = args else {
            return self.null();
        };
        let mut repeated = 0;
        for value in args.iter() {
            push(self, value);
            self.entry(2, repeated);
            repeated = 1;
        }
        if repeated == 0 {
            self.entry(1, 0);
        }
    }

    /// `full`, `truncated` or `missing`.
    pub fn state<T>(&mut self, field: Option<&Field<T>>) {
        self.text(field.map(|f| f.state().as_bytes()));
    }
}

/// Rows that are written together.
pub struct Group {
    pub columns: Vec<Column>,
    pub rows: u64,
    bytes: usize,
    /// For the file that it begins.
    pub meta: Arc<str>,
}

impl Group {
    pub fn new(schema: Schema) -> Self {
        let columns = (schema.columns)().into_iter();
        Self {
            columns: columns.map(|(_, kind)| Column::new(kind)).collect(),
            rows: 0,
            bytes: 0,
            meta: Arc::default(),
        }
    }

    pub fn end_row(&mut self) {
        self.rows += 1;
        // Not for each row: it asks all columns.
        if self.rows.is_multiple_of(64) || self.columns.iter().any(|c| c.bytes() > BYTES / 8) {
            self.bytes = self.columns.iter().map(Column::bytes).sum();
        }
    }

    pub fn is_full(&self) -> bool {
        self.rows >= ROWS || self.bytes >= BYTES
    }

    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }
}

impl Chunk for Group {
    fn bytes(&self) -> usize {
        self.columns.iter().map(Column::bytes).sum()
    }

    fn records(&self) -> u64 {
        self.rows
    }

    fn emptied(self) -> Option<Self> {
        // As large as it was it would hold its memory while little happens.
        None
    }
}
