use tracer_common::offsets::{NONE, Offsets};

use super::*;

/// Writes BTF by hand: types as they are added, strings as they are named.
#[derive(Default)]
struct Blob {
    types: Vec<u8>,
    strings: Vec<u8>,
    count: u32,
}

impl Blob {
    fn new() -> Self {
        Self {
            strings: vec![0],
            ..Self::default()
        }
    }

    fn name(&mut self, s: &str) -> u32 {
        if s.is_empty() {
            return 0;
        }
        let at = self.strings.len() as u32;
        self.strings.extend_from_slice(s.as_bytes());
        self.strings.push(0);
        at
    }

    fn words(&mut self, words: &[u32]) {
        self.types
            .extend(words.iter().flat_map(|w| w.to_ne_bytes()));
    }

    fn ty(&mut self, name: &str, info: u32, size_or_type: u32) -> u32 {
        let name = self.name(name);
        self.words(&[name, info, size_or_type]);
        self.count += 1;
        self.count
    }

    fn int(&mut self) -> u32 {
        let id = self.ty("int", kind::INT << 24, 4);
        self.words(&[32]);
        id
    }

    /// Members as (name, type, offset word).
    fn aggregate(&mut self, info: u32, name: &str, size: u32, members: &[(&str, u32, u32)]) -> u32 {
        let id = self.ty(name, info | members.len() as u32, size);
        for (member, ty, place) in members {
            let member = self.name(member);
            self.words(&[member, *ty, *place]);
        }
        id
    }

    fn build(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend(MAGIC.to_ne_bytes());
        out.extend([1, 0]);
        let (t, s) = (self.types.len() as u32, self.strings.len() as u32);
        for w in [24, 0, t, t, s] {
            out.extend(u32::to_ne_bytes(w));
        }
        out.extend(&self.types);
        out.extend(&self.strings);
        out
    }
}

const STRUCT: u32 = kind::STRUCT << 24;
const UNION: u32 = kind::UNION << 24;
const KFLAG: u32 = 1 << 31;

fn sample() -> Vec<u8> {
    let mut b = Blob::new();
    let int = b.int();
    let inner = b.aggregate(STRUCT, "inner", 8, &[("a", int, 0), ("b", int, 32)]);
    let alias = b.ty("inner_t", kind::TYPEDEF << 24, inner);
    let constant = b.ty("", kind::CONST << 24, alias);
    let union = b.aggregate(UNION, "", 8, &[("plain", inner, 0), ("named", constant, 0)]);
    let deep = b.aggregate(STRUCT, "", 12, &[("x", int, 0), ("", union, 32)]);
    let array = b.ty("", kind::ARRAY << 24, 0);
    b.words(&[inner, int, 4]);
    let pointer = b.ty("", kind::PTR << 24, inner);
    b.aggregate(
        STRUCT | KFLAG,
        "outer",
        80,
        &[
            ("first", int, 0),
            ("", deep, 64),
            ("list", array, 192),
            ("bit", int, (3 << 24) | 448),
            ("p", pointer, 512),
        ],
    );
    let proto = b.ty("", (kind::FUNC_PROTO << 24) | 3, 0);
    b.words(&[0, pointer, 0, pointer, 0, int]);
    let function = b.ty("", kind::PTR << 24, proto);
    b.ty("btf_trace_it", kind::TYPEDEF << 24, function);
    b.ty("", (kind::ENUM << 24) | 2, 4);
    let (zero, seven) = (b.name("ZERO"), b.name("MINUS"));
    b.words(&[zero, 0, seven, u32::MAX]);
    b.build()
}

#[test]
fn members_are_found_through_what_has_no_name() {
    let data = sample();
    let btf = Btf::parse(&data).unwrap();
    let at = |path| btf.member_offset("outer", path).unwrap();
    assert_eq!(at("first"), Some(0));
    assert_eq!(at("x"), Some(8));
    assert_eq!(at("plain.b"), Some(16));
    assert_eq!(at("named.b"), Some(16), "through a const typedef");
    assert_eq!(at("list"), Some(24));
    assert_eq!(at("bit"), None, "bitfield");
    assert_eq!(at("p"), Some(64));
    assert_eq!(at("p.a"), None, "not by value");
    assert_eq!(at("firs"), None);
    assert_eq!(at(""), None);
    assert_eq!(btf.member_offset("nobody", "a").unwrap(), None);
    assert_eq!(btf.struct_size("outer").unwrap(), Some(80));
    assert_eq!(btf.typedef_params("btf_trace_it").unwrap(), Some(3));
    assert_eq!(btf.typedef_params("inner_t").unwrap(), None);
}

#[test]
fn a_missing_required_member_is_named() {
    let data = sample();
    let error = resolve_offsets(&Btf::parse(&data).unwrap()).unwrap_err();
    assert!(error.to_string().contains("task_struct.pid"), "{error}");
}

