//! The library `math`, with the server's own random numbers.
//!
//! Invariant: a script that calls `math.randomseed` changes only its own numbers.

use mlua::{Lua, MultiValue, Table};

use super::errors::complain;
use super::random::Random;
use super::work::SharedWork;

/// Puts the random numbers into Lua's own library.
pub(super) fn table(lua: &Lua, shared: &SharedWork, math: Table) -> mlua::Result<Table> {
    let drawing = shared.clone();
    math.raw_set(
        "random",
        lua.create_function(move |lua, bounds: MultiValue| draw(lua, &drawing, &bounds))?,
    )?;
    let seeding = shared.clone();
    let seed = lua.create_function(move |lua, number: f64| {
        seed(lua, &seeding, number);
        Ok(())
    });
    math.raw_set("randomseed", seed?)?;
    Ok(math)
}

/// Handles `math.random`.
fn draw(lua: &Lua, shared: &SharedWork, bounds: &MultiValue) -> mlua::Result<f64> {
    let drawn = f64::from(shared.work().random.next() % i32::MAX) / f64::from(i32::MAX);
    let bound = |at: usize| bounds.get(at).and_then(|value| lua.coerce_number(value.clone()).ok().flatten());
    let wrong = |at: usize| {
        let text = format!("bad argument #{at} to 'random' (interval is empty)");
        Err(complain(lua, &text))
    };
    match (bounds.len(), bound(0), bound(1)) {
        (0, ..) => Ok(drawn),
        (1, Some(high), _) if high >= 1.0 => Ok((drawn * high).floor() + 1.0),
        (1, ..) => wrong(1),
        (2, Some(low), Some(high)) if low <= high => Ok((drawn * (high - low + 1.0)).floor() + low),
        (2, ..) => wrong(2),
        _ => Err(complain(lua, "wrong number of arguments")),
    }
}

/// Handles `math.randomseed`.
fn seed(_: &Lua, shared: &SharedWork, seed: f64) {
    #[allow(clippy::cast_possible_truncation, reason = "a seed is cut to its lower half")]
    let seed = seed as i64 as i32;
    shared.work().random = Random::seeded(seed);
}
