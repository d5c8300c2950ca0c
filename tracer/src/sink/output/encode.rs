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
        const KEEP: usize = 1 << 20;
        self.clear();
        (self.capacity() <= KEEP).then_some(self)
    }
}

/// Makes a file's bytes. What it appends to `out` goes to the file as soon as it says
/// that `out` ends with a whole record, for readers of the file as well.
pub trait Encode: Send + 'static {
    type Chunk: Chunk;

    /// A chunk's bytes where they go to the file as they are; [`Self::encode`] does not
    /// get it then.
    fn as_is<'a>(&self, _chunk: &'a Self::Chunk) -> Option<&'a [u8]> {
        None
    }

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

    fn as_is<'a>(&self, chunk: &'a Vec<u8>) -> Option<&'a [u8]> {
        Some(chunk)
    }

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

/// Pieces of whole lines, none larger than a block unless a single line is.
fn blocks(mut lines: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let most = lines.get(..BLOCK).unwrap_or(lines);
        let end = match most.len() < lines.len() {
            false => lines.len(),
            true => memchr::memrchr(b'\n', most)
                .or_else(|| memchr::memchr(b'\n', lines))
                .map_or(lines.len(), |at| at + 1),
        };
        let (block, rest) = lines.split_at(end);
        lines = rest;
        (!block.is_empty()).then_some(block)
    })
}

impl Encode for Zstd {
    type Chunk = Vec<u8>;

    fn encode(&mut self, chunk: &Vec<u8>, out: &mut Vec<u8>) -> io::Result<bool> {
        for lines in blocks(chunk) {
            if self.block + lines.len() > BLOCK {
                self.encoder()?.flush()?;
                self.block = 0;
            }
            self.block += lines.len();
            self.encoder()?.write_all(lines)?;
        }
        let compressed = self.encoder()?.get_ref().len();
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

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn blocks_are_whole_lines() {
        let line = |n: usize| [vec![b'x'; n], vec![b'\n']].concat();
        let mut all = Vec::new();
        for n in [1, 1000, BLOCK / 2, BLOCK / 2, 3 * BLOCK, 5, BLOCK - 1, 0] {
            all.extend(line(n));
        }
        let found: Vec<&[u8]> = blocks(&all).collect();
        assert_eq!(found.concat(), all);
        assert!(found.iter().all(|b| b.ends_with(b"\n")));
        let large = found.iter().filter(|b| b.len() > BLOCK);
        assert_eq!(large.count(), 1, "the line that is too long");
        assert_eq!(blocks(b"").count(), 0);
    }

    #[test]
    fn whatever_is_there_of_a_file_gives_whole_lines() {
        let mut random = 1_u64;
        let mut chunk = Vec::new();
        while chunk.len() < 3 * BLOCK {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            chunk.extend_from_slice(format!("{:x} a line\n", random >> 20).as_bytes());
        }
        let (mut zstd, mut out) = (Zstd::new(chunk.len()), Vec::new());
        zstd.encode(&chunk, &mut out).expect("encode");
        zstd.flush(&mut out).expect("flush");
        for cut in [out.len() / 4, out.len() / 2, out.len() - 1, out.len()] {
            let mut text = Vec::new();
            // The missing end is an error; what comes before it counts.
            let _ = zstd::Decoder::new(&out[..cut]).map(|mut d| d.read_to_end(&mut text));
            assert!(chunk.starts_with(&text), "{cut}");
            assert!(text.is_empty() || text.ends_with(b"\n"), "{cut}");
            assert_eq!(
                text.is_empty(),
                cut == out.len() / 4,
                "the first block is larger"
            );
        }
    }
}
