//! The tracers that are compared, as data.

use super::count::Format;

/// One way to trace a command.
#[derive(Clone, Copy, Debug)]
pub struct Tool {
    pub name: &'static str,
    pub how: How,
    /// What it writes, for counting.
    pub format: Format,
    /// Programs that it consists of, all to be on PATH.
    pub programs: &'static [&'static str],
    /// What they are installed with.
    pub package: Package,
    /// Its fork and exit events include threads'.
    pub threads: bool,
    /// It waits for the command that it starts, whose CPU time then counts among that of its children.
    pub waits: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Package {
    /// There already.
    None,
    Debian(&'static str),
    /// From crates.io, into the cache.
    Cargo(&'static str),
}

/// How a tool is started. Placeholders: `{out}` the trace, `{tracer}` our binary, `{cgroup}` the workload's cgroup,
/// `{instance}` a tracefs instance, `{tag}` its name, `{script}` the bpftrace program.
#[derive(Clone, Copy, Debug)]
pub enum How {
    /// With the workload's command line behind its own.
    Launch(&'static [&'static str]),
    /// Beside the workload and for the whole machine, ended with SIGINT. Output goes to `{out}`, of a second one to
    /// `{out}.2`.
    Beside(&'static [&'static [&'static str]], Ready),
}

/// What shows that a tool beside the workload has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    /// It has gone to sleep.
    Settled,
    /// And each of its processes has attached so many programs or events.
    Links(usize),
    /// It reads a tracefs instance that was made ready for it.
    Instance,
    /// It has made the instance, enabled the events, and a reader for each CPU.
    OwnInstance,
}

const NONE: Tool = Tool {
    name: "none",
    how: How::Launch(&[]),
    format: Format::None,
    programs: &[],
    package: Package::None,
    threads: false,
    waits: true,
};

const TRACER: Tool = Tool {
    name: "tracer",
    how: How::Launch(&["{tracer}", "--backend", "ebpf", "--color", "never", "--"]),
    format: Format::Tree,
    ..NONE
};

pub const TRACER_JSONL: Tool = Tool {
    name: "tracer-jsonl",
    how: How::Launch(&[
        "{tracer}",
        "--backend",
        "ebpf",
        "-q",
        "--format",
        "jsonl",
        "-o",
        "{out}",
        "--",
    ]),
    format: Format::Jsonl,
    ..NONE
};

/// The name of the one that start-up times are related to.
pub const STRACE: &str = "strace";

/// All of them; the first is the untraced run.
pub const ALL: &[Tool] = &[
    NONE,
    TRACER,
    TRACER_JSONL,
    Tool {
        name: STRACE,
        how: How::Launch(&["strace", "-f", "-q", "-o", "{out}", "--"]),
        format: Format::Strace,
        programs: &["strace"],
        package: Package::Debian("strace"),
        threads: true,
        waits: true,
    },
    Tool {
        name: "strace-process",
        how: How::Launch(&["strace", "-f", "-q", "--trace=process", "-o", "{out}", "--"]),
        format: Format::Strace,
        programs: &["strace"],
        package: Package::Debian("strace"),
        threads: true,
        waits: true,
    },
    Tool {
        name: "strace-seccomp",
        how: How::Launch(&[
            "strace",
            "-f",
            "-q",
            "--seccomp-bpf",
            "--trace=process",
            "-o",
            "{out}",
            "--",
        ]),
        format: Format::Strace,
        programs: &["strace"],
        package: Package::Debian("strace"),
        threads: true,
        waits: true,
    },
    Tool {
        name: "perf-record",
        how: How::Launch(&[
            "perf",
            "record",
            "-q",
            "-a",
            "-e",
            "sched:sched_process_fork,sched:sched_process_exec,sched:sched_process_exit",
            "-o",
            "{out}",
            "--",
        ]),
        format: Format::PerfData,
        programs: &["perf"],
        package: Package::Debian("linux-perf"),
        threads: true,
        waits: true,
    },
    Tool {
        name: "perf-trace",
        how: How::Launch(&[
            "perf",
            "trace",
            "-a",
            "--no-syscalls",
            "-e",
            "sched:sched_process_fork,sched:sched_process_exec,sched:sched_process_exit",
            "-o",
            "{out}",
            "--",
        ]),
        format: Format::PerfTrace,
        programs: &["perf"],
        package: Package::Debian("linux-perf"),
        threads: true,
        waits: false,
    },
    Tool {
        name: "ftrace",
        how: How::Beside(&[&["cat", "{instance}/trace_pipe"]], Ready::Instance),
        format: Format::Ftrace,
        programs: &[],
        package: Package::None,
        threads: true,
        waits: true,
    },
    Tool {
        name: "trace-cmd",
        // Without -d and --no-filter it writes ftrace_enabled and set_ftrace_pid, and crashes where it may not.
        how: How::Beside(
            &[&[
                "trace-cmd",
                "record",
                "-d",
                "--no-filter",
                "-B",
                "{tag}",
                "-e",
                "sched:sched_process_fork",
                "-e",
                "sched:sched_process_exec",
                "-e",
                "sched:sched_process_exit",
                "-o",
                "{out}",
            ]],
            Ready::OwnInstance,
        ),
        format: Format::TraceCmd,
        programs: &["trace-cmd"],
        package: Package::Debian("trace-cmd"),
        threads: true,
        waits: true,
    },
    Tool {
        name: "bpftrace",
        how: How::Beside(&[&["bpftrace", "{script}"]], Ready::Links(3)),
        format: Format::Bpftrace,
        programs: &["bpftrace"],
        package: Package::Debian("bpftrace"),
        threads: true,
        waits: true,
    },
    Tool {
        name: "libbpf-snoop",
        how: How::Beside(
            &[
                &["execsnoop", "-c", "{cgroup}"],
                &["exitsnoop", "-c", "{cgroup}"],
            ],
            Ready::Links(1),
        ),
        format: Format::Snoop,
        programs: &["execsnoop", "exitsnoop"],
        package: Package::Debian("libbpf-tools"),
        threads: false,
        waits: true,
    },
    Tool {
        name: "bcc-snoop",
        how: How::Beside(
            &[&["execsnoop-bpfcc"], &["exitsnoop-bpfcc"]],
            Ready::Links(1),
        ),
        format: Format::Snoop,
        programs: &["execsnoop-bpfcc", "exitsnoop-bpfcc"],
        package: Package::Debian("bpfcc-tools"),
        threads: false,
        waits: true,
    },
    Tool {
        name: "forkstat",
        how: How::Beside(&[&["forkstat", "-e", "fork,exec,exit"]], Ready::Settled),
        format: Format::Forkstat,
        programs: &["forkstat"],
        package: Package::Debian("forkstat"),
        threads: false,
        waits: true,
    },
    Tool {
        name: "tracexec",
        how: How::Launch(&[
            "tracexec",
            "--color",
            "never",
            "--no-profile",
            "log",
            "-o",
            "{out}",
            "--",
        ]),
        format: Format::Tracexec,
        programs: &["tracexec"],
        package: Package::Cargo("tracexec"),
        threads: false,
        waits: true,
    },
    Tool {
        name: "tracexec-ebpf",
        how: How::Launch(&[
            "tracexec",
            "--color",
            "never",
            "--no-profile",
            "ebpf",
            "log",
            "-o",
            "{out}",
            "--",
        ]),
        format: Format::Tracexec,
        programs: &["tracexec"],
        package: Package::Cargo("tracexec"),
        threads: false,
        waits: true,
    },
];

impl Tool {
    /// Whether it is the untraced run.
    pub fn is_none(&self) -> bool {
        self.name == NONE.name
    }

    /// Those whose names match one of the globs, and what is the matter with the others' programs.
    pub fn chosen(globs: &[String]) -> Vec<Self> {
        let wanted =
            |tool: &&Self| globs.is_empty() || globs.iter().any(|glob| matches(glob, tool.name));
        ALL.iter().filter(wanted).copied().collect()
    }
}

/// Whether the name matches a glob, of which only `*` is special.
pub fn matches(glob: &str, name: &str) -> bool {
    match glob.split_once('*') {
        None => glob == name,
        Some((start, rest)) => name.strip_prefix(start).is_some_and(|tail| {
            tail.char_indices()
                .map(|(at, _)| at)
                .chain([tail.len()])
                .any(|at| tail.get(at..).is_some_and(|tail| matches(rest, tail)))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_choose() {
        let names = |globs: &[&str]| {
            let globs: Vec<_> = globs.iter().map(|glob| (*glob).to_owned()).collect();
            Tool::chosen(&globs)
                .iter()
                .map(|tool| tool.name)
                .collect::<Vec<_>>()
        };
        assert_eq!(names(&["tracer*"]), ["tracer", "tracer-jsonl"]);
        assert_eq!(
            names(&["*-snoop", "none"]),
            ["none", "libbpf-snoop", "bcc-snoop"]
        );
        assert_eq!(names(&[]).len(), ALL.len());
        assert!(matches("*", "") && !matches("a*b", "a") && matches("a*b*", "axbc"));
    }
}
