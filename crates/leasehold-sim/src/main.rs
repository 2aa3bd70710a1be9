//! The simulator's program.

use std::process::ExitCode;

fn main() -> ExitCode {
    leasehold_sim::command::main()
}
