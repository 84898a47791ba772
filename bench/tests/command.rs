//! Tests of the command as a process: workers that lie, fail, crash and hang fail their row only.
//! Unknown names are answered; an interrupt keeps the finished rows and leaves no database behind.

use assert_cmd::Command;
use siltdb_bench::{
    engine::{Arm, Class, Durability},
    result::{Results, Row, Status},
    runner::{child::WorkerBinary, classes::establish},
};
use std::{
    fs,
    path::Path,
    process::{self, Stdio},
    sync::atomic::AtomicBool,
    thread,
    time::{Duration, Instant},
};

fn command() -> Command {
    Command::new(env!("CARGO_BIN_EXE_silt-bench"))
}

fn results(json: &Path) -> Results {
    let text = fs::read_to_string(json).expect("the run wrote it");
    Results::from_json(&text).expect("it is a results file")
}

fn row<'a>(results: &'a Results, engine: &str) -> &'a Row {
    results.rows.iter().find(|row| row.engine == engine).expect("it has a row")
}

#[test]
fn lying_crashing_and_hanging_engines_fail_their_row_and_the_run_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    fs::create_dir(&data).unwrap();
    let json = dir.path().join("out.json");
    let engines = "siltdb,siltdb-btree,liar-drops-writes,liar-errors,liar-crashes,liar-hangs";
    let mut run = command();
    run.args(["run", "--suite", "layerdb", "--rows", "fill/5k", "--repeat", "2"]);
    run.args(["--silence", "2", "--skip", "limits,classes", "--engines", engines]);
    run.arg("--json").arg(&json).arg("--dir").arg(&data).assert().success();
    let results = results(&json);
    let ours = row(&results, "siltdb");
    assert_eq!((ours.status, ours.extra.repeats), (Status::Ok, 2));
    assert!(ours.figure().is_some() && ours.extra.harness_ns.is_some_and(|cost| cost > 0.0));
    assert!(ours.verified.is_some_and(|verified| verified.checked >= 5000));
    let reason = |engine| {
        let row = row(&results, engine);
        assert!(row.figure().is_none());
        (row.status, row.reason.as_deref().unwrap_or(""))
    };
    let trees = row(&results, "siltdb-btree");
    assert!(trees.status == Status::Ok && trees.figure().is_some(), "{trees:?}");
    for (engine, wanted) in [
        ("liar-drops-writes", "verification: scan"),
        ("liar-errors", "the disk is on fire"),
        ("liar-crashes", "signal 6"),
        ("liar-hangs", "hung for 2 s"),
    ] {
        let (status, why) = reason(engine);
        assert!(status == Status::Failed && why.contains(wanted), "{engine}: {why}");
    }
    assert_eq!(fs::read_dir(&data).unwrap().count(), 0, "data directories are removed");
}

#[test]
fn an_engine_that_loses_updates_fails_its_rows_and_the_others_name_their_level() {
    let dir = tempfile::tempdir().unwrap();
    let json = dir.path().join("out.json");
    let mut run = command();
    let rows = "counters/8,range/serializable,bank/100,insert/8";
    run.args(["run", "--suite", "transactions", "--rows", rows, "--scale", "0.01"]);
    run.args(["--repeat", "1", "--skip", "limits,classes"]);
    run.args(["--engines", "siltdb,siltdb-locks,liar-honest,liar-loses-updates"]);
    run.arg("--json").arg(&json).arg("--dir").arg(dir.path()).assert().success();
    let results = results(&json);
    // Two rows begin with `counters/8`.
    assert_eq!(results.rows.len(), 20);
    for row in &results.rows {
        let name = format!("{} {}: {:?}", row.row, row.engine, row.reason);
        if row.engine == "liar-loses-updates" {
            let why = row.reason.as_deref().unwrap_or("");
            assert!(row.status == Status::Failed && why.contains("verification: scan"), "{name}");
            continue;
        }
        assert!(row.status == Status::Ok && row.figure().is_some(), "{name}");
        assert!(row.verified.is_some_and(|verified| verified.checked > 1000), "{name}");
        let found = row.extra.transactions.as_ref().expect("a row of transactions");
        assert!(found.isolation.starts_with("serializable"), "{name}: {}", found.isolation);
        let share = found.slowest_share.expect("threads compete");
        assert!((0.0..=1.0).contains(&share), "{name}: {share}");
        assert!(row.extra.harness_ns.is_some_and(|cost| cost > 0.0), "{name}");
    }
}

