//! ftrace: the kernel's own trace buffer, read as root without BPF.
//!
//! An instance of our own in tracefs holds the buffer and its settings; the
//! system's own tracing is not touched. `set_event_pid` with the option
//! `event-fork` lets the kernel follow a tree.
//!
//! Records are read as pages of the ring buffer (`trace_pipe_raw`), in which
//! nothing can be forged; or as text (`trace_pipe`), where the kernel describes
//! its records in a way that is not understood, or with [`Reader::Text`]. For
//! text see [`cpu`] and [`crate::decode::ftrace::text`].
//!
//! # Numbers that are used again
//! The kernel takes a number out of `set_event_pid` when its task is freed
//! (`trace_event_follow_fork`), some 10 ms after the number is free for others. A
//! stranger who is given it meanwhile is recorded, with all that it starts: as long as
//! nothing was lost, who begins without a record of its creation is left out. And one
//! of ours who is given it is no longer recorded after that: whose end is missing
//! when all is read is counted as lost.
//!
//! # Order
//! Each CPU's stream is sorted; the streams are merged up to a time to which all
//! are complete. That is the last record's time for a CPU with more to read, and
//! for one that was read empty the time `now` at which the drain began. Claim: a
//! record comes after all that could have caused it. Proof: a record's time is
//! taken before it is written, and whatever it causes happens after it was
//! written (clone wakes the child after both of its records). So if B was
//! caused by A and `B.ts ≤ now`, A was written before `now`, hence before any
//! CPU was read, and its CPU was read to the end.
//!
//! A record that caused nothing yet may be in the middle of being written just
//! then, with interrupts or the hypervisor in between; to have such ones in
//! order too, what is younger than [`MARGIN_NS`] waits for the next drain. One
//! that takes even longer comes late, not wrong.

mod cpu;
mod forgers;
mod gone;
mod look;
mod losses;
mod setup;

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use rustc_hash::FxHashSet;

use crate::decode::ftrace::format::{EVENTS, FormatError};
use crate::decode::ftrace::{Family, Lookup};
use crate::model::time::boot_ns;
use crate::model::{Event, LossKind, LossPlace, Lost, ProcId};
use crate::source::seeds::Meanwhile;
use crate::source::{Drained, Source};
use crate::sys::procfs::{Proc, in_initial_pid_namespace};
use crate::sys::tracefs::{Instance, Tracefs, TracefsError};

use cpu::{Context, Cpu, Queued};
pub use forgers::Forgers;
use gone::Gone;
use look::Looks;
use setup::{configure, cpu_numbers, formats, page_size};

/// How long a record may take from its time stamp to its end, ns: a hypervisor that is busy
/// takes a virtual CPU away for some 10 ms.
const MARGIN_NS: u64 = 50_000_000;

#[derive(Debug, thiserror::Error)]
pub enum FtraceError {
    #[error(transparent)]
    Tracefs(#[from] TracefsError),
    #[error(
        "ftrace knows processes by their numbers outside of this PID namespace, which /proc does not \
         tell here: run tracer on the host, or use --backend ptrace"
    )]
    Namespace,
    #[error("the trace buffer cannot be read: {0}; use --backend ptrace")]
    Read(io::Error),
    #[error("process {pid} cannot be followed: {error}; is it still there?")]
    Follow { pid: u32, error: io::Error },
}

/// How the buffer is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reader {
    #[default]
    Raw,
    Text,
}

#[derive(Clone, Debug)]
pub struct Options {
    /// Size of each CPU's buffer, KiB; the kernel rounds it up to pages.
    pub buffer_kib: u32,
    /// Bytes of argv at most.
    pub max_argv: usize,
    /// Report threads, too.
    pub threads: bool,
    /// Everything that runs here, not only what [`FtraceSource::follow`] names.
    pub whole_system: bool,
    /// Kernel threads, too.
    pub kthreads: bool,
    pub reader: Reader,
}

/// The ftrace source. Its instance ends with it.
pub struct FtraceSource {
    // Before the instance, which cannot go while they are open.
    cpus: Vec<Cpu>,
    instance: Instance,
    looks: Looks,
    family: Family,
    forgers: Forgers,
    /// Why it is text that is read.
    odd: Option<FormatError>,
    kthreads: bool,
    whole_system: bool,
    following: bool,
    order: u64,
    complete_to: u64,
    gone: Gone,
    lost: bool,
    meanwhile: Meanwhile,
}

