//! The command lines in the documentation, run as a reader would run them.
//!
//! `SILT_PAGES=rewrite` writes what they print into the pages instead of failing.

use crate::page::{Page, ROOT, SHELL, Step, agrees, pages};
use crate::place::Place;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// How README calls the tool before it is installed.
const UNINSTALLED: &str = "cargo run --release -p siltdb-cli -- ";

/// An empty directory, apart from the examples of the repository.
fn start() -> Place {
    let place = Place::new();
    std::os::unix::fs::symlink(Path::new(ROOT).join("examples"), place.path("examples"))
        .expect("the directory takes links");
    place
}

/// Runs a command line whose `silt` is the one that was built for this test.
fn run(place: &Place, command: &str) -> Output {
    let tool = Path::new(env!("CARGO_BIN_EXE_silt")).parent().expect("it lies in a directory");
    let path = std::env::var("PATH").expect("programs are found by it");
    Command::new("sh")
        // A terminal shows both, in the order in which they are written.
        .args(["-c", &format!("exec 2>&1\n{command}")])
        .current_dir(place.path(""))
        .env("PATH", format!("{}:{path}", tool.display()))
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .output()
        .expect("there is a shell")
}

/// Runs the sessions of a page. Returns their number of lines, and the steps that print something
/// else than the page says, with what they print.
fn replay(page: &Page) -> (usize, Vec<(Step, String)>) {
    let (mut lines, mut differences) = (0, Vec::new());
    for session in page.sessions() {
        if session[0].prompt != SHELL {
            assert!(page.path.ends_with("docs/shell.md"), "`terminal` runs that page only");
            continue;
        }
        let place = start();
        for step in session {
            assert_eq!(step.prompt, SHELL, "{}:{}", page.path.display(), step.line + 1);
            let output = run(&place, &step.command);
            let printed = String::from_utf8(output.stdout).expect("it prints text");
            lines += 1 + step.printed.len();
            if !agrees(&step.printed, &printed.lines().collect::<Vec<_>>()) {
                differences.push((step, printed));
            }
        }
    }
    (lines, differences)
}

fn rewrite(page: &Page, differences: &[(Step, String)]) {
    let mut lines: Vec<&str> = page.text.lines().collect();
    // From the end on, so that the numbers of the lines before stay right.
    for (step, printed) in differences.iter().rev() {
        let first = step.line + 1;
        lines.splice(first..first + step.printed.len(), printed.lines());
    }
    std::fs::write(&page.path, lines.join("\n") + "\n").expect("the page can be written");
}

#[test]
fn the_sessions_of_the_documents_print_what_their_pages_say() {
    let is_rewriting = std::env::var("SILT_PAGES").is_ok_and(|wish| wish == "rewrite");
    let (mut lines, mut wrong) = (0, String::new());
    for page in pages() {
        let (count, differences) = replay(&page);
        lines += count;
        if is_rewriting {
            rewrite(&page, &differences);
            continue;
        }
        for (Step { line, command, printed, .. }, found) in differences {
            let (path, printed) = (page.path.display(), printed.join("\n"));
            let place = format!("{path}:{}: {command}", line + 1);
            wrong.push_str(&format!("{place}\nthe page says:\n{printed}\nit prints:\n{found}\n"));
        }
    }
    println!("{lines} lines of sessions");
    assert!(wrong.is_empty(), "{wrong}");
    assert!(lines > 60, "only {lines} lines of sessions were found");
}

/// The command lines of README that call the tool through cargo, in their order.
#[test]
fn the_first_commands_of_the_readme_work() {
    let page = Page::read("README.md");
    let place = start();
    let mut commands = 0;
    for line in page.text.lines().filter(|line| line.starts_with(UNINSTALLED)) {
        let output = run(&place, &line.replace(UNINSTALLED, "silt "));
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && !printed.contains("error: "), "{line}\n{printed}");
        commands += line.matches(UNINSTALLED).count();
    }
    assert!(commands > 2, "only {commands} commands were found");
}

/// With `--help` at its end, a command line is parsed up to there, and not run.
#[test]
fn the_examples_of_the_help_are_accepted() {
    let place = start();
    let indented = |text: String| -> Vec<String> {
        let lines = text.lines().filter_map(|line| line.strip_prefix("  "));
        lines.filter(|line| line.starts_with(char::is_alphabetic)).map(str::to_owned).collect()
    };
    let mut examples = 0;
    for line in indented(place.ok(&["--help"])) {
        let verb = line.split(' ').next().unwrap_or_default();
        if ["silt", "help"].contains(&verb) {
            continue;
        }
        let lines = indented(place.ok(&[verb, "--help"]));
        let is_example = |line: &&String| line.starts_with("silt ") || line.contains("| silt ");
        for line in lines.iter().filter(is_example) {
            let command = &line[line.find("silt ").unwrap_or_default()..];
            let command = command.split(['|', '>', '<']).next().unwrap_or_default();
            let output = run(&place, &format!("{command} --help"));
            let printed = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "{line}\n{printed}");
            examples += 1;
        }
    }
    assert!(examples > 60, "only {examples} examples were found");
}
