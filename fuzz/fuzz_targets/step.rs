#![no_main]
//! Hands what libFuzzer makes to [`leasehold_fuzz::step`].

libfuzzer_sys::fuzz_target!(|data: &[u8]| leasehold_fuzz::step(data));
