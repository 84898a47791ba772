//! What an acknowledged import survives. `silt` is killed at random moments, during recovery, and
//! at one system call after the other. All kills hit one database, which is not repaired in
//! between.
//!
//! A killed process loses no pages, so this proves nothing about power losses.

use siltdb_sweep::Sweep;
use std::{
    collections::BTreeMap,
    fs,
    io::{BufWriter, Write},
    os::unix::process::{CommandExt, ExitStatusExt},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant, SystemTime},
};
use tempfile::TempDir;

const AIRPORTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/data/airports.csv");
const SILT: &str = env!("CARGO_BIN_EXE_silt");
const SIGKILL: i32 = 9;

/// Records of a commit.
const CHUNK: u64 = 50;

/// Records offered to one import, more than it can read before the kill.
const RECORDS_MAX: u64 = 4_000_000;

/// A sequence of random numbers from a seed.
struct Random(u64);

impl Random {
    /// Seeds from `SILT_SEED`, else from the clock; prints the seed, so that a failure can be
    /// repeated.
    fn new(test: &str) -> Self {
        let given = std::env::var("SILT_SEED").ok().and_then(|seed| seed.parse().ok());
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let seed = given.unwrap_or_else(|| now.expect("it is after 1970").subsec_nanos().into());
        eprintln!("{test}: SILT_SEED={seed}");
        Self(seed)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ (mixed >> 29)) % bound
    }
}

/// The data set. Every round imports a part of it under keys of its own.
struct Data {
    rows: Vec<String>,
}

impl Data {
    fn new() -> Self {
        let text = fs::read_to_string(AIRPORTS).expect("the data set is there");
        Self { rows: text.lines().skip(1).map(str::to_owned).collect() }
    }

    /// The key of a number in a round. Keys ascend, so a scan shows the order of commits.
    fn key(round: usize, number: u64) -> String {
        format!("{round:03}:{number:08}")
    }

    /// The value, of many sizes. A number has different values in different rounds.
    fn value(&self, round: usize, number: u64) -> String {
        let row = &self.rows[(number as usize + 7 * round) % self.rows.len()];
        row.repeat(1 + number as usize % 12)
    }

    fn line(&self, round: usize, number: u64) -> String {
        format!("{}\t{}\n", Self::key(round, number), self.value(round, number))
    }
}

/// A database, and the known contents of every round.
struct Place {
    directory: TempDir,
    data: Data,
    /// Records of each round.
    rounds: Vec<u64>,
}

impl Place {
    fn new() -> Self {
        let directory = TempDir::new().expect("a directory for the test");
        Self { directory, data: Data::new(), rounds: Vec::new() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(SILT);
        command.current_dir(self.directory.path()).args(arguments);
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("silt runs")
    }

    /// Runs `silt`, asserts success, and returns stdout.
    fn ok(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).expect("stdout is text")
    }

    /// Imports records of a new round, and kills the process a little after `acks` acknowledged
    /// commits. Returns the number acknowledged at that time.
    fn import_and_kill(&mut self, durability: &str, acks: u64, later: Duration) -> u64 {
        let round = self.rounds.len();
        let ack = format!("ack-{round}");
        let chunk = CHUNK.to_string();
        let mut child = self
            .command(&["import", "db", "-", "--format", "lines", "--chunk", &chunk])
            .args(["--ack", &ack, "--durability", durability])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("silt starts");
        let input = child.stdin.take().expect("it is piped");
        thread::scope(|scope| {
            let data = &self.data;
            scope.spawn(move || {
                let mut input = BufWriter::with_capacity(1 << 16, input);
                // The kill breaks the pipe.
                let _ = (0..RECORDS_MAX)
                    .try_for_each(|number| input.write_all(data.line(round, number).as_bytes()));
            });
            let start = Instant::now();
            while acknowledged(&self.path(&ack)) < acks * CHUNK {
                assert!(start.elapsed() < Duration::from_secs(20), "the import stands still");
                thread::sleep(Duration::from_millis(1));
            }
            thread::sleep(later);
            assert_killed(child);
        });
        let acked = acknowledged(&self.path(&ack));
        assert!(acked >= acks * CHUNK && acked < RECORDS_MAX);
        acked
    }

    /// Asserts that the database is clean and has every round. The last round must end at a border
    /// between commits, at or behind `acked`; earlier rounds must be as seen before.
    fn verify(&mut self, acked: u64) {
        assert!(self.ok(&["check", "db"]).starts_with("ok: "));
        let count: u64 = self.ok(&["count", "db"]).trim().parse().expect("a number");
        let before: u64 = self.rounds.iter().sum();
        let last = count.checked_sub(before).expect("nothing seen before is gone");
        assert!(last >= acked, "{acked} were acknowledged, {last} are there");
        assert_eq!(last % CHUNK, 0, "half a commit");
        self.rounds.push(last);
        self.verify_all();
    }

