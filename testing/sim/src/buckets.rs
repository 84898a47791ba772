//! The model of buckets: the keys of a family that docs/buckets.md specifies.
//!
//! A second implementation of that page, over plain pairs. For a call it returns the operations,
//! the answer and the contents afterwards. It keeps no state between calls.

use crate::model::{Operation, Shared, Span};
use siltdb::ErrorKind;
use std::{collections::BTreeMap, sync::Arc};

/// The first bytes of every key of a bucket.
pub const MARK: [u8; 3] = [0x00, 0xff, b'b'];

/// The bucket that holds the others.
const ROOT: u64 = 0;

/// Most names of a path.
const DEPTH_MAX: usize = 16;

/// Most buckets in deleted ones that a deletion outside a transaction reclaims.
pub const RECLAIMED_AT_ONCE: usize = 256;

/// The names from the root to a bucket.
pub type BucketPath = Vec<Shared>;

/// Whether a key belongs to a bucket.
#[must_use]
pub fn is_bucket_key(key: &[u8]) -> bool {
    key.starts_with(&MARK)
}

/// The part of a bucket to which a key belongs: the byte after the bucket's id.
#[derive(Clone, Copy, Debug)]
enum Part {
    Child = 0,
    Sequence = 1,
    Data = 2,
    Trash = 3,
}

fn bucket_prefix(id: u64) -> Shared {
    [&MARK[..], &id.to_be_bytes()].concat().into()
}

fn part_key(id: u64, part: Part, rest: &[u8]) -> Shared {
    [&MARK[..], &id.to_be_bytes(), &[part as u8], rest].concat().into()
}

/// The value under the name of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    id: u64,
    height: usize,
}

impl Entry {
    fn encode(self) -> Shared {
        [&self.id.to_be_bytes()[..], &[self.height as u8]].concat().into()
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (id, height) = bytes.split_first_chunk()?;
        Some(Self { id: u64::from_be_bytes(*id), height: usize::from(*height.first()?) })
    }
}

/// A change of one bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BucketCall {
    /// Creates it.
    Create,
    /// Creates it and missing buckets on its path.
    CreateIfMissing,
    /// Moves it to another path.
    Rename(BucketPath),
    /// Deletes it with its contents.
    Remove,
    /// Puts a key.
    Put(Shared, Shared),
    /// Deletes a key.
    Delete(Shared),
    /// Deletes the keys from one on.
    DeleteFrom(Shared),
    /// Deletes a key and returns its value.
    Take(Shared),
    /// Gives an id.
    NextId,
}

/// The answer of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BucketAnswer {
    /// Success, without a value.
    Done,
    /// The value of a key, if it had one.
    Value(Option<Shared>),
    /// An id.
    Id(u64),
}

/// The readable contents of a bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketContents {
    /// The names of its buckets.
    pub children: Vec<Shared>,
    /// Its keys and values; the root has none.
    pub pairs: Vec<(Shared, Shared)>,
}

/// The buckets of a family, with the operations of the calls so far.
#[derive(Clone, Debug)]
pub struct BucketState {
    pairs: BTreeMap<Shared, Shared>,
    /// The operations of the calls, in order.
    pub operations: Vec<Operation>,
    /// The keys of the entries on the paths of the calls.
    pub way_keys: Vec<Shared>,
}

impl BucketState {
    /// The buckets of a family that holds `pairs`.
    pub fn new(pairs: impl IntoIterator<Item = (Shared, Shared)>) -> Self {
        let pairs = pairs.into_iter().filter(|(key, _)| is_bucket_key(key)).collect();
        Self { pairs, operations: Vec::new(), way_keys: Vec::new() }
    }

    fn put(&mut self, key: Shared, value: Shared) {
        self.pairs.insert(Arc::clone(&key), Arc::clone(&value));
        self.operations.push(Operation::Put { key, value, expiry_ms: None });
    }

    fn delete(&mut self, key: Shared) {
        self.pairs.remove(&key);
        self.operations.push(Operation::Delete { key });
    }

