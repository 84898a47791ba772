//! Backups: made while the database is in use, restored, verified and pruned; crashed and failed at
//! each call; damaged, incomplete and foreign ones.
#![expect(clippy::unwrap_used, reason = "a test that fails names the line")]

mod backup {
    mod world;
    mod bad_input;
    mod crash;
    mod damage;
    mod line;
    mod progress;
    mod rounds;
}
