//! `tracer [OPTIONS] -- CMD [ARG]...`

use std::ffi::OsString;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, ValueHint};

use super::{Capture, Stop, stop, value};
use crate::sys::users::User;

#[derive(Debug, Args)]
pub struct Trace {
    /// Command to run and trace, with its arguments; always after --
    #[arg(last = true, value_name = "CMD", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,

    #[command(flatten)]
    pub capture: Capture,

    /// Run CMD as USER, with the groups, HOME, USER, LOGNAME and SHELL of that user; needs root
    #[arg(long, value_name = "USER", help_heading = "The command", value_parser = User::find, value_hint = ValueHint::Username)]
    pub uid: Option<User>,
    /// End CMD after this time (30, 1.5m, 1h 30min): SIGTERM, and SIGKILL 5 s later
    #[arg(long, value_name = "DURATION", help_heading = "The command", value_parser = value::duration)]
    pub timeout: Option<Duration>,
    /// Wait for descendants that outlive CMD, too
    #[arg(long, help_heading = "The command")]
    pub wait_all: bool,
}

impl Trace {
    /// What clap cannot say.
    pub(super) fn validate(&self) -> Result<(), Stop> {
        if self.command.is_empty() {
            return Err(stop(
                ErrorKind::MissingRequiredArgument,
                "no command was given; write it after --, as in: tracer -- make -j4",
            ));
        }
        self.capture.files.for_command()?;
        self.capture.validate()
    }
}