    /// Asserts that each round has exactly its records with their values.
    fn verify_all(&self) {
        let text = self.ok(&["scan", "db"]);
        let mut lines = text.lines();
        for (round, &count) in self.rounds.iter().enumerate() {
            for number in 0..count {
                let line = self.data.line(round, number);
                assert_eq!(lines.next(), Some(line.trim_end()), "round {round}, record {number}");
            }
        }
        assert_eq!(lines.next(), None);
    }
}

/// Kills a process and asserts that it was still running.
fn assert_killed(mut child: Child) {
    child.kill().expect("it can be killed");
    let output = child.wait_with_output().expect("it can be waited for");
    assert_eq!(output.status.signal(), Some(SIGKILL), "it ended by itself: {output:?}");
}

/// The last number in the file of acknowledgements, each line of which is one write.
fn acknowledged(path: &Path) -> u64 {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().next_back().map_or(0, |line| line.parse().expect("a number"))
}

#[test]
fn acknowledged_imports_survive_kills_at_random_moments() {
    let mut random = Random::new("kills at random moments");
    let mut place = Place::new();
    let mut acked_in_all = 0;
    for durability in ["buffered", "synced", "buffered", "interval:5", "synced", "buffered"] {
        let acks = 1 + random.below(40);
        let later = Duration::from_micros(random.below(150_000));
        let acked = place.import_and_kill(durability, acks, later);
        place.verify(acked);
        acked_in_all += acked;
    }
    assert!(acked_in_all >= 6 * CHUNK, "{acked_in_all}");
    place.ok(&["compact", "db"]);
    place.verify_all();
}

#[test]
fn kills_during_a_flush_lose_nothing() {
    let mut random = Random::new("kills during a flush");
    let mut place = Place::new();
    // More than a memtable, so that a worker writes tables during the kill.
    let acks = (40_000 + random.below(20_000)) / CHUNK;
    let acked = place.import_and_kill("buffered", acks, Duration::ZERO);
    // The database is not read before, since a close after a read would flush what it replayed.
    let mut killed = 0;
    for round in 0..8 {
        let verb = ["compact", "flush"][round % 2];
        let mut child = place.command(&[verb, "db"]);
        let child = child.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        thread::sleep(Duration::from_micros(3_000 + random.below(60_000)));
        killed += kill(child);
        assert!(place.ok(&["check", "db"]).starts_with("ok: "));
    }
    assert!(killed > 0, "every verb was done before it was killed");
    place.verify(acked);
}

/// Kills a process that may have ended already; returns 1 if it was running.
fn kill(mut child: Child) -> usize {
    child.kill().expect("it can be killed");
    let status = child.wait().expect("it can be waited for");
    assert!(status.success() || status.signal() == Some(SIGKILL), "{status:?}");
    usize::from(status.signal() == Some(SIGKILL))
}

#[test]
fn kills_during_recovery_lose_nothing() {
    let mut random = Random::new("kills during recovery");
    let mut place = Place::new();
    let mut killed = 0;
    for durability in ["buffered", "synced", "buffered"] {
        let acks = 100 + random.below(100);
        let acked = place.import_and_kill(durability, acks, Duration::ZERO);
        for _ in 0..8 {
            let mut child = place.command(&["count", "db"]);
            let child = child.stdout(Stdio::null()).stderr(Stdio::null());
            let child = child.spawn().expect("silt starts");
            thread::sleep(Duration::from_micros(random.below(25_000)));
            killed += kill(child);
        }
        place.verify(acked);
    }
    assert!(killed >= 8, "only {killed} of 24 recoveries were killed");
}

/// System calls of every run. A process is killed at each of them, before the call takes effect.
const CALLS: [&str; 10] = [
    "fallocate",
    "mmap",
    "fdatasync",
    "fsync",
    "renameat",
    "unlinkat",
    "pwritev",
    "write",
    "openat",
    "flock",
];

/// System calls that depend on the file system: a log is mapped where that is safe, and extended
/// where it cannot be allocated.
const CALLS_OF_SOME: [&str; 3] = ["msync", "madvise", "ftruncate"];

/// Kills at each call, spread evenly over all calls of one thread in an undisturbed run.
const KILLS_PER_CALL: u64 = 18;

/// A sweep over system calls kills at each of this many.
const EVERY: u64 = 3;

/// Kills while each call is delayed, which spreads them over the calls of all threads.
const SLOW_KILLS: usize = 30;

/// Delay of each call, in microseconds.
const SLOW_CALL: u64 = 2_000;

/// Records of a run before its first flush, and as many after it.
const BEFORE: u64 = 100;
const AFTER: u64 = 100;

/// The shell commands of one run: an import, a flush, a deletion, an import, a family that is
/// created and dropped, and a compaction.
fn script(round: usize) -> String {
    format!(
        "import before --format lines --chunk {CHUNK} --ack ack-before --durability synced\n\
         flush\n\
         delete {}\n\
         import after --format lines --chunk {CHUNK} --ack ack-after\n\
         families create extra{round}\n\
         flush\n\
         compact\n\
         families drop extra{round}\n",
        Data::key(round, 0)
    )
}

