//! The random numbers of scripts, which are the same in every run.
//!
//! Invariant: the sequence is that of redis-server, from its beginning for every script.

/// The generator of the C library's `lrand48`.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Default for Random {
    fn default() -> Self {
        Self::seeded(0)
    }
}

impl Random {
    pub(super) fn seeded(seed: i32) -> Self {
        Self((u64::from(seed.cast_unsigned()) << 16) + 0x330e)
    }

    pub(super) fn next(&mut self) -> i32 {
        self.0 = self.0.wrapping_mul(0x0005_deec_e66d).wrapping_add(0xb) & 0xffff_ffff_ffff;
        i32::try_from(self.0 >> 17).unwrap_or(i32::MAX)
    }
}
