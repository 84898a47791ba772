//! Operations, drawn from a seed before the first of them runs.
//!
//! None depends on what earlier ones have shown. So each sublist of a list is one, too.

use crate::ordered::OrderedStep;
use siltdb::Isolation;
use siltdb_sim::{
    draw::Draw,
    keys::{KeyShape, operand, value},
};

/// The number of snapshots, of transactions and of iterators that may be open.
pub const SLOTS: usize = 3;

/// Longest value, in bytes.
const VALUE_BYTES_MAX: usize = 6000;

/// Keys from `from` on, before `to`.
#[derive(Clone, Debug)]
pub struct Span {
    pub from: Vec<u8>,
    pub to: Vec<u8>,
}

/// A family.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    /// One that always exists.
    Main(u8),
    /// A clone, if it was made.
    Clone(u8),
    /// That of the branch, if it was made.
    Branch(u8),
}

/// A write to one family.
#[derive(Clone, Debug)]
pub enum Write {
    Put(Vec<u8>, Vec<u8>),
    PutFor(Vec<u8>, Vec<u8>, u64),
    Delete(Vec<u8>),
    DeleteRange(Span),
    DeletePrefix(Vec<u8>),
    Merge(Vec<u8>, Vec<u8>),
}

/// What a read sees.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    Newest,
    Snapshot(usize),
    Transaction(usize),
    /// The state so many operations ago.
    Past(usize),
}

/// A neighbour of a key.
#[derive(Clone, Copy, Debug)]
pub enum Side {
    Lt,
    Le,
    Gt,
    Ge,
}

/// A move of a cursor.
#[derive(Clone, Debug)]
pub enum Move {
    First,
    Last,
    Seek(Vec<u8>),
    SeekForPrev(Vec<u8>),
    Next,
    Prev,
}

/// A read of one family.
#[derive(Clone, Debug)]
pub enum Look {
    Get(Vec<u8>),
    GetMany(Vec<Vec<u8>>),
    Contains(Vec<u8>),
    Neighbour(Side, Vec<u8>),
    Ends,
    Count(Span),
    Forward(Span, usize),
    Backward(Span, usize),
    Keys(Span),
    Prefix(Vec<u8>),
    Cursor(Vec<Move>),
}

/// A change of one key that reads it.
#[derive(Clone, Debug)]
pub enum Step {
    PutIfAbsent(Vec<u8>),
    /// Swaps the value that the key has, or one that it never has.
    Swap(Vec<u8>, bool),
    Take,
    PopFirst,
    PopLast,
    NextId,
}

/// An operation of the list.
#[derive(Clone, Debug)]
pub enum Operation {
    Write(Place, Write),
    Batch(Vec<(Place, Write)>),
    Read(Source, Place, Look),
    Step(Place, Vec<u8>, Step),
    /// Puts a key and single-deletes it, in turn.
    Single(u8),
    Ordered(OrderedStep),
    Snapshot(usize),
    DropSnapshot(usize),
    Hold(usize, Place, Span),
    Walk(usize, usize, Side),
    Begin(usize, Isolation),
    Change(usize, Place, Write),
    ReadForUpdate(usize, Place, Vec<u8>),
    Savepoint(usize),
    RollbackTo(usize),
    Commit(usize),
    Rollback(usize),
    Prepare(usize),
    Decide(usize, bool),
    Pass(u64),
    Flush,
    CompactAll,
    Compact(Place, Span),
    RunJobs(u8),
    Settle,
    Close,
    Kill,
    Clone(Place, u8),
    CloneAt(usize, Place, u8),
    DropClone(u8),
    Branch,
    DropBranch,
    MergeBranch(u8),
    Diff,
    Ingest(Place, Vec<(Vec<u8>, Vec<u8>)>),
    Floor(bool),
    Feed,
    Checkpoint,
    Archive,
    Check,
    All,
}

impl Operation {
    /// Whether it ingests tables.
    pub fn ingests(&self) -> bool {
        matches!(self, Self::Ingest(..) | Self::Ordered(OrderedStep::Ingest(_)))
    }
}

