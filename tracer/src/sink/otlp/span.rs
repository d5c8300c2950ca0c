//! A process as a span, after the semantic conventions of OpenTelemetry (`process.*`); what they
//! do not know is under `tracer.`.

use std::borrow::Cow;

use super::ids::Ids;
use super::lineage::Place;
use super::proto::{
    AnyValue, Array, ERROR, FLAGS, INTERNAL, KeyValue, Resource, Span, Status, Value,
};
use crate::model::{Bytes, Field, Meta, Owner, Precision, Process, SignalBy};
use crate::sink::names::signal_name;
use crate::sys::users::Names;

/// What all spans of a capture have in common.
pub struct Context {
    pub ids: Ids,
    /// Wall clock when the boot clock was 0, ns since 1970.
    boot_wall_ns: i128,
    host: Vec<KeyValue>,
    users: Names,
}

/// The members of a message under construction.
#[derive(Default)]
struct Attributes(Vec<KeyValue>);

impl Attributes {
    fn put(&mut self, key: &str, value: Value) {
        self.0.push(KeyValue {
            key: key.into(),
            value: Some(AnyValue { value: Some(value) }),
        });
    }

    fn text(&mut self, key: &str, bytes: &[u8]) {
        self.put(key, Value::String(text(bytes)));
    }

    fn opt_text(&mut self, key: &str, bytes: Option<&[u8]>) {
        if let Some(bytes) = bytes {
            self.text(key, bytes);
        }
    }

    fn int(&mut self, key: &str, n: Option<impl TryInto<i64>>) {
        if let Some(n) = n.and_then(|n| n.try_into().ok()) {
            self.put(key, Value::Int(n));
        }
    }

    /// A remark: only where it is so.
    fn flag(&mut self, key: &str, set: bool) {
        if set {
            self.put(key, Value::Bool(true));
        }
    }

    fn user(&mut self, key: &str, uid: Option<u32>, names: &mut Names) {
        self.int(&format!("{key}.id"), uid);
        if let Some(name) = uid.and_then(|uid| names.of(uid)) {
            self.put(&format!("{key}.name"), Value::String(name.to_owned()));
        }
    }
}

/// OTLP wants UTF-8; what is none becomes U+FFFD.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl Context {
    pub fn new(meta: &Meta) -> Self {
        let mut host = Attributes::default();
        host.text("service.name", b"tracer");
        host.text("service.version", env!("CARGO_PKG_VERSION").as_bytes());
        host.text("host.name", meta.host.as_bytes());
        host.text("os.type", b"linux");
        host.text("os.version", meta.kernel.as_bytes());
        host.text("tracer.backend", meta.backend.as_bytes());
        host.text("tracer.boot_id", meta.boot_id.as_bytes());
        Self {
            ids: Ids::new(meta),
            boot_wall_ns: i128::from(meta.wall_start_ns) - i128::from(meta.boot_start_ns),
            host: host.0,
            users: Names::default(),
        }
    }

    /// What produced the spans of `cgroup`: this host, and there the unit, container or pod.
    pub fn resource(&self, cgroup: Option<&[u8]>) -> Resource {
        let mut a = Attributes(self.host.clone());
        let owner = cgroup.map(Owner::of).unwrap_or_default();
        a.opt_text("systemd.unit", owner.unit);
        a.opt_text("systemd.user_unit", owner.user_unit);
        a.opt_text("systemd.slice", owner.slice);
        if let Some(container) = &owner.container {
            a.text("container.id", container.id);
            a.opt_text(
                "container.runtime.name",
                container.runtime.map(str::as_bytes),
            );
        }
        a.opt_text("k8s.pod.uid", owner.pod.as_deref());
        Resource { attributes: a.0 }
    }

    fn wall(&self, boot_ns: u64) -> u64 {
        u64::try_from(i128::from(boot_ns) + self.boot_wall_ns).unwrap_or_default()
    }

    /// The span of a process that ended at `end` (boot ns).
    pub fn span(&mut self, p: &Process, end: u64, place: &Place) -> Span {
        let mut a = Attributes::default();
        who(&mut a, p, &mut self.users);
        program(&mut a, p);
        let status = outcome(&mut a, p);
        usage(&mut a, p);
        let parent = place.parent.map(|parent| self.ids.span(&parent).to_vec());
        Span {
            trace_id: self.ids.trace(&place.root).to_vec(),
            span_id: self.ids.span(&p.id).to_vec(),
            parent_span_id: parent.unwrap_or_default(),
            name: text(p.comm.as_slice()),
            kind: INTERNAL,
            start_time_unix_nano: self.wall(p.id.start),
            end_time_unix_nano: self.wall(end),
            attributes: a.0,
            status,
            flags: FLAGS,
        }
    }
}

