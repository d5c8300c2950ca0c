//! The attributes between colons: `keys=`, `vals=`, `sort=`, `size=`, … (`parse_assignment`).

use super::super::number;
use super::term::Term;
use super::{Fault, Part, Sort, Trigger, no_keys};

/// `TRACING_MAP_KEYS_MAX`
const KEYS_MAX: usize = 3;
/// `TRACING_MAP_VALS_MAX`, the count of hits included.
const VALUES_MAX: usize = 3;
/// `TRACING_MAP_SORT_KEYS_MAX`
const SORT_MAX: usize = 2;
/// `TRACING_MAP_BITS_MIN`, `TRACING_MAP_BITS_MAX`
const SIZE: std::ops::RangeInclusive<u32> = 1 << 7..=1 << 17;

/// What may stand between colons.
const WORDS: [&str; 13] = [
    "keys=",
    "key=",
    "vals=",
    "val=",
    "values=",
    "sort=",
    "size=",
    "name=",
    "clock=",
    "nohitcount",
    "pause",
    "cont",
    "clear",
];

impl Trigger {
    pub(super) fn attributes(&mut self, attributes: &Part<'_>) -> Result<(), Fault> {
        // The last one of each counts, so the lists are read at the end.
        let (mut keys, mut values, mut sort) = (None, None, None);
        let mut rest = Some(*attributes);
        while let Some(part) = rest {
            let (part, behind) = part.split(':');
            rest = behind;
            if part
                .text
                .find('=')
                .is_some_and(|at| at + 1 == part.text.len())
            {
                return Err(part.fault(format!("Nothing follows `{}`", part.text)));
            }
            let after = |words: &[&str]| words.iter().find_map(|w| part.strip_prefix(w));
            if let Some(list) = after(&["key=", "keys="]) {
                keys = Some(list);
            } else if let Some(list) = after(&["val=", "vals=", "values="]) {
                values = Some(list);
            } else if let Some(list) = after(&["sort="]) {
                sort = Some(list);
            } else if let Some(name) = after(&["name="]) {
                self.name = Some(name.to_word());
            } else if let Some(clock) = after(&["clock="]) {
                self.clock = Some(clock.trim().to_word());
            } else if let Some(size) = after(&["size="]) {
                self.size = size_of(size)?;
            } else {
                self.word(part)?;
            }
        }
        let keys = keys.ok_or_else(|| no_keys(attributes.from(attributes.text.len())))?;
        self.values = values.map_or(Ok(Vec::new()), read_values)?;
        if self.no_hitcount && self.values.is_empty() {
            return Err(attributes
                .fault("Non-hitcount value is required for 'nohitcount'")
                .help("name one with `vals=`"));
        }
        self.keys = read_keys(keys)?;
        self.sort = sort.map_or(Ok(Vec::new()), read_sort)?;
        Ok(())
    }

    /// One without a value, or something that is not part of this.
    fn word(&mut self, part: Part<'_>) -> Result<(), Fault> {
        match part.text {
            "nohitcount" | "NOHC" => self.no_hitcount = true,
            "pause" => self.pause = true,
            "cont" | "continue" => self.cont = true,
            "clear" => self.clear = true,
            text => {
                let action = ["onmatch(", "onmax(", "onchange("];
                if let Some(action) = action.iter().find(|a| text.starts_with(*a)) {
                    let name = action.trim_end_matches('(');
                    return Err(part.fault(format!(
                        "Actions such as {name} are not part of tracer's hist triggers"
                    )));
                }
                let (what, wanted) = match text.split_once('=') {
                    Some((what, _)) => (what, format!("{what}=")),
                    None => (text, text.to_owned()),
                };
                let variables = if text.contains('=') {
                    ", and variables are not part of tracer's hist triggers"
                } else {
                    ""
                };
                let fault = part.fault(format!("`{what}` is no attribute{variables}"));
                return Err(fault.near("attributes", &wanted, WORDS));
            }
        }
        Ok(())
    }
}

/// `parse_map_size`
fn size_of(size: Part<'_>) -> Result<u32, Fault> {
    number::unsigned(size.text)
        .and_then(|n| u32::try_from(n).ok()?.checked_next_power_of_two())
        .filter(|n| SIZE.contains(n))
        .ok_or_else(|| {
            size.fault("Invalid size").help(format!(
                "a number of entries from 65 to {}; it is rounded up to a power of two",
                SIZE.end()
            ))
        })
}

fn read_keys(list: Part<'_>) -> Result<Vec<Term>, Fault> {
    let mut keys = Vec::new();
    let mut rest = Some(list);
    while let Some(part) = rest {
        let (part, behind) = part.split(',');
        rest = behind;
        if keys.len() == KEYS_MAX {
            return Err(part.fault(format!("Too many keys (Max = {KEYS_MAX})")));
        }
        keys.push(Term::key(part)?);
    }
    Ok(keys)
}

/// The first `hitcount` names the count that is there anyway (`create_val_fields`).
fn read_values(list: Part<'_>) -> Result<Vec<Term>, Fault> {
    let mut values = Vec::new();
    let mut hitcount = false;
    let mut rest = Some(list);
    let mut seen = 0;
    while seen < VALUES_MAX && values.len() + 1 < VALUES_MAX {
        let Some(part) = rest else {
            break;
        };
        let (part, behind) = part.split(',');
        rest = behind;
        seen += 1;
        if part.text == "hitcount" && !hitcount {
            hitcount = true;
        } else {
            values.push(Term::value(part)?);
        }
    }
    match rest {
        Some(part) if part.text != "hitcount" => Err(part.fault(format!(
            "Too many values (Max = {}, besides hitcount)",
            VALUES_MAX - 1
        ))),
        _ => Ok(values),
    }
}

/// `create_sort_keys`, as far as fields need not be known.
fn read_sort(list: Part<'_>) -> Result<Vec<Sort>, Fault> {
    let mut sort = Vec::new();
    let mut rest = Some(list);
    while let Some(part) = rest {
        let (part, behind) = part.split(',');
        rest = behind;
        let (field, modifier) = part.split('.');
        if field.text.is_empty() {
            return Err(part.fault("Empty sort field"));
        }
        if sort.len() + 1 == SORT_MAX
            && let Some(behind) = behind
        {
            return Err(behind.fault(format!("Too many sort fields (Max = {SORT_MAX})")));
        }
        let descending = match modifier.map(|m| (m.text, m)) {
            None | Some(("ascending", _)) => false,
            Some(("descending", _)) => true,
            Some((text, modifier)) => {
                return Err(modifier.fault("Invalid sort modifier").near(
                    "modifiers",
                    text,
                    ["descending", "ascending"],
                ));
            }
        };
        sort.push(Sort {
            field: field.to_word(),
            descending,
        });
    }
    Ok(sort)
}
