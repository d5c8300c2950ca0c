//! The thread that sends: batches, tries again, gives up only where it must.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use prost::Message as _;
use ureq::Agent;
use ureq::http::{StatusCode, header};

use super::Target;
use super::proto::{ExportRequest, ExportResponse, ResourceSpans, Scope, ScopeSpans, Span};
use super::queue::{Batch, Item, Queue};
use super::span::{Context, cgroup};

/// Spans of one request.
pub const BATCH: usize = 512;
/// How long spans wait for company.
const LINGER: Duration = Duration::from_millis(500);
/// Of one request, connection and answer included.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Between two tries: at first, and at most.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(3));
/// The longest `Retry-After` that is heeded.
const RETRY_AFTER: Duration = Duration::from_secs(60);
/// An answer is a few bytes; more is not read.
const ANSWER: u64 = 64 * 1024;
const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.36.0";

/// Sends until the queue has ended.
pub fn run(queue: &Queue, target: &Target, mut context: Context) {
    let agent: Agent = Agent::config_builder()
        .timeout_global(Some(TIMEOUT))
        .http_status_as_error(false)
        .max_redirects(0)
        .proxy(None)
        .user_agent(concat!("tracer/", env!("CARGO_PKG_VERSION")))
        .build()
        .into();
    let mut link = Link {
        agent,
        target,
        complained: false,
    };
    while let Some(batch) = queue.take(BATCH, LINGER) {
        let body = encode(&batch.items, &mut context);
        link.deliver(queue, &batch, &body);
    }
}

/// Spans under what produced them: one resource for each cgroup.
fn encode(items: &[Item], context: &mut Context) -> Vec<u8> {
    let mut groups: BTreeMap<Option<&[u8]>, Vec<Span>> = BTreeMap::new();
    for item in items {
        let span = context.span(&item.process, item.end, &item.place);
        let group = cgroup(&item.process).map(|c| c.as_slice());
        groups.entry(group).or_default().push(span);
    }
    let resource_spans = groups.into_iter().map(|(group, spans)| ResourceSpans {
        resource: Some(context.resource(group)),
        scope_spans: vec![ScopeSpans {
            scope: Some(Scope {
                name: "tracer".into(),
                version: env!("CARGO_PKG_VERSION").into(),
            }),
            spans,
        }],
        schema_url: SCHEMA_URL.into(),
    });
    let request = ExportRequest {
        resource_spans: resource_spans.collect(),
    };
    request.encode_to_vec()
}

/// What became of a request.
enum Outcome {
    /// Taken, but for this many spans, and why.
    Accepted(u64, String),
    /// It will not be better next time.
    Refused(String),
    /// Not now; after this time if the receiver says so.
    Later(String, Option<Duration>),
}

struct Link<'a> {
    agent: Agent,
    target: &'a Target,
    /// That it does not work has been said; not again before it does.
    complained: bool,
}

impl Link<'_> {
    /// Sends one batch until it is taken or refused, or the end has come.
    fn deliver(&mut self, queue: &Queue, batch: &Batch, body: &[u8]) {
        let spans = batch.items.len() as u64;
        let mut wait = RETRY.0;
        loop {
            let (reason, asked) = match self.post(body) {
                Outcome::Accepted(rejected, why) => {
                    let rejected = rejected.min(spans);
                    if rejected > 0 {
                        self.complain(&format!("{rejected} spans were refused: {why}"));
                    } else {
                        self.recovered();
                    }
                    return queue.done(batch, spans - rejected, rejected, body.len());
                }
                Outcome::Refused(why) => {
                    self.complain(&format!("{spans} spans are lost: {why}"));
                    return queue.done(batch, 0, spans, 0);
                }
                Outcome::Later(reason, asked) => (reason, asked),
            };
            self.complain(&format!("{reason}; trying again"));
            queue.figures.retries.fetch_add(1, Ordering::Relaxed);
            if !queue.pause(asked.unwrap_or(wait).min(RETRY_AFTER)) {
                // Whoever closed the queue has counted them.
                return;
            }
            wait = (wait * 2).min(RETRY.1);
        }
    }

    fn post(&self, body: &[u8]) -> Outcome {
        let mut request = self
            .agent
            .post(self.target.url())
            .header(header::CONTENT_TYPE, "application/x-protobuf");
        for (name, value) in self.target.headers() {
            request = request.header(name, value);
        }
        let mut answer = match request.send(body) {
            Ok(answer) => answer,
            Err(error) => return Outcome::Later(error.to_string(), None),
        };
        let status = answer.status();
        let after = answer.headers().get(header::RETRY_AFTER);
        let after = after.and_then(|v| v.to_str().ok()?.trim().parse().ok());
        let after = after.map(Duration::from_secs);
        let body = answer.body_mut().with_config().limit(ANSWER).read_to_vec();
        match status {
            s if s.is_success() => {
                // An answer that is cut or is not protobuf takes nothing back.
                let parsed = ExportResponse::decode(body.unwrap_or_default().as_slice());
                let partial = parsed.unwrap_or_default().partial_success;
                let partial = partial.unwrap_or_default();
                let rejected = u64::try_from(partial.rejected_spans).unwrap_or(0);
                Outcome::Accepted(rejected, partial.error_message)
            }
            // Those that OTLP names as passing.
            StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT => Outcome::Later(status.to_string(), after),
            _ => Outcome::Refused(format!("the receiver answered {status}")),
        }
    }

    fn complain(&mut self, what: &str) {
        if !self.complained {
            self.complained = true;
            eprintln!("tracer: --otlp {}: {what}", self.target);
        }
    }

    fn recovered(&mut self) {
        if self.complained {
            self.complained = false;
            eprintln!("tracer: --otlp {}: works again", self.target);
        }
    }
}
