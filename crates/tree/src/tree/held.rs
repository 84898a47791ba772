//! What is kept from happening in a tree while a guard lives.

use crate::planning::plan::Busy;
use siltdb_base::sync::lock;
use std::sync::Mutex;

/// While it lives no compaction of the tree begins by itself.
#[derive(Debug)]
pub struct Pause<'a> {
    pub(super) busy: &'a Mutex<Busy>,
}

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        lock(self.busy).resume();
    }
}

/// While it lives no table of the tree gets another file number by a move.
#[derive(Debug)]
pub struct KeptNumbers<'a> {
    pub(super) busy: &'a Mutex<Busy>,
}

impl Drop for KeptNumbers<'_> {
    fn drop(&mut self) {
        lock(self.busy).release_numbers();
    }
}