impl FtraceSource {
    /// Makes the instance; removes those that killed tracers left. Nothing is
    /// recorded before [`Self::follow`], or with `whole_system` from now on.
    /// Must be called within a tokio runtime.
    ///
    /// # Errors
    /// Not root, no tracefs, a kernel without these events.
    pub fn open(options: &Options) -> Result<Self, FtraceError> {
        let proc = Proc::default();
        let tracefs = Tracefs::open(proc.root())?;
        if !in_initial_pid_namespace() {
            return Err(FtraceError::Namespace);
        }
        // Only tidying up: what cannot be removed harms nobody.
        let _left = tracefs.remove_stale(&proc);
        let instance = tracefs.instance(&proc)?;
        configure(&instance, options)?;
        let formats = match options.reader {
            Reader::Raw => Some(formats(&instance)?),
            Reader::Text => None,
        };
        let (formats, odd) = match formats.transpose() {
            Ok(formats) => (formats, None),
            Err(odd) => (None, Some(odd)),
        };
        let page = page_size(&instance.read("events/header_page")?);
        let mut cpus = Vec::new();
        for number in cpu_numbers(instance.path()).map_err(FtraceError::Read)? {
            let cpu = Cpu::open(&instance, number, formats.as_ref(), page);
            cpus.push(cpu.map_err(FtraceError::Read)?);
        }
        let mut source = Self {
            cpus,
            instance,
            looks: Looks::new(proc, options.max_argv),
            family: Family::new(options.threads),
            forgers: Forgers::default(),
            odd,
            kthreads: options.kthreads,
            whole_system: options.whole_system,
            following: false,
            order: 0,
            complete_to: 0,
            gone: Gone::default(),
            lost: false,
            meanwhile: Meanwhile::default(),
        };
        if options.whole_system {
            source.start()?;
            // After it, so that nobody falls in between: the record of a process's
            // own fork counts more than what is adopted here.
            let ts = boot_ns();
            for pid in source.looks.proc().pids() {
                if let Some((id, parent)) = source.looks.process(pid) {
                    let tids = source.looks.proc().tids(pid);
                    source.family.adopt(id, parent, &tids, false);
                }
            }
            let proc = source.looks.proc();
            source.meanwhile = Meanwhile::read(proc, ts, options.kthreads, options.max_argv);
        }
        Ok(source)
    }

    /// Follows a process that runs already (`root`: the command, held before its
    /// exec) with all of its threads, and every descendant that it will have.
    /// Those that it has already are to be followed one by one.
    ///
    /// # Errors
    /// It is gone, or the kernel refuses.
    pub fn follow(&mut self, pid: u32, root: bool) -> Result<ProcId, FtraceError> {
        let (id, parent) = self.looks.process(pid).ok_or_else(|| FtraceError::Follow {
            pid,
            error: io::ErrorKind::NotFound.into(),
        })?;
        let tids = self.looks.proc().tids(pid);
        self.family.adopt(id, parent, &tids, root);
        // A write adds to the set. An empty set means everybody, so the events
        // come after it.
        for tid in tids {
            self.instance.write("set_event_pid", &tid.to_string())?;
        }
        if !self.following {
            self.start()?;
        }
        Ok(id)
    }

    /// Processes whose names imitate records.
    pub const fn forgers(&self) -> &Forgers {
        &self.forgers
    }

    /// Records that could not be read: faults of tracer itself.
    fn malformed(&self) -> u64 {
        self.cpus.iter().map(Cpu::malformed).sum()
    }

    fn start(&mut self) -> Result<(), FtraceError> {
        for event in EVENTS {
            self.instance
                .write(&format!("events/{event}/enable"), "1")?;
        }
        self.instance.write("tracing_on", "1")?;
        self.following = true;
        Ok(())
    }

