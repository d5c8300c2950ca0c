//! `cargo xtask run`: the current sources' tracer, as if it had been started directly.

use std::{
    env,
    ffi::OsString,
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Command, ExitCode},
};

use anyhow::{Context as _, Result};

use crate::{build, paths};

/// Build the release and become it: `cargo xtask run -- -- CMD` is `tracer -- CMD`
#[derive(clap::Args)]
pub struct Args {
    /// tracer's own arguments, all that follow the first `--`
    #[arg(last = true, value_name = "ARGS")]
    args: Vec<OsString>,
}

pub fn main(args: Args) -> Result<ExitCode> {
    build::release_quietly()?;
    let tracer = paths::tracer();
    let mut command = Command::new(&tracer);
    command.args(args.args);
    restore_environment(&mut command);
    // Not a child but ourselves: terminal, signals and exit status are then tracer's own.
    let error = command.exec();
    Err(error).with_context(|| format!("cannot start {}", tracer.display()))
}

/// Takes out what cargo and rustup put into our environment, which is not the traced command's business.
fn restore_environment(command: &mut Command) {
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        let cargos = text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_");
        if cargos
            || matches!(
                &*text,
                "CARGO" | "RUSTUP_TOOLCHAIN" | "RUST_RECURSION_COUNT"
            )
        {
            command.env_remove(&name);
        }
    }
    if let Some(libraries) = env::var_os("LD_LIBRARY_PATH") {
        let ours = paths::target();
        let rustup = env::var_os("RUSTUP_HOME").or_else(|| {
            let home = env::var_os("HOME")?;
            Some(Path::new(&home).join(".rustup").into_os_string())
        });
        let foreign = |dir: &Path| {
            !dir.starts_with(&ours)
                && !rustup
                    .as_ref()
                    .is_some_and(|rustup| dir.starts_with(rustup))
        };
        let kept: Vec<_> = env::split_paths(&libraries)
            .filter(|dir| foreign(dir))
            .collect();
        match env::join_paths(&kept) {
            Ok(path) if !kept.is_empty() => command.env("LD_LIBRARY_PATH", path),
            _ => command.env_remove("LD_LIBRARY_PATH"),
        };
    }
}