/// Draws `count` operations.
pub fn drawn(seed: u64, count: usize) -> Vec<Operation> {
    let mut draw = Draw::new(seed, 0x3e7a);
    (0..count).map(|_| operation(&mut draw)).collect()
}

fn key(draw: &mut Draw) -> Vec<u8> {
    match draw.below(4) {
        0 => KeyShape::Binary.key(draw.below(80)).to_vec(),
        _ => KeyShape::Prefixed.key(draw.below(500)).to_vec(),
    }
}

fn span(draw: &mut Draw) -> Span {
    let (a, b) = (key(draw), key(draw));
    Span { from: a.clone().min(b.clone()), to: a.max(b) }
}

/// Some of the keys next to each other.
fn narrow(draw: &mut Draw) -> Span {
    let from = key(draw);
    let mut to = from.clone();
    match to.last_mut() {
        Some(last) => *last = last.saturating_add(draw.within(1..=20) as u8),
        None => to.push(1),
    }
    Span { from, to }
}

fn prefix(draw: &mut Draw) -> Vec<u8> {
    let mut prefix = key(draw);
    let removed = draw.within(1..=3) as usize;
    prefix.truncate(prefix.len().saturating_sub(removed));
    prefix
}

fn place(draw: &mut Draw) -> Place {
    match draw.below(12) {
        0..9 => Place::Main(draw.below(3) as u8),
        9 => Place::Clone(draw.below(2) as u8),
        _ => Place::Branch(draw.below(2) as u8),
    }
}

fn write(draw: &mut Draw) -> Write {
    match draw.below(40) {
        0..20 => Write::Put(key(draw), value(draw, VALUE_BYTES_MAX).to_vec()),
        20..24 => {
            let ms = draw.pick(&[1, 50, 1000, 100_000]);
            Write::PutFor(key(draw), value(draw, VALUE_BYTES_MAX).to_vec(), ms)
        }
        24..31 => Write::Delete(key(draw)),
        31..33 => Write::DeleteRange(narrow(draw)),
        33 if draw.chance(1, 6) => Write::DeleteRange(span(draw)),
        33 if draw.chance(1, 3) => Write::DeletePrefix(prefix(draw)),
        _ => Write::Merge(key(draw), operand(draw).to_vec()),
    }
}

fn source(draw: &mut Draw) -> Source {
    match draw.below(12) {
        0..6 => Source::Newest,
        6..9 => Source::Snapshot(draw.index(SLOTS)),
        9..11 => Source::Transaction(draw.index(SLOTS)),
        _ => Source::Past(draw.index(400)),
    }
}

fn look(draw: &mut Draw) -> Look {
    let side = draw.pick(&[Side::Lt, Side::Le, Side::Gt, Side::Ge]);
    match draw.below(20) {
        0..5 => Look::Get(key(draw)),
        5..7 => Look::GetMany((0..draw.within(1..=20)).map(|_| key(draw)).collect()),
        7 => Look::Contains(key(draw)),
        8..10 => Look::Neighbour(side, key(draw)),
        10 => Look::Ends,
        11 => Look::Count(span(draw)),
        12..14 => Look::Forward(span(draw), draw.within(1..=40) as usize),
        14..16 => Look::Backward(span(draw), draw.within(1..=40) as usize),
        16 => Look::Keys(narrow(draw)),
        17 => Look::Prefix(prefix(draw)),
        _ => Look::Cursor((0..draw.within(2..=12)).map(|_| a_move(draw)).collect()),
    }
}

fn a_move(draw: &mut Draw) -> Move {
    match draw.below(12) {
        0 => Move::First,
        1 => Move::Last,
        2 | 3 => Move::Seek(key(draw)),
        4 | 5 => Move::SeekForPrev(key(draw)),
        6..9 => Move::Next,
        _ => Move::Prev,
    }
}

