//! The program of the simulator.

use std::process::ExitCode;

fn main() -> ExitCode {
    leasehold_sim::command::main()
}
