//! A queue of typed jobs with several workers, retries, and a list of jobs that failed too often.
//!
//! `cargo run --example jobs`

use siltdb::{Db, Key, Result, TypedFamily, Value};
use std::{cmp::Reverse, error::Error, fmt, io::Write, thread};

/// Attempts after which a job is given up.
const ATTEMPTS: u32 = 3;

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
struct Job {
    task: String,
    attempts: u32,
}

// With the feature `serde`, `Postcard<Job>` is a value for every type that serde serializes.
impl Value for Job {
    fn pack(&self, out: &mut Vec<u8>) -> Result<()> {
        self.attempts.pack(out)?;
        self.task.pack(out)
    }

    fn unpack(from: &mut &[u8]) -> Result<Self> {
        Ok(Self { attempts: u32::unpack(from)?, task: String::unpack(from)? })
    }
}

/// What can go wrong with a queue: an error of the program, and those of the database.
#[derive(Debug)]
enum QueueError {
    /// No worker has claimed a job of this id.
    NotClaimed(u64),
    Storage(siltdb::Error),
}

// With this, `?` works on the calls of the database, and `Db::update` returns `QueueError`.
impl From<siltdb::Error> for QueueError {
    fn from(error: siltdb::Error) -> Self {
        Self::Storage(error)
    }
}

impl fmt::Display for QueueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotClaimed(id) => write!(f, "job {id} was not claimed"),
            Self::Storage(error) => error.fmt(f),
        }
    }
}

impl Error for QueueError {}

/// The greatest priority first, then the order of arrival.
type Waiting = (Reverse<u8>, u64);

#[derive(Clone)]
struct Queue {
    db: Db,
    waiting: TypedFamily<Waiting, Job>,
    claimed: TypedFamily<u64, Job>,
    given_up: TypedFamily<u64, Job>,
    ids: TypedFamily<String, u64>,
}

impl Queue {
    fn open(db: &Db) -> Result<Self> {
        Ok(Self {
            db: db.clone(),
            waiting: db.typed("jobs.waiting")?,
            claimed: db.typed("jobs.claimed")?,
            given_up: db.typed("jobs.given up")?,
            ids: db.typed("jobs.ids")?,
        })
    }

    fn add(&self, priority: u8, task: &str) -> Result<u64> {
        let id = self.ids.next_id("job")?;
        self.waiting.put(&(Reverse(priority), id), &Job { task: task.to_owned(), attempts: 0 })?;
        Ok(id)
    }

    /// Claims the next job. No other worker gets it, also after a crash.
    fn claim(&self) -> Result<Option<(u64, Job)>, QueueError> {
        self.db.update(|tx| {
            let next = self.waiting.in_transaction(tx)?.pop_first()?;
            let Some(((_, id), job)) = next else { return Ok(None) };
            let job = Job { attempts: job.attempts + 1, ..job };
            self.claimed.in_transaction(tx)?.put(&id, &job)?;
            Ok(Some((id, job)))
        })
    }

    fn finish(&self, id: u64) -> Result<(), QueueError> {
        self.claimed.take(&id)?.ok_or(QueueError::NotClaimed(id))?;
        Ok(())
    }

    /// Puts a job that failed back at the end, or gives it up.
    fn fail(&self, id: u64) -> Result<(), QueueError> {
        self.db.update(|tx| {
            let job = self.claimed.in_transaction(tx)?.take(&id)?;
            let job = job.ok_or(QueueError::NotClaimed(id))?;
            if job.attempts < ATTEMPTS {
                self.waiting.in_transaction(tx)?.put(&(Reverse(0), id), &job)?;
            } else {
                self.given_up.in_transaction(tx)?.put(&id, &job)?;
            }
            Ok(())
        })
    }

    /// Makes claimed jobs wait again, at the start of a program whose workers are gone.
    fn reclaim(&self) -> Result<u64, QueueError> {
        self.db.update(|tx| {
            let (claimed, waiting) =
                (self.claimed.in_transaction(tx)?, self.waiting.in_transaction(tx)?);
            let mut count = 0;
            while let Some((id, job)) = claimed.pop_first()? {
                waiting.put(&(Reverse(0), id), &job)?;
                count += 1;
            }
            Ok(count)
        })
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::temp_dir().join(format!("siltdb-jobs-{}", std::process::id()));
    let queue = Queue::open(&Db::open(&dir)?)?;
    assert_eq!(queue.reclaim()?, 0);
    let broken = queue.add(0, "repair the moon")?;
    for number in 0..40 {
        queue.add(number % 3, &format!("letter {number}"))?;
    }

    // A worker that ends in the middle of its job loses none.
    let (first, job) = queue.claim()?.expect("jobs wait");
    assert_eq!(job, Job { task: "letter 2".to_owned(), attempts: 1 });
    assert_eq!(queue.reclaim()?, 1);

    let work = |queue: &Queue| -> Result<Vec<String>, QueueError> {
        let mut done = Vec::new();
        while let Some((id, job)) = queue.claim()? {
            match id == broken {
                true => queue.fail(id)?,
                false => {
                    queue.finish(id)?;
                    done.push(job.task);
                }
            }
        }
        Ok(done)
    };
    let mut done = Vec::new();
    for tasks in thread::scope(|scope| {
        let workers: Vec<_> = (0..4).map(|_| scope.spawn(|| work(&queue))).collect();
        workers.into_iter().map(|worker| worker.join().expect("no panic")).collect::<Vec<_>>()
    }) {
        done.extend(tasks?);
    }
    done.sort();
    done.dedup();
    let given_up = queue.given_up.get(&broken)?.expect("it failed three times");
    writeln!(std::io::stdout(), "{} letters are written", done.len())?;
    writeln!(std::io::stdout(), "given up after {}: {}", given_up.attempts, given_up.task)?;
    assert_eq!((done.len(), given_up.attempts), (40, ATTEMPTS));
    assert!(matches!(queue.finish(first), Err(QueueError::NotClaimed(_))));
    assert!(queue.waiting.is_empty()? && queue.claimed.is_empty()?);
    assert_eq!(<Waiting as Key>::order_name(), "(reverse(u8),u64)");
    drop(queue);
    Db::destroy(&dir)?;
    Ok(())
}
