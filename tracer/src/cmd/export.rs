//! Makes a capture visible from outside: `--metrics` and `--otlp`.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use aya::sys::{Stats, enable_stats};

use crate::cli::Capture;
use crate::metrics::{Figures, Programs, Server};
use crate::pipeline::Pipeline;
use crate::source::Source;

/// Opens what `options` name. An address that cannot be used is an error before anything starts.
pub(super) fn open(options: &Capture, pipeline: &mut Pipeline) -> Result<()> {
    let export = &options.export;
    let server = export.metrics.map(Server::bind).transpose()?;
    let figures = server.is_some().then(Arc::<Figures>::default);
    #[cfg(feature = "otlp")]
    if let Some(otlp) = export.otlp() {
        let name = format!("--otlp {}", otlp.target);
        let sink = crate::sink::otlp::Otlp::new(otlp);
        if let Some(figures) = &figures {
            figures.set_otlp(sink.figures());
        }
        super::outputs::add(options, pipeline, name, Box::new(sink));
    }
    let (Some(server), Some(figures)) = (server, figures) else {
        return Ok(());
    };
    let address = server.address();
    server.start(Arc::clone(&figures))?;
    pipeline.watch(figures);
    if export.metrics.is_some_and(|a| a.is_public()) {
        eprintln!(
            "tracer: metrics at http://{address}/metrics, for every machine that can connect"
        );
    } else if !options.quiet {
        eprintln!("tracer: metrics at http://{address}/metrics");
    }
    Ok(())
}

/// Lets the kernel count what programs cost, for `--bpf-stats`.
pub(super) fn count(options: &Capture, pipeline: &Pipeline) -> Result<()> {
    if let (true, Some(figures)) = (options.export.bpf_stats, pipeline.figures()) {
        let counting = enable_stats(Stats::RunTime).context(
            "--bpf-stats: the kernel refuses it; CAP_SYS_ADMIN is needed, or leave it out and set sysctl kernel.bpf_stats_enabled=1",
        )?;
        figures.set_programs(Programs::counting(counting));
    }
    Ok(())
}

/// Shows what the source has to show.
pub(super) fn programs<S: Source>(source: &S, pipeline: &Pipeline) {
    if let Some(figures) = pipeline.figures() {
        figures.set_programs(Programs::of(source.programs()));
    }
}
