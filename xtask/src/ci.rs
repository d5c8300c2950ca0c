//! `cargo xtask ci`: everything that must hold before a change is taken in.

use std::{process::ExitCode, time::Instant};

use anyhow::Result;

use crate::{check, dist, fuzz, test, vm};

/// Check, then test on this kernel, then on the others in qemu
#[derive(clap::Args)]
pub struct Args {
    /// Build cargo-deny, look for advisories against the dependencies, run the fuzz targets, and build the Debian
    /// package too
    #[arg(long)]
    full: bool,
}

pub fn main(args: &Args) -> Result<ExitCode> {
    let start = Instant::now();
    let done = |what: &str| eprintln!("xtask: {what} done after {} s", start.elapsed().as_secs());
    check::main()?;
    if args.full {
        check::full_deny()?;
    }
    done("checks");
    let (mut summary, passed) = test::run(&test::Args::default())?;
    done("tests on this kernel");
    if args.full {
        dist::deb()?;
        done("the Debian package");
        match fuzz::missing() {
            Some(reason) => eprintln!("xtask: fuzz targets skipped: {reason}"),
            None => fuzz::run(&fuzz::Args::default())?,
        }
        done("fuzz targets");
    }
    let guests = vm::test()?;
    done("tests in qemu");
    summary += guests.summary;
    // The last line is what a machine that runs this looks for.
    println!("{summary}");
    Ok(if passed && guests.status == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
