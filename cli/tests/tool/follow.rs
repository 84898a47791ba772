//! `silt follow`, and verbs that read, beside a writer in another process, which is killed.
#![expect(clippy::unwrap_used, reason = "a test that fails names the line")]

use crate::place::Place;
use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A `silt` that runs while others do.
struct Running {
    child: Child,
    lines: Receiver<String>,
}

impl Running {
    fn new(place: &Place, arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_silt"));
        command.current_dir(place.path("")).args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let (stdout, (sender, lines)) = (child.stdout.take().unwrap(), channel());
        thread::spawn(move || {
            BufReader::new(stdout)
                .lines()
                .map_while(|line| line.ok())
                .try_for_each(|line| sender.send(line))
        });
        Self { child, lines }
    }

    /// The next line that it prints.
    fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).unwrap()
    }

    /// Kills it, as `kill -9` does.
    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// A writer that commits each line as soon as it is given.
struct Writer {
    running: Running,
    input: ChildStdin,
}

impl Writer {
    fn new(place: &Place) -> Self {
        // A verb that reads keeps a writer out as long as it runs.
        let mut running = Running::new(place, &["shell", "db", "--create", "--wait", "30s"]);
        let input = running.child.stdin.take().unwrap();
        Self { running, input }
    }

    fn run(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
        self.input.flush().unwrap();
    }

