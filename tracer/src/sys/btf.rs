//! The kernel's type information (BTF), as far as member offsets need it.
//!
//! A vmlinux blob describes some 150,000 types. Decoding them all costs more
//! than everything else at start-up, so one walk notes only where each type
//! begins and the hashes of the names of those that can be asked for; members
//! are read on demand. The format is that of the kernel's
//! `include/uapi/linux/btf.h`. Nothing here trusts the blob.

mod blob;
mod error;
mod kind;
mod offsets;
mod stub;

use std::hash::Hasher;

use rustc_hash::FxHasher;

pub use blob::{Blob, VMLINUX};
pub use error::BtfError;
pub use offsets::{ResolveError, resolve_offsets};

const MAGIC: u16 = 0xeb9f;
const HEADER_LEN: usize = 24;
const TYPE_LEN: usize = 12;

/// Steps that one query may take. The largest struct of a real kernel has some
/// 300 members; a blob that needs more than this runs in circles.
const FUEL: u32 = 1 << 18;
/// Anonymous members inside anonymous members.
const MAX_DEPTH: u32 = 16;

/// An index over a blob.
pub struct Btf<'a> {
    types: &'a [u8],
    strings: &'a [u8],
    /// Where type `i + 1` begins in `types`. Type 0 is `void`.
    starts: Vec<u32>,
    /// Name hash and id of each struct and union that has a name.
    structs: Vec<(u32, u32)>,
    typedefs: Vec<(u32, u32)>,
}

#[derive(Clone, Copy)]
struct Type {
    name: u32,
    kind: u32,
    /// Number of members, parameters, … that follow.
    vlen: u32,
    /// Member offsets carry a bitfield size in their upper 8 bits.
    kflag: bool,
    /// Size in bytes, or the id of the type referred to.
    size_or_type: u32,
    /// Where what follows the type begins in `types`.
    tail: usize,
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let b = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_ne_bytes(b.try_into().ok()?))
}

fn hash(name: &[u8]) -> u32 {
    let mut h = FxHasher::default();
    h.write(name);
    let h = h.finish();
    // Folded: both halves count.
    (h ^ (h >> 32)) as u32
}

/// Takes one step of a query's allowance.
fn burn(fuel: &mut u32) -> Result<(), BtfError> {
    *fuel = fuel
        .checked_sub(1)
        .ok_or(BtfError::Damaged("a type contains itself"))?;
    Ok(())
}

impl<'a> Btf<'a> {
    /// Indexes `data`, the content of `/sys/kernel/btf/vmlinux`.
    pub fn parse(data: &'a [u8]) -> Result<Self, BtfError> {
        let magic = data
            .get(..2)
            .and_then(|b| b.try_into().ok())
            .map(u16::from_ne_bytes);
        if magic != Some(MAGIC) {
            return Err(BtfError::Magic);
        }
        let version = *data.get(2).ok_or(BtfError::Damaged("header"))?;
        if version != 1 {
            return Err(BtfError::Version(version));
        }
        let field = |at| {
            u32_at(data, at)
                .map(|v| v as usize)
                .ok_or(BtfError::Damaged("header"))
        };
        let header = field(4)?;
        if header < HEADER_LEN {
            return Err(BtfError::Damaged("header length"));
        }
        let section = |off: usize, len: usize| {
            let start = header.checked_add(off)?;
            data.get(start..start.checked_add(len)?)
        };
        let types = section(field(8)?, field(12)?).ok_or(BtfError::Damaged("type section"))?;
        let strings = section(field(16)?, field(20)?).ok_or(BtfError::Damaged("string section"))?;
        let mut btf = Self {
            types,
            strings,
            starts: Vec::with_capacity(types.len() / 20),
            structs: Vec::with_capacity(types.len() / 256),
            typedefs: Vec::with_capacity(types.len() / 256),
        };
        btf.walk()?;
        Ok(btf)
    }

