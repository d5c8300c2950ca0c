//! What a key's part reads as where the kernel's columns are not kept.

use super::super::plan::{Key, KeyForm, Source, Transform, Value};
use super::super::table::KeyValue;
use super::View;
use super::text::symbol;

/// For a person, in one line. Texts of strangers are in it as they are, what is
/// no UTF-8 replaced.
pub(super) fn label(view: &View<'_>, key: &Key, value: &KeyValue) -> String {
    let number = value.number();
    match (key.form, value) {
        (KeyForm::Text, KeyValue::Text(text)) => String::from_utf8_lossy(text).into_owned(),
        (KeyForm::Hex, _) => format!("0x{number:x}"),
        (KeyForm::Symbol, _) => symbol(view, number, false),
        (KeyForm::SymbolOffset, _) => symbol(view, number, true),
        (KeyForm::ExecName, KeyValue::Task { comm, .. }) => {
            format!("{} [{number}]", String::from_utf8_lossy(comm))
        }
        (KeyForm::Syscall, _) => match view.names.syscall(number) {
            Some(name) => name.into_owned(),
            None => format!("unknown_syscall [{number}]"),
        },
        (KeyForm::Stack, KeyValue::Stack(frames)) => {
            let frames: Vec<String> = frames.iter().map(|a| symbol(view, *a, true)).collect();
            frames.join(";")
        }
        (KeyForm::Log2 | KeyForm::Buckets(_), _) => match range(key, value) {
            Some((low, high)) => format!("{low}-{high}"),
            None => number.to_string(),
        },
        _ if is_signed(key) => number.cast_signed().to_string(),
        _ => number.to_string(),
    }
}

/// A value's number, with its sign where it is shown with one.
pub(super) fn figure(of: &Value, value: u64) -> String {
    if of.shows_sign() {
        value.cast_signed().to_string()
    } else {
        value.to_string()
    }
}

/// Whether the number is shown with its sign, where the kernel would not.
pub(super) fn is_signed(key: &Key) -> bool {
    key.transform == Transform::None && matches!(key.source, Source::Int { signed: true, .. })
}

/// The least and the greatest number that are counted in this step.
pub(super) fn range(key: &Key, value: &KeyValue) -> Option<(u64, u64)> {
    let number = value.number();
    match key.form {
        KeyForm::Log2 => {
            let power = |n: u64| 1_u64.checked_shl(u32::try_from(n).ok()?);
            let low = match number.checked_sub(1) {
                // The kernel counts 0 as 1.
                None => 0,
                Some(before) => power(before)?.checked_add(1)?,
            };
            let high = if number == 64 {
                u64::MAX
            } else {
                power(number)?
            };
            Some((low, high))
        }
        KeyForm::Buckets(width) => Some((number, number.saturating_add(width - 1))),
        _ => None,
    }
}
