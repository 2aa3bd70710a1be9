//! The random numbers of scripts, which are the same in every run.
//!
//! Invariant: the sequence is that of redis-server, from its beginning for every script.

use mlua::{Lua, MultiValue};

use super::errors::complain;
use super::vm::Bench;

/// The generator of the C library's `lrand48`.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Default for Random {
    fn default() -> Self {
        Self::seeded(0)
    }
}

impl Random {
    fn seeded(seed: i32) -> Self {
        Self((u64::from(seed.cast_unsigned()) << 16) + 0x330e)
    }

    fn next(&mut self) -> i32 {
        self.0 = self.0.wrapping_mul(0x0005_deec_e66d).wrapping_add(0xb) & 0xffff_ffff_ffff;
        i32::try_from(self.0 >> 17).unwrap_or(i32::MAX)
    }
}

/// `math.random`.
pub(super) fn draw(lua: &Lua, bench: &Bench, bounds: &MultiValue) -> mlua::Result<f64> {
    let drawn = f64::from(bench.work().random.next() % i32::MAX) / f64::from(i32::MAX);
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

/// `math.randomseed`.
pub(super) fn seed(_: &Lua, bench: &Bench, seed: f64) {
    #[allow(clippy::cast_possible_truncation, reason = "a seed is cut to its lower half")]
    let seed = seed as i64 as i32;
    bench.work().random = Random::seeded(seed);
}
