//! Mutants of the command line program, each noticed by one quick test.
//!
//! Invariant: the test fails because of the broken rule, and not because it is slow.

const DEADLINE: &str = "crates/leasehold-cli/src/deadline.rs";
const ORDERS: &str = "crates/leasehold-cli/src/orders.rs";
const RUN: &str = "crates/leasehold-cli/src/command/run.rs";
const SETTINGS: &str = "crates/leasehold-cli/src/settings.rs";
const SUPERVISE: &str = "crates/leasehold-cli/src/supervise.rs";
const WATCHER: &str = "crates/leasehold-cli/src/watcher.rs";

mutants! {
    "command: the environment is not read", "leasehold-cli" "run" "configuration::a_service_and_a_command_with_the_same_variables_exclude_each_other":
        SETTINGS, "    let config = match sources(arguments).environment().build() {" => "    let config = match sources(arguments).variables([(\"LEASEHOLD_URL\", std::env::var(\"LEASEHOLD_URL\").unwrap_or_default())]).build() {"
    "command: a token is handed on to another lock's command", "leasehold-cli" "run" "kinds::a_token_is_not_told_to_a_command_under_another_lock":
        RUN, "None => starter.env_remove(\"LEASEHOLD_TOKEN\")," => "None => &mut starter,"
    "command: signals are dropped while the group drains", "leasehold-cli" "run" "lost::signals_reach_what_is_left_of_the_group_during_the_grace":
        SUPERVISE, "signal = self.signals.next() => self.send(signal)," => "_ = self.signals.next() => {}"
    "command: the deadline is told once", "leasehold-cli" "run" "frozen::a_command_that_runs_for_many_leases_is_left_alone":
        DEADLINE, "            let left = state.check(remaining);" => "            let left = remaining();"
    "command: no deadline is told", "leasehold-cli" "run" "frozen::a_stopped_wrapper_never_runs_its_command_under_anothers_lock":
        DEADLINE, "        if on_lost == OnLost::Ignore {" => "        if on_lost != OnLost::Ignore {"
    "command: a loss begins the grace anew for the watcher", "leasehold-cli" "lib" "orders::tests::later_news_put_a_deadline_off_but_not_a_grace_that_runs":
        ORDERS, "let running = self.orders.kill.filter(|_| self.acted);" => "let running = self.orders.kill.filter(|_| false);"
    "command: a watcher with nothing to read acts on the end of the pipe alone", "leasehold-cli" "run" "frozen::the_command_of_a_stopped_wrapper_gets_term_at_the_deadline_and_kill_after_the_grace":
        WATCHER, "            Ok(false) => watched.execute_due()," => "            Ok(false) => {}"
}
