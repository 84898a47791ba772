//! Shows results: as a table in the terminal, as Markdown, as an HTML page, as pictures, and in the
//! pages of the project.

pub mod numbers;
pub mod age;
pub mod ranking;
pub mod markup;
pub mod chart;
pub mod markdown;
pub mod bars;
pub mod table;
pub mod html;
pub mod claims;
pub mod transactions;
pub mod published;
pub mod pages;
