//! A table as the kernel's `hist` file, and in other forms.

mod bars;
mod csv;
mod json;
mod label;
mod plot;
mod svg;
#[cfg(test)]
mod tests;
mod text;

use super::plan::Plan;
use super::resolve::Resolve;
use super::table::{KeyValue, Row, Table};
use crate::sink::escape::escaped;

/// A table that is to be shown. Its rows are shown in the order in which they are
/// ([`Table::sort`]).
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub plan: &'a Plan,
    pub table: &'a Table,
    pub names: &'a dyn Resolve,
    pub paused: bool,
}

impl View<'_> {
    /// Byte for byte the kernel's `hist` file (`hist_trigger_show`). Texts of
    /// strangers are in it as they are.
    pub fn text(&self) -> Vec<u8> {
        text::text(self)
    }

    /// The same, safe for a terminal: texts of strangers, in which there may be line
    /// breaks, too, are escaped.
    pub fn text_for_terminal(&self) -> Vec<u8> {
        let mut table = self.table.clone();
        for key in table.rows.iter_mut().flat_map(|row| &mut row.keys) {
            if let KeyValue::Text(text) | KeyValue::Task { comm: text, .. } = key {
                *text = escaped(text).into_bytes();
            }
        }
        let view = View {
            table: &table,
            ..*self
        };
        view.text()
    }

    /// One JSON object, with a line break behind it.
    pub fn json(&self) -> String {
        json::json(self)
    }

    /// A header and a line for each row.
    pub fn csv(&self) -> Vec<u8> {
        csv::csv(self)
    }

    /// Bars for a terminal of so many columns, safe for it.
    pub fn plot(&self, columns: usize) -> String {
        plot::plot(self, columns)
    }

    /// The same bars as a drawing.
    pub fn svg(&self) -> String {
        svg::svg(self)
    }

    /// `hist:keys=…:size=2048 [active]`
    pub fn info(&self) -> String {
        let state = if self.paused { "paused" } else { "active" };
        format!("{} [{state}]", self.plan.info())
    }

    fn rows(&self) -> impl Iterator<Item = &Row> {
        self.table.rows.iter()
    }
}
