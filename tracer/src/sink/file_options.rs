//! How files are written that are written for long.

use std::time::Duration;

use super::format::Format;
use super::output::HOLD;
use super::series::Keep;

/// When the next file begins, and which of the finished ones stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// Bytes.
    pub size: Option<u64>,
    pub every: Option<Duration>,
    pub keep: Keep,
}

/// How files are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileOptions {
    /// Bytes that may wait in memory while a file system is full.
    pub hold: usize,
    /// `None`: each capture is one file.
    pub rotation: Option<Rotation>,
    /// For Parquet where there is no `rotation`; sizes and times that it does not name
    /// are taken from here too.
    pub parquet: Option<Rotation>,
}

impl Default for FileOptions {
    fn default() -> Self {
        Self {
            hold: HOLD,
            rotation: None,
            parquet: None,
        }
    }
}

impl FileOptions {
    /// How files of this format are rotated, if they are.
    pub(super) fn rotation(&self, format: Format) -> Option<Rotation> {
        match format {
            // Written as a whole at the end.
            Format::Text => None,
            Format::Parquet => match (self.rotation, self.parquet) {
                (Some(asked), Some(usual)) if asked.size.is_none() && asked.every.is_none() => {
                    Some(Rotation {
                        keep: asked.keep,
                        ..usual
                    })
                }
                (asked, usual) => asked.or(usual),
            },
            _ => self.rotation,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parquet_is_rotated_as_usual_unless_told_otherwise() {
        let usual = Rotation {
            size: Some(64 << 20),
            every: Some(Duration::from_secs(300)),
            keep: Keep::All,
        };
        let asked = |size| Rotation {
            size,
            every: None,
            keep: Keep::Number(3),
        };
        let options = |rotation| FileOptions {
            rotation,
            parquet: Some(usual),
            ..FileOptions::default()
        };
        let parquet = |rotation| options(rotation).rotation(Format::Parquet);
        assert_eq!(parquet(None), Some(usual));
        assert_eq!(parquet(Some(asked(Some(5)))), Some(asked(Some(5))));
        let kept = Rotation {
            keep: Keep::Number(3),
            ..usual
        };
        assert_eq!(parquet(Some(asked(None))), Some(kept));
        assert_eq!(options(None).rotation(Format::Jsonl), None);
        assert_eq!(options(Some(asked(Some(5)))).rotation(Format::Text), None);
    }
}
