//! Names for numbers: symbols of the kernel, and system calls.

pub mod kallsyms;
pub mod syscalls;

use std::borrow::Cow;

pub use kallsyms::Kallsyms;
pub use syscalls::Syscalls;

/// A place in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol<'a> {
    pub name: &'a str,
    /// Bytes from its start.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
    pub module: Option<&'a str>,
}

/// Gives names to what a table has as numbers.
pub trait Resolve {
    /// The symbol that an address of the kernel lies in.
    fn symbol(&self, address: u64) -> Option<Symbol<'_>>;

    /// The name of a system call as the kernel's metadata has it: `sys_openat`.
    fn syscall(&self, number: u64) -> Option<Cow<'_, str>>;
}

/// Knows no names: addresses and numbers are shown as such.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoNames;

impl Resolve for NoNames {
    fn symbol(&self, _address: u64) -> Option<Symbol<'_>> {
        None
    }

    fn syscall(&self, _number: u64) -> Option<Cow<'_, str>> {
        None
    }
}

/// Both readers together.
#[derive(Debug, Default)]
pub struct Names {
    pub symbols: Kallsyms,
    pub syscalls: Syscalls,
}

impl Resolve for Names {
    fn symbol(&self, address: u64) -> Option<Symbol<'_>> {
        self.symbols.find(address)
    }

    fn syscall(&self, number: u64) -> Option<Cow<'_, str>> {
        self.syscalls.name(number).map(Cow::Borrowed)
    }
}