    /// Returns once a key has the value for another process.
    fn put(&mut self, place: &Place, key: &str, value: &str) {
        self.run(&format!("put {key} {value} --durability buffered"));
        let begun = Instant::now();
        loop {
            let output = place.command(&["get", "db", key]).output().unwrap();
            if output.stdout == format!("{value}\n").as_bytes() {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{output:?}");
            thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn a_follower_goes_on_through_the_kill_of_its_writer() {
    let place = Place::new();
    place.run(&["put", "db", "before", "0"], 0);
    let mut writer = Writer::new(&place);
    writer.put(&place, "a", "1");
    let follow = Running::new(&place, &["follow", "db"]);
    assert_eq!(follow.line(), "1\tput\tdefault\tbefore\t0");
    assert_eq!(follow.line(), "2\tput\tdefault\ta\t1");
    let now = Running::new(&place, &["follow", "db", "--from-now", "--prefix", "b", "--json"]);
    // The verbs that read see what the writer has, and say that it has the database.
    let run = place.run(&["scan", "db"], 0);
    assert_eq!(run.stdout, "a\t1\nbefore\t0\n");
    run.says(&["read beside a writer, as of sequence number 2", "has it open"]);
    assert_eq!(place.run(&["count", "db"], 0).stdout, "2\n");
    place.run(&["check", "db"], 0).says(&["read beside a writer"]);
    // `--from-now` may begin at any time until here.
    let mut expected = 3;
    let object = loop {
        writer.put(&place, "b", &expected.to_string());
        assert_eq!(follow.line(), format!("{expected}\tput\tdefault\tb\t{expected}"));
        if let Ok(line) = now.lines.recv_timeout(Duration::from_millis(200)) {
            break serde_json::from_str::<serde_json::Value>(&line).unwrap();
        }
        expected += 1;
        assert!(expected < 100, "nothing is printed from now on");
    };
    assert_eq!(object["operations"][0]["key"], "b");
    writer.running.kill();
    assert_eq!(place.ok(&["get", "db", "b"]), format!("{expected}\n"));
    // The next writer recovers the database, and goes on with other log files.
    let mut writer = Writer::new(&place);
    writer.run("families create new");
    writer.run("flush");
    writer.put(&place, "c", "last");
    let last = follow.line();
    assert!(last.ends_with("\tput\tdefault\tc\tlast"), "{last}");
    writer.run("use new");
    writer.run("put d 5");
    let last = follow.line();
    assert!(last.ends_with("\tput\tnew\td\t5"), "{last}");
    follow.kill();
    now.kill();
    writer.running.kill();
    assert_eq!(place.ok(&["get", "db", "d", "--family", "new"]), "5\n");
}

#[test]
fn a_follower_prints_the_family_of_the_branch_that_is_named_or_checked_out() {
    let place = Place::new();
    place.run(&["put", "db", "before", "0"], 0);
    // It flushes: what follows is in the log.
    place.ok(&["branch", "create", "db", "fix"]);
    place.ok(&["put", "db", "key", "main"]);
    place.ok(&["put", "db", "key", "branch", "--branch", "fix"]);
    let first = |more: &[&str]| {
        let only = ["follow", "db", "--family", "default", "--prefix", "key"];
        let arguments = [&only[..], more].concat();
        let follow = Running::new(&place, &arguments);
        let line = follow.line();
        follow.kill();
        line
    };
    assert!(first(&[]).ends_with("\tput\tdefault\tkey\tmain"), "{}", first(&[]));
    assert!(first(&["--branch", "fix"]).ends_with("\tput\tfix/default\tkey\tbranch"));
    place.ok(&["branch", "checkout", "db", "fix"]);
    assert!(first(&[]).ends_with("\tput\tfix/default\tkey\tbranch"));
    assert!(first(&["--branch", "main"]).ends_with("\tput\tdefault\tkey\tmain"));
    place
        .run(&["follow", "db", "--family", "default", "--branch", "absent"], 1)
        .says(&["no branch `absent`"]);
}

#[test]
fn following_what_cannot_be_followed_is_refused() {
    let place = Place::new();
    place.run(&["follow", "db"], 1).says(&["no database"]);
    place.run(&["put", "db", "a", "1"], 0);
    place.run(&["follow", "db", "--family", "absent"], 1).says(&["absent"]);
    place.run(&["follow", "db", "--from", "9"], 2).says(&["no commit"]);
    place.run(&["follow", "db", "--from", "1", "--from-now"], 2).says(&["--from-now"]);
    place.run(&["follow", "db", "--wait", "1s"], 2).says(&["--wait", "follow"]);
    place.run(&["flush", "db"], 0);
    place.run(&["follow", "db", "--from", "1"], 1).says(&["does not reach back"]);
}

/// The number of keys in a database.
fn count(place: &Place, db: &str) -> String {
    place.run(&["count", db], 0).stdout
}

#[test]
fn backups_and_checkpoints_are_made_beside_a_writer() {
    let place = Place::new();
    let mut writer = Writer::new(&place);
    writer.put(&place, "a", "1");
    writer.run("flush");
    writer.put(&place, "b", "2");
    for turn in ["3", "4"] {
        writer.put(&place, "c", turn);
        let run = place.run(&["backup", "create", "db", "backups"], 0);
        run.says(&["read beside a writer", "has it open"]);
        let target = format!("restored {turn}");
        place.ok(&["restore", "backups", &target]);
        assert_eq!(place.ok(&["scan", &target]), format!("a\t1\nb\t2\nc\t{turn}\n"));
    }
    place.run(&["checkpoint", "db", "copy"], 0).says(&["read beside a writer"]);
    place.run(&["checkpoint", "db", "chosen", "--family", "default", "--copy"], 0);
    for copy in ["copy", "chosen"] {
        assert_eq!(count(&place, copy), "3\n");
        place.ok(&["put", copy, "d", "5"]);
        place.ok(&["check", copy]);
    }
    place.ok(&["backup", "verify", "backups"]);
    writer.put(&place, "e", "6");
    assert_eq!(count(&place, "db"), "4\n");
    writer.running.kill();
    place.ok(&["backup", "create", "db", "backups"]);
    place.ok(&["restore", "backups", "last"]);
    assert_eq!(count(&place, "last"), "4\n");
}

#[test]
fn a_shell_reads_beside_a_writer_and_refuses_to_write() {
    let place = Place::new();
    let mut writer = Writer::new(&place);
    writer.put(&place, "a", "1");
    let mut shell = Running::new(&place, &["shell", "db"]);
    let mut input = shell.child.stdin.take().unwrap();
    let mut ask = |line: &str| {
        writeln!(input, "{line}").unwrap();
        input.flush().unwrap();
        shell.line()
    };
    assert_eq!(ask("get a"), "1");
    writer.put(&place, "a", "2");
    assert_eq!(ask("get a"), "2");
    assert!(ask("backup backups").starts_with("backup 1 in backups"));
    assert!(ask("checkpoint copy").starts_with("checkpoint in copy"));
    writer.put(&place, "b", "3");
    assert_eq!(ask("count"), "2");
    for verb in
        ["put a 3", "delete a", "incr n", "flush", "families create x", "begin\nput a 4\ncommit"]
    {
        let run = place.run_with(&["shell", "db"], verb.as_bytes(), 4);
        run.says(&["read beside a writer", "another process writes to the database"]);
    }
    assert_eq!(place.run(&["scan", "db"], 0).stdout, "a\t2\nb\t3\n");
    assert_eq!(count(&place, "copy"), "1\n");
}

/// A directory in which nothing can be created. A user who may write everywhere runs the tool as
/// another one.
#[test]
fn a_database_that_may_not_be_written_is_copied() {
    use std::os::unix::{fs::PermissionsExt, process::CommandExt};
    const NOBODY: u32 = 65_534;
    let place = Place::new();
    place.ok(&["put", "db", "a", "1"]);
    let set = |name: &str, mode| {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(place.path(name), permissions).unwrap();
    };
    set("db", 0o555);
    set("", 0o777);
    let is_root = std::fs::write(place.path("db/probe"), b"").is_ok();
    if is_root {
        std::fs::remove_file(place.path("db/probe")).unwrap();
    }
    // The other user may not be allowed where it was built.
    std::fs::copy(env!("CARGO_BIN_EXE_silt"), place.path("silt")).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = std::process::Command::new(place.path("silt"));
        command.current_dir(place.path("")).args(arguments).env_remove("SILT_DB");
        if is_root {
            command.uid(NOBODY).gid(NOBODY);
        }
        let output = command.output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{arguments:?}: {said}");
        said
    };
    for arguments in
        [["backup", "create", "db", "backups"].as_slice(), &["checkpoint", "db", "copy"]]
    {
        let said = run(arguments);
        assert!(said.contains("read without writing"), "{arguments:?}: {said}");
    }
    run(&["restore", "backups", "restored"]);
    set("db", 0o755);
    assert_eq!(count(&place, "copy") + &count(&place, "restored"), "1\n1\n");
}
