//! `--config FILE`: TOML whose keys are the options of `tracer record`, without their dashes.
//!
//! The file becomes arguments that stand before those of the command line, so that both mean the
//! same. An option of the command line replaces that of the file, and those that it excludes.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use clap::builder::ValueParser;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, Command};
use thiserror::Error;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A file is read whole: more is no configuration.
const LIMIT: u64 = 1 << 20;
const OPTION: &str = "config";
/// Options that mean nothing in a file.
const NOT_IN_FILES: [&str; 3] = [OPTION, "help", "version"];

#[derive(Debug, Error)]
pub enum ConfigError {
    #[error("--config {path:?}: cannot be read: {error}")]
    Read { path: PathBuf, error: io::Error },
    #[error("--config {0:?} is larger than 1 MiB; is it the right file?")]
    Large(PathBuf),
    #[error("{}:{line}: {message}", .path.display())]
    Line {
        path: PathBuf,
        line: usize,
        message: String,
    },
}

/// The file that `args`, those after `record`, name.
pub(super) fn file(args: &[OsString]) -> Option<PathBuf> {
    let mut args = args.iter().take_while(|a| *a != "--");
    while let Some(arg) = args.next() {
        if arg == "--config" {
            return args.next().map(PathBuf::from);
        }
        if let Some(path) = arg.to_str().and_then(|a| a.strip_prefix("--config=")) {
            return Some(path.into());
        }
    }
    None
}

/// Where the options of a file stand, for what shows only when all are put together.
pub(super) struct Origin {
    path: PathBuf,
    options: Vec<Place>,
}

/// An option of the file.
struct Place {
    /// `--output`, `-o`.
    spellings: Vec<String>,
    key: String,
    line: usize,
}

impl Origin {
    /// The error with line and key in front, where it names an option of the file.
    pub(super) fn locate(&self, error: &clap::Error) -> Option<ConfigError> {
        let message = first_paragraph(error);
        let of_no_option = |c: char| !c.is_ascii_alphanumeric() && c != '-';
        let place = message.split(of_no_option).find_map(|word| {
            let mut options = self.options.iter();
            options.find(|o| o.spellings.iter().any(|s| s == word))
        })?;
        Some(ConfigError::Line {
            path: self.path.clone(),
            line: place.line,
            message: format!("{}: {message}", place.key),
        })
    }
}

/// What the file at `path` adds to `args`, both without the name of `command`.
pub(super) fn arguments(
    path: &Path,
    command: &Command,
    args: &[OsString],
) -> Result<(Vec<OsString>, Origin), ConfigError> {
    let text = read(path)?;
    let mut command = command.clone();
    command.build();
    let given = given(&command, args);
    let options = parse(path, &text, &command)?;
    let added = options.into_iter().filter(|(id, _)| {
        let excluded = |other: &Arg| {
            let conflicts = |a: &Arg, id: &str| {
                let with = command.get_arg_conflicts_with(a);
                with.iter().any(|c| c.get_id() == id)
            };
            let own = command.get_arguments().find(|a| a.get_id() == id.as_str());
            conflicts(other, id) || own.is_some_and(|own| conflicts(own, other.get_id().as_str()))
        };
        !given
            .iter()
            .any(|g| g.get_id() == id.as_str() || excluded(g))
    });
    let mut options = Vec::new();
    let mut all = Vec::new();
    for (id, (line, args)) in added {
        let arg = command.get_arguments().find(|a| a.get_id() == id.as_str());
        let long = arg.and_then(Arg::get_long).unwrap_or_default();
        let short = arg.and_then(Arg::get_short).map(|s| format!("-{s}"));
        options.push(Place {
            spellings: [format!("--{long}")].into_iter().chain(short).collect(),
            key: long.to_owned(),
            line,
        });
        all.extend(args);
    }
    let path = path.into();
    Ok((all, Origin { path, options }))
}

fn read(path: &Path) -> Result<String, ConfigError> {
    use std::io::Read as _;
    let read = || {
        let mut text = String::new();
        fs::File::open(path)?
            .take(LIMIT + 1)
            .read_to_string(&mut text)?;
        Ok(text)
    };
    let text = read().map_err(|error| ConfigError::Read {
        path: path.into(),
        error,
    })?;
    if text.len() as u64 > LIMIT {
        return Err(ConfigError::Large(path.into()));
    }
    Ok(text)
}

/// The options that the command line gives. Nothing is checked: clap does that afterwards.
fn given<'a>(command: &'a Command, args: &[OsString]) -> Vec<&'a Arg> {
    let shape = |arg: &Arg| {
        let mut shape = bare(arg);
        if let Some(short) = arg.get_short() {
            shape = shape.short(short);
        }
        if takes_value(arg) {
            shape = shape.value_parser(ValueParser::os_string());
        }
        shape
    };
    let shapes = command.get_arguments().filter(|a| a.get_long().is_some());
    let lenient = Command::new("record")
        .disable_help_flag(true)
        .disable_version_flag(true)
        .args(shapes.map(shape));
    let name = OsString::from("record");
    let Ok(matches) = lenient.try_get_matches_from([name].iter().chain(args)) else {
        return Vec::new();
    };
    let is_given =
        |a: &&Arg| matches.value_source(a.get_id().as_str()) == Some(ValueSource::CommandLine);
    let options = command.get_arguments().filter(|a| a.get_long().is_some());
    options.filter(is_given).collect()
}

