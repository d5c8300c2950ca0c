//! Whose a process is, by its cgroup's path alone: systemd's unit, the container, the pod.
//!
//! No daemon is asked. The names are those that systemd and the container runtimes give their
//! groups; a path that follows none of their habits has no owner.

use std::borrow::Cow;

/// What a cgroup's path says. Bytes, as names of groups need not be UTF-8.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner<'a> {
    /// systemd unit on the host, never a slice: `ssh.service`, `session-3.scope`.
    pub unit: Option<&'a [u8]>,
    /// Unit of a user's own systemd, below `user@UID.service`.
    pub user_unit: Option<&'a [u8]>,
    /// Innermost slice that holds the unit.
    pub slice: Option<&'a [u8]>,
    pub container: Option<Container<'a>>,
    /// UID of the Kubernetes pod, in its usual form (with `-`).
    pub pod: Option<Cow<'a, [u8]>>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Container<'a> {
    /// 64 hexadecimal digits with most runtimes, a name with LXC and systemd-nspawn.
    pub id: &'a [u8],
    /// Where the path names it.
    pub runtime: Option<&'static str>,
}

/// Beginnings of a group's name, before the id, and the runtime.
const PREFIXES: [(&[u8], &str); 9] = [
    (b"docker-", "docker"),
    (b"libpod-payload-", "podman"),
    (b"libpod-", "podman"),
    (b"cri-containerd-", "containerd"),
    (b"containerd-", "containerd"),
    (b"nerdctl-", "containerd"),
    (b"crio-", "cri-o"),
    (b"cri-o-", "cri-o"),
    (b"buildah-", "buildah"),
];

/// Groups directly above the ids of a runtime that uses the cgroupfs driver.
const PARENTS: [(&[u8], &str); 4] = [
    (b"docker", "docker"),
    (b"libpod_parent", "podman"),
    (b"actions_job", "docker"),
    (b"ecs", "ecs"),
];

/// Suffixes of units that have processes. A slice has none of its own.
const UNITS: [&[u8]; 5] = [b".service", b".scope", b".socket", b".mount", b".swap"];
const SLICE: &[u8] = b".slice";

impl<'a> Owner<'a> {
    /// Reads `path`, as `/proc/PID/cgroup` shows it for version 2.
    pub fn of(path: &'a [u8]) -> Self {
        let mut owner = Self::default();
        let mut parent: &[u8] = b"";
        // The manager of a user begins anew with slices of its own.
        let mut in_user_manager = false;
        for name in path.split(|b| *b == b'/').filter(|n| !n.is_empty()) {
            let unit = unescape(name);
            if is_slice(unit) {
                if owner.unit.is_none() {
                    owner.slice = Some(unit);
                }
            } else if UNITS.iter().any(|u| has_suffix(unit, u)) {
                if owner.unit.is_none() {
                    owner.unit = Some(unit);
                    in_user_manager = unit.starts_with(b"user@");
                } else if in_user_manager && owner.user_unit.is_none() {
                    owner.user_unit = Some(unit);
                }
            }
            owner.pod = pod(name).or(owner.pod);
            // The innermost: containers may run containers.
            owner.container = container(name, parent).or(owner.container);
            parent = name;
        }
        owner
    }

    /// Whether the path names nobody.
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }
}

fn has_suffix(name: &[u8], suffix: &[u8]) -> bool {
    name.len() > suffix.len() && name.ends_with(suffix)
}

fn is_slice(name: &[u8]) -> bool {
    has_suffix(name, SLICE)
}

/// systemd puts a `_` before names that could be taken for files of cgroupfs (its `cg_escape`).
fn unescape(name: &[u8]) -> &[u8] {
    name.strip_prefix(b"_").unwrap_or(name)
}

