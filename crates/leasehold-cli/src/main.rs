//! The `leasehold` program: hands its arguments to the library beside it and exits with the code that comes back.
//!
//! Invariant: nothing is decided here, so tests reach everything through the library.
//! Called by: whoever runs the program.

use std::process::ExitCode;

fn main() -> ExitCode {
    leasehold_cli::main(std::env::args_os())
}
