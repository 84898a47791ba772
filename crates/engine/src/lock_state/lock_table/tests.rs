//! The lock table against a plain model, its queue, and the protocol of flag and table under loom.

use super::*;
#[cfg(not(loom))]
use crate::kit::random::Random;
#[cfg(not(loom))]
use siltdb_base::clock::ManualClock;
#[cfg(loom)]
use siltdb_base::sync::thread;
use siltdb_base::{clock::SystemClock, id::FamilyId, slice::Slice};
#[cfg(not(loom))]
use siltdb_tree::read::visible::bounds::Bounds;

const NOW: Duration = Duration::ZERO;

fn key(key: &[u8]) -> LockTarget {
    LockTarget::Key(Slice::copy_from(key))
}

fn request(flag: &Arc<LockFlag>, target: LockTarget, mode: LockMode) -> LockRequest {
    LockRequest { flag: Arc::clone(flag), target, mode }
}

#[cfg(not(loom))]
fn range(lower: u8, upper: u8) -> LockTarget {
    let bound = |key: u8| (key < 16).then(|| Slice::copy_from(&[key]));
    LockTarget::Range(Bounds { lower: bound(lower), upper: bound(upper) })
}

/// Random locks of several owners on keys and ranges of one byte, against a list of all locks.
#[cfg(not(loom))]
#[test]
fn what_is_granted_and_refused_is_what_a_list_of_locks_says() {
    let (table, flag) = (LockTable::default(), Arc::new(LockFlag::new(FamilyId(3))));
    let clock = ManualClock::at(Duration::ZERO);
    let owners: Vec<_> = (0..4).map(|_| table.new_owner()).collect();
    let mut held: Vec<(LockOwner, u8, u8, LockMode)> = Vec::new();
    let mut random = Random::new(Some(7));
    let mut below = |end: u64| (random.next_u64() >> 32) as u8 as u64 % end;
    let (mut granted, mut refused) = (0, 0);
    for _ in 0..20_000 {
        let owner = owners[below(4) as usize];
        if below(12) == 0 {
            table.release(owner);
            held.retain(|(holder, ..)| *holder != owner);
            // The order in which a locker does it.
            if !held.is_empty() {
                flag.set();
            }
            assert_eq!(flag.is_set(), !held.is_empty());
            continue;
        }
        let mode = if below(2) == 0 { LockMode::Shared } else { LockMode::Exclusive };
        let lower = below(16) as u8;
        let (upper, target) = match below(3) {
            0 => {
                let upper = lower + 1 + below(16 - u64::from(lower)) as u8;
                (upper, range(lower, upper))
            }
            _ => (lower + 1, key(&[lower])),
        };
        let is_free = held.iter().all(|&(holder, from, to, other)| {
            holder == owner || !mode.conflicts(other) || upper <= from || to <= lower
        });
        let write = || std::iter::once(request(&flag, target.clone(), LockMode::Exclusive));
        let is_writable = held
            .iter()
            .all(|&(holder, from, to, _)| holder == owner || upper <= from || to <= lower);
        assert_eq!(table.check(Some(owner), write()).is_ok(), is_writable);
        let wanted = vec![request(&flag, target, mode)];
        let result = table.acquire(owner, wanted, NOW, &clock);
        assert_eq!(result.is_ok(), is_free, "{owner:?} {lower}..{upper} {mode:?}: {held:?}");
        if is_free {
            held.push((owner, lower, upper, mode));
            flag.set();
            granted += 1;
        } else {
            refused += 1;
        }
    }
    assert!(granted > 1_000 && refused > 1_000, "{granted} {refused}");
    owners.iter().for_each(|&owner| table.release(owner));
    assert!(!flag.is_set() && owners.iter().all(|&owner| table.held(owner).is_empty()));
    assert!(table.lock().queue.is_empty());
}

