//! Which values of a flush share a sequence number.

use super::*;

/// The oldest and the newest sequence number of the newest table.
fn newest_sequences(world: &World) -> (u64, u64) {
    let table = &tables(world)[0];
    (table.sequence_min().0, table.sequence_max().0)
}

#[test]
fn values_share_the_sequence_number_of_their_memtable_where_nothing_is_deeper() {
    let mut world = World::new(small_options());
    let put = |world: &mut World, keys: [&[u8]; 2]| {
        for key in keys {
            world.put(key, b"value");
        }
        world.flush();
        newest_sequences(world)
    };
    assert_eq!(put(&mut world, [b"d", b"e"]), (1, 1));
    assert_eq!(put(&mut world, [b"f", b"g"]), (3, 3));
    // Between two keys of a deeper table, though it has neither.
    assert_eq!(put(&mut world, [b"dd", b"z"]), (5, 6));
    // What came after a snapshot keeps its own.
    world.put(b"a", b"value");
    world.snapshots.push(world.sequence);
    assert_eq!(put(&mut world, [b"b", b"c"]), (7, 9));
    world.snapshots.clear();
    world.check(&mut TestRandom::new(7));
}

#[test]
fn a_value_stays_newer_than_a_range_tombstone_that_is_kept_for_another_key() {
    let mut world = World::new(small_options());
    world.put(b"y", b"deeper, and deleted");
    world.flush();
    world.put(b"a", b"older than the tombstone");
    world.write(b"b", EntryKind::RangeDelete, b"z");
    world.put(b"c", b"newer");
    world.flush();
    assert_eq!(newest_sequences(&world), (2, 4));
    assert_eq!(world.get(b"c", world.sequence).unwrap(), b"newer");
    assert_eq!(world.get(b"y", world.sequence), None);
    world.check(&mut TestRandom::new(7));
}

#[test]
fn parts_before_the_one_that_reaches_an_older_table_share_a_sequence_number() {
    let mut world = World::new(TreeOptions { table_bytes_target: 64 << 10, ..small_options() });
    world.flush_parallelism = 3;
    put_all(&mut world, 9_900..9_901);
    world.flush();
    put_all(&mut world, 0..10_000);
    world.flush();
    let all = tables(&world);
    let shares = |table: &&Arc<OpenReference>| table.sequence_min() == table.sequence_max();
    let (sharing, others): (Vec<_>, Vec<_>) = all.iter().partition(shares);
    assert!(sharing.len() > 2 && !others.is_empty());
    let border = Slice::from(b"06".to_vec());
    assert!(others.iter().all(|table| table.range().last >= border), "they are of the last part");
}

#[test]
fn a_part_of_a_memtable_with_nothing_deeper_shares_a_sequence_number() {
    let (world, _) = flush_between(9_000..20_000, 19_000..19_500, 3);
    let (deep, new): (Vec<_>, Vec<_>) =
        tables(&world).into_iter().partition(|table| table.sequence_max().0 <= 10_000);
    assert!(deep.iter().all(|table| table.sequence_max().0 == 1));
    let (overlapping, apart): (Vec<_>, Vec<_>) =
        new.iter().partition(|table| table.range().first.as_bytes() < b"10000".as_slice());
    assert!(apart.len() > 1 && overlapping.len() == 1);
    assert!(apart.iter().all(|table| table.sequence_max().0 == 10_001));
    assert!(overlapping[0].sequence_max().0 > 11_000);
    world.check(&mut TestRandom::new(8));
}
