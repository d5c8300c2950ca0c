//! What is traced.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};

use super::{lab::Lab, truth::Truth};
use crate::process;

/// A workload and its size at scale 1, about a second each.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    pub name: &'static str,
    size: u64,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A program of the fixtures with the size behind these arguments.
    Program(&'static str, &'static [&'static str]),
    /// Many small programs by a shell.
    Shell,
    /// A C project built with make.
    Build,
}

/// Stands for the path of the smallest program.
const TINY: &str = "{tiny}";

pub const ALL: &[Workload] = &[
    Workload {
        name: "forkstorm",
        size: 6000,
        kind: Kind::Program("forkstorm", &[]),
    },
    Workload {
        name: "execstorm",
        size: 8000,
        kind: Kind::Program("execstorm", &["-v", "-j", "2", TINY]),
    },
    Workload {
        name: "threadstorm",
        size: 25000,
        kind: Kind::Program("threadstorm", &[]),
    },
    Workload {
        name: "shellstorm",
        size: 60,
        kind: Kind::Shell,
    },
    Workload {
        name: "build",
        size: 150,
        kind: Kind::Build,
    },
    Workload {
        name: "mixed",
        size: 25000,
        kind: Kind::Program("mixed", &[TINY]),
    },
    // glibc's posix_spawn makes some 120 rt_sigaction calls a child, which swamp strace.
    Workload {
        name: "spawnstorm",
        size: 4000,
        kind: Kind::Program("execstorm", &["-j", "2", TINY]),
    },
];

/// A workload that can be run.
pub struct Prepared {
    pub name: &'static str,
    command: Vec<OsString>,
    /// Emptied before each run.
    scratch: PathBuf,
    /// Directory that the command runs in.
    pub dir: PathBuf,
    /// Counted with ptrace, for a workload that does not count itself.
    counted: Option<Truth>,
}

impl Prepared {
    pub fn new(workload: &Workload, scale: f64, lab: &Lab) -> Result<Self> {
        // Sizes are small numbers, far from what f64 cannot hold.
        let size = ((workload.size as f64 * scale).round() as u64)
            .max(1)
            .to_string();
        let dir = lab.dir.join(workload.name);
        fs::create_dir_all(&dir)?;
        let fixture = |name: &str| lab.fixtures.join(name);
        let (command, scratch) = match workload.kind {
            Kind::Program(program, args) => {
                let mut command = vec![fixture(program).into_os_string()];
                for arg in args {
                    command.push(match *arg {
                        TINY => fixture("tiny").into_os_string(),
                        arg => arg.into(),
                    });
                }
                command.push(size.into());
                (command, dir.join("scratch"))
            }
            Kind::Shell => {
                let script = fixture("shellstorm.sh").into_os_string();
                let scratch = dir.join("scratch");
                (vec!["/bin/sh".into(), script, size.into()], scratch)
            }
            Kind::Build => {
                process::run_quietly(
                    Command::new("/bin/sh")
                        .arg(fixture("gen_build.sh"))
                        .arg(&dir)
                        .arg(size),
                )?;
                let make = ["make", "-s", "-j2"].map(OsString::from).to_vec();
                (make, dir.join("out"))
            }
        };
        let runs_in = if workload.kind == Kind::Build {
            dir
        } else {
            scratch.clone()
        };
        let mut prepared = Self {
            name: workload.name,
            command,
            scratch,
            dir: runs_in,
            counted: None,
        };
        prepared.count_with_ptrace(lab)?;
        Ok(prepared)
    }

    /// The workloads of these names, or all.
    pub fn chosen(names: &[String]) -> Result<Vec<Workload>> {
        for name in names {
            if !ALL.iter().any(|workload| workload.name == name) {
                let known: Vec<_> = ALL.iter().map(|workload| workload.name).collect();
                bail!("no workload {name:?}; there are: {}", known.join(", "));
            }
        }
        let wanted = |w: &&Workload| names.is_empty() || names.iter().any(|name| name == w.name);
        Ok(ALL.iter().filter(wanted).copied().collect())
    }

    pub fn command(&self) -> &[OsString] {
        &self.command
    }

    /// Brings the files to where they were before the first run.
    pub fn reset(&self) -> Result<()> {
        let cannot = || format!("cannot empty {}", self.scratch.display());
        if self.scratch.is_dir() {
            fs::remove_dir_all(&self.scratch).with_context(cannot)?;
        }
        fs::create_dir_all(&self.scratch).with_context(cannot)
    }

    /// What the run whose output is given did.
    pub fn truth(&self, output: &Path) -> Result<Truth> {
        let output = fs::read(output).context("the workload left no output")?;
        let own = Truth::find(&String::from_utf8_lossy(&output))?;
        let truth = own.or(self.counted);
        truth.with_context(|| format!("{} printed no TRUTH line", self.name))
    }

    /// Runs it once with a counter that cannot lose an event: the source of the truth for the shell's workloads, a
    /// check of the others'.
    fn count_with_ptrace(&mut self, lab: &Lab) -> Result<()> {
        self.reset()?;
        let output = lab.dir.join("counted.out");
        let mut command = lab.command(lab.fixtures.join("ptruth").as_os_str());
        command
            .arg("-o")
            .arg(&output)
            .arg("--")
            .args(&self.command)
            .current_dir(&self.dir);
        let counted = Truth::find(&process::output(&mut command)?)?;
        let counted = counted.context("ptruth printed no TRUTH line")?;
        let own = Truth::find(&String::from_utf8_lossy(&fs::read(&output)?))?;
        if own.is_some_and(|own| own != counted) {
            bail!(
                "{} counted itself as {own:?}, ptrace counted {counted:?}",
                self.name
            );
        }
        self.counted = Some(counted);
        Ok(())
    }
}
