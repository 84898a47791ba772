//! What is gone is forgotten, and what is in use is found.

use super::*;

#[test]
fn it_finds_what_is_in_use_and_does_not_grow_with_what_is_gone() {
    let map = WeakMap::default();
    let held = map.get_or_insert_with(7, || "seven");
    assert!(Arc::ptr_eq(&held, &map.get_or_insert_with(7, || "another")));
    for key in 10..10_000 {
        drop(map.get_or_insert_with(key, || "gone"));
    }
    assert!(lock(&map.values).len() < 100);
    assert!(map.get(&7).is_some() && map.contains(&7));
    let other = Arc::new("other");
    map.insert(7, &other);
    assert_eq!(map.get(&7).as_deref(), Some(&"other"));
    drop((held, other));
    assert!(map.get(&7).is_none() && !map.contains(&7));
}
