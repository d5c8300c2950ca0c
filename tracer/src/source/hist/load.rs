//! Loads the generic program with what one trigger makes of it, attaches it and
//! reads its table.

use std::fs;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::path::Path;

use aya::maps::{Array, HashMap, Map, MapData, MapError, PerCpuArray};
use aya::programs::{BtfTracePoint, Program, ProgramError, TracePoint};
use aya::{Btf as AyaBtf, Ebpf, Endianness, VerifierLogLevel};
use tracer_common::config::root;
use tracer_common::hist::{
    Config, LongPattern, MAX_LONG_PATTERNS, MAX_PATTERNS, Pattern, Row, Tracer, whom,
};
use tracer_common::offsets::Offsets;
use tracer_common::tracked::Key;

use super::attach::Attachment;
use super::compile::Compiled;
use super::error::HistError;
use super::map::RowMap;
use crate::source::ebpf::{EbpfError, Plain, denied, errno, loader, refused, take};
use crate::sys::btf::{Blob, Btf, VMLINUX, resolve_offsets};
use crate::sys::procfs::{Proc, version_of};
use crate::sys::signals::Undisturbed;

/// The kernel side.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/tracer-hist"));

/// Those that follow the tree, with their tracepoints.
const FOLLOWERS: [(&str, &str); 2] = [
    ("follow_fork", "sched_process_fork"),
    ("follow_free", "sched_process_free"),
];

/// Maps of those who are followed.
const SHARED: [&str; 4] = ["TREE", "SEEDS", "TREE_FULL", "ROOT"];

/// The map of events that found no room.
const DROPPED: &str = "DROPPED";

macro_rules! plain {
    ($($type:ty)*) => {$(
        // SAFETY: repr(C), integers only, no padding (a rule of tracer-common, see its crate docs).
        unsafe impl aya::Pod for Plain<$type> {}
    )*};
}

plain! { Config Tracer [Pattern; MAX_PATTERNS] [LongPattern; MAX_LONG_PATTERNS] }

/// A program in the kernel, and its table.
pub struct Counter {
    programs: Ebpf,
    table: String,
    words: usize,
    entries: usize,
    cpus: usize,
    /// Number of the event.
    event: u64,
    attached: Option<Attachment>,
}

/// The processes whose events count, shared by all programs of a run.
pub struct Tree {
    members: HashMap<MapData, Plain<Key>, u32>,
    root: Array<MapData, u32>,
    seeds: HashMap<MapData, u32, u64>,
    full: PerCpuArray<MapData, u64>,
    /// For the programs that look into the set.
    offsets: Offsets,
    _programs: Ebpf,
}

/// What a program has in common with others.
#[derive(Clone, Copy)]
pub struct Shared<'a> {
    /// A directory of a BPF file system, through which maps are shared.
    pub dir: &'a Path,
    /// The name that the table has there, if it is shared.
    pub table: Option<&'a str>,
    /// Whose events count, where those are processes.
    pub tree: Option<&'a Tree>,
}

/// A row, all CPUs together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawRow {
    pub key: Vec<u64>,
    /// One for each CPU on which the key was met.
    pub rows: Vec<Row>,
}

impl Counter {
    /// Loads the program; nothing is counted before [`Self::attach`].
    ///
    /// # Errors
    /// The kernel does not accept it, or there is no memory for the table.
    pub fn load(
        compiled: &Compiled,
        event: u64,
        shared: Option<Shared<'_>>,
    ) -> Result<Self, HistError> {
        let _until_loaded = Undisturbed::begin();
        let config = Plain(compiled.config);
        let patterns = Plain(*compiled.patterns.short);
        let long_patterns = Plain(*compiled.patterns.long);
        let tree = shared.and_then(|shared| shared.tree);
        let offsets = Plain(tree.map_or(Offsets::UNKNOWN, |tree| tree.offsets));
        let table = format!("TABLE_{}", compiled.config.table_words);
        let mut loader = loader();
        loader
            .override_global("HIST", &config, true)
            .override_global("PATTERNS", &patterns, true)
            .override_global("LONG_PATTERNS", &long_patterns, true)
            .override_global("OFFSETS", &offsets, true)
            .map_max_entries(&table, compiled.entries)
            .verifier_log_level(VerifierLogLevel::DEBUG);
        if let Some(shared) = shared {
            if shared.tree.is_some() {
                for name in SHARED {
                    loader.map_pin_path(name, shared.dir.join(name));
                }
            }
            if let Some(name) = shared.table {
                loader.map_pin_path(&table, shared.dir.join(name));
            }
        }
        let cpus = possible_cpus()?;
        let mut programs = match loader.load(OBJECT) {
            Err(error) if errno(&error) == Some(libc::ENOMEM) => {
                let key = compiled.config.table_words as usize * size_of::<u64>();
                let row = key + cpus * size_of::<Row>();
                return Err(HistError::NoMemory {
                    entries: compiled.entries,
                    mib: (compiled.entries as usize * row) >> 20,
                });
            }
            loaded => loaded.map_err(not_loaded)?,
        };
        let program: &mut TracePoint = program(&mut programs, "hist")?;
        program.load().map_err(|e| refused("hist", e))?;
        // The program has its maps. Each descriptor counts where there are many triggers.
        let names: Vec<String> = programs.maps().map(|(name, _)| name.to_owned()).collect();
        for name in names.iter().filter(|n| **n != table && *n != DROPPED) {
            drop(programs.take_map(name));
        }
        Ok(Self {
            programs,
            table,
            words: compiled.config.table_words as usize,
            entries: compiled.entries as usize,
            cpus,
            event,
            attached: None,
        })
    }

