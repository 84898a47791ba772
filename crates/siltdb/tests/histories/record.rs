//! The reads and writes of a transaction.

/// The use of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Writes append by merge, so the value shows the order of its writes.
    List,
    /// Writes replace the value.
    Register,
    /// Like a register, but missing at first, and read only by ranges.
    Slot,
}

/// A key of the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub kind: Kind,
    pub number: u64,
}

impl Key {
    pub fn bytes(self) -> Vec<u8> {
        let prefix = match self.kind {
            Kind::List => b'l',
            Kind::Register => b'r',
            Kind::Slot => b's',
        };
        [&[prefix][..], &self.number.to_be_bytes()].concat()
    }

    pub fn of_bytes(kind: Kind, bytes: &[u8]) -> Self {
        Self { kind, number: u64::from_be_bytes(bytes[1..].try_into().unwrap()) }
    }
}

/// A write, unique in the history; 0 is the state before the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u64);

/// Most writes of one transaction.
const WRITES_MAX: u64 = 1 << 8;

impl Version {
    pub fn new(transaction: u64, nth: usize) -> Self {
        assert!((nth as u64) < WRITES_MAX);
        Self(transaction * WRITES_MAX + nth as u64)
    }

    pub fn transaction(self) -> u64 {
        self.0 / WRITES_MAX
    }

    pub fn bytes(self) -> [u8; 8] {
        self.0.to_le_bytes()
    }

    /// The versions in a value.
    pub fn all(value: &[u8]) -> Vec<Self> {
        let (all, rest) = value.as_chunks::<8>();
        assert!(rest.is_empty(), "a torn value: {value:?}");
        all.iter().map(|bytes| Self(u64::from_le_bytes(*bytes))).collect()
    }
}

/// The way in which a version was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// By its key, or returned by a range.
    Item,
    /// Absent in a range.
    Range,
}

#[derive(Clone, Copy, Debug)]
pub struct ReadOf {
    pub key: Key,
    /// The newest version read. For a list, all versions before it were read, too.
    pub version: Version,
    pub access: Access,
}

/// A transaction that committed.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// Transaction number, from 1.
    pub transaction: u64,
    /// Sequence number; 0 for a write without a transaction, which only appends.
    pub sequence: u64,
    pub reads: Vec<ReadOf>,
    /// Every write, in order.
    pub writes: Vec<(Key, Version)>,
    /// The lists that it read, without its own writes.
    pub lists: Vec<(Key, Vec<Version>)>,
}

impl Record {
    /// The transaction's own writes of a key.
    pub fn written(&self, key: Key) -> impl Iterator<Item = Version> {
        self.writes.iter().filter(move |(of, _)| *of == key).map(|(_, version)| *version)
    }
}
