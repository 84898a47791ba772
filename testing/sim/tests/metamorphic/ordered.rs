//! A family with a key order and a TTL, used by its types, and the map that it must equal.
//!
//! All option sets could agree on a wrong order or time, so these have a model.

use siltdb::{Db, FamilyOptions, Isolation, Key, KeyOrder, Result, TypedFamily, Value, WriteBatch};
use siltdb_sim::draw::Draw;
use std::{cmp::Reverse, collections::BTreeMap, time::Duration};

/// The name of the family.
const NAME: &str = "ordered";

type Family = TypedFamily<Reverse<u64>, String>;

/// A use of the family.
#[derive(Clone, Debug)]
pub enum OrderedStep {
    Put(u64, String),
    PutFor(u64, String, u64),
    Batch(Vec<(u64, String)>),
    Transaction(Vec<(u64, String)>),
    Update(u64, String),
    Ingest(Vec<(u64, String)>),
    Delete(u64),
    /// From the greater number down to the lesser, which is not deleted.
    DeleteRange(u64, u64),
    /// Changes the TTL; 0 for none.
    SetTtl(u64),
    Get(u64),
    Around(u64),
    Count(u64, u64),
}

impl OrderedStep {
    /// Draws a use.
    pub fn new(draw: &mut Draw) -> Self {
        let (a, b) = (number(draw), number(draw));
        match draw.below(20) {
            0..4 => Self::Put(a, text(draw)),
            4 => Self::PutFor(a, text(draw), draw.pick(&[1, 100, 100_000])),
            5 | 6 => Self::Batch(many(draw)),
            7 | 8 => Self::Transaction(many(draw)),
            9 => Self::Update(a, text(draw)),
            10 => Self::Ingest(many(draw)),
            11 | 12 => Self::Delete(a),
            13 => Self::DeleteRange(a.max(b), a.min(b)),
            14 => Self::SetTtl(draw.pick(&[0, 0, 20, 1000, 50_000])),
            15 => Self::Get(a),
            16 | 17 => Self::Around(a),
            _ => Self::Count(a.max(b), a.min(b)),
        }
    }
}

/// Numbers of one to eight bytes.
fn number(draw: &mut Draw) -> u64 {
    draw.below(9) << draw.pick(&[0, 7, 8, 16, 40, 60])
}

fn text(draw: &mut Draw) -> String {
    format!("{:x}", draw.next()).repeat(draw.within(0..=9) as usize)
}

/// Different numbers with texts.
fn many(draw: &mut Draw) -> Vec<(u64, String)> {
    let pairs = (0..draw.within(1..=6)).map(|_| (number(draw), text(draw)));
    pairs.collect::<BTreeMap<_, _>>().into_iter().collect()
}

/// The map, with the time at which each text expires.
pub struct Ordered {
    map: BTreeMap<Reverse<u64>, (String, u64)>,
    ttl_ms: u64,
}

