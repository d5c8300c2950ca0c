//! Who runs already, told by the kernel side's iterator over tasks.

use std::io::{self, Read};
use std::thread;
use std::time::Duration;

use aya::maps::{HashMap, MapData};
use aya::programs::{Iter, ProgramError};
use aya::{Btf as AyaBtf, Ebpf};
use tracer_common::config::{State, seeding};
use tracer_common::seed::SeedRecord;

use super::config::Whom;
use super::error::{EbpfError, chain};
use super::load::{Loaded, Plain, refused, take};
use crate::decode::seeds;
use crate::model::time::boot_ns;

/// What the kernel calls the iterator.
pub(super) const FUNCTION: &str = "bpf_iter_task";
const PROGRAM: &str = "seed_task";

/// Passes over all tasks until none is undecided. One is so for as long as its
/// parent is at the end of fork(2).
const PASSES: u32 = 1000;
const BETWEEN_PASSES: Duration = Duration::from_millis(1);

/// Loads the iterator, and tells it whom `-p` names.
pub(super) fn load(programs: &mut Ebpf, btf: &AyaBtf, whom: &Whom) -> Result<(), EbpfError> {
    let program = iterator(programs)?;
    program.load("task", btf).map_err(|e| refused(PROGRAM, e))?;
    // The program keeps the map; its own descriptor must be there until then.
    if let Whom::Trees(pids) = whom {
        let mut named: HashMap<MapData, u32, u32> = take(programs, "NAMED")?;
        for pid in pids {
            named
                .insert(pid, 1, 0)
                .map_err(|e| EbpfError::Map("NAMED", e))?;
        }
    }
    Ok(())
}

fn iterator(programs: &mut Ebpf) -> Result<&mut Iter, EbpfError> {
    let program = programs.program_mut(PROGRAM);
    let program = program.ok_or_else(|| EbpfError::Seed("it is missing".to_owned()))?;
    program.try_into().map_err(|e| refused(PROGRAM, e))
}

/// One pass over all tasks.
fn pass(program: &mut Iter, found: &mut Vec<SeedRecord>) -> Result<(), EbpfError> {
    let link = |e: ProgramError| EbpfError::Seed(chain(&e));
    let id = program.attach().map_err(link)?;
    let link = program.take_link(id).map_err(link)?;
    let mut file = link.into_file().map_err(|e| EbpfError::Seed(chain(&e)))?;
    let mut bytes = Vec::new();
    read_to_end(&mut file, &mut bytes).map_err(|e| EbpfError::Seed(e.to_string()))?;
    found.extend(seeds::records(&bytes));
    Ok(())
}

/// The kernel may want to be asked again when a pass takes long (EAGAIN).
fn read_to_end(file: &mut impl Read, bytes: &mut Vec<u8>) -> io::Result<()> {
    loop {
        match file.read_to_end(bytes) {
            Ok(_) => return Ok(()),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(e) => return Err(e),
        }
    }
}

impl Loaded {
    /// Everybody who is to be followed and ran at the time that is given back
    /// (boot ns), each once, but for those whose own records show that. From then
    /// on all of them are followed.
    ///
    /// # Errors
    /// The iterator does not run here.
    pub(super) fn seeds(&mut self, whom: &Whom) -> Result<(u64, Vec<SeedRecord>), EbpfError> {
        match self.iterator.take() {
            None => return Ok((boot_ns(), Vec::new())),
            Some(loaded) => loaded?,
        }
        let mut found = Vec::new();
        let mut stage = match whom {
            Whom::Trees(_) => seeding::NAMED,
            _ => seeding::ALL,
        };
        let mut ts = boot_ns();
        for _ in 0..PASSES {
            self.set_state(State {
                seeding: stage,
                ..State::default()
            })?;
            let before = found.len();
            let programs = self.programs.as_mut();
            let programs = programs.ok_or_else(|| EbpfError::Seed("it is detached".to_owned()))?;
            pass(iterator(programs)?, &mut found)?;
            let undecided = self.state()?.undecided > 0;
            if stage == seeding::NAMED && !undecided {
                stage = seeding::ALL;
                ts = boot_ns();
                continue;
            }
            // A tree is found from its top downwards, but pids are used again.
            let more = matches!(whom, Whom::Trees(_)) && found.len() > before;
            if !more && !undecided {
                break;
            }
            thread::sleep(BETWEEN_PASSES);
        }
        self.set_state(State::default())?;
        if let Some(programs) = self.programs.as_mut() {
            // It has done its work; what it holds goes with the others at the latest.
            let _unloaded = iterator(programs)?.unload();
        }
        Ok((ts, found))
    }

    fn state(&self) -> Result<State, EbpfError> {
        let Plain(state) = self
            .state
            .get(&0, 0)
            .map_err(|e| EbpfError::Map("STATE", e))?;
        Ok(state)
    }

    fn set_state(&mut self, state: State) -> Result<(), EbpfError> {
        self.state
            .set(0, Plain(state), 0)
            .map_err(|e| EbpfError::Map("STATE", e))
    }
}
