//! The answers of one client, turn by turn.

use leasehold_proto::engine::Settings;
use leasehold_proto::operate::{Answer, Audience, Card, Question};
use leasehold_proto::{Applied, ClientId, Engine, Verb};

use super::*;
use crate::runtime::process::Process;

const SECOND: Duration = Duration::from_secs(1);

fn at(time: Duration) -> Moment {
    Moment::default() + time
}

fn client() -> ClientId {
    ClientId::from_random([7; 16])
}

fn shared() -> Shared {
    Shared::new(Engine::new(client(), Settings::default()), Process::current(), Moment::default)
}

/// A client that operators may see, and that has not joined.
fn unseen() -> Visible {
    let card = Card::new(client(), "orders", ("host", 1), ("orders", "leasehold"));
    let identity = Identity { card, audience: Audience::new("app:", 0) };
    Visible::new(Some(Arc::new(identity)), at(Duration::ZERO))
}

/// A client that listens for questions.
fn listening() -> Visible {
    let mut visible = unseen();
    visible.join(at(SECOND));
    let calls = visible.turn(at(SECOND), &shared());
    assert!(matches!(calls.as_slice(), [(Purpose::Register, _)]), "{calls:?}");
    visible.ended(at(SECOND), Purpose::Register, Ok(Reply::Int(1)));
    visible
}

fn question(number: u128, answerers: u32) -> Heard {
    let request = RequestId::from_random(number.to_be_bytes());
    Heard::Message(Channel::new("c"), format!("1 {request} {answerers} who").into_bytes())
}

/// Runs all turns up to this time, and returns the texts of the answers.
fn answers(visible: &mut Visible, until: Moment) -> Vec<(Moment, String)> {
    let mut texts = Vec::new();
    let mut now = at(SECOND);
    while now <= until {
        for (purpose, _) in visible.turn(now, &shared()) {
            let Purpose::Answer { text, .. } = purpose else { continue };
            texts.push((now, text));
        }
        if !visible.is_busy() {
            now = visible.next().max(now + Duration::from_nanos(1));
        }
    }
    texts
}

fn error(kind: StoreErrorKind) -> Result<Reply, StoreError> {
    Err(StoreError::new(kind, Verb::Report, "".into(), Applied::No))
}

#[test]
fn a_client_is_unseen_until_it_joins_and_one_without_identity_stays_so() {
    let mut visible = unseen();
    assert!(visible.turn(at(SECOND), &shared()).is_empty());
    assert_eq!((visible.next(), visible.channel()), (Moment::NEVER, None));
    visible.join(at(SECOND));
    assert_eq!(visible.turn(at(SECOND), &shared()).len(), 1);
    assert_eq!(visible.channel(), None, "it listens once it is registered");
    let mut hidden = Visible::new(None, at(Duration::ZERO));
    hidden.join(at(SECOND));
    assert!(hidden.turn(at(SECOND), &shared()).is_empty());
}

#[test]
fn a_registration_is_repeated_in_time_and_after_a_reconnect() {
    let mut visible = listening();
    assert_eq!(visible.channel().unwrap().as_str(), "leasehold_clients:{app:}");
    assert_eq!(visible.next(), at(SECOND) + REGISTER_EVERY);
    visible.heard(at(2 * SECOND), Heard::Listening(Channel::new("c")));
    assert_eq!(visible.turn(at(2 * SECOND), &shared()).len(), 1);
    assert!(visible.turn(at(2 * SECOND), &shared()).is_empty(), "one registration at a time");
}

#[test]
fn a_failed_registration_is_tried_again_and_a_missing_right_ends_it() {
    let mut visible = listening();
    let pauses = (0..9).map(|_| {
        visible.ended(at(SECOND), Purpose::Register, error(StoreErrorKind::Timeout));
        visible.next().since(at(SECOND)).as_secs()
    });
    assert_eq!(pauses.collect::<Vec<_>>(), [1, 2, 4, 8, 16, 32, 60, 60, 60]);
    for outcome in [error(StoreErrorKind::PermissionDenied), Ok(Reply::Int(0)), Ok(Reply::Nil)] {
        let mut visible = unseen();
        visible.join(at(SECOND));
        assert_eq!(visible.turn(at(SECOND), &shared()).len(), 1);
        visible.ended(at(SECOND), Purpose::Register, outcome);
        assert_eq!((visible.next(), visible.channel()), (Moment::NEVER, None));
        visible.join(at(SECOND));
        assert!(visible.turn(at(SECOND), &shared()).is_empty());
    }
}

