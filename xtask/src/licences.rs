//! The licences of everything that tracer is built from, judged by name; for machines without cargo-deny.

use std::{collections::BTreeSet, fs};

use anyhow::{Context as _, Result, bail};

use crate::{paths, process};

/// Fails, naming the packages, if one may be used under none of the licences that deny.toml allows.
pub fn check() -> Result<()> {
    let policy = paths::root().join("deny.toml");
    let policy =
        fs::read_to_string(&policy).with_context(|| format!("cannot read {}", policy.display()))?;
    let allowed = allowed(&policy).context("deny.toml has no list `allow` under [licenses]")?;
    // Not `cargo metadata`, which counts features that other systems' dependencies turn on.
    let tree = process::output(process::cargo().args([
        "tree",
        "--workspace",
        "--all-features",
        "--target=x86_64-unknown-linux-gnu",
        "--edges=normal,build,dev",
        "--prefix=none",
        "--format={l}|{p}|",
        "--locked",
    ]))?;
    // Those that were shown already have a mark behind the last bar.
    let packages: BTreeSet<(&str, &str)> = tree.lines().filter_map(package).collect();
    if packages.is_empty() {
        bail!("cargo tree lists no packages");
    }
    let refused: Vec<String> = packages
        .iter()
        .filter(|(licence, _)| !is_permitted(licence, &allowed))
        .map(|(licence, name)| format!("    {name}: {licence:?}"))
        .collect();
    if !refused.is_empty() {
        bail!(
            "packages whose licence deny.toml does not allow:\n{}",
            refused.join("\n")
        );
    }
    eprintln!(
        "xtask: the licences of {} packages are allowed by deny.toml",
        packages.len()
    );
    Ok(())
}

/// Licence and name with version of a line of the tree.
fn package(line: &str) -> Option<(&str, &str)> {
    let (licence, rest) = line.split_once('|')?;
    let (package, _) = rest.split_once('|')?;
    // What comes after the version is a path or a mark.
    let end = package
        .match_indices(' ')
        .nth(1)
        .map_or(package.len(), |(at, _)| at);
    Some((licence, package.get(..end)?))
}

/// The strings of `allow` in the section `[licenses]`.
fn allowed(policy: &str) -> Option<Vec<&str>> {
    let (_, section) = policy.split_once("[licenses]")?;
    let (_, list) = section.split_once("allow = [")?;
    let (list, _) = list.split_once(']')?;
    Some(list.split('"').skip(1).step_by(2).collect())
}

/// Whether an SPDX expression (or the older `MIT/Apache-2.0`) can be met with the allowed licences.
fn is_permitted(expression: &str, allowed: &[&str]) -> bool {
    let spaced = expression
        .replace('(', " ( ")
        .replace(')', " ) ")
        .replace('/', " OR ");
    let mut words = spaced.split_whitespace().peekable();
    let permitted = any(&mut words, allowed);
    permitted && words.next().is_none()
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn any(words: &mut Words<'_>, allowed: &[&str]) -> bool {
    let mut permitted = all(words, allowed);
    while words.next_if_eq(&"OR").is_some() {
        permitted |= all(words, allowed);
    }
    permitted
}

fn all(words: &mut Words<'_>, allowed: &[&str]) -> bool {
    let mut permitted = one(words, allowed);
    while words.next_if_eq(&"AND").is_some() {
        permitted &= one(words, allowed);
    }
    permitted
}

fn one(words: &mut Words<'_>, allowed: &[&str]) -> bool {
    match words.next() {
        Some("(") => {
            let permitted = any(words, allowed);
            words.next_if_eq(&")").is_some() && permitted
        }
        Some(licence) if words.next_if_eq(&"WITH").is_some() => {
            let exception = words.next().unwrap_or("");
            allowed.contains(&format!("{licence} WITH {exception}").as_str())
        }
        Some(licence) => allowed.contains(&licence),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_judged_as_spdx_says() {
        let allowed = ["MIT", "BSD-2-Clause", "Apache-2.0 WITH LLVM-exception"];
        for yes in [
            "MIT",
            "GPL-2.0 OR MIT",
            "MIT/Apache-2.0",
            "GPL-2.0 AND LGPL-2.1 OR MIT",
            "MIT AND (GPL-3.0 OR BSD-2-Clause)",
            "Apache-2.0 WITH LLVM-exception",
        ] {
            assert!(is_permitted(yes, &allowed), "{yes}");
        }
        for no in [
            "",
            "GPL-2.0",
            "MIT AND GPL-2.0",
            "(MIT",
            "MIT MIT",
            "MIT AND (GPL-3.0 OR CDDL-1.0)",
            "MIT WITH x",
            "Apache-2.0",
        ] {
            assert!(!is_permitted(no, &allowed), "{no}");
        }
    }

    #[test]
    fn lines_of_the_tree_are_taken_apart() {
        let found = [
            "MIT|zstd v0.14.4|",
            "MIT OR Apache-2.0|tracer v0.1.0 (/home/me/tracer)|",
            "MIT|zstd v0.14.4| (*)",
            "",
        ]
        .map(package);
        let zstd = Some(("MIT", "zstd v0.14.4"));
        let tracer = Some(("MIT OR Apache-2.0", "tracer v0.1.0"));
        assert_eq!(found, [zstd, tracer, zstd, None]);
    }

    #[test]
    fn the_policy_is_read_from_its_own_section() {
        let policy =
            "[bans]\nallow = [\"x\"]\n[licenses]\n# why\nallow = [\n  \"MIT\",\n  \"ISC\",\n]\n";
        assert_eq!(allowed(policy), Some(vec!["MIT", "ISC"]));
        assert_eq!(allowed("[bans]\n"), None);
    }
}
