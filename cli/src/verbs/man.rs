//! The verb man: prints the manual page, or writes one for each verb.
//!
//! It does not install the pages.

use crate::failure::{Failure, Result};
use crate::output::{Output, Style};
use crate::text::counted;
use clap::{Args, Command};
use clap_mangen::Man;
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};

/// Text at the end of its `--help`.
pub const HELP: &str = "\
Example:
  silt man | man -l -
  silt man --dir ~/.local/share/man/man1";

/// Arguments of `man`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// Write the pages of silt and of each verb to this directory, which is made if it is missing.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Prints the page of `command`, or writes those of it and its verbs.
///
/// # Errors
/// [`Failure::File`]; errors of stdout.
pub fn run(output: &mut Output, arguments: &Arguments, mut command: Command) -> Result<()> {
    // Verbs get the options that all have, and their names the names of the verbs above.
    command.build();
    let command = command.disable_help_subcommand(true);
    let Some(dir) = &arguments.dir else {
        let page = page_of(&command, Path::new("the page"))?;
        if output.settings().style == Style::Text {
            return output.raw(&page);
        }
        return output.result("", &json!({ "page": String::from_utf8_lossy(&page) }));
    };
    let failed = |error| Failure::file("create", dir.display().to_string(), error);
    fs::create_dir_all(dir).map_err(failed)?;
    let pages = write_pages(dir, &command, "silt")?;
    let text = format!("wrote {} to {}", counted(pages, "page"), dir.display());
    output.result(&text, &json!({ "pages": pages }))
}

/// Writes the pages of a command called `name` and of its verbs, and returns their number.
fn write_pages(dir: &Path, command: &Command, name: &str) -> Result<u64> {
    let path = dir.join(format!("{name}.1"));
    let page = page_of(command, &path)?;
    let failed = |error| Failure::file("write", path.display().to_string(), error);
    fs::write(&path, page).map_err(failed)?;
    let mut pages = 1;
    for verb in command.get_subcommands().filter(|verb| verb.get_name() != "help") {
        pages += write_pages(dir, verb, &format!("{name}-{}", verb.get_name()))?;
    }
    Ok(pages)
}

fn page_of(command: &Command, path: &Path) -> Result<Vec<u8>> {
    let mut page = Vec::new();
    let rendered = Man::new(command.clone()).render(&mut page);
    rendered.map_err(|error| Failure::file("write", path.display().to_string(), error))?;
    Ok(page)
}
