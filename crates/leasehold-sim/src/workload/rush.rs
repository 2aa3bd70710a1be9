//! The rush at the end of some runs: each user takes the same lock or pair of locks again and again, for a moment at a
//! time.
//!
//! Invariant: as in the parent module. A user does not change what it takes, so that one queue of a client can starve
//! another one.

use std::sync::Arc;
use std::time::Duration;

use leasehold::multi::Member;
use leasehold::{Guard, MultiLock};

use super::held::Held;
use super::user::User;
use crate::history::{Event, What};
use crate::name_state::Side;
use crate::primitive::{Primitive, name_of};
use crate::recorder::Claim;
use crate::recorder::view::Terms;
use crate::taken::Taken;

/// The longest section of a rush.
const SECTION: Duration = Duration::from_millis(1);

/// The thing that a user takes.
enum Aim {
    One(Arc<str>, Side),
    Together([Arc<str>; 2]),
}

/// Takes one thing repeatedly until the users stop. Returns at once if the plan has nothing that two queues want.
pub(super) async fn work(user: &mut User) {
    let Some(aim) = aim(user) else { return };
    while user.may_continue() {
        let Some(held) = take(user, &aim).await else { return };
        user.env.nap(SECTION).await;
        drop(held);
    }
}

fn aim(user: &mut User) -> Option<Aim> {
    let plan = Arc::clone(&user.env.plan);
    let of = |primitive| plan.names.iter().filter(move |name| Primitive::of(name) == primitive).cloned();
    let mut locks = of(Primitive::Lock).filter(|name| name.starts_with('{'));
    let is_first = user.env.rng.u8(0..3) == 0;
    match (locks.next(), locks.next(), of(Primitive::ReadWrite).next()) {
        (Some(one), Some(other), _) if is_first => Some(Aim::Together([one, other])),
        (Some(one), Some(_), _) => Some(Aim::One(one, Side::Alone)),
        (.., Some(name)) if is_first => Some(Aim::One(name, Side::Reader)),
        (.., Some(name)) => Some(Aim::One(name, Side::Writer)),
        _ => None,
    }
}

async fn take(user: &mut User, aim: &Aim) -> Option<Held> {
    let (lease, client) = (user.env.plan.longest_lease(), user.client.clone());
    let terms = Terms { lease, watched: true, min_hold: None };
    match aim {
        Aim::One(name, side) => {
            let op = user.begin(name, What::Lock, None);
            if *side == Side::Reader {
                user.env.record(Event::Reads { op });
            }
            let waiting = async {
                let taken = match side {
                    // A rush takes no permits.
                    Side::Alone | Side::Permits => client.lock(name_of(name)).watchdog(lease).lock().await,
                    Side::Reader => client.rw_lock(name_of(name)).watchdog(lease).read().await,
                    Side::Writer => client.rw_lock(name_of(name)).watchdog(lease).write().await,
                };
                taken.map(Some)
            };
            user.acquire(op, waiting, |guard| one(guard, name, *side, terms)).await
        }
        Aim::Together(names) => {
            let op = user.begin(&names.join(" "), What::LockAll, None);
            let members = names.iter().map(|name| Member::from(client.lock(name_of(name)).watchdog(lease)));
            let multi = MultiLock::of(members.collect::<Vec<_>>());
            let waiting = async { multi.lock().await.map(Some) };
            user.acquire(op, waiting, |guard| super::multi::claims(guard, names, terms)).await
        }
    }
}

fn one(guard: Guard, name: &Arc<str>, side: Side, terms: Terms) -> (Taken, Vec<Claim>) {
    let (name, wire) = (Arc::clone(name), guard.wire_owner().to_string().into());
    let claim = Claim { name, wire, side, owner: 0, units: 1, token: None, terms, place: 0 };
    (Taken::One(guard), vec![claim])
}
