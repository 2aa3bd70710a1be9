//! Asks the clients of a fleet what they hold and wait for.
//!
//! Invariant: a client that does not answer is named. The number of clients that listen is known before they are asked, so the
//! wait ends when all have answered.

use std::collections::BTreeSet;
use std::time::Duration;

use leasehold_proto::operate::{self, Answer, Held, Question, RequestId};
use leasehold_proto::{ClientId, Reply};
use leasehold_store::{Runtime, TokioRuntime};

use super::pages::{Pages, Told};
use super::query::Query;
use super::rows::Rows;
use super::servers::Servers;
use crate::clock::{after, now, reached};
use crate::exit::Failure;

/// The time that clients have for an answer, and the longest time over which they spread their answers.
const PATIENCE: Duration = Duration::from_secs(2);
/// The time over which clients spread their answers, for each of them.
const SPREAD: Duration = Duration::from_micros(200);
/// The shortest and the longest pause between two looks at the answers.
const PAUSE: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(20)];
/// The most rounds of questions for further pages.
const ROUNDS: usize = 4096;

impl Servers {
    /// Asks who the clients are, with the longest holds and waits of each, and for all of them if the query needs it.
    pub(super) async fn ask_clients(&self, query: &Query, rows: &mut Rows) -> Result<(), Failure> {
        self.ask_who(rows).await?;
        if query.needs_every_row() {
            self.ask_pages(Told::Holds, None, rows).await?;
            self.ask_pages(Told::Waits, None, rows).await?;
        }
        Ok(())
    }

    /// Asks who the clients are, and for all their holds and waits of one key.
    pub(super) async fn ask_about(&self, key: &str, rows: &mut Rows) -> Result<(), Failure> {
        self.ask_who(rows).await?;
        self.ask_pages(Told::Holds, Some(key), rows).await?;
        self.ask_pages(Told::Waits, Some(key), rows).await
    }

    /// Asks for a hold. Returns true if a client that has it has heard the question.
    pub(super) async fn ask_back(&self, key: &str, owner: &str, by: &str) -> Result<bool, Failure> {
        let question = Question::Ask { name: key.to_owned(), owner: owner.to_owned(), by: by.to_owned() };
        let answers = self.ask(&question, None, &mut Rows::default()).await?;
        let is_it = |held: &Held| held.name == key && held.owner == owner;
        Ok(answers.iter().any(|answer| answer.body.held.iter().any(is_it)))
    }

    /// Reads the cards, and asks who the clients are.
    pub(super) async fn ask_who(&self, rows: &mut Rows) -> Result<(), Failure> {
        self.read_cards(rows).await?;
        for answer in self.ask(&Question::Who, None, rows).await? {
            rows.add(&answer, false);
        }
        Ok(())
    }

    /// Reads the cards.
    pub(super) async fn read_cards(&self, rows: &mut Rows) -> Result<(), Failure> {
        let mut from = 0;
        loop {
            let reply = self.run(operate::cards(&self.audience, from)).await?;
            let page = operate::read_cards(&reply).ok_or_else(|| strange(&reply))?;
            page.registered.into_iter().for_each(|one| rows.add_card(one.card, one.left_ms));
            from += operate::CARDS_PAGE;
            if !page.has_more {
                return Ok(());
            }
        }
    }

    /// Asks the clients that have answered for pages, until none has a further one.
    async fn ask_pages(&self, told: Told, name: Option<&str>, rows: &mut Rows) -> Result<(), Failure> {
        let mut pages = Pages::new(told, name, rows);
        let mut after = 0;
        for _ in 0..ROUNDS {
            if pages.awaited.is_empty() {
                return Ok(());
            }
            let name = name.map(str::to_owned);
            let question = match told {
                Told::Holds => Question::Holds { after, name },
                Told::Waits => Question::Waits { after, name },
            };
            let answers = self.ask(&question, Some(&pages.awaited), rows).await?;
            match pages.take(&answers, rows) {
                Some(cursor) => after = cursor,
                None => return Ok(()),
            }
        }
        rows.miss("some clients have more to say than was asked for".to_owned());
        Ok(())
    }