    /// Passes on what is complete up to `up_to`, merged.
    fn release(&mut self, up_to: u64, out: &mut Vec<(u64, Event)>) {
        let Self {
            cpus,
            looks,
            family,
            kthreads,
            whole_system,
            order,
            lost,
            ..
        } = self;
        let mut emit = |event: Event| {
            let hidden = match &event {
                Event::Fork(e) => e.kthread && !*kthreads,
                Event::Exit(e) => e.kthread && !*kthreads,
                _ => false,
            };
            if !hidden {
                *order += 1;
                out.push((*order, event));
            }
        };
        loop {
            // Few CPUs have anything at a time; a heap would have to be kept.
            let first = cpus
                .iter_mut()
                .filter(|c| c.first_ts().is_some_and(|ts| ts <= up_to))
                .min_by_key(|c| c.first_ts());
            let Some(cpu) = first else {
                return;
            };
            match cpu.pop() {
                Some(Queued::Record(record)) => {
                    // Else it is a stranger with a number that was one of ours.
                    if *whole_system || *lost || family.knows(record.tid) {
                        family.apply(&record, looks, &mut emit);
                    }
                }
                Some(Queued::Lost { ts, count }) => {
                    *lost = true;
                    emit(Event::Lost(loss(ts, cpu.number(), count)));
                }
                None => return,
            }
        }
    }
}

impl Source for FtraceSource {
    async fn ready(&mut self) -> io::Result<()> {
        let cpus = &self.cpus;
        poll_fn(|context| {
            let mut found = Poll::Pending;
            for cpu in cpus {
                match cpu.poll_ready(context) {
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Ready(Ok(())) => found = Poll::Ready(Ok(())),
                    Poll::Pending => {}
                }
            }
            found
        })
        .await
    }

    fn drain(&mut self, out: &mut Vec<(u64, Event)>) -> Drained {
        // Before anything is read, see the head of this module.
        let now = boot_ns();
        let mut empty = true;
        let mut complete_to = now.saturating_sub(MARGIN_NS);
        for cpu in &mut self.cpus {
            let emptied = cpu.read(&mut Context {
                now,
                instance: &self.instance,
                looks: &mut self.looks,
                forgers: &mut self.forgers,
            });
            if !emptied {
                empty = false;
                complete_to = complete_to.min(cpu.last_ts());
            }
        }
        self.complete_to = self.complete_to.max(complete_to);
        self.release(self.complete_to, out);
        Drained {
            complete_to: self.meanwhile.sift(out, self.complete_to),
            empty,
        }
    }

    fn any_alive(&mut self) -> io::Result<bool> {
        let alive = self.family.alive().collect();
        Ok(self.gone.may_run(alive, &self.looks, self.complete_to))
    }

    fn finish(&mut self, out: &mut Vec<(u64, Event)>) {
        // While ends are still recorded: those of these must be.
        let looks = &self.looks;
        let ended: FxHashSet<ProcId> = self
            .family
            .alive()
            .filter(|id| !self.whole_system && !looks.is_running(*id))
            .collect();
        // If it cannot be stopped, what comes from now on is just not read.
        let _on = self.instance.write("tracing_on", "0");
        let end = boot_ns();
        while !self.drain(out).empty && self.complete_to < end {}
        self.release(u64::MAX, out);
        self.meanwhile.sift(out, u64::MAX);
        let now = boot_ns();
        for cpu in &mut self.cpus {
            if let Some(count) = cpu.lost_at_end(&self.instance) {
                self.order += 1;
                out.push((self.order, Event::Lost(loss(now, cpu.number(), count))));
                self.lost = true;
            }
        }
        let unseen = self.family.alive().filter(|id| ended.contains(id)).count() as u64;
        let count = unseen + self.family.unseen_ends();
        // All are recorded of the whole system; who had ended before it was none of it.
        if count > 0 && !self.lost && !self.whole_system {
            self.order += 1;
            let lost = Lost {
                ts: now,
                cpu: None,
                place: LossPlace::Ftrace,
                kind: LossKind::Exit,
                count,
            };
            out.push((self.order, Event::Lost(lost)));
        }
    }

    fn remarks(&mut self) -> Vec<String> {
        let mut remarks: Vec<String> = self.forgers.remarks().collect();
        if let Some(odd) = &self.odd {
            remarks.push(format!(
                "{odd}; so ftrace's text was read instead of its records; please report this kernel"
            ));
        }
        let malformed = self.malformed();
        if malformed > 0 {
            remarks.push(format!(
                "{malformed} records could not be read; this is a fault of tracer, please report it"
            ));
        }
        remarks
    }
}

const fn loss(ts: u64, cpu: u32, count: u64) -> Lost {
    Lost {
        ts,
        cpu: Some(cpu),
        place: LossPlace::Ftrace,
        kind: LossKind::Any,
        count,
    }
}

#[cfg(test)]
mod tests;
