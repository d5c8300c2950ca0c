//! What /proc says of a process that runs already.

use crate::model::{Args, Bytes, Field, ProcId, Reason};
use crate::sys::procfs::Proc;

/// Program file and arguments of `id`, which is `pid` in our PID namespace
/// (0: it is not to be seen there).
pub(super) fn program(
    proc: &Proc,
    id: ProcId,
    pid: u32,
    kthread: bool,
    max_argv: usize,
) -> (Field<Bytes>, Field<Args>) {
    if kthread {
        return (Field::Missing(Reason::Kernel), Field::Full(Args::default()));
    }
    if pid == 0 {
        return (
            Field::Missing(Reason::Source),
            Field::Missing(Reason::Source),
        );
    }
    let (exe, argv) = (proc.exe(pid), proc.argv(pid, max_argv));
    // The pid may be another's meanwhile.
    let is_it = |id: ProcId| {
        let stat = proc.stat(pid);
        stat.is_ok_and(|s| ProcId { pid, ..id }.matches(&s.id))
    };
    if is_it(id) {
        (exe, argv)
    } else {
        (Field::Missing(Reason::Gone), Field::Missing(Reason::Gone))
    }
}
