//! `silt-bench`: the command.
#![deny(unsafe_code)]

mod terminal;
mod course;
mod command;

use std::process::ExitCode;

fn main() -> ExitCode {
    command::run()
}
