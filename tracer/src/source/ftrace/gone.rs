//! Whether those of whom no end is known run still.

use super::look::Looks;
use crate::model::ProcId;
use crate::model::time::boot_ns;

/// Of the records' time, between two looks into /proc: after a storm there are many to look for.
const PAUSE_NS: u64 = 10_000_000;

#[derive(Debug, Default)]
pub struct Gone {
    looked: u64,
    /// Since when nobody runs any more of whom no end is known, and who that is.
    since: Option<(u64, Vec<ProcId>)>,
}

impl Gone {
    /// Whether any of `alive` runs, or may have left somebody behind who does. The records
    /// are complete up to `complete_to`.
    pub fn may_run(&mut self, mut alive: Vec<ProcId>, looks: &Looks, complete_to: u64) -> bool {
        if alive.is_empty() {
            return false;
        }
        if complete_to < self.looked.saturating_add(PAUSE_NS) {
            return true;
        }
        self.looked = boot_ns();
        if alive.iter().any(|id| looks.is_running(*id)) {
            self.since = None;
            return true;
        }
        // Their ends, and whom they have left behind, may be on their way still. After
        // that an end was lost, or not recorded.
        alive.sort_unstable_by_key(|id| (id.pid, id.start));
        match &self.since {
            Some((since, who)) if *who == alive => complete_to <= *since,
            _ => {
                self.since = Some((boot_ns(), alive));
                true
            }
        }
    }
}
