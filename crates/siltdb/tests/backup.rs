//! Backups: made while the database is in use, restored, verified and pruned; crashed and failed at
//! each call; damaged, incomplete and foreign ones.

mod world;
mod bad_input;
mod crash;
mod damage;
mod line;
mod progress;
mod rounds;
