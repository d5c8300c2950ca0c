//! The text of a hist trigger, taken apart (`event_hist_trigger_parse`,
//! `parse_hist_trigger_attrs`). What fields there are is not known here.
//!
//! Some habits of the kernel that are kept: the last of repeated `keys=` counts;
//! `hist` may be followed by a blank; `GROUP.EVENT.field` names a field whatever
//! GROUP and EVENT are; `percent` and `graph` may have anything behind them.

mod assign;
mod term;
#[cfg(test)]
mod tests;

use super::fault::Fault;
pub use term::{Modifier, Subject, Term};

/// A hist trigger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trigger {
    /// The text, without blanks around it. Positions count from its start.
    pub text: String,
    /// It began with `!`: the trigger is to be removed.
    pub remove: bool,
    /// `name=`
    pub name: Option<Word>,
    /// One to three.
    pub keys: Vec<Term>,
    /// None to two; the count of hits that is always there is not among them.
    pub values: Vec<Term>,
    /// None to two; none means hitcount, ascending.
    pub sort: Vec<Sort>,
    /// Entries of the table: a power of two from 128 to 131072.
    pub size: u32,
    /// `clock=`, of any name: it is looked at only where a time stamp is used.
    pub clock: Option<Word>,
    /// `nohitcount`: the count of hits is not shown.
    pub no_hitcount: bool,
    /// `pause`: begin paused, or pause the one that is there.
    pub pause: bool,
    /// `cont`: continue the one that is there.
    pub cont: bool,
    /// `clear`: empty the one that is there.
    pub clear: bool,
    /// What follows `if` and one blank, as it was written.
    pub filter: Option<Word>,
}

/// A part of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    pub text: String,
    /// Where it begins, in bytes.
    pub at: usize,
}

/// One of `sort=`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sort {
    /// `hitcount`, or the name of a value or a key.
    pub field: Word,
    pub descending: bool,
}

/// The kernel takes less than a page.
const LENGTH_MAX: usize = 4095;

/// Entries where there is no `size=` (`TRACING_MAP_BITS_DEFAULT`).
const SIZE_DEFAULT: u32 = 2048;

impl Trigger {
    /// Parses the text of a trigger: `hist:keys=comm:sort=hitcount.descending if prio < 100`.
    ///
    /// # Errors
    /// What the kernel rejects without looking at the event, and what is not
    /// part of this: variables, actions, expressions.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        // What is behind a NUL the kernel does not see.
        let text = text.split('\0').next().unwrap_or_default();
        let text = text.trim_matches(is_space);
        if text.len() > LENGTH_MAX {
            let message = format!("A trigger has at most {LENGTH_MAX} bytes");
            return Err(Fault::new(text, LENGTH_MAX, message));
        }
        let (remove, param) = command(text)?;
        let (attributes, filter) = split_filter(text, param)?;
        let mut trigger = Self {
            text: text.to_owned(),
            remove,
            name: None,
            keys: Vec::new(),
            values: Vec::new(),
            sort: Vec::new(),
            size: SIZE_DEFAULT,
            clock: None,
            no_hitcount: false,
            pause: false,
            cont: false,
            clear: false,
            filter: filter.map(|f| f.to_word()),
        };
        trigger.attributes(&attributes)?;
        Ok(trigger)
    }
}

/// What the kernel's `isspace` says of ASCII.
pub(super) fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t'..='\r')
}

/// A slice of a text that knows where it lies in it.
#[derive(Clone, Copy, Debug)]
struct Part<'a> {
    whole: &'a str,
    text: &'a str,
    at: usize,
}

impl<'a> Part<'a> {
    /// `start` and `end` are offsets into this part, on characters' boundaries.
    fn slice(self, start: usize, end: usize) -> Self {
        Self {
            text: self.text.get(start..end).unwrap_or_default(),
            at: self.at + start,
            ..self
        }
    }

    fn from(self, start: usize) -> Self {
        self.slice(start, self.text.len())
    }

    fn trim(self) -> Self {
        let start = self.text.len() - self.text.trim_start_matches(is_space).len();
        let end = self.text.trim_end_matches(is_space).len();
        self.slice(start.min(end), end)
    }

    /// What is before the first `separator`, and what is behind it if there is one.
    fn split(self, separator: char) -> (Self, Option<Self>) {
        match self.text.find(separator) {
            Some(at) => (
                self.slice(0, at),
                Some(self.from(at + separator.len_utf8())),
            ),
            None => (self, None),
        }
    }

    fn strip_prefix(self, prefix: &str) -> Option<Self> {
        self.text
            .starts_with(prefix)
            .then(|| self.from(prefix.len()))
    }

    fn fault(self, message: impl Into<String>) -> Fault {
        Fault::new(self.whole, self.at, message)
    }

    fn to_word(self) -> Word {
        Word {
            text: self.text.to_owned(),
            at: self.at,
        }
    }
}

/// `hist` and what is behind it (`trigger_process_regex`). True: `!hist`.
fn command(text: &str) -> Result<(bool, Part<'_>), Fault> {
    let all = Part {
        whole: text,
        text,
        at: 0,
    };
    let end = text.find([':', ' ', '\t']).unwrap_or(text.len());
    let command = all.slice(0, end);
    let bare = command.strip_prefix("!");
    if bare.unwrap_or(command).text != "hist" {
        return Err(command
            .fault(format!("`{}` is no hist trigger", command.text))
            .help("a trigger is `hist:keys=FIELD[,FIELD…][:vals=FIELD…][:sort=FIELD[.descending]][:size=N] [if FILTER]`"));
    }
    let rest = all.from((end + 1).min(text.len()));
    let blank = rest.text.len() - rest.text.trim_start_matches(is_space).len();
    let rest = rest.from(blank);
    if rest.text.is_empty() {
        return Err(no_keys(rest));
    }
    Ok((bare.is_some(), rest))
}

fn no_keys(part: Part<'_>) -> Fault {
    part.fault("Keys are missing")
        .help("`keys=FIELD` says by which field to count, as in `hist:keys=comm`")
}

/// Parts the attributes from the filter, which begins with the first `if` between blanks.
fn split_filter<'a>(text: &str, param: Part<'a>) -> Result<(Part<'a>, Option<Part<'a>>), Fault> {
    let is_blank = |at: usize| matches!(param.text.as_bytes().get(at), Some(b' ' | b'\t'));
    for (at, _) in param.text.match_indices("if") {
        if at == 0 {
            return Err(no_keys(param));
        }
        if !is_blank(at - 1) {
            continue;
        }
        if at + 3 >= param.text.len() {
            return Err(Fault::new(text, text.len(), "The filter is missing")
                .help("`if` is followed by a condition, as in `if prio < 100 && comm ~ \"cc*\"`"));
        }
        if is_blank(at + 2) {
            return Ok((param.slice(0, at - 1).trim(), Some(param.from(at + 3))));
        }
    }
    Ok((param, None))
}
