//! Who runs already, told by the kernel side's iterator over tasks.

use std::io::{self, Read};
use std::thread;
use std::time::Duration;

use aya::maps::{HashMap, MapData};
use aya::programs::{Iter, ProgramError};
use aya::{Btf as AyaBtf, Ebpf};
use tracer_common::config::{State, seeding};
use tracer_common::seed::SeedRecord;

use super::config::{Options, Whom};
use super::error::{EbpfError, chain};
use super::load::{Loaded, Plain, refused, take};
use crate::decode::{Decoder, seeds};
use crate::model::time::boot_ns;
use crate::model::{Event, Seed};
use crate::source::seeds::{Meanwhile, program, unlisted};
use crate::sys::procfs::Proc;

/// What the kernel calls the iterator.
pub(super) const FUNCTION: &str = "bpf_iter_task";
const PROGRAM: &str = "seed_task";

/// Passes over all tasks until none is undecided. One is so for as long as its
/// parent is at the end of fork(2).
const PASSES: u32 = 1000;
/// Bytes; the kernel's own buffer has 32 KiB.
const PIECE: usize = 64 << 10;
const BETWEEN_PASSES: Duration = Duration::from_millis(1);

/// Running processes that are looked at in /proc and told of by one drain: it is
/// two files of each, and the ring must not fill up meanwhile.
const AT_A_TIME: usize = 128;
/// The same before the first drain.
const AT_ONCE: usize = 1024;

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

/// Reads the whole stream, in pieces that hold many records.
fn read_to_end(file: &mut impl Read, bytes: &mut Vec<u8>) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    loop {
        match file.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(n) => bytes.extend_from_slice(piece.get(..n).unwrap_or_default()),
            // The kernel wants to be asked again when a pass takes long.
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
            self.set_seeding(stage)?;
            let before = found.len();
            let programs = self.programs.as_mut();
            let programs = programs.ok_or_else(|| EbpfError::Seed("it is detached".to_owned()))?;
            pass(iterator(programs)?, &mut found)?;
            let undecided = self.state()?.undecided > 0;
            if stage == seeding::NAMED && !undecided {
                // Whoever lives after this is followed, whatever becomes of it.
                stage = seeding::ALL;
                self.set_seeding(stage)?;
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
        self.set_seeding(seeding::OFF)?;
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

    fn set_seeding(&mut self, seeding: u32) -> Result<(), EbpfError> {
        let state = State {
            seeding,
            ..State::default()
        };
        self.state
            .set(0, Plain(state), 0)
            .map_err(|e| EbpfError::Map("STATE", e))
    }
}

/// Processes that ran when the programs were attached, on their way out.
pub(super) struct Seeds {
    /// In order of their pids, backwards.
    waiting: Vec<SeedRecord>,
    /// Those that were looked at before the first drain.
    early: Vec<(u64, Event)>,
    /// When each of them lived, boot ns.
    ts: u64,
    /// In place of the above, where the kernel has no iterator.
    meanwhile: Meanwhile,
    /// Why.
    remark: Option<String>,
    proc: Proc,
    max_argv: usize,
}

impl Seeds {
    /// Asks for them. The first ones are looked at at once: the sooner, the more
    /// of them are still there.
    pub fn new(
        loaded: &mut Loaded,
        options: &Options,
        decoder: &mut Decoder,
    ) -> Result<Self, EbpfError> {
        let attached = boot_ns();
        let mut ts = attached;
        let proc = Proc::default();
        let max_argv = usize::try_from(options.max_argv).unwrap_or(usize::MAX);
        let mut meanwhile = Meanwhile::default();
        let mut remark = None;
        let told = match options.proc_seeds {
            true => Err(EbpfError::Seed("it is not wanted".to_owned())),
            false => loaded.seeds(&options.whom),
        };
        let mut waiting = match told {
            Ok((since, seeds)) => {
                ts = since;
                seeds
            }
            Err(error) if options.whom == Whom::All => {
                remark = Some(format!("{error}; /proc was read instead"));
                meanwhile = Meanwhile::read(&proc, ts, options.kthreads, max_argv);
                Vec::new()
            }
            Err(error) => return Err(error),
        };
        let mut early = Vec::new();
        if options.whom == Whom::All && !waiting.is_empty() && !options.is_filtered() {
            let mut listed: Vec<u32> = waiting.iter().map(|r| r.pid_here).collect();
            listed.sort_unstable();
            let seeds = unlisted(&proc, listed, attached, options.kthreads, max_argv);
            early.extend(seeds.map(|seed| (0, Event::Seed(Box::new(Seed { ts, ..seed })))));
        }
        waiting.reverse();
        let mut seeds = Self {
            waiting,
            early: Vec::new(),
            ts,
            meanwhile,
            remark,
            proc,
            max_argv,
        };
        seeds.give_some(AT_ONCE, decoder, &mut early);
        seeds.early = early;
        Ok(seeds)
    }

    /// Gives out some. What is later than the time that it returns must wait
    /// for the rest.
    pub fn give(&mut self, decoder: &mut Decoder, out: &mut Vec<(u64, Event)>) -> u64 {
        out.append(&mut self.early);
        self.give_some(AT_A_TIME, decoder, out)
    }

    /// See [`Meanwhile::sift`].
    pub fn sift(&mut self, events: &mut Vec<(u64, Event)>, complete_to: u64) -> u64 {
        self.meanwhile.sift(events, complete_to)
    }

    /// What users should know of how they were found, once.
    pub fn remark(&mut self) -> Option<String> {
        self.remark.take()
    }

    fn give_some(
        &mut self,
        most: usize,
        decoder: &mut Decoder,
        out: &mut Vec<(u64, Event)>,
    ) -> u64 {
        for _ in 0..most {
            let Some(record) = self.waiting.pop() else {
                return u64::MAX;
            };
            let (exe, argv) = program(
                &self.proc,
                seeds::id(&record),
                record.pid_here,
                seeds::is_kthread(&record),
                self.max_argv,
            );
            out.push((0, decoder.seed(&record, self.ts, exe, argv)));
        }
        self.ts.saturating_sub(1)
    }
}
