//! The command `tracer`.

use std::io;
use std::process::ExitCode;

use tracer::cli::{self, FAILURE, Invocation};
use tracer::cmd;
use tracer::sys::signals;

fn main() -> ExitCode {
    if let Err(error) = enough_stack() {
        tracer::say::say(format_args!("tracer: {error}"));
        return ExitCode::from(FAILURE);
    }
    return_large_memory();
    signals::set_own_actions();
    let invocation = match cli::parse(std::env::args_os()) {
        Ok(invocation) => invocation,
        Err(stop) => {
            // Nothing is left to say where it cannot be printed.
            let _closed = stop.print();
            return ExitCode::from(stop.exit_code());
        }
    };
    let result = match invocation {
        Invocation::Trace(options) => {
            log_if(options.capture.debug_bpf);
            cmd::trace::run(&options)
        }
        Invocation::Record(options) => {
            log_if(options.capture.debug_bpf);
            cmd::record::run(&options)
        }
        Invocation::Check(args) => cmd::check::run(&args, &mut io::stdout().lock())
            .map(ExitCode::from)
            .map_err(Into::into),
        Invocation::Compare(options) => cmd::compare::run(&options),
        Invocation::Hist(options) => cmd::hist::run(&options),
        Invocation::Completions(shell) => cli::completions(shell, &mut io::stdout().lock())
            .map(|()| ExitCode::SUCCESS)
            .map_err(Into::into),
        Invocation::Man(dir) => cli::man(dir.as_deref(), &mut io::stdout().lock())
            .map(|()| ExitCode::SUCCESS)
            .map_err(Into::into),
    };
    result.unwrap_or_else(|error| {
        // A reader that goes away (`tracer man | head`) has seen enough.
        if let Some(e) = error.downcast_ref::<io::Error>()
            && e.kind() == io::ErrorKind::BrokenPipe
        {
            return ExitCode::SUCCESS;
        }
        tracer::say::say(format_args!("tracer: {error:#}"));
        ExitCode::from(FAILURE)
    })
}

/// `--debug-bpf`
fn log_if(debug: bool) {
    if debug {
        env_logger::Builder::new()
            .filter_level(log::LevelFilter::Trace)
            .filter_module("aya", log::LevelFilter::Info)
            .filter_module("aya_obj", log::LevelFilter::Info)
            .init();
    }
}

/// The kernel ends a process that needs more, without a word that helps.
fn enough_stack() -> Result<(), String> {
    const LEAST: u64 = 512 << 10;
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: writes one rlimit, which this is.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_STACK, &raw mut limit) } == 0;
    if known && limit.rlim_cur < LEAST {
        return Err(format!(
            "only {} KiB of stack may be used, tracer needs {}; raise the limit: ulimit -s 8192",
            limit.rlim_cur >> 10,
            LEAST >> 10
        ));
    }
    Ok(())
}

/// What is large goes back to the system when it is freed: outputs hold much after a
/// storm, and little for months after it. By default malloc keeps ever larger pieces.
fn return_large_memory() {
    const THRESHOLD: libc::c_int = 128 << 10;
    // SAFETY: no other thread runs yet. A refusal changes nothing.
    unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, THRESHOLD) };
}
