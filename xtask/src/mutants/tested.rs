//! Mutants of the code around the engine, each noticed by one quick test.
//!
//! Invariant: the test fails because of the broken rule, and not because it is slow.

const EXIT: &str = "crates/leasehold-cli/src/exit.rs";
const GUARD: &str = "crates/leasehold/src/lock/guard.rs";
const QUORUM: &str = "crates/leasehold/src/redlock/guard.rs";
const QUEUE: &str = "crates/leasehold-proto/src/engine/queue.rs";
const RENEWAL: &str = "crates/leasehold-proto/src/engine/renewal.rs";
const SHARED: &str = "crates/leasehold/src/runtime/shared.rs";
const SOCKET: &str = "crates/leasehold-store/src/redis/socket.rs";

mutants! {
    "socket: a connection is closed without a reset", "leasehold-store" "connection" "a_connection_is_closed_with_a_reset":
        SOCKET, "    socket.set_linger(Some(Duration::ZERO))?;\n" => ""
    "guard: a dropped guard keeps its hold", "leasehold" "lock" "embedded::a_dropped_guard_frees_the_lock":
        GUARD, "        if !self.spent {" => "        if self.spent {"
    "command: a signal's code is one less", "leasehold-cli" "run" "codes::a_death_by_signal_is_128_and_its_number":
        EXIT, "u8::try_from(128 + signal)" => "u8::try_from(127 + signal)"
    "shared: the waker of a task that moved is kept", "leasehold" "lib" "shared::waking::a_ticket_that_moved_to_another_task_wakes_that_one":
        SHARED, "Some(Some(known)) if known.will_wake(waker) => None," => "Some(Some(_)) => None,"
    "shared: one listener of several is woken", "leasehold" "lib" "shared::waking::every_listener_of_one_id_is_woken_and_no_other":
        SHARED, "effects.wakers.extend(waiting.filter_map(|(_, waker)| waker.take()));" => "effects.wakers.extend(waiting.filter_map(|(_, waker)| waker.take()).take(1));"
    "shared: effects on the polled ticket are dropped", "leasehold" "lib" "shared::waking::effects_on_the_polled_ticket_make_it_poll_again":
        SHARED, "effects.poll_again |= effects.polled == Some(id);" => "effects.poll_again |= false;"
    "redlock: a release without a majority is reported", "leasehold" "redlock" "a_release_is_confirmed_by_a_majority_and_by_nothing_less":
        QUORUM, "Some(error) if confirmed < quorum => Err(error)," => "Some(error) if confirmed < quorum && !held => Err(error),"
    "waiting: the polling interval is fifteen times as long", "leasehold" "promised_times" "a_default_client_polls_once_a_second":
        QUEUE, "self.settings.poll_interval.min(seen_every)" => "(self.settings.poll_interval * 15).min(seen_every)"
    "watchdog: a renewal comes after half of the lease", "leasehold" "promised_times" "the_watchdog_renews_at_a_third_of_the_lease_at_the_latest":
        RENEWAL, "server_hold.confirmed_at + server_hold.lease().duration() / 3" => "server_hold.confirmed_at + server_hold.lease().duration() / 2"
}
