//! Workers that leave a database by a kill, simulated by a shell.

use super::*;
use crate::{
    job::{Job, Op},
    trial,
};

/// The end of a worker that sends its first line, reads its request, and runs a script.
fn ended(script: &str) -> Ended {
    ended_within(script, Limits::default())
}

fn ended_within(script: &str, limits: Limits) -> Ended {
    let hello = r#"{"hello": {"protocol": 2, "engines": []}}"#;
    ended_of(format!("echo '{hello}'; read request; {script}"), limits)
}

fn ended_of(script: String, limits: Limits) -> Ended {
    ended_by(script, limits, 1000)
}

/// The end of a worker that runs a script, with a job of so many keys.
fn ended_by(script: String, limits: Limits, keys: u32) -> Ended {
    let arguments = vec!["-c".to_owned(), script];
    let worker = WorkerBinary { program: "sh".into(), arguments, engines: Vec::new() };
    let mut job: Job = trial::job(Op::Open, Path::new("nowhere"));
    job.work.keys = keys;
    let request = Request::Leave(Box::new(job));
    let interrupted = AtomicBool::new(false);
    Child::start(&worker).unwrap().work(&request, &limits, &interrupted, |_| ())
}

fn failure(ended: Ended) -> Failure {
    match ended {
        Ended::Failed(failure) => failure,
        _ => panic!("it went through"),
    }
}

#[test]
fn a_worker_that_leaves_a_database_is_killed() {
    // The end of its input would end its wait.
    let waits = r#"
        if timeout 0.3 cat; then
            echo '{"failed": {"kind": "error", "message": "its input ended"}}'
        else
            echo '{"left": {"acknowledged": 7}}'; read end
        fi
    "#;
    let left = match ended(waits) {
        Ended::Left(left) => left,
        other => panic!("{}", failure(other)),
    };
    assert_eq!(left, Left { acknowledged: 7 });
}

#[test]
fn a_worker_that_ended_by_itself_was_not_killed() {
    // Its line comes late, from a child process.
    let ends = r#"(sleep 0.3; echo '{"left": {"acknowledged": 7}}') & exit 0"#;
    assert_eq!(failure(ended(ends)), Failure::error("the worker ended before it was killed"));
}

#[test]
fn a_worker_that_crashes_before_it_leaves_anything_says_how() {
    let message = failure(ended("kill -6 $$")).message;
    assert!(message.contains("was ended by signal 6"), "{message}");
}

#[test]
fn a_worker_that_goes_on_for_too_long_is_cut_off() {
    let works = r#"
        for done in $(seq 200); do
            echo '{"progress": {"phase": "read", "done": '$done', "total": 200, "second_ops": 1}}'
            sleep 0.05
        done
    "#;
    let silence = Duration::from_secs(5);
    let limits = Limits { total: Duration::from_secs_f64(0.5), silence };
    let wanted = Failure::capped("the whole row was cut off after 0.5 s. phase=read");
    assert_eq!(failure(ended_within(works, limits)), wanted);
}

#[test]
fn a_worker_that_draws_no_plan_is_told_it_after_its_request() {
    let mut plan = Vec::new();
    let work = trial::job(Op::Open, Path::new("nowhere")).work;
    told::write(&work, &mut plan).unwrap();
    let reads = format!(
        r#"
        echo '{{"hello": {{"protocol": 2, "engines": [], "plans": "told"}}}}'
        IFS= read -r request; found=$(head -c {} | wc -c)
        echo '{{"survived": {{"class": "power", "found": '$found', "beyond": 0}}}}'
        "#,
        plan.len()
    );
    match ended_of(reads, Limits::default()) {
        Ended::Survived(survived) => assert_eq!(survived.found, plan.len() as u64),
        other => panic!("{}", failure(other)),
    }
}

#[test]
fn a_worker_that_does_not_read_its_plan_is_given_up_in_time() {
    // The plan of the job is longer than what a pipe takes.
    let hangs = r#"
        echo '{"hello": {"protocol": 2, "engines": [], "plans": "told"}}'
        exec sleep 60
    "#;
    let limits = Limits { silence: Duration::from_secs_f64(0.5), ..Limits::default() };
    let message = failure(ended_by(hangs.to_owned(), limits, 100_000)).message;
    assert_eq!(message, "hung for 0.5 s. phase=start");
}
