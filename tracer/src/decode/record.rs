//! Records of the ring buffer to events, gaps to losses, and how far the
//! stream is complete.
//!
//! # Losses
//! Each record carries a number that counts the attempts of its kind on its CPU
//! from 0, failed ones included. A jump is a loss, reported with the time of the
//! record after it; what is missing at the end shows in the counters.
//!
//! # The watermark: up to which time everything has been consumed
//! Space in the ring is reserved in order, and a record's time is read after its
//! own reserve on the same CPU. Programs of one kind cannot interrupt each other
//! on one CPU. Let p be a consumed record and q the record of the same CPU and
//! kind before it. The program that wrote q had ended when that of p reserved:
//! `ts(q) ≤ reserve(p)`. A record r that lies behind p was reserved after p, and
//! read its time after that: `reserve(p) ≤ reserve(r) ≤ ts(r)`. So no record
//! still to come has a time before `ts(q)`, and W = max over all p of `ts(q)` is
//! exact; no guess of how late a record may be is needed. (Boot-clock reads of
//! different CPUs agree; where the kernel adjusts the clock meanwhile they can
//! be off by some ns, which the reorderer counts and survives.)
//!
//! Only the last record of each (CPU, kind) can have a time above W, so what
//! waits for release is at most `cpus × kinds` records, besides those held up by
//! an exec whose text has not come yet: W stays below the time of such an exec.
//!
//! The other rule needs the reader: it reads the boot clock as `t0`, *then* the
//! ring's producer position P, and consumes up to P. What lies behind P was
//! reserved after `t0` and carries a later time, so all up to `t0` has been
//! consumed (but for text of an exec that lies across P, see
//! [`Decoder::pending_bound`]). That the ring looks empty is not enough: a record
//! that is still being written hides those behind it.

use tracer_common::record::{Counters, ExecRecord, Header, Text, kind};

use super::convert;
use super::error::DecodeError;
use super::exec::{Paths, Pending};
use super::read::{Record, read, rest, with_totals};
use super::settings::Settings;
use crate::model::{Bytes, Event, Field, LossKind, LossPlace, Lost};

/// What is remembered of a CPU.
#[derive(Default)]
struct Cpu {
    /// By kind: the number that the next record must have.
    next: [u32; kind::COUNT],
    /// By kind: time of the last record.
    last: [u64; kind::COUNT],
    /// An exec whose text has not come whole. One at most: the program that
    /// wrote it also wrote its text before another could begin on this CPU.
    pending: Option<Pending>,
}

/// Decodes the records of one ring buffer, in its order.
///
/// Events go to a closure together with their place in the ring, a number that
/// grows; of two events with equal `ts` the lower one comes first. An exec is
/// given when its last text has come, with the place of the exec itself.
pub struct Decoder {
    settings: Settings,
    cpus: Vec<Cpu>,
    consumed: u64,
    watermark: u64,
    /// CPUs with a pending exec.
    pending: usize,
    table_full: u64,
    paths: Paths,
}

impl Decoder {
    pub fn new(settings: Settings) -> Self {
        let mut cpus = Vec::new();
        cpus.resize_with(settings.cpus, Cpu::default);
        Self {
            settings,
            cpus,
            consumed: 0,
            watermark: 0,
            pending: 0,
            table_full: 0,
            paths: Paths::default(),
        }
    }

