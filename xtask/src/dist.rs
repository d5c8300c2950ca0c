//! `cargo xtask dist`: what a package holds besides the binary, and the Debian package.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use anyhow::{Context as _, Result, bail};

use crate::{build, paths, process, setup::Tool};

const DEB: Tool = Tool {
    name: "cargo-deb",
    version: "3.8.0",
    options: &["--no-default-features"],
};
/// Shells, and the files that their completions live in.
const SHELLS: [(&str, &str); 3] = [
    ("bash", "tracer"),
    ("zsh", "_tracer"),
    ("fish", "tracer.fish"),
];

/// Build the release, completions and manual pages into target/dist; with --deb a Debian package too
#[derive(clap::Args)]
pub struct Args {
    /// Build the Debian package with cargo-deb, which is built into the cache first if it is not there
    #[arg(long)]
    deb: bool,
}

pub fn main(args: &Args) -> Result<ExitCode> {
    if args.deb {
        println!("{}", deb()?.display());
    } else {
        println!("{}", files()?.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// Completions and manual pages, by the released binary itself. Returns the directory.
fn files() -> Result<PathBuf> {
    build::release_quietly()?;
    // Where tracer/Cargo.toml has them, wherever cargo's own target directory is.
    let dist = paths::root().join("target/dist");
    let man = fresh(&dist.join("man"))?;
    process::run_quietly(Command::new(paths::tracer()).arg("man").arg(&man))?;
    for page in fs::read_dir(&man)? {
        // Debian wants them compressed, the same on each build.
        let page = page?.path();
        process::run_quietly(Command::new("gzip").args(["-9nf"]).arg(page))?;
    }
    for (shell, name) in SHELLS {
        let dir = fresh(&dist.join(shell))?;
        let script = process::output(Command::new(paths::tracer()).args(["completions", shell]))?;
        fs::write(dir.join(name), script)?;
    }
    Ok(dist)
}

fn fresh(dir: &Path) -> Result<PathBuf> {
    if dir.exists() {
        fs::remove_dir_all(dir)?;
    }
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    Ok(dir.to_owned())
}

/// Builds the package. Returns where it is.
pub fn deb() -> Result<PathBuf> {
    let dist = files()?;
    let out = fresh(&dist.join("deb"))?.join("tracer.deb");
    let mut deb = Command::new(DEB.get()?);
    deb.current_dir(paths::root())
        .args(["--package", "tracer", "--no-build", "--strip", "--output"])
        .arg(&out);
    process::run_quietly(&mut deb)?;
    check(&out)?;
    Ok(out)
}

/// What the package must hold, each of which a user would miss.
const CONTENTS: [&str; 10] = [
    "usr/bin/tracer",
    "usr/lib/systemd/system/tracer.service",
    "etc/tracer/tracer.toml",
    "usr/share/man/man1/tracer.1.gz",
    "usr/share/man/man1/tracer-record.1.gz",
    "usr/share/bash-completion/completions/tracer",
    "usr/share/zsh/vendor-completions/_tracer",
    "usr/share/fish/vendor_completions.d/tracer.fish",
    "usr/share/doc/tracer/copyright",
    "usr/share/doc/tracer/grafana.json",
];

/// Scripts that dpkg runs, and what each must do for the service.
const SCRIPTS: [(&str, &str); 3] = [
    ("postinst", "try-restart tracer.service"),
    ("prerm", "stop tracer.service"),
    ("postrm", "daemon-reload"),
];

/// Unpacks the package into a root of its own, and runs what is in it.
fn check(deb: &Path) -> Result<()> {
    let root = tempfile::tempdir()?;
    let control = root.path().join("control");
    process::run_quietly(Command::new("dpkg-deb").arg("-e").arg(deb).arg(&control))?;
    for (name, does) in SCRIPTS {
        let script = control.join(name);
        let text = fs::read_to_string(&script)
            .with_context(|| format!("{} has no script {name}", deb.display()))?;
        if !text.contains(does) {
            bail!("{name} of {} does not {does}", deb.display());
        }
        process::output(Command::new("sh").arg("-n").arg(&script))?;
    }
    process::run_quietly(Command::new("dpkg-deb").arg("-x").arg(deb).arg(root.path()))?;
    for path in CONTENTS {
        let file = fs::metadata(root.path().join(path))
            .with_context(|| format!("{path} is missing in {}", deb.display()))?;
        if file.len() == 0 {
            bail!("{path} is empty in {}", deb.display());
        }
    }
    let tracer = root.path().join("usr/bin/tracer");
    let version = process::output(Command::new(&tracer).arg("--version"))?;
    if !version.contains(env!("CARGO_PKG_VERSION")) {
        bail!("the packaged program says that it is {version}");
    }
    // That its file of options is understood; nothing is recorded.
    let config = root.path().join("etc/tracer/tracer.toml");
    process::output(
        Command::new(&tracer)
            .args(["record", "--config"])
            .arg(config)
            .arg("--help"),
    )?;
    Ok(())
}
