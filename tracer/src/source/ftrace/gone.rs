//! Whether those of whom no end is known run still.

use super::look::Looks;
use crate::model::ProcId;
use crate::model::time::boot_ns;

/// Since when nobody runs any more of whom no end is known, and who that is.
#[derive(Debug, Default)]
pub struct Gone(Option<(u64, Vec<ProcId>)>);

impl Gone {
    /// Whether any of `alive` runs, or may have left somebody behind who does. The records
    /// are complete up to `complete_to`.
    pub fn may_run(&mut self, mut alive: Vec<ProcId>, looks: &Looks, complete_to: u64) -> bool {
        if alive.is_empty() {
            return false;
        }
        if alive.iter().any(|id| looks.is_running(*id)) {
            self.0 = None;
            return true;
        }
        // Their ends, and whom they have left behind, may be on their way still. After
        // that an end was lost, or not recorded.
        alive.sort_unstable_by_key(|id| (id.pid, id.start));
        match &self.0 {
            Some((since, who)) if *who == alive => complete_to <= *since,
            _ => {
                self.0 = Some((boot_ns(), alive));
                true
            }
        }
    }
}