    fn program(&self) -> Result<BorrowedFd<'_>, HistError> {
        let program = self.programs.program("hist").ok_or(HistError::Object)?;
        let Program::TracePoint(program) = program else {
            return Err(HistError::Object);
        };
        Ok(program.fd().map_err(|e| refused("hist", e))?.as_fd())
    }

    /// Counts from now on.
    ///
    /// # Errors
    /// Those of perf_event_open(2) and bpf(2).
    pub fn attach(&mut self) -> Result<(), HistError> {
        if self.attached.is_none() {
            self.attached =
                Some(Attachment::new(self.program()?, self.event).map_err(HistError::Attach)?);
        }
        Ok(())
    }

    /// Counts no more. One event may still be counted on each CPU just now.
    pub fn detach(&mut self) {
        self.attached = None;
    }

    pub const fn is_attached(&self) -> bool {
        self.attached.is_some()
    }

    fn rows_map(&self) -> Result<RowMap<'_>, HistError> {
        let Some(Map::PerCpuHashMap(map)) = self.programs.map(&self.table) else {
            return Err(HistError::Object);
        };
        Ok(RowMap {
            fd: map.fd().as_fd(),
            words: self.words,
            entries: self.entries,
            cpus: self.cpus,
        })
    }

    /// The table's rows, in no order.
    ///
    /// # Errors
    /// Those of bpf(2).
    pub fn rows(&self) -> Result<Vec<RawRow>, HistError> {
        let mut found = Vec::new();
        let read = self.rows_map()?.read(|key, rows| {
            found.push(RawRow {
                key: key.to_vec(),
                rows: rows.iter().filter(|r| r.hits != 0).copied().collect(),
            });
        });
        read.map_err(HistError::Table)?;
        // One that another CPU is just about to count first has no hit yet.
        found.retain(|row| !row.rows.is_empty());
        Ok(found)
    }

    /// Events whose keys found no room in the table.
    ///
    /// # Errors
    /// Those of bpf(2).
    pub fn dropped(&self) -> Result<u64, HistError> {
        let map = self.programs.map(DROPPED).ok_or(HistError::Object)?;
        let map: PerCpuArray<_, u64> = PerCpuArray::try_from(map).map_err(map_error(DROPPED))?;
        let values = map.get(&0, 0).map_err(map_error(DROPPED))?;
        Ok(values.iter().sum())
    }

    /// Forgets all rows. To be exact it must have been detached, and
    /// [`super::grace_period`] waited for.
    ///
    /// # Errors
    /// Those of bpf(2).
    pub fn clear(&mut self) -> Result<(), HistError> {
        self.rows_map()?.clear().map_err(HistError::Table)?;
        let cpus = self.cpus;
        let map = self.programs.map_mut(DROPPED).ok_or(HistError::Object)?;
        let mut map: PerCpuArray<_, u64> =
            PerCpuArray::try_from(map).map_err(map_error(DROPPED))?;
        let zeroes = aya::maps::PerCpuValues::try_from(vec![0; cpus]).map_err(HistError::Table)?;
        map.set(0, zeroes, 0).map_err(map_error(DROPPED))
    }

    /// Events at which another BPF program ran on that CPU, so that the kernel
    /// ran none. `None`: it does not count them (before Linux 6.7).
    ///
    /// # Errors
    /// The program's fdinfo cannot be read.
    pub fn missed(&self) -> Result<Option<u64>, HistError> {
        let path = format!("/proc/self/fdinfo/{}", self.program()?.as_raw_fd());
        let info = fs::read_to_string(path).map_err(HistError::Table)?;
        let value = info.lines().find_map(|line| {
            let value = line.strip_prefix("recursion_misses:")?;
            value.trim().parse().ok()
        });
        Ok(value.filter(|_| counts_misses()))
    }
}

