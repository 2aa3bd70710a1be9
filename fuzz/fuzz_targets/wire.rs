#![no_main]
//! Passes the input of libFuzzer to [`leasehold_fuzz::wire`].

libfuzzer_sys::fuzz_target!(|data: &[u8]| leasehold_fuzz::wire(data));
