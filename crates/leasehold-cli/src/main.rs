//! The `leasehold` program: hands its arguments to the library beside it and exits with the code that comes back.

use std::process::ExitCode;

fn main() -> ExitCode {
    leasehold_cli::main(std::env::args_os())
}
