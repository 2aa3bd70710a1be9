//! Mutants of what lies beside the engine, each noticed by one quick test.
//!
//! Invariant: as every mutant's; the test fails by what the mutant breaks, and not by being slow.
//! Called by: the list of all.

const EXIT: &str = "crates/leasehold-cli/src/exit.rs";
const GUARD: &str = "crates/leasehold/src/guard.rs";
const SOCKET: &str = "crates/leasehold-store/src/redis/socket.rs";

mutants! {
    "socket: a connection is closed without a reset", "leasehold-store" "connection" "a_connection_is_closed_with_a_reset":
        SOCKET, "    socket.set_linger(Some(Duration::ZERO))?;\n" => ""
    "guard: a dropped guard keeps its hold", "leasehold" "lock" "embedded::a_dropped_guard_frees_the_lock":
        GUARD, "        if !self.spent {" => "        if self.spent {"
    "command: a signal's code is one less", "leasehold-cli" "run" "codes::a_death_by_signal_is_128_and_its_number":
        EXIT, "u8::try_from(128 + signal)" => "u8::try_from(127 + signal)"
}