fn step(draw: &mut Draw) -> Step {
    match draw.below(12) {
        0..3 => Step::PutIfAbsent(value(draw, 100).to_vec()),
        3..6 => Step::Swap(value(draw, 100).to_vec(), draw.chance(3, 4)),
        6..9 => Step::Take,
        9 => Step::PopFirst,
        10 => Step::PopLast,
        _ => Step::NextId,
    }
}

fn operation(draw: &mut Draw) -> Operation {
    match draw.below(1000) {
        0..330 => Operation::Write(place(draw), write(draw)),
        330..380 => {
            let writes = draw.within(1..=12);
            Operation::Batch((0..writes).map(|_| (place(draw), write(draw))).collect())
        }
        380..600 => Operation::Read(source(draw), place(draw), look(draw)),
        600..640 => Operation::Ordered(OrderedStep::new(draw)),
        640..670 => Operation::Step(place(draw), key(draw), step(draw)),
        670..700 => Operation::Single(draw.below(6) as u8),
        700..850 => transaction(draw),
        850..900 => reader(draw),
        900..960 => upkeep(draw),
        _ => whole(draw),
    }
}

fn transaction(draw: &mut Draw) -> Operation {
    let slot = draw.index(SLOTS);
    match draw.below(40) {
        0..8 => Operation::Begin(slot, draw.pick(Isolation::ALL)),
        8..24 => Operation::Change(slot, place(draw), write(draw)),
        24..26 => Operation::ReadForUpdate(slot, place(draw), key(draw)),
        26 => Operation::Savepoint(slot),
        27 => Operation::RollbackTo(slot),
        28..36 => Operation::Commit(slot),
        36 | 37 => Operation::Rollback(slot),
        38 => Operation::Prepare(slot),
        _ => Operation::Decide(slot, draw.chance(2, 3)),
    }
}

fn reader(draw: &mut Draw) -> Operation {
    let slot = draw.index(SLOTS);
    match draw.below(10) {
        0 | 1 => Operation::Snapshot(slot),
        2 => Operation::DropSnapshot(slot),
        3 | 4 => Operation::Hold(slot, place(draw), span(draw)),
        5..9 => {
            let side = draw.pick(&[Side::Gt, Side::Gt, Side::Lt]);
            Operation::Walk(slot, draw.within(1..=10) as usize, side)
        }
        _ => Operation::Feed,
    }
}

fn upkeep(draw: &mut Draw) -> Operation {
    match draw.below(20) {
        0..6 => Operation::Pass(draw.pick(&[1, 10, 100, 5000])),
        6..10 => Operation::Flush,
        10..13 => Operation::Compact(place(draw), span(draw)),
        13 => Operation::CompactAll,
        14..18 => Operation::RunJobs(draw.within(1..=4) as u8),
        18 => Operation::Settle,
        _ => Operation::Floor(draw.chance(2, 3)),
    }
}

fn whole(draw: &mut Draw) -> Operation {
    match draw.below(40) {
        0..2 => Operation::Close,
        2..4 => Operation::Kill,
        4..7 => Operation::Clone(place(draw), draw.below(2) as u8),
        7 => Operation::CloneAt(draw.index(SLOTS), place(draw), draw.below(2) as u8),
        8 | 9 => Operation::DropClone(draw.below(2) as u8),
        10..13 => Operation::Branch,
        13 => Operation::DropBranch,
        14..18 => Operation::MergeBranch(draw.below(3) as u8),
        18..21 => Operation::Diff,
        21..28 => {
            let entries = draw.within(1..=40);
            let mut entries: Vec<_> =
                (0..entries).map(|_| (key(draw), value(draw, 500).to_vec())).collect();
            entries.sort();
            entries.dedup_by(|a, b| a.0 == b.0);
            Operation::Ingest(place(draw), entries)
        }
        28 => Operation::Checkpoint,
        29 => Operation::Archive,
        30 => Operation::Check,
        31..34 => Operation::All,
        34..36 => Operation::Pass(draw.pick(&[1, 1000, 100_000])),
        _ => Operation::Feed,
    }
}
