//! The `hostile` executable.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    peregrine_hostile::cli::main()
}
