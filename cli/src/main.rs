//! `silt`: fill, query, check and look into a SiltDB database.
//!
//! It reports the outcome of a verb. The modules do the work, and each uses only those above it.
#![forbid(unsafe_code)]

mod hint;
mod failure;
mod interrupt;
mod text;
mod whole_number;
mod limits;
mod words;
mod json;
mod value;
mod formats;
mod output;
mod progress;
mod gunzip;
mod source;
mod destination;
mod bounds;
mod scope;
mod walk;
mod transactions;
mod session;
mod argument;
mod key_form;
mod raw_keys;
mod target;
mod opened;
mod verbs;
mod default_database;
mod command_line;

use command_line::CommandLine;
use failure::Failure;
use output::Style;
use std::process::ExitCode;

fn main() -> ExitCode {
    let command_line = match CommandLine::read() {
        Ok(command_line) => command_line,
        Err(error) if error.use_stderr() && !is_help(&error) => {
            let words: Vec<String> = std::env::args_os()
                .skip(1)
                .map(|word| word.to_string_lossy().into_owned())
                .collect();
            let failure = Failure::command_line(&error, &CommandLine::full_command(), &words);
            let style = if asks_for_json() { Style::Json } else { Style::Text };
            output::report(&failure, style);
            return ExitCode::from(failure.exit_code());
        }
        // Help and version end with exit code 0.
        Err(error) => error.exit(),
    };
    let style = command_line.style();
    match command_line.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) if failure.is_closed_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            output::report(&failure, style);
            ExitCode::from(failure.exit_code())
        }
    }
}

/// Returns whether clap answers with the help, as it does without words.
fn is_help(error: &clap::Error) -> bool {
    error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
}

/// Returns whether `--json` is among the options of a command line that clap rejects.
fn asks_for_json() -> bool {
    let mut options = std::env::args_os().skip(1).take_while(|word| word.as_os_str() != "--");
    options.any(|word| word.as_os_str() == "--json")
}
