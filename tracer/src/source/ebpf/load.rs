//! Loads and attaches the programs.
//!
//! Start-up is a cost that users see, so what takes long runs side by side:
//! two threads put the programs through the verifier. And what takes long for
//! nothing is avoided: see [`loader`] and [`Btf::stub`].

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::thread;

use aya::maps::{Array, HashMap, Map, MapData, MapError, PerCpuArray, RingBuf};
use aya::programs::{BtfTracePoint, Program, ProgramError};
use aya::{Btf as AyaBtf, Ebpf, EbpfLoader, Endianness, VerifierLogLevel};
use aya_log::EbpfLogger;
use log::Log;
use tracer_common::config::{Config, Glob, State, opt, root};
use tracer_common::offsets::Offsets;
use tracer_common::record::Counters;
use tracer_common::tracked::{Key, Tracked};

use super::config::{self, Options};
use super::error::{EbpfError, chain, denied, remedy};
use super::permit;
use super::seed;
use crate::sys::btf::{Blob, Btf, VMLINUX, resolve_offsets};
use crate::sys::procfs::Proc;
use crate::sys::signals::Undisturbed;

/// The kernel side.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/tracer-ebpf"));

/// Programs and the tracepoint of each; with the option that wants it.
const PROGRAMS: [(&str, &str, u64); 8] = [
    ("process_exec", "sched_process_exec", 0),
    ("process_fork", "sched_process_fork", 0),
    ("process_exit", "sched_process_exit", 0),
    ("process_free", "sched_process_free", 0),
    ("task_newtask", "task_newtask", opt::THREADS),
    ("exec_failed", "sys_exit", opt::FAILED_EXECS),
    ("signal_generate", "signal_generate", opt::SIGNALS),
    ("mark_victim", "mark_victim", opt::SIGNALS),
];

/// A value of the kernel side as aya wants it.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Plain<T>(pub T);

macro_rules! plain {
    ($($type:ty)*) => {$(
        // SAFETY: repr(C), integers only, no padding (a rule of tracer-common, see its crate docs).
        unsafe impl aya::Pod for Plain<$type> {}
    )*};
}

plain! { Config Offsets Glob State Counters Key Tracked }

/// Programs that run in the kernel until this is dropped, and their maps.
pub struct Loaded {
    pub(super) state: Array<MapData, Plain<State>>,
    counters: PerCpuArray<MapData, Plain<Counters>>,
    tracked: HashMap<MapData, Plain<Key>, Plain<Tracked>>,
    /// Whether the iterator over tasks was loaded, where there is need for it.
    pub(super) iterator: Option<Result<(), EbpfError>>,
    pub config: Config,
    pub offsets: Offsets,
    /// They stay attached as long as this is there.
    pub(super) programs: Option<Ebpf>,
}

impl Loaded {
    /// Loads the programs that `options` want and attaches them.
    pub fn new(options: &Options) -> Result<(Self, RingBuf<MapData>), EbpfError> {
        permit::ask().map_err(EbpfError::Denied)?;
        let _until_loaded = Undisturbed::begin();
        let blob = Blob::open(Path::new(VMLINUX)).map_err(EbpfError::NoBtf)?;
        let btf = Btf::parse(&blob)?;
        let globals = Globals::new(options, &btf)?;
        let typedefs = PROGRAMS.map(|(_, tracepoint, _)| format!("btf_trace_{tracepoint}"));
        let functions: &[&str] = match options.whom.runs_already() {
            true => &[seed::FUNCTION],
            false => &[],
        };
        let stub = btf.stub(&typedefs, functions)?;
        let (mut programs, aya_btf) = thread::scope(|scope| {
            let aya_btf = scope.spawn(|| AyaBtf::parse(&stub, Endianness::default()));
            let programs = load(loader(), &globals, options)?;
            let aya_btf = join(aya_btf).map_err(|e| EbpfError::Load(Box::new(e.into())))?;
            Ok::<_, EbpfError>((programs, aya_btf))
        })?;
        let iterator = match options.whom.runs_already() {
            true => Some(seed::load(&mut programs, &aya_btf, &options.whom)),
            false => None,
        };
        attach(&mut programs, &aya_btf, globals.config.0.flags)?;
        let ring = take(&mut programs, "RING")?;
        let loaded = Self {
            state: take(&mut programs, "STATE")?,
            counters: take(&mut programs, "COUNTERS")?,
            tracked: take(&mut programs, "TRACKED")?,
            iterator,
            config: globals.config.0,
            offsets: globals.offsets.0,
            programs: Some(programs),
        };
        Ok((loaded, ring))
    }