#[cfg(not(loom))]
#[test]
fn a_queue_moves_in_order_and_an_owner_with_locks_passes_it() {
    const LONG: Duration = Duration::from_secs(60);
    let table = Arc::new(LockTable::default());
    let flag = Arc::new(LockFlag::new(FamilyId(0)));
    let clock = SystemClock::default();
    let k = |mode| vec![request(&flag, key(b"k"), mode)];
    let [holder, waiter, late, other] = [(); 4].map(|()| table.new_owner());
    table.acquire(holder, k(LockMode::Shared), NOW, &clock).unwrap();
    table.acquire(other, vec![request(&flag, key(b"o"), LockMode::Shared)], NOW, &clock).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope
            .spawn(|| table.acquire(waiter, k(LockMode::Exclusive), LONG, &SystemClock::default()));
        while table.lock().queue.is_empty() {
            std::thread::yield_now();
        }
        // It conflicts not with the holder, but with the earlier request that waits for the holder.
        table.acquire(late, k(LockMode::Shared), NOW, &clock).unwrap_err();
        table.acquire(other, k(LockMode::Shared), NOW, &clock).unwrap();
        table.release(holder);
        table.release(other);
        waiting.join().unwrap().unwrap();
    });
    table.acquire(late, k(LockMode::Shared), NOW, &clock).unwrap_err();
    table.release(waiter);
    table.acquire(late, k(LockMode::Shared), NOW, &clock).unwrap();
}

#[cfg(not(loom))]
#[test]
fn a_request_is_granted_as_a_whole_or_not_at_all() {
    let (table, flag) = (LockTable::default(), Arc::new(LockFlag::new(FamilyId(0))));
    let clock = ManualClock::at(Duration::ZERO);
    let of = |keys: &[&[u8]]| {
        keys.iter().map(|k| request(&flag, key(k), LockMode::Exclusive)).collect::<Vec<_>>()
    };
    let [a, b] = [(); 2].map(|()| table.new_owner());
    table.acquire(a, of(&[b"2"]), NOW, &clock).unwrap();
    table.acquire(b, of(&[b"1", b"2", b"3"]), NOW, &clock).unwrap_err();
    table.acquire(a, of(&[b"1", b"3"]), NOW, &clock).unwrap();
}

#[cfg(not(loom))]
#[test]
fn locks_that_are_handed_over_are_those_of_the_new_owner_alone() {
    let (table, flag) = (LockTable::default(), Arc::new(LockFlag::new(FamilyId(5))));
    let clock = ManualClock::at(Duration::ZERO);
    let [from, to, beside] = [(); 3].map(|()| table.new_owner());
    let shared = request(&flag, key(b"s"), LockMode::Shared);
    let held = vec![
        request(&flag, key(b"x"), LockMode::Exclusive),
        shared.clone(),
        request(&flag, range(3, 6), LockMode::Exclusive),
    ];
    table.acquire(from, held, NOW, &clock).unwrap();
    table.acquire(beside, vec![shared], NOW, &clock).unwrap();
    flag.set();
    table.hand_over(from, to, b"id");
    assert_eq!((table.held(from).len(), table.held(to).len()), (0, 3));
    let may = |owner, target| {
        let write = request(&flag, target, LockMode::Exclusive);
        table.check(Some(owner), std::iter::once(write)).is_ok()
    };
    table.release(from);
    for target in [key(b"x"), key(&[4])] {
        assert!(may(to, target.clone()) && !may(from, target.clone()) && !may(beside, target));
    }
    assert!(!may(to, key(b"s")), "the other shared lock stays that of the other");
    table.release(to);
    assert!(may(from, key(b"x")) && may(from, key(&[4])) && !may(from, key(b"s")));
    table.release(beside);
    assert!(!flag.is_set());
    let lock = request(&flag, key(b"x"), LockMode::Exclusive);
    table.restore(to, b"id \xff", std::slice::from_ref(&lock));
    assert!(flag.is_set() && may(to, key(b"x")) && !may(from, key(b"x")));
    let busy = |owner| {
        let error = table.acquire(owner, vec![lock.clone()], NOW, &clock).unwrap_err();
        (error.kind(), error.to_string())
    };
    let (kind, text) = busy(from);
    assert_eq!(kind, ErrorKind::Busy);
    assert!(text.contains("the prepared transaction \"id \\xff\""), "{text}");
    table.release(to);
    table.acquire(to, vec![lock.clone()], NOW, &clock).unwrap();
    let (_, text) = busy(from);
    assert!(text.contains(&format!("by transaction {}", to.0)), "{text}");
}

