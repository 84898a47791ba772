//! The dependency graph of transactions (Adya, 1999); its cycles are the anomalies.

use crate::histories::record::{Access, Key, Kind, Record, Version};
use std::collections::{BTreeMap, HashMap, HashSet};

/// The reason why one transaction precedes another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edges {
    /// Both wrote a key, the second directly after the first (ww).
    Written,
    /// The second read a write of the first (wr).
    Read,
    /// The second wrote the version directly after the one read by the first (rw).
    OverwrittenItem,
    /// The same, if the first saw in a range that the key was missing.
    OverwrittenRange,
}

impl Edges {
    fn is_overwritten(self) -> bool {
        matches!(self, Self::OverwrittenItem | Self::OverwrittenRange)
    }
}

/// Nodes are numbers of transactions, from 1.
#[derive(Debug, Default)]
pub struct Graph {
    nodes: usize,
    edges: Vec<(usize, usize, Edges)>,
}

impl Graph {
    /// Builds the graph; `finals` are the lists at the end.
    ///
    /// # Panics
    /// If a transaction read uncommitted data (G1a), an intermediate write (G1b), or lists whose
    /// orders contradict each other.
    pub fn new(records: &[Record], finals: &BTreeMap<Key, Vec<Version>>) -> Self {
        let orders = Orders::new(records, finals);
        let nodes = records.iter().map(|record| record.transaction).max().unwrap_or(0) as usize + 1;
        let mut graph = Self { nodes, ..Self::default() };
        for order in orders.keys.values() {
            for pair in order.windows(2) {
                graph.add(pair[0], pair[1], Edges::Written);
            }
        }
        for record in records {
            for read in &record.reads {
                let (from, next) = orders.around(record, read.key, read.version);
                graph.add(from, Version::new(record.transaction, 0), Edges::Read);
                let why = match read.access {
                    Access::Item => Edges::OverwrittenItem,
                    Access::Range => Edges::OverwrittenRange,
                };
                if let Some(next) = next {
                    graph.add(Version::new(record.transaction, 0), next, why);
                }
            }
        }
        graph
    }

    fn add(&mut self, from: Version, to: Version, why: Edges) {
        let (from, to) = (from.transaction() as usize, to.transaction() as usize);
        if from != to && from != 0 {
            self.edges.push((from, to, why));
        }
    }

    /// Finds a cycle of these edges.
    pub fn cycle(&self, kinds: &[Edges]) -> Option<Vec<usize>> {
        let edges = self.edges.iter().filter(|(_, _, why)| kinds.contains(why));
        cycle(self.nodes, edges.map(|&(from, to, _)| (from, to)))
    }

    /// # Panics
    /// If there is a cycle of these edges.
    pub fn assert_no_cycle(&self, kinds: &[Edges]) {
        if let Some(cycle) = self.cycle(kinds) {
            panic!("a cycle of {kinds:?}: {}", self.show(&cycle, kinds));
        }
    }

    /// Every cycle must have two overwritten reads in a row (Fekete and others, 2005). So a cycle
    /// with exactly one (G-single) is forbidden.
    ///
    /// # Panics
    /// If there is a cycle without two in a row.
    pub fn assert_snapshot_isolation(&self) {
        // Each node occurs twice: reached by an overwritten read, and by another edge. No
        // overwritten read leaves the first.
        let mut edges = Vec::new();
        for &(from, to, why) in &self.edges {
            if why.is_overwritten() {
                edges.push((from, to + self.nodes));
            } else {
                edges.push((from, to));
                edges.push((from + self.nodes, to));
            }
        }
        if let Some(cycle) = cycle(self.nodes * 2, edges.into_iter()) {
            let cycle: Vec<_> = cycle.into_iter().map(|node| node % self.nodes).collect();
            let kinds =
                [Edges::Written, Edges::Read, Edges::OverwrittenItem, Edges::OverwrittenRange];
            panic!("no snapshot isolation: {}", self.show(&cycle, &kinds));
        }
    }

    fn show(&self, cycle: &[usize], kinds: &[Edges]) -> String {
        let steps = cycle.iter().zip(cycle.iter().cycle().skip(1)).map(|(&from, &to)| {
            let is_step = |&&(a, b, why): &&(usize, usize, Edges)| {
                a == from && b == to && kinds.contains(&why)
            };
            let why: Vec<_> = self.edges.iter().filter(is_step).map(|(_, _, why)| *why).collect();
            format!("{from} -{why:?}-> {to}")
        });
        steps.collect::<Vec<_>>().join(", ")
    }
}

/// Finds a cycle by removing nodes without predecessors.
fn cycle(nodes: usize, edges: impl Iterator<Item = (usize, usize)>) -> Option<Vec<usize>> {
    let (mut incoming, mut outgoing) = (vec![Vec::new(); nodes], vec![Vec::new(); nodes]);
    for (from, to) in edges {
        incoming[to].push(from);
        outgoing[from].push(to);
    }
    let mut open: Vec<_> = incoming.iter().map(Vec::len).collect();
    let mut free: Vec<_> = (0..nodes).filter(|&node| open[node] == 0).collect();
    while let Some(node) = free.pop() {
        for &to in &outgoing[node] {
            open[to] -= 1;
            if open[to] == 0 {
                free.push(to);
            }
        }
    }
    // Each remaining node has a remaining predecessor, so walking back leads into a cycle.
    let mut at = (0..nodes).find(|&node| open[node] > 0)?;
    let mut way = Vec::new();
    let mut seen = HashSet::new();
    while seen.insert(at) {
        way.push(at);
        at = *incoming[at].iter().find(|&&from| open[from] > 0).unwrap();
    }
    let start = way.iter().position(|&node| node == at).unwrap();
    way.drain(..start);
    way.reverse();
    Some(way)
}

