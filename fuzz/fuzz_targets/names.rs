#![no_main]
//! Passes the input of libFuzzer to [`leasehold_fuzz::names`].

libfuzzer_sys::fuzz_target!(|data: &[u8]| leasehold_fuzz::names(data));