/// Threads lock several keys or a range at once, and now and then more while they hold some. What
/// is held is never shared against its mode, and each waits until it is its turn.
#[cfg(not(loom))]
#[test]
fn many_threads_that_wait_for_each_other_all_come_to_their_locks() {
    const KEYS: usize = 12;
    const LONG: Duration = Duration::from_secs(60);
    let (table, flag) = (LockTable::default(), Arc::new(LockFlag::new(FamilyId(0))));
    // How many hold a key shared; `WRITER` for one that holds it alone.
    const WRITER: usize = 1000;
    let held: Vec<_> = (0..KEYS).map(|_| std::sync::atomic::AtomicUsize::new(0)).collect();
    let run = |seed: u64| {
        let mut random = Random::new(Some(seed));
        let mut below = |end: usize| (random.next_u64() >> 32) as usize % end;
        let (mut granted, mut gave_way) = (0, 0);
        for _ in 0..2_000 {
            let owner = table.new_owner();
            let mut mine: Vec<(usize, usize)> = Vec::new();
            for _ in 0..=usize::from(below(4) == 0) {
                let mode = if below(2) == 0 { LockMode::Shared } else { LockMode::Exclusive };
                let lower = below(KEYS);
                let (keys, requests) = match below(4) {
                    0 => {
                        let upper = lower + 1 + below(KEYS - lower);
                        let target = range(lower as u8, upper as u8);
                        ((lower..upper).collect(), vec![request(&flag, target, mode)])
                    }
                    _ => {
                        let keys: Vec<_> = (0..=below(3)).map(|_| below(KEYS)).collect();
                        let requests = keys.iter().map(|&k| request(&flag, key(&[k as u8]), mode));
                        let requests = requests.collect();
                        (keys, requests)
                    }
                };
                if let Err(error) = table.acquire(owner, requests, LONG, &SystemClock::default()) {
                    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
                    gave_way += 1;
                    break;
                }
                granted += 1;
                // Others come between two requests, also on one processor.
                std::thread::yield_now();
                let weight = if mode == LockMode::Shared { 1 } else { WRITER };
                for key in std::collections::BTreeSet::from_iter(keys) {
                    let own: usize = mine.iter().filter(|of| of.0 == key).map(|of| of.1).sum();
                    let others = held[key].fetch_add(weight, Ordering::SeqCst) - own;
                    let is_alone = others == 0 || others < WRITER && mode == LockMode::Shared;
                    assert!(is_alone, "{others} beside {mode:?}");
                    mine.push((key, weight));
                }
            }
            mine.iter().for_each(|&(key, weight)| {
                held[key].fetch_sub(weight, Ordering::SeqCst);
            });
            table.release(owner);
        }
        (granted, gave_way)
    };
    let counts: Vec<(u64, u64)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|seed| scope.spawn(move || run(seed))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let (granted, gave_way) = counts.iter().fold((0, 0), |sum, c| (sum.0 + c.0, sum.1 + c.1));
    println!("{granted} granted, {gave_way} gave way");
    assert!(granted > 15_000 && gave_way > 0);
    assert!(table.lock().queue.is_empty() && !flag.is_set());
}