#[test]
fn what_a_commit_survives_is_tried_out() {
    let dir = tempfile::tempdir().unwrap();
    let program = env!("CARGO_BIN_EXE_silt-bench").into();
    let worker = WorkerBinary::ask(program, vec!["worker".to_owned()]).unwrap();
    let interrupted = AtomicBool::new(false);
    let established = |engine, durability| {
        let promise = (durability, Arm::Equal);
        establish(&worker, engine, promise, dir.path(), &interrupted).unwrap()
    };
    let liar = established("liar-honest", Durability::Buffered);
    assert!(liar.class == Class::Memory && liar.how.contains("kill -9 took"), "{}", liar.how);
    let ours = established("siltdb", Durability::Buffered);
    assert_eq!(ours.class, Class::Process, "{}", ours.how);
    let synced = established("siltdb", Durability::Synced);
    assert!(synced.class >= Class::Process, "{}", synced.how);
}

#[test]
fn rows_are_measured_on_what_a_killed_process_left() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    fs::create_dir(&data).unwrap();
    let json = dir.path().join("out.json");
    let mut run = command();
    run.args(["run", "--suite", "open-time", "--rows", "large-log/killed,1gb/killed"]);
    run.args(["--repeat", "2", "--scale", "0.02", "--skip", "limits,classes"]);
    run.args(["--engines", "siltdb,siltdb-btree,null,liar-honest,liar-crashes"]);
    run.arg("--json").arg(&json).arg("--dir").arg(&data).assert().success();
    let rows = results(&json).rows;
    assert_eq!(rows.len(), 3 * 5);
    for ours in rows.iter().filter(|row| row.engine == "siltdb") {
        assert_eq!((ours.status, ours.extra.repeats), (Status::Ok, 2), "{ours:?}");
        assert_eq!((ours.ops, ours.extra.state.as_deref()), (5, Some("killed")));
        let (keys, verified) = (ours.extra.keys.unwrap(), ours.verified.unwrap());
        assert!(verified.checked == verified.expected && verified.checked > keys, "{ours:?}");
        assert!(ours.latency_ns.is_some() && ours.extra.harness_ns.is_some());
        let seeded = ours.extra.seed_ops_per_s.unwrap();
        assert_eq!(seeded.min, seeded.max, "killed once for both rounds");
    }
    for (engine, status, wanted) in [
        ("null", Status::Unsupported, "may lose acknowledged commits"),
        ("liar-honest", Status::Failed, "kill -9 took 8000 of 8000 acknowledged entries"),
        ("liar-crashes", Status::Failed, "signal 6"),
    ] {
        let row = rows.iter().find(|row| row.engine == engine).expect("it has a row");
        let why = row.reason.as_deref().unwrap_or("");
        assert!(row.status == status && why.contains(wanted), "{engine}: {row:?}");
    }
    assert_eq!(fs::read_dir(&data).unwrap().count(), 0, "data directories are removed");
}

#[test]
fn rows_share_seeded_databases_and_are_timed_call_by_call_once() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    fs::create_dir(&data).unwrap();
    let json = dir.path().join("out.json");
    let mut run = command();
    run.args(["run", "--suite", "tidesdb-v7", "--rows", "random-get,get-miss,seek"]);
    run.args(["--repeat", "2", "--scale", "0.001", "--engines", "siltdb"]);
    run.args(["--skip", "limits,classes"]);
    run.arg("--json").arg(&json).arg("--dir").arg(&data).assert().success();
    let rows = results(&json).rows;
    assert!(rows.len() > 3);
    for row in &rows {
        assert_eq!((row.status, row.extra.repeats), (Status::Ok, 2), "{row:?}");
        assert!(row.latency_ns.is_some_and(|latency| latency.p50 > 0.0));
        let verified = row.verified.unwrap();
        assert!(verified.checked == verified.expected && verified.checked >= 10_000);
    }
    let seeded = |row: &Row| row.extra.seed_ops_per_s.unwrap();
    let of = |id: &str| rows.iter().find(|row| row.row == id).unwrap();
    let first = seeded(of("random-get"));
    assert_eq!(first.min, first.max, "seeded once for both rounds");
    assert_eq!(first, seeded(of("get-miss")), "and for both rows");
    assert_ne!(first, seeded(of("random-get/compacted")), "but not for another state");
    assert_eq!(fs::read_dir(&data).unwrap().count(), 0, "data directories are removed");
}

