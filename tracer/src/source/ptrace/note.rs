//! Remarks for the user: where tracing changed, or could not follow, what ran.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::model::{Bytes, ProcId};

/// Most notes that wait to be taken.
const LIMIT: usize = 1000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// A setuid, setgid or file-capability program ran without its privileges,
    /// because its tracer has none.
    Unprivileged { id: ProcId, filename: Bytes },
    /// A process waited for children that were never seen: they were created
    /// with CLONE_UNTRACED.
    Untraced { parent: ProcId },
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unprivileged { id, filename } => write!(
                f,
                "{} (pid {}) ran without its setuid, setgid or file capabilities, as every program does that an ordinary \
                 user traces with ptrace; trace with eBPF, as root, to keep them",
                filename.as_slice().escape_ascii(),
                id.pid
            ),
            Self::Untraced { parent } => {
                write!(
                    f,
                    "process {} had children that hid from ptrace (CLONE_UNTRACED); they are missing",
                    parent.pid
                )
            }
        }
    }
}

/// Notes on their way from the tracing thread.
#[derive(Clone, Default)]
pub struct Notes(Arc<Mutex<Vec<Note>>>);

impl Notes {
    pub fn push(&self, note: Note) {
        let mut notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if notes.len() < LIMIT {
            notes.push(note);
        }
    }

    pub fn take(&self) -> Vec<Note> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
