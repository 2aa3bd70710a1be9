//! The simulator's command.
fn main() {}
