//! Symbols from `/proc/kallsyms`.
//!
//! What the kernel prints by `%pS` is found the same way: the last symbol that
//! begins at or before an address, the first in the file of those that begin at
//! the same place; it reaches to the next that begins later.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use super::Symbol;

/// Symbols by address. Names are kept in one text.
#[derive(Clone, Debug, Default)]
pub struct Kallsyms {
    /// Sorted by address; of those at the same place the first is the one that the kernel names.
    entries: Vec<Entry>,
    text: String,
    modules: Vec<String>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    address: u64,
    name: u32,
    length: u16,
    /// Index into `modules`, plus one; 0: the kernel itself.
    module: u16,
}

#[derive(Debug, thiserror::Error)]
pub enum KallsymsError {
    #[error("{path} cannot be read: {error}")]
    Read { path: String, error: io::Error },
    #[error(
        "{path} has no addresses: the kernel hides them (kernel.kptr_restrict, or CAP_SYSLOG is missing)"
    )]
    Hidden { path: String },
}

impl Kallsyms {
    /// Reads `/proc/kallsyms`.
    ///
    /// # Errors
    /// It cannot be read, or has no addresses for us.
    pub fn read(path: &Path) -> Result<Self, KallsymsError> {
        let name = || path.display().to_string();
        let failed = |error| KallsymsError::Read {
            path: name(),
            error,
        };
        let file = BufReader::with_capacity(1 << 16, File::open(path).map_err(failed)?);
        let symbols = Self::parse(file).map_err(failed)?;
        if symbols.entries.is_empty() {
            return Err(KallsymsError::Hidden { path: name() });
        }
        Ok(symbols)
    }

    /// From text such as `ffffffff81000000 T _stext` and `… t name [module]`.
    ///
    /// # Errors
    /// Those of the reader.
    pub fn parse(mut from: impl BufRead) -> io::Result<Self> {
        let mut symbols = Self::default();
        let mut line = Vec::new();
        while from.read_until(b'\n', &mut line)? > 0 {
            if let Ok(text) = std::str::from_utf8(&line) {
                symbols.push(text);
            }
            line.clear();
        }
        // Stable: equals stay in their order.
        symbols.entries.sort_by_key(|e| e.address);
        Ok(symbols)
    }

    fn push(&mut self, line: &str) {
        let mut parts = line.split_ascii_whitespace();
        let (Some(address), Some(kind), Some(name)) = (parts.next(), parts.next(), parts.next())
        else {
            return;
        };
        let Ok(address) = u64::from_str_radix(address, 16) else {
            return;
        };
        // Zero is hidden, absolute ones are offsets of per-CPU data.
        if address == 0 || matches!(kind, "A" | "a" | "U") {
            return;
        }
        let (Ok(start), Ok(length)) = (u32::try_from(self.text.len()), u16::try_from(name.len()))
        else {
            return;
        };
        let module = parts.next().map(|m| m.trim_matches(['[', ']']));
        self.text.push_str(name);
        let entry = Entry {
            address,
            name: start,
            length,
            module: module.map_or(0, |m| self.module(m)),
        };
        self.entries.push(entry);
    }

    fn module(&mut self, name: &str) -> u16 {
        // They come in a row.
        let index = match self.modules.iter().rposition(|m| m == name) {
            Some(index) => index,
            None => {
                self.modules.push(name.to_owned());
                self.modules.len() - 1
            }
        };
        u16::try_from(index + 1).unwrap_or(0)
    }

