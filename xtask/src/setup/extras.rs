//! Programs of others that some tests and the documentation use: in the cache, not in the system.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};

use super::{
    apt,
    debs::{Fetch, unpacked},
    lock,
};
use crate::{paths, process};

/// From PyPI: two databases that read Parquet, a reader of it that is neither, and an OpenTelemetry collector.
const WHEELS: [&str; 4] = [
    "duckdb==2.0.1",
    "chdb==4.4.0",
    "pyarrow==26.0.1",
    "rotel==0.0.1a15",
];
/// Written last; its text tells whether the directory is whole and of these releases.
const STAMP: &str = "tracer-extras";

/// The directory whose `bin` holds `python` (with the modules duckdb, chdb and pyarrow), `rotel` and `promtool`.
///
/// Quick where all is there; else it fetches some 300 MB, which become 1 GB.
pub fn install() -> Result<PathBuf> {
    let place = paths::cache()?.join("extras");
    if is_whole(&place) {
        return Ok(place);
    }
    let prometheus = unpacked("prometheus", Fetch::Alone)?;
    let python = python()?;
    let _lock = lock::take()?;
    if is_whole(&place) {
        return Ok(place);
    }
    eprintln!(
        "xtask: fetching {} from PyPI into {}",
        WHEELS.join(", "),
        place.display()
    );
    remove(&place)?;
    // It knows its own path, so it is made where it stays.
    process::output(Command::new(python).args(["-m", "venv"]).arg(&place))?;
    process::output(
        Command::new(place.join("bin/python"))
            .args(["-m", "pip", "--disable-pip-version-check", "install"])
            .args(["--quiet", "--only-binary=:all:"])
            .args(WHEELS),
    )?;
    let rotel = process::output(Command::new(place.join("bin/python")).args([
        "-c",
        "import pathlib, rotel; print(pathlib.Path(rotel.__file__).parent / 'rotel-agent')",
    ]))?;
    link(Path::new(rotel.trim()), &place.join("bin/rotel"))?;
    link(
        &prometheus.join("usr/bin/promtool"),
        &place.join("bin/promtool"),
    )?;
    fs::write(place.join(STAMP), WHEELS.join("\n"))?;
    Ok(place)
}

fn is_whole(place: &Path) -> bool {
    fs::read_to_string(place.join(STAMP)).is_ok_and(|text| text == WHEELS.join("\n"))
        // What they point to may have been tidied away.
        && ["python", "rotel", "promtool"]
            .iter()
            .all(|name| place.join("bin").join(name).is_file())
}

fn remove(place: &Path) -> Result<()> {
    match fs::remove_dir_all(place) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", place.display()))
        }
        _ => Ok(()),
    }
}

fn link(program: &Path, name: &Path) -> Result<()> {
    if !program.is_file() {
        bail!("{} is missing from its package", program.display());
    }
    std::os::unix::fs::symlink(program, name)
        .with_context(|| format!("cannot make {}", name.display()))
}

/// A Python that can make virtual environments.
fn python() -> Result<&'static str> {
    let found = || {
        ["python3", "/usr/bin/python3"].into_iter().find(|python| {
            process::output(Command::new(python).args(["-c", "import ensurepip, venv"])).is_ok()
        })
    };
    if let Some(python) = found() {
        return Ok(python);
    }
    if !apt::exists() {
        bail!("no python3 with the modules venv and ensurepip: install your system's");
    }
    super::install_packages(&["python3-venv"], "Python's virtual environments")?;
    found().context("python3-venv is installed, and python3 still cannot make an environment")
}