    fn delete_range(&mut self, start: Shared, end: Shared) {
        self.forget(&Span { lower: Arc::clone(&start), upper: Some(Arc::clone(&end)) });
        self.operations.push(Operation::DeleteRange { start, end });
    }

    fn delete_prefix(&mut self, prefix: Shared) {
        self.forget(&Span::of_prefix(&prefix));
        self.operations.push(Operation::DeletePrefix { prefix });
    }

    fn forget(&mut self, span: &Span) {
        self.pairs.retain(|key, _| !span.contains(key));
    }

    /// The keys with a prefix, without that prefix, and their values.
    fn below(&self, prefix: &Shared) -> Vec<(Shared, Shared)> {
        let from = self.pairs.range(Arc::clone(prefix)..);
        let within = from.take_while(|(key, _)| key.starts_with(prefix));
        within.map(|(key, value)| (Shared::from(&key[prefix.len()..]), value.clone())).collect()
    }

    /// The buckets along a path, from the one below the root on.
    fn follow(&mut self, path: &[Shared]) -> Result<Vec<Entry>, ErrorKind> {
        let mut way = Vec::new();
        let mut keys = Vec::new();
        for name in path {
            let key = part_key(last_id(&way), Part::Child, name);
            let value = self.pairs.get(&key).ok_or(ErrorKind::NotFound)?;
            way.push(Entry::decode(value).ok_or(ErrorKind::Corruption)?);
            keys.push(key);
        }
        self.way_keys.extend(keys);
        Ok(way)
    }

    /// The contents of a bucket; `None`, if it does not exist.
    #[must_use]
    pub fn contents(&self, path: &[Shared]) -> Option<BucketContents> {
        let id = last_id(&self.clone().follow(path).ok()?);
        let children = self.below(&part_key(id, Part::Child, b""));
        let children = children.into_iter().map(|(name, _)| name).collect();
        let pairs = match path {
            [] => Vec::new(),
            _ => self.below(&part_key(id, Part::Data, b"")),
        };
        Some(BucketContents { children, pairs })
    }

    /// Applies a call. A deletion reclaims up to `reclaims` buckets in deleted ones.
    ///
    /// # Errors
    /// The kind of the error with which the call fails; nothing is changed then.
    pub fn call(
        &mut self,
        path: &[Shared],
        call: &BucketCall,
        reclaims: usize,
    ) -> Result<BucketAnswer, ErrorKind> {
        let Some((name, before)) = path.split_last() else {
            return Err(ErrorKind::InvalidArgument);
        };
        match call {
            BucketCall::Create => self.create(before, name)?,
            BucketCall::CreateIfMissing => {
                for depth in 1..=path.len() {
                    match self.create(&path[..depth - 1], &path[depth - 1]) {
                        Ok(()) | Err(ErrorKind::AlreadyExists) => {}
                        Err(kind) => return Err(kind),
                    }
                }
            }
            BucketCall::Rename(to) => self.rename(path, to)?,
            BucketCall::Remove => {
                let way = self.follow(path)?;
                let parent = last_id(&way[..before.len()]);
                self.delete(part_key(parent, Part::Child, name));
                self.discard(way[before.len()]);
                self.reclaim(reclaims);
            }
            data => {
                let id = last_id(&self.follow(path)?);
                return Ok(self.data(id, data));
            }
        }
        Ok(BucketAnswer::Done)
    }

    fn data(&mut self, id: u64, call: &BucketCall) -> BucketAnswer {
        let key_of = |key: &Shared| part_key(id, Part::Data, key);
        match call {
            BucketCall::Put(key, value) => self.put(key_of(key), Arc::clone(value)),
            BucketCall::Delete(key) => self.delete(key_of(key)),
            BucketCall::DeleteFrom(key) => {
                self.delete_range(key_of(key), part_key(id, Part::Trash, b""));
            }
            BucketCall::Take(key) => {
                let value = self.pairs.get(&key_of(key)).cloned();
                if value.is_some() {
                    self.delete(key_of(key));
                }
                return BucketAnswer::Value(value);
            }
            _ => return BucketAnswer::Id(self.next_id(id)),
        }
        BucketAnswer::Done
    }