#[test]
fn a_client_that_leaves_removes_its_card_once_and_registers_no_more() {
    let (shared, mut visible) = (shared(), unseen());
    let card = Card::new(client(), "orders", ("host", 1), ("orders", "leasehold"));
    let shared = shared.seen_as(Some(Identity { card, audience: Audience::new("app:", 0) }));
    assert!(shared.leave_call().is_none() && !shared.begin_registration(), "it was never there");
    visible.join(at(SECOND));
    assert!(visible.turn(at(SECOND), &shared).is_empty());

    let card = Card::new(client(), "orders", ("host", 1), ("orders", "leasehold"));
    let shared = self::shared().seen_as(Some(Identity { card, audience: Audience::new("app:", 0) }));
    let mut visible = unseen();
    visible.join(at(SECOND));
    assert_eq!(visible.turn(at(SECOND), &shared).len(), 1);
    assert!(shared.leave_call().is_some(), "the call may be applied, though its reply is still to come");
    visible.ended(at(SECOND), Purpose::Register, Ok(Reply::Int(1)));
    visible.heard(at(2 * SECOND), Heard::Listening(Channel::new("c")));
    assert!(visible.turn(at(2 * SECOND), &shared).is_empty() && shared.leave_call().is_none());
}

#[test]
fn an_answer_names_its_client_after_a_pause_that_grows_with_the_answerers() {
    let mut visible = listening();
    visible.heard(at(SECOND), question(1, 10_000));
    assert!(visible.turn(at(SECOND), &shared()).is_empty(), "not at once");
    let texts = answers(&mut visible, at(4 * SECOND));
    let answer = Answer::read(texts[0].1.as_bytes()).unwrap();
    assert_eq!((texts.len(), answer.client, answer.body.totals.unwrap().holds), (1, client(), 0));
    assert!(texts[0].0 <= at(SECOND) + SPREAD_MAX);
    // Random numbers, as operators use them.
    const STEP: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
    let pauses = (1..=64_u128).map(|number| {
        let request = RequestId::from_random(number.wrapping_mul(STEP).to_be_bytes());
        visible.spread(request, 1000)
    });
    let pauses: std::collections::BTreeSet<_> = pauses.collect();
    assert!(pauses.len() == 64 && pauses.iter().all(|pause| *pause <= SPREAD * 1000), "{pauses:?}");
}

#[test]
fn a_flood_of_questions_gets_ten_answers_a_second_and_bounded_memory() {
    let mut visible = listening();
    (0..100_000).for_each(|number| visible.heard(at(SECOND), question(number, 1)));
    assert_eq!(visible.asked.len(), WAITING_MAX);
    let texts = answers(&mut visible, at(5 * SECOND));
    let first = texts.iter().filter(|(when, _)| *when < at(2 * SECOND)).count();
    assert_eq!((first, texts.len()), (A_SECOND as usize, WAITING_MAX));
}

#[test]
fn an_answer_to_a_full_list_is_pushed_again_for_as_long_as_an_asker_waits() {
    let mut visible = listening();
    let request = RequestId::from_random([1; 16]);
    let mut purpose = Purpose::Answer { request, text: "text".to_owned(), pushes: 0 };
    let (mut pushes, mut now) = (0, at(SECOND));
    loop {
        visible.ended(now, purpose, Ok(Reply::Int(0)));
        now = visible.next();
        let Some((next, _)) = visible
            .turn(now, &shared())
            .into_iter()
            .find(|(purpose, _)| matches!(purpose, Purpose::Answer { .. }))
        else {
            break;
        };
        (purpose, pushes) = (next, pushes + 1);
    }
    assert_eq!(pushes, PUSHES);
    assert!(now >= at(SECOND) + FULL * PUSHES.into());
}

#[test]
fn work_leaves_the_other_tasks_of_the_driver_their_turns() {
    let mut visible = listening();
    visible.heard(at(SECOND), question(1, 0));
    visible.heard(at(SECOND), question(2, 0));
    assert!(visible.next() <= at(SECOND));
    assert!(visible.turn(at(SECOND), &shared()).is_empty() && visible.is_busy(), "one page of the first");
    assert!(visible.next() > at(2 * SECOND), "a time in the past would come before all others");
}

#[test]
fn a_subscription_that_begins_anew_during_a_registration_makes_another_one() {
    let mut visible = unseen();
    visible.join(at(SECOND));
    assert_eq!(visible.turn(at(SECOND), &shared()).len(), 1);
    visible.heard(at(2 * SECOND), Heard::Listening(Channel::new("c")));
    visible.ended(at(2 * SECOND), Purpose::Register, Ok(Reply::Int(1)));
    assert_eq!(visible.turn(at(2 * SECOND), &shared()).len(), 1, "the first may be on the server of before");
}

#[test]
fn a_question_of_a_later_version_is_answered_as_unknown() {
    let mut visible = listening();
    let request = RequestId::from_random([1; 16]);
    let message = format!("9 {request} 1 whatever");
    visible.heard(at(SECOND), Heard::Message(Channel::new("c"), message.into_bytes()));
    visible.heard(at(SECOND), Heard::Message(Channel::new("c"), b"noise".to_vec()));
    let texts = answers(&mut visible, at(2 * SECOND));
    assert_eq!(texts.len(), 1);
    assert!(Answer::read(texts[0].1.as_bytes()).unwrap().body.is_unknown);
    assert_eq!(Asked::read(format!("1 {request} 1 who").as_bytes()).unwrap().question, Question::Who);
}
