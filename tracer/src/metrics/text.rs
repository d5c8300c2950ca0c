//! Prometheus' text format, version 0.0.4.

use std::fmt::{Display, Write};

/// Text under construction. Each metric is given whole before the next.
#[derive(Default)]
pub struct Text(String);

#[derive(Clone, Copy)]
pub enum Kind {
    Counter,
    Gauge,
}

/// What a metric is; samples are to follow.
pub struct Metric<'a> {
    text: &'a mut String,
    name: &'static str,
}

impl Text {
    pub fn metric(&mut self, kind: Kind, name: &'static str, help: &str) -> Metric<'_> {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        // Writing to a String does not fail, here and below.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
        Metric {
            text: &mut self.0,
            name,
        }
    }

    pub fn counter(&mut self, name: &'static str, help: &str) -> Metric<'_> {
        self.metric(Kind::Counter, name, help)
    }

    pub fn gauge(&mut self, name: &'static str, help: &str) -> Metric<'_> {
        self.metric(Kind::Gauge, name, help)
    }

    pub fn finish(self) -> String {
        self.0
    }
}

impl Metric<'_> {
    /// A sample without labels.
    pub fn value(self, value: impl Display) {
        let _ = writeln!(self.text, "{} {value}", self.name);
    }

    pub fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) -> &mut Self {
        self.text.push_str(self.name);
        for (i, (label, text)) in labels.iter().enumerate() {
            self.text.push(if i == 0 { '{' } else { ',' });
            let _ = write!(self.text, "{label}=\"");
            for c in text.chars() {
                match c {
                    '\\' => self.text.push_str("\\\\"),
                    '"' => self.text.push_str("\\\""),
                    '\n' => self.text.push_str("\\n"),
                    c => self.text.push(c),
                }
            }
            self.text.push('"');
        }
        let _ = writeln!(self.text, "}} {value}");
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        let mut text = Text::default();
        text.counter("a_total", "Help.")
            .sample(&[("x", "q\"\\\n"), ("y", "z")], 1);
        text.gauge("b", "More.").value(2.5);
        assert_eq!(
            text.finish(),
            "# HELP a_total Help.\n# TYPE a_total counter\na_total{x=\"q\\\"\\\\\\n\",y=\"z\"} 1\n\
             # HELP b More.\n# TYPE b gauge\nb 2.5\n"
        );
    }
}
