#![no_main]
//! Hands what libFuzzer makes to [`leasehold_fuzz::commands`].

libfuzzer_sys::fuzz_target!(|data: &[u8]| leasehold_fuzz::commands(data));