/// Starts `silt shell` under strace, with more arguments for strace.
fn traced(place: &Place, round: usize, arguments: &[&str]) -> Child {
    for ack in ["ack-before", "ack-after"] {
        fs::write(place.path(ack), "").expect("the directory takes files");
    }
    let lines = |range: std::ops::Range<u64>| -> String {
        range.map(|number| place.data.line(round, number)).collect()
    };
    fs::write(place.path("before"), lines(0..BEFORE)).expect("the directory takes files");
    fs::write(place.path("after"), lines(BEFORE..BEFORE + AFTER)).expect("as above");
    fs::write(place.path("script"), script(round)).expect("as above");
    Command::new("strace")
        .process_group(0)
        .args(["-f", "-qq", "-o", "trace"])
        .args(arguments)
        .args([SILT, "shell", "db", "--create"])
        .current_dir(place.directory.path())
        .stdin(fs::File::open(place.path("script")).expect("it was written above"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("strace starts")
}

fn all_calls() -> impl Iterator<Item = &'static str> {
    CALLS.into_iter().chain(CALLS_OF_SOME)
}

/// The most calls of each kind by one thread in an undisturbed run.
fn count_calls(place: &Place, round: usize) -> BTreeMap<&'static str, u64> {
    let trace = format!("trace={}", all_calls().collect::<Vec<_>>().join(","));
    let status = traced(place, round, &["-e", &trace]).wait().expect("it can be waited for");
    assert!(status.success(), "{status:?}");
    let text = fs::read_to_string(place.path("trace")).expect("strace has written it");
    let count = |call: &'static str| {
        let begins = format!("{call}(");
        let mut threads = BTreeMap::new();
        for line in text.lines() {
            let (thread, what) = line.split_once(' ').expect("a thread and its call");
            *threads.entry(thread).or_default() += u64::from(what.trim().starts_with(&begins));
        }
        (call, threads.into_values().max().unwrap_or(0))
    };
    all_calls().map(count).collect()
}

/// The present entries of a round.
fn entries(place: &Place, round: usize) -> BTreeMap<String, String> {
    let text = place.ok(&["scan", "db", "--prefix", &format!("{round:03}:")]);
    let pair = |line: &str| {
        let (key, value) = line.split_once('\t').expect("a key and a value");
        (key.to_owned(), value.to_owned())
    };
    text.lines().map(pair).collect()
}

/// Asserts that a round has a prefix of its commits, with all acknowledged ones.
fn verify_script(place: &Place, round: usize, entries: &BTreeMap<String, String>) {
    let before = acknowledged(&place.path("ack-before"));
    let after = acknowledged(&place.path("ack-after"));
    let first = Data::key(round, 0);
    let mut numbers: Vec<u64> = (0..BEFORE + AFTER)
        .filter(|&number| match entries.get(&Data::key(round, number)) {
            Some(value) => {
                assert_eq!(*value, place.data.value(round, number), "record {number}");
                true
            }
            None => false,
        })
        .collect();
    assert_eq!(numbers.len(), entries.len(), "entries that were never written");
    // The first record is deleted between the imports, so it may be missing only if the first
    // import is complete.
    if !entries.contains_key(&first) && !numbers.is_empty() {
        assert!(numbers.len() as u64 >= BEFORE - 1, "the deletion overtook the import");
        numbers.insert(0, 0);
    }
    let found = numbers.len() as u64;
    assert!(numbers.iter().copied().eq(0..found), "no prefix: {numbers:?}");
    assert_eq!(found % CHUNK, 0, "half a commit");
    assert!(found >= before, "{before} were acknowledged, {found} are there");
    if found > BEFORE || after > 0 {
        assert!(!entries.contains_key(&first), "the deletion is lost");
        assert!(found >= BEFORE + after, "{after} more were acknowledged, {found} are there");
    }
}

/// The rounds of a database under strace.
struct Traced {
    place: Place,
    /// The entries of each round as seen after it.
    seen: Vec<BTreeMap<String, String>>,
    killed: usize,
    acked: u64,
}

impl Traced {
    /// Lets a run end, or kills it after `patience`; then verifies its entries.
    fn round(&mut self, arguments: &[&str], patience: Option<Duration>) {
        let round = self.seen.len();
        let mut child = traced(&self.place, round, arguments);
        if let Some(patience) = patience {
            thread::sleep(patience);
            // The kill is for the whole group, because a process that strace has forked and does
            // not trace yet would survive.
            let kill = format!("kill -s KILL -- -{}", child.id());
            // All processes may have ended already.
            Command::new("sh").args(["-c", &kill]).output().expect("sh runs");
        }
        let status = child.wait().expect("it can be waited for");
        // strace ends in the same way as the traced process.
        let is_killed = status.signal() == Some(SIGKILL);
        assert!(status.success() || is_killed, "{arguments:?}: {status:?}");
        if status.success() {
            assert_eq!(acknowledged(&self.place.path("ack-after")), AFTER);
        }
        self.killed += usize::from(is_killed);
        self.acked += acknowledged(&self.place.path("ack-before"));
        let start = Instant::now();
        let report = loop {
            let report = self.place.run(&["check", "db"]);
            // The end of a killed process takes a moment.
            if report.status.code() != Some(4) || start.elapsed() > Duration::from_secs(5) {
                break report;
            }
        };
        assert!(report.status.success(), "{arguments:?}: {report:?}");
        let found = entries(&self.place, round);
        verify_script(&self.place, round, &found);
        self.seen.push(found);
    }
}

