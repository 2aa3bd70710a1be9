//! A model check of elections: candidates, a server, calls that are lost, late or repeated, and bodies that take their time.
//! The check must find the fault of each broken variant.
//!
//! The contract tests of the scripts show that the real server does what this one does. Time passes in steps, and a lease
//! has two of them.

use stateright::{Checker, HasDiscoveries, Model, Property};

/// The number of states at which a model that is too large is cut off.
const STATES_MAX: usize = 20_000_000;
const LEASE: u8 = 2;
/// The most calls on their way at a time, so that the space ends. A call is sent again when another has arrived.
const CALLS_MAX: usize = 3;
/// The time after the last beat for which a leader renews.
const SILENT_FOR: u8 = 1;

/// What is left out of the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Variant {
    Sound,
    ReleasesBeforeTheBody,
    RenewsWithoutABeat,
    BelievesTheAnnouncement,
    KeepsTheOldField,
}

/// The wire owner of an attempt: a candidate, and the number of its campaign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Owner {
    candidate: u8,
    campaign: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Call {
    Acquire { owner: Owner, sent: u8 },
    Granted { owner: Owner, sent: u8, token: u8 },
    Renew { owner: Owner, sent: u8 },
    Renewed { owner: Owner, sent: u8 },
    Announce { owner: Owner },
    Release { owner: Owner },
    Transfer { owner: Owner, successor: Owner },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Idle,
    Waiting,
    /// It leads until this time by its clock, and was asked to end or not.
    Leading {
        until: u8,
        asked: bool,
    },
    /// The term has ended as planned.
    Over,
    Dead,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Candidate {
    campaign: u8,
    phase: Phase,
    /// The time until which the term of the running body was valid, as far as it knows.
    body: Option<u8>,
    beat: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Budget {
    ticks: u8,
    campaigns: u8,
    losses: u8,
    repeats: u8,
    crashes: u8,
    leaves: u8,
    beats: u8,
}

const QUIET: Budget =
    Budget { ticks: 3, campaigns: 0, losses: 0, repeats: 0, crashes: 0, leaves: 0, beats: 0 };

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    now: u8,
    /// The fields of the lock.
    fields: Vec<Owner>,
    expires: u8,
    token: u8,
    announced: Option<Owner>,
    candidates: Vec<Candidate>,
    calls: Vec<Call>,
    /// The greatest token of a term that has begun.
    greatest: u8,
    left: Budget,
    transferred: bool,
    broken: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Move {
    Tick,
    Campaign(u8),
    Retry(u8),
    Leave(u8),
    Renew(u8),
    Beat(u8),
    Ask(u8),
    EndBody(u8),
    Resign(u8),
    Transfer(u8, u8),
    Crash(u8),
    Deliver(Call),
    Repeat(Call),
    Lose(Call),
    Observe,
}

struct Election {
    candidates: u8,
    budget: Budget,
    variant: Variant,
}

impl World {
    fn owner(&self, of: u8) -> Owner {
        Owner { candidate: of, campaign: self.candidates[usize::from(of)].campaign }
    }

    fn candidate(&mut self, of: u8) -> &mut Candidate {
        &mut self.candidates[usize::from(of)]
    }

    fn send(&mut self, call: Call) {
        if let Err(place) = self.calls.binary_search(&call) {
            self.calls.insert(place, call);
        }
    }

    fn breaks(&mut self, rule: &'static str) {
        self.broken.get_or_insert(rule);
    }

    /// The lock as the server has it now.
    fn holds(&mut self) -> &mut Vec<Owner> {
        if self.expires <= self.now {
            self.fields.clear();
        }
        &mut self.fields
    }

    fn is_valid(&self, of: &Candidate) -> bool {
        matches!(of.phase, Phase::Leading { until, .. } if self.now < until)
    }

    /// The server executes a call, or a client reads a reply.
    fn deliver(&mut self, call: Call, variant: Variant) {
        match call {
            Call::Acquire { owner, sent } => {
                if self.holds().is_empty() {
                    self.token += 1;
                    self.fields.push(owner);
                }
                if self.fields.contains(&owner) {
                    self.expires = self.now + LEASE;
                    let token = self.token;
                    self.send(Call::Granted { owner, sent, token });
                }
            }
            Call::Renew { owner, sent } => {
                if self.holds().contains(&owner) {
                    self.expires = self.now + LEASE;
                    self.send(Call::Renewed { owner, sent });
                }
            }
            Call::Release { owner } => self.holds().retain(|field| *field != owner),
            Call::Announce { owner } => {
                if self.holds().contains(&owner) {
                    self.announced = Some(owner);
                }
            }
            Call::Transfer { owner, successor } => {
                if !self.holds().contains(&successor) && self.fields.contains(&owner) {
                    if variant != Variant::KeepsTheOldField {
                        self.fields.clear();
                    }
                    self.token += 1;
                    self.fields.push(successor);
                    self.expires = self.now + LEASE;
                    self.transferred = true;
                }
            }
            Call::Granted { owner, sent, token } => self.claim(owner, sent + LEASE, token),
            Call::Renewed { owner, sent } => {
                let is_its = self.owner(owner.candidate) == owner;
                if let Phase::Leading { until, .. } = &mut self.candidate(owner.candidate).phase
                    && is_its
                {
                    *until = (*until).max(sent + LEASE);
                }
            }
        }
        if self.fields.len() > 1 {
            self.breaks("the lock has more than one field");
        }
    }

    fn claim(&mut self, owner: Owner, until: u8, token: u8) {
        let is_its = self.owner(owner.candidate) == owner;
        let phase = self.candidate(owner.candidate).phase;
        match phase {
            Phase::Waiting if is_its && self.now < until => {}
            // A repeated grant tells nothing new.
            Phase::Leading { .. } if is_its => return,
            Phase::Dead => return,
            // A grant that nobody wants any more, or that comes too late, is undone.
            _ => {
                if is_its && phase == Phase::Waiting {
                    self.candidate(owner.candidate).phase = Phase::Over;
                }
                return self.send(Call::Release { owner });
            }
        }
        if self.candidates.iter().any(|other| self.is_valid(other)) {
            self.breaks("two terms are valid");
        }
        // The body of a lost term may run until its next await. No other body runs.
        if self.candidates.iter().any(|other| other.body.is_some_and(|until| self.now < until)) {
            self.breaks("a body begins beside one whose term was not lost");
        }
        if token <= self.greatest {
            self.breaks("a token did not grow");
        }
        self.greatest = self.greatest.max(token);
        let now = self.now;
        let leader = self.candidate(owner.candidate);
        (leader.phase, leader.body, leader.beat) = (Phase::Leading { until, asked: false }, Some(until), now);
        self.send(Call::Announce { owner });
    }

    /// Ends a term as planned. A body that still runs knows nothing of it.
    fn end(&mut self, of: u8) {
        let candidate = self.candidate(of);
        if let Phase::Leading { until, .. } = candidate.phase {
            candidate.body = candidate.body.map(|_| until);
        }
        candidate.phase = Phase::Over;
    }

    /// What an observer sees.
    fn observe(&mut self, variant: Variant) {
        let holder = self.holds().first().copied();
        let seen = match variant {
            Variant::BelievesTheAnnouncement => self.announced,
            _ => self.announced.filter(|announced| Some(*announced) == holder),
        };
        if seen.is_some() && seen != holder {
            self.breaks("an observer sees a leader that the server has not");
        }
    }

    fn make(&mut self, step: Move, variant: Variant) {
        match step {
            Move::Tick => (self.now, self.left.ticks) = (self.now + 1, self.left.ticks - 1),
            Move::Campaign(of) => {
                self.left.campaigns -= u8::from(self.candidate(of).phase == Phase::Over);
                self.candidate(of).campaign += 1;
                self.candidate(of).phase = Phase::Waiting;
                let (owner, sent) = (self.owner(of), self.now);
                self.send(Call::Acquire { owner, sent });
            }
            Move::Retry(of) => {
                let (owner, sent) = (self.owner(of), self.now);
                self.send(Call::Acquire { owner, sent });
            }
            Move::Leave(of) => {
                self.left.leaves -= 1;
                self.candidate(of).phase = Phase::Over;
            }
            Move::Renew(of) => {
                if self.now > self.candidates[usize::from(of)].beat + SILENT_FOR {
                    self.breaks("a renewal is sent without a beat");
                }
                let (owner, sent) = (self.owner(of), self.now);
                self.send(Call::Renew { owner, sent });
            }
            Move::Beat(of) => {
                self.left.beats -= 1;
                self.candidate(of).beat = self.now;
            }
            Move::Ask(of) => {
                if let Phase::Leading { asked, .. } = &mut self.candidate(of).phase {
                    *asked = true;
                }
            }
            Move::EndBody(of) => self.candidate(of).body = None,
            Move::Resign(of) => {
                let owner = self.owner(of);
                self.end(of);
                self.send(Call::Release { owner });
            }
            Move::Transfer(of, to) => {
                let (owner, successor) = (self.owner(of), self.owner(to));
                self.end(of);
                self.send(Call::Transfer { owner, successor });
            }
            Move::Crash(of) => {
                self.left.crashes -= 1;
                let candidate = self.candidate(of);
                (candidate.phase, candidate.body) = (Phase::Dead, None);
            }
            Move::Deliver(call) => {
                self.calls.retain(|known| *known != call);
                self.deliver(call, variant);
            }
            Move::Repeat(call) => {
                self.left.repeats -= 1;
                self.deliver(call, variant);
            }
            Move::Lose(call) => {
                self.left.losses -= 1;
                self.calls.retain(|known| *known != call);
            }
            Move::Observe => self.observe(variant),
        }
        // A running body knows the validity of its term.
        for candidate in &mut self.candidates {
            if let (Phase::Leading { until, .. }, Some(body)) = (candidate.phase, &mut candidate.body) {
                *body = until;
            }
        }
    }

    fn moves(&self, variant: Variant, moves: &mut Vec<Move>) {
        if self.broken.is_some() {
            return;
        }
        moves.push(Move::Observe);
        if self.left.ticks > 0 {
            moves.push(Move::Tick);
        }
        for call in self.calls.iter().copied() {
            moves.push(Move::Deliver(call));
            if self.left.losses > 0 {
                moves.push(Move::Lose(call));
            }
            if self.left.repeats > 0 {
                moves.push(Move::Repeat(call));
            }
        }
        for of in 0..u8::try_from(self.candidates.len()).unwrap() {
            self.moves_of(of, variant, moves);
        }
    }

    fn moves_of(&self, of: u8, variant: Variant, moves: &mut Vec<Move>) {
        let candidate = &self.candidates[usize::from(of)];
        if self.left.crashes > 0 && candidate.phase != Phase::Dead {
            moves.push(Move::Crash(of));
        }
        if candidate.body.is_some() {
            moves.push(Move::EndBody(of));
        }
        match candidate.phase {
            Phase::Idle => moves.push(Move::Campaign(of)),
            Phase::Over if self.left.campaigns > 0 && candidate.body.is_none() => {
                moves.push(Move::Campaign(of));
            }
            Phase::Waiting => {
                let owner = self.owner(of);
                let tries = |call: &Call| matches!(call, Call::Acquire { owner: of, .. } | Call::Granted { owner: of, .. } if *of == owner);
                if !self.calls.iter().any(tries) {
                    moves.push(Move::Retry(of));
                }
                if self.left.leaves > 0 {
                    moves.push(Move::Leave(of));
                }
            }
            Phase::Leading { until, asked } => {
                if self.left.beats > 0 && candidate.beat < self.now {
                    moves.push(Move::Beat(of));
                }
                let beats = self.now <= candidate.beat + SILENT_FOR;
                if self.now + 1 == until && (beats || variant == Variant::RenewsWithoutABeat) {
                    moves.push(Move::Renew(of));
                }
                if !asked {
                    moves.push(Move::Ask(of));
                } else if candidate.body.is_none() || variant == Variant::ReleasesBeforeTheBody {
                    moves.push(Move::Resign(of));
                    let waits = |to: &u8| self.candidates[usize::from(*to)].phase == Phase::Waiting;
                    let others = 0..u8::try_from(self.candidates.len()).unwrap();
                    if self.now < until {
                        moves.extend(others.filter(waits).map(|to| Move::Transfer(of, to)));
                    }
                }
            }
            Phase::Over | Phase::Dead => {}
        }
    }
}

impl Model for Election {
    type State = World;
    type Action = Move;

    fn init_states(&self) -> Vec<World> {
        let candidate = Candidate { campaign: 0, phase: Phase::Idle, body: None, beat: 0 };
        vec![World {
            now: 0,
            fields: Vec::new(),
            expires: 0,
            token: 0,
            announced: None,
            candidates: vec![candidate; self.candidates.into()],
            calls: Vec::new(),
            greatest: 0,
            left: self.budget,
            transferred: false,
            broken: None,
        }]
    }

    fn actions(&self, world: &World, moves: &mut Vec<Move>) {
        world.moves(self.variant, moves);
    }

    fn next_state(&self, world: &World, step: Move) -> Option<World> {
        let mut next = world.clone();
        next.make(step, self.variant);
        (next != *world && next.calls.len() <= CALLS_MAX).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no rule is broken", |_, world: &World| world.broken.is_none()),
            Property::sometimes("a second term begins", |_, world: &World| world.greatest > 1),
            Property::sometimes("a successor leads", |_, world: &World| {
                world.transferred && world.candidates.iter().any(|candidate| world.is_valid(candidate))
            }),
        ]
    }
}

/// Explores every order of events, prints the number of states, and returns the rule that is broken, if one is.
fn check(name: &str, candidates: u8, budget: Budget, variant: Variant) -> Option<&'static str> {
    let checker =
        Election { candidates, budget, variant }.checker().threads(2).target_state_count(STATES_MAX);
    let checker = checker.finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    println!("{name}: {} states, {} of them different", checker.state_count(), checker.unique_state_count());
    if variant == Variant::Sound {
        assert!(checker.state_count() < STATES_MAX, "{name} was cut off before every order was tried");
        checker.assert_any_discovery("a second term begins");
        checker.assert_any_discovery("a successor leads");
    }
    let path = checker.discovery("no rule is broken")?;
    let rule = path.last_state().broken;
    println!("{name}: {} by {:?}", rule.unwrap_or_default(), path.into_actions());
    rule
}

