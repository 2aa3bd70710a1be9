//! The `leasehold` program, which hands its arguments to the library beside it and exits with the returned code.
//!
//! Invariant: this file decides nothing, so tests reach everything through the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    leasehold_cli::main(std::env::args_os())
}