/// Appends bytes behind the last edit of the manifest, as a kill may leave them. The next run then
/// begins a new manifest and renames a file.
fn leave_manifest_unfinished(place: &Place) {
    let entries = fs::read_dir(place.path("db")).expect("the database is there");
    let paths = entries.map(|entry| entry.expect("it can be listed").path());
    let is_manifest = |path: &PathBuf| path.extension().is_some_and(|name| name == "manifest");
    for path in paths.filter(is_manifest) {
        let mut file = fs::OpenOptions::new().append(true).open(path).expect("it opens");
        file.write_all(&[0; 64]).expect("there is space");
    }
}

#[test]
fn a_kill_at_each_system_call_loses_nothing() {
    if !has_strace() {
        return;
    }
    let (mut random, sweep) = (Random::new("kills at each system call"), Sweep::every(EVERY));
    let mut traced = Traced { place: Place::new(), seen: Vec::new(), killed: 0, acked: 0 };
    traced.round(&["-e", "trace=none"], None);
    leave_manifest_unfinished(&traced.place);
    let calls = count_calls(&traced.place, 1);
    assert!(CALLS.iter().all(|call| calls[call] > 0), "a call is never made: {calls:?}");
    let start = Instant::now();
    traced.seen.push(entries(&traced.place, 1));
    for (&call, &count) in &calls {
        let trace = format!("trace={call}");
        let kills = count.min(KILLS_PER_CALL);
        for index in sweep.of(0..kills) {
            let when = 1 + (count - 1) * index / (kills - 1).max(1);
            let inject = format!("inject={call}:signal=KILL:when={when}");
            if call == "renameat" {
                leave_manifest_unfinished(&traced.place);
            }
            traced.round(&["-e", &trace, "-e", &inject], None);
        }
    }
    let by_call = traced.killed;
    assert!(sweep.has_enough(by_call, 80), "only {by_call} runs were killed: {calls:?}");
    let calls = [&CALLS[..8], &["msync"]].concat().join(",");
    let slow = format!("inject={calls}:delay_enter={SLOW_CALL}");
    let trace = format!("trace={calls}");
    // The shortest run, since a run that has to flush earlier writes takes much longer.
    let whole = (0..3).map(|_| {
        let start = Instant::now();
        traced.round(&["-e", &trace, "-e", &slow], None);
        start.elapsed().as_micros() as u64
    });
    let whole = whole.min().unwrap_or(1);
    for _ in 0..SLOW_KILLS {
        let patience = Duration::from_micros(random.below(whole));
        traced.round(&["-e", &trace, "-e", &slow], Some(patience));
    }
    let Traced { place, seen, killed, acked } = traced;
    eprintln!("{by_call} + {} runs were killed in {:?}", killed - by_call, start.elapsed());
    assert!(killed - by_call > SLOW_KILLS / 3, "only {} slow runs were killed", killed - by_call);
    assert!(acked > 0, "nothing was ever acknowledged");
    for (round, found) in seen.iter().enumerate() {
        assert_eq!(entries(&place, round), *found, "round {round} changed after its recovery");
    }
}

/// The calls by which a checkpoint changes the disk.
const CHECKPOINT_CALLS: [&str; 7] =
    ["openat", "linkat", "renameat", "write", "fdatasync", "fsync", "unlinkat"];

/// Whether processes can be killed at their system calls. If not, says so.
///
/// # Panics
/// If strace is missing, and `SILT_STRACE` says that it is required.
fn has_strace() -> bool {
    let is_there = Command::new("strace").arg("-V").output().is_ok();
    if !is_there {
        let is_required = std::env::var("SILT_STRACE").is_ok_and(|wish| wish == "required");
        assert!(!is_required, "strace is missing, and SILT_STRACE says that it is required");
        eprintln!("SKIPPED: strace is missing, no process was killed at a system call");
    }
    is_there
}

/// Runs a verb under strace, with a kill at the n-th of these system calls; returns whether it was
/// killed.
fn run_and_kill(place: &Place, verb: &[&str], (call, nth): (&str, usize)) -> bool {
    let trace = format!("trace={call}");
    let inject = format!("inject={call}:signal=KILL:when={nth}");
    let mut child = Command::new("strace")
        .current_dir(place.directory.path())
        .args(["-f", "-qq", "-o", "/dev/null"])
        .args(["-e", &trace, "-e", &inject])
        .arg(SILT)
        .args(verb)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("strace runs");
    let status = child.wait().expect("it can be waited for");
    assert!(status.success() || status.signal() == Some(SIGKILL), "{call} {nth}: {status:?}");
    !status.success()
}

