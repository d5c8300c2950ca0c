//! The kernel's `hist` file (`hist_trigger_show`, `hist_trigger_print_key`,
//! `hist_trigger_print_val`).

use std::io::Write;

use super::super::plan::{Aggregate, Key, KeyForm, Value, ValueForm};
use super::super::resolve::Symbol;
use super::super::table::{KeyValue, Row};
use super::View;
use super::label::figure;

/// Characters of a bar.
const BAR: u32 = 20;

/// Sum and greatest value of a column, over all rows.
#[derive(Clone, Copy, Default)]
struct Column {
    total: u64,
    max: u64,
}

pub(super) fn text(view: &View<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    put(
        &mut out,
        format_args!(
            "# event histogram\n#\n# trigger info: {}\n#\n\n",
            view.info()
        ),
    );
    let columns: Vec<Column> = (0..view.plan.values.len())
        .map(|i| column(view, i))
        .collect();
    for row in view.rows() {
        key(&mut out, view, row);
        if !view.plan.no_hitcount {
            put(&mut out, format_args!(" hitcount: {:>10}", row.hitcount));
        }
        for (i, (of, column)) in view.plan.values.iter().zip(&columns).enumerate() {
            value(&mut out, of, row.value(view.plan, i), *column);
        }
        out.push(b'\n');
    }
    put(
        &mut out,
        format_args!(
            "\nTotals:\n    Hits: {}\n    Entries: {}\n    Dropped: {}\n",
            view.table.hits,
            view.table.rows.len(),
            view.table.dropped
        ),
    );
    out
}

fn put(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    // Writing to memory does not fail.
    drop(out.write_fmt(text));
}

/// Padded with blanks on the right to `width` bytes.
fn pad(out: &mut Vec<u8>, text: &[u8], width: usize) {
    out.extend_from_slice(text);
    out.resize(out.len() + width.saturating_sub(text.len()), b' ');
}

fn key(out: &mut Vec<u8>, view: &View<'_>, row: &Row) {
    out.extend_from_slice(b"{ ");
    for (i, (key, value)) in view.plan.keys.iter().zip(&row.keys).enumerate() {
        if i > 0 {
            out.extend_from_slice(b", ");
        }
        part(out, view, key, value);
    }
    if !view.plan.keys.iter().any(|k| k.form == KeyForm::Stack) {
        out.push(b' ');
    }
    out.push(b'}');
}

fn part(out: &mut Vec<u8>, view: &View<'_>, key: &Key, value: &KeyValue) {
    let number = value.number();
    let name = match key.form {
        KeyForm::Stack => key.spec(),
        _ => &key.name,
    };
    put(out, format_args!("{name}:"));
    match key.form {
        KeyForm::Decimal => put(out, format_args!(" {number:>10}")),
        KeyForm::Hex => put(out, format_args!(" {number:x}")),
        KeyForm::Symbol => {
            put(out, format_args!(" [{number:x}] "));
            pad(out, symbol(view, number, false).as_bytes(), 45);
        }
        KeyForm::SymbolOffset => {
            put(out, format_args!(" [{number:x}] "));
            pad(out, symbol(view, number, true).as_bytes(), 55);
        }
        KeyForm::ExecName => {
            out.push(b' ');
            match value {
                KeyValue::Task { comm, .. } => pad(out, comm, 16),
                _ => pad(out, b"", 16),
            }
            put(out, format_args!("[{number:>10}]"));
        }
        KeyForm::Syscall => {
            let name = view.names.syscall(number);
            out.push(b' ');
            pad(
                out,
                name.as_deref().unwrap_or("unknown_syscall").as_bytes(),
                30,
            );
            put(out, format_args!("[{number:>3}]"));
        }
        KeyForm::Stack => {
            out.push(b'\n');
            let frames = match value {
                KeyValue::Stack(frames) => frames.as_slice(),
                _ => &[],
            };
            for address in frames {
                put(
                    out,
                    format_args!("         {}\n", symbol(view, *address, true)),
                );
            }
        }
        KeyForm::Log2 => put(out, format_args!(" ~ 2^{number:<2}")),
        KeyForm::Buckets(width) => {
            let last = number.wrapping_add(width).wrapping_sub(1);
            put(out, format_args!(" ~ {number}-{last}"));
        }
        KeyForm::Text => {
            out.push(b' ');
            match value {
                KeyValue::Text(text) => pad(out, text, 50),
                _ => pad(out, b"", 50),
            }
        }
    }
}

/// `%ps`, or `%pS` with offset and size.
pub(super) fn symbol(view: &View<'_>, address: u64, with_offset: bool) -> String {
    let Some(Symbol {
        name,
        offset,
        size,
        module,
    }) = view.names.symbol(address)
    else {
        return format!("0x{address:x}");
    };
    let place = if with_offset {
        format!("+0x{offset:x}/0x{size:x}")
    } else {
        String::new()
    };
    match module {
        Some(module) => format!("{name}{place} [{module}]"),
        None => format!("{name}{place}"),
    }
}

fn column(view: &View<'_>, index: usize) -> Column {
    view.rows().fold(Column::default(), |column, row| {
        let value = row.value(view.plan, index);
        Column {
            total: column.total.wrapping_add(value),
            max: column.max.max(value),
        }
    })
}

fn value(out: &mut Vec<u8>, of: &Value, value: u64, column: Column) {
    let name = &of.name;
    match (of.form, of.aggregate) {
        (ValueForm::Percent, _) => match hundredths(value, column.total) {
            Some(share) => put(
                out,
                format_args!("  {name} (%): {:>3}.{:02}", share / 100, share % 100),
            ),
            None => put(out, format_args!("  {name} (%):[ERROR]")),
        },
        (ValueForm::Graph, _) => put(
            out,
            format_args!("  {name}: {:>20}", bar(value, column.max)),
        ),
        (ValueForm::Hex, _) => put(out, format_args!("  {name}: {value:>10x}")),
        (ValueForm::Decimal, Aggregate::Sum) => put(out, format_args!("  {name}: {value:>10}")),
        (ValueForm::Decimal, aggregate) => {
            let (what, figure) = (aggregate.name(), figure(of, value));
            put(out, format_args!("  {name} ({what}): {figure:>10}"));
        }
    }
}

/// Hundredths of a per cent, in the kernel's 32 bits; `None`: of nothing
/// (`__get_percentage`).
fn hundredths(value: u64, total: u64) -> Option<u32> {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the kernel's result is an unsigned int"
    )]
    let share = |value: u64, total: u64| value.checked_div(total).map(|s| s as u32);
    let share = if total == 0 {
        None
    } else if value < u64::MAX / 10_000 {
        share(value * 10_000, total)
    } else {
        share(value, total / 10_000)
    };
    match share {
        None if value == 0 => Some(0),
        share => share.filter(|s| *s != u32::MAX),
    }
}

/// `__fill_bar_str`
fn bar(value: u64, max: u64) -> String {
    let Some(share) = hundredths(value, max) else {
        return "[ERROR]".to_owned();
    };
    let filled = (share.wrapping_mul(BAR) / 10_000).min(BAR) as usize;
    format!(
        "{}{}",
        "#".repeat(filled),
        " ".repeat(BAR as usize - filled)
    )
}
