//! From records to the bytes of a file: as they are, or compressed.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use super::queue::Chunk;

/// zstd's own default.
const LEVEL: i32 = 3;
/// How long compressed bytes may wait inside the encoder: a capture that is
/// killed misses no more than its last second.
const FLUSH_TIME: Duration = Duration::from_millis(250);
/// And how many bytes that are compressed already.
const FLUSH_BYTES: usize = 256 * 1024;

impl Chunk for Vec<u8> {
    fn bytes(&self) -> usize {
        self.len()
    }

    /// A line is a record: no format has line feeds inside one.
    fn records(&self) -> u64 {
        memchr::memchr_iter(b'\n', self).count() as u64
    }

    fn emptied(mut self) -> Option<Self> {
        /// Larger ones go back to the system.
        const KEEP: usize = 256 * 1024;
        self.clear();
        (self.capacity() <= KEEP).then_some(self)
    }
}

/// Makes a file's bytes. What it appends to `out` goes to the file as soon as it says
/// that `out` ends with a whole record, for readers of the file as well.
pub trait Encode: Send + 'static {
    type Chunk: Chunk;

    /// Takes whole records. Says whether `out` may be written.
    fn encode(&mut self, chunk: &Self::Chunk, out: &mut Vec<u8>) -> io::Result<bool>;

    /// How long until [`Self::flush`] is due; `None` where nothing waits inside.
    fn patience(&self) -> Option<Duration> {
        None
    }

    /// Brings out what waits inside.
    fn flush(&mut self, _out: &mut Vec<u8>) -> io::Result<()> {
        Ok(())
    }

    /// Completes the file. What comes next begins another.
    fn end(&mut self, _out: &mut Vec<u8>) -> io::Result<()> {
        Ok(())
    }
}

/// Lines as they are.
pub struct Plain;

impl Encode for Plain {
    type Chunk = Vec<u8>;

    fn encode(&mut self, chunk: &Vec<u8>, out: &mut Vec<u8>) -> io::Result<bool> {
        out.extend_from_slice(chunk);
        Ok(true)
    }
}

/// zstd compresses so much at a time: what lies within gets whole to a reader or not at all.
const BLOCK: usize = 128 * 1024;

/// One zstd frame a file, with a flush point at least four times a second. A block has
/// whole records, so that whatever of the file is there gives whole records too.
pub struct Zstd {
    /// What is compressed waits for more up to here.
    flush_bytes: usize,
    /// `None` before the first byte of a file.
    encoder: Option<zstd::Encoder<'static, Vec<u8>>>,
    /// Bytes in the present block.
    block: usize,
    /// Since when something waits inside.
    since: Option<Instant>,
}

impl Zstd {
    /// The size of usual chunks: of small ones fewer are held back.
    pub fn new(chunk: usize) -> Self {
        Self {
            flush_bytes: chunk.saturating_mul(4).min(FLUSH_BYTES),
            encoder: None,
            block: 0,
            since: None,
        }
    }

    fn encoder(&mut self) -> io::Result<&mut zstd::Encoder<'static, Vec<u8>>> {
        match &mut self.encoder {
            Some(encoder) => Ok(encoder),
            none => Ok(none.insert(zstd::Encoder::new(Vec::new(), LEVEL)?)),
        }
    }
}

impl Encode for Zstd {
    type Chunk = Vec<u8>;

    fn encode(&mut self, chunk: &Vec<u8>, out: &mut Vec<u8>) -> io::Result<bool> {
        if self.block + chunk.len() > BLOCK {
            self.encoder()?.flush()?;
            self.block = 0;
        }
        self.block += chunk.len();
        let encoder = self.encoder()?;
        encoder.write_all(chunk)?;
        let compressed = encoder.get_ref().len();
        let since = *self.since.get_or_insert_with(Instant::now);
        let due = compressed >= self.flush_bytes || since.elapsed() >= FLUSH_TIME;
        if due {
            self.flush(out)?;
        }
        Ok(due)
    }

    fn patience(&self) -> Option<Duration> {
        self.since
            .map(|since| FLUSH_TIME.saturating_sub(since.elapsed()))
    }

    fn flush(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        if self.since.take().is_some() {
            let encoder = self.encoder()?;
            encoder.flush()?;
            out.append(encoder.get_mut());
            self.block = 0;
        }
        Ok(())
    }

    fn end(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        self.since = None;
        self.block = 0;
        // A file without a record is an empty frame, which is what zstd makes of nothing.
        self.encoder()?;
        if let Some(encoder) = self.encoder.take() {
            out.append(&mut encoder.finish()?);
        }
        Ok(())
    }
}
