//! The verb completions: prints a script that completes verbs and options of `silt` in a shell.
//!
//! It does not install the script.

use crate::failure::Result;
use crate::output::{Output, Style};
use clap::{Args, Command};
use clap_complete::Shell;
use serde_json::json;

/// Text at the end of its `--help`.
pub const HELP: &str = "\
Example:
  silt completions bash > ~/.local/share/bash-completion/completions/silt
  silt completions zsh > ~/.zfunc/_silt";

/// Arguments of `completions`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// The shell.
    shell: Shell,
}

/// Prints the script for `command`.
///
/// # Errors
/// Errors of stdout.
pub fn run(output: &mut Output, arguments: &Arguments, mut command: Command) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "silt", &mut script);
    if output.settings().style == Style::Text {
        return output.raw(&script);
    }
    let script = String::from_utf8_lossy(&script);
    output.result("", &json!({ "shell": arguments.shell.to_string(), "script": script }))
}