    /// From now on the next process that tracer forks is the root.
    pub fn arm(&mut self) -> Result<(), EbpfError> {
        let armed = Plain(State {
            root: root::ARMED,
            ..State::default()
        });
        self.state
            .set(0, armed, 0)
            .map_err(|e| EbpfError::Map("STATE", e))
    }

    /// The root as the kernel saw it, `(tgid, start)`.
    pub fn root(&self) -> Result<Option<(u32, u64)>, EbpfError> {
        let Plain(state) = self
            .state
            .get(&0, 0)
            .map_err(|e| EbpfError::Map("STATE", e))?;
        Ok((state.root == root::FOUND).then_some((state.root_tgid, state.root_start)))
    }

    /// Takes the programs out of the kernel: no record comes after that.
    pub fn detach(&mut self) {
        self.programs = None;
    }

    /// The programs that are attached. A descriptor does not keep one attached.
    pub fn program_fds(&self) -> Vec<(String, OwnedFd)> {
        let programs = self.programs.iter().flat_map(Ebpf::programs);
        let fds = programs.filter_map(|(name, program)| {
            // One that was not asked for is not loaded and has none.
            let fd = program.fd().ok()?.as_fd().try_clone_to_owned().ok()?;
            Some((name.to_owned(), fd))
        });
        fds.collect()
    }

    /// Reader of the kernel side's own diagnostics.
    pub fn logger(&mut self) -> Option<EbpfLogger<&'static dyn Log>> {
        EbpfLogger::init(self.programs.as_mut()?).ok()
    }

    /// The counters of each CPU.
    pub fn counters(&self) -> Result<Vec<Counters>, EbpfError> {
        let values = self
            .counters
            .get(&0, 0)
            .map_err(|e| EbpfError::Map("COUNTERS", e))?;
        Ok(values.iter().map(|Plain(c)| *c).collect())
    }

    /// The tracked set, in no order. One that changes meanwhile may be missing.
    pub fn tracked(&self) -> impl Iterator<Item = (Key, Tracked)> + '_ {
        let plain = |(Plain(key), Plain(value))| (key, value);
        self.tracked
            .iter()
            .filter_map(move |entry| entry.ok().map(plain))
    }
}

/// A panic of the thread goes on here.
fn join<T>(handle: thread::ScopedJoinHandle<'_, T>) -> T {
    handle
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// What the kernel side is told.
struct Globals {
    config: Plain<Config>,
    offsets: Plain<Offsets>,
    comm: Plain<Glob>,
    exclude_comm: Plain<Glob>,
    log_level: u8,
}

impl Globals {
    fn new(options: &Options, btf: &Btf<'_>) -> Result<Self, EbpfError> {
        let glob = |g: &Option<Box<Glob>>| Plain(g.as_deref().copied().unwrap_or(Glob::EMPTY));
        Ok(Self {
            config: Plain(config::config(options, btf, &Proc::at(Path::new("/proc")))?),
            offsets: Plain(resolve_offsets(btf)?),
            comm: glob(&options.comm),
            exclude_comm: glob(&options.exclude_comm),
            log_level: if options.debug { u8::MAX } else { 0 },
        })
    }
}

/// aya's loader, without the BTF that it parses when it is made, wanted or not:
/// 14 ms, half of the time to the command's start, for CO-RE relocations, of
/// which the object has none. A thread whose root directory is elsewhere does not
/// find that file. Where that is refused, the loader is made in the plain way.
pub fn loader() -> EbpfLoader<'static> {
    let elsewhere = thread::spawn(|| {
        // SAFETY: gives this thread a root directory of its own.
        let own = unsafe { libc::unshare(libc::CLONE_FS) } == 0;
        // SAFETY: the path is a C string; only this thread is concerned.
        let moved = own && unsafe { libc::chroot(c"/sys/kernel/btf".as_ptr()) } == 0;
        moved.then(EbpfLoader::new)
    });
    // A panic there would come again in the plain way.
    elsewhere.join().ok().flatten().unwrap_or_default()
}

