//! Shows results: as a table in the terminal, as CSV, as Markdown, and as a page of HTML.

pub mod numbers;
pub mod ranking;
pub mod bars;
pub mod csv;
pub mod markdown;
pub mod table;
pub mod html;