    /// Decodes one record. On an error the record is dropped; count it and go on.
    ///
    /// # Errors
    /// Where the bytes do not fit a record's layout, see [`DecodeError`].
    pub fn decode(
        &mut self,
        bytes: &[u8],
        out: &mut impl FnMut(u64, Event),
    ) -> Result<(), DecodeError> {
        let short = |kind| DecodeError::Short {
            kind,
            len: bytes.len(),
        };
        let h: Header = read(bytes).ok_or(short(bytes.first().copied().unwrap_or(0)))?;
        if h.kind == 0 || usize::from(h.kind) >= kind::COUNT {
            return Err(DecodeError::Kind { kind: h.kind });
        }
        let order = self.note(&h, out)?;
        // `None` from `read` is a record shorter than its kind's struct.
        let event = match h.kind {
            kind::EXEC => {
                let exec = Pending::new(order, read(bytes).ok_or(short(h.kind))?);
                return self.exec(&h, exec, rest::<ExecRecord>(bytes), out);
            }
            kind::TEXT => {
                return self.text(&read(bytes).ok_or(short(h.kind))?, rest::<Text>(bytes), out);
            }
            kind::FORK => get(bytes).map(|r| convert::fork(&r)),
            kind::EXIT => with_totals(bytes).map(|r| convert::exit(&r, &mut self.settings)),
            kind::FINAL => with_totals(bytes).map(|r| convert::totals_final(&r, &self.settings)),
            kind::EXEC_FAILED => get(bytes).map(|r| convert::exec_failed(&r)).transpose()?,
            kind::SIGNAL | kind::OOM => get(bytes).map(|r| convert::signal(&r)),
            _ => get(bytes).map(|r| convert::gone(&r)),
        };
        out(order, event.ok_or(short(h.kind))?);
        Ok(())
    }

    /// All records still to come have a time of at least this; what is not above
    /// it can be released. See the module's documentation for the proof.
    pub fn watermark(&self) -> u64 {
        self.watermark.min(self.pending_bound())
    }

    /// Just before the earliest exec whose text has not come yet; without one,
    /// the end of time.
    pub fn pending_bound(&self) -> u64 {
        if self.pending == 0 {
            return u64::MAX;
        }
        let held = self.cpus.iter().filter_map(|c| c.pending.as_ref());
        held.map(|p| p.ts().saturating_sub(1))
            .fold(u64::MAX, u64::min)
    }

    pub(super) fn cgroup_path(&mut self, id: u64) -> Field<Bytes> {
        self.settings.cgroup_path(id)
    }

    /// New failures of the kernel side to add a process to the tracked set, since
    /// the last call; `counters` are those of each CPU.
    pub fn table_losses(&mut self, counters: &[Counters], ts: u64) -> Option<Lost> {
        let total = counters
            .iter()
            .fold(0u64, |sum, c| sum.saturating_add(c.table_full));
        let count = total.saturating_sub(self.table_full);
        self.table_full = total;
        let lost = Lost {
            ts,
            cpu: None,
            place: LossPlace::Table,
            kind: LossKind::Any,
            count,
        };
        Some(lost).filter(|lost| lost.count != 0)
    }

    /// After the probes were detached and the ring was drained: incomplete execs,
    /// and losses that no record followed, with the time `ts`.
    pub fn finish(&mut self, counters: &[Counters], ts: u64, out: &mut impl FnMut(u64, Event)) {
        for i in 0..self.cpus.len() {
            self.flush(i, out);
        }
        let mut lost = Vec::new();
        for ((number, cpu), counters) in (0u32..).zip(&mut self.cpus).zip(counters) {
            for ((kind, next), attempts) in (0u8..).zip(&mut cpu.next).zip(counters.seq) {
                if let (Some(count @ 1..), Some(kind)) = (ahead(*next, attempts), loss_kind(kind)) {
                    lost.push(Lost {
                        ts,
                        cpu: Some(number),
                        place: LossPlace::Ring,
                        kind,
                        count,
                    });
                }
                *next = attempts;
            }
        }
        lost.extend(self.table_losses(counters, ts));
        for lost in lost {
            self.consumed += 1;
            out(self.consumed * 2, Event::Lost(lost));
        }
    }