#[test]
fn a_run_goes_on_where_another_ended() {
    let dir = tempfile::tempdir().unwrap();
    let json = dir.path().join("out.json");
    let run = |rows: &str, scale: &str, arm: &str| {
        let mut run = command();
        run.args(["run", "--arm", arm]);
        run.args(["--suite", "layerdb", "--rows", rows, "--scale", scale, "--resume"]);
        run.args(["--repeat", "1", "--engines", "siltdb", "--skip", "limits,classes"]);
        run.arg("--json").arg(&json).arg("--dir").arg(dir.path()).assert()
    };
    run("fill/5k", "0.1", "equal").success();
    let first = results(&json);
    run("fill/5k,readseq/5k", "0.1", "equal").success();
    let both = results(&json);
    let ids: Vec<&str> = both.rows.iter().map(|row| row.row.as_str()).collect();
    assert_eq!(ids, ["fill/5k", "readseq/5k"]);
    assert_eq!(both.rows[0], first.rows[0], "what was done is not done again");
    assert!(both.engines.iter().any(|engine| engine.engine == "siltdb"));
    // A failed row is run again.
    let failed = fs::read_to_string(&json).unwrap().replacen("\"ok\"", "\"failed\"", 1);
    fs::write(&json, failed).unwrap();
    run("fill/5k,readseq/5k", "0.1", "equal").success();
    let again = results(&json);
    assert_eq!(again.rows.len(), 2);
    let statuses = again.rows.iter().map(|row| (row.status, row.row.as_str()));
    let wanted = [(Status::Ok, "readseq/5k"), (Status::Ok, "fill/5k")];
    assert!(statuses.eq(wanted), "the one that had failed comes last now");
    for (scale, arm) in [("0.2", "equal"), ("0.1", "defaults")] {
        let refused = run("readseq/5k", scale, arm).code(2).get_output().clone();
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(said.contains("made with other options"), "{said}");
    }
}

#[test]
fn an_engine_that_cannot_run_says_why_in_its_rows() {
    let dir = tempfile::tempdir().unwrap();
    let json = dir.path().join("out.json");
    let mut run = command();
    run.args(["run", "--suite", "layerdb", "--rows", "fill/5k", "--repeat", "1"]);
    run.args(["--skip", "limits,classes", "--absent", "bbolt=go is not installed"]);
    run.args(["--engines", "siltdb,bbolt,pebble", "--scale", "0.1"]);
    run.arg("--json").arg(&json).arg("--dir").arg(dir.path()).assert().success();
    let results = results(&json);
    for (engine, why) in [("bbolt", "go is not installed"), ("pebble", "not built")] {
        let row = row(&results, engine);
        assert_eq!(row.status, Status::NotRun);
        assert!(row.reason.as_deref().is_some_and(|reason| reason.contains(why)), "{row:?}");
    }
}

#[test]
fn what_is_unknown_is_answered_with_what_there_is() {
    for (arguments, wanted) in [
        (["--suite", "layerbd"], "did you mean `layerdb`?"),
        (["--rows", "readrandon/5k"], "did you mean `readrandom/5k`?"),
        (["--engines", "slitdb"], "did you mean `siltdb`?"),
        (["--dir", "nowhere/at/all"], "no directory"),
        (["--scale", "0"], "must be above 0"),
        (["--repeat-within", "0.5"], "must be at least 1"),
    ] {
        let output = command().arg("run").args(arguments).assert().code(2).get_output().clone();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(wanted), "{arguments:?}: {said}");
    }
}

#[test]
fn too_little_room_is_said_before_anything_starts() {
    let mut run = command();
    run.args(["run", "--suite", "tidesdb-v5", "--rows", "large-values", "--engines", "siltdb"]);
    let output = run.args(["--scale", "400"]).assert().code(2).get_output().clone();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("tidesdb-v5 large-values needs") && said.contains("GiB"), "{said}");
}

#[test]
fn an_interrupt_keeps_finished_rows_and_removes_directories() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    fs::create_dir(&data).unwrap();
    let json = dir.path().join("out.json");
    let mut run = process::Command::new(env!("CARGO_BIN_EXE_silt-bench"));
    // The second row takes minutes.
    run.args(["run", "--suite", "layerdb,soak", "--rows", "fill/5k,mixed", "--repeat", "1"]);
    run.args(["--engines", "siltdb", "--scale", "0.2", "--skip", "limits,classes"]);
    run.arg("--json").arg(&json).arg("--dir").arg(&data);
    let mut run = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // As soon as the first row is written to the file.
    let start = Instant::now();
    while !json.exists() && start.elapsed() < Duration::from_secs(60) {
        thread::sleep(Duration::from_millis(1));
    }
    let id = run.id().to_string();
    process::Command::new("kill").args(["-INT", &id]).status().unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(130));
    let rows = results(&json).rows;
    assert!(rows.iter().any(|row| row.row == "fill/5k" && row.status == Status::Ok));
    assert_eq!(fs::read_dir(&data).unwrap().count(), 0);
}

#[test]
fn the_list_shows_suites_rows_and_engines() {
    let output = command().arg("list").assert().success().get_output().clone();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    for wanted in ["layerdb:", "delete-heavy/5k", "siltdb-btree", "soak:"] {
        assert!(said.contains(wanted), "{said}");
    }
    assert!(!said.contains("liar"));
}