fn is_hex(id: &[u8]) -> bool {
    id.iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// An id as the runtimes draw it.
fn is_id(id: &[u8]) -> bool {
    id.len() == 64 && is_hex(id)
}

fn container<'a>(name: &'a [u8], parent: &[u8]) -> Option<Container<'a>> {
    let of = |id, runtime| Some(Container { id, runtime });
    let bare = name.strip_suffix(b".scope").unwrap_or(name);
    if let Some(id) = lxc(name, parent) {
        return of(id, Some("lxc"));
    }
    if let Some(id) = nspawn(name) {
        return of(id, Some("systemd-nspawn"));
    }
    // The systemd driver where the runtime expects cgroupfs: `SLICE:PREFIX:ID`.
    if let Some(at) = bare.iter().rposition(|b| *b == b':') {
        let (before, id) = (bare.get(..at)?, bare.get(at + 1..)?);
        let prefix = before.rsplit(|b| *b == b':').next()?;
        return is_id(id).then_some(Container {
            id,
            runtime: runtime_of(prefix),
        });
    }
    for (prefix, runtime) in PREFIXES {
        // What is left of `libpod-conmon-ID` is no id: that is the monitor, outside of the container.
        if let Some(id) = bare.strip_prefix(prefix)
            && is_id(id)
        {
            return of(id, Some(runtime));
        }
    }
    let by_parent = PARENTS.iter().find(|(p, _)| *p == parent).map(|p| p.1);
    if is_id(bare) {
        return of(bare, by_parent);
    }
    is_fargate(bare).then_some(Container {
        id: bare,
        runtime: Some("ecs"),
    })
}

/// The runtime that a prefix without its dash names.
fn runtime_of(prefix: &[u8]) -> Option<&'static str> {
    PREFIXES
        .iter()
        .find(|(p, _)| p.strip_suffix(b"-") == Some(prefix))
        .map(|p| p.1)
}

/// `lxc/NAME` and `lxc.payload.NAME`; `lxc.monitor.NAME` is outside of the container.
fn lxc<'a>(name: &'a [u8], parent: &[u8]) -> Option<&'a [u8]> {
    let payload = name.strip_prefix(b"lxc.payload.");
    payload
        .or_else(|| (parent == b"lxc").then_some(name))
        .filter(|n| !n.is_empty())
}

/// `systemd-nspawn@NAME.service`. Other machines of `machine.slice` may be virtual ones.
fn nspawn(name: &[u8]) -> Option<&[u8]> {
    let name = name.strip_prefix(b"systemd-nspawn@")?;
    name.strip_suffix(b".service").filter(|n| !n.is_empty())
}

/// Tasks of AWS Fargate: 32 digits, `-`, and a number.
fn is_fargate(id: &[u8]) -> bool {
    let Some((task, rest)) = id.split_at_checked(32) else {
        return false;
    };
    let number = rest.strip_prefix(b"-").unwrap_or_default();
    is_hex(task) && !number.is_empty() && number.iter().all(u8::is_ascii_digit)
}

/// `podUID` (cgroupfs driver) or `…-podUID.slice` (systemd's, where `-` would mean a level).
fn pod(name: &[u8]) -> Option<Cow<'_, [u8]>> {
    // `…-podUID.slice:cri-containerd:ID` has it, too.
    let group = name.split(|b| *b == b':').next().unwrap_or(name);
    let (uid, of_systemd) = match group.strip_suffix(SLICE) {
        Some(slice) if slice.windows(8).any(|w| w == b"kubepods") => {
            let at = slice.windows(4).rposition(|w| w == b"-pod")?;
            (slice.get(at + 4..)?, true)
        }
        Some(_) => return None,
        None => (group.strip_prefix(b"pod")?, false),
    };
    let dash = if of_systemd { b'_' } else { b'-' };
    if is_uuid(uid, dash) {
        if !of_systemd {
            return Some(Cow::Borrowed(uid));
        }
        let usual = uid.iter().map(|b| if *b == b'_' { b'-' } else { *b });
        return Some(Cow::Owned(usual.collect()));
    }
    // Of a static pod: the digest of its manifest.
    (uid.len() == 32 && is_hex(uid)).then_some(Cow::Borrowed(uid))
}

fn is_uuid(uid: &[u8], dash: u8) -> bool {
    uid.len() == 36
        && uid.iter().enumerate().all(|(i, b)| match i {
            8 | 13 | 18 | 23 => *b == dash,
            _ => is_hex(std::slice::from_ref(b)),
        })
}

#[cfg(test)]
#[path = "owner_tests.rs"]
mod tests;
