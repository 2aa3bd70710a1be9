//! What the compiler says: nothing to what is right, and what to write instead to what is wrong.
//!
//! `TRYBUILD=overwrite cargo test -p leasehold-macros --test ui` writes down what it says now.

#[test]
fn what_is_right_compiles_and_what_is_wrong_is_told_what_to_write() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/ui/pass/*.rs");
    cases.compile_fail("tests/ui/fail/*.rs");
}
