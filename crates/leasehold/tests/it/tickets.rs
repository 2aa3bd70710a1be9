//! Tickets: holds that pass from one process to another.

use std::time::Duration;

use leasehold::error::{EnsureErrorKind, TicketErrorKind, Verb};
use leasehold::{Client, Guard, HoldTerms, LostReason, Name, Primitive, Ticket};

use crate::support::{
    Fixture, Monitor, Subscriber, channel, connect, connect_with, eventually, fields, is_free, ms, on_both,
    proxied, pttl, run_command, sent, soon,
};

const VALID: Duration = Duration::from_secs(60);

on_both! {
    async {
        a_hold_travels_as_a_text,
        a_given_hold_is_over_for_its_giver_and_closed_for_all_others,
        a_ticket_nobody_adopts_ends_with_its_time,
        an_adopted_hold_is_renewed_released_and_handed_to_waiters,
        an_adopted_fenced_hold_has_a_new_token,
        a_fair_and_a_spin_lock_travel_too,
        of_two_adopters_one_wins,
        a_released_or_deleted_hold_is_gone,
        a_hold_that_is_entered_twice_gives_no_ticket,
        a_kind_that_cannot_travel_gives_no_ticket,
        a_ticket_of_another_lock_is_refused,
        a_ticket_is_bounded_by_max_hold,
        the_client_that_gave_a_hold_can_adopt_it,
        a_hold_of_any_name_travels,
        one_owner_adopts_once,
        an_adopted_hold_has_no_minimum,
        waiters_hear_of_a_shorter_lease,
    }
}

async fn give(client: &Client) -> Ticket {
    client.lock("job").lock().await.unwrap().into_ticket(VALID).await.unwrap()
}

fn kind<T>(outcome: Result<T, leasehold::TicketError>) -> TicketErrorKind {
    outcome.map(drop).expect_err("it does not travel").kind
}

async fn a_hold_travels_as_a_text(server: Fixture) {
    let (giver, adopter) = (connect(&server).await, connect(&server).await);
    let text = give(&giver).await.to_string();
    let guard = adopter.adopt(&text.parse().unwrap()).await.unwrap();
    let own = adopter.lock("other").lock().await.unwrap().wire_owner().client();
    assert_eq!((guard.name(), guard.wire_owner().client()), ("job", own));
    assert_eq!(fields(&server, "job").len(), 1);
    guard.release().await.unwrap();
    assert!(is_free(&server, "job"));
}

async fn a_given_hold_is_over_for_its_giver_and_closed_for_all_others(server: Fixture) {
    let (giver, other) = (connect(&server).await, connect(&server).await);
    let guard = giver.lock("job").watchdog(ms(300)).lock().await.unwrap();
    let ticket = guard.into_ticket(VALID).await.unwrap();
    assert!(pttl(&server, "job") > 50_000);
    assert_eq!(giver.holds().count(), 0);
    for client in [&giver, &other] {
        assert!(client.lock("job").try_lock().await.unwrap().is_none());
    }
    let monitor = Monitor::start(&server);
    giver.close().await;
    assert!(!sent(&monitor).contains(&Ok(Verb::Release)), "a close does not release what is given away");
    assert!(other.adopt(&ticket).await.unwrap().is_held());
}

async fn a_ticket_nobody_adopts_ends_with_its_time(server: Fixture) {
    let (giver, adopter) = (connect(&server).await, connect(&server).await);
    let guard = giver.lock("job").watchdog(ms(300)).lock().await.unwrap();
    let ticket = guard.into_ticket(ms(600)).await.unwrap();
    let next = soon("the end of the ticket", adopter.lock("job").lock()).await.unwrap();
    assert_eq!(kind(adopter.adopt(&ticket).await), TicketErrorKind::Gone);
    assert!(next.is_held());
}