#[test]
fn a_checkpoint_that_is_killed_is_whole_or_not_there() {
    if !has_strace() {
        return;
    }
    let sweep = Sweep::every(EVERY);
    let mut place = Place::new();
    place.import_and_kill("synced", 20, Duration::ZERO);
    place.ok(&["flush", "db"]);
    // The log must have records to copy, too.
    place.import_and_kill("synced", 5, Duration::ZERO);
    place.ok(&["put", "db", "late", "value"]);
    let expected = place.ok(&["scan", "db"]);
    let (mut killed, mut whole, mut ended) = (0, 0, 0);
    for call in CHECKPOINT_CALLS {
        for nth in sweep.of(1..=40) {
            let copy = format!("copy-{call}");
            let was_killed = run_and_kill(&place, &["checkpoint", "db", &copy], (call, nth));
            killed += usize::from(was_killed);
            assert_eq!(place.ok(&["scan", "db"]), expected, "{call} {nth}");
            if place.path(&copy).exists() {
                assert_eq!(place.ok(&["scan", &copy]), expected, "{call} {nth}");
                place.ok(&["check", &copy]);
                fs::remove_dir_all(place.path(&copy)).expect("it can be removed");
                whole += usize::from(was_killed);
            }
            if !was_killed {
                ended += 1;
                break;
            }
        }
    }
    eprintln!("{killed} checkpoints were killed, {whole} of them were whole by then");
    assert!(
        sweep.has_enough(killed, 40) && sweep.has_met(whole) && ended > 3,
        "{killed} killed, {whole} whole, {ended} ended"
    );
    // The next checkpoint replaces leftovers of killed ones.
    place.ok(&["checkpoint", "db", "copy-openat"]);
    assert_eq!(place.ok(&["scan", "copy-openat"]), expected);
    assert!(!place.path("copy-openat.partial").exists());
}

/// The calls by which preparing and deciding change what is on disk.
const PREPARE_CALLS: [&str; 8] =
    ["openat", "fallocate", "pwritev", "write", "fdatasync", "fsync", "renameat", "unlinkat"];

/// Most kills at each of these calls.
const PREPARE_KILLS: usize = 9;

/// Whether a transaction waits for its decision, and how many of its two entries are there.
fn fate(place: &Place, id: &str) -> (bool, usize) {
    let listed = place.ok(&["prepared", "db"]);
    let is_listed = listed.lines().any(|line| line.split('\t').next() == Some(id));
    let has = |family: &str| place.run(&["get", "db", id, "--family", family]).status.success();
    (is_listed, ["default", "f"].into_iter().filter(|family| has(family)).count())
}

#[test]
fn a_prepared_transaction_survives_a_kill_at_each_call() {
    if !has_strace() {
        return;
    }
    let sweep = Sweep::every(2);
    let place = Place::new();
    place.ok(&["put", "db", "first", "1"]);
    place.ok(&["families", "create", "db", "f"]);
    let (mut killed, mut listed, mut decided, mut ids) = (0, 0, 0, Vec::new());
    for call in PREPARE_CALLS {
        for nth in sweep.of(1..=PREPARE_KILLS) {
            let id = format!("{call}-{nth}");
            let script = format!("put {id} value\nput {id} value --family f\n");
            fs::write(place.path("script"), script).expect("the directory takes files");
            let prepare = ["txn", "db", "script", "--prepare", &*id];
            let was_killed = run_and_kill(&place, &prepare, (call, nth));
            killed += usize::from(was_killed);
            let (is_listed, entries) = fate(&place, &id);
            assert_eq!(entries, 0, "{id} shows before its decision");
            assert!(is_listed || was_killed, "{id} was acknowledged and is lost");
            listed += usize::from(is_listed && was_killed);
            if !is_listed {
                place.ok(&prepare);
            }
            let word = if nth % 3 == 0 { "rollback" } else { "commit" };
            let decision_killed = run_and_kill(&place, &["prepared", word, "db", &id], (call, nth));
            killed += usize::from(decision_killed);
            let (is_listed, entries) = fate(&place, &id);
            if is_listed {
                assert!(decision_killed, "{id} was decided and waits again");
                assert_eq!(entries, 0, "half of {id}");
                place.ok(&["prepared", word, "db", &id]);
            }
            decided += usize::from(decision_killed && !is_listed);
            let expected = if word == "commit" { 2 } else { 0 };
            assert_eq!(fate(&place, &id), (false, expected), "{id} after its {word}");
            ids.push((id, expected));
            if !was_killed && !decision_killed {
                break;
            }
        }
    }
    eprintln!("{killed} were killed, {listed} prepared and {decided} decided by then");
    assert!(
        sweep.has_enough(killed, 30) && sweep.has_met(listed) && sweep.has_met(decided),
        "{killed}, {listed}, {decided}"
    );
    place.ok(&["flush", "db"]);
    assert!(place.ok(&["check", "db"]).starts_with("ok: "));
    for (id, expected) in ids {
        assert_eq!(fate(&place, &id), (false, expected), "{id} at the end");
    }
}

/// The calls by which a clone, and the flush for it, change what is on disk.
const CLONE_CALLS: [&str; 6] = ["openat", "write", "pwrite64", "fdatasync", "fsync", "unlinkat"];

