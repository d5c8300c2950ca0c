//! Reads the ring buffer and says how far the stream is complete.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use aya::maps::{MapData, RingBuf};
use aya_log::EbpfLogger;
use log::Log;
use tokio::io::unix::AsyncFd;
use tracer_common::config::opt;
use tracer_common::tracked::{Key, Tracked, bits};

use super::config::Options;
use super::error::EbpfError;
use super::load::Loaded;
use super::seed::Seeds;
use crate::decode::{Decoder, Known, ResolveCgroup, Settings};
use crate::model::time::boot_ns;
use crate::model::{Event, ProcId};
use crate::source::over::all_over;
use crate::source::{Drained, Fill, Source};

/// Records taken by one drain: what they become should still be in the processor's cache
/// when it is written.
const BATCH: usize = 256;
/// The kernel side's clock can be read in the midst of its update and then be
/// off by a little (kernel/time/timekeeping.c, ktime_get_mono_fast_ns), ns.
const CLOCK_SLACK: u64 = 1_000_000;
/// How often losses are looked for that no record shows, ns.
const LOOK: u64 = 1_000_000_000;

/// The eBPF source: programs attached, ring open.
pub struct EbpfSource {
    loaded: Loaded,
    ring: AsyncFd<RingBuf<MapData>>,
    positions: Positions,
    decoder: Decoder,
    logger: Option<EbpfLogger<&'static dyn Log>>,
    malformed: u64,
    seeds: Seeds,
    /// The most that lay in the ring at a look, bytes.
    fullest: usize,
    size: u32,
    /// When to look again for losses of the tracked set, boot ns.
    next_look: u64,
}

impl EbpfSource {
    /// Loads and attaches. Must be called within a tokio runtime.
    pub fn open(options: &Options, cgroup: ResolveCgroup) -> Result<Self, EbpfError> {
        let (mut loaded, ring) = Loaded::new(options)?;
        let positions = Positions::map(&ring).map_err(EbpfError::Ring)?;
        let logger = match options.debug {
            true => loaded.logger(),
            false => None,
        };
        let mut decoder = Decoder::new(Settings {
            cpus: aya::util::nr_cpus().map_err(|(_, e)| EbpfError::Ring(e))?,
            page_size: page_size() as u64,
            env: loaded.config.flags & opt::ENV != 0,
            known: Known::new(&loaded.offsets, loaded.config.flags),
            cgroup,
        });
        let seeds = Seeds::new(&mut loaded, options, &mut decoder)?;
        Ok(Self {
            loaded,
            seeds,
            // SAFETY: a map's descriptor stays open and the same as long as its RingBuf lives.
            ring: unsafe { AsyncFd::register(ring) }.map_err(|e| EbpfError::Ring(e.into()))?,
            positions,
            decoder,
            logger,
            malformed: 0,
            fullest: 0,
            size: options.ring_size,
            next_look: 0,
        })
    }

    /// From now on the next process that tracer forks is the root.
    pub fn arm(&mut self) -> Result<(), EbpfError> {
        self.loaded.arm()
    }

    /// The root, as soon as it was forked.
    pub fn root(&self) -> Result<Option<ProcId>, EbpfError> {
        let root = self.loaded.root()?;
        Ok(root.map(|(pid, start)| ProcId::exact(pid, start)))
    }
}

impl Source for EbpfSource {
    const FINALS_COME: bool = true;

    async fn ready(&mut self) -> io::Result<()> {
        self.ring.readable().await?.clear_ready();
        Ok(())
    }