/// The order of the versions of each key, one for each transaction that wrote it.
struct Orders {
    keys: HashMap<Key, Vec<Version>>,
    places: HashMap<(Key, Version), usize>,
}

impl Orders {
    fn new(records: &[Record], finals: &BTreeMap<Key, Vec<Version>>) -> Self {
        let mut lasts: HashMap<Key, Vec<(u64, Version)>> = HashMap::new();
        let mut appended: HashMap<Version, Key> = HashMap::new();
        for record in records {
            let last: BTreeMap<Key, Version> = record.writes.iter().copied().collect();
            for (key, version) in last.into_iter().filter(|(key, _)| key.kind != Kind::List) {
                lasts.entry(key).or_default().push((record.sequence, version));
            }
            let lists = record.writes.iter().filter(|(key, _)| key.kind == Kind::List);
            appended.extend(lists.map(|&(key, version)| (version, key)));
        }
        let mut keys: HashMap<Key, Vec<Version>> = HashMap::new();
        for (key, mut versions) in lasts {
            versions.sort_unstable();
            keys.insert(key, versions.into_iter().map(|(_, version)| version).collect());
        }
        for (&key, list) in finals {
            for version in list {
                assert_eq!(
                    appended.remove(version),
                    Some(key),
                    "{version:?} is there by no commit"
                );
            }
            for (nth, version) in list.iter().enumerate() {
                let whole =
                    list[nth..].partition_point(|v| v.transaction() == version.transaction());
                let others = list[nth + whole..].iter();
                let mut again = others.filter(|v| v.transaction() == version.transaction());
                assert_eq!(again.next(), None, "appends of a transaction are not together");
            }
            let is_last = |&nth: &usize| {
                list.get(nth + 1).is_none_or(|next| next.transaction() != list[nth].transaction())
            };
            keys.insert(key, (0..list.len()).filter(is_last).map(|nth| list[nth]).collect());
        }
        assert!(appended.is_empty(), "committed, but lost: {appended:?}");
        check_lists(records, finals);
        let mut places = HashMap::new();
        for (&key, order) in &keys {
            places.extend(order.iter().enumerate().map(|(nth, &version)| ((key, version), nth)));
        }
        Self { keys, places }
    }

    /// The version itself, and the next one, unless the reader wrote it.
    fn around(&self, reader: &Record, key: Key, version: Version) -> (Version, Option<Version>) {
        let order = self.keys.get(&key).map_or(&[][..], Vec::as_slice);
        if version == Version::default() {
            return (version, order.first().copied());
        }
        let place = self.places.get(&(key, version)).unwrap_or_else(|| {
            panic!("G1a or G1b: {} read {version:?} of {key:?}", reader.transaction)
        });
        (version, order.get(place + 1).copied())
    }
}

/// Checks that each list that was read is a prefix of the final one.
fn check_lists(records: &[Record], finals: &BTreeMap<Key, Vec<Version>>) {
    for record in records {
        for (key, seen) in &record.lists {
            let list = finals.get(key).map_or(&[][..], Vec::as_slice);
            assert!(
                list.starts_with(seen),
                "{} saw of {key:?} {seen:?}, which ends as {list:?}",
                record.transaction
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[(usize, usize, Edges)]) -> Graph {
        Graph { nodes: 10, edges: edges.to_vec() }
    }

    #[test]
    fn a_cycle_is_found_behind_a_way_into_it() {
        let edges = [(1, 2), (2, 3), (3, 4), (4, 2), (4, 5)];
        assert_eq!(cycle(6, edges.into_iter()).map(|found| found.len()), Some(3));
        assert_eq!(cycle(6, edges[..3].iter().copied()), None);
    }

    #[test]
    fn snapshot_isolation_permits_write_skew() {
        use Edges::OverwrittenItem as Item;
        graph(&[(1, 2, Item), (2, 1, Item)]).assert_snapshot_isolation();
    }

    #[test]
    #[should_panic(expected = "no snapshot isolation")]
    fn snapshot_isolation_forbids_one_overwritten_read() {
        use Edges::{OverwrittenItem, Read, Written};
        graph(&[(1, 2, OverwrittenItem), (2, 3, Read), (3, 1, Written)])
            .assert_snapshot_isolation();
    }

    #[test]
    fn a_lost_update_is_a_cycle_of_items() {
        let key = Key { kind: Kind::Register, number: 0 };
        let record = |transaction, sequence| Record {
            transaction,
            sequence,
            reads: vec![crate::histories::record::ReadOf {
                key,
                version: Version::default(),
                access: Access::Item,
            }],
            writes: vec![(key, Version::new(transaction, 0))],
            ..Record::default()
        };
        let graph = Graph::new(&[record(1, 5), record(2, 6)], &BTreeMap::new());
        assert!(graph.cycle(&[Edges::Written, Edges::Read]).is_none());
        assert!(graph.cycle(&[Edges::Written, Edges::OverwrittenItem]).is_some());
    }
}