/// Two batches wait for the same keys, and a third owner for one of them. Pair by pair their keys
/// would be compared 10^9 times.
#[cfg(not(loom))]
#[test]
fn batches_that_wait_cost_a_search_for_each_key() {
    const KEYS: u32 = 32_000;
    const LONG: Duration = Duration::from_secs(60);
    let (table, flag) = (LockTable::default(), Arc::new(LockFlag::new(FamilyId(0))));
    let exclusive = |k: u32| request(&flag, key(&k.to_be_bytes()), LockMode::Exclusive);
    let wait = |requests: Vec<LockRequest>| {
        let owner = table.new_owner();
        table.acquire(owner, requests, LONG, &SystemClock::default()).unwrap();
        table.release(owner);
    };
    let holder = table.new_owner();
    table.acquire(holder, vec![exclusive(KEYS / 2)], NOW, &SystemClock::default()).unwrap();
    let start = std::time::Instant::now();
    std::thread::scope(|scope| {
        for batch in 1..=2_u64 {
            scope.spawn(|| wait((0..KEYS).map(exclusive).collect()));
            while table.lock().queue.next().0 < batch {
                std::thread::yield_now();
            }
        }
        scope.spawn(|| wait(vec![exclusive(7)]));
        while table.lock().queue.next().0 < 3 {
            std::thread::yield_now();
        }
        // A key for which no request waits.
        wait(vec![exclusive(KEYS)]);
        table.release(holder);
    });
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

/// Ranges of one owner, as those of a serializable transaction that is prepared.
#[cfg(not(loom))]
#[test]
fn many_ranges_of_one_owner_cost_a_search_each() {
    const RANGES: u32 = 20_000;
    let (table, flag) = (LockTable::default(), Arc::new(LockFlag::new(FamilyId(0))));
    let bound = |k: u32| Some(Slice::copy_from(&k.to_be_bytes()));
    let from = |k: u32| LockTarget::Range(Bounds { lower: bound(3 * k), upper: bound(3 * k + 2) });
    let ranges = (0..RANGES).map(|k| request(&flag, from(k), LockMode::Shared)).collect();
    let [owner, other] = [(); 2].map(|()| table.new_owner());
    let start = std::time::Instant::now();
    table.acquire(owner, ranges, NOW, &SystemClock::default()).unwrap();
    assert_eq!(table.held(owner).len(), RANGES as usize);
    for k in 0..3 * RANGES {
        let write = request(&flag, key(&k.to_be_bytes()), LockMode::Exclusive);
        assert_eq!(table.check(Some(other), std::iter::once(write)).is_ok(), k % 3 == 2);
    }
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    // Those between them make one of all.
    let between = (0..RANGES).map(|k| {
        let bounds = Bounds { lower: bound(3 * k + 1), upper: bound(3 * k + 3) };
        request(&flag, LockTarget::Range(bounds), LockMode::Shared)
    });
    table.acquire(owner, between.collect(), NOW, &SystemClock::default()).unwrap();
    assert_eq!(table.held(owner).len(), 1);
}

/// A locker and a writer of the same key in the protocol of `locks`. One mutex stands for the
/// sequencer, one number for the published sequence. No write may come between the locked read and
/// the release.
#[cfg(loom)]
#[test]
fn loom_a_write_is_published_before_a_locked_read_or_after_the_release() {
    loom::model(|| {
        let table = Arc::new(LockTable::default());
        let flag = Arc::new(LockFlag::new(FamilyId(0)));
        let sequencer = Arc::new(Mutex::new(0_u64));
        let value = Arc::new((Mutex::new(0_u64), Condvar::new()));
        let writer = {
            let (table, flag) = (Arc::clone(&table), Arc::clone(&flag));
            let (sequencer, value) = (Arc::clone(&sequencer), Arc::clone(&value));
            thread::spawn(move || {
                *sequencer.lock().unwrap() = 1;
                let write = request(&flag, key(b"k"), LockMode::Exclusive);
                let is_admitted =
                    !flag.is_set() || table.check(None, std::iter::once(write)).is_ok();
                // 2 stands for a place that became void.
                *value.0.lock().unwrap() = if is_admitted { 1 } else { 2 };
                value.1.notify_all();
            })
        };
        let owner = table.new_owner();
        let wanted = vec![request(&flag, key(b"k"), LockMode::Exclusive)];
        table.acquire(owner, wanted, NOW, &SystemClock::default()).unwrap();
        let last = {
            let sequencer = sequencer.lock().unwrap();
            flag.set();
            *sequencer
        };
        let mut published = value.0.lock().unwrap();
        while last == 1 && *published == 0 {
            published = value.1.wait(published).unwrap();
        }
        let read = *published == 1;
        drop(published);
        thread::yield_now();
        assert_eq!(*value.0.lock().unwrap() == 1, read, "a write slipped in");
        table.release(owner);
        writer.join().unwrap();
        assert!(!flag.is_set());
    });
}

/// Two owners lock two keys in opposite orders: one fails, and neither waits for ever.
#[cfg(loom)]
#[test]
fn loom_a_deadlock_is_found_by_exactly_one_of_its_owners() {
    const LONG: Duration = Duration::from_secs(3600);
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let table = Arc::new(LockTable::default());
        let flag = Arc::new(LockFlag::new(FamilyId(0)));
        let run = |first: &'static [u8], second: &'static [u8]| {
            let (table, flag) = (Arc::clone(&table), Arc::clone(&flag));
            move || {
                let owner = table.new_owner();
                let clock = SystemClock::default();
                let lock = |k| {
                    let wanted = vec![request(&flag, key(k), LockMode::Exclusive)];
                    table.acquire(owner, wanted, LONG, &clock)
                };
                let is_ok = lock(first).is_ok() && lock(second).is_ok();
                table.release(owner);
                is_ok
            }
        };
        let other = thread::spawn(run(b"b", b"a"));
        let here = run(b"a", b"b")();
        let there = other.join().unwrap();
        assert!(here || there, "both gave way");
    });
}

