//! tracefs' `format` files: the members of an event's record, where they lie,
//! and what the kernel's filters take them for (`filter_assign_type`).
//!
//! Read tolerantly: a line that is not understood is left out. What is left
//! out cannot be named in a trigger.

#[cfg(test)]
mod tests;

/// What the kernel takes a member for (`FILTER_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A number if its size is one of a number (`FILTER_OTHER`).
    Other,
    /// `char[N]` in the record itself; NUL-terminated unless full.
    StaticString,
    /// `__data_loc char[]`: a u32; its low half is an offset from the record's
    /// start, its high half the length with the NUL.
    DynString,
    /// `__rel_loc char[]`: the same, but the offset counts from behind that u32.
    RelDynString,
    /// `char *`: an address, which the kernel follows in filters only.
    PtrString,
    /// `__data_loc cpumask_t`.
    CpuMask,
    /// The running task's name (pseudo-field `comm`, where the event has none).
    Comm,
    /// The CPU (pseudo-fields `cpu`, `CPU`, `common_cpu`).
    Cpu,
    /// The stack (pseudo-fields `stacktrace`, `STACKTRACE`).
    Stacktrace,
}

impl Class {
    /// Whether filters compare it with quoted text (`is_string_field`).
    pub fn is_text(self) -> bool {
        match self {
            Self::StaticString
            | Self::DynString
            | Self::RelDynString
            | Self::PtrString
            | Self::Comm => true,
            Self::Other | Self::CpuMask | Self::Cpu | Self::Stacktrace => false,
        }
    }

    /// `filter_assign_type`
    fn of_type(ty: &str) -> Self {
        let is_char = ty.contains("char");
        if ty.contains("__data_loc") {
            if is_char {
                return Self::DynString;
            }
            if ty.contains("cpumask_t") {
                return Self::CpuMask;
            }
        }
        if ty.contains("__rel_loc") && is_char {
            return Self::RelDynString;
        }
        if ty.contains('[') && is_char {
            return Self::StaticString;
        }
        if ty == "char *" || ty == "const char *" {
            return Self::PtrString;
        }
        Self::Other
    }
}

/// A member of an event's record, or a pseudo-field (size 0).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// With the array's brackets: `char[16]`, `__data_loc char[]`.
    pub ty: String,
    pub name: String,
    /// Bytes from the record's start, the common members included.
    pub offset: u32,
    /// Bytes; 4 for `__data_loc` and `__rel_loc`, 0 for a pseudo-field.
    pub size: u32,
    pub signed: bool,
    pub class: Class,
}

impl Field {
    /// Its class follows from its type, as in the kernel.
    pub fn new(ty: &str, name: &str, offset: u32, size: u32, signed: bool) -> Self {
        Self {
            class: Class::of_type(ty),
            ty: ty.to_owned(),
            name: name.to_owned(),
            offset,
            size,
            signed,
        }
    }

    fn pseudo(name: &str) -> Option<Self> {
        let class = match name {
            "cpu" | "CPU" | "common_cpu" => Class::Cpu,
            "comm" | "COMM" => Class::Comm,
            "stacktrace" | "STACKTRACE" => Class::Stacktrace,
            _ => return None,
        };
        let (ty, signed) = match class {
            Class::Cpu => ("int", true),
            _ => ("char *", false),
        };
        Some(Self {
            ty: ty.to_owned(),
            name: name.to_owned(),
            offset: 0,
            size: 0,
            signed,
            class,
        })
    }

    /// Whether its bytes are a number (`select_value_fn`).
    pub fn is_number_sized(&self) -> bool {
        matches!(self.size, 1 | 2 | 4 | 8)
    }

    /// `field:char comm[16]; offset:8; size:16; signed:0;`
    fn parse(line: &str) -> Option<Self> {
        let mut parts = line.trim().split(';').map(str::trim);
        let declared = parts.next()?.strip_prefix("field:")?;
        let (ty, name) = declared.rsplit_once(char::is_whitespace)?;
        // An array's length stands behind the name, but behind the type of a `__data_loc`.
        let (name, ty) = match name.split_once('[') {
            Some((name, length)) => (name, format!("{}[{length}", ty.trim_end())),
            None => (name, ty.trim_end().to_owned()),
        };
        let mut number = |what: &str| parts.next()?.strip_prefix(what)?.parse::<u32>().ok();
        let (offset, size) = (number("offset:")?, number("size:")?);
        // 6.1 and later all print it; without it a number would be unsigned.
        let signed = number("signed:").unwrap_or(0) != 0;
        (!name.is_empty()).then(|| Self::new(&ty, name, offset, size, signed))
    }
}

/// An event: its `format` file and the group that it is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventFormat {
    /// `sched`
    pub system: String,
    /// `sched_process_exit`
    pub name: String,
    /// The tracepoint's number, `common_type` of its records.
    pub id: u32,
    /// The event's own members.
    pub fields: Vec<Field>,
    /// `common_type`, `common_flags`, `common_preempt_count`, `common_pid`.
    pub common: Vec<Field>,
}

/// A `format` file that is none.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("the format of {system}:{event} is not understood: it has no {missing}")]
pub struct FormatError {
    system: String,
    event: String,
    missing: &'static str,
}

impl EventFormat {
    /// Parses the text of `events/SYSTEM/EVENT/format`.
    ///
    /// # Errors
    /// It has no number or no members.
    pub fn parse(system: &str, event: &str, text: &str) -> Result<Self, FormatError> {
        let missing = |missing| FormatError {
            system: system.to_owned(),
            event: event.to_owned(),
            missing,
        };
        // What is printed by `print fmt` is not ours.
        let head = text.split("\nprint fmt:").next().unwrap_or_default();
        let id = head
            .lines()
            .find_map(|l| l.strip_prefix("ID:")?.trim().parse().ok())
            .ok_or_else(|| missing("ID"))?;
        let fields: Vec<Field> = head.lines().filter_map(Field::parse).collect();
        if fields.is_empty() {
            return Err(missing("fields"));
        }
        let (common, fields) = fields
            .into_iter()
            .partition(|f| f.name.starts_with("common_"));
        Ok(Self {
            system: system.to_owned(),
            name: event.to_owned(),
            id,
            fields,
            common,
        })
    }

    /// An event of our own, which has no tracepoint's record and no common members.
    pub fn own(name: &str, fields: Vec<Field>) -> Self {
        Self {
            system: OWN_SYSTEM.to_owned(),
            name: name.to_owned(),
            id: 0,
            fields,
            common: Vec::new(),
        }
    }

    pub fn is_own(&self) -> bool {
        self.system == OWN_SYSTEM
    }

    /// Finds a member or pseudo-field in the kernel's order (`trace_find_event_field`):
    /// the event's own, then pseudo-fields, then common ones.
    pub fn find(&self, name: &str) -> Option<Field> {
        let find = |fields: &[Field]| fields.iter().find(|f| f.name == name).cloned();
        find(&self.fields)
            // An event of our own happens on no CPU.
            .or_else(|| Field::pseudo(name).filter(|_| !self.is_own()))
            .or_else(|| find(&self.common))
    }

    /// Names that a trigger can use, the event's own first.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let own = self.fields.iter().chain(&self.common);
        own.map(|f| f.name.as_str())
    }
}

/// The group of events of our own.
const OWN_SYSTEM: &str = "tracer";
