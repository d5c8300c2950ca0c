//! `tracer hist`: what one trigger makes the generic program do, frozen into its
//! read-only global, and the rows of its table.

/// Keys of a trigger, as in the kernel (`TRACING_MAP_KEYS_MAX`).
pub const MAX_KEYS: usize = 3;

/// Values besides the hit count, as in the kernel (`TRACING_MAP_VALS_MAX`, which counts that, too).
pub const MAX_VALS: usize = 2;

/// Comparisons of a filter.
pub const MAX_TESTS: usize = 128;

/// Patterns (texts that a filter compares with).
pub const MAX_PATTERNS: usize = 32;

/// Patterns with more characters than [`Pattern`] has room for.
pub const MAX_LONG_PATTERNS: usize = 4;

/// Longest text of a key, its NUL included, bytes (the kernel's `MAX_FILTER_STR_VAL`).
pub const TEXT: usize = 256;

/// Frames of a stack: those that the kernel keeps (`HIST_STACKTRACE_DEPTH`, 16), and some for
/// the innermost ones: the tracepoint's own, and those that the kernel leaves out of its own stacks.
pub const STACK_DEPTH: usize = 24;

/// 64-bit words of the longest key: three stacks. In the kernel, which keeps fewer frames, it is one
/// text and one stack, or three stacks, too (`HIST_KEY_SIZE_MAX`).
pub const KEY_WORDS: usize = MAX_KEYS * STACK_DEPTH;

/// Sizes of key for which there is a table, in words. A key takes the first that is large enough.
pub const TABLE_WORDS: [usize; 10] = [1, 2, 3, 4, 6, 24, 32, 34, 56, KEY_WORDS];

/// Words of the longest key that is put together on the program's stack.
pub const STACK_WORDS: usize = 6;

/// Word loads reach the record up to here, bytes.
pub const WORDS_END: u32 = 128;

/// A tick of USER_HZ, ns: in these /proc counts a process's start.
pub const TICK: u64 = 10_000_000;

/// [`Item::from`]: where a value comes from.
pub mod from {
    /// No such item.
    pub const NONE: u32 = 0;
    /// A word of eight bytes of the record, at [`super::Item::offset`].
    pub const WORD8: u32 = 1;
    /// A word of four bytes of the record.
    pub const WORD4: u32 = 2;
    /// [`super::Item::size`] bytes of the record that a word load cannot reach.
    pub const BYTES: u32 = 3;
    /// The current thread's number in the initial PID namespace.
    pub const PID: u32 = 4;
    /// The CPU's number.
    pub const CPU: u32 = 5;
    /// CLOCK_MONOTONIC, ns.
    pub const TIME: u32 = 6;
    /// CLOCK_BOOTTIME, ns.
    pub const BOOT_TIME: u32 = 7;
    /// The same in µs, rounded.
    pub const TIME_USECS: u32 = 8;
    pub const BOOT_TIME_USECS: u32 = 9;
    /// [`super::Item::arg`] itself.
    pub const CONSTANT: u32 = 10;
    /// Eight bytes of what a `__data_loc` points to, [`super::Item::arg`] bytes behind its start.
    pub const LOCATED: u32 = 11;
    /// CLOCK_TAI, ns.
    pub const TAI_TIME: u32 = 12;
    pub const TAI_TIME_USECS: u32 = 13;
    /// Ticks of USER_HZ since the boot; see [`super::Item::left`] and [`super::Item::right`].
    pub const UPTIME: u32 = 14;
    /// How often this was asked for.
    pub const COUNTER: u32 = 15;
    /// From here on what is no integer. The kernel's stack.
    pub const STACK: u32 = 32;
    /// A text of fixed size within the record, aligned to words of eight bytes.
    pub const TEXT8: u32 = 33;
    /// The same, elsewhere.
    pub const TEXT: u32 = 34;
    /// A `__data_loc`: offset of the text in the low half.
    pub const DATA_LOC: u32 = 35;
    /// A `__rel_loc`: counted from the end of the word itself.
    pub const REL_LOC: u32 = 36;
    /// A pointer to a text of the kernel's.
    pub const POINTER: u32 = 37;
    /// A pointer to a text of the process's.
    pub const USER_POINTER: u32 = 38;
    /// The current task's name.
    pub const COMM: u32 = 39;
}

/// [`Item::change`]: what becomes of an integer.
pub mod change {
    pub const NONE: u32 = 0;
    /// The power of two that is not below it.
    pub const LOG2: u32 = 1;
    /// The multiple of [`super::Item::arg`] that is not above it.
    pub const BUCKET: u32 = 2;
}

/// [`Item::fold`]: how values of one key come together.
pub mod fold {
    pub const SUM: u32 = 0;
    pub const MIN: u32 = 1;
    pub const MAX: u32 = 2;
    pub const SIGNED_MIN: u32 = 3;
    pub const SIGNED_MAX: u32 = 4;
}

/// A key, a value, or the left side of a comparison.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// One of [`from`].
    pub from: u32,
    /// In the record, bytes.
    pub offset: u32,
    /// Bytes; of a text within the record its length, of another the room for it.
    pub size: u32,
    /// An integer's bits are those of a word shifted to the left by this …
    /// Of [`from::UPTIME`]: nanoseconds of a jiffy.
    pub left: u32,
    /// … and then back by this,
    /// Of [`from::UPTIME`]: what the kernel's jiffies began with.
    pub right: u32,
    /// with its sign (1) or without (0).
    pub signed: u32,
    /// One of [`change`].
    pub change: u32,
    /// One of [`fold`].
    pub fold: u32,
    /// Where a key lies in the compound key, words.
    pub slot: u32,
    pub _pad: u32,
    /// See [`change`], [`from::CONSTANT`], [`from::LOCATED`] and [`op::BIT`].
    pub arg: u64,
}

