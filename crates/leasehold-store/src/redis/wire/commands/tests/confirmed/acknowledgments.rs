//! Tests of acknowledgments on more than one connection.

use super::*;

#[test]
fn an_acknowledgment_counts_for_the_calls_of_its_own_connection_alone() {
    let (mut driver, id) = driver(Confirm::AtLeast(1));
    driver.says(id, ":1\r\n:1\r\n");
    driver.outcomes();
    driver.taken(id);
    // The second call of a group is refused, and no replica has acknowledged the first one yet.
    driver.set(1, LONG);
    driver.set(2, LONG);
    let refused = driver.set(3, LONG);
    driver.says(id, ":1\r\n:1\r\n");
    driver.outcomes();
    assert_eq!(driver.commands(id)[2..], ["EVAL 2 k k 11 1 0 2 3", "WAIT 1 500"]);
    driver.says(id, "*2\r\n:1\r\n-READONLY You can't write against a read only replica.\r\n");
    assert_eq!(driver.outcomes(), [(refused, Err((Kind::ReadOnly, Applied::No)))]);
    // The next call goes over the next connection, and runs.
    let late = driver.set(4, LONG);
    let next = driver.accept();
    driver.says(next, "+PONG\r\n:1\r\n".split_at(7).0);
    assert_eq!(driver.commands(next)[1..], ["EVAL 1 k 4", "WAIT 1 500"]);
    driver.says(next, ":1\r\n");
    driver.says(id, ":1\r\n");
    let confirmed: Vec<u64> = driver.outcomes().into_iter().map(|(id, _)| id).collect();
    assert_eq!(confirmed, [refused - 1], "the answer is about its own connection");
    driver.says(next, ":1\r\n");
    assert_eq!(driver.outcomes(), [(late, Ok(Reply::Int(1)))]);
}
