//! The table of offsets that the kernel side needs, on this kernel.

use thiserror::Error;
use tracer_common::offsets::{NONE, Offsets};

use super::{Btf, BtfError};

#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ResolveError {
    #[error(
        "this kernel's BTF has no {structure}.{member}, which tracing with eBPF needs; \
         use --backend ftrace or --backend ptrace"
    )]
    Missing {
        structure: &'static str,
        member: &'static str,
    },
    #[error(transparent)]
    Btf(#[from] BtfError),
}

/// Every offset of [`Offsets::TABLE`] on this kernel.
///
/// # Errors
/// The first required member that is missing, or a damaged blob. A missing
/// optional member becomes [`NONE`].
pub fn resolve_offsets(btf: &Btf<'_>) -> Result<Offsets, ResolveError> {
    let mut values = Vec::with_capacity(Offsets::TABLE.len());
    for (_, structure, member, required) in Offsets::TABLE.iter().copied() {
        values.push(match btf.member_offset(structure, member)? {
            Some(offset) => offset,
            None if required => return Err(ResolveError::Missing { structure, member }),
            None => NONE,
        });
    }
    // As many values as the table has rows.
    Ok(Offsets::from_values(&values).unwrap_or(Offsets::UNKNOWN))
}