    /// The symbol that `address` lies in.
    pub fn find(&self, address: u64) -> Option<Symbol<'_>> {
        let after = self.entries.partition_point(|e| e.address <= address);
        let last = self.entries.get(after.checked_sub(1)?)?.address;
        let before = self.entries.partition_point(|e| e.address < last);
        let entry = self.entries.get(before)?;
        // The last symbol of the kernel or of a module reaches to the end of its page.
        let page = (entry.address | 0xfff).saturating_add(1);
        let end = match self.entries.get(after) {
            Some(next) if next.module == entry.module => next.address,
            Some(next) => next.address.min(page),
            None => page,
        };
        if address >= end {
            return None;
        }
        Some(Symbol {
            name: self.name(entry)?,
            offset: address - entry.address,
            size: end - entry.address,
            module: self.module_of(entry),
        })
    }

    fn name(&self, entry: &Entry) -> Option<&str> {
        let start = entry.name as usize;
        self.text.get(start..start + usize::from(entry.length))
    }

    fn module_of(&self, entry: &Entry) -> Option<&str> {
        let index = usize::from(entry.module).checked_sub(1)?;
        self.modules.get(index).map(String::as_str)
    }

    /// Where the first symbol of this name lies, the kernel's own before those of
    /// modules; `MODULE:NAME` is looked for in that module (`kallsyms_lookup_name`).
    pub fn address(&self, name: &str) -> Option<u64> {
        let (module, bare) = match name.split_once(':') {
            Some((module, bare)) => (Some(module), bare),
            None => (None, name),
        };
        let named = self.entries.iter().filter(|e| self.name(e) == Some(bare));
        let of_module = |entry: &&Entry| match (self.module_of(entry), module) {
            (None, wanted) => wanted.is_none(),
            // These are no modules, but code that is made while the kernel runs.
            (Some("bpf" | "__builtin__ftrace" | "__builtin__kprobes"), _) => false,
            (Some(found), wanted) => wanted.is_none_or(|w| w == found),
        };
        let found = named.filter(of_module);
        found
            .min_by_key(|e| (e.module, e.address))
            .map(|e| e.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"0000000000000000 A fixed_percpu_data
ffffffff81000000 T _stext
ffffffff81000000 T _text
ffffffff81000100 t do_group_exit
ffffffff81000180 T other
ffffffffc0000100 t in_module\t[ext4]
ffffffffc0000000 t first_in_module\t[ext4]
ffffffffc0000200 t bpf_prog_1\t[bpf]
";

    #[test]
    fn an_address_has_the_symbol_that_begins_before_it() {
        let symbols = Kallsyms::parse(TEXT).unwrap();
        let found = symbols.find(0xffff_ffff_8100_0130).unwrap();
        assert_eq!(
            (found.name, found.offset, found.size),
            ("do_group_exit", 0x30, 0x80)
        );
        assert_eq!(symbols.find(0xffff_ffff_8100_0000).unwrap().name, "_stext");
        let found = symbols.find(0xffff_ffff_c000_0010).unwrap();
        assert_eq!(
            (found.name, found.module),
            ("first_in_module", Some("ext4"))
        );
        // Between the kernel's end and the first module there is nothing.
        assert_eq!(symbols.find(0xffff_ffff_8100_0fff).unwrap().name, "other");
        assert_eq!(symbols.find(0xffff_ffff_8100_1000), None);
        assert_eq!(symbols.address("_text"), Some(0xffff_ffff_8100_0000));
        assert_eq!(
            symbols.address("ext4:in_module"),
            Some(0xffff_ffff_c000_0100)
        );
        assert_eq!(symbols.address("in_module"), Some(0xffff_ffff_c000_0100));
        for none in [
            "",
            "nothing",
            "xfs:in_module",
            "bpf_prog_1",
            "ext4:other",
            "fixed_percpu_data",
        ] {
            assert_eq!(symbols.address(none), None, "{none}");
        }
        assert_eq!(symbols.find(5), None);
        assert_eq!(symbols.find(u64::MAX), None);
    }

    #[test]
    fn hidden_addresses_are_none() {
        let symbols =
            Kallsyms::parse(&b"0000000000000000 T _stext\n\xff\n7f\nz T x\n"[..]).unwrap();
        assert_eq!(symbols.find(u64::MAX), None);
        assert_eq!(symbols.find(0), None);
    }
}
