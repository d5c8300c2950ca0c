//! Bars as a drawing: plain SVG, without scripts or anything from elsewhere.

use super::View;
use super::bars::{Bars, length};
use crate::sink::escape::shorten;

const WIDTH: usize = 960;
const LINE: usize = 20;
/// Where bars begin, and how long the longest is.
const LEFT: usize = 330;
const BAR: usize = 520;
/// Characters of a label that fit before a bar.
const LABEL_MAX: usize = 44;

pub(super) fn svg(view: &View<'_>) -> String {
    let bars = Bars::of(view);
    let mut body = String::new();
    let mut y = LINE;
    text(&mut body, 10, y, "start", "head", &view.info());
    y += LINE;
    let totals = format!(
        "{}: {} by {}. Hits: {}, entries: {}, dropped: {}",
        view.plan.event,
        bars.measure,
        bars.axis,
        view.table.hits,
        view.table.rows.len(),
        view.table.dropped
    );
    text(&mut body, 10, y, "start", "note", &totals);
    for group in &bars.groups {
        y += LINE;
        if !group.title.is_empty() {
            y += LINE;
            text(&mut body, 10, y, "start", "head", &group.title);
        }
        for bar in &group.bars {
            y += LINE;
            let mut label = String::new();
            shorten(&mut label, &bar.label, LABEL_MAX);
            text(&mut body, LEFT - 8, y, "end", "label", &label);
            let length = length(bar.value, bars.max, BAR);
            // One that is not empty is seen.
            let length = if bar.value > 0 { length.max(1) } else { 0 };
            let top = y - 14;
            body.push_str(&format!(
                "<rect x=\"{LEFT}\" y=\"{top}\" width=\"{length}\" height=\"16\"><title>"
            ));
            escape(&mut body, &format!("{}: {}", bar.label, bar.number));
            body.push_str("</title></rect>\n");
            let at = LEFT + length + 6;
            text(&mut body, at, y, "start", "label", &bar.number);
        }
    }
    let height = y + LINE;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\" font-family=\"monospace\" font-size=\"12\">\n\
         <style>rect{{fill:#3b6ea5}} text{{fill:#222}} .head{{font-weight:bold}} .note{{fill:#666}}</style>\n\
         <rect x=\"0\" y=\"0\" width=\"{WIDTH}\" height=\"{height}\" style=\"fill:#fff\"/>\n\
         {body}</svg>\n"
    )
}

fn text(out: &mut String, x: usize, y: usize, anchor: &str, class: &str, content: &str) {
    out.push_str(&format!(
        "<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\" class=\"{class}\">"
    ));
    escape(out, content);
    out.push_str("</text>\n");
}

/// As XML wants it; what XML cannot hold at all is replaced.
fn escape(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
}