fn assert_sound(name: &str, candidates: u8, budget: Budget) {
    assert_eq!(
        check(name, candidates, budget, Variant::Sound),
        None,
        "{name}: this order of events breaks a rule"
    );
}

#[test]
fn an_election_has_one_term_under_loss_and_repetition() {
    assert_sound("election: loss", 2, Budget { losses: 1, ..QUIET });
    assert_sound("election: repetition", 2, Budget { repeats: 1, ..QUIET });
    let second = Budget { ticks: 2, campaigns: 1, beats: 1, ..QUIET };
    assert_sound("election: beats and a second campaign", 2, second);
}

#[test]
fn an_election_has_one_term_if_a_successor_dies_or_leaves() {
    assert_sound("election: a dying successor", 2, Budget { crashes: 1, ..QUIET });
    assert_sound("election: a successor that leaves", 2, Budget { leaves: 1, ..QUIET });
}

#[test]
fn an_election_of_three_has_one_term() {
    assert_sound("election: three candidates", 3, Budget { ticks: 2, ..QUIET });
}

#[test]
fn the_model_detects_a_release_before_the_body_has_ended() {
    let found = check("twin: release before the body", 2, QUIET, Variant::ReleasesBeforeTheBody);
    assert_eq!(found, Some("a body begins beside one whose term was not lost"));
}

#[test]
fn the_model_detects_a_renewal_without_a_beat() {
    let found = check("twin: renewal without a beat", 2, QUIET, Variant::RenewsWithoutABeat);
    assert_eq!(found, Some("a renewal is sent without a beat"));
}

#[test]
fn the_model_detects_an_announcement_that_is_believed_alone() {
    let found = check("twin: announcement alone", 2, QUIET, Variant::BelievesTheAnnouncement);
    assert_eq!(found, Some("an observer sees a leader that the server has not"));
}

#[test]
fn the_model_detects_a_swap_that_keeps_the_old_field() {
    let found = check("twin: old field", 2, QUIET, Variant::KeepsTheOldField);
    assert_eq!(found, Some("the lock has more than one field"));
}
