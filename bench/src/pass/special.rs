//! Measured phases that are not made of steps: scans, queues, range deletes, openings, compactions.
//!
//! Each reports its operations; a separate `expected` function gives the sum that it must have
//! read.

use super::{
    data::Data,
    steps::{Outcome, Probe, on_threads},
    store,
    verify::{self, Walk},
};
use crate::{
    engine::{Config, Direction, Engine, Failure, Result, Session},
    expect::{Live, Model, Tally},
    job::{Op, Verified, Work},
    keys::KeyMaker,
    measure::{self, Pace},
    order::draw,
    plan::Thread,
};
use std::{ops::Range, path::Path, time::Instant};

/// The version of values that a queue puts; seeds have lower versions.
const QUEUE_VERSION: u32 = u32::MAX;

/// The part of all entries that a thread scans, by position.
fn part(live: &Live, thread: Thread) -> Range<usize> {
    let at = |index: u32| live.len() * index as usize / thread.count as usize;
    at(thread.index)..at(thread.index + 1)
}

/// Number of times that a thread scans its part.
fn rounds(work: &Work, live: &Live) -> u64 {
    work.run.ops.div_ceil((live.len() as u64).max(1)).max(1)
}

fn direction(work: &Work) -> Direction {
    match work.run.op {
        Op::ScanReverse => Direction::Reverse,
        _ => Direction::Forward,
    }
}

/// The start of a thread's scan and the number of entries that it may read. The last part has no
/// end, so that an extra entry is noticed.
fn bounds(live: &Live, thread: Thread, direction: Direction) -> (Option<u32>, u64) {
    let part = part(live, thread);
    let (is_first, is_last) = match direction {
        Direction::Forward => (thread.index == 0, thread.index + 1 == thread.count),
        Direction::Reverse => (thread.index + 1 == thread.count, thread.index == 0),
    };
    let begin = match direction {
        Direction::Forward => part.start,
        Direction::Reverse => part.end.saturating_sub(1),
    };
    let from = live.entries().get(begin).map(|(id, _)| *id).filter(|_| !is_first);
    (from, if is_last { u64::MAX } else { part.len() as u64 })
}

/// Scans everything; each thread scans its part.
///
/// # Errors
/// Errors of the engine.
pub fn scan<E: Engine, P: Probe>(
    engine: &E,
    work: &Work,
    data: &Data,
    live: &Live,
    pace: &Pace,
    probes: Vec<P>,
) -> Result<(Vec<(Outcome, P)>, f64)> {
    on_threads(engine, probes, |thread, session, mut probe| {
        let mut keys = data.keys.clone();
        let direction = direction(work);
        let (from, limit) = bounds(live, thread, direction);
        let (mut tally, mut done) = (Tally::default(), 0);
        session.refresh()?;
        probe.begin();
        while done < rounds(work, live) && pace.goes_on(thread.index, tally.found) {
            let from = from.map(|id| keys.key(id));
            let seen = |key: &[u8], value: &[u8]| tally.add_entry(key, value);
            probe.call(|| match work.run.op {
                Op::Iterate => session.iterate(from, limit, seen),
                _ => session.scan(from, limit, direction, seen),
            })?;
            done += 1;
        }
        let context_switches = measure::own_context_switches();
        Ok((Outcome { tally, done, retries: 0, context_switches }, probe))
    })
}

/// The expected sum of a thread's scans.
#[must_use]
pub fn expected_scan(work: &Work, live: &Live, thread: Thread, done: u64) -> Tally {
    let part = part(live, thread);
    let once = live.between(part.start, part.end, work.value_bytes);
    Tally {
        sum: once.sum.wrapping_mul(done),
        found: once.found * done,
        value_bytes: once.value_bytes * done,
    }
}

/// Scans everything once and compares it.
///
/// # Errors
/// Errors of the engine; `Verification`.
pub fn verify_scan<E: Engine>(
    engine: &E,
    work: &Work,
    data: &Data,
    live: &Live,
) -> Result<Verified> {
    let threads = vec![(); work.threads as usize];
    let (each, _) = on_threads(engine, threads, |thread, session, ()| {
        let mut data = data.clone();
        let direction = direction(work);
        let (from, limit) = bounds(live, thread, direction);
        let from = from.map(|id| data.keys.key(id).to_vec());
        let walk = Walk { from: from.as_deref(), limit, direction };
        let part = &live.entries()[part(live, thread)];
        session.refresh()?;
        match direction {
            Direction::Forward => verify::scan(session, &mut data, &walk, part.iter().copied()),
            Direction::Reverse => {
                verify::scan(session, &mut data, &walk, part.iter().rev().copied())
            }
        }
    })?;
    let mut verified = Verified::default();
    each.into_iter().for_each(|one| verified.add(one));
    Ok(verified)
}

/// Puts at the end, finds the first key from the very beginning, deletes it.
///
/// # Errors
/// Errors of the engine.
pub fn queue<E: Engine, P: Probe>(
    engine: &E,
    work: &Work,
    data: &Data,
    pace: &Pace,
    probes: Vec<P>,
) -> Result<(Vec<(Outcome, P)>, f64)> {
    if work.threads != 1 {
        return Err(Failure::error("a queue has one thread"));
    }
    on_threads(engine, probes, |thread, session, mut probe| {
        let mut data = data.clone();
        let mut tally = Tally::default();
        let mut done = 0;
        let beginning = data.keys.key(0).to_vec();
        probe.begin();
        while done < work.run.ops && pace.goes_on(thread.index, done) {
            probe.next();
            let (tail, head) = (work.keys + done as u32, done as u32);
            let value = data.values.value(tail, QUEUE_VERSION);
            let keys = &mut data.keys;
            let found = probe.call(|| {
                session.put(keys.key(tail), value)?;
                session.refresh()?;
                let found = session.seek(&beginning, |key, value| tally.add_entry(key, value))?;
                session.delete(keys.key(head))?;
                Ok::<_, Failure>(found)
            })?;
            if !found {
                tally.miss();
            }
            done += 1;
        }
        let context_switches = measure::own_context_switches();
        Ok((Outcome { tally, done, retries: 0, context_switches }, probe))
    })
}

