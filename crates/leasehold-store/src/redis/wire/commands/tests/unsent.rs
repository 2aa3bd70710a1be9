//! Tests of calls whose submitter takes them back before they are sent.

use super::*;

#[test]
fn a_call_that_was_not_sent_is_taken_back() {
    let mut driver = Driver::new(1);
    let (first, second) = (driver.set("v", LONG), driver.set("w", LONG));
    let error = driver.wire.withdraw(CallId(first)).unwrap();
    assert_eq!((error.kind, error.applied), (Kind::Unreachable, No));
    let said = r#"the server cannot be reached (the wait ended before a connection was made)"#;
    assert_eq!(error.reason().to_string(), said);
    assert!(driver.wire.withdraw(CallId(first)).is_none(), "it is not here any more");
    let id = driver.accept();
    driver.says(id, GREETING);
    assert_eq!(driver.commands(id).last().unwrap(), "EVAL 1 k w", "the other call alone is sent");
    assert!(driver.wire.withdraw(CallId(second)).is_none(), "it may run");
    driver.says(id, ":1\r\n");
    assert_eq!(driver.outcomes(), [(second, Ok(Reply::Int(1)))]);
    driver.hang_up(id);
    driver.set("x", LONG);
    driver.refuse();
    driver.outcomes();
    let late = driver.set("y", LONG);
    let error = driver.wire.withdraw(CallId(late)).unwrap();
    assert_eq!((error.kind, error.applied), (Kind::Unreachable, No));
}