    fn drain(&mut self, out: &mut Vec<(u64, Event)>) -> Drained {
        if let Some(logger) = &mut self.logger {
            logger.flush();
        }
        // In this order: what is reserved later than `reserved` was read has a
        // later time than `now`.
        let now = boot_ns();
        let reserved = self.positions.producer();
        let used = reserved.wrapping_sub(self.positions.consumer());
        self.fullest = self.fullest.max(used);
        let ring = self.ring.get_mut();
        let mut emit = |order, event| out.push((order, event));
        for _ in 0..BATCH {
            let Some(record) = ring.next() else {
                break;
            };
            if self.decoder.decode(&record, &mut emit).is_err() {
                self.malformed += 1;
            }
        }
        if now >= self.next_look {
            // Processes that are not followed leave no record at all.
            self.next_look = now + LOOK;
            if let Ok(counters) = self.loaded.counters()
                && let Some(lost) = self.decoder.table_losses(&counters, now)
            {
                out.push((0, Event::Lost(lost)));
            }
        }
        let held = self.seeds.give(&mut self.decoder, out);
        let consumed = self.positions.consumer();
        let mut complete_to = self.decoder.watermark();
        // Positions only grow; they wrap with the word.
        let caught_up = reserved.wrapping_sub(consumed).cast_signed() <= 0;
        if caught_up {
            // An exec may lie before that point and its text behind it.
            complete_to = complete_to.max(now.min(self.decoder.pending_bound()));
        }
        let complete_to = complete_to.saturating_sub(CLOCK_SLACK).min(held);
        Drained {
            complete_to: self.seeds.sift(out, complete_to),
            empty: caught_up && held == u64::MAX,
        }
    }

    fn any_alive(&mut self) -> io::Result<bool> {
        let own = std::process::id();
        // Its own end is not waited for: it is below the shell that `-p` may name.
        let others = || self.loaded.tracked().filter(|(key, _)| key.tgid != own);
        let ended = |(key, process): (Key, Tracked)| {
            (process.flags & bits::TOLD != 0).then_some((key.tgid, key.start))
        };
        Ok(!all_over(|| others().map(ended).collect()))
    }

    fn finish(&mut self, out: &mut Vec<(u64, Event)>) {
        self.loaded.detach();
        while !self.drain(out).empty {}
        self.seeds.sift(out, u64::MAX);
        let mut emit = |order, event| out.push((order, event));
        // Without the counters nothing can be said of losses at the very end;
        // reading a map of one's own does not fail.
        let counters = self.loaded.counters().unwrap_or_default();
        self.decoder.finish(&counters, boot_ns(), &mut emit);
    }

    fn fill(&mut self) -> Option<Fill> {
        Some(Fill {
            used: std::mem::take(&mut self.fullest) as u64,
            size: self.size.into(),
        })
    }

    fn programs(&self) -> Vec<(String, OwnedFd)> {
        self.loaded.program_fds()
    }

    fn remarks(&mut self) -> Vec<String> {
        let remark = |n: u64| {
            format!("{n} records could not be read; this is a fault of tracer, please report it")
        };
        let malformed = Some(std::mem::take(&mut self.malformed)).filter(|n| *n > 0);
        let seeds = self.seeds.remark();
        seeds.into_iter().chain(malformed.map(remark)).collect()
    }
}

/// The ring's consumer and producer positions (kernel/bpf/ringbuf.c), which
/// aya keeps to itself: a record that is still being written looks to it as if
/// the ring were empty.
struct Positions {
    pages: NonNull<u8>,
    page_size: usize,
}

// SAFETY: a mapping that lives as long as the value and is only read.
unsafe impl Send for Positions {}

impl Positions {
    fn map(ring: &RingBuf<MapData>) -> io::Result<Self> {
        let page_size = page_size();
        // SAFETY: a new shared mapping, placed by the kernel, of the first two
        // pages of the map: consumer position, producer position.
        let pages = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                2 * page_size,
                libc::PROT_READ,
                libc::MAP_SHARED,
                ring.as_fd().as_raw_fd(),
                0,
            )
        };
        if pages == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let pages = NonNull::new(pages.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { pages, page_size })
    }

    fn at(&self, offset: usize) -> usize {
        // SAFETY: a position is an aligned word at the start of a page that is
        // mapped as long as self; the kernel and aya write it as a whole.
        let position = unsafe { self.pages.add(offset).cast::<AtomicUsize>().as_ref() };
        position.load(Ordering::Acquire)
    }

    fn consumer(&self) -> usize {
        self.at(0)
    }

    fn producer(&self) -> usize {
        self.at(self.page_size)
    }
}

impl Drop for Positions {
    fn drop(&mut self) {
        // SAFETY: our own mapping, which nothing refers to any more.
        unsafe { libc::munmap(self.pages.as_ptr().cast(), 2 * self.page_size) };
    }
}

fn page_size() -> usize {
    // SAFETY: sysconf has no preconditions.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(4096)
}
