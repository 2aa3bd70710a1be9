//! Collects the rows of one answer, a page at a time, so that the driver can turn to replies and renewals in between.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_proto::engine::Id;
use leasehold_proto::operate::{AnswerText, Card, Held, Question, TEXT_MAX, Totals, Waiting};
use leasehold_proto::{ClientId, Moment};

use crate::runtime::shared::Shared;

/// The rows of each kind in the first answer. These are the longest holds and waits, the ones that an operator looks
/// for.
const LONGEST: usize = 20;
/// The most rows of one page of an answer. Between two pages the driver turns to replies and renewals.
const ROWS: usize = 256;
/// The most waiting acquires that one answer sums up.
const SUMMED: u64 = 16_384;
/// The bytes of names with which an answer that sums up is full.
const SUMMED_BYTES: usize = TEXT_MAX / 2;

/// The waiting acquires of one name: their number, and the begin of the longest.
type Sums = BTreeMap<(String, &'static str), (u32, Moment)>;

/// The work for one answer.
#[derive(Debug)]
pub(super) struct Work {
    text: AnswerText,
    task: Task,
    after: Id,
}

#[derive(Debug)]
enum Task {
    Who(Who),
    Holds { name: Option<String>, rows: usize },
    Waits { name: Option<String>, seen: u64, sums: Sums },
    Ask { name: String, owner: String, by: String },
    Unknown,
}

/// The first answer in the making: the holds are counted first, and then the waits.
#[derive(Debug, Default)]
struct Who {
    holds: u64,
    longest: Vec<(Moment, Id)>,
    has_holds: bool,
    waits: u64,
    sums: Sums,
}

/// What a page of work leads to.
enum Progress {
    /// Another page, behind this id.
    More(Id),
    /// The answer, with the cursor of the next one.
    Done(Option<Id>),
}

impl Work {
    pub(super) fn new(client: ClientId, question: Question) -> Self {
        let (task, after) = match question {
            Question::Who => (Task::Who(Who::default()), 0),
            Question::Holds { after, name } => (Task::Holds { name, rows: 0 }, after),
            Question::Waits { after, name } => (Task::Waits { name, seen: 0, sums: Sums::new() }, after),
            Question::Ask { name, owner, by } => (Task::Ask { name, owner, by }, 0),
            _ => (Task::Unknown, 0),
        };
        Self { text: AnswerText::new(client), task, after: Id(after) }
    }

    /// Does a page of the work. Returns the answer when it is complete, and else the work that is left.
    pub(super) fn turn(mut self, shared: &Shared, about: (&Card, Duration)) -> Result<String, Self> {
        let (text, after) = (&mut self.text, self.after);
        let progress = match &mut self.task {
            Task::Who(who) => who.turn(shared, after, text, about),
            Task::Holds { name, rows } => {
                let (page, next) = shared.held_rows(after, name.as_deref());
                let added = add(text, &page, ROWS - *rows);
                *rows += added;
                match next {
                    _ if added < page.len() => {
                        Progress::Done(Some(added.checked_sub(1).map_or(after, |last| page[last].0)))
                    }
                    Some(next) if *rows < ROWS => Progress::More(next),
                    next => Progress::Done(next),
                }
            }
            Task::Waits { name, seen, sums } => {
                let (page, next) = shared.wait_ages(after, name.as_deref());
                *seen += sum(sums, page);
                let bytes: usize = sums.keys().map(|(name, _)| name.len()).sum();
                match next {
                    Some(next) if *seen < SUMMED && sums.len() < ROWS && bytes < SUMMED_BYTES => {
                        Progress::More(next)
                    }
                    next => {
                        waiting(sums, shared.now()).for_each(|row| text.waiting_or_omitted(&row));
                        Progress::Done(next)
                    }
                }
            }
            Task::Ask { name, owner, by } => {
                let (page, next) = shared.held_rows(after, Some(name.as_str()));
                for (id, row) in page.iter().filter(|(_, row)| row.owner == *owner) {
                    shared.ask_back(*id, by);
                    _ = text.held(row);
                }
                next.map_or(Progress::Done(None), Progress::More)
            }
            Task::Unknown => {
                text.unknown();
                Progress::Done(None)
            }
        };
        match progress {
            Progress::More(after) => Err(Self { after, ..self }),
            Progress::Done(next) => Ok(self.text.end(next.map(|next| next.0))),
        }
    }
}

impl Who {
    fn turn(
        &mut self,
        shared: &Shared,
        after: Id,
        text: &mut AnswerText,
        (card, age): (&Card, Duration),
    ) -> Progress {
        if !self.has_holds {
            let (ages, next) = shared.hold_ages(after);
            self.holds += ages.len() as u64;
            self.longest.extend(ages);
            self.longest.sort_unstable();
            self.longest.truncate(LONGEST);
            self.has_holds = next.is_none();
            return Progress::More(next.unwrap_or(Id(0)));
        }
        let (page, next) = shared.wait_ages(after, None);
        self.waits += sum(&mut self.sums, page);
        if let Some(next) = next {
            return Progress::More(next);
        }
        text.card(card);
        text.totals(Totals { holds: self.holds, waits: self.waits, age_ms: millis(age) });
        let held = self.longest.iter().filter_map(|(_, id)| shared.held_row(*id));
        held.for_each(|row| _ = text.held(&row));
        let mut rows: Vec<_> = waiting(&self.sums, shared.now()).collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.waited_ms));
        rows.iter().take(LONGEST).for_each(|row| _ = text.waiting(row));
        Progress::Done(None)
    }
}

/// Adds rows, and returns the number of those that fit.
fn add(text: &mut AnswerText, rows: &[(Id, Held)], most: usize) -> usize {
    rows.iter().take(most).take_while(|(_, row)| text.held(row)).count()
}

/// Adds waits to their sums, and returns their number.
fn sum(sums: &mut Sums, page: Vec<(String, &'static str, Moment)>) -> u64 {
    let waits = page.len() as u64;
    for (name, kind, since) in page {
        let (tasks, first) = sums.entry((name, kind)).or_insert((0, since));
        (*tasks, *first) = (*tasks + 1, since.min(*first));
    }
    waits
}

fn waiting(sums: &Sums, now: Moment) -> impl Iterator<Item = Waiting> {
    sums.iter().map(move |((name, kind), (tasks, since))| Waiting {
        name: name.clone(),
        kind: (*kind).to_owned(),
        waited_ms: millis(now.since(*since)),
        tasks: *tasks,
    })
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
