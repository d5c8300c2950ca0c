//! Options of files that are written for a long time.

use std::time::Duration;

use clap::Args;
use clap::error::ErrorKind;

use super::{Stop, stop, value};
use crate::sink::format::{FileOptions, Rotation};
use crate::sink::series::Keep;

/// How files of `-o` are rotated, and what happens when the disk is full.
#[derive(Clone, Debug, Args)]
pub struct Files {
    /// Begin the next file when one has about SIZE; files are then named FILE-000001-TIME.ENDING and so on
    #[arg(long, value_name = "SIZE", help_heading = "Files", value_parser = value::file_size)]
    pub rotate_size: Option<u64>,
    /// Begin the next file after this time, if anything was recorded in it
    #[arg(long, value_name = "DURATION", help_heading = "Files", value_parser = value::rotation)]
    pub rotate_every: Option<Duration>,
    /// Keep the last N finished files of each -o, remove older ones
    #[arg(long, value_name = "N", help_heading = "Files", conflicts_with = "keep_size", value_parser = clap::value_parser!(u64).range(1..))]
    pub keep: Option<u64>,
    /// Keep the last finished files of each -o that have SIZE together, remove older ones
    #[arg(long, value_name = "SIZE", help_heading = "Files", value_parser = value::size)]
    pub keep_size: Option<u64>,
    /// While a disk is full, keep up to SIZE in memory for each -o; what is more is counted as lost
    #[arg(long, value_name = "SIZE", help_heading = "Files", default_value = "64MiB", value_parser = value::hold)]
    pub hold: usize,
}

impl Files {
    /// Parquet files that are written for months are rotated unless told otherwise: what
    /// is not complete cannot be read.
    const PARQUET: Rotation = Rotation {
        size: Some(64 << 20),
        every: Some(Duration::from_secs(300)),
        keep: Keep::All,
    };

    /// For `tracer -- CMD`: rotated where asked for.
    ///
    /// # Errors
    /// `--keep` without anything to rotate.
    pub fn for_command(&self) -> Result<FileOptions, Stop> {
        let rotates = self.rotate_size.is_some() || self.rotate_every.is_some();
        if !rotates && self.keep() != Keep::All {
            return Err(stop(
                ErrorKind::MissingRequiredArgument,
                "--keep and --keep-size need files that are rotated: add --rotate-size or --rotate-every",
            ));
        }
        Ok(FileOptions {
            hold: self.hold,
            rotation: self.rotation(),
            parquet: None,
        })
    }

    /// For a recording that goes on until it is stopped, and may be told to rotate.
    pub fn for_recording(&self) -> FileOptions {
        FileOptions {
            hold: self.hold,
            rotation: self.rotation(),
            parquet: Some(Self::PARQUET),
        }
    }

    fn rotation(&self) -> Option<Rotation> {
        let rotation = Rotation {
            size: self.rotate_size,
            every: self.rotate_every,
            keep: self.keep(),
        };
        let asked = rotation.size.is_some() || rotation.every.is_some();
        (asked || rotation.keep != Keep::All).then_some(rotation)
    }

    fn keep(&self) -> Keep {
        match (self.keep, self.keep_size) {
            (Some(n), _) => Keep::Number(n),
            (None, Some(bytes)) => Keep::Bytes(bytes),
            (None, None) => Keep::All,
        }
    }
}
