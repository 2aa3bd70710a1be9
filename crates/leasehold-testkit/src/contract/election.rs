//! The scripts of elections, beside the fenced lock's.
//!
//! Invariant: the assertions state the behavior of redis-server.
#![deny(dead_code)]

use leasehold_proto::recipe::election::{
    Announcement, Message, announce, channel, leader, read_announced, read_leader, read_transferred, say,
    transfer,
};
use leasehold_proto::recipe::fenced::{Tokens, with_tokens};
use leasehold_proto::{Reply, StoreErrorKind};
use leasehold_store::Heard;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::lock_harness::{LONG, LockHarness, owner};
use super::{Harness, next};

behaviors! {
    only_the_owner_of_the_lock_is_announced,
    a_repeated_announcement_keeps_its_begin_and_says_nothing,
    an_announcement_is_kept_for_a_week,
    a_leader_is_read_with_its_own_announcement_only,
    a_transfer_passes_the_lock_with_a_higher_token,
    a_repeated_transfer_changes_nothing,
    a_transfer_without_the_lock_is_refused,
    a_transfer_with_an_invalid_token_key_changes_nothing,
    a_successor_finds_its_own_hold_and_raises_the_lease,
    a_message_reaches_the_listeners_of_the_election,
}

/// An election with a leader, whose owner has the number 1.
async fn led<'a>(harness: &'a Harness<'a>) -> LockHarness<'a> {
    let lock = LockHarness::new(harness, with_tokens(Tokens::Hybrid));
    lock.acquire(1, LONG).await;
    lock
}

fn said() -> Announcement {
    Announcement { candidate: "a".into(), info: "1.4".into(), host: "h".into(), pid: 7 }
}

impl LockHarness<'_> {
    async fn announce(&self, number: u64) -> Option<bool> {
        let name = &self.subject.name;
        read_announced(&self.harness.execute(announce(name, owner(number), 9, &said())).await)
    }

    async fn transfer(&self, from: u64, to: u64) -> Option<u64> {
        let reply = self.harness.execute(transfer(&self.subject.name, owner(from), owner(to))).await;
        read_transferred(&reply).expect("it is the reply of a transfer")
    }

    fn token(&self) -> String {
        self.harness.run_command(&["GET", self.subject.name.prefixed("redisson_lock_token").as_str()])
    }

    fn announcement(&self) -> String {
        channel(&self.subject.name).to_string()
    }
}

async fn message(heard: &mut UnboundedReceiver<Heard>) -> Option<Message> {
    match next(heard).await {
        Heard::Message(_, message) => Message::read(&message),
        Heard::Listening(_) => None,
    }
}

async fn only_the_owner_of_the_lock_is_announced(harness: &Harness<'_>) {
    let lock = led(harness).await;
    assert_eq!(lock.announce(2).await, Some(false));
    assert_eq!(harness.run_command(&["EXISTS", &lock.announcement()]), "0");
    assert_eq!(lock.announce(1).await, Some(true));
    assert_eq!(harness.run_command(&["HGET", &lock.announcement(), "candidate"]), "a");
}

async fn a_repeated_announcement_keeps_its_begin_and_says_nothing(harness: &Harness<'_>) {
    let lock = led(harness).await;
    let (hear, mut heard) = unbounded_channel();
    let _listening = harness.store.subscribe(channel(&lock.subject.name), hear);
    assert_eq!(message(&mut heard).await, None);
    lock.announce(1).await;
    assert_eq!(message(&mut heard).await, Some(Message::Announced(9)));
    harness.run_command(&["HSET", &lock.announcement(), "since", "5"]);
    assert_eq!(lock.announce(1).await, Some(true));
    assert_eq!(harness.run_command(&["HGET", &lock.announcement(), "since"]), "5");
    harness.execute(say(&lock.subject.name, &Message::Resigned)).await;
    assert_eq!(message(&mut heard).await, Some(Message::Resigned), "nothing came before");
}

async fn an_announcement_is_kept_for_a_week(harness: &Harness<'_>) {
    let lock = led(harness).await;
    lock.announce(1).await;
    assert!((604_000_000..=604_800_000).contains(&lock.pttl(&lock.announcement())));
}

