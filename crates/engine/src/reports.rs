//! What an opening, a check and a scrub report.
//!
//! It finds no damage itself: an opening, and the services above, fill it in.

pub mod lost;
pub mod kept;
pub mod value_check;
pub mod check_report;
pub mod scrub_report;
