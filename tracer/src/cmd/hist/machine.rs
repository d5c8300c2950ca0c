//! The machine that filters run on: this one.

use std::cell::OnceCell;
use std::fs;
use std::ops::Range;
use std::path::Path;

use crate::hist::filter::Machine;
use crate::hist::resolve::Kallsyms;

/// This machine. Its symbols are read when one is asked for.
#[derive(Debug, Default)]
pub struct Host {
    symbols: OnceCell<Result<Kallsyms, String>>,
}

impl Host {
    fn symbols(&self) -> Result<&Kallsyms, String> {
        let read = || Kallsyms::read(Path::new("/proc/kallsyms")).map_err(|e| e.to_string());
        self.symbols
            .get_or_init(read)
            .as_ref()
            .map_err(String::clone)
    }
}

impl Machine for Host {
    fn cpus(&self) -> u32 {
        let possible = fs::read_to_string("/sys/devices/system/cpu/possible");
        let last = possible.ok().and_then(|list| {
            let last = list.trim().rsplit([',', '-']).next()?;
            last.parse::<u32>().ok()
        });
        last.map_or(1, |last| last.saturating_add(1))
    }

    fn function(&self, name: &str) -> Result<Option<Range<u64>>, String> {
        match self.symbols()?.address(name) {
            Some(address) => self.function_at(address),
            None => Ok(None),
        }
    }

    fn function_at(&self, address: u64) -> Result<Option<Range<u64>>, String> {
        let symbol = self.symbols()?.find(address);
        Ok(symbol.map(|symbol| {
            let start = address - symbol.offset;
            start..start.saturating_add(symbol.size)
        }))
    }
}
