#![no_main]
//! Hands what libFuzzer makes to [`leasehold_fuzz::urls`].

libfuzzer_sys::fuzz_target!(|data: &[u8]| leasehold_fuzz::urls(data));
