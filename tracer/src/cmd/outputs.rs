//! The sinks that the command line asks for. Files are opened here, before the
//! command starts: what cannot be written must not come out afterwards.

use std::io::{self, IsTerminal};

use anyhow::Result;

use crate::cli::{self, Color, Trace, TreeStyle};
use crate::pipeline::Pipeline;
use crate::sink::Sink;
use crate::sink::csv::Csv;
use crate::sink::jsonl::Jsonl;
use crate::sink::log::Log;
use crate::sink::output::{Destination, Output};
use crate::sink::per_process::PerProcess;
use crate::sink::style::Style;
use crate::sink::tree::{Tree, TreeOptions};

/// Opens every output of `options`.
pub fn open(options: &Trace, pipeline: &mut Pipeline) -> Result<()> {
    for file in options.outputs()? {
        let to = match &file.to {
            cli::Destination::Stdout => Destination::Stdout,
            cli::Destination::File(path) => Destination::File(path.clone()),
        };
        let name = to.to_string();
        pipeline.add(name, sink(options, &file, &to)?);
    }
    if options.quiet {
        return Ok(());
    }
    let terminal = io::stderr().is_terminal();
    let style = Style {
        color: match options.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => terminal && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()),
        },
    };
    let width = if terminal { terminal_width() } else { None };
    if options.log {
        let out = Output::open(&Destination::Stderr, false)?;
        pipeline.add("stderr", Box::new(Log::new(out, style, width)));
    }
    let tree = options.tree.unwrap_or(if options.log { TreeStyle::None } else { TreeStyle::Folded });
    if tree != TreeStyle::None {
        let out = Output::open(&Destination::Stderr, false)?;
        let options = TreeOptions {
            full: tree == TreeStyle::Full,
            style,
            width,
        };
        pipeline.add("stderr", Box::new(Tree::new(out, options)));
    }
    Ok(())
}
