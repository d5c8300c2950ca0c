//! Integer-only structs out of unaligned bytes.

use tracer_common::record::{
    ExecFailedRecord, ExecRecord, ExitRecord, FinalRecord, ForkRecord, GoneRecord, Header, Inline,
    ShortTotals, SignalRecord, Text, Totals,
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

records! { Header Inline ShortTotals ForkRecord ExecRecord Text ExitRecord FinalRecord GoneRecord ExecFailedRecord SignalRecord SeedRecord }

/// The struct at the start of `bytes`; `None` where they are too few.
pub(super) fn read<T: Record>(bytes: &[u8]) -> Option<T> {
    if bytes.len() < size_of::<T>() {
        return None;
    }
    // SAFETY: that many bytes are there, no alignment is needed, and every bit
    // pattern is a valid T (contract of Record).
    Some(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

/// A struct that ends with [`Totals`], where the record may end with [`ShortTotals`].
pub(super) fn with_totals<T: Record + Default>(bytes: &[u8]) -> Option<T> {
    if bytes.len() >= size_of::<T>() {
        return read(bytes);
    }
    let (head, short) = bytes.split_at_checked(size_of::<T>() - size_of::<Totals>())?;
    let short: ShortTotals = read(short)?;
    let totals = short.map(u64::from);
    let mut wide = T::default();
    // SAFETY: `head` and the totals are as long as a T together, and every bit pattern
    // is a valid T (contract of Record).
    unsafe {
        let to = (&raw mut wide).cast::<u8>();
        to.copy_from_nonoverlapping(head.as_ptr(), head.len());
        to.add(head.len())
            .copy_from_nonoverlapping(totals.as_ptr().cast(), size_of_val(&totals));
    }
    Some(wide)
}

/// What lies behind the struct.
pub(super) fn rest<T: Record>(bytes: &[u8]) -> &[u8] {
    bytes.get(size_of::<T>()..).unwrap_or_default()
}