impl Ordered {
    /// Creates the family.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn new(db: &Db, options: FamilyOptions) -> Result<Self> {
        db.create_family(NAME, options.key_order(KeyOrder::of::<Reverse<u64>>()))?;
        Ok(Self { map: BTreeMap::new(), ttl_ms: 0 })
    }

    /// Carries out a step at the time `now_ms`, and compares the whole family.
    ///
    /// # Errors
    /// Those of the engine.
    ///
    /// # Panics
    /// If the family differs from the map.
    pub fn run(&mut self, db: &Db, now_ms: u64, step: &OrderedStep) -> Result<String> {
        let family: Family = db.family(NAME)?.typed()?;
        match step {
            OrderedStep::Put(number, text) => family.put(&Reverse(*number), text)?,
            OrderedStep::PutFor(number, text, ms) => {
                family.put_for(&Reverse(*number), text, Duration::from_millis(*ms))?;
            }
            OrderedStep::Batch(pairs) => {
                let mut batch = WriteBatch::new();
                let mut typed = family.in_batch(&mut batch);
                for (number, text) in pairs {
                    typed.put(&Reverse(*number), text)?;
                }
                db.write(&batch)?;
            }
            OrderedStep::Transaction(pairs) => {
                let transaction = db.begin(Isolation::Serializable);
                let typed = family.in_transaction(&transaction)?;
                for (number, text) in pairs {
                    typed.put(&Reverse(*number), text)?;
                }
                transaction.commit()?;
            }
            OrderedStep::Update(number, text) => {
                family.update_and_fetch(&Reverse(*number), |_| Some(text.clone()))?;
            }
            OrderedStep::Ingest(pairs) => {
                let pairs = pairs
                    .iter()
                    .rev()
                    .map(|(number, text)| Ok((Reverse(*number).to_key(), text.to_value()?)));
                family.source().ingest_sorted(pairs.collect::<Result<Vec<_>>>()?)?;
            }
            OrderedStep::Delete(number) => family.delete(&Reverse(*number))?,
            OrderedStep::DeleteRange(from, to) => {
                family.delete_range(Reverse(*from)..Reverse(*to))?;
            }
            OrderedStep::SetTtl(ms) => {
                let options = family.source().options().ttl(Duration::from_millis(*ms));
                family.source().set_options(&options)?;
            }
            OrderedStep::Get(_) | OrderedStep::Around(_) | OrderedStep::Count(..) => {}
        }
        self.apply(now_ms, step);
        self.compare(&family, now_ms, step)?;
        Ok(format!("ordered {}", self.map.len()))
    }

    fn apply(&mut self, now_ms: u64, step: &OrderedStep) {
        let expiry_ms = match (step, self.ttl_ms) {
            (OrderedStep::PutFor(_, _, ms), _) => now_ms + ms,
            (_, 0) => u64::MAX,
            (_, ttl_ms) => now_ms + ttl_ms,
        };
        match step {
            OrderedStep::Put(number, text)
            | OrderedStep::PutFor(number, text, _)
            | OrderedStep::Update(number, text) => {
                self.map.insert(Reverse(*number), (text.clone(), expiry_ms));
            }
            OrderedStep::Batch(pairs)
            | OrderedStep::Transaction(pairs)
            | OrderedStep::Ingest(pairs) => {
                let pairs = pairs.iter();
                self.map.extend(pairs.map(|(n, text)| (Reverse(*n), (text.clone(), expiry_ms))));
            }
            OrderedStep::Delete(number) => {
                self.map.remove(&Reverse(*number));
            }
            OrderedStep::DeleteRange(from, to) => {
                self.map.retain(|Reverse(number), _| !(*to + 1..=*from).contains(number));
            }
            OrderedStep::SetTtl(ms) => self.ttl_ms = *ms,
            OrderedStep::Get(_) | OrderedStep::Around(_) | OrderedStep::Count(..) => {}
        }
        self.map.retain(|_, (_, expiry_ms)| *expiry_ms > now_ms);
    }

    fn compare(&self, family: &Family, now_ms: u64, step: &OrderedStep) -> Result<()> {
        let pair = |(key, (text, _)): (&Reverse<u64>, &(String, u64))| (*key, text.clone());
        let expected: Vec<_> = self.map.iter().map(pair).collect();
        let found = family.iter()?.collect::<Result<Vec<_>>>()?;
        assert_eq!(found, expected, "at {now_ms} ms, after {step:?}");
        let found = family.iter()?.rev().collect::<Result<Vec<_>>>()?;
        assert!(found.iter().eq(expected.iter().rev()), "backward, after {step:?}");
        match step {
            OrderedStep::Get(number) => {
                let key = Reverse(*number);
                let text = self.map.get(&key).map(|(text, _)| text.clone());
                assert_eq!(family.get(&key)?, text, "{step:?}");
            }
            OrderedStep::Around(number) => {
                let key = Reverse(*number);
                let below = self.map.range(..key).next_back().map(pair);
                assert_eq!(family.get_lt(&key)?, below, "{step:?}");
                assert_eq!(family.get_ge(&key)?, self.map.range(key..).next().map(pair));
            }
            OrderedStep::Count(from, to) => {
                let (from, to) = (Reverse(*from), Reverse(*to));
                let count = self.map.range(from..=to).count() as u64;
                assert_eq!(family.count(from..=to)?, count, "{step:?}");
            }
            _ => {}
        }
        Ok(())
    }
}
