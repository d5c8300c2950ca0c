//! Installs the tracers to compare with.

use std::{
    env, fs,
    path::PathBuf,
    process::{Command, ExitCode},
};

use anyhow::{Context as _, Result};

use super::tool::{ALL, Package};
use crate::{paths, process, setup};

/// What tracexec links, and builds its kernel side with.
const FOR_TRACEXEC: [&str; 4] = ["pkg-config", "libelf-dev", "zlib1g-dev", "libseccomp-dev"];
const TRACEXEC_VERSION: &str = "1.0.0";

/// Directory for the programs that are not packages.
pub fn bin() -> Result<PathBuf> {
    Ok(paths::cache()?.join("peers/bin"))
}

/// Installs what is missing, one by one: that one cannot be had does not stop the others.
pub fn install() -> Result<ExitCode> {
    let mut failed = Vec::new();
    let mut tried = Vec::new();
    for tool in ALL {
        let missing = tool.programs.iter().any(|program| !is_there(program));
        let (Package::Debian(name) | Package::Cargo(name)) = tool.package else {
            continue;
        };
        if !missing || tried.contains(&name) {
            continue;
        }
        tried.push(name);
        let done = match tool.package {
            Package::Cargo(_) => tracexec(),
            _ => setup::install_packages(&[name], tool.name),
        };
        if let Err(error) = done {
            eprintln!("xtask: {}: {error:#}", tool.name);
            failed.push(name);
        }
    }
    for tool in ALL.iter().filter(|tool| !tool.programs.is_empty()) {
        let found = tool.programs.iter().all(|program| is_there(program));
        println!(
            "{:<16} {}",
            tool.name,
            if found { "found" } else { "missing" }
        );
    }
    Ok(if failed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn is_there(program: &str) -> bool {
    let in_cache = || bin().is_ok_and(|bin| bin.join(program).is_file());
    process::on_path(program) || in_cache()
}

fn tracexec() -> Result<()> {
    setup::install_packages(&FOR_TRACEXEC, "tracexec")?;
    let clang = (11..=30)
        .rev()
        .map(|version| format!("clang-{version}"))
        .chain(["clang".to_owned()])
        .find(|clang| process::on_path(clang));
    let clang = match clang {
        Some(clang) => clang,
        None => {
            setup::install_packages(&["clang"], "tracexec's kernel side")?;
            "clang".to_owned()
        }
    };
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let root = paths::cache()?.join("peers");
    // In the cache, so that a build of many minutes that is broken off goes on the next time.
    let target = root.join("build");
    process::run(
        Command::new(cargo)
            .args([
                "install",
                "tracexec",
                "--locked",
                "--version",
                TRACEXEC_VERSION,
                "--root",
            ])
            .arg(&root)
            .env("CLANG", clang)
            .env("CARGO_TARGET_DIR", &target),
    )?;
    fs::remove_dir_all(&target).with_context(|| format!("cannot remove {}", target.display()))
}
