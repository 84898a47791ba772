//! SiltDB.
