//! RTI Perftest's command line. Parsing, help and documentation derive from one table of options.

mod help;
mod number;
pub mod option;
mod parser;
pub mod table;

pub use help::{markdown, usage};
pub use parser::{Invocation, ParsedOptions, UsageError, parse, words_of_both_sides};
