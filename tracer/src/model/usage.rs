//! What a process cost. Every member is optional: a source that cannot know a
//! figure leaves it absent, never zero.

/// Times in ns, sizes in bytes, blocks of 512 bytes (as getrusage has them).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The figures can no longer change. False where there are none.
    pub is_final: bool,
    pub utime_ns: Option<u64>,
    pub stime_ns: Option<u64>,
    pub cpu_ns: Option<u64>,
    /// Peak resident set of the program itself.
    pub max_rss_bytes: Option<u64>,
    /// Upper bound where the program's own is not known: what wait4 reports,
    /// which includes the image that exec replaced.
    pub max_rss_upper_bytes: Option<u64>,
    pub minflt: Option<u64>,
    pub majflt: Option<u64>,
    pub nvcsw: Option<u64>,
    pub nivcsw: Option<u64>,
    pub inblock: Option<u64>,
    pub oublock: Option<u64>,
    pub read_bytes: Option<u64>,
    pub write_bytes: Option<u64>,
    pub cancelled_write_bytes: Option<u64>,
    pub rchar: Option<u64>,
    pub wchar: Option<u64>,
    pub run_delay_ns: Option<u64>,
    pub blkio_delay_ns: Option<u64>,
}

impl Usage {
    /// Whether any figure is known.
    pub fn is_known(&self) -> bool {
        let none = Self {
            is_final: self.is_final,
            ..Self::default()
        };
        *self != none
    }
}
