//! The members that say whose a process is.

use crate::model::{Bytes, Field, Owner};
use crate::sink::json::{Object, key};

/// The path, and whose it is; of the latter only what the path names.
pub(super) fn cgroup(o: &mut Object<'_>, cgroup: &Field<Bytes>) {
    o.field(key!("cgroup"), cgroup);
    let Some(path) = cgroup.value() else {
        return;
    };
    let owner = Owner::of(path.as_slice());
    let container = owner.container.as_ref();
    for (key, name) in [
        (key!("unit"), owner.unit),
        (key!("user_unit"), owner.user_unit),
        (key!("slice"), owner.slice),
        (key!("container"), container.map(|c| c.id)),
        (key!("pod"), owner.pod.as_deref()),
    ] {
        if let Some(name) = name {
            o.bytes(key, name);
        }
    }
    if let Some(runtime) = container.and_then(|c| c.runtime) {
        o.str(key!("container_runtime"), runtime);
    }
}
