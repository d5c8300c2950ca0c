//! Colours of a terminal, where they are wanted.

/// What a piece of text is, not how it looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    Plain,
    Dim,
    Strong,
    /// Something went wrong.
    Bad,
    /// Something to notice.
    Note,
}

/// The caller decides on colours (terminal, NO_COLOR, `--color`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    pub color: bool,
}

impl Style {
    /// Appends harmless text.
    pub fn paint(self, out: &mut String, paint: Paint, text: &str) {
        let code = match paint {
            Paint::Plain => None,
            Paint::Dim => Some("2"),
            Paint::Strong => Some("1"),
            Paint::Bad => Some("1;31"),
            Paint::Note => Some("33"),
        };
        match code.filter(|_| self.color && !text.is_empty()) {
            Some(code) => {
                for part in ["\x1b[", code, "m", text, "\x1b[0m"] {
                    out.push_str(part);
                }
            }
            None => out.push_str(text),
        }
    }
}