async fn an_adopted_hold_is_renewed_released_and_handed_to_waiters(server: Fixture) {
    let (giver, adopter) = (connect(&server).await, connect(&server).await);
    let ticket = give(&giver).await;
    let waiting = tokio::spawn({
        let lock = giver.lock("job");
        async move { lock.lock().await }
    });
    let guard = adopter.lock("job").watchdog(ms(300)).adopt(&ticket).await.unwrap();
    assert!(pttl(&server, "job") <= 300, "the adopter's lease");
    crate::support::a_lease_passes(&server, ms(900)).await;
    assert!(guard.is_held());
    drop(guard);
    drop(soon("the waiter", waiting).await.unwrap().unwrap());
}

async fn an_adopted_fenced_hold_has_a_new_token(server: Fixture) {
    let (giver, adopter) = (connect(&server).await, connect(&server).await);
    let first = giver.fenced_lock("job").lock().await.unwrap();
    let token = first.token();
    let ticket = first.into_ticket(VALID).await.unwrap();
    let second = adopter.fenced_lock("job").adopt(&ticket).await.unwrap();
    assert!(second.token() > token);
    let ticket = second.into_ticket(VALID).await.unwrap();
    adopter.adopt(&ticket).await.unwrap().release().await.unwrap();
    assert!(adopter.fenced_lock("job").lock().await.unwrap().token() > token + 2);
}

async fn a_fair_and_a_spin_lock_travel_too(server: Fixture) {
    let client = connect(&server).await;
    for name in ["fair", "spin"] {
        let guard: Guard = match name {
            "fair" => client.fair_lock(name).lock().await.unwrap(),
            _ => client.spin_lock(name).lock().await.unwrap(),
        };
        let ticket = guard.into_ticket(VALID).await.unwrap();
        assert_eq!(
            client.adopt(&ticket).await.unwrap().release().await,
            Ok(leasehold::ReleaseOutcome::Released)
        );
        assert!(is_free(&server, name));
    }
}

async fn of_two_adopters_one_wins(server: Fixture) {
    let (giver, one, other) = (connect(&server).await, connect(&server).await, connect(&server).await);
    for round in 0..100 {
        let ticket = giver.lock("job").lock().await.unwrap().into_ticket(VALID).await.unwrap();
        // Every third race is one inside a client.
        let rival = if round % 3 == 0 { &one } else { &other };
        let (first, second) = tokio::join!(one.adopt(&ticket), rival.adopt(&ticket));
        let (won, lost) = if first.is_ok() { (first, second) } else { (second, first) };
        assert_eq!(kind(lost), TicketErrorKind::Gone, "round {round}");
        won.unwrap().release().await.unwrap();
        assert!(is_free(&server, "job"));
    }
}

async fn a_released_or_deleted_hold_is_gone(server: Fixture) {
    let client = connect(&server).await;
    let ticket = give(&client).await;
    assert!(client.lock("job").force_unlock().await.unwrap());
    let _next = client.lock("job").lock().await.unwrap();
    assert_eq!(kind(client.adopt(&ticket).await), TicketErrorKind::Gone);
    run_command(&server, &["DEL", "job"]);
    let other = connect(&server).await;
    assert_eq!(kind(other.adopt(&ticket).await), TicketErrorKind::Gone);
    assert!(is_free(&server, "job"), "an adoption never takes a free lock");
}

async fn a_hold_that_is_entered_twice_gives_no_ticket(server: Fixture) {
    let client = connect(&server).await;
    let lock = client.lock("job").owned_by(&client.owner());
    let (outer, inner) = (lock.lock().await.unwrap(), lock.lock().await.unwrap());
    assert_eq!(kind(inner.into_ticket(VALID).await), TicketErrorKind::Shared);
    assert!(outer.is_held(), "the other hold stays");
    eventually("the count to follow", || fields(&server, "job").values().all(|count| count == "1")).await;
    drop(outer.into_ticket(VALID).await.unwrap());
}

async fn a_kind_that_cannot_travel_gives_no_ticket(server: Fixture) {
    let guard = connect(&server).await.rw_lock("job").read().await.unwrap();
    assert_eq!(kind(guard.into_ticket(VALID).await), TicketErrorKind::Unsupported);
}

