//! What reads of a transaction see: the state at its begin with its own writes on top, and where
//! its commit finds them. It does not validate.

use super::{State, Transaction};
use crate::{
    isolation::Isolation,
    reads::{Reads, Tracking},
    source::{Pinned, ReadPlace, ReadSource},
};
use siltdb_base::{error::Result, seeded_fault, slice::Pinnable};
use siltdb_engine::{
    read::begin_snapshot,
    snapshots::{
        LiveSnapshot,
        read_point::{FirstExpiry, ReadPoint},
    },
};
use siltdb_tree::read::visible::reader::OwnWrites;
use std::sync::Arc;

impl Transaction {
    /// Returns what reads of its family see, and where they are recorded.
    pub(super) fn sight(&self) -> Result<Sight> {
        let mut state = self.shared.active()?;
        let database = self.shared.engine.database();
        let point = state.snapshot.as_ref().map(LiveSnapshot::point);
        // The present of a family that only this transaction knows is empty, and cannot be pinned.
        let is_created = state.writes.creates(self.place.id());
        let point =
            point.or_else(|| is_created.then(|| begin_snapshot(&database.read_rooms()).point()));
        let mut place = ReadPlace { point, ..self.place.place.clone() };
        let State { writes, indexed, .. } = &mut *state;
        let own = indexed.of(&database.memory, &writes.bytes, place.family.id)?;
        let covered = match self.shared.options.isolation {
            Isolation::RepeatableRead => Some(Tracking::Keys),
            Isolation::Serializable => Some(Tracking::Ranges),
            _ => None,
        };
        self.shared.check_memory(&mut state)?;
        let reads = covered.map(|covered| {
            let point = place.point.take();
            place.point = point.map(|point| point.noting(&state.first_expiry));
            let (footprint, family) = (Arc::clone(&state.reads), Arc::clone(&place.family));
            Reads { footprint, family, covered }
        });
        Ok(Sight { place, own, reads })
    }
}

/// What a read of a transaction sees.
pub(super) struct Sight {
    place: ReadPlace,
    own: Option<OwnWrites>,
    /// Where it is recorded; `None` if the commit does not validate it.
    reads: Option<Reads>,
}

impl Sight {
    /// # Seeded faults
    /// `snapshot_reads_validated`: the commit validates them like all others.
    pub(super) fn without_reads(self) -> Self {
        match seeded_fault!("snapshot_reads_validated") {
            true => self,
            false => {
                let point = self.place.point.map(|point| ReadPoint { first_expiry: None, ..point });
                let place = ReadPlace { point, ..self.place };
                Self { place, reads: None, ..self }
            }
        }
    }

    /// Where the reads note when what they see expires; `None` if the commit does not validate it.
    pub(super) fn first_expiry(&self) -> Option<Arc<FirstExpiry>> {
        self.place.point.as_ref()?.first_expiry.clone()
    }

    /// The same, which notes in `first_expiry` instead. A reader of the present notes nothing.
    pub(super) fn noting(mut self, first_expiry: &Arc<FirstExpiry>) -> Self {
        self.place.point = self.place.point.map(|point| point.noting(first_expiry));
        self
    }

    pub(super) fn look<R>(
        self,
        key: &[u8],
        look: impl FnOnce(Pinnable<'_>) -> R,
    ) -> Result<Option<R>> {
        if let Some(reads) = self.reads {
            reads.key(key);
        }
        match self.own {
            None => self.place.look(key, look),
            Some(own) => self.place.pin()?.reader.with_own(own).look(key, look),
        }
    }

    pub(super) fn pin(self) -> Result<Pinned> {
        let Pinned { reader, .. } = self.place.pin()?;
        let reader = match self.own {
            None => reader,
            Some(own) => reader.with_own(own),
        };
        Ok(Pinned { reader, reads: self.reads })
    }
}
