//! New files, kept and not.

use super::*;
use crate::{
    fixture::world::{World, small_options},
    rewrite::flush::Flush,
};
use siltdb_base::{clock::ManualClock, fs::Fs};
use std::{path::Path, sync::atomic::AtomicUsize, time::Duration};

#[test]
fn a_new_file_is_in_use_from_before_it_exists_and_vanishes_when_dropped() {
    let world = World::new(small_options());
    let number = world.next_file();
    world.with_context(|context| {
        let (file, mut writer) = NewFile::create(context).unwrap();
        writer.append(b"half a table").unwrap();
        assert_eq!(file.number(), number);
        world.purge();
        assert_eq!(world.files_there().len(), 1, "a purge leaves it alone");
        drop((file, writer));
        assert!(world.files_there().is_empty() && !world.files.is_in_use(number));
    });
}

#[test]
fn an_output_keeps_its_files_from_the_purge_and_no_longer() {
    let mut world = World::new(small_options());
    world.put(b"key", b"value");
    let output = world.try_flush().unwrap().unwrap();
    world.purge();
    assert_eq!(world.files_there().len(), 1);
    drop(output);
    // Whether the changes became durable, only the caller knows: the file stays until it is purged.
    assert_eq!(world.files_there().len(), 1);
    world.purge();
    assert!(world.files_there().is_empty());
}

#[test]
fn a_number_that_is_taken_is_an_error_and_the_file_stays() {
    let world = World::new(small_options());
    let path = world.files.path(world.next_file());
    world.fs.write_all(&path, b"someone's").unwrap();
    world.with_context(|context| {
        let error = NewFile::create(context).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    });
    assert_eq!(world.fs.list(Path::new("/db")).unwrap().len(), 1);
}

/// A clock that counts how often it is looked at.
#[derive(Debug, Default)]
struct Watched {
    clock: ManualClock,
    looks: AtomicUsize,
}

impl Clock for Watched {
    fn wall_ms(&self) -> u64 {
        self.clock.wall_ms()
    }

    fn monotonic_ns(&self) -> u64 {
        self.looks.fetch_add(1, Ordering::Relaxed);
        self.clock.monotonic_ns()
    }

    fn sleep(&self, duration: Duration) {
        self.clock.sleep(duration);
    }
}

#[test]
fn a_job_looks_whether_to_give_way_while_it_reads_and_while_it_verifies() {
    // Few entries in many blocks, which are verified one by one; then many in few blocks.
    for (entries, value_bytes, looks_least) in [(60_u32, 600, 30), (6_000, 0, 6_000 / 64)] {
        for should_yield in [false, true] {
            let mut world = World::new(small_options());
            (0..entries).for_each(|key| world.put(&key.to_be_bytes(), &vec![7; value_bytes]));
            let input = world.tree.flush_input(world.generation).unwrap();
            let flush = Flush::new(vec![input], world.stripes(), Arc::default(), 1);
            let clock = Watched::default();
            let output = world.with_context(|context| {
                let processor_share = &ProcessorShare::default();
                processor_share.set(if should_yield { 0.25 } else { 1.0 });
                flush.run(&JobContext { clock: &clock, processor_share, ..*context })
            });
            drop(output.unwrap());
            let looks = clock.looks.load(Ordering::Relaxed);
            assert_eq!(looks >= looks_least, should_yield, "{looks}");
            assert!(should_yield || looks == 0);
        }
    }
}

#[test]
fn a_job_is_cut_into_parts_that_are_worth_a_sync() {
    assert_eq!(parts_of(11 << 20, 32 << 20, 2), 1);
    assert_eq!(parts_of(12 << 20, 32 << 20, 2), 2);
    assert_eq!(parts_of(1 << 30, 32 << 20, 2), 2);
    // Where tables are smaller, parts are as well.
    assert_eq!(parts_of(4 << 20, 1 << 20, 8), 4);
    assert_eq!((parts_of(0, 1, 8), parts_of(100, 0, 8)), (0, 8));
}
