//! Mutants of the engine, each noticed by one test that steps the engine by hand.
//!
//! Invariant: the tests have a clock of their own, so they are exact.

const OPERATION: &str = "crates/leasehold-proto/src/engine/operation.rs";
const QUEUE: &str = "crates/leasehold-proto/src/engine/queue.rs";
const REENTRY: &str = "crates/leasehold-proto/src/engine/reentry.rs";
const RENEWAL: &str = "crates/leasehold-proto/src/engine/renewal.rs";
const SERVER_HOLD: &str = "crates/leasehold-proto/src/engine/server_hold.rs";
const TICKET: &str = "crates/leasehold-proto/src/engine/ticket.rs";
const UNDO: &str = "crates/leasehold-proto/src/engine/release.rs";
const WAKEUP: &str = "crates/leasehold-proto/src/engine/wakeup.rs";

mutants! {
    "operation: a later refusal hides that it may have run", "leasehold-proto" "engine" "outcomes::an_operation_that_may_have_run_is_not_told_as_undone_by_a_later_refusal":
        OPERATION, "let applied = if operation.uncertain { Applied::Unknown } else { error.applied };" => "let applied = error.applied;"
    "re-entry: a count of unknown outcome counts as set", "leasehold-proto" "engine" "outcomes::a_re_entry_that_may_have_run_is_told_as_unknown_and_its_count_is_mended":
        REENTRY, "            server_hold.on_server = None;\n" => ""
    "re-entry: a lease of unknown outcome is forgotten", "leasehold-proto" "engine" "outcomes::a_hold_that_runs_out_after_a_re_entry_of_unknown_outcome_is_taken_off_the_server":
        REENTRY, "            server_hold.uncertain = true;\n" => ""
    "re-entry: a partial release of a lock that is gone counts", "leasehold-proto" "engine" "outcomes::a_partial_release_of_a_lock_that_is_gone_was_none":
        REENTRY, "Ok(Some(false)) => Ok(Renewal::Gone)," => "Ok(Some(false)) => Ok(Renewal::Renewed),"
    "re-entry: a lock that does not re-enter is re-entered from the queue", "leasehold-proto" "engine" "owners::a_lock_that_does_not_re_enter_is_not_re_entered_from_the_queue":
        REENTRY, "            if request.reenters {" => "            if request.reenters || !request.reenters {"
    "re-entry: attempts of one owner do not meet", "leasehold-proto" "engine" "owners::two_attempts_of_one_owner_end_in_one_hold":
        QUEUE, "                if held.recipe.policy().counted {" => "                if held.recipe.policy().counted && !once {"
    "close: operations under way are forgotten", "leasehold-proto" "engine" "outcomes::a_close_ends_the_operations_that_are_under_way":
        UNDO, "        self.end_operations();\n" => ""
    "waiting: the subscription of a failed queue stays", "leasehold-proto" "engine" "outcomes::a_queue_that_fails_ends_its_subscription":
        QUEUE, "        self.unlisten(&Listener::Queue(subject.clone()));\n        for" => "        for"
    "waiting: the subscription of a waiter stays", "leasehold-proto" "engine" "outcomes::a_waiter_that_leaves_ends_its_subscription":
        QUEUE, "        self.unlisten(&Listener::Waiter(id));\n        let Some(queue)" => "        let Some(queue)"
    "waiting: a waiter asks for what its own client holds", "leasehold-proto" "engine" "behind::a_waiter_does_not_ask_for_what_its_own_client_holds":
        QUEUE, "            None => self.sleep_for(now, head, nap)," => "            None => self.sleep(now, head, nap),";
        QUEUE, "        if is_head && policy.polling" => "        if !is_head && policy.polling"
    "waiting: no message ends a hold of the same client", "leasehold-proto" "engine" "behind::a_hold_that_is_taken_away_by_force_is_lost_as_soon_as_the_message_comes":
        WAKEUP, "                self.note_release_message(now, subject);\n" => "                let _ = subject;\n"
    "waiting: the message of the release before is believed", "leasehold-proto" "engine" "behind::the_message_of_the_release_before_it_is_no_news_of_a_hold":
        WAKEUP, "if listens { now + self.settings.poll_interval } else { now }" => "if listens { now } else { now }"
    "waiting: a displaced hold stays valid", "leasehold-proto" "engine" "behind::an_attempt_that_is_granted_ends_the_hold_of_its_own_client_that_the_server_has_forgotten":
        SERVER_HOLD, "            self.lose(now, wire, LostReason::Deleted);" => "            let _ = (now, wire);"
    "claims: an unclaimed grant is kept for a third of any lease", "leasehold-proto" "engine" "clock::a_grant_that_nobody_takes_is_given_back_after_a_third_of_its_lease_and_five_seconds_at_most":
        TICKET, "(acquiring.request.first_lease().duration() / 3).min(UNCLAIMED_MAX)" => "(acquiring.request.first_lease().duration() / 3).max(UNCLAIMED_MAX)"
    "least time: that of a grant that nobody took counts", "leasehold-proto" "engine" "outcomes::a_re_entry_that_nobody_took_adds_no_minimum_hold":
        SERVER_HOLD, ".filter(|hold| hold.claimed) {" => "{"
    "least time: a fixed lease cuts it", "leasehold-proto" "engine" "min_holds::a_hold_with_a_fixed_lease_lasts_for_its_minimum_all_the_same":
        RENEWAL, "        self.latest_min_hold() > self.expires_at" => "        self.latest_min_hold() == Moment::NEVER"
    "read-write: a read hold that ran out stays in the hash", "leasehold-proto" "engine" "scenarios::a_read_hold_that_runs_out_is_taken_off_the_hash_that_other_readers_keep":
        SERVER_HOLD, "by_the_clock && subject.recipe.companion().is_some()" => "by_the_clock && subject.recipe.blocked_by().is_some()"
    "watchdog: a shorter renewal shortens the validity", "leasehold-proto" "engine" "scenarios::a_renewal_with_a_shorter_lease_takes_nothing_off_what_was_confirmed":
        RENEWAL, "server_hold.valid_until = server_hold.valid_until.max(trusted_until);" => "server_hold.valid_until = trusted_until;"
    "watchdog: a loss is told when the key ends", "leasehold-proto" "engine" "clock::the_loss_of_a_hold_whose_renewals_end_is_told_when_the_last_confirmed_lease_ends":
        RENEWAL, "self.timers.set(Timer::Expire(wire), server_hold.valid_until);" => "self.timers.set(Timer::Expire(wire), server_hold.expires_at);"
    "watchdog: a failed renewal is tried again too late", "leasehold-proto" "engine" "clock::a_renewal_that_fails_is_tried_at_least_every_second_and_twelfth_of_the_lease":
        RENEWAL, "server_hold.lease().duration() / 12" => "server_hold.lease().duration() / 2"
}
