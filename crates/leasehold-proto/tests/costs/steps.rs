//! The work of one step while many timers are due.

use std::time::Duration;

use leasehold_proto::engine::{Event, Request, Wait};
use leasehold_proto::recipe::reentrant::REENTRANT;

use crate::harness::{Harness, after, request, subject};

const TIMERS: u64 = 100_000;
/// A time that is over before a waiter polls.
const SHORT: Duration = Duration::from_millis(500);
/// The most timers that fire within a step of a caller, who waits for the step.
const FIRED_FOR_A_CALLER_MAX: usize = 8;
/// The most timers that fire within a step of the driver, for which callers may wait.
const FIRED_FOR_THE_DRIVER_MAX: usize = 256;

#[test]
fn a_step_fires_few_of_the_due_timers() {
    let (lock, other) = (subject("lock", &REENTRANT), subject("other", &REENTRANT));
    let mut harness = Harness::new(TIMERS as usize);
    let wait = Wait::Until(after(SHORT));
    harness.refuse(TIMERS, |owner| Request { wait, ..request(&lock, owner) });
    harness.pass(SHORT);

    harness.reset();
    harness.acquire(request(&other, 1));
    println!("a caller's step: {} timers, {:?}", harness.count.wakes_max, harness.count.time_max);
    assert!(harness.count.wakes_max <= FIRED_FOR_A_CALLER_MAX, "{}", harness.count.wakes_max);

    harness.reset();
    while harness.is_due() {
        harness.step(Event::Tick);
    }
    let mean = harness.count.time / u32::try_from(harness.count.steps).unwrap();
    println!("a driver's step: {} timers, {mean:?} in the mean", harness.count.wakes_max);
    assert!(harness.count.wakes_max <= FIRED_FOR_THE_DRIVER_MAX, "{}", harness.count.wakes_max);
    assert_eq!(harness.woken.len() as u64, TIMERS, "each deadline ends its waiter");
}