    fn walk(&mut self) -> Result<(), BtfError> {
        let mut at = 0;
        while at < self.types.len() {
            let ty = self.type_at(at).ok_or(BtfError::Damaged("type"))?;
            // The type section's length is a u32, so ids and offsets fit into one.
            self.starts.push(at as u32);
            let id = self.starts.len() as u32;
            let each = match ty.kind {
                kind::INT | kind::VAR | kind::DECL_TAG => 4,
                kind::ARRAY => 12,
                kind::STRUCT | kind::UNION | kind::DATASEC | kind::ENUM64 => 12 * ty.vlen as usize,
                kind::ENUM | kind::FUNC_PROTO => 8 * ty.vlen as usize,
                kind::PTR | kind::FWD | kind::TYPEDEF | kind::VOLATILE | kind::CONST => 0,
                kind::RESTRICT | kind::FUNC | kind::FLOAT | kind::TYPE_TAG => 0,
                kind => return Err(BtfError::Kind { kind, id }),
            };
            match ty.kind {
                kind::STRUCT | kind::UNION if ty.name != 0 => {
                    let h = hash(self.name(ty.name)?);
                    self.structs.push((h, id));
                }
                kind::TYPEDEF => {
                    let h = hash(self.name(ty.name)?);
                    self.typedefs.push((h, id));
                }
                _ => {}
            }
            at = ty.tail.saturating_add(each);
        }
        if at == self.types.len() {
            Ok(())
        } else {
            Err(BtfError::Damaged("last type"))
        }
    }

    fn type_at(&self, at: usize) -> Option<Type> {
        let info = u32_at(self.types, at + 4)?;
        Some(Type {
            name: u32_at(self.types, at)?,
            kind: (info >> 24) & 0x1f,
            vlen: info & 0xffff,
            kflag: info >> 31 != 0,
            size_or_type: u32_at(self.types, at + 8)?,
            tail: at + TYPE_LEN,
        })
    }

    /// The type numbered `id`; `None` for `void`.
    fn by_id(&self, id: u32) -> Result<Option<Type>, BtfError> {
        let Some(i) = id.checked_sub(1) else {
            return Ok(None);
        };
        let start = self
            .starts
            .get(i as usize)
            .ok_or(BtfError::Damaged("type number"))?;
        self.type_at(*start as usize)
            .map(Some)
            .ok_or(BtfError::Damaged("type"))
    }

