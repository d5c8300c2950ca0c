//! A table as one JSON object.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value as Json, json};

use super::super::plan::{Key, KeyForm};
use super::super::table::{KeyValue, Row};
use super::View;
use super::label::{is_signed, range};
use super::text::symbol;

pub(super) fn json(view: &View<'_>) -> String {
    let plan = view.plan;
    let rows: Vec<Json> = view.rows().map(|r| row(view, r)).collect();
    let whole = json!({
        "event": plan.event,
        "trigger": plan.info(),
        "paused": view.paused,
        "keys": plan.keys.iter().map(Key::spec).collect::<Vec<_>>(),
        "values": plan.values.iter().map(|v| v.spec()).collect::<Vec<_>>(),
        "rows": rows,
        "hits": view.table.hits,
        "entries": view.table.rows.len(),
        "dropped": view.table.dropped,
        "missed": view.table.missed,
    });
    let text = whole.to_string();
    let mut out = String::with_capacity(text.len() + 1);
    // What JSON allows but a terminal would act on.
    for c in text.chars() {
        if c.is_control() || crate::sink::json::is_deceptive(c) {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            out.push(c);
        }
    }
    out.push('\n');
    out
}

fn row(view: &View<'_>, row: &Row) -> Json {
    let plan = view.plan;
    let mut keys = Map::new();
    for (key, value) in plan.keys.iter().zip(&row.keys) {
        part(view, key, value, &mut keys);
    }
    let mut values = Map::new();
    for (i, of) in plan.values.iter().enumerate() {
        let value = row.value(plan, i);
        let shown = if of.shows_sign() {
            value.cast_signed().into()
        } else {
            value.into()
        };
        values.insert(of.spec().to_owned(), shown);
    }
    json!({ "key": keys, "hitcount": row.hitcount, "values": values })
}

fn part(view: &View<'_>, key: &Key, value: &KeyValue, into: &mut Map<String, Json>) {
    let number = value.number();
    let spec = key.spec();
    let shown = match (key.form, value) {
        (KeyForm::Text, KeyValue::Text(bytes)) => {
            text(into, spec, bytes);
            return;
        }
        (KeyForm::ExecName, KeyValue::Task { comm, .. }) => {
            let mut task = Map::new();
            task.insert("pid".to_owned(), number.into());
            text(&mut task, "comm", comm);
            Json::Object(task)
        }
        (KeyForm::Symbol | KeyForm::SymbolOffset, _) => place(view, number),
        (KeyForm::Syscall, _) => json!({ "number": number, "name": view.names.syscall(number) }),
        (KeyForm::Stack, KeyValue::Stack(frames)) => frames
            .iter()
            .map(|a| place(view, *a))
            .collect::<Vec<_>>()
            .into(),
        (KeyForm::Log2 | KeyForm::Buckets(_), _) => match range(key, value) {
            Some((low, high)) => json!({ "from": low, "to": high }),
            None => number.into(),
        },
        _ if is_signed(key) => number.cast_signed().into(),
        _ => number.into(),
    };
    into.insert(spec.to_owned(), shown);
}

/// An address, as text: not every reader of JSON keeps 64 bits.
fn place(view: &View<'_>, address: u64) -> Json {
    json!({ "address": format!("0x{address:x}"), "symbol": symbol(view, address, true) })
}

/// Bytes that are no UTF-8 keep a lossless `X_b64` beside them.
fn text(into: &mut Map<String, Json>, name: &str, bytes: &[u8]) {
    into.insert(name.to_owned(), String::from_utf8_lossy(bytes).into());
    if std::str::from_utf8(bytes).is_err() {
        into.insert(format!("{name}_b64"), STANDARD.encode(bytes).into());
    }
}