async fn a_ticket_of_another_lock_is_refused(server: Fixture) {
    let client = connect(&server).await;
    let ticket = give(&client).await;
    assert_eq!(kind(client.lock("other").adopt(&ticket).await), TicketErrorKind::OtherLock);
    assert_eq!(kind(client.fair_lock("job").adopt(&ticket).await), TicketErrorKind::OtherLock);
    drop(client.adopt(&ticket).await.unwrap());
}

async fn a_ticket_is_bounded_by_max_hold(server: Fixture) {
    let guard = connect(&server).await.lock("job").max_hold(ms(30_000)).lock().await.unwrap();
    let refused = kind(guard.into_ticket(VALID).await);
    assert!(matches!(refused, TicketErrorKind::Extend(EnsureErrorKind::TooLong { .. })), "{refused:?}");
    eventually("the release", || is_free(&server, "job")).await;
}

async fn the_client_that_gave_a_hold_can_adopt_it(server: Fixture) {
    let client = connect(&server).await;
    let guard = client.adopt(&give(&client).await).await.unwrap();
    run_command(&server, &["DEL", "job"]);
    assert!(guard.extend(VALID).await.is_err());
    assert_eq!(guard.lost().await, LostReason::Deleted);
}

async fn a_hold_of_any_name_travels(server: Fixture) {
    let client = connect(&server).await;
    for name in
        [Name::with_hash_tag("shop", "order").unwrap(), Name::raw_redisson(&"x".repeat(60_000)).unwrap()]
    {
        let guard = client.lock(name.clone()).lock().await.unwrap();
        let text = guard.into_ticket(VALID).await.unwrap().to_string();
        let guard = client.adopt(&text.parse().unwrap()).await.unwrap();
        assert_eq!(guard.name(), name.as_str());
        guard.release().await.unwrap();
    }
}

async fn one_owner_adopts_once(server: Fixture) {
    let client = connect(&server).await;
    let ticket = give(&client).await;
    let lock = client.lock("job").owned_by(&client.owner());
    let guard = lock.adopt(&ticket).await.unwrap();
    assert_eq!(kind(lock.adopt(&ticket).await), TicketErrorKind::Gone);
    assert!(guard.is_held());
}

async fn an_adopted_hold_has_no_minimum(server: Fixture) {
    let terms = HoldTerms::new().min_hold(Duration::from_secs(60));
    let client = connect_with(Client::builder().defaults(Primitive::Lock, terms), &server.url()).await;
    let guard = client.lock("job").lock().await.unwrap();
    let ticket = guard.into_ticket(VALID).await.unwrap();
    client.adopt(&ticket).await.unwrap().release().await.unwrap();
    assert!(is_free(&server, "job"));
}

async fn waiters_hear_of_a_shorter_lease(server: Fixture) {
    let client = connect(&server).await;
    let mut messages = Subscriber::start(&server, &channel("job"));
    let longer = give(&client).await;
    let guard = client.lock("job").adopt(&longer).await.unwrap();
    assert_eq!(messages.message(), "0", "who sleeps for the giver's lease reads the shorter one");
    guard.release().await.unwrap();
    assert_eq!(messages.message(), "0", "of the release");
    let guard = client.fenced_lock("job").lock().await.unwrap();
    let ticket = guard.into_ticket(VALID).await.unwrap();
    let guard = client.fenced_lock("job").adopt(&ticket).await.unwrap();
    assert_eq!(messages.message(), "0");
    guard.release().await.unwrap();
}

#[tokio::test]
async fn an_adoption_without_an_answer_is_undone() {
    let (server, proxy, client) = proxied(ms(300)).await;
    let giver = connect(&server).await;
    let ticket = give(&giver).await;
    proxy.hold_replies(true);
    let refused = kind(soon("the timeout", client.adopt(&ticket)).await);
    assert!(matches!(refused, TicketErrorKind::Acquire(_)), "{refused:?}");
    proxy.hold_replies(false);
    eventually("the undo", || is_free(&server, "job")).await;
}