#[test]
fn a_clone_that_is_killed_is_whole_or_not_there() {
    if !has_strace() {
        return;
    }
    let sweep = Sweep::every(EVERY);
    let mut place = Place::new();
    place.import_and_kill("synced", 20, Duration::ZERO);
    place.ok(&["put", "db", "late", "value"]);
    let expected = place.ok(&["scan", "db"]);
    let (mut killed, mut whole, mut ended) = (0, 0, 0);
    for call in CLONE_CALLS {
        for nth in sweep.of(1..=40) {
            // Something is in memory, and is to be flushed.
            place.ok(&["put", "db", "late", "value"]);
            let was_killed = run_and_kill(&place, &["clone", "db", "default", "copy"], (call, nth));
            killed += usize::from(was_killed);
            assert_eq!(place.ok(&["scan", "db"]), expected, "{call} {nth}");
            if place.ok(&["families", "db"]).contains("copy") {
                let copy = place.ok(&["scan", "db", "--family", "copy"]);
                assert_eq!(copy, expected, "{call} {nth}");
                place.ok(&["check", "db"]);
                place.ok(&["families", "drop", "db", "copy"]);
                whole += usize::from(was_killed);
            } else {
                assert!(was_killed, "{call} {nth}: a clone that was made is not there");
            }
            if !was_killed {
                ended += 1;
                break;
            }
        }
    }
    eprintln!("{killed} clones were killed, {whole} of them were whole by then");
    assert!(
        sweep.has_enough(killed, 20) && sweep.has_met(whole) && ended > 3,
        "{killed} killed, {whole} whole, {ended} ended"
    );
}

#[test]
fn a_branch_and_its_merge_that_are_killed_are_whole_or_not_there() {
    if !has_strace() {
        return;
    }
    let sweep = Sweep::every(EVERY);
    let mut place = Place::new();
    place.import_and_kill("synced", 20, Duration::ZERO);
    place.ok(&["put", "db", "late", "value"]);
    let before = place.ok(&["scan", "db"]);
    let (mut killed, mut created, mut merged) = (0, 0, 0);
    for call in CLONE_CALLS {
        for nth in sweep.of(1..=40) {
            // Something is in memory, and is to be flushed.
            place.ok(&["put", "db", "late", "value"]);
            let in_creation = run_and_kill(&place, &["branch", "create", "db", "fix"], (call, nth));
            killed += usize::from(in_creation);
            assert_eq!(place.ok(&["scan", "db"]), before, "{call} {nth}");
            if place.ok(&["branch", "list", "db"]).contains("fix") {
                created += usize::from(in_creation);
            } else {
                assert!(in_creation, "{call} {nth}: a branch that was created is not there");
                place.ok(&["branch", "create", "db", "fix"]);
            }
            assert_eq!(place.ok(&["scan", "db", "--branch", "fix"]), before, "{call} {nth}");
            place.ok(&["put", "db", "late", "changed", "--branch", "fix"]);
            place.ok(&["put", "db", "new", "value", "--branch", "fix"]);
            let after = place.ok(&["scan", "db", "--branch", "fix"]);
            let in_merge = run_and_kill(&place, &["branch", "merge", "db", "fix"], (call, nth));
            killed += usize::from(in_merge);
            let found = place.ok(&["scan", "db"]);
            let is_merged = found == after;
            assert!(is_merged || found == before && in_merge, "{call} {nth}");
            merged += usize::from(is_merged && in_merge);
            // The base moved with the merge, or neither did.
            let again = place.ok(&["branch", "merge", "db", "fix"]);
            let keys = if is_merged { "0 keys" } else { "2 keys" };
            assert_eq!(again, format!("merged fix into main: {keys}\n"), "{call} {nth}");
            place.ok(&["check", "db"]);
            place.ok(&["branch", "drop", "db", "fix"]);
            place.ok(&["delete", "db", "new"]);
            place.ok(&["put", "db", "late", "value"]);
            if !in_creation && !in_merge {
                break;
            }
        }
    }
    eprintln!("{killed} were killed, {created} branches and {merged} merges were whole by then");
    assert!(
        sweep.has_enough(killed, 20) && sweep.has_met(created) && sweep.has_met(merged),
        "{killed}, {created}, {merged}"
    );
}

/// The calls by which moves between the tiers change what is on disk.
const TIER_CALLS: [&str; 5] = ["openat", "write", "fdatasync", "fsync", "unlinkat"];

