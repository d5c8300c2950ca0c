//! Gives up capabilities that are needed no longer.
//!
//! They belong to a thread, and a new thread has those of the one that starts it.

use caps::{CapSet, Capability, CapsHashSet};
use thiserror::Error;

#[derive(Debug, Error)]
#[error("capabilities cannot be given up: {0}")]
pub struct CapabilityError(#[from] caps::errors::CapsError);

/// What a thread goes on to need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Reading events: maps and programs of one's own, /proc of other users' processes, paths of
    /// cgroups by their ids.
    Events,
    /// Writing files, wherever the user wants them.
    Files,
    Nothing,
}

impl Need {
    const fn capabilities(self) -> &'static [Capability] {
        match self {
            Self::Events => &[
                // Before Linux 6.0 even reading a map asks for it where others may not use bpf(2).
                Capability::CAP_BPF,
                Capability::CAP_DAC_READ_SEARCH,
                Capability::CAP_SYS_PTRACE,
            ],
            Self::Files => &[
                Capability::CAP_DAC_OVERRIDE,
                Capability::CAP_DAC_READ_SEARCH,
                Capability::CAP_FOWNER,
            ],
            Self::Nothing => &[],
        }
    }
}

/// Leaves this thread, and those that it starts, only what `need` asks for and they have.
///
/// # Errors
/// The kernel refuses, which it has no reason to.
pub fn keep_only(need: Need) -> Result<(), CapabilityError> {
    let permitted = caps::read(None, CapSet::Permitted)?;
    let wanted: CapsHashSet = need.capabilities().iter().copied().collect();
    let kept: CapsHashSet = permitted.intersection(&wanted).copied().collect();
    caps::clear(None, CapSet::Inheritable)?;
    caps::set(None, CapSet::Effective, &kept)?;
    caps::set(None, CapSet::Permitted, &kept)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_needed_stays_and_only_in_this_thread() {
        let all = || caps::read(None, CapSet::Permitted).expect("readable");
        let before = all();
        for need in [Need::Events, Need::Files, Need::Nothing] {
            let thread = std::thread::spawn(move || {
                keep_only(need).expect("given up");
                let child = std::thread::spawn(move || caps::read(None, CapSet::Effective));
                (all(), child.join().expect("no panic").expect("readable"))
            });
            let (permitted, of_child) = thread.join().expect("no panic");
            assert!(permitted.iter().all(|c| need.capabilities().contains(c)));
            assert!(permitted.is_subset(&before));
            assert_eq!(of_child, permitted);
        }
        assert_eq!(all(), before);
    }
}
