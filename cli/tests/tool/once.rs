//! Single deletions, values that expire in batches and scripts, and locks in the shell.

use crate::place::Place;

#[test]
fn a_key_that_was_put_once_is_deleted_by_each_way() {
    let place = Place::new();
    for key in ["a", "b", "c", "d", "e"] {
        place.ok(&["put", "db", key, "v"]);
    }
    place.ok(&["single-delete", "db", "a"]);
    assert_eq!(place.ok(&["scan", "db", "--keys-only"]), "b\nc\nd\ne\n");
    place.run_with(&["batch", "db", "-"], b"single-delete b\n", 0);
    place.run_with(&["txn", "db", "-"], b"single-delete c\n", 0);
    let script = b"begin\nsingle-delete d\ncommit\nSINGLE-DELETE e\n";
    place.run_with(&["shell", "db"], script, 0);
    assert_eq!(place.ok(&["count", "db"]), "0\n");
    place.ok(&["compact", "db"]);
    assert_eq!(place.ok(&["count", "db"]), "0\n");
    place.run(&["single-delete", "absent", "k"], 1).says(&["no database"]);
    let help = place.ok(&["single-delete", "--help"]);
    assert!(help.contains("Warning: on any other key an older value may appear"), "{help}");
}

#[test]
fn values_of_batches_and_scripts_may_expire() {
    let place = Place::new();
    let batch = b"put a 1\nput-for 2h b 2 3\nput-for\t2h\tc\t4\n";
    let run = place.run_with(&["batch", "db", "-"], batch, 0);
    assert_eq!(run.stdout, "applied 3 operations\n");
    assert_eq!(place.ok(&["scan", "db"]), "a\t1\nb\t2 3\nc\t4\n");
    assert!(place.ok(&["ttl", "db", "b"]).starts_with("1h 59m left"));
    assert_eq!(place.ok(&["ttl", "db", "a"]), "does not expire\n");
    place.run_with(&["txn", "db", "-"], b"put d 5 --ttl 2h\n", 0);
    assert!(place.ok(&["ttl", "db", "d"]).starts_with("1h 59m left"));
    place.run_with(&["shell", "db"], b"begin\nbatch more\nquit\n", 1);
    place.write("more", "put-for 2h e 6\n");
    place.run_with(&["shell", "db"], b"begin\nbatch more\ncommit\n", 0);
    assert!(place.ok(&["ttl", "db", "e"]).starts_with("1h 59m left"));
    let run = place.run_with(&["batch", "db", "-"], b"put-for soon a 1\n", 2);
    run.says(&["line 1, column 9: a TTL is a number and ms, s, m, h or d", "nothing was written"]);
}

#[test]
fn a_lock_of_the_shell_makes_others_wait_and_names_its_holder() {
    let place = Place::new();
    place.ok(&["put", "db", "k", "v"]);
    let shell = |text: &str, code| place.run_with(&["shell", "db"], text.as_bytes(), code);
    let two = "begin a --lock-timeout 50ms\nbegin b --lock-timeout 50ms\n";
    let run = shell(&format!("{two}a: lock k\nlock k\n"), 1);
    assert!(run.stdout.contains("locked by transaction 1\n"), "{}", run.stdout);
    run.says(&["busy: the key \"k\"", "is locked by transaction 1", "waited for 50ms"]);
    run.says(&["`--option lock_timeout=TIME`"]);
    shell(&format!("{two}a: lock --prefix k\nput k w\ncommit\n"), 1).says(&["is locked by"]);
    // Shared locks pass each other, and a commit releases its own.
    let shared = "a: lock k --shared\nb: lock --from a --to z --shared\n";
    shell(&format!("{two}{shared}"), 0);
    shell(&format!("{two}a: lock k\ncommit a\nb: lock k\nb: put k w\ncommit b\n"), 0);
    assert_eq!(place.ok(&["get", "db", "k"]), "w\n");
    let deadlock = "a: lock x\nb: lock y\n";
    shell(&format!("{two}{deadlock}a: lock y\n"), 1).says(&["is locked by transaction 2"]);
    shell("lock k\n", 1).says(&["no transaction is open"]);
    shell("begin\nlock\n", 2).says(&["KEY"]);
    let run = place.run_with(&["shell", "db", "--json"], b"begin\nlock k\n", 0);
    assert_eq!(run.json()[1]["lock_number"], 1);
}
