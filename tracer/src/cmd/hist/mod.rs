//! `tracer hist`: hist triggers over a run.

mod compare;
mod control;
mod course;
mod ebpf;
mod ftrace;
mod machine;
mod own;
mod session;
mod show;
mod targets;
mod whom;

use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result};

use self::show::Outputs;
use self::targets::Targets;
use super::run::block_on;
use crate::cli::Hist;
use crate::hist::plan::KeyForm;
use crate::hist::resolve::{Kallsyms, Names, Syscalls};
use crate::launch::Command;
use crate::sink::escape::escaped_lines;
use crate::sys::tracefs::Tracefs;

/// Counts, and prints the tables. The exit status is the command's, or 0.
///
/// # Errors
/// What is wrong with an event, a trigger or an output; what the kernel refuses.
pub fn run(options: &Hist) -> Result<ExitCode> {
    if let Some((word, whom)) = options.action() {
        let mut answer = control::ask(word, whom)?;
        if io::stdout().is_terminal() {
            answer = escaped_lines(&answer).into_bytes();
        }
        let mut out = io::stdout().lock();
        return match out.write_all(&answer).and_then(|()| out.flush()) {
            // A reader that goes away has seen enough.
            Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
                Err(e).context("standard output cannot be written")
            }
            _ => Ok(ExitCode::SUCCESS),
        };
    }
    let command = match options.command.is_empty() {
        true => None,
        false => match Command::resolve(&options.command, options.uid.clone()) {
            Ok(command) => Some(command),
            Err(error) => {
                eprintln!("tracer: {error}");
                return Ok(ExitCode::from(error.exit_code()));
            }
        },
    };
    let tracefs = targets::open_tracefs()?;
    let targets = Targets::new(options, &tracefs)?;
    let outputs = Outputs::open(options)?;
    let names = names(&targets, &tracefs);
    block_on(course::count(options, targets, command, &outputs, &names))
}

/// What names tables need, which takes time to read.
fn names(targets: &Targets, tracefs: &Tracefs) -> Names {
    let has = |forms: &[KeyForm]| {
        let mut keys = targets.list.iter().flat_map(|t| &t.plan.keys);
        keys.any(|k| forms.contains(&k.form))
    };
    let mut names = Names::default();
    if has(&[KeyForm::Symbol, KeyForm::SymbolOffset, KeyForm::Stack]) {
        match Kallsyms::read(Path::new("/proc/kallsyms")) {
            Ok(symbols) => names.symbols = symbols,
            Err(error) => eprintln!("tracer: addresses have no names: {error}"),
        }
    }
    if has(&[KeyForm::Syscall]) {
        names.syscalls = Syscalls::read(tracefs.root());
    }
    names
}
