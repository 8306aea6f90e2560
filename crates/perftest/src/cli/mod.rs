//! RTI Perftest's command line: one table of options, from which parsing, help and documentation follow.

mod help;
mod number;
pub mod option;
mod parser;
pub mod table;

pub use help::{markdown, usage};
pub use parser::{Invocation, ParsedOptions, UsageError, parse, words_of_both_sides};