#[test]
fn a_freeze_or_thaw_that_is_killed_loses_nothing() {
    if !has_strace() {
        return;
    }
    let sweep = Sweep::every(EVERY);
    let mut place = Place::new();
    place.import_and_kill("synced", 20, Duration::ZERO);
    place.ok(&["compact", "db"]);
    place.ok(&["freeze", "db", "default", "--cold", "cold"]);
    let expected = place.ok(&["scan", "db"]);
    let (mut killed, mut ended) = (0, 0);
    for call in TIER_CALLS {
        for nth in sweep.of(1..=60) {
            let mut is_killed = false;
            for verb in ["thaw", "freeze"] {
                is_killed |= run_and_kill(&place, &[verb, "db", "default"], (call, nth));
                assert_eq!(place.ok(&["scan", "db"]), expected, "{verb}: {call} {nth}");
                assert!(place.ok(&["check", "db"]).starts_with("ok: "), "{verb}: {call} {nth}");
            }
            killed += usize::from(is_killed);
            if !is_killed {
                ended += 1;
                break;
            }
        }
    }
    // An opening removes what the kills have left.
    place.ok(&["thaw", "db", "default"]);
    let left = fs::read_dir(place.path("cold")).expect("it is there");
    let names = left.map(|entry| entry.expect("it can be listed").file_name());
    assert!(!names.into_iter().any(|name| name.to_string_lossy().ends_with(".table")));
    eprintln!("{killed} pairs of moves were killed");
    assert!(sweep.has_enough(killed, 20) && ended > 2, "{killed} killed, {ended} ended");
}

#[test]
fn a_floor_that_is_killed_is_the_old_one_or_the_new_one() {
    if !has_strace() {
        return;
    }
    let sweep = Sweep::every(EVERY);
    let mut place = Place::new();
    place.import_and_kill("synced", 20, Duration::ZERO);
    place.ok(&["retain", "db", "--from", "now"]);
    let (mut killed, mut changed, mut ended) = (0, 0, 0);
    for call in CLONE_CALLS {
        for nth in sweep.of(1..=40) {
            place.ok(&["put", "db", "late", "value"]);
            let before = place.ok(&["retain", "db"]);
            let newest = before.trim_end().rsplit(' ').next().unwrap();
            let expected = format!("floor  {newest}\nnewest {newest}\n");
            let was_killed = run_and_kill(&place, &["retain", "db", "--from", "now"], (call, nth));
            killed += usize::from(was_killed);
            let after = place.ok(&["retain", "db"]);
            changed += usize::from(was_killed && after == expected);
            assert!(after == expected || was_killed && after == before, "{call} {nth}: {after}");
            place.ok(&["get", "db", "late", "--at", newest]);
            if !was_killed {
                ended += 1;
                break;
            }
        }
    }
    eprintln!("{killed} changes of the floor were killed, {changed} of them were whole by then");
    assert!(
        sweep.has_enough(killed, 10) && sweep.has_met(changed) && ended > 3,
        "{killed}, {changed} whole, {ended} ended"
    );
}

/// The calls by which a backup and a restore change what is on disk.
const BACKUP_CALLS: [&str; 6] = ["openat", "renameat", "write", "fdatasync", "fsync", "unlinkat"];

/// What a database shows that is made of a backup.
fn restored(place: &Place, arguments: &[&str]) -> String {
    place.ok(&[&["restore", "backups", "restored"], arguments].concat());
    let text = place.ok(&["scan", "restored"]);
    fs::remove_dir_all(place.path("restored")).expect("it can be removed");
    text
}

/// Makes `to` a copy of the files in the directory `from`.
fn copy_files(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    fs::create_dir(to).expect("it does not exist any more");
    for entry in fs::read_dir(from).expect("it is there") {
        let path = entry.expect("it can be listed").path();
        fs::copy(&path, to.join(path.file_name().expect("it has a name"))).expect("it is copied");
    }
}

#[test]
fn a_backup_that_is_killed_leaves_the_earlier_ones() {
    if !has_strace() {
        return;
    }
    let sweep = Sweep::every(EVERY);
    let mut place = Place::new();
    place.import_and_kill("synced", 20, Duration::ZERO);
    let first = place.ok(&["scan", "db"]);
    place.ok(&["backup", "create", "db", "before"]);
    place.ok(&["put", "db", "late", "value"]);
    place.ok(&["compact", "db"]);
    let second = place.ok(&["scan", "db"]);
    let (mut killed, mut whole, mut ended) = (0, 0, 0);
    for call in BACKUP_CALLS {
        for nth in sweep.of(1..=60) {
            copy_files(&place.path("before"), &place.path("backups"));
            let was_killed =
                run_and_kill(&place, &["backup", "create", "db", "backups"], (call, nth));
            killed += usize::from(was_killed);
            let count = place.ok(&["backup", "list", "backups"]).lines().count();
            assert!(restored(&place, &["--at", "1"]) == first, "{call} {nth}");
            if count == 2 {
                assert!(restored(&place, &[]) == second, "{call} {nth}");
                whole += usize::from(was_killed);
            }
            // The next one goes on.
            place.ok(&["backup", "create", "db", "backups"]);
            assert!(restored(&place, &[]) == second, "{call} {nth}");
            assert!(place.ok(&["backup", "verify", "backups"]).starts_with("ok: "));
            if !was_killed {
                assert_eq!(count, 2, "{call} {nth}");
                ended += 1;
                break;
            }
        }
    }
    eprintln!("{killed} backups were killed, {whole} of them were whole by then");
    assert!(
        sweep.has_enough(killed, 30) && sweep.has_met(whole) && ended > 3,
        "{killed} killed, {whole} whole, {ended} ended"
    );
}

