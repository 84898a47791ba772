//! The tree of buckets: creating, moving and deleting its entries in a transaction.
//!
//! It leaves data alone, except when it deletes a bucket. Entries of buckets never expire, also in
//! a family with a TTL.
//!
//! # Seeded faults
//! `bucket_move_keeps_the_name`: the old path still leads to a moved bucket.
//! `bucket_deletion_misses_nested`: a deletion leaves the keys of nested buckets.
//! `bucket_among_own_keys`: a family with keys of its own where buckets are stored gets one.

use super::path::{
    BUCKET_IDS_KEY, BUCKET_KEY_PREFIX, Entry, Part, Path, ROOT, Shown, bucket_prefix, check_depth,
    data_range, key,
};
use crate::{read::Read, transaction::Transaction};
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    seeded_fault,
    slice::Slice,
};

/// Finds the buckets along `names`, from the one below the root on.
pub(super) fn follow(
    names: &[Vec<u8>],
    mut get: impl FnMut(&[u8]) -> Result<Option<Slice>>,
) -> Result<Vec<Entry>> {
    let mut way: Vec<Entry> = Vec::with_capacity(names.len());
    for (index, name) in names.iter().enumerate() {
        let entry = get(&key(last_id(&way), Part::Child, name))?;
        let entry = entry.ok_or_else(|| missing(&names[..=index]))?;
        way.push(Entry::decode(&entry)?);
    }
    Ok(way)
}

/// The error for a missing bucket.
#[cold]
pub(super) fn missing(names: &[Vec<u8>]) -> Error {
    Error::new(ErrorKind::NotFound, format!("no bucket {}", Shown(names)))
}

/// Returns the id of the last bucket of a path.
pub(super) fn last_id(way: &[Entry]) -> u64 {
    way.last().map_or(ROOT, |entry| entry.id)
}

/// Creates a bucket; its parent must exist.
pub(super) fn create(transaction: &Transaction, path: &Path) -> Result<()> {
    let (before, name) = path.split_last()?;
    let way = follow(before, |key| transaction.get(key))?;
    let place = free_place(transaction, path, last_id(&way), name)?;
    refuse_own_keys(transaction)?;
    let id = transaction.next_id(BUCKET_IDS_KEY)?;
    transaction.put_lasting(&place, &Entry { id, height: Entry::LEAF }.encode())?;
    raise(transaction, before, &way, Entry::LEAF)
}

/// Refuses the first bucket of a family that has keys of its own where buckets are stored. They
/// would count as records of buckets. Nor is one made where the counter of ids was lost, as by a
/// recovery of a damaged database: it would get the id of another.
fn refuse_own_keys(transaction: &Transaction) -> Result<()> {
    let is_first = !transaction.contains(BUCKET_IDS_KEY)?;
    let is_refused = is_first && !seeded_fault!("bucket_among_own_keys");
    if is_refused && transaction.prefix(BUCKET_KEY_PREFIX)?.next().transpose()?.is_some() {
        return Err(Error::invalid("the family has keys where buckets are stored, but no bucket")
            .with_mismatch("no key that begins with 00 ff 62", "such a key")
            .with_hint("create the bucket in another family"));
    }
    Ok(())
}

/// Creates a bucket and the missing buckets on its path.
pub(super) fn create_if_missing(transaction: &Transaction, path: &Path) -> Result<()> {
    path.split_last()?;
    for depth in 1..=path.names().len() {
        let part = Path::new(&path.names()[..depth])?;
        match create(transaction, &part) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            created => created?,
        }
    }
    Ok(())
}

/// Moves a bucket with everything in it to another path.
pub(super) fn rename(transaction: &Transaction, from: &Path, to: &Path) -> Result<()> {
    let (from_before, from_name) = from.split_last()?;
    let (to_before, to_name) = to.split_last()?;
    let from_way = follow(from.names(), |key| transaction.get(key))?;
    let entry = *from_way.last().expect("it is not the root");
    let to_way = follow(to_before, |key| transaction.get(key))?;
    if to_way.iter().any(|parent| parent.id == entry.id) {
        return Err(Error::invalid("a bucket cannot be moved into itself"));
    }
    check_depth(to_before.len() + entry.height)?;
    let place = free_place(transaction, to, last_id(&to_way), to_name)?;
    let from_parent = last_id(&from_way[..from_before.len()]);
    if !seeded_fault!("bucket_move_keeps_the_name") {
        transaction.delete(key(from_parent, Part::Child, from_name))?;
    }
    transaction.put_lasting(&place, &entry.encode())?;
    raise(transaction, to_before, &to_way, entry.height)
}

/// Deletes a bucket with everything in it. The buckets below it wait in the trash.
pub(super) fn remove(transaction: &Transaction, path: &Path) -> Result<()> {
    let (before, name) = path.split_last()?;
    let way = follow(path.names(), |key| transaction.get(key))?;
    transaction.delete(key(last_id(&way[..before.len()]), Part::Child, name))?;
    discard(transaction, *way.last().expect("it is not the root"))
}

/// Deletes the keys of a bucket whose entry is gone. The buckets in it wait in the trash.
fn discard(transaction: &Transaction, Entry { id, height }: Entry) -> Result<()> {
    if height == Entry::LEAF {
        return transaction.delete_prefix(bucket_prefix(id));
    }
    transaction.delete_range(data_range(id, &..))?;
    if seeded_fault!("bucket_deletion_misses_nested") {
        return Ok(());
    }
    transaction.put_lasting(&key(ROOT, Part::Trash, &id.to_be_bytes()), b"")
}

/// Deletes up to `most` of the buckets that are below deleted ones. Returns the number of steps, 0
/// if none is left.
pub(super) fn reclaim(transaction: &Transaction, most: usize) -> Result<usize> {
    let mut steps = 0;
    while steps < most {
        let Some(trash) = transaction.prefix(key(ROOT, Part::Trash, b""))?.next() else { break };
        let (trash, _) = trash?;
        let id = trash.as_bytes().last_chunk().ok_or_else(|| Error::corruption("no bucket id"))?;
        let id = u64::from_be_bytes(*id);
        let mut children = transaction.prefix(key(id, Part::Child, b""))?;
        for child in children.by_ref().take(most - steps) {
            let (child, entry) = child?;
            transaction.delete(child)?;
            discard(transaction, Entry::decode(&entry)?)?;
            steps += 1;
        }
        if steps < most {
            transaction.delete_prefix(bucket_prefix(id))?;
            transaction.delete(trash)?;
            steps += 1;
        }
    }
    Ok(steps)
}

/// Returns the key for a new entry `name` of the bucket `parent`, unless it is taken.
fn free_place(transaction: &Transaction, path: &Path, parent: u64, name: &[u8]) -> Result<Vec<u8>> {
    let place = key(parent, Part::Child, name);
    if transaction.contains(&place)? {
        let message = format!("the bucket {} exists", Shown(path.names()));
        return Err(Error::new(ErrorKind::AlreadyExists, message));
    }
    Ok(place)
}

/// Raises the heights along a path whose last bucket gets one of `height`.
fn raise(transaction: &Transaction, names: &[Vec<u8>], way: &[Entry], height: usize) -> Result<()> {
    for (index, entry) in way.iter().enumerate() {
        let height = way.len() - index + height;
        if entry.height < height {
            let place = key(last_id(&way[..index]), Part::Child, &names[index]);
            transaction.put_lasting(&place, &Entry { height, ..*entry }.encode())?;
        }
    }
    Ok(())
}
