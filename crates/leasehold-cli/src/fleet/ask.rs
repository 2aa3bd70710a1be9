//! Questions to the clients.
//!
//! Invariant: a client that does not answer is named. The number of clients that listen is known before they are asked, so the
//! wait ends when all have answered.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_proto::operate::{self, Answer, Question, RequestId};
use leasehold_proto::{ClientId, Reply};
use leasehold_store::{Runtime, TokioRuntime};

use super::query::Query;
use super::rows::Rows;
use super::servers::Servers;
use crate::clock::{after, now, reached};
use crate::exit::Failure;

/// The time that clients have for an answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// The shortest and the longest pause between two looks at the answers.
const PAUSE: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(20)];
/// The most rounds of questions for further pages.
const ROUNDS: usize = 4096;

impl Servers {
    /// Asks who the clients are, with the longest holds and waits of each, and for all of them if the query needs it.
    pub(super) async fn ask_clients(&self, query: &Query, rows: &mut Rows) -> Result<(), Failure> {
        self.ask_who(rows).await?;
        if query.needs_every_row() && rows.clients.values().any(|known| known.has_answered) {
            self.ask_pages(rows, |after| Question::Holds { after, name: None }).await?;
            self.ask_pages(rows, |after| Question::Waits { after, name: None }).await?;
        }
        Ok(())
    }

    /// Asks who the clients are, and for all their holds and waits of one key.
    pub(super) async fn ask_about(&self, key: &str, rows: &mut Rows) -> Result<(), Failure> {
        self.ask_who(rows).await?;
        if rows.clients.values().any(|known| known.has_answered) {
            let name = || Some(key.to_owned());
            self.ask_pages(rows, |after| Question::Holds { after, name: name() }).await?;
            self.ask_pages(rows, |after| Question::Waits { after, name: name() }).await?;
        }
        Ok(())
    }

    /// Reads the cards, and asks who the clients are.
    pub(super) async fn ask_who(&self, rows: &mut Rows) -> Result<(), Failure> {
        self.read_cards(rows).await?;
        for answer in self.ask(&Question::Who, rows).await? {
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

    /// Asks for pages until no client has a further one.
    ///
    /// All clients hear each question, and each has cursors of its own. So the question is for the client that is furthest
    /// behind, and what the others repeat is recognized.
    async fn ask_pages(&self, rows: &mut Rows, question: impl Fn(u64) -> Question) -> Result<(), Failure> {
        let mut cursors: BTreeMap<ClientId, u64> = BTreeMap::new();
        let (mut cursor, mut is_first) = (0, true);
        for _ in 0..ROUNDS {
            let asked = question(cursor);
            let sums_up = matches!(asked, Question::Waits { .. });
            for answer in self.ask(&asked, rows).await? {
                let is_ahead = !is_first && cursors.get(&answer.client) != Some(&cursor);
                // Waits are sums, in which a repeated page would count twice.
                if is_ahead && sums_up {
                    continue;
                }
                rows.add(&answer, !is_first);
                let known = cursors.get(&answer.client).copied();
                match answer.body.next {
                    Some(next) if is_ahead && known.is_none_or(|known| next <= known) => {}
                    Some(next) => _ = cursors.insert(answer.client, next),
                    None => _ = cursors.remove(&answer.client),
                }
            }
            // A client that no longer answers is not asked again.
            let before = if is_first { None } else { Some(cursor) };
            cursors.retain(|_, next| before.is_none_or(|before| *next > before));
            match cursors.values().min() {
                Some(next) => (cursor, is_first) = (*next, false),
                None => break,
            }
        }
        Ok(())
    }

    /// Asks all clients, and waits until all that listen have answered, for two seconds at most.
    async fn ask(&self, question: &Question, rows: &mut Rows) -> Result<Vec<Answer>, Failure> {
        let request = RequestId::from_random(TokioRuntime.random());
        let reply = self.run(operate::ask(&self.audience, request, question)).await?;
        let reached_clients = operate::read_asked(&reply).ok_or_else(|| strange(&reply))?;
        let wanted = reached_clients.listening.unwrap_or(reached_clients.registered) as usize;
        rows.listening = Some(wanted);
        let (end, mut pause) = (after(PATIENCE), PAUSE[0]);
        let (mut answers, mut texts): (Vec<Answer>, usize) = (Vec::new(), 0);
        while texts < wanted && now() < end {
            reached(Some(after(pause))).await;
            let reply = self.run(operate::collect(request)).await?;
            let collected = operate::read_collected(&reply).ok_or_else(|| strange(&reply))?;
            pause = if collected.is_empty() { (pause * 2).min(PAUSE[1]) } else { PAUSE[0] };
            texts += collected.len();
            answers.extend(collected.into_iter().flatten());
        }
        Ok(answers)
    }
}

/// Returns the failure of a reply that no script gives.
pub(super) fn strange(reply: &Reply) -> Failure {
    Failure::unavailable(anyhow::anyhow!("the server gave a strange reply: {reply:?}"))
}
