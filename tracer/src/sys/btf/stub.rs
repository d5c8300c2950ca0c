//! A small BTF that has some typedefs and functions at the ids they have in a
//! large one.
//!
//! To attach to a tracepoint, aya looks for the id of a typedef (for an iterator,
//! of a function) in a BTF that it parses whole: 14 ms for a kernel's, 2 ms for this stand-in, in which every
//! other type is a forward declaration.

use super::{Btf, BtfError, HEADER_LEN, MAGIC, TYPE_LEN, hash, kind};

impl Btf<'_> {
    fn typedef_id(&self, name: &str) -> Result<Option<u32>, BtfError> {
        let wanted = hash(name.as_bytes());
        for (_, id) in self.typedefs.iter().filter(|(h, _)| *h == wanted) {
            if let Some(ty) = self.by_id(*id)?
                && self.is_named(ty.name, name.as_bytes())
            {
                return Ok(Some(*id));
            }
        }
        Ok(None)
    }

    /// Functions are asked for seldom: they have no index.
    fn function_id(&self, name: &str) -> Result<Option<u32>, BtfError> {
        for (start, id) in self.starts.iter().zip(1u32..) {
            let ty = self.type_at(*start as usize);
            let ty = ty.ok_or(BtfError::Damaged("type"))?;
            if ty.kind == kind::FUNC && self.is_named(ty.name, name.as_bytes()) {
                return Ok(Some(id));
            }
        }
        Ok(None)
    }

    /// The stand-in for the typedefs and functions of these names; those that do
    /// not exist are not in it either.
    pub fn stub<S: AsRef<str>>(
        &self,
        typedefs: &[S],
        functions: &[&str],
    ) -> Result<Vec<u8>, BtfError> {
        let mut found = Vec::new();
        for name in typedefs.iter().map(AsRef::as_ref) {
            found.push((self.typedef_id(name)?, name, kind::TYPEDEF));
        }
        for name in functions {
            found.push((self.function_id(name)?, name, kind::FUNC));
        }
        let mut strings = vec![0];
        // Id, name as an offset into `strings`, and kind of each.
        let mut wanted = Vec::new();
        for (id, name, kind) in found {
            if let Some(id) = id {
                // Both are far below the 4 GiB of a blob.
                wanted.push((id, strings.len() as u32, kind));
                strings.extend_from_slice(name.as_bytes());
                strings.push(0);
            }
        }
        wanted.sort_unstable();
        let last = wanted.last().map_or(0, |(id, ..)| *id);
        let types_len = last * TYPE_LEN as u32;
        let mut out = Vec::with_capacity(HEADER_LEN + types_len as usize + strings.len());
        out.extend_from_slice(&MAGIC.to_ne_bytes());
        out.extend_from_slice(&[1, 0]);
        let header = [
            HEADER_LEN as u32,
            0,
            types_len,
            types_len,
            strings.len() as u32,
        ];
        let mut put = |words: &[u32]| {
            for word in words {
                out.extend_from_slice(&word.to_ne_bytes());
            }
        };
        put(&header);
        let mut wanted = wanted.into_iter().peekable();
        for id in 1..=last {
            match wanted.next_if(|(wanted, ..)| *wanted == id) {
                Some((_, name, kind)) => put(&[name, kind << 24, 0]),
                None => put(&[0, kind::FWD << 24, 0]),
            }
        }
        out.extend_from_slice(&strings);
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::btf::{Blob, VMLINUX};
    use std::path::Path;

    #[test]
    fn ids_are_those_of_the_kernel() {
        let Ok(blob) = Blob::open(Path::new(VMLINUX)) else {
            println!("skipped: {VMLINUX} cannot be read");
            return;
        };
        let btf = Btf::parse(&blob).unwrap();
        let names = ["btf_trace_sched_process_exec", "u64", "no_such_type"];
        let stub = btf.stub(&names, &["bpf_iter_task"]).unwrap();
        let stub = Btf::parse(&stub).unwrap();
        for name in names {
            assert_eq!(stub.typedef_id(name), btf.typedef_id(name), "{name}");
        }
        assert!(btf.typedef_id(names[0]).unwrap().is_some());
        assert_eq!(stub.typedef_id("u32"), Ok(None));
        assert_eq!(
            stub.function_id("bpf_iter_task"),
            btf.function_id("bpf_iter_task")
        );
        assert!(btf.function_id("bpf_iter_task").unwrap().is_some());
        assert_eq!(btf.function_id("no_such_function"), Ok(None));
    }
}