async fn a_leader_is_read_with_its_own_announcement_only(harness: &Harness<'_>) {
    let lock = LockHarness::new(harness, with_tokens(Tokens::Hybrid));
    let ask = async || {
        read_leader(&harness.execute(leader(&lock.subject.name)).await).expect("a reply of the recipe")
    };
    assert_eq!(ask().await, None);
    lock.acquire(1, LONG).await;
    let unannounced = ask().await.expect("a reply of the recipe");
    assert_eq!((unannounced.owner, unannounced.announced), (owner(1).to_string(), None));
    assert_eq!(unannounced.term.expect("a reply of the recipe").to_string(), lock.token());
    lock.announce(1).await;
    let (announced, since) =
        ask().await.expect("a reply of the recipe").announced.expect("a reply of the recipe");
    assert!(announced == said() && since > 0);
    lock.release(1, 0).await;
    assert_eq!(ask().await, None, "an announcement alone is no leader");
    lock.acquire(2, LONG).await;
    assert_eq!(ask().await.expect("a reply of the recipe").announced, None, "it is another leader's");
}

async fn a_transfer_passes_the_lock_with_a_higher_token(harness: &Harness<'_>) {
    let lock = led(harness).await;
    let first: u64 = lock.token().parse().expect("a reply of the recipe");
    let second = lock.transfer(1, 2).await.expect("a reply of the recipe");
    assert!(second > first);
    assert_eq!((lock.token(), lock.fields(lock.key())), (second.to_string(), "2 1".into()));
    assert!((1..=2_000).contains(&lock.pttl(lock.key())), "a dead successor keeps it for 2 s");
    assert_eq!(lock.release(1, 0).await, Reply::Nil);
}

async fn a_repeated_transfer_changes_nothing(harness: &Harness<'_>) {
    let lock = led(harness).await;
    let token = lock.transfer(1, 2).await;
    for _ in 0..3 {
        assert_eq!(lock.transfer(1, 2).await, token);
    }
    assert_eq!(
        (lock.token(), lock.fields(lock.key())),
        (token.expect("a reply of the recipe").to_string(), "2 1".into())
    );
}

async fn a_transfer_without_the_lock_is_refused(harness: &Harness<'_>) {
    let lock = led(harness).await;
    let token = lock.token();
    assert_eq!(lock.transfer(3, 2).await, None);
    assert_eq!((lock.token(), lock.fields(lock.key())), (token.clone(), "1 1".into()));
    lock.release(1, 0).await;
    assert_eq!(lock.transfer(1, 2).await, None);
    assert_eq!((lock.token(), lock.fields(lock.key())), (token, String::new()));
}

async fn a_transfer_with_an_invalid_token_key_changes_nothing(harness: &Harness<'_>) {
    let lock = led(harness).await;
    let key = lock.subject.name.prefixed("redisson_lock_token").to_string();
    harness.run_command(&["SET", &key, "many"]);
    let error = harness.run(transfer(&lock.subject.name, owner(1), owner(2))).await.expect_err("a refusal");
    assert_eq!((error.kind, lock.fields(lock.key())), (StoreErrorKind::WrongType, "1 1".into()));
}

async fn a_successor_finds_its_own_hold_and_raises_the_lease(harness: &Harness<'_>) {
    let lock = led(harness).await;
    let token = lock.transfer(1, 2).await.expect("a reply of the recipe").to_string();
    let granted = Reply::Array(vec![Reply::Int(-2), Reply::Text(token.into_bytes())]);
    assert_eq!(lock.acquire(2, LONG).await, granted);
    assert!(lock.pttl(lock.key()) > 2_000);
}

async fn a_message_reaches_the_listeners_of_the_election(harness: &Harness<'_>) {
    let lock = led(harness).await;
    let (hear, mut heard) = unbounded_channel();
    let _listening = harness.store.subscribe(channel(&lock.subject.name), hear);
    assert_eq!(message(&mut heard).await, None);
    lock.transfer(1, 2).await;
    assert_eq!(message(&mut heard).await, Some(Message::PassedTo(owner(2))));
    let asked = Message::Ask { request: "1".into(), term: 9, successor: Some("b c".into()) };
    harness.execute(say(&lock.subject.name, &asked)).await;
    assert_eq!(message(&mut heard).await, Some(asked));
}