#[cfg(not(loom))]
#[test]
fn a_key_that_its_owner_locks_again_counts_once() {
    let (table, flag) = (LockTable::default(), Arc::new(LockFlag::new(FamilyId(0))));
    let owner = table.new_owner();
    let lock = |name: &[u8], mode| {
        let requests = vec![request(&flag, key(name), mode)];
        table.acquire(owner, requests, NOW, &SystemClock::default()).unwrap()
    };
    let once = lock(b"a", LockMode::Shared);
    assert!(once > 0);
    for mode in [LockMode::Shared, LockMode::Exclusive, LockMode::Shared] {
        assert_eq!(lock(b"a", mode), once, "{mode:?}");
    }
    assert!(lock(b"b", LockMode::Shared) > once);
}

/// A clock that counts how often it is read: once by a wait that begins, and once each time that
/// its thread looks for what it waits for.
#[cfg(not(loom))]
#[derive(Debug, Default)]
struct CountedReads(std::sync::atomic::AtomicU64);

#[cfg(not(loom))]
impl CountedReads {
    fn count(&self) -> u64 {
        self.0.load(std::sync::atomic::Ordering::SeqCst)
    }
}

#[cfg(not(loom))]
impl Clock for CountedReads {
    fn wall_ms(&self) -> u64 {
        0
    }

    fn monotonic_ns(&self) -> u64 {
        self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        0
    }

    fn sleep(&self, _: Duration) {}
}

#[cfg(not(loom))]
#[test]
fn a_release_wakes_the_first_of_those_who_wait_for_the_key_and_no_other() {
    const WAITERS: usize = 6;
    const LONG: Duration = Duration::from_secs(60);
    let (table, flag) = (LockTable::default(), Arc::new(LockFlag::new(FamilyId(0))));
    let request = || vec![request(&flag, key(b"hot"), LockMode::Exclusive)];
    let holder = table.new_owner();
    table.acquire(holder, request(), NOW, &SystemClock::default()).unwrap();
    let clocks: Vec<_> = (0..WAITERS).map(|_| CountedReads::default()).collect();
    let (granted, turns) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        for (index, clock) in clocks.iter().enumerate() {
            let (granted, table, request) = (granted.clone(), &table, &request);
            scope.spawn(move || {
                let owner = table.new_owner();
                table.acquire(owner, request(), LONG, clock).unwrap();
                granted.send((index, owner)).unwrap();
            });
            // It waits once it has read the clock twice.
            while clock.count() < 2 {
                std::thread::yield_now();
            }
        }
        let mut owner = holder;
        for turn in 0..WAITERS {
            table.release(owner);
            let (index, next) = turns.recv_timeout(LONG).unwrap();
            assert_eq!(index, turn);
            let woken = clocks[turn + 1..].iter().filter(|clock| clock.count() > 2).count();
            assert_eq!(woken, 0, "in turn {turn}");
            owner = next;
        }
    });
}
