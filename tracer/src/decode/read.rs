//! Integer-only structs out of unaligned bytes.

use tracer_common::record::{
    ExecFailedRecord, ExecRecord, ExitRecord, FinalRecord, ForkRecord, GoneRecord, Header, Inline,
    SignalRecord, Text,
};
use tracer_common::seed::SeedRecord;

/// A struct that can be read out of any bytes.
///
/// # Safety
/// It must be `repr(C)` and hold only integers and arrays of them: every bit
/// pattern is then a valid value.
pub(super) unsafe trait Record: Copy {}

macro_rules! records {
    ($($name:ident)*) => {$(
        // SAFETY: repr(C), integers only (a rule of tracer-common, see its crate docs).
        unsafe impl Record for $name {}
    )*};
}

records! { Header Inline ForkRecord ExecRecord Text ExitRecord FinalRecord GoneRecord ExecFailedRecord SignalRecord SeedRecord }

/// The struct at the start of `bytes`; `None` where they are too few.
pub(super) fn read<T: Record>(bytes: &[u8]) -> Option<T> {
    if bytes.len() < size_of::<T>() {
        return None;
    }
    // SAFETY: that many bytes are there, no alignment is needed, and every bit
    // pattern is a valid T (contract of Record).
    Some(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

/// What lies behind the struct.
pub(super) fn rest<T: Record>(bytes: &[u8]) -> &[u8] {
    bytes.get(size_of::<T>()..).unwrap_or_default()
}
