//! The project's chores: `cargo xtask SUBCOMMAND`. Each is idempotent and says what it does.

mod bench;
mod bpf_toolchain;
mod build;
mod check;
mod ci;
mod dist;
mod fuzz;
mod licences;
mod paths;
mod process;
mod run;
mod setup;
mod summary;
mod test;
mod vm;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Sets up, builds, runs and checks tracer.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Task,
}

#[derive(Subcommand)]
enum Task {
    Setup(setup::Args),
    Build(build::Args),
    Run(run::Args),
    Test(test::Args),
    Check(check::Args),
    Vm(vm::Args),
    Bench(bench::Args),
    Dist(dist::Args),
    Fuzz(fuzz::Args),
    Ci(ci::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Task::Setup(args) => setup::main(&args),
        Task::Build(args) => build::main(&args),
        Task::Run(args) => run::main(args),
        Task::Test(args) => test::main(&args),
        Task::Check(check::Args {}) => check::main().map(|()| ExitCode::SUCCESS),
        Task::Dist(args) => dist::main(&args),
        Task::Fuzz(args) => fuzz::main(&args),
        Task::Ci(args) => ci::main(&args),
        Task::Vm(args) => vm::main(&args),
        Task::Bench(args) => bench::main(&args),
    };
    result.unwrap_or_else(|error| {
        eprintln!("xtask: {error:#}");
        ExitCode::FAILURE
    })
}