    fn name(&self, offset: u32) -> Result<&'a [u8], BtfError> {
        let rest = self
            .strings
            .get(offset as usize..)
            .ok_or(BtfError::Damaged("name"))?;
        let end = memchr::memchr(0, rest).ok_or(BtfError::Damaged("name"))?;
        Ok(&rest[..end])
    }

    /// Whether the name at `offset` is `wanted`, without measuring it.
    fn is_named(&self, offset: u32, wanted: &[u8]) -> bool {
        let at = offset as usize;
        let end = at.saturating_add(wanted.len());
        self.strings.get(at..end) == Some(wanted) && self.strings.get(end) == Some(&0)
    }

    fn named(&self, list: &[(u32, u32)], name: &str) -> Result<Vec<Type>, BtfError> {
        let wanted = hash(name.as_bytes());
        let mut found = Vec::new();
        for (_, id) in list.iter().filter(|(h, _)| *h == wanted) {
            if let Some(ty) = self.by_id(*id)?
                && self.is_named(ty.name, name.as_bytes())
            {
                found.push(ty);
            }
        }
        Ok(found)
    }

    /// Follows typedefs and qualifiers.
    fn bare(&self, mut id: u32, fuel: &mut u32) -> Result<Option<Type>, BtfError> {
        loop {
            burn(fuel)?;
            let Some(ty) = self.by_id(id)? else {
                return Ok(None);
            };
            match ty.kind {
                kind::TYPEDEF | kind::VOLATILE | kind::CONST | kind::RESTRICT | kind::TYPE_TAG => {
                    id = ty.size_or_type
                }
                _ => return Ok(Some(ty)),
            }
        }
    }

    /// Bit offset and type id of the member `name` of `ty`, looked for in
    /// anonymous members too. A bitfield is as good as absent.
    fn member(
        &self,
        ty: Type,
        name: &[u8],
        depth: u32,
        fuel: &mut u32,
    ) -> Result<Option<(u64, u32)>, BtfError> {
        if !matches!(ty.kind, kind::STRUCT | kind::UNION) || depth > MAX_DEPTH {
            return Ok(None);
        }
        for i in 0..ty.vlen as usize {
            burn(fuel)?;
            let at = ty.tail + i * 12;
            let read = |n| u32_at(self.types, at + n).ok_or(BtfError::Damaged("member"));
            let (name_off, id, place) = (read(0)?, read(4)?, read(8)?);
            let (bits, bitfield) = if ty.kflag {
                (place & 0xff_ffff, place >> 24)
            } else {
                (place, 0)
            };
            let bits = u64::from(bits);
            if name_off == 0 {
                if let Some(inner) = self.bare(id, fuel)?
                    && let Some((more, id)) = self.member(inner, name, depth + 1, fuel)?
                {
                    return Ok(Some((bits + more, id)));
                }
            } else if self.is_named(name_off, name) {
                return Ok(if bitfield == 0 {
                    Some((bits, id))
                } else {
                    None
                });
            }
        }
        Ok(None)
    }

    /// Bit offset of `path` from the start of `ty`.
    fn follow(&self, ty: Type, path: &str, fuel: &mut u32) -> Result<Option<u64>, BtfError> {
        let (mut at, mut here) = (0, Some(ty));
        for name in path.split('.') {
            let Some(ty) = here else { return Ok(None) };
            let Some((bits, id)) = self.member(ty, name.as_bytes(), 0, fuel)? else {
                return Ok(None);
            };
            at += bits;
            here = self.bare(id, fuel)?;
        }
        Ok(Some(at))
    }

    fn locate(&self, structure: &str, path: &str) -> Result<Option<u64>, BtfError> {
        let mut fuel = FUEL;
        for ty in self.named(&self.structs, structure)? {
            if let Some(found) = self.follow(ty, path, &mut fuel)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Byte offset of `path` (`"se.sum_exec_runtime"`) in the struct or union
    /// `structure`. Members of nested structs are reached by value; those of
    /// anonymous ones as if they were the outer's own. `None`: there is no
    /// such member, or it is a bitfield.
    pub fn member_offset(&self, structure: &str, path: &str) -> Result<Option<u32>, BtfError> {
        let Some(bits) = self.locate(structure, path)? else {
            return Ok(None);
        };
        if bits % 8 != 0 {
            return Ok(None);
        }
        u32::try_from(bits / 8)
            .map(Some)
            .map_err(|_| BtfError::Damaged("member offset"))
    }

    /// Size in bytes of the struct or union `structure`.
    pub fn struct_size(&self, structure: &str) -> Result<Option<u32>, BtfError> {
        Ok(self
            .named(&self.structs, structure)?
            .first()
            .map(|ty| ty.size_or_type))
    }

    /// Number of parameters of the function that the typedef `name` points to,
    /// as in `btf_trace_sched_process_exit` (whose first is the tracepoint's
    /// private data). `None`: there is no such typedef.
    pub fn typedef_params(&self, name: &str) -> Result<Option<u32>, BtfError> {
        let mut fuel = FUEL;
        for typedef in self.named(&self.typedefs, name)? {
            let Some(pointer) = self.bare(typedef.size_or_type, &mut fuel)? else {
                continue;
            };
            if pointer.kind != kind::PTR {
                continue;
            }
            if let Some(proto) = self.bare(pointer.size_or_type, &mut fuel)?
                && proto.kind == kind::FUNC_PROTO
            {
                return Ok(Some(proto.vlen));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests;