#[test]
fn no_cut_and_no_flipped_byte_panics_or_hangs() {
    let data = sample();
    let query = |data: &[u8]| {
        if let Ok(btf) = Btf::parse(data) {
            for path in ["named.b", "list", "p.a", "nothing"] {
                let _ = btf.member_offset("outer", path);
            }
            let _ = btf.typedef_params("btf_trace_it");
        }
    };
    for cut in 0..data.len() {
        assert!(Btf::parse(&data[..cut]).is_err(), "cut at {cut}");
    }
    for at in 0..data.len() {
        for value in [0, 1, 2, 5, 8, 0x7f, 0xff] {
            let mut bad = data.clone();
            bad[at] = value;
            query(&bad);
        }
    }
}

#[test]
fn types_that_contain_themselves_end_in_an_error() {
    let mut b = Blob::new();
    // A typedef of itself, and an anonymous struct with many anonymous selves.
    let own = b.count + 1;
    b.ty("loop", kind::TYPEDEF << 24, own);
    let own = b.count + 1;
    b.aggregate(STRUCT, "", 8, &[("", own, 0), ("", own, 0), ("", own, 0)]);
    b.aggregate(STRUCT, "a", 8, &[("l", 1, 0), ("m", 1, 0), ("", own, 0)]);
    let data = b.build();
    let btf = Btf::parse(&data).unwrap();
    assert!(btf.member_offset("a", "l").is_err());
    assert!(btf.member_offset("a", "absent").is_err());
    assert_eq!(
        btf.typedef_params("loop"),
        Err(BtfError::Damaged("a type contains itself"))
    );
}

#[test]
fn recorded_kernels_resolve_as_pahole_says() {
    struct Recorded {
        packed: &'static [u8],
        truth: &'static str,
        exit_params: u32,
    }
    let recorded = [
        Recorded {
            packed: include_bytes!("testdata/6.1.btf.zst"),
            truth: include_str!("testdata/6.1.txt"),
            exit_params: 2,
        },
        Recorded {
            packed: include_bytes!("testdata/6.12.btf.zst"),
            truth: include_str!("testdata/6.12.txt"),
            exit_params: 2,
        },
        Recorded {
            packed: include_bytes!("testdata/6.18.btf.zst"),
            truth: include_str!("testdata/6.18.txt"),
            exit_params: 3,
        },
    ];
    for kernel in recorded {
        let data = zstd::decode_all(kernel.packed).unwrap();
        let btf = Btf::parse(&data).unwrap();
        assert!(kernel.truth.lines().count() > 80);
        for line in kernel.truth.lines() {
            let (place, offset) = line.split_once(' ').unwrap();
            let (structure, member) = place.split_once('.').unwrap();
            let found = btf.member_offset(structure, member).unwrap();
            assert_eq!(found, Some(offset.parse().unwrap()), "{place}");
        }
        let params = btf.typedef_params("btf_trace_sched_process_exit").unwrap();
        assert_eq!(params, Some(kernel.exit_params));
        assert_eq!(btf.struct_size("percpu_counter").unwrap(), Some(40));
    }
}

#[test]
fn the_running_kernel_resolves() {
    let Ok(data) = std::fs::read("/sys/kernel/btf/vmlinux") else {
        eprintln!("skipped: this kernel has no readable /sys/kernel/btf/vmlinux");
        return;
    };
    let begin = std::time::Instant::now();
    let btf = Btf::parse(&data).unwrap();
    let offsets = resolve_offsets(&btf).unwrap();
    eprintln!(
        "{} bytes, {} types in {:?}",
        data.len(),
        btf.starts.len(),
        begin.elapsed()
    );
    assert_eq!(offsets.task_tgid, offsets.task_pid + 4);
    assert_eq!(offsets.cred_egid, offsets.cred_euid + 4);
    assert_eq!(offsets.mm_arg_end, offsets.mm_arg_start + 8);
    assert_eq!(offsets.mm_env_start, offsets.mm_arg_start + 16);
    assert_eq!(offsets.task_stime, offsets.task_utime + 8);
    // Members that every kernel since 5.10 has somewhere.
    assert_ne!(offsets.dentry_name, NONE);
    assert_ne!(offsets.siginfo_code, NONE);
    assert_ne!(offsets.pidns_inum, NONE);
    assert_ne!(offsets.mm_rss_stat, NONE);
    let size = btf.struct_size("task_struct").unwrap().unwrap();
    for ((field, structure, ..), value) in Offsets::TABLE.iter().zip(values(&offsets)) {
        eprintln!("{field} {}", value.cast_signed());
        assert!(
            *structure != "task_struct" || value == NONE || value < size,
            "{field}"
        );
    }
    assert!(matches!(
        btf.typedef_params("btf_trace_sched_process_exit").unwrap(),
        Some(2 | 3)
    ));
    assert_eq!(btf.struct_size("upid").unwrap(), Some(16));
}

fn values(offsets: &Offsets) -> Vec<u32> {
    let text = format!("{offsets:?}");
    text.split(": ")
        .skip(1)
        .map(|v| v.split([',', ' ']).next().unwrap().parse().unwrap())
        .collect()
}
