//! The candidates, operators and observers of an election.
//!
//! Invariant: the recorder hears of a term in the poll that begins its body or returns it, and of its end before the term is
//! dropped.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, join, select};
use leasehold::Term;
use leasehold::election::{Election, Gate, OnLost, State};

use super::user::User;
use crate::bounds;
use crate::environment::Env;
use crate::history::Event;

/// The error of a body.
#[derive(Debug)]
struct Failed;

/// A term that the recorder knows.
struct Leading {
    env: Env,
    term: u64,
}

impl Leading {
    fn begin(env: &Env, term: &Term, has_body: bool) -> Self {
        let said = (term.token(), term.validity());
        let term = env.recorder.lead(env.now(), env.process, said, has_body);
        Self { env: env.clone(), term }
    }
}

impl Drop for Leading {
    fn drop(&mut self) {
        self.env.recorder.end_term(self.env.now(), self.term);
    }
}

/// A campaign that the recorder knows.
struct Campaign(Env, crate::history::Op);

impl Campaign {
    fn begin(env: &Env) -> Self {
        let campaign = Self(env.clone(), env.recorder.next_op());
        campaign.record(true);
        campaign
    }

    fn record(&self, begins: bool) {
        let Self(env, op) = self;
        env.record(Event::Campaigns { op: *op, process: env.process, begins });
    }
}

impl Drop for Campaign {
    fn drop(&mut self) {
        self.record(false);
    }
}

/// Leads, campaigns, asks or observes once.
pub(super) async fn work(user: &mut User, election: Election) {
    let env = &mut user.env;
    let lease = *env.rng.choice(&env.plan.leases).expect("there are leases");
    let election = election.candidate(&candidate(env)).watchdog(lease).rest(lease / 8);
    let drops = env.environment.drops_futures(env.process).then(|| env.some_of(lease));
    let environment = env.environment.clone();
    let working = async {
        match env.rng.u8(0..8) {
            0..=3 => lead(env, &election, lease).await,
            4 | 5 => campaign(env, &election, lease).await,
            6 => ask(env, &election).await,
            _ => observe(env, &election).await,
        }
    };
    match drops {
        Some(after) => drop(select(pin!(working), environment.sleep(after)).await),
        None => working.await,
    }
}

/// Returns the name of one of the candidates.
fn candidate(env: &mut Env) -> String {
    env.rng.usize(0..env.plan.processes * env.plan.users).to_string()
}

/// Leads term after term, until a stop. The gate flaps.
async fn lead(env: &mut Env, election: &Election, lease: Duration) {
    let gate = Gate::new();
    let finishes = env.rng.u8(0..4) == 0;
    let mut election = election.clone().when(&gate).unhealthy_for(lease / 4).healthy_for(lease / 4);
    election =
        election.grace(env.some_of(lease)).on_lost(if finishes { OnLost::Finish } else { OnLost::Cancel });
    if env.rng.u8(0..4) == 0 {
        election = election.max_term(lease);
    }
    if env.rng.u8(0..4) == 0 {
        election = election.priority(env.rng.u32(0..3));
    }
    let (stopper, worker) = (election.stopper(), env.clone());
    let dice = env.rng.fork();
    let leading = election.lead(async move |term| body(worker.clone(), dice.clone(), term, lease).await);
    let stopping = async {
        for _ in 0..env.rng.u8(0..6) {
            env.nap(lease).await;
            if env.rng.bool() {
                gate.close("the simulator says so");
            } else {
                gate.open();
            }
        }
        env.nap(lease * 3).await;
        stopper.stop().await;
    };
    let _ = join(leading, stopping).await;
}

/// Works until it is asked, and then ends in time or not. Sometimes it ends by itself.
async fn body(mut env: Env, dice: fastrand::Rng, term: &Term, lease: Duration) -> Result<(), Failed> {
    env.rng = fastrand::Rng::with_seed(term.token() ^ dice.clone().u64(..));
    let _leading = Leading::begin(&env, term, true);
    loop {
        let work = env.some_of(lease);
        let nap = env.environment.sleep(work);
        if let Either::Right(_) = select(nap, pin!(term.asked())).await {
            env.nap(lease * 2).await;
            return Ok(());
        }
        match env.rng.u8(0..12) {
            0 => return Ok(()),
            1 => term.resign_after(),
            2 => term.transfer_after(&candidate(&mut env)),
            3 => return Err(Failed),
            _ => continue,
        }
        return Ok(());
    }
}

/// Leads one term by hand.
async fn campaign(env: &mut Env, election: &Election, lease: Duration) {
    let is_bounded = env.rng.bool();
    let term = if is_bounded {
        let wait = env.some_of(lease * 2);
        election.clone().wait(wait).campaign().await
    } else {
        let _campaign = Campaign::begin(env);
        election.campaign().await
    };
    let Ok(term) = term else { return };
    let _leading = Leading::begin(env, &term, false);
    let span = env.some_of(lease * 2);
    select(env.environment.sleep(span), pin!(term.lost())).await;
    match env.rng.u8(0..6) {
        0..=2 => drop(term.resign().await),
        3 | 4 => drop(term.transfer_to(&candidate(env)).await),
        _ => {}
    }
}

/// Asks the leader for something.
async fn ask(env: &mut Env, election: &Election) {
    match env.rng.u8(0..3) {
        0 => drop(election.request_resign().await),
        1 => drop(election.request_transfer(&candidate(env)).await),
        _ => drop(election.leader().await),
    }
}

/// Observes for a while, and records what it sees once that must be right.
async fn observe(env: &mut Env, election: &Election) {
    let (mut observer, began) = (election.observe(), env.now());
    let settled = began + bounds::observers_agree_within(&env.plan);
    while env.now() < settled + Duration::from_secs(5) {
        let nap = env.some_of(Duration::from_secs(1));
        let closed = match select(env.environment.sleep(nap), pin!(observer.changed())).await {
            Either::Left(_) => false,
            Either::Right((state, _)) => state.is_none(),
        };
        if closed {
            return;
        }
        if env.now() > settled {
            let leader = match observer.current() {
                State::Unknown { .. } => None,
                state => Some(state.leader().map(|leader| leader.owner.as_str().into())),
            };
            env.record(Event::Observed { process: env.process, leader });
        }
    }
}
