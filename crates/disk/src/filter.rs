//! To be written with its room.