/// Makes the maps, with what the kernel side is told frozen into its globals.
fn load<'a>(
    mut loader: EbpfLoader<'a>,
    globals: &'a Globals,
    options: &Options,
) -> Result<Ebpf, EbpfError> {
    let tracked = config::tracked_size(&options.whom, &Proc::at(Path::new("/proc")));
    loader
        .override_global("CONFIG", &globals.config, true)
        .override_global("OFFSETS", &globals.offsets, true)
        .override_global("COMM_GLOB", &globals.comm, true)
        .override_global("EXCLUDE_COMM_GLOB", &globals.exclude_comm, true)
        .override_global("AYA_LOG_LEVEL", &globals.log_level, false)
        .map_max_entries("RING", options.ring_size)
        .map_max_entries("TRACKED", tracked)
        // Only a program that is refused is put through again with a log.
        .verifier_log_level(VerifierLogLevel::DEBUG)
        .load(OBJECT)
        .map_err(|e| match denied(&e) {
            Some(error) => EbpfError::Denied(error),
            None => EbpfError::Load(Box::new(e)),
        })
}

/// Loads and attaches what the options want, the programs side by side. They
/// are attached in the order of [`PROGRAMS`] only after all are accepted.
fn attach(programs: &mut Ebpf, btf: &AyaBtf, flags: u64) -> Result<(), EbpfError> {
    let mut wanted: Vec<(&'static str, &'static str, &mut BtfTracePoint)> = Vec::new();
    for (name, program) in programs.programs_mut() {
        let Some((name, tracepoint, option)) = PROGRAMS.iter().find(|p| p.0 == name) else {
            continue;
        };
        if *option != 0 && flags & option == 0 {
            continue;
        }
        if let Program::BtfTracePoint(program) = program {
            wanted.push((name, tracepoint, program));
        }
    }
    // In two halves that take about as long.
    wanted.sort_by_key(|w| PROGRAMS.iter().position(|p| p.0 == w.0));
    let (mut one, mut other) = (Vec::new(), Vec::new());
    for (i, w) in wanted.into_iter().enumerate() {
        if matches!(i, 1 | 2) {
            other.push(w)
        } else {
            one.push(w)
        }
    }
    let accept = |side: &mut Vec<(&'static str, &'static str, &mut BtfTracePoint)>| {
        side.iter_mut().try_for_each(|(name, tracepoint, program)| {
            program.load(tracepoint, btf).map_err(|e| refused(name, e))
        })
    };
    thread::scope(|scope| {
        let beside = scope.spawn(|| accept(&mut other));
        let here = accept(&mut one);
        join(beside).and(here)
    })?;
    for (name, _, program) in one.iter_mut().chain(&mut other) {
        program.attach().map_err(|e| refused(name, e))?;
    }
    Ok(())
}

pub fn refused(program: &'static str, error: ProgramError) -> EbpfError {
    if let Some(error) = denied(&error) {
        return EbpfError::Denied(error);
    }
    let remedy = remedy(&error);
    let error = match &error {
        ProgramError::LoadError {
            io_error,
            verifier_log,
        } => {
            log::debug!("verifier log of {program}:\n{verifier_log}");
            // It gives its reason just before the figures.
            let log = verifier_log.to_string();
            let reason = log.lines().rfind(|l| !l.starts_with("processed "));
            format!("{io_error}: {}", reason.unwrap_or("no reason given"))
        }
        other => chain(other),
    };
    EbpfError::Program {
        program,
        error,
        remedy,
    }
}

pub fn take<M: TryFrom<Map, Error = MapError>>(
    programs: &mut Ebpf,
    name: &'static str,
) -> Result<M, EbpfError> {
    let map = programs.take_map(name);
    let map = map.ok_or(EbpfError::Map(name, MapError::ElementNotFound))?;
    M::try_from(map).map_err(|e| EbpfError::Map(name, e))
}
