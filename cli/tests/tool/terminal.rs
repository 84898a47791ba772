//! The shell in a terminal: pastes, Ctrl-C, completion, pages.
//!
//! Each test runs the built `silt` on a pseudo-terminal. Scripts are tested in `shell`.

use crate::page::{Page, SHELL, Step};
use crate::place::Place;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Longer than any answer on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Marks of a terminal around pasted text.
const PASTE: [&str; 2] = ["\x1b[200~", "\x1b[201~"];

/// `silt shell db`, or another command, on a terminal.
struct Terminal {
    controller: File,
    child: Child,
    /// Output that was not expected yet.
    printed: String,
}

impl Terminal {
    /// Starts the shell and waits for its prompt.
    fn start(place: &Place) -> Self {
        Self::start_with(place, Command::new(env!("CARGO_BIN_EXE_silt")))
    }

    fn start_with(place: &Place, mut command: Command) -> Self {
        command.args(["shell", "db", "--create"]);
        let mut terminal = Self::run(place, command);
        terminal.expect("db:default> ");
        terminal
    }

    /// Runs a command with its arguments.
    fn run(place: &Place, mut command: Command) -> Self {
        let controller =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("terminals are had");
        fcntl_setfl(&controller, OFlags::RDWR | OFlags::NONBLOCK).expect("it is ours");
        grantpt(&controller).expect("it is ours");
        unlockpt(&controller).expect("it is ours");
        let name = ptsname(&controller, Vec::new()).expect("it has a name");
        let path = Path::new(std::ffi::OsStr::from_bytes(name.as_bytes()));
        let open =
            || Stdio::from(File::options().read(true).write(true).open(path).expect("it is there"));
        let child = command
            .current_dir(place.path(""))
            .env("XDG_STATE_HOME", place.path("state"))
            .env("TERM", "xterm")
            .stdin(open())
            .stdout(open())
            .stderr(open())
            .spawn()
            .expect("silt starts");
        Self { controller: controller.into(), child, printed: String::new() }
    }

    /// Types `text` and reads meanwhile, because a terminal that is not read accepts no more.
    fn send(&mut self, text: &str) {
        let mut left = text.as_bytes();
        let started = Instant::now();
        while !left.is_empty() {
            assert!(started.elapsed() < PATIENCE, "the shell does not read {left:?}");
            match self.controller.write(left) {
                Ok(count) => left = &left[count..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.wait(PollFlags::IN | PollFlags::OUT);
                    self.read();
                }
                Err(error) => panic!("the shell is gone, {error}; it printed {:?}", self.printed),
            }
        }
    }

    /// Waits briefly until the terminal is ready for one of `events`.
    fn wait(&self, events: PollFlags) {
        let mut waits = [PollFd::new(&self.controller, events)];
        let moment = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        poll(&mut waits, Some(&moment)).expect("a terminal can be waited for");
    }

    /// Reads available output; false once the shell has ended.
    fn read(&mut self) -> bool {
        let mut bytes = [0; 4096];
        match self.controller.read(&mut bytes) {
            Ok(count) => self.printed.push_str(&String::from_utf8_lossy(&bytes[..count])),
            Err(error) => return error.kind() == ErrorKind::WouldBlock,
        }
        true
    }

    /// Waits until `text` is printed, and returns the output before it.
    fn expect(&mut self, text: &str) -> String {
        let started = Instant::now();
        loop {
            if let Some(index) = self.printed.find(text) {
                let after = self.printed.split_off(index + text.len());
                return std::mem::replace(&mut self.printed, after);
            }
            assert!(started.elapsed() < PATIENCE, "no `{text}` in {}", self.end_of_printed());
            self.wait(PollFlags::IN);
            assert!(self.read(), "the shell has ended; it printed {}", self.end_of_printed());
        }
    }

    /// Waits until `text` is printed, after no error that it is not a part of.
    fn expect_next(&mut self, text: &str) {
        let passed_over = self.expect(text);
        let passed_over = &passed_over[..passed_over.len() - text.len()];
        assert!(!passed_over.contains("error: "), "before `{text}`: {passed_over}");
    }

