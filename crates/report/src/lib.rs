//! Measurement records: what was measured, where, and how it compares.
//!
//! A [`record::Record`] is kept as JSON lines. [`table::Table`] turns it into one row per size and series with each
//! row's ratio to the floor of the same size; [`render`] turns that into text, CSV, JSON and HTML. Nothing here knows how a
//! sample travels.
#![forbid(unsafe_code)]

pub mod compare;
#[cfg(test)]
mod example;
pub mod record;
pub mod render;
pub mod stats;
pub mod table;
