//! Bars for a terminal.

use super::View;
use super::bars::{Bars, Group, length};
use crate::sink::escape::{columns as width_of, escaped, shorten};

/// Columns of the narrowest bar.
const BAR_MIN: usize = 10;

pub(super) fn plot(view: &View<'_>, columns: usize) -> String {
    let bars = Bars::of(view);
    let mut out = String::new();
    for group in &bars.groups {
        if !group.title.is_empty() {
            safe(&mut out, &group.title, columns);
            out.push('\n');
        }
        draw(&mut out, &bars, group, columns);
        out.push('\n');
    }
    out.push_str(&format!(
        "Hits: {}  Entries: {}  Dropped: {}\n",
        view.table.hits,
        view.table.rows.len(),
        view.table.dropped
    ));
    out
}

/// A stranger's text, harmless and no longer than it may be.
fn safe(out: &mut String, text: &str, room: usize) {
    shorten(out, &escaped(text.as_bytes()), room);
}

fn draw(out: &mut String, bars: &Bars, group: &Group, columns: usize) {
    let labels: Vec<String> = group
        .bars
        .iter()
        .map(|bar| {
            let mut label = String::new();
            safe(&mut label, &bar.label, columns / 2);
            label
        })
        .collect();
    let mut axis = String::new();
    safe(&mut axis, &bars.axis, columns / 2);
    let left = labels
        .iter()
        .map(|l| width_of(l))
        .fold(width_of(&axis), usize::max);
    let numbers = group.bars.iter().map(|b| b.number.len());
    let middle = numbers.fold(bars.measure.len(), usize::max);
    // Three blanks between, and a line at each end of the bar.
    let room = columns.saturating_sub(left + middle + 7).max(BAR_MIN);
    let pad = |text: &str, width: usize| " ".repeat(width.saturating_sub(width_of(text)));
    let head = format!(
        "  {}{axis}  {}{}",
        pad(&axis, left),
        pad(&bars.measure, middle),
        bars.measure
    );
    out.push_str(&head);
    out.push('\n');
    for (bar, label) in group.bars.iter().zip(&labels) {
        let filled = length(bar.value, bars.max, room);
        out.push_str(&format!(
            "  {}{label}  {:>middle$} |{}{}|\n",
            pad(label, left),
            bar.number,
            "#".repeat(filled),
            " ".repeat(room - filled)
        ));
    }
}
