//! The event's own text, as the kernel's print formats have it.
//!
//! Read from its end, where only numbers are: names come before them and may
//! hold anything. With the trace option `fields` a number is `0x4432 (17458)`.

use super::head::number;
use super::record::Body;
use crate::model::Comm;

/// The longest of a task's names.
const COMM_MAX: usize = 15;

/// `filename=%s pid=%d old_pid=%d`
pub(super) fn exec(text: &[u8], tid: u32) -> Option<Body<&[u8]>> {
    let (filename, old_tid) = exec_end(text, tid)?;
    Some(Body::Exec {
        filename: filename.strip_prefix(b"filename=")?,
        old_tid,
    })
}

/// Whether `text` ends as an exec of `tid` does: what is before that end, and `old_pid`.
fn exec_end(text: &[u8], tid: u32) -> Option<(&[u8], u32)> {
    let (before, pid, old_tid) = exec_numbers(text)?;
    (pid == tid).then_some((before, old_tid))
}

/// What is before ` pid=%d old_pid=%d` at the end of `text`, and the numbers.
pub(super) fn exec_numbers(text: &[u8]) -> Option<(&[u8], u32, u32)> {
    let (rest, old_tid) = number_back(text)?;
    let (rest, pid) = number_back(rest.strip_suffix(b" old_pid=")?)?;
    Some((rest.strip_suffix(b" pid=")?, pid, old_tid))
}

/// `comm=%s pid=%d prio=%d`, since 6.16 ` group_dead=true|false`
pub(super) fn exit(text: &[u8], tid: u32) -> Option<Body<&[u8]>> {
    let endings: [(&[u8], bool); 4] = [
        (b" group_dead=true", true),
        (b" group_dead=false", false),
        (b" group_dead=(1)", true),
        (b" group_dead=(0)", false),
    ];
    let found = endings
        .iter()
        .find_map(|(end, dead)| Some((text.strip_suffix(*end)?, Some(*dead))));
    let (text, group_dead) = found.unwrap_or((text, None));
    // The priority can be negative (SCHED_DEADLINE).
    let (rest, _) = number_back(text)?;
    let rest = rest.strip_suffix(b"-").unwrap_or(rest);
    let (rest, pid) = number_back(rest.strip_suffix(b" prio=")?)?;
    let name = comm(rest.strip_suffix(b" pid=")?.strip_prefix(b"comm=")?)?;
    (pid == tid).then_some(Body::Exit {
        comm: name,
        group_dead,
    })
}

/// `comm=%s pid=%d child_comm=%s child_pid=%d`; with `fields`, `parent_` before the first two.
pub(super) fn fork(text: &[u8], tid: u32) -> Option<Body<&[u8]>> {
    const CHILD: &[u8] = b" child_comm=";
    let (rest, child) = number_back(text)?;
    let rest = rest.strip_suffix(b" child_pid=")?;
    // Neither name is long enough to hold what lies between the two.
    memchr::memmem::find_iter(rest, CHILD).find_map(|at| {
        comm(rest.get(at + CHILD.len()..)?)?;
        let (rest, pid) = number_back(rest.get(..at)?)?;
        let name = match rest.strip_suffix(b" pid=") {
            Some(rest) => rest.strip_prefix(b"comm=")?,
            None => rest
                .strip_suffix(b" parent_pid=")?
                .strip_prefix(b"parent_comm=")?,
        };
        (pid == tid).then_some(Body::Fork {
            comm: comm(name)?,
            child,
        })
    })
}

/// `pid=%d comm=%s clone_flags=%lx oom_score_adj=%hd`
pub(super) fn newtask(text: &[u8]) -> Option<Body<&[u8]>> {
    let (rest, _) = number_back(text)?;
    let rest = rest.strip_suffix(b"-").unwrap_or(rest);
    let rest = rest.strip_suffix(b" oom_score_adj=")?;
    let (rest, clone_flags) = match hex_back(rest).filter(|(r, _)| !r.ends_with(b"0x")) {
        Some(found) => found,
        None => {
            let (rest, flags) = number_back(rest)?;
            (rest, u64::from(flags))
        }
    };
    let rest = rest.strip_suffix(b" clone_flags=")?.strip_prefix(b"pid=")?;
    let (child, name) = match rest.strip_prefix(b"0x") {
        None => {
            let (child, end) = number(rest, 0)?;
            (child, rest.get(end..)?)
        }
        Some(hex) => {
            let open = memchr::memmem::find(hex, b" (")? + 2;
            let (child, end) = number(hex, open)?;
            (child, hex.get(end..)?.strip_prefix(b")")?)
        }
    };
    Some(Body::NewTask {
        child: u32::try_from(child).ok()?,
        comm: comm(name.strip_prefix(b" comm=")?)?,
        clone_flags,
    })
}

fn comm(name: &[u8]) -> Option<Comm> {
    (name.len() <= COMM_MAX).then(|| Comm::new(name))
}

/// A number at the end of `text`, and what is before it.
fn number_back(text: &[u8]) -> Option<(&[u8], u32)> {
    let inside = text.strip_suffix(b")");
    let digits_end = inside.unwrap_or(text);
    let digits = digits_end
        .iter()
        .rev()
        .take(10)
        .take_while(|b| b.is_ascii_digit())
        .count();
    let (rest, digits) = digits_end.split_at(digits_end.len() - digits);
    let (value, _) = number(digits, 0)?;
    let rest = match inside {
        None => rest,
        Some(_) => hex_back(rest.strip_suffix(b" (")?)?.0.strip_suffix(b"0x")?,
    };
    Some((rest, u32::try_from(value).ok()?))
}

/// A hexadecimal number at the end of `text`, and what is before it.
fn hex_back(text: &[u8]) -> Option<(&[u8], u64)> {
    let digits = text
        .iter()
        .rev()
        .take(16)
        .take_while(|b| b.is_ascii_hexdigit())
        .count();
    let (rest, digits) = text.split_at(text.len() - digits);
    let value = u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    Some((rest, value))
}
