//! What a filter's meaning takes from the machine that it runs on.

use std::ops::Range;

/// The machine on which a filter is to run.
pub trait Machine {
    /// One more than the greatest number that a CPU may have (`nr_cpu_ids`).
    fn cpus(&self) -> u32;

    /// The addresses of the kernel's function (or datum) of this name; of several
    /// the first. `MODULE:NAME` looks in that module only.
    ///
    /// # Errors
    /// Why no address is known at all.
    fn function(&self, name: &str) -> Result<Option<Range<u64>>, String>;

    /// The addresses of what lies at this one.
    ///
    /// # Errors
    /// As above.
    fn function_at(&self, address: u64) -> Result<Option<Range<u64>>, String>;
}

/// A machine of so many CPUs whose symbols are not known.
#[derive(Clone, Copy, Debug)]
pub struct Bare {
    pub cpus: u32,
}

impl Machine for Bare {
    fn cpus(&self) -> u32 {
        self.cpus
    }

    fn function(&self, _name: &str) -> Result<Option<Range<u64>>, String> {
        Ok(None)
    }

    fn function_at(&self, _address: u64) -> Result<Option<Range<u64>>, String> {
        Ok(None)
    }
}
