//! The rules of the repository, one family per file. There is no list of exceptions; a rule that
//! causes trouble is improved.

pub mod files;
pub mod paths;
pub mod sizes;
pub mod headers;
pub mod unit_tests;
pub mod calls;
pub mod unsafety;
pub mod names;
pub mod types;
pub mod unused;
pub mod signatures;
pub mod tuples;
pub mod assertions;
pub mod manifest;
pub mod floors;
pub mod packages;
pub mod modules;
pub mod rooms;
pub mod documents;
pub mod pages;
pub mod glossary;
pub mod dependencies;
