#![no_main]
//! Hands what libFuzzer makes to [`leasehold_fuzz::replies`].

libfuzzer_sys::fuzz_target!(|data: &[u8]| leasehold_fuzz::replies(data));