impl Tree {
    /// Follows the processes of a tree, with the maps that are in `pins`.
    ///
    /// # Errors
    /// The kernel does not accept the programs.
    pub fn load(pins: &Path, seeded: bool) -> Result<Self, HistError> {
        let _until_loaded = Undisturbed::begin();
        let blob = Blob::open(Path::new(VMLINUX)).map_err(EbpfError::NoBtf)?;
        let btf = Btf::parse(&blob).map_err(EbpfError::Btf)?;
        let offsets = Plain(resolve_offsets(&btf).map_err(EbpfError::Resolve)?);
        let typedefs = FOLLOWERS.map(|(_, tracepoint)| format!("btf_trace_{tracepoint}"));
        let stub = btf.stub(&typedefs, &[]).map_err(EbpfError::Btf)?;
        let stub = AyaBtf::parse(&stub, Endianness::default())
            .map_err(|e| EbpfError::Load(Box::new(e.into())))?;
        let config = Plain(Config {
            whom: if seeded {
                whom::SEEDED_TREE
            } else {
                whom::TREE
            },
            ..Config::NONE
        });
        let tracer = Plain(tracer().map_err(EbpfError::NoProc)?);
        let mut loader = loader();
        loader
            .override_global("HIST", &config, true)
            .override_global("TRACER", &tracer, true)
            .override_global("OFFSETS", &offsets, true)
            .verifier_log_level(VerifierLogLevel::DEBUG);
        for name in SHARED {
            loader.map_pin_path(name, pins.join(name));
        }
        let mut programs = loader.load(OBJECT).map_err(not_loaded)?;
        for (name, tracepoint) in FOLLOWERS {
            let program: &mut BtfTracePoint = program(&mut programs, name)?;
            program
                .load(tracepoint, &stub)
                .map_err(|e| refused(name, e))?;
            program.attach().map_err(|e| refused(name, e))?;
        }
        Ok(Self {
            members: take(&mut programs, "TREE")?,
            root: take(&mut programs, "ROOT")?,
            seeds: take(&mut programs, "SEEDS")?,
            full: take(&mut programs, "TREE_FULL")?,
            offsets: offsets.0,
            _programs: programs,
        })
    }

    /// From now on the next process that tracer forks is the root.
    ///
    /// # Errors
    /// Those of bpf(2).
    pub fn arm(&mut self) -> Result<(), HistError> {
        self.root.set(0, root::ARMED, 0).map_err(map_error("ROOT"))
    }

    /// Whether the root's fork was seen.
    ///
    /// # Errors
    /// Those of bpf(2).
    pub fn has_root(&self) -> Result<bool, HistError> {
        Ok(self.root.get(&0, 0).map_err(map_error("ROOT"))? == root::FOUND)
    }

    /// A process that runs already: its events count when it is met.
    ///
    /// # Errors
    /// No room, and those of bpf(2).
    pub fn seed(&mut self, pid: u32, start_ticks: u64) -> Result<(), HistError> {
        let inserted = self.seeds.insert(pid, start_ticks, 0);
        inserted.map_err(map_error("SEEDS"))
    }

    /// Those whose events count and who were met: number in the initial PID
    /// namespace, and start, boot ns.
    pub fn members(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        let keys = self.members.keys().flatten();
        keys.map(|Plain(key)| (key.tgid, key.start))
    }

    /// Processes that did not fit into the set.
    ///
    /// # Errors
    /// Those of bpf(2).
    pub fn full(&self) -> Result<u64, HistError> {
        let values = self.full.get(&0, 0).map_err(map_error("TREE_FULL"))?;
        Ok(values.iter().sum())
    }
}

fn program<'a, P>(programs: &'a mut Ebpf, name: &'static str) -> Result<&'a mut P, HistError>
where
    &'a mut P: TryFrom<&'a mut Program, Error = ProgramError>,
{
    let program = programs.program_mut(name).ok_or(HistError::Object)?;
    Ok(program.try_into().map_err(|e| refused(name, e))?)
}

fn not_loaded(error: aya::EbpfError) -> EbpfError {
    match denied(&error) {
        Some(error) => EbpfError::Denied(error),
        None => EbpfError::Load(Box::new(error)),
    }
}

fn map_error(name: &'static str) -> impl FnOnce(MapError) -> HistError {
    move |error| EbpfError::Map(name, error).into()
}

fn possible_cpus() -> Result<usize, HistError> {
    aya::util::nr_cpus().map_err(|(_, error)| HistError::Table(error))
}

/// What the kernel side knows us by.
fn tracer() -> io::Result<Tracer> {
    use std::os::unix::fs::MetadataExt as _;
    let namespace = fs::metadata(crate::source::ebpf::PID_NAMESPACE)?;
    Ok(Tracer {
        pid: std::process::id(),
        _pad: 0,
        dev: namespace.dev(),
        ino: namespace.ino(),
    })
}

/// Since Linux 6.7 programs on tracepoints have their misses counted.
fn counts_misses() -> bool {
    let release = Proc::default().kernel().unwrap_or_default();
    version_of(&release) >= Some((6, 7))
}
