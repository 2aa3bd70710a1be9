//! Mutants of the Redis store.
//!
//! Invariant: the quick tests of the store notice each mutant. These tests need no server and take a second.

const BACKOFF: &str = "crates/leasehold-store/src/redis/backoff.rs";
const SUBSCRIPTION_TABLE: &str = "crates/leasehold-store/src/redis/pubsub/subscription_table.rs";
const BOUNDS: &str = "crates/leasehold-store/src/redis/bounds.rs";
const CHANNELS: &str = "crates/leasehold-store/src/redis/channels.rs";
const CONNECT: &str = "crates/leasehold-store/src/redis/connect.rs";
const ERROR: &str = "crates/leasehold-store/src/redis/error.rs";
const CONNECTION: &str = "crates/leasehold-store/src/redis/connection.rs";
const SESSION: &str = "crates/leasehold-store/src/redis/pubsub/session.rs";
const STANDALONE: &str = "crates/leasehold-store/src/redis/standalone.rs";

mutants! {
    "redis: a call that was told it was not applied is sent", "leasehold-store" "lib" "redis::standalone::tests::a_call_that_was_told_it_was_not_applied_is_never_sent":
        STANDALONE, "                    if !turn.is_closed() {\n                        let _ = turn.send(Ok(connection.carry(call)));\n                    }" => "                    if let Err(Ok(unwanted)) = turn.send(Ok(connection.carry(call))) {\n                        mem::forget(unwanted.answer);\n                    }"
    "redis: a call on the wire is told it was not applied as its time ends", "leasehold-store" "lib" "redis::standalone::tests::a_call_that_was_put_on_the_wire_as_its_time_ended_is_unknown":
        STANDALONE, "turn.try_recv()" => "Err::<Result<Carried, Failure>, _>(oneshot::error::TryRecvError::Empty)"
    "redis: a call without an answer is told it was not applied", "leasehold-store" "lib" "redis::standalone::tests::a_call_without_an_answer_takes_its_connection_and_the_calls_on_it_along":
        STANDALONE, "                self.cut(&connection);\n                Err(timed_out(Applied::Unknown))" => "                self.cut(&connection);\n                Err(timed_out(Applied::No))"
    "redis: a connection whose call timed out stays", "leasehold-store" "lib" "redis::standalone::tests::a_call_without_an_answer_takes_its_connection_and_the_calls_on_it_along":
        STANDALONE, "                self.cut(&connection);\n                Err(timed_out(Applied::Unknown))" => "                Err(timed_out(Applied::Unknown))"
    "redis: a connection to a read-only server is used again", "leasehold-store" "lib" "redis::standalone::tests::a_connection_that_was_useful_is_replaced_at_once":
        STANDALONE, "                    self.retire(&connection);\n                } else" => "                } else"
    "redis: every attempt to connect begins at once", "leasehold-store" "lib" "redis::standalone::tests::a_server_that_is_down_is_dialled_at_one_pace_however_many_wait":
        BACKOFF, "self.not_before = Some(after(dialer.jitter(self.pause)));" => "let _ = after(dialer.jitter(self.pause));"
    "redis: the pause between attempts does not grow", "leasehold-store" "lib" "redis::standalone::tests::a_server_that_is_down_is_dialled_at_one_pace_however_many_wait":
        BACKOFF, "(self.pause * 2).clamp(PAUSE_MIN, PAUSE_MAX)" => "PAUSE_MIN.min(PAUSE_MAX)"
    "redis: a connection that is made ends the pauses", "leasehold-store" "lib" "redis::standalone::tests::a_server_that_answers_nothing_useful_is_dialled_at_the_same_pace":
        STANDALONE, "        inner.backoff.attempted(&*self.server.dialer);" => "        inner.backoff.attempted(&*self.server.dialer);\n        if outcome.is_ok() { inner.backoff.forget(); }"
    "redis: a dropped store goes on", "leasehold-store" "lib" "redis::standalone::tests::a_dropped_store_refuses_what_was_not_started_and_ends_what_was":
        STANDALONE, "        self.command_connection.close();" => ""
    "redis: a lost connection's call is told it was not applied", "leasehold-store" "lib" "redis::standalone::tests::a_connection_that_ends_with_the_answer_outstanding_leaves_its_calls_unknown":
        CONNECTION, "None => Failure::new(StoreErrorKind::ConnectionLost, Applied::Unknown)," => "None => Failure::new(StoreErrorKind::ConnectionLost, Applied::No),"
    "redis: a forgotten script is not sent again", "leasehold-store" "lib" "redis::standalone::tests::a_scripts_text_goes_out_once_and_again_when_the_server_has_forgotten_it":
        CONNECTION, "if !is_unknown_script(&answer) {" => "if !is_unknown_script(&answer) || first {\n                return self.read(answer);\n            } else {"
    "redis: a reply to no command answers the next one", "leasehold-store" "lib" "redis::bounds::tests::a_reply_to_no_command_ends_the_stream":
        BOUNDS, "if self.answers_only && replies" => "if self.answers_only && self.outgoing.complete == u64::MAX && replies"
    "redis: answers that are left over from the greeting are taken", "leasehold-store" "lib" "redis::bounds::tests::a_stream_with_answers_outstanding_or_left_over_is_not_taken_for_commands":
        BOUNDS, "|| !self.incoming.is_between() {" => "&& self.incoming.is_between() {"
    "redis: a reply may have any size", "leasehold-store" "lib" "redis::bounds::tests::a_header_that_announces_too_much_is_refused_before_its_content":
        BOUNDS, "if self.size > size_max { Err" => "if self.size == size_max { Err"
    "redis: a reply may have any depth", "leasehold-store" "lib" "redis::bounds::tests::a_header_that_announces_too_much_is_refused_before_its_content":
        BOUNDS, "*self.open.get_mut(self.depth).ok_or(Breach::TooLarge)? = items;" => "self.depth %= DEPTH_MAX;\n                self.open[self.depth] = items;"
    "redis: one of several masters is taken", "leasehold-store" "lib" "redis::channels::tests::one_of_several_masters_is_refused_and_a_node_that_does_not_tell_is_not":
        CHANNELS, "Some(masters @ 2..) =>" => "Some(masters @ 9..) =>"
    "redis: a user without channels is not doubted", "leasehold-store" "lib" "redis::channels::tests::a_user_who_is_refused_a_channel_is_doubted":
        CHANNELS, "is_denied(published) || *subscribes" => "*subscribes"
    "redis: an error of the greeting repeats the password", "leasehold-store" "lib" "redis::error::tests::what_a_server_says_while_connecting_is_kept_only_if_known":
        ERROR, "            && !text.is_known()\n" => "            && text.is_known()\n"
    "redis: what answers a refused login is taken for a login", "leasehold-store" "strangers" "an_error_that_repeats_the_password_is_not_repeated":
        CONNECT, "            Value::ServerError(error) => return Err(server_error(&error)),\n            _ => return Err(malformed()),\n        }\n    }" => "            Value::ServerError(_) => {}\n            _ => return Err(malformed()),\n        }\n    }"
    "redis: messages put off the end of a silent connection", "leasehold-store" "lib" "redis::pubsub::session::tests::messages_do_not_put_off_the_end_of_a_connection_that_does_not_answer":
        SESSION, "if answered || (outstanding == 0 &&" => "if answered || !self.pending.is_empty() || (outstanding == 0 &&"
    "redis: a refused channel is not asked for again", "leasehold-store" "lib" "redis::pubsub::session::tests::a_refused_channel_is_asked_for_again_on_the_same_connection":
        SESSION, "            self.wanted.table().retry_refused();" => ""
    "redis: a silent connection is not asked whether it is there", "leasehold-store" "lib" "redis::pubsub::session::tests::a_silent_server_is_asked_whether_it_is_there_and_given_up":
        SESSION, "        self.send([Pending::Ping]).await" => "        Ok(())"
    "redis: a server that does not answer is asked without end", "leasehold-store" "lib" "redis::pubsub::session::tests::a_server_that_answers_nothing_is_asked_a_bounded_number_of_questions":
        SESSION, "PENDING_MAX.saturating_sub(self.pending.len())" => "PENDING_MAX"
    "redis: channels are not asked for on a new connection", "leasehold-store" "lib" "redis::pubsub::subscription_table::tests::a_listener_is_told_after_the_confirmation_and_again_after_a_lost_connection":
        SUBSCRIPTION_TABLE, "self.pending = self.entries.keys().cloned().collect();" => "self.pending.clear();"
    "redis: listeners are told before the server has confirmed", "leasehold-store" "lib" "redis::pubsub::subscription_table::tests::a_listener_is_told_after_the_confirmation_and_again_after_a_lost_connection":
        SUBSCRIPTION_TABLE, "        if entry.state == SubscriptionState::Joined {\n            let _ = heard" => "        if entry.state != SubscriptionState::Leaving {\n            let _ = heard"
    "redis: a subscription that ended without a connection stays", "leasehold-store" "lib" "redis::pubsub::subscription_table::tests::what_comes_and_goes_without_a_connection_leaves_nothing":
        SUBSCRIPTION_TABLE, "SubscriptionState::Apart => self.forget(channel)," => "SubscriptionState::Apart => {}"
    "redis: a channel that the server took away is not asked for again", "leasehold-store" "lib" "redis::pubsub::session::tests::a_node_that_gives_a_channel_away_is_asked_for_it_until_it_has_it_again":
        SUBSCRIPTION_TABLE, "        if entry.state == SubscriptionState::Joined {\n            self.left" => "        if entry.state == SubscriptionState::Leaving {\n            self.left"
    "redis: the last listener does not unsubscribe", "leasehold-store" "lib" "redis::pubsub::subscription_table::tests::one_channel_is_joined_once_and_left_by_the_last":
        SUBSCRIPTION_TABLE, "SubscriptionState::Joined => drop(self.pending.insert(channel.clone()))," => "SubscriptionState::Joined => {}"
}
