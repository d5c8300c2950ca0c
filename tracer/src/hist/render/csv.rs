//! A table with a header and a line for each row.

use super::super::plan::{Key, KeyForm};
use super::super::table::{KeyValue, Row};
use super::View;
use super::label::{figure, label, range};

pub(super) fn csv(view: &View<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = csv::Writer::from_writer(&mut out);
    // Writing to memory does not fail, and every record has as many fields.
    let mut write = |fields: Vec<Vec<u8>>| drop(writer.write_record(fields));
    write(header(view).into_iter().map(String::into_bytes).collect());
    for row in view.rows() {
        write(fields(view, row));
    }
    drop(writer);
    out
}

fn header(view: &View<'_>) -> Vec<String> {
    let mut names = Vec::new();
    for key in &view.plan.keys {
        match key.form {
            KeyForm::Log2 | KeyForm::Buckets(_) => {
                names.push(format!("{}_from", key.name));
                names.push(format!("{}_to", key.name));
            }
            KeyForm::ExecName => {
                names.push(key.name.clone());
                names.push(format!("{}_comm", key.name));
            }
            _ => names.push(key.name.clone()),
        }
    }
    names.push("hitcount".to_owned());
    names.extend(view.plan.values.iter().map(|v| v.spec().to_owned()));
    names
}

fn fields(view: &View<'_>, row: &Row) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    for (key, value) in view.plan.keys.iter().zip(&row.keys) {
        part(view, key, value, &mut out);
    }
    out.push(row.hitcount.to_string().into());
    for (i, of) in view.plan.values.iter().enumerate() {
        out.push(figure(of, row.value(view.plan, i)).into());
    }
    out
}

fn part(view: &View<'_>, key: &Key, value: &KeyValue, out: &mut Vec<Vec<u8>>) {
    match (key.form, value) {
        (KeyForm::Text, KeyValue::Text(text)) => out.push(text.clone()),
        (KeyForm::ExecName, _) => {
            out.push(value.number().to_string().into());
            out.push(match value {
                KeyValue::Task { comm, .. } => comm.clone(),
                _ => Vec::new(),
            });
        }
        (KeyForm::Log2 | KeyForm::Buckets(_), _) => {
            let (low, high) = range(key, value).unwrap_or((value.number(), value.number()));
            out.push(low.to_string().into());
            out.push(high.to_string().into());
        }
        _ => out.push(label(view, key, value).into()),
    }
}
