//! Where the members of an event's record lie: `events/GROUP/EVENT/format`.
//!
//! The layouts differ between kernels: since 6.18 the names in a fork's record
//! are `__data_loc`, an exit has `group_dead` since 6.16.

use super::record::Body;
use crate::model::Comm;

/// The events' files below `events/`, in the order of [`Formats::parse`].
pub const EVENTS: [&str; 4] = [
    "task/task_newtask",
    "sched/sched_process_fork",
    "sched/sched_process_exec",
    "sched/sched_process_exit",
];

#[derive(Debug, thiserror::Error)]
#[error("the format of {event} is not understood: {what}")]
pub struct FormatError {
    event: &'static str,
    what: String,
}

/// A member of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Member {
    offset: usize,
    size: usize,
    /// A word that says where the text lies (low half: offset, high half: length).
    located: bool,
}

/// The members that are read, of all four events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Formats {
    newtask: NewTask,
    fork: Fork,
    exec: Exec,
    exit: Exit,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct NewTask {
    id: u16,
    pid: Member,
    comm: Member,
    clone_flags: Member,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Fork {
    id: u16,
    comm: Member,
    pid: Member,
    child: Member,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Exec {
    id: u16,
    filename: Member,
    pid: Member,
    old_pid: Member,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Exit {
    id: u16,
    comm: Member,
    pid: Member,
    group_dead: Option<Member>,
}

/// One `format` file.
struct File<'a> {
    event: &'static str,
    text: &'a str,
}

impl File<'_> {
    fn error(&self, what: impl Into<String>) -> FormatError {
        FormatError {
            event: self.event,
            what: what.into(),
        }
    }

    fn id(&self) -> Result<u16, FormatError> {
        self.text
            .lines()
            .find_map(|l| l.strip_prefix("ID: ")?.trim().parse().ok())
            .ok_or_else(|| self.error("no ID"))
    }

    /// `field:char comm[16]; offset:8; size:16; signed:1;`, tabs between them
    fn find(&self, name: &str) -> Option<Member> {
        self.text.lines().find_map(|line| {
            let mut parts = line.trim().split(';').map(str::trim);
            let declared = parts.next()?.strip_prefix("field:")?;
            let (of_type, found) = declared.rsplit_once(' ')?;
            if found.split('[').next()? != name {
                return None;
            }
            Some(Member {
                offset: parts.next()?.strip_prefix("offset:")?.parse().ok()?,
                size: parts.next()?.strip_prefix("size:")?.parse().ok()?,
                located: of_type.starts_with("__data_loc"),
            })
        })
    }

    fn member(&self, name: &str) -> Result<Member, FormatError> {
        self.find(name)
            .ok_or_else(|| self.error(format!("no member {name}")))
    }

    fn number(&self, name: &str) -> Result<Member, FormatError> {
        let member = self.member(name)?;
        match (member.located, member.size) {
            (false, 1 | 2 | 4 | 8) => Ok(member),
            _ => Err(self.error(format!("{name} is no number"))),
        }
    }
}

impl Formats {
    /// From the files' texts, in the order of [`EVENTS`].
    ///
    /// # Errors
    /// A member is missing, or is no number where one is needed.
    pub fn parse(texts: [&str; 4]) -> Result<Self, FormatError> {
        let [newtask, fork, exec, exit] = texts;
        let [n, f, e, x] = EVENTS;
        let newtask = File {
            event: n,
            text: newtask,
        };
        let fork = File {
            event: f,
            text: fork,
        };
        let exec = File {
            event: e,
            text: exec,
        };
        let exit = File {
            event: x,
            text: exit,
        };
        Ok(Self {
            newtask: NewTask {
                id: newtask.id()?,
                pid: newtask.number("pid")?,
                comm: newtask.member("comm")?,
                clone_flags: newtask.number("clone_flags")?,
            },
            fork: Fork {
                id: fork.id()?,
                comm: fork.member("parent_comm")?,
                pid: fork.number("parent_pid")?,
                child: fork.number("child_pid")?,
            },
            exec: Exec {
                id: exec.id()?,
                filename: exec.member("filename")?,
                pid: exec.number("pid")?,
                old_pid: exec.number("old_pid")?,
            },
            exit: Exit {
                id: exit.id()?,
                comm: exit.member("comm")?,
                pid: exit.number("pid")?,
                group_dead: exit.find("group_dead"),
            },
        })
    }

    /// The thread and what it did, from a record's bytes. `None`: another event,
    /// or a record that is too short for its format.
    pub fn decode<'a>(&self, record: &'a [u8]) -> Option<(u32, Body<&'a [u8]>)> {
        // Common to all events: type in the first two bytes, pid in the second four.
        let id = u16::from_ne_bytes(record.first_chunk().copied()?);
        let Self {
            newtask,
            fork,
            exec,
            exit,
        } = self;
        if id == newtask.id {
            let current = Member {
                offset: 4,
                size: 4,
                located: false,
            };
            let body = Body::NewTask {
                child: newtask.pid.pid(record)?,
                comm: newtask.comm.comm(record)?,
                clone_flags: newtask.clone_flags.number(record)?,
            };
            return Some((current.pid(record)?, body));
        }
        if id == fork.id {
            let body = Body::Fork {
                comm: fork.comm.comm(record)?,
                child: fork.child.pid(record)?,
            };
            return Some((fork.pid.pid(record)?, body));
        }
        if id == exec.id {
            let body = Body::Exec {
                filename: exec.filename.text(record)?,
                old_tid: exec.old_pid.pid(record)?,
            };
            return Some((exec.pid.pid(record)?, body));
        }
        if id == exit.id {
            let group_dead = match exit.group_dead {
                Some(member) => Some(member.number(record)? != 0),
                None => None,
            };
            let body = Body::Exit {
                comm: exit.comm.comm(record)?,
                group_dead,
            };
            return Some((exit.pid.pid(record)?, body));
        }
        None
    }
}

impl Member {
    fn bytes(self, record: &[u8]) -> Option<&[u8]> {
        record.get(self.offset..self.offset.checked_add(self.size)?)
    }

    fn number(self, record: &[u8]) -> Option<u64> {
        let bytes = self.bytes(record)?;
        Some(match bytes.len() {
            1 => u64::from(*bytes.first()?),
            2 => u64::from(u16::from_ne_bytes(bytes.try_into().ok()?)),
            4 => u64::from(u32::from_ne_bytes(bytes.try_into().ok()?)),
            _ => u64::from_ne_bytes(bytes.try_into().ok()?),
        })
    }

    fn pid(self, record: &[u8]) -> Option<u32> {
        u32::try_from(self.number(record)?).ok()
    }

    /// Up to the first NUL.
    fn text(self, record: &[u8]) -> Option<&[u8]> {
        let bytes = if self.located {
            let at = u32::from_ne_bytes(self.bytes(record)?.try_into().ok()?);
            let (offset, length) = ((at & 0xffff) as usize, (at >> 16) as usize);
            record.get(offset..offset + length)?
        } else {
            self.bytes(record)?
        };
        bytes.split(|b| *b == 0).next()
    }

    fn comm(self, record: &[u8]) -> Option<Comm> {
        self.text(record).map(Comm::new)
    }
}
