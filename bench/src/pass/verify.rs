//! Compares the results of an engine in full with the model.
//!
//! It is not timed, and ends at the first difference.

use super::data::Data;
use crate::{
    engine::{Direction, Engine, Failure, Result, Session},
    expect::{Live, Own},
    job::Verified,
    measure::Pace,
    plan::{Plan, Step, Thread},
};

/// Runs a plan and compares everything that it reads.
///
/// # Errors
/// Errors of the engine; `Verification` at the first difference.
pub fn steps<S: Session>(
    session: &mut S,
    thread: Thread,
    plan: &Plan,
    data: &Data,
    pace: &Pace,
    (own, live): (&mut Own<'_>, &Live),
) -> Result<Verified> {
    let mut verified = Verified::default();
    let mut data = data.clone();
    let mut batch = data.batch();
    let mut pending = Vec::new();
    session.refresh()?;
    for (index, &id) in plan.ids.iter().enumerate() {
        // A verification is never cut off, so the result is ignored.
        let _ = pace.goes_on(thread.index, index as u64);
        data.select(session, id)?;
        let step = plan.step(index);
        match step {
            Step::Get | Step::Modify => {
                let version = own.committed(id);
                verified.add(get(session, &mut data, id, version)?);
            }
            Step::Miss => verified.add(miss(session, &mut data, id)?),
            Step::Seek => verified.add(seek(session, &mut data, live, id)?),
            Step::Range => {
                let expected = live.from(id, plan.range(index));
                let limit = plan.range(index);
                let key = data.keys.key(id).to_vec();
                let walk = Walk { from: Some(&key), limit, direction: Direction::Forward };
                verified.add(scan(session, &mut data, &walk, expected.iter().copied())?);
            }
            Step::Put | Step::Delete | Step::DeleteRange => {}
        }
        match step {
            Step::Put | Step::Modify => pending.push((id, plan.version(index))),
            Step::Delete => pending.push((id, 0)),
            _ => {}
        }
        let is_last = index + 1 == plan.ids.len();
        if pending.len() >= plan.batch as usize || (is_last && !pending.is_empty()) {
            for &(id, version) in &pending {
                batch.push(crate::engine::Pending { id, version });
            }
            session.write(&mut batch)?;
            batch.clear();
            own.apply(&mut pending);
            session.refresh()?;
        }
    }
    Ok(verified)
}

/// Compares the value of a key with the expected version; 0 stands for an absent one.
fn get<S: Session>(session: &mut S, data: &mut Data, id: u32, version: u32) -> Result<Verified> {
    let mut same = version == 0;
    let key = data.keys.key(id);
    let values = &mut data.values;
    let found =
        session.get(key, |value| same = version != 0 && value == values.value(id, version))?;
    match (found, same) {
        (found, true) if found == (version != 0) => Ok(Verified { expected: 1, checked: 1 }),
        (true, _) if version == 0 => Err(wrong("get", id, "a value of a key that was deleted")),
        (false, _) => Err(wrong("get", id, "nothing")),
        _ => Err(wrong("get", id, "another value than was written last")),
    }
}

fn miss<S: Session>(session: &mut S, data: &mut Data, id: u32) -> Result<Verified> {
    if session.get(data.keys.missing(id), |_| {})? {
        return Err(wrong("get-miss", id, "a value of a key that never was"));
    }
    Ok(Verified { expected: 1, checked: 1 })
}

fn seek<S: Session>(session: &mut S, data: &mut Data, live: &Live, id: u32) -> Result<Verified> {
    let target = data.keys.key(id).to_vec();
    let mut same = false;
    let expected = live.from(id, 1).first().copied();
    let found = session.seek(&target, |key, value| {
        same = expected.is_some_and(|(id, version)| {
            key == data.keys.key(id) && value == data.values.value(id, version)
        });
    })?;
    match (found, expected) {
        (true, Some(_)) if same => Ok(Verified { expected: 1, checked: 1 }),
        (false, None) => Ok(Verified { expected: 1, checked: 1 }),
        (true, _) => Err(wrong("seek", id, "another entry than the next")),
        (false, _) => Err(wrong("seek", id, "nothing")),
    }
}

/// A scan to compare.
pub struct Walk<'a> {
    /// The first key.
    pub from: Option<&'a [u8]>,
    /// The largest number of entries.
    pub limit: u64,
    /// The direction.
    pub direction: Direction,
}

/// Compares every entry of a scan, their order and their number.
///
/// # Errors
/// Errors of the engine; `Verification`.
pub fn scan<S: Session>(
    session: &mut S,
    data: &mut Data,
    walk: &Walk<'_>,
    expected: impl Iterator<Item = (u32, u32)>,
) -> Result<Verified> {
    let mut expected = expected.peekable();
    let (mut checked, mut shown, mut wrong_at) = (0_u64, 0_u64, None);
    let said = session.scan(walk.from, walk.limit, walk.direction, |key, value| {
        let next = expected.next();
        let same = next.is_some_and(|(id, version)| {
            key == data.keys.key(id) && value == data.values.value(id, version)
        });
        if same {
            checked += 1;
        } else if wrong_at.is_none() {
            wrong_at = Some((shown, next));
        }
        shown += 1;
    })?;
    if let Some((position, next)) = wrong_at {
        let wanted = next.map_or("the end".to_owned(), |(id, _)| format!("id {id}"));
        let message = format!("scan: another entry than {wanted}. position={position}");
        return Err(Failure::verification(message));
    }
    if said != shown {
        let message = format!("scan: counted other entries. said={said}, shown={shown}");
        return Err(Failure::verification(message));
    }
    let missing = expected.count() as u64;
    if missing > 0 {
        let wanted = shown + missing;
        let message = format!("scan: entries are missing. expected={wanted}, found={shown}");
        return Err(Failure::verification(message));
    }
    Ok(Verified { expected: checked, checked })
}

/// Compares the whole contents of a database. Of `ids` ids the absent ones are checked, too.
///
/// # Errors
/// Errors of the engine; `Verification`.
pub fn holds<E: Engine>(engine: &E, data: &Data, live: &Live, ids: u32) -> Result<Verified> {
    let mut data = data.clone();
    let mut session = engine.session()?;
    let mut verified = Verified::default();
    for family in 0..data.families {
        data.select(&mut session, family)?;
        session.refresh()?;
        let families = data.families;
        let expected = live.entries().iter().copied().filter(|(id, _)| id % families == family);
        let walk = Walk { from: None, limit: u64::MAX, direction: Direction::Forward };
        verified.add(scan(&mut session, &mut data, &walk, expected)?);
    }
    verified.add(Verified::all(u64::from(ids) - live.len() as u64));
    Ok(verified)
}

fn wrong(what: &str, id: u32, found: &str) -> Failure {
    Failure::verification(format!("{what}: found {found}. id={id}"))
}