    /// The end of the output, of bounded length, for a message.
    fn end_of_printed(&self) -> String {
        let count = self.printed.chars().count();
        format!("{:?}", self.printed.chars().skip(count.saturating_sub(500)).collect::<String>())
    }

    /// Ends the shell.
    fn end(self) {
        self.end_with("quit\r");
    }

    /// Ends the shell by typing `text`.
    fn end_with(mut self, text: &str) {
        self.send(text);
        let started = Instant::now();
        while self.read() {
            assert!(started.elapsed() < PATIENCE, "the shell goes on: {:?}", self.printed);
            self.wait(PollFlags::IN);
        }
        assert!(self.child.wait().expect("it can be waited for").success());
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The shell may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Puts enough for several reads of the terminal.
fn puts(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("put key-{number:04} value-{number}")).collect()
}

#[test]
fn lines_pasted_with_brackets_all_run() {
    let place = Place::new();
    let mut terminal = Terminal::start(&place);
    let lines = [puts(200).join("\n"), "# it's a remark\nput k 'two\nlines'\nGET k".to_owned()];
    terminal.send(&format!("{}{}{}\r", PASTE[0], lines.join("\n"), PASTE[1]));
    terminal.expect("two\\x0alines");
    terminal.expect("db:default> ");
    terminal.end();
    assert_eq!(place.ok(&["count", "db"]), "201\n");
    assert_eq!(place.ok(&["get", "db", "k"]), "two\\x0alines\n");
}

#[test]
fn lines_pasted_without_brackets_all_run() {
    let place = Place::new();
    let mut terminal = Terminal::start(&place);
    for _ in 0..2 {
        terminal.send(&(puts(200).join("\r") + "\rcount\r"));
        terminal.expect("\n200\r\n");
    }
    terminal.send("put k 'two\rlines'\rget k\r");
    terminal.expect("two\\x0alines\r\n");
    terminal.end();
    assert_eq!(place.ok(&["count", "db"]), "201\n");
}

#[test]
fn a_failure_in_a_paste_is_told_and_the_lines_after_it_run() {
    let place = Place::new();
    let mut terminal = Terminal::start(&place);
    terminal.send(&format!("{}put a 1\nfrobnicate\nput b 2\ncount{}\r", PASTE[0], PASTE[1]));
    terminal.expect("unrecognized subcommand 'frobnicate'");
    terminal.expect("\n2\r\n");
    terminal.end();
}

/// A shell with a controlling terminal, so that Ctrl-C reaches it as a signal; `None` if `setsid`
/// is missing or cannot set it.
fn controlled(place: &Place) -> Option<Terminal> {
    let probe = Command::new("setsid").args(["--ctty", "true"]).stdin(Stdio::null()).output();
    if !probe.is_ok_and(|output| !String::from_utf8_lossy(&output.stderr).contains("option")) {
        eprintln!("SKIPPED: there is no setsid with --ctty");
        return None;
    }
    let mut command = Command::new("setsid");
    command.args(["--ctty", "--wait", env!("CARGO_BIN_EXE_silt")]);
    Some(Terminal::start_with(place, command))
}

#[test]
fn ctrl_c_cancels_a_command_and_keeps_the_shell() {
    let place = Place::new();
    let Some(mut terminal) = controlled(&place) else { return };
    // At the prompt Ctrl-C drops the line.
    terminal.send("put dropped 1\x03");
    terminal.expect("db:default> ");
    // A command that would read without end; commands pasted after it must not run.
    let paste = "put a 1\nget a\nimport - --format lines\nput b 2";
    terminal.send(&format!("{}{paste}{}\r", PASTE[0], PASTE[1]));
    terminal.expect("\n1\r\n");
    terminal.send("\x03");
    terminal.expect("interrupted");
    terminal.expect("db:default> ");
    terminal.send("put c 3\rscan\r");
    terminal.expect("a\t1\r\nc\t3\r\n");
    terminal.end();
    assert_eq!(place.ok(&["scan", "db"]), "a\t1\nc\t3\n");
}

#[test]
fn ctrl_c_ends_a_scan_that_is_printed() {
    let place = Place::new();
    let lines: String = (0..50_000).map(|number| format!("{number:06}\tvalue\n")).collect();
    place.run_with(&["import", "db", "-", "--format", "lines"], lines.as_bytes(), 0);
    let Some(mut terminal) = controlled(&place) else { return };
    // The output exceeds the terminal's buffer, and the rest is not read before Ctrl-C.
    terminal.send("scan --limit all\r");
    terminal.expect("000000\tvalue");
    terminal.send("\x03");
    let shown = terminal.expect("interrupted\r\n");
    assert!(!shown.contains("049999"), "the scan went on to its end");
    terminal.expect("db:default> ");
    terminal.send("count --from 049999\r");
    terminal.expect("\n1\r\n");
    terminal.end();
}

#[test]
fn a_scan_stops_after_a_page_and_says_so() {
    let place = Place::new();
    let lines: String = (0..150).map(|number| format!("{number:03}\t\n")).collect();
    place.run_with(&["import", "db", "-", "--format", "lines"], lines.as_bytes(), 0);
    let mut terminal = Terminal::start(&place);
    terminal.send("scan --keys-only\r");
    let shown = terminal.expect("the first 100 entries; `--limit all` shows the others too");
    assert!(shown.contains("\n099\r\n") && !shown.contains("\n100\r\n"), "{shown}");
    terminal.send("scan --keys-only --limit all\r");
    terminal.expect("\n149\r\n");
    terminal.send("scan --keys-only --from 050\r");
    let shown = terminal.expect("db:default> ");
    assert!(!shown.contains("the first"), "{shown}");
    let shown = terminal.expect("db:default> ");
    assert!(shown.contains("\n149\r\n") && !shown.contains("the first"), "{shown}");
    terminal.end();
}

#[test]
fn keys_and_verbs_are_completed_and_the_prompt_names_database_and_family() {
    let place = Place::new();
    place.ok(&["put", "db", "city:New York", "8"]);
    let mut terminal = Terminal::start(&place);
    terminal.send("GET cit\t\r");
    terminal.expect("\n8\r\n");
    terminal.send("families create users\ruse us\t\r");
    terminal.expect("db:users> ");
    // Ctrl-D ends the shell.
    terminal.end_with("\x04");
}

/// Commands are typed. What their page says must be printed below, without other errors.
#[test]
fn the_sessions_of_the_documents_are_what_the_shell_prints() {
    let page = Page::read("docs/shell.md");
    let place = Place::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_silt"));
    command.env("NO_COLOR", "1");
    let mut terminal = Terminal::start_with(&place, command);
    let steps: Vec<Step> = page.sessions().into_iter().flatten().collect();
    let steps: Vec<&Step> = steps.iter().filter(|step| step.prompt != SHELL).collect();
    for (index, step) in steps.iter().enumerate() {
        // The start of the shell already waited for the first prompt.
        if index > 0 {
            terminal.expect_next(&step.prompt);
        }
        terminal.send(&format!("{}\r", step.command));
        for line in &step.printed {
            terminal.expect_next(&format!("\n{line}\r\n"));
            // The line end is put back: the search for the next line starts with it.
            terminal.printed.insert(0, '\n');
        }
    }
    let printed: usize = steps.iter().map(|step| step.printed.len()).sum();
    assert!(steps.len() > 30 && printed > 15, "{} lines typed, {printed} printed", steps.len());
    terminal.end();
}

#[test]
fn destroy_names_the_cold_directory_in_its_question() {
    let place = Place::new();
    place.ok(&["put", "db", "k", "v"]);
    place.ok(&["freeze", "db", "default", "--cold", "cold"]);
    for (answer, is_left) in [("n\n", true), ("y\n", false)] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_silt"));
        command.args(["destroy", "db"]);
        let mut terminal = Terminal::run(&place, command);
        terminal.expect("cold");
        terminal.send(answer);
        let started = Instant::now();
        while terminal.read() {
            assert!(started.elapsed() < PATIENCE, "it goes on: {:?}", terminal.printed);
            terminal.wait(PollFlags::IN);
        }
        let status = terminal.child.wait().expect("it ends");
        assert_eq!(status.success(), !is_left, "{:?}", terminal.printed);
        assert_eq!(place.path("db").exists(), is_left);
        assert_eq!(place.path("cold").exists(), is_left);
    }
}