#[test]
fn a_row_keeps_the_threads_of_its_name_and_the_run_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let json = dir.path().join("out.json.gz");
    let mut run = command();
    run.args(["run", "--suite", "durable", "--rows", "writers-1,writers-4", "--threads", "2"]);
    run.args(["--repeat", "1", "--scale", "0.01", "--engines", "siltdb"]);
    run.args(["--skip", "limits,classes"]);
    run.arg("--json").arg(&json).arg("--dir").arg(dir.path());
    let said = run.assert().success().get_output().stderr.clone();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(said.contains("--threads: 2 rows keep what they name: durable/writers-1"), "{said}");
    assert!(said.contains("2 rows, 1 engine, 1 round: about"), "{said}");
    let results = siltdb_bench::files::read(&json).unwrap();
    let threads: Vec<u32> = results.rows.iter().map(|row| row.threads).collect();
    assert_eq!(threads, [1, 4]);
    command().arg("report").arg(&json).assert().success();
}

#[test]
fn outputs_that_cannot_be_written_end_a_run_before_it_begins() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    fs::create_dir(&data).unwrap();
    let missing = dir.path().join("none/page.html");
    let json = dir.path().join("out.json");
    let refused = |outputs: &[&str]| {
        let mut run = command();
        run.args(["run", "--suite", "layerdb", "--rows", "fill/5k", "--engines", "siltdb"]);
        run.args(["--skip", "limits,classes", "--dir", data.to_str().unwrap()]).args(outputs);
        let output = run.assert().code(2).get_output().clone();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.stdout.is_empty() && !said.contains("fill/5k"), "nothing ran: {said}");
        said
    };
    let said = refused(&["--html", missing.to_str().unwrap()]);
    assert!(said.contains("cannot write") && said.contains("none/page.html"), "{said}");
    let said = refused(&["--json", missing.to_str().unwrap()]);
    assert!(said.contains("none/page.html"), "{said}");
    let same = json.to_str().unwrap();
    let said = refused(&["--json", same, "--markdown", same]);
    assert!(said.contains("two forms"), "{said}");
    assert!(!json.exists());
}

#[test]
fn upkeep_counts_syncs_and_judges_them() {
    let dir = tempfile::tempdir().unwrap();
    let mut run = command();
    run.args(["upkeep", "--rows", "openings/syncs", "--json", "--check"]);
    let output = run.arg("--dir").arg(dir.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let file: serde_json::Value = serde_json::from_slice(&output.stdout).expect(&said);
    let [row] = &file["upkeep"].as_array().unwrap()[..] else { panic!("one row is asked for") };
    assert_eq!((row["row"].as_str(), row["at_most"].as_f64()), (Some("openings/syncs"), Some(4.0)));
    match row["status"].as_str() {
        // A kernel may forbid tracing, and strace may be missing.
        Some("not_measured") => assert!(row["met"].is_null() && output.status.success()),
        Some("measured") => {
            let syncs = row["value"].as_f64().unwrap();
            assert!(syncs >= 1.0 && row["checked"].as_u64() > Some(50), "{row}");
            assert_eq!(row["met"].as_bool(), Some(syncs <= 4.0));
            assert_eq!(output.status.code(), Some(if syncs <= 4.0 { 0 } else { 1 }));
        }
        _ => panic!("{row}"),
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "data directories are removed");
    command().args(["upkeep", "--rows", "opennings/syncs"]).assert().code(2);
}

#[test]
fn a_row_that_runs_for_a_time_ends_with_it_and_keeps_its_seconds() {
    let dir = tempfile::tempdir().unwrap();
    let json = dir.path().join("out.json");
    let run = |sustain: &str| {
        let mut run = command();
        run.args(["run", "--suite", "claims", "--rows", "sustained", "--engines", "siltdb"]);
        run.args(["--scale", "0.02", "--repeat", "1", "--skip", "limits,classes"]);
        run.args(["--sustain", sustain]).arg("--json").arg(&json).arg("--dir").arg(dir.path());
        run.assert().success();
    };
    run("2");
    let timed = results(&json);
    let ours = row(&timed, "siltdb");
    assert_eq!((ours.status, ours.reason.as_deref()), (Status::Ok, None));
    assert!(ours.ops < 4_000_000, "its time ended it, not its operations: {}", ours.ops);
    assert!((1..=2).contains(&ours.extra.samples.len()), "{:?}", ours.extra.samples);
    assert!(ours.figure().is_some() && ours.latency_ns.is_none());
    fs::remove_file(&json).unwrap();
    run("0");
    assert!(!json.exists(), "without its time the row is left out, and nothing is written");
}
