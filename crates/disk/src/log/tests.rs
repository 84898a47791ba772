//! The log as a whole: written by a small model of the engine, damaged, and recovered.

mod codec;
mod crash;
mod damage;
mod ends;
mod manifest;
mod model;
mod salvage;
