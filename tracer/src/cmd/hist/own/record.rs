//! A process's end as a record with members at fixed places, as a tracepoint's is.

use crate::hist::{EventFormat, Field};
use crate::model::Process;

/// A process's end, with all totals of its record.
pub const PROCESS_EXIT: &str = "process_exit";

/// What a member has.
enum Value {
    Unsigned(fn(&Process) -> Option<u64>),
    Signed(fn(&Process) -> Option<i64>),
    /// Of so many bytes.
    Text(u32, fn(&Process) -> Option<&[u8]>),
}

use Value::{Signed, Text, Unsigned};

/// All members, in the order of the record.
const MEMBERS: [(&str, Value); 34] = [
    ("comm", Text(16, |p| Some(p.comm.as_slice()))),
    ("exe", Text(256, |p| Some(p.exe.as_ref()?.as_slice()))),
    ("pid", Signed(|p| Some(p.id.pid.into()))),
    (
        "ppid",
        Signed(|p| Some(p.parent.or(p.orig_parent)?.pid.into())),
    ),
    ("uid", Unsigned(|p| p.uid.map(u64::from))),
    ("gid", Unsigned(|p| p.gid.map(u64::from))),
    // A process that a signal ended has no code, one that none ended no signal.
    (
        "exit_code",
        Signed(|p| Some(p.status?.exit_code.unwrap_or(-1).into())),
    ),
    (
        "signal",
        Signed(|p| Some(p.status?.signal.unwrap_or(0).into())),
    ),
    (
        "core_dumped",
        Unsigned(|p| Some(p.status?.core_dumped.into())),
    ),
    ("execs", Unsigned(|p| Some(p.execs.into()))),
    ("threads", Unsigned(|p| p.threads)),
    ("start", Unsigned(|p| Some(p.id.start))),
    ("end", Unsigned(|p| p.end)),
    ("wall_ns", Unsigned(Process::wall_ns)),
    ("cpu_ns", Unsigned(|p| p.usage.cpu_ns)),
    ("utime_ns", Unsigned(|p| p.usage.utime_ns)),
    ("stime_ns", Unsigned(|p| p.usage.stime_ns)),
    ("max_rss_bytes", Unsigned(|p| p.usage.max_rss_bytes)),
    (
        "max_rss_upper_bytes",
        Unsigned(|p| p.usage.max_rss_upper_bytes),
    ),
    ("minflt", Unsigned(|p| p.usage.minflt)),
    ("majflt", Unsigned(|p| p.usage.majflt)),
    ("nvcsw", Unsigned(|p| p.usage.nvcsw)),
    ("nivcsw", Unsigned(|p| p.usage.nivcsw)),
    ("inblock", Unsigned(|p| p.usage.inblock)),
    ("oublock", Unsigned(|p| p.usage.oublock)),
    ("read_bytes", Unsigned(|p| p.usage.read_bytes)),
    ("write_bytes", Unsigned(|p| p.usage.write_bytes)),
    (
        "cancelled_write_bytes",
        Unsigned(|p| p.usage.cancelled_write_bytes),
    ),
    ("rchar", Unsigned(|p| p.usage.rchar)),
    ("wchar", Unsigned(|p| p.usage.wchar)),
    ("run_delay_ns", Unsigned(|p| p.usage.run_delay_ns)),
    ("blkio_delay_ns", Unsigned(|p| p.usage.blkio_delay_ns)),
    ("seeded", Unsigned(|p| Some(p.seeded.into()))),
    ("kthread", Unsigned(|p| Some(p.kthread.into()))),
];

impl Value {
    const fn size(&self) -> u32 {
        match self {
            Text(size, _) => *size,
            _ => 8,
        }
    }
}

/// The members of an event of our own.
pub fn format(name: &str) -> Option<EventFormat> {
    if name != PROCESS_EXIT {
        return None;
    }
    let mut offset = 0;
    let fields = MEMBERS.iter().map(|(name, value)| {
        let (ty, signed) = match value {
            Text(size, _) => (format!("char[{size}]"), false),
            Signed(_) => ("s64".to_owned(), true),
            Unsigned(_) => ("u64".to_owned(), false),
        };
        let field = Field::new(&ty, name, offset, value.size(), signed);
        offset += value.size();
        field
    });
    Some(EventFormat::own(PROCESS_EXIT, fields.collect()))
}

/// A process's members.
pub struct Record {
    pub bytes: Vec<u8>,
    /// Where members begin that are not known.
    pub absent: Vec<u32>,
}

impl Record {
    pub fn of(process: &Process) -> Self {
        let mut record = Self {
            bytes: Vec::new(),
            absent: Vec::new(),
        };
        for (_, value) in &MEMBERS {
            let at = record.bytes.len();
            let known = match value {
                Unsigned(get) => get(process).map(|v| record.bytes.extend(v.to_ne_bytes())),
                Signed(get) => get(process).map(|v| record.bytes.extend(v.to_ne_bytes())),
                Text(size, get) => get(process).map(|text| {
                    // With its NUL.
                    let text = text.get(..*size as usize - 1).unwrap_or(text);
                    record.bytes.extend(text);
                }),
            };
            if known.is_none() {
                record.absent.push(at as u32);
            }
            record.bytes.resize(at + value.size() as usize, 0);
        }
        record
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::samples;

    #[test]
    fn members_lie_where_the_format_says() {
        let format = format(PROCESS_EXIT).unwrap();
        let process = samples::process(samples::pid(7, 1), None, &["true"], 3);
        let record = Record::of(&process);
        let last = format.fields.last().unwrap();
        assert_eq!(record.bytes.len(), (last.offset + last.size) as usize);
        let pid = format.find("pid").unwrap();
        let at = pid.offset as usize;
        let value = i64::from_ne_bytes(record.bytes[at..at + 8].try_into().unwrap());
        assert_eq!(value, i64::from(process.id.pid));
        assert!(super::format("process_exec").is_none());
    }
}
