//! The command `leasehold`, for operators of the incidents.

fn main() -> std::process::ExitCode {
    leasehold_cli::main(std::env::args_os())
}
