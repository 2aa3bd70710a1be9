//! What the compiler says: nothing to what is right, and what to write instead to what is wrong.
//!
//! What is said in `fail` are our words. In `fail_by_rustc` the compiler finds the mistake, and only where it points is
//! ours; its words change with its versions. `TRYBUILD=overwrite cargo test -p leasehold-macros --test ui` writes down what
//! is said now.

#[test]
fn what_is_right_compiles_and_what_is_wrong_is_told_what_to_write() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/ui/pass/*.rs");
    cases.compile_fail("tests/ui/fail/*.rs");
    cases.compile_fail("tests/ui/fail_by_rustc/*.rs");
    if cfg!(feature = "blocking") {
        cases.compile_fail("tests/ui/fail_with_blocking/*.rs");
    }
}