    fn next_id(&mut self, id: u64) -> u64 {
        let key = part_key(id, Part::Sequence, b"");
        let stored = self.pairs.get(&key).and_then(|value| value.first_chunk().copied());
        let next = stored.map_or(1, u64::from_be_bytes);
        self.put(key, (next + 1).to_be_bytes().as_slice().into());
        next
    }

    fn create(&mut self, before: &[Shared], name: &Shared) -> Result<(), ErrorKind> {
        let way = self.follow(before)?;
        let place = self.free_place(last_id(&way), name)?;
        let id = self.next_id(ROOT);
        self.put(place, Entry { id, height: 1 }.encode());
        self.raise(before, &way, 1);
        Ok(())
    }

    fn free_place(&self, parent: u64, name: &Shared) -> Result<Shared, ErrorKind> {
        let place = part_key(parent, Part::Child, name);
        let is_free = !self.pairs.contains_key(&place);
        is_free.then_some(place).ok_or(ErrorKind::AlreadyExists)
    }

    fn rename(&mut self, from: &[Shared], to: &[Shared]) -> Result<(), ErrorKind> {
        let invalid = ErrorKind::InvalidArgument;
        let (from_name, from_before) = from.split_last().ok_or(invalid)?;
        let (to_name, to_before) = to.split_last().ok_or(invalid)?;
        let from_way = self.follow(from)?;
        let entry = from_way[from_before.len()];
        let to_way = self.follow(to_before)?;
        let is_within = to_way.iter().any(|parent| parent.id == entry.id);
        if is_within || to_before.len() + entry.height > DEPTH_MAX {
            return Err(invalid);
        }
        let place = self.free_place(last_id(&to_way), to_name)?;
        let from_parent = last_id(&from_way[..from_before.len()]);
        self.delete(part_key(from_parent, Part::Child, from_name));
        self.put(place, entry.encode());
        self.raise(to_before, &to_way, entry.height);
        Ok(())
    }

    /// Raises the heights along a path, in whose last bucket one of `height` was put.
    fn raise(&mut self, names: &[Shared], way: &[Entry], height: usize) {
        for (index, entry) in way.iter().enumerate() {
            let height = way.len() - index + height;
            if entry.height < height {
                let place = part_key(last_id(&way[..index]), Part::Child, &names[index]);
                self.put(place, Entry { height, ..*entry }.encode());
            }
        }
    }

    fn discard(&mut self, Entry { id, height }: Entry) {
        if height == 1 {
            return self.delete_prefix(bucket_prefix(id));
        }
        self.delete_range(part_key(id, Part::Data, b""), part_key(id, Part::Trash, b""));
        self.put(part_key(ROOT, Part::Trash, &id.to_be_bytes()), Shared::from(&b""[..]));
    }

    fn reclaim(&mut self, most: usize) {
        let mut steps = 0;
        while steps < most {
            let trash = self.below(&part_key(ROOT, Part::Trash, b"")).into_iter().next();
            let id = trash.and_then(|(id, _)| id.first_chunk().copied().map(u64::from_be_bytes));
            let Some(id) = id else { return };
            let children = self.below(&part_key(id, Part::Child, b""));
            for (name, entry) in children.into_iter().take(most - steps) {
                self.delete(part_key(id, Part::Child, &name));
                if let Some(entry) = Entry::decode(&entry) {
                    self.discard(entry);
                }
                steps += 1;
            }
            if steps < most {
                self.delete_prefix(bucket_prefix(id));
                self.delete(part_key(ROOT, Part::Trash, &id.to_be_bytes()));
                steps += 1;
            }
        }
    }
}

fn last_id(way: &[Entry]) -> u64 {
    way.last().map_or(ROOT, |entry| entry.id)
}

#[cfg(test)]
mod tests;
