//! The program of the simulator.

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// Events and arguments are many small values, on which the system's allocator spends a tenth of the time.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    leasehold_sim::command::main()
}