/// The cgroup in which a process was seen last.
pub fn cgroup(p: &Process) -> Option<&Bytes> {
    p.cgroup.as_ref().and_then(Field::value)
}

fn who(a: &mut Attributes, p: &Process, users: &mut Names) {
    let exec = p.exec.as_deref();
    a.int("process.pid", Some(p.id.pid));
    let parent = p.orig_parent.or(p.parent);
    a.int("process.parent_pid", parent.map(|p| p.pid));
    a.int("process.vpid", p.ns_pid);
    let uid = p.uid.or_else(|| exec.and_then(|e| e.uid));
    a.user("process.real_user", uid, users);
    a.user("process.user", exec.and_then(|e| e.euid), users);
    a.int("process.session_leader.pid", exec.and_then(|e| e.sid));
    a.int("process.group_leader.pid", exec.and_then(|e| e.pgid));
    a.flag("process.interactive", exec.is_some_and(|e| e.tty.is_some()));
    a.opt_text("process.linux.cgroup", cgroup(p).map(Bytes::as_slice));
    a.flag("tracer.kthread", p.kthread);
    a.flag("tracer.seeded", p.seeded);
    a.flag("tracer.fork_lost", !p.fork_seen && !p.seeded && !p.root);
    if p.id.precision != Precision::Exact {
        a.text("tracer.start_precision", p.id.precision.name().as_bytes());
    }
}

fn program(a: &mut Attributes, p: &Process) {
    a.text("process.executable.name", p.comm.as_slice());
    a.opt_text(
        "process.executable.path",
        p.exe.as_ref().map(Bytes::as_slice),
    );
    a.int("tracer.execs", Some(p.execs));
    let Some(exec) = p.exec.as_deref() else {
        return;
    };
    if let Some(args) = exec.argv.value() {
        a.opt_text("process.command", args.iter().next());
        let values = args.iter().map(|arg| AnyValue {
            value: Some(Value::String(text(arg))),
        });
        let values = values.collect();
        a.put("process.command_args", Value::Array(Array { values }));
    }
    if !matches!(exec.argv, Field::Full(_)) {
        a.text("tracer.argv_state", exec.argv.state().as_bytes());
    }
    a.opt_text(
        "process.working_directory",
        exec.cwd.value().map(Bytes::as_slice),
    );
    a.flag("tracer.by_kernel", exec.by_kernel);
}

/// How it ended; an error unless well.
fn outcome(a: &mut Attributes, p: &Process) -> Option<Status> {
    let status = p.status?;
    a.int("process.exit.code", status.exit_code);
    a.flag("tracer.core_dumped", status.core_dumped);
    let message: Cow<'_, str> = match (status.exit_code, status.signal) {
        (_, Some(signal)) => {
            let name = signal_name(signal)
                .map_or_else(|| format!("signal {signal}").into(), Cow::Borrowed);
            a.text("tracer.signal", name.as_bytes());
            name
        }
        (Some(0), None) => return None,
        (Some(code), None) => format!("exit {code}").into(),
        (None, None) => return None,
    };
    if let Some(by) = &p.killed_by {
        a.text("tracer.killed_by", by.by.name().as_bytes());
        if by.by != SignalBy::Oom {
            a.int("tracer.killed_by_pid", by.sender.map(|s| s.pid));
        }
    }
    Some(Status {
        message: message.into_owned(),
        code: ERROR,
    })
}

fn usage(a: &mut Attributes, p: &Process) {
    let u = &p.usage;
    a.int("tracer.threads", p.threads);
    if !u.is_final {
        a.put("tracer.usage.final", Value::Bool(false));
    }
    macro_rules! put {
        ($($member:ident)*) => {$( a.int(concat!("tracer.usage.", stringify!($member)), u.$member); )*};
    }
    put! {
        utime_ns stime_ns cpu_ns max_rss_bytes max_rss_upper_bytes minflt majflt nvcsw nivcsw inblock oublock
        read_bytes write_bytes cancelled_write_bytes rchar wchar run_delay_ns blkio_delay_ns
    }
}
