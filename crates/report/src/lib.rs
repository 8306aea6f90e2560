//! Measurement records: measurements, machine, and comparisons.
//!
//! A [`record::Record`] is stored as JSON lines. [`table::Table`] turns one or several into one row per series, size
//! and case, with each row's ratio to its floor; [`render`] turns that into text, CSV, JSON and HTML. This crate does
//! not depend on how samples travel.
#![forbid(unsafe_code)]

pub mod compare;
#[cfg(any(test, feature = "lab"))]
pub mod example;
mod numbers;
mod published;
pub mod record;
pub mod render;
pub mod stats;
pub mod table;
mod traffic;
mod versus;
mod view;