    /// Sequence and watermark; gives the record's place in the ring.
    fn note(&mut self, h: &Header, out: &mut impl FnMut(u64, Event)) -> Result<u64, DecodeError> {
        let cpus = self.cpus.len();
        let number = DecodeError::Cpu { cpu: h.cpu, cpus };
        let cpu = self.cpus.get_mut(usize::from(h.cpu)).ok_or(number)?;
        let unknown = DecodeError::Kind { kind: h.kind };
        let next = cpu.next.get_mut(usize::from(h.kind)).ok_or(unknown)?;
        let last = cpu.last.get_mut(usize::from(h.kind)).ok_or(unknown)?;

        self.consumed += 1;
        let order = self.consumed * 2;
        if let Some(count) = ahead(*next, h.seq) {
            if let (Some(kind), true) = (loss_kind(h.kind), count != 0) {
                let cpu = Some(u32::from(h.cpu));
                out(
                    order,
                    Event::Lost(Lost {
                        ts: h.ts,
                        cpu,
                        place: LossPlace::Ring,
                        kind,
                        count,
                    }),
                );
            }
            *next = h.seq.wrapping_add(1);
        }
        self.watermark = self.watermark.max(*last);
        *last = h.ts;
        Ok(order + 1)
    }

    /// `behind` is the text of a short one; for any other it still comes.
    fn exec(
        &mut self,
        h: &Header,
        mut exec: Pending,
        behind: &[u8],
        out: &mut impl FnMut(u64, Event),
    ) -> Result<(), DecodeError> {
        let i = usize::from(h.cpu);
        // One still waiting here can get no more: see `Cpu::pending`.
        let incomplete = self.flush(i, out);
        let mut text = Some(());
        if !behind.is_empty() {
            text = exec.inline(behind, &mut self.paths);
        }
        if exec.is_complete() {
            exec.emit(&mut self.settings, out);
        } else if let Some(cpu) = self.cpus.get_mut(i) {
            cpu.pending = Some(exec);
            self.pending += 1;
        }
        text.ok_or(DecodeError::Length { kind: h.kind })?;
        if incomplete {
            Err(DecodeError::Incomplete { cpu: h.cpu })
        } else {
            Ok(())
        }
    }

    fn text(
        &mut self,
        text: &Text,
        body: &[u8],
        out: &mut impl FnMut(u64, Event),
    ) -> Result<(), DecodeError> {
        let i = usize::from(text.h.cpu);
        let pending = self.cpus.get_mut(i).and_then(|cpu| cpu.pending.as_mut());
        let orphan = DecodeError::Orphan {
            cpu: text.h.cpu,
            exec_seq: text.exec_seq,
        };
        let pending = pending.filter(|p| p.seq() == text.exec_seq).ok_or(orphan)?;
        let added = pending.add(text, body, &mut self.paths);
        if pending.is_complete() {
            self.flush(i, out);
        }
        added
    }

    /// Emits the exec that waits on CPU `i`, as it is; says whether there was one.
    fn flush(&mut self, i: usize, out: &mut impl FnMut(u64, Event)) -> bool {
        let Some(pending) = self.cpus.get_mut(i).and_then(|cpu| cpu.pending.take()) else {
            return false;
        };
        self.pending -= 1;
        pending.emit(&mut self.settings, out);
        true
    }
}

fn get<T: Record>(bytes: &[u8]) -> Option<T> {
    read(bytes)
}

/// Records missing before number `seq` where `next` was due. Numbers wrap; half
/// the range or more is a step back (`None`).
fn ahead(next: u32, seq: u32) -> Option<u64> {
    let missing = seq.wrapping_sub(next);
    (missing <= u32::MAX / 2).then_some(u64::from(missing))
}

/// Text is no event of its own: its exec says what is missing.
const fn loss_kind(kind: u8) -> Option<LossKind> {
    match kind {
        kind::FORK => Some(LossKind::Fork),
        kind::EXEC => Some(LossKind::Exec),
        // A good end under `--failed` is an end.
        kind::EXIT | kind::GONE => Some(LossKind::Exit),
        kind::FINAL => Some(LossKind::Final),
        kind::EXEC_FAILED => Some(LossKind::ExecFailed),
        kind::SIGNAL | kind::OOM => Some(LossKind::Signal),
        _ => None,
    }
}
