//! A database with a retention floor, and what it held after each of its commits.

pub use crate::maps::{Random, small};
use siltdb::{
    Db, ErrorKind, Family, Options, Read, RetentionFloor, Slice, Snapshot, WriteBatch,
    testing::{Clock, Crash, ManualClock, MemFs},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

/// Values, and when they expire, in ms since 1970.
pub type Map = BTreeMap<Vec<u8>, (Vec<u8>, Option<u64>)>;

/// Families at once.
const FAMILIES_MAX: usize = 4;

/// Different keys of a kind.
const KEYS: u64 = 120;

pub fn options(fs: &MemFs, clock: &Arc<ManualClock>) -> Options {
    let options = Options::new().fs(Arc::new(fs.clone())).workers(0).seed(5);
    let options = options.clock(Arc::clone(clock) as Arc<dyn Clock>);
    options.memtable_bytes(32 << 10).memory_budget(8 << 20).default_family(small())
}

pub fn contents(source: &impl Read) -> Vec<(Vec<u8>, Vec<u8>)> {
    let pair = |pair: siltdb::Result<_>| {
        let (key, value): (Slice, Slice) = pair.unwrap();
        (key.to_vec(), value.to_vec())
    };
    source.iter().unwrap().map(pair).collect()
}

/// Forwards, backwards and one by one.
pub fn compare(source: &impl Read, expected: &[(Vec<u8>, Vec<u8>)], what: &str) {
    let found = contents(source);
    let differs = || found.iter().zip(expected).find(|(found, expected)| found != expected);
    let (count, wanted) = (found.len(), expected.len());
    assert!(found == expected, "{what}: {count} keys for {wanted}: {:?}", differs());
    let mut backwards: Vec<_> =
        source.iter().unwrap().rev().map(|pair| pair.unwrap().0.to_vec()).collect();
    backwards.reverse();
    assert!(backwards.iter().eq(expected.iter().map(|(key, _)| key)), "{what}, backwards");
    let map: BTreeMap<_, _> = expected.iter().cloned().collect();
    for number in (0..KEYS).step_by(5) {
        for kind in ['k', 's', 't'] {
            let key = key(kind, number);
            let found = source.get(&key).unwrap();
            assert_eq!(found.as_deref(), map.get(&key).map(Vec::as_slice), "{what}: {key:?}");
        }
    }
}

pub fn key(kind: char, number: u64) -> Vec<u8> {
    format!("{kind}{number:05}").into_bytes()
}

/// What a clone was made of.
#[derive(Clone, Copy)]
struct Origin {
    source: usize,
    /// Up to this sequence number the clone shows the source.
    up_to: u64,
}

/// A family that is there.
struct Known {
    name: String,
    handle: Family,
    /// Its number, which no other family gets.
    id: usize,
}

/// All families after one commit, also those that were dropped before.
type State = BTreeMap<usize, Map>;

/// A database and its history.
pub struct World {
    pub fs: MemFs,
    pub db: Db,
    pub random: Random,
    clock: Arc<ManualClock>,
    families: Vec<Known>,
    origins: BTreeMap<usize, Origin>,
    /// The last commit's state, with families that were created since.
    present: State,
    /// By sequence number. A family that was created later is missing.
    states: BTreeMap<u64, State>,
    floor: Option<u64>,
    next_id: usize,
    /// How many states below the present were compared.
    pub compared: u64,
    pub crashes: u64,
    pub lost: u64,
    pub raised: u64,
    pub clones: u64,
}

impl World {
    pub fn new(seed: u64) -> Self {
        println!("seed {seed}");
        let (fs, clock) =
            (MemFs::new(), Arc::new(ManualClock::at(Duration::from_millis(1_000_000))));
        let db = options(&fs, &clock).open("db").unwrap();
        let default = Known { name: "default".into(), handle: db.default_family(), id: 0 };
        let present = State::from([(0, Map::new())]);
        Self {
            fs,
            db,
            random: Random(seed),
            clock,
            families: vec![default],
            origins: BTreeMap::new(),
            states: BTreeMap::from([(0, present.clone())]),
            present,
            floor: None,
            next_id: 1,
            compared: 0,
            crashes: 0,
            lost: 0,
            raised: 0,
            clones: 0,
        }
    }

    fn sequence(&self) -> u64 {
        self.db.stats().sequence
    }

    /// One batch over the families.
    fn write(&mut self) {
        let (mut batch, mut met) = (WriteBatch::new(), BTreeSet::new());
        for _ in 0..=self.random.below(30) {
            let index = self.random.below(self.families.len() as u64) as usize;
            let (number, width) = (self.random.below(KEYS), 1 + self.random.below(20));
            let what = self.random.below(24);
            let value = format!("{number}/{}", self.random.below(1000)).repeat(3).into_bytes();
            let expiry_ms = self.clock.wall_ms() + 1 + self.random.below(20_000);
            let Known { handle, id, .. } = &self.families[index];
            let map = self.present.entry(*id).or_default();
            let (k, end) = (key('k', number), key('k', number + width));
            match what {
                0..10 => {
                    batch.put(handle, &k, &value).unwrap();
                    map.insert(k, (value, None));
                }
                10..13 => {
                    batch.delete(handle, &k).unwrap();
                    map.remove(&k);
                }
                13..17 => {
                    batch.merge(handle, &k, b"+").unwrap();
                    map.entry(k).or_default().0.push(b'+');
                }
                17 => {
                    batch.delete_range(handle, &k[..]..&end[..]).unwrap();
                    map.retain(|other, _| !(&k..&end).contains(&other));
                }
                18..21 => {
                    let s = key('s', number);
                    if !met.insert((*id, s.clone())) {
                        continue;
                    }
                    // The contract of a single delete: each key is put once before it.
                    if map.remove(&s).is_some() {
                        batch.single_delete(handle, &s).unwrap();
                    } else {
                        batch.put(handle, &s, &value).unwrap();
                        map.insert(s, (value, None));
                    }
                }
                _ => {
                    let t = key('t', number);
                    let until = UNIX_EPOCH + Duration::from_millis(expiry_ms);
                    batch.put_until(handle, &t, &value, until).unwrap();
                    map.insert(t, (value, Some(expiry_ms)));
                }
            }
        }
        self.db.write(&batch).unwrap();
        self.states.insert(self.sequence(), self.present.clone());
    }

    fn change_floor(&mut self) {
        let now = self.sequence();
        let floor = match (self.floor, self.random.below(8)) {
            (Some(_), 0) => RetentionFloor::None,
            (Some(floor), 1..4) => {
                RetentionFloor::Sequence(floor + self.random.below(now - floor + 1))
            }
            _ => RetentionFloor::Now,
        };
        let expected = match floor {
            RetentionFloor::None => None,
            RetentionFloor::Sequence(sequence) => Some(sequence),
            RetentionFloor::Now => Some(now),
        };
        self.raised += u64::from(self.floor.is_some() && self.floor != expected);
        assert_eq!(self.db.set_retention_floor(floor).unwrap(), expected);
        self.floor = expected;
    }

    fn change_families(&mut self) {
        let id = self.next_id;
        let name = format!("family {id}");
        if self.families.len() == FAMILIES_MAX || self.random.below(4) == 0 {
            let index = self.random.below(self.families.len() as u64) as usize;
            // The default family cannot go.
            if index > 0 {
                let dropped = self.families.swap_remove(index);
                self.db.drop_family(&dropped.name).unwrap();
                self.present.remove(&dropped.id);
            }
            return;
        }
        self.next_id += 1;
        if self.random.below(3) == 0 {
            let handle = self.db.create_family(&name, small()).unwrap();
            self.present.insert(id, Map::new());
            self.families.push(Known { name, handle, id });
            return;
        }
        let source = self.random.below(self.families.len() as u64) as usize;
        let (source, source_id) = (self.families[source].handle.clone(), self.families[source].id);
        let kept: Vec<u64> = self.kept().collect();
        let (handle, up_to) = if self.random.below(2) == 0 || kept.is_empty() {
            (self.db.clone_family(&source, &name).unwrap(), self.sequence())
        } else {
            let at = kept[self.random.below(kept.len() as u64) as usize];
            let snapshot = self.db.snapshot_at(at).unwrap();
            (self.db.clone_family_at(&snapshot, &source, &name).unwrap(), at)
        };
        self.clones += 1;
        self.origins.insert(id, Origin { source: source_id, up_to });
        let map = self.map_at(id, up_to);
        self.present.insert(id, map);
        self.families.push(Known { name, handle, id });
    }

    /// The commits of which the states are kept.
    fn kept(&self) -> impl Iterator<Item = u64> {
        let oldest = self.floor.unwrap_or_else(|| self.sequence());
        self.states.range(oldest..).map(|(sequence, _)| *sequence)
    }

    /// What a family shows at a commit.
    fn map_at(&self, id: usize, sequence: u64) -> Map {
        let known = self.states.get(&sequence).and_then(|state| state.get(&id));
        match (known, self.origins.get(&id)) {
            (Some(map), _) => map.clone(),
            (None, Some(origin)) => self.map_at(origin.source, sequence.min(origin.up_to)),
            (None, None) => Map::new(),
        }
    }

    fn shown(&self, map: &Map) -> Vec<(Vec<u8>, Vec<u8>)> {
        let now_ms = self.clock.wall_ms();
        let alive = map.iter().filter(|(_, (_, expiry))| expiry.is_none_or(|ms| ms > now_ms));
        alive.map(|(key, (value, _))| (key.clone(), value.clone())).collect()
    }

    /// The process ends, perhaps by a loss of power, and another goes on.
    fn reopen(&mut self) {
        match self.random.below(3) {
            0 => self.db.clone().close().unwrap(),
            1 => {
                self.crashes += 1;
                self.fs = self.fs.crash_clone(Crash::Kill);
            }
            _ => {
                self.crashes += 1;
                let seed = self.random.below(1 << 30);
                self.fs = self.fs.crash_clone(Crash::PowerLoss { seed });
            }
        }
        self.db = options(&self.fs, &self.clock).open("db").unwrap();
        let last = self.sequence();
        self.lost += u64::from(!self.states.split_off(&(last + 1)).is_empty());
        // A note of the time takes a number, too: the state is that of the commit before it.
        let (&state, _) = self.states.range(..=last).next_back().expect("the first state stays");
        assert_eq!(self.db.retention_floor(), self.floor);
        assert!(self.floor.is_none_or(|floor| floor <= last), "{last} is below the floor");
        assert_eq!(self.db.families().len(), self.families.len());
        for index in 0..self.families.len() {
            let id = self.families[index].id;
            let map = self.map_at(id, state);
            self.present.insert(id, map);
            self.families[index].handle = self.db.family(&self.families[index].name).unwrap();
        }
    }

    pub fn step(&mut self) {
        match self.random.below(50) {
            0..24 => self.write(),
            24..28 => self.db.flush().unwrap(),
            28..34 => {
                self.db.run_job().unwrap();
            }
            34..37 => {
                let index = self.random.below(self.families.len() as u64) as usize;
                self.families[index].handle.compact().unwrap();
            }
            37..40 => self.db.settle().unwrap(),
            40..42 => self.change_floor(),
            42..45 => self.change_families(),
            45..47 => self.clock.advance(Duration::from_secs(self.random.below(10))),
            47 => self.db.sync_wal().unwrap(),
            _ => self.reopen(),
        }
    }

    /// Compares the present, the floor, and some states between them.
    pub fn check(&mut self) {
        for known in &self.families {
            compare(&known.handle, &self.shown(&self.present[&known.id]), &known.name);
        }
        let kept: Vec<u64> = self.kept().collect();
        for _ in 0..4 {
            let Some(last) = kept.len().checked_sub(1) else { break };
            let index = self.random.below(kept.len() as u64) as usize;
            self.check_at(kept[index]);
            self.compared += u64::from(index < last);
        }
        if let Some(oldest) = kept.first() {
            self.check_at(*oldest);
        }
        self.check_refusals();
    }

    fn check_at(&self, sequence: u64) {
        let snapshot = self.db.snapshot_at(sequence).unwrap();
        assert_eq!(snapshot.sequence(), sequence);
        for known in &self.families {
            let expected = self.shown(&self.map_at(known.id, sequence));
            let family: Snapshot = snapshot.family(&known.handle).unwrap();
            compare(&family, &expected, &format!("{} at {sequence}", known.name));
        }
    }

    fn check_refusals(&self) {
        let (now, oldest) = (self.sequence(), self.floor.unwrap_or_else(|| self.sequence()));
        let above = self.db.snapshot_at(now + 1).unwrap_err();
        assert_eq!(above.kind(), ErrorKind::InvalidArgument);
        if let Some(below) = oldest.checked_sub(1) {
            let error = self.db.snapshot_at(below).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotFound);
            assert!(error.to_string().contains(&format!("at least {oldest}")), "{error}");
        }
    }

    /// Without history, each family has as many entries as keys, once all is merged.
    pub fn check_space(&mut self) {
        self.write();
        self.db.set_retention_floor(RetentionFloor::Now).unwrap();
        self.floor = Some(self.sequence());
        // What has expired is left out as well.
        self.clock.advance(Duration::from_secs(60));
        self.db.compact().unwrap();
        self.db.settle().unwrap();
        self.check();
        let live: usize =
            self.families.iter().map(|known| self.shown(&self.present[&known.id]).len()).sum();
        let entries = self.db.stats().table_entries;
        assert!(entries <= live as u64 * 21 / 20 + 20, "{entries} entries for {live} keys");
    }
}
