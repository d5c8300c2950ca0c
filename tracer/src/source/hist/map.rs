//! A table of the kernel's, whose keys have a size that is known at run time only.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use tracer_common::hist::Row;

const BPF_MAP_LOOKUP_BATCH: i32 = 24;
const BPF_MAP_DELETE_BATCH: i32 = 27;

/// Entries that are read at once, to begin with.
const BATCH: usize = 1024;

/// `union bpf_attr` of the batch commands.
#[repr(C)]
struct Attr {
    in_batch: u64,
    out_batch: u64,
    keys: u64,
    values: u64,
    count: u32,
    map_fd: u32,
    elem_flags: u64,
    flags: u64,
}

/// A per-CPU hash map of rows.
#[derive(Clone, Copy, Debug)]
pub struct RowMap<'a> {
    pub fd: BorrowedFd<'a>,
    /// Words of a key.
    pub words: usize,
    /// Most entries.
    pub entries: usize,
    /// Values of each key: one for each CPU that there could be.
    pub cpus: usize,
}

impl RowMap<'_> {
    /// Calls `each` with every key and its rows on all CPUs. Keys that come
    /// meanwhile may be missing.
    ///
    /// # Errors
    /// Those of bpf(2).
    pub fn read(&self, mut each: impl FnMut(&[u64], &[Row])) -> io::Result<()> {
        let mut room = BATCH.min(self.entries.max(1));
        let (mut keys, mut rows) = (Vec::new(), Vec::new());
        // The kernel's own notion of where to go on: 4 bytes, with some to spare.
        let (mut from, mut next) = (0_u64, 0_u64);
        let mut first = true;
        loop {
            keys.resize(room * self.words, 0_u64);
            rows.resize(room * self.cpus, Row::NEW);
            let (got, result) = self.batch(
                BPF_MAP_LOOKUP_BATCH,
                if first { 0 } else { (&raw mut from) as u64 },
                (&raw mut next) as u64,
                keys.as_mut_ptr() as u64,
                rows.as_mut_ptr() as u64,
                room,
            );
            let over = match result {
                Ok(()) => false,
                Err(e) if e.raw_os_error() == Some(libc::ENOENT) => true,
                // More in one bucket than fits: nothing was taken out of it.
                Err(e) if e.raw_os_error() == Some(libc::ENOSPC) && room < 2 * self.entries => {
                    room *= 2;
                    continue;
                }
                Err(e) => return Err(e),
            };
            let rows = rows.chunks_exact(self.cpus);
            for (key, rows) in keys.chunks_exact(self.words).zip(rows).take(got) {
                each(key, rows);
            }
            if over {
                return Ok(());
            }
            (from, first) = (next, false);
        }
    }

    /// Takes everything out.
    ///
    /// # Errors
    /// Those of bpf(2).
    pub fn clear(&self) -> io::Result<()> {
        let mut keys: Vec<u64> = Vec::new();
        self.read(|key, _| keys.extend_from_slice(key))?;
        for some in keys.chunks_mut(BATCH * self.words) {
            let count = some.len() / self.words;
            let (_, result) = self.batch(
                BPF_MAP_DELETE_BATCH,
                0,
                0,
                some.as_mut_ptr() as u64,
                0,
                count,
            );
            result?;
        }
        Ok(())
    }

    fn batch(
        &self,
        command: i32,
        in_batch: u64,
        out_batch: u64,
        keys: u64,
        values: u64,
        count: usize,
    ) -> (usize, io::Result<()>) {
        let mut attr = Attr {
            in_batch,
            out_batch,
            keys,
            values,
            count: u32::try_from(count).unwrap_or(u32::MAX),
            map_fd: u32::try_from(self.fd.as_raw_fd()).unwrap_or(u32::MAX),
            elem_flags: 0,
            flags: 0,
        };
        // SAFETY: the callers' buffers have room for `count` keys of the map's size, and as many
        // values for each CPU; the other pointers are to words that outlive the call.
        let result =
            unsafe { libc::syscall(libc::SYS_bpf, command, &raw mut attr, size_of_val(&attr)) };
        let result = match result {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        };
        (attr.count as usize, result)
    }
}
