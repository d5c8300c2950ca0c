//! Options for those who watch a capture, or gather many, from outside.

use clap::Args;

#[cfg(feature = "otlp")]
use super::value;
use crate::metrics::Address;
#[cfg(feature = "otlp")]
use crate::sink::otlp::{Header, OtlpOptions, Target};

#[derive(Debug, Args)]
#[command(next_help_heading = "From outside")]
pub struct Export {
    /// Serve figures of the capture for Prometheus at http://ADDR/metrics; only a PORT means 127.0.0.1, other addresses are written out (IP:PORT)
    #[arg(long, value_name = "ADDR")]
    pub metrics: Option<Address>,
    /// Let the kernel count the run time of the BPF programs, for --metrics; costs some CPU at each event
    #[arg(long, requires = "metrics")]
    pub bpf_stats: bool,
    /// Send a span for each process that ends to an OpenTelemetry collector (OTLP over HTTP), as in http://127.0.0.1:4318
    #[cfg(feature = "otlp")]
    #[arg(long, value_name = "URL", value_hint = clap::ValueHint::Url)]
    otlp: Option<Target>,
    /// A header for each request of --otlp; may be repeated
    #[cfg(feature = "otlp")]
    #[arg(long, value_name = "NAME=VALUE", requires = "otlp")]
    otlp_header: Vec<Header>,
    /// Memory for spans that the receiver of --otlp does not take; what does not fit is lost, and counted
    #[cfg(feature = "otlp")]
    #[arg(long, value_name = "SIZE", requires = "otlp", default_value = "32MiB", value_parser = value::queue)]
    otlp_queue: usize,
}

impl Export {
    /// Where spans go to.
    #[cfg(feature = "otlp")]
    pub fn otlp(&self) -> Option<OtlpOptions> {
        let target = self.otlp.clone()?;
        Some(OtlpOptions {
            target: target.with_headers(&self.otlp_header),
            queue: self.otlp_queue,
        })
    }

    /// Whether anything leaves tracer this way.
    pub(super) const fn is_used(&self) -> bool {
        #[cfg(feature = "otlp")]
        if self.otlp.is_some() {
            return true;
        }
        self.metrics.is_some()
    }
}