/// The expected sum of a queue's reads; applies its writes to the model.
pub fn expected_queue(work: &Work, model: &mut Model, done: u64) -> Tally {
    let mut tally = Tally::default();
    let mut keys = KeyMaker::new(work.key_style, work.key_bytes);
    for head in 0..done as u32 {
        model.set(work.keys + head, QUEUE_VERSION);
        model.get(head, &mut tally);
        if model.version(head) != 0 {
            tally.add_key(keys.key(head));
        }
        model.set(head, 0);
    }
    tally
}

/// The first ids of the ranges that a thread deletes; the ranges do not overlap.
#[must_use]
pub fn range_starts(work: &Work, thread: Thread) -> Vec<u32> {
    let slots = (work.keys / work.run.range).max(1);
    let count = work.run.ops.min(u64::from(slots));
    let starts = draw(work.run.order, slots, count, 0x7a11);
    let own = starts.into_iter().skip(thread.index as usize).step_by(thread.count as usize);
    own.map(|slot| slot * work.run.range).collect()
}

/// The end of a range that begins at an id.
fn range_end(work: &Work, start: u32) -> u32 {
    start.saturating_add(work.run.range)
}

/// Deletes ranges that do not overlap.
///
/// # Errors
/// Errors of the engine.
pub fn range_delete<E: Engine, P: Probe>(
    engine: &E,
    work: &Work,
    data: &Data,
    pace: &Pace,
    probes: Vec<P>,
) -> Result<(Vec<(Outcome, P)>, f64)> {
    let starts: Vec<_> = Thread::all(work.threads).map(|own| range_starts(work, own)).collect();
    on_threads(engine, probes, |thread, session, mut probe| {
        let (mut from, mut to) = (data.keys.clone(), data.keys.clone());
        let mut done = 0;
        probe.begin();
        for &start in &starts[thread.index as usize] {
            if !pace.goes_on(thread.index, done) {
                break;
            }
            probe.next();
            let (from, to) = (from.key(start), to.key(range_end(work, start)));
            probe.call(|| session.delete_range(from, to))?;
            done += 1;
        }
        let context_switches = measure::own_context_switches();
        Ok((Outcome { tally: Tally::default(), done, retries: 0, context_switches }, probe))
    })
}

/// Applies the range deletes of a thread to the model.
pub fn expected_range_delete(work: &Work, model: &mut Model, thread: Thread, done: u64) {
    for start in range_starts(work, thread).into_iter().take(done as usize) {
        for id in start..range_end(work, start).min(work.keys) {
            model.set(id, 0);
        }
    }
}

/// The database that a row opens repeatedly.
#[derive(Clone, Copy, Debug)]
pub struct Door<'a> {
    /// Its directory.
    pub dir: &'a Path,
    /// Its configuration.
    pub config: &'a Config,
    /// The files that each opening finds.
    pub finds: Finds<'a>,
}

/// The files that an opening finds.
#[derive(Clone, Copy, Debug)]
pub enum Finds<'a> {
    /// Those that the last close left.
    AsLeft,
    /// The same, dropped from the page cache.
    Cold,
    /// A fresh copy of the database of a store.
    CopyOf(&'a Path),
}

/// Closes, opens and reads a key.
///
/// # Errors
/// Errors of the engine.
pub fn open<E: Engine, P: Probe>(
    engine: E,
    door: Door<'_>,
    work: &Work,
    data: &Data,
    pace: &Pace,
    mut probe: P,
) -> Result<(E, Outcome, P, f64)> {
    let mut data = data.clone();
    let mut engine = Some(engine);
    let mut tally = Tally::default();
    let mut done = 0;
    let mut seconds = 0.0;
    probe.begin();
    while done < work.run.ops && pace.goes_on(0, done) {
        if let Some(engine) = engine.take() {
            engine.close()?;
        }
        match door.finds {
            Finds::AsLeft => {}
            Finds::Cold => {
                pace.aside(door.dir, || measure::drop_from_page_cache(door.dir))?;
            }
            Finds::CopyOf(store) => {
                pace.aside(door.dir, || store::copy_anew(door.dir, store))?;
            }
        }
        let key = data.keys.key(open_id(work, done));
        let clock = Instant::now();
        let opened = probe.call(|| {
            let opened = E::open(door.dir, door.config)?;
            let found = opened.session()?.get(key, |value| tally.add(value))?;
            if !found {
                tally.miss();
            }
            Ok::<_, Failure>(opened)
        })?;
        seconds += clock.elapsed().as_secs_f64();
        engine = Some(opened);
        done += 1;
    }
    let engine = engine.ok_or_else(|| Failure::error("nothing was opened"))?;
    // Its thread still runs, and is counted with all living threads.
    Ok((engine, Outcome { tally, done, ..Outcome::default() }, probe, seconds))
}

/// The id that is read after an opening.
fn open_id(work: &Work, index: u64) -> u32 {
    (crate::keys::splitmix64(index) % u64::from(work.keys)) as u32
}

/// The ids that were read after each opening.
pub fn opened_ids(work: &Work, done: u64) -> impl Iterator<Item = u32> {
    let work = work.clone();
    (0..done).map(move |index| open_id(&work, index))
}