#[test]
fn a_restore_that_is_killed_is_whole_or_not_there() {
    if !has_strace() {
        return;
    }
    let sweep = Sweep::every(EVERY);
    let mut place = Place::new();
    place.import_and_kill("synced", 20, Duration::ZERO);
    place.ok(&["backup", "create", "db", "backups"]);
    let expected = place.ok(&["scan", "db"]);
    let (mut killed, mut ended) = (0, 0);
    for call in BACKUP_CALLS {
        for nth in sweep.of(1..=40) {
            let was_killed = run_and_kill(&place, &["restore", "backups", "new"], (call, nth));
            killed += usize::from(was_killed);
            if place.path("new").exists() {
                assert!(place.ok(&["scan", "new"]) == expected, "{call} {nth}");
                place.ok(&["check", "new"]);
                fs::remove_dir_all(place.path("new")).expect("it can be removed");
            }
            if !was_killed {
                ended += 1;
                break;
            }
        }
    }
    assert!(sweep.has_enough(killed, 15) && ended > 3, "{killed} killed, {ended} ended");
    // The next one replaces what they have left behind.
    assert!(restored(&place, &[]) == expected);
}

/// Whether the archive has its name; then it must be whole.
fn has_archive(place: &Place, expected: &str, what: &str) -> bool {
    let is_there = place.path("archives/a.siltar").exists();
    if is_there {
        let ok = place.ok(&["archive", "verify", "archives/a.siltar"]);
        assert!(ok.starts_with("ok: "), "{what}: {ok}");
        assert!(place.ok(&["archive", "scan", "archives/a.siltar"]) == expected, "{what}");
    }
    is_there
}

#[test]
fn an_export_that_is_killed_is_whole_or_not_there() {
    if !has_strace() {
        return;
    }
    let sweep = Sweep::every(EVERY);
    let mut place = Place::new();
    place.import_and_kill("synced", 20, Duration::ZERO);
    let expected = place.ok(&["scan", "db"]);
    let (mut killed, mut whole, mut ended) = (0, 0, 0);
    for call in BACKUP_CALLS {
        for nth in sweep.of(1..=40) {
            let _ = fs::remove_dir_all(place.path("archives"));
            fs::create_dir(place.path("archives")).expect("it can be made");
            let verb = ["archive", "create", "db", "archives/a.siltar"];
            let was_killed = run_and_kill(&place, &verb, (call, nth));
            let what = format!("{call} {nth}");
            let is_there = has_archive(&place, &expected, &what);
            killed += usize::from(was_killed);
            whole += usize::from(was_killed && is_there);
            // What is left goes, and nothing else.
            place.ok(&["archive", "gc", "archives"]);
            let left = fs::read_dir(place.path("archives")).expect("it can be read").count();
            assert_eq!(left, usize::from(is_there), "{what}");
            if !is_there {
                place.ok(&verb);
                assert!(has_archive(&place, &expected, &what), "{what}");
            }
            if !was_killed {
                assert!(is_there, "{what}");
                ended += 1;
                break;
            }
        }
    }
    eprintln!("{killed} exports were killed, {whole} archives were whole by then");
    assert!(
        sweep.has_enough(killed, 15) && sweep.has_met(whole) && ended > 3,
        "{killed} killed, {whole} whole, {ended} ended"
    );
}

#[test]
fn an_import_of_an_archive_that_is_killed_is_whole_or_not_there() {
    if !has_strace() {
        return;
    }
    let sweep = Sweep::every(EVERY);
    let mut place = Place::new();
    place.import_and_kill("synced", 20, Duration::ZERO);
    let expected = place.ok(&["scan", "db"]);
    place.ok(&["archive", "create", "db", "a.siltar"]);
    place.ok(&["put", "other", "mine", "value"]);
    let (mut killed, mut whole, mut ended) = (0, 0, 0);
    for call in BACKUP_CALLS {
        for nth in sweep.of(1..=40) {
            copy_files(&place.path("other"), &place.path("target"));
            let verb = ["archive", "import", "target", "a.siltar", "--family", "default=air"];
            let was_killed = run_and_kill(&place, &verb, (call, nth));
            killed += usize::from(was_killed);
            let is_there = place.ok(&["families", "target"]) == "air\ndefault\n";
            if is_there {
                assert!(
                    place.ok(&["scan", "target", "--family", "air"]) == expected,
                    "{call} {nth}"
                );
                whole += usize::from(was_killed);
            } else {
                assert_eq!(place.ok(&["families", "target"]), "default\n", "{call} {nth}");
                place.ok(&verb);
            }
            assert_eq!(place.ok(&["scan", "target"]), "mine\tvalue\n", "{call} {nth}");
            assert!(place.ok(&["check", "target"]).starts_with("ok: "), "{call} {nth}");
            if !was_killed {
                assert!(is_there, "{call} {nth}");
                ended += 1;
                break;
            }
        }
    }
    eprintln!("{killed} imports were killed, {whole} of them were whole by then");
    assert!(
        sweep.has_enough(killed, 20) && sweep.has_met(whole) && ended > 3,
        "{killed} killed, {whole} whole, {ended} ended"
    );
}