    /// Asks all clients, and waits until these, or all that listen, have answered. The wait has an end.
    async fn ask(
        &self,
        question: &Question,
        awaited: Option<&BTreeSet<ClientId>>,
        rows: &mut Rows,
    ) -> Result<Vec<Answer>, Failure> {
        let request = RequestId::from_random(TokioRuntime.random());
        let reply = self.run(operate::ask(&self.audience, request, question)).await?;
        let reached_clients = operate::read_asked(&reply).ok_or_else(|| strange(&reply))?;
        rows.listening = reached_clients.listening.map(|count| count as usize);
        if rows.listening.is_none() {
            rows.miss("the servers do not count the listening clients, so some may be missing".to_owned());
        }
        let answerers = reached_clients.listening.unwrap_or(reached_clients.registered);
        let (end, mut pause) = (after(patience(answerers)), PAUSE[0]);
        let mut heard = Heard::default();
        while !heard.is_enough(awaited, rows.listening) && now() < end {
            reached(Some(after(pause))).await;
            let reply = self.run(operate::collect(request)).await?;
            let collected = operate::read_collected(&reply).ok_or_else(|| strange(&reply))?;
            pause = if collected.is_empty() { (pause * 2).min(PAUSE[1]) } else { PAUSE[0] };
            collected.into_iter().flatten().for_each(|answer| heard.take(answer));
        }
        Ok(heard.answers)
    }
}

/// Returns the longest wait for the answers of so many clients.
fn patience(answerers: u32) -> Duration {
    PATIENCE + SPREAD.saturating_mul(answerers).min(PATIENCE)
}

/// The answers to a question: the first of each client, because anybody who hears the question can give more.
#[derive(Debug, Default)]
struct Heard {
    answers: Vec<Answer>,
    clients: BTreeSet<ClientId>,
}

impl Heard {
    fn take(&mut self, answer: Answer) {
        if self.clients.insert(answer.client) {
            self.answers.push(answer);
        }
    }

    /// Returns true if nobody else is waited for: the awaited clients, or so many if their number is known.
    fn is_enough(&self, awaited: Option<&BTreeSet<ClientId>>, listening: Option<usize>) -> bool {
        match awaited {
            Some(awaited) => awaited.is_subset(&self.clients),
            None => listening.is_some_and(|listening| self.clients.len() >= listening),
        }
    }
}

/// Returns the failure of a reply that no script gives.
pub(super) fn strange(reply: &Reply) -> Failure {
    Failure::unavailable(anyhow::anyhow!("the server sent an unexpected reply: {reply:?}"))
}

#[cfg(test)]
mod tests {
    use leasehold_proto::operate::AnswerText;

    use super::*;

    fn answer(number: u8) -> Answer {
        let client = ClientId::from_random([number; 16]);
        Answer::read(AnswerText::new(client).end(None).as_bytes()).unwrap()
    }

    #[test]
    fn a_repeated_answer_ends_no_wait() {
        let mut heard = Heard::default();
        heard.take(answer(1));
        heard.take(answer(1));
        assert!(!heard.is_enough(None, Some(2)));
        heard.take(answer(2));
        assert!(heard.is_enough(None, Some(2)) && heard.answers.len() == 2);
    }

    #[test]
    fn a_wait_of_an_unknown_number_of_clients_lasts_to_its_end() {
        let mut heard = Heard::default();
        assert!(!heard.is_enough(None, None));
        heard.take(answer(1));
        assert!(!heard.is_enough(None, None));
    }

    #[test]
    fn a_page_is_there_when_the_awaited_clients_have_answered() {
        let mut heard = Heard::default();
        let awaited = [answer(1).client].into();
        heard.take(answer(2));
        assert!(!heard.is_enough(Some(&awaited), Some(1)));
        heard.take(answer(1));
        assert!(heard.is_enough(Some(&awaited), None), "whatever number listens");
    }

    #[test]
    fn the_patience_covers_the_time_over_which_clients_spread_their_answers() {
        assert_eq!(patience(0), PATIENCE);
        assert_eq!(patience(5000), PATIENCE + Duration::from_secs(1));
        assert_eq!(patience(u32::MAX), PATIENCE * 2);
    }
}
