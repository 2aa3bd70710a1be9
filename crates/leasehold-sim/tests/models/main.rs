//! The model checks of the family: every order of a few events, over real engines and real scripts on real databases.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]
#![expect(clippy::print_stdout, reason = "the size of the space that was explored is a result")]

mod check;
mod world;

/// One file for each primitive. `cargo x test` finds the checks by the name of this module.
mod model {
    mod expirable;
    mod fair;
    mod latch;
    mod multi;
    mod plain;
    mod read_write;
    mod redlock;
    mod semaphore;
}
