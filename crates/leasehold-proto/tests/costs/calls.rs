//! The allocations of a call.

use std::time::Duration;

use allocation_counter::measure;
use leasehold_proto::recipe::fenced::{Tokens, with_tokens};
use leasehold_proto::recipe::read_write::{PREFERRED, READ_LOCK, WRITE_LOCK, YIELDING};
use leasehold_proto::recipe::{
    expirable::EXPIRABLE_SEMAPHORE, fair::FAIR, latch::LATCH, redlock::REDLOCK, reentrant::REENTRANT,
    semaphore::FIFO_SEMAPHORE, semaphore::SEMAPHORE, spin::SPIN, upgrade::UPGRADE,
};
use leasehold_proto::{Call, CallArgs, ClientId, Lease, NAME_BYTES_MAX, Recipe, WireOwner};

use crate::harness::subject;

/// Returns the allocations of a call, which lives while they are counted.
fn allocations(build: impl Fn() -> Call) -> u64 {
    // The first call of a script reads its header.
    drop(build());
    measure(|| drop(build())).count_total
}

#[test]
fn a_call_of_one_name_is_one_allocation() {
    let recipes: [&Recipe; 14] = [
        &REENTRANT,
        &FAIR,
        with_tokens(Tokens::Hybrid),
        &SPIN,
        &REDLOCK,
        &READ_LOCK,
        &YIELDING,
        &WRITE_LOCK,
        &PREFERRED,
        &UPGRADE,
        &SEMAPHORE,
        &FIFO_SEMAPHORE,
        &EXPIRABLE_SEMAPHORE,
        &LATCH,
    ];
    let owner = WireOwner::new(ClientId::from_random([1; 16]), u64::MAX);
    let longest = "n".repeat(NAME_BYTES_MAX);
    for (recipe, name) in recipes.into_iter().flat_map(|recipe| [(recipe, "l"), (recipe, &*longest)]) {
        let subject = subject(name, recipe);
        let args = CallArgs::new(&subject, owner, Lease::clamped(Duration::from_secs(30)));
        let args = CallArgs { companion: Some(owner), ..args };
        let acquire = allocations(|| (recipe.acquire)(&args).woken_by(&subject, owner));
        let [renew, release] = [recipe.renew, recipe.release].map(|call| allocations(|| call(&args)));
        println!("{} {name:.8}: acquire {acquire}, renew {renew}, release {release}", recipe.kind);
        assert_eq!([acquire, renew, release], [1; 3], "{}", recipe.kind);
    }
}