/// [`Test::op`]
pub mod op {
    pub const EQ: u32 = 0;
    pub const NE: u32 = 1;
    pub const LT: u32 = 2;
    pub const LE: u32 = 3;
    pub const GT: u32 = 4;
    pub const GE: u32 = 5;
    pub const SIGNED_LT: u32 = 6;
    pub const SIGNED_LE: u32 = 7;
    pub const SIGNED_GT: u32 = 8;
    pub const SIGNED_GE: u32 = 9;
    /// Some bit in common.
    pub const AND: u32 = 10;
    /// A text that a pattern matches ...
    pub const MATCHES: u32 = 11;
    /// … or does not.
    pub const DIFFERS: u32 = 12;
    /// Always.
    pub const TRUE: u32 = 13;
    /// That bit of [`super::Test::value`] is set whose number it is, less [`super::Item::arg`].
    pub const BIT: u32 = 14;
    /// As [`MATCHES`] and [`DIFFERS`], one byte a call: for a [`super::LongPattern`], and for texts
    /// that all together are longer than [`super::NEAR_TEXTS`].
    pub const SCAN_MATCHES: u32 = 15;
    pub const SCAN_DIFFERS: u32 = 16;
}

/// [`Test::yes`] and [`Test::no`]: the filter's end. Other numbers are those of tests further on.
pub mod goto {
    pub const PASS: u32 = 254;
    pub const FAIL: u32 = 255;
}

const _: () = assert!(MAX_TESTS <= goto::PASS as usize);

/// A comparison, and where to go from it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Test {
    pub item: Item,
    pub op: u32,
    pub yes: u32,
    pub no: u32,
    /// Index of its pattern; those of long ones begin at [`MAX_PATTERNS`].
    pub pattern: u32,
    pub value: u64,
}

/// Longest pattern: the automaton has a state for each of its characters, and one to begin with.
pub const PATTERN_STATES: usize = 64;

/// A text to be compared with: a glob automaton as in [`crate::config::Glob`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Pattern {
    pub accept: [u64; 256],
    pub first: u64,
    pub stay: u64,
    pub last: u64,
}

/// Bytes of texts that may be compared in a loop that the verifier follows: it keeps at most
/// 8192 branches in mind, of which a byte has two.
pub const NEAR_TEXTS: u32 = 3072;

/// Words of the states of a long pattern.
pub const LONG_WORDS: usize = 4;

/// Longest pattern of all.
pub const LONG_PATTERN_STATES: usize = 64 * LONG_WORDS;

/// The same with more states, the lowest 64 in the first word.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LongPattern {
    pub accept: [[u64; LONG_WORDS]; 256],
    pub first: [u64; LONG_WORDS],
    pub stay: [u64; LONG_WORDS],
    pub last: [u64; LONG_WORDS],
}

/// [`Config::whom`]
pub mod whom {
    pub const ALL: u32 = 0;
    /// Processes of the set, and their descendants.
    pub const TREE: u32 = 1;
    /// As [`TREE`], and processes that are to be added to the set when they are met.
    pub const SEEDED_TREE: u32 = 2;
    /// Those in a cgroup or below.
    pub const CGROUP: u32 = 3;
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// One of [`whom`].
    pub whom: u32,
    /// Words of the key, and those of the table that it lies in.
    pub key_words: u32,
    pub table_words: u32,
    /// 1: a row keeps the name of the task that began it.
    pub names: u32,
    pub n_tests: u32,
    /// Level of the cgroup below the root, `u32::MAX`: not known.
    pub cgroup_level: u32,
    pub cgroup: u64,
    pub keys: [Item; MAX_KEYS],
    pub vals: [Item; MAX_VALS],
    pub tests: [Test; MAX_TESTS],
}

/// What finds out whose fork is that of the command.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tracer {
    /// tracer's pid in its own PID namespace, and that namespace's file.
    pub pid: u32,
    pub _pad: u32,
    pub dev: u64,
    pub ino: u64,
}

/// A row of the table, on one CPU.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Row {
    pub hits: u64,
    pub vals: [u64; MAX_VALS],
    /// Name of the task that began it, see [`Config::names`].
    pub comm: [u8; 16],
}

impl Row {
    pub const NEW: Self = Self {
        hits: 0,
        vals: [0; MAX_VALS],
        comm: [0; 16],
    };
}

impl Item {
    pub const NONE: Self = Self {
        from: from::NONE,
        offset: 0,
        size: 0,
        left: 0,
        right: 0,
        signed: 0,
        change: change::NONE,
        fold: fold::SUM,
        slot: 0,
        _pad: 0,
        arg: 0,
    };
}

impl Test {
    pub const NONE: Self = Self {
        item: Item::NONE,
        op: op::TRUE,
        yes: goto::PASS,
        no: goto::FAIL,
        pattern: 0,
        value: 0,
    };
}

impl Pattern {
    pub const NONE: Self = Self {
        accept: [0; 256],
        first: 0,
        stay: 0,
        last: 0,
    };
}

impl LongPattern {
    pub const NONE: Self = Self {
        accept: [[0; LONG_WORDS]; 256],
        first: [0; LONG_WORDS],
        stay: [0; LONG_WORDS],
        last: [0; LONG_WORDS],
    };
}

impl Config {
    pub const NONE: Self = Self {
        whom: whom::ALL,
        key_words: 1,
        table_words: 1,
        names: 0,
        n_tests: 0,
        cgroup_level: u32::MAX,
        cgroup: 0,
        keys: [Item::NONE; MAX_KEYS],
        vals: [Item::NONE; MAX_VALS],
        tests: [Test::NONE; MAX_TESTS],
    };
}