fn takes_value(arg: &Arg) -> bool {
    arg.get_action().takes_values()
}

/// The option without anything that has to do with others.
fn bare(arg: &Arg) -> Arg {
    let mut bare = Arg::new(arg.get_id().clone()).action(arg.get_action().clone());
    if let Some(long) = arg.get_long() {
        bare = bare.long(long.to_owned());
    }
    if let Some(count) = arg.get_num_args().filter(|_| takes_value(arg)) {
        bare = bare
            .num_args(count)
            .require_equals(arg.is_require_equals_set());
        bare = bare.value_names(arg.get_value_names().unwrap_or_default().iter().cloned());
    }
    bare
}

/// The line and the arguments of each option in the file, by id.
fn parse(
    path: &Path,
    text: &str,
    command: &Command,
) -> Result<BTreeMap<String, (usize, Vec<OsString>)>, ConfigError> {
    let at = |span: Option<Range<usize>>, message: String| ConfigError::Line {
        path: path.into(),
        line: line(text, span.map_or(0, |s| s.start)),
        message,
    };
    let table = DeTable::parse(text).map_err(|e| at(e.span(), e.message().to_owned()))?;
    let mut options = BTreeMap::new();
    for (key, value) in table.get_ref() {
        let name = key.get_ref().as_ref();
        let fault = |span: Range<usize>, what: &str| at(Some(span), format!("{name}: {what}"));
        let arg = find(command, name).map_err(|what| fault(key.span(), &what))?;
        let mut args = Vec::new();
        for value in values(value) {
            let text = scalar(arg, value.get_ref()).map_err(|what| fault(value.span(), &what))?;
            let Some(text) = text else {
                continue;
            };
            check(arg, &text).map_err(|what| fault(value.span(), &what))?;
            args.push(text);
        }
        if args.len() > 1 && !matches!(arg.get_action(), ArgAction::Append) {
            return Err(fault(value.span(), "takes one value only"));
        }
        let line = line(text, key.span().start);
        options.insert(arg.get_id().to_string(), (line, args));
    }
    Ok(options)
}

/// Number of the line, from 1, that holds the byte at `offset`.
fn line(text: &str, offset: usize) -> usize {
    let before = text.as_bytes().get(..offset).unwrap_or(text.as_bytes());
    1 + before.iter().filter(|b| **b == b'\n').count()
}

fn find<'a>(command: &'a Command, name: &str) -> Result<&'a Arg, String> {
    let options = || {
        let shown = command.get_arguments().filter(|a| !a.is_hide_set());
        shown.filter_map(|a| Some((a, a.get_long().filter(|l| !NOT_IN_FILES.contains(l))?)))
    };
    if let Some((arg, _)) = options().find(|(_, long)| *long == name) {
        return Ok(arg);
    }
    let usual = name.replace('_', "-").to_lowercase();
    let near = options()
        .map(|(_, long)| (strsim::jaro_winkler(&usual, long), long))
        .filter(|(near, _)| *near > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    Err(match near {
        Some((_, long)) => format!("there is no such option; is {long} meant?"),
        None => "there is no such option; see: tracer record --help".into(),
    })
}

/// The elements of an array, or the value itself.
fn values<'a, 'i>(value: &'a Spanned<DeValue<'i>>) -> Vec<&'a Spanned<DeValue<'i>>> {
    match value.get_ref() {
        DeValue::Array(array) => array.iter().collect(),
        _ => vec![value],
    }
}

/// The argument that a value stands for; none for a flag that is off.
fn scalar(arg: &Arg, value: &DeValue<'_>) -> Result<Option<OsString>, String> {
    let long = arg.get_long().unwrap_or_default();
    let with = |text: &str| Ok(Some(OsString::from(format!("--{long}={text}"))));
    let what = || {
        let names = arg.get_value_names().unwrap_or_default();
        let name = names.first().map_or("a value", |n| n.as_str());
        format!("takes {name}, as a text or a number")
    };
    match (value, takes_value(arg)) {
        (DeValue::Boolean(on), false) => Ok(on.then(|| format!("--{long}").into())),
        (_, false) => Err("takes true or false".into()),
        (DeValue::String(text), true) => with(text),
        (DeValue::Integer(n), true) if n.radix() == 10 => with(&n.as_str().replace('_', "")),
        (DeValue::Float(n), true) => with(&n.as_str().replace('_', "")),
        (_, true) => Err(what()),
    }
}

/// Whether the option takes this argument, looked at alone.
fn check(arg: &Arg, text: &OsStr) -> Result<(), String> {
    let alone = bare(arg).value_parser(arg.get_value_parser().clone());
    let command = Command::new("record").disable_help_flag(true).arg(alone);
    let args = [OsStr::new("record"), text];
    let taken = command.try_get_matches_from(args);
    taken.map(drop).map_err(|e| first_paragraph(&e))
}

/// What an error says, on one line, without how the command is used.
fn first_paragraph(error: &clap::Error) -> String {
    let message = error.to_string();
    let first = message.split("\n\n").next().unwrap_or_default();
    let first = first.strip_prefix("error: ").unwrap_or(first).trim_end();
    first.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
