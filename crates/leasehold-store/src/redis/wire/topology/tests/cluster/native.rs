//! Tests of native commands whose slot is on its way to another node.

use leasehold_proto::engine::Subject;
use leasehold_proto::recipe::CallContext;
use leasehold_proto::recipe::plain::PLAIN;
use leasehold_proto::{CallArgs, ClientId, Lease, Name, WireOwner};

use super::*;

#[test]
fn asking_goes_before_a_native_command_and_before_the_script_behind_it() {
    let (mut driver, a, b) = live();
    let subject = Subject::new(&Name::new(LOW.trim_matches(['{', '}'])).unwrap(), &PLAIN);
    let context = CallContext { quiet: true, ..CallContext::default() };
    let owner = WireOwner::new(ClientId::from_random([7; 16]), 1);
    let args = CallArgs::new(&subject, owner, Lease::clamped(LONG)).count(0);
    let release = (PLAIN.release)(&CallArgs { context, ..args });
    let (slot, call) = (release.slot().unwrap(), driver.submit(release, LONG));
    let begins = |command: &String| command.split(' ').next().unwrap_or_default().to_owned();
    let commands = |driver: &mut Driver, id| driver.commands(id).iter().map(begins).collect::<Vec<_>>();
    assert_eq!(commands(&mut driver, a).last().unwrap(), "DELIFEQ");
    driver.says(a, format!("-ASK {slot} b:1\r\n"));
    assert_eq!(commands(&mut driver, b), ["ASKING", "DELIFEQ"]);
    driver.says(b, "+OK\r\n-ERR unknown command 'DELIFEQ'\r\n");
    assert_eq!(commands(&mut driver, b), ["ASKING", "DELEX"], "nodes of a rolling upgrade differ");
    driver.says(b, "+OK\r\n:0\r\n");
    assert_eq!(commands(&mut driver, b), ["ASKING", "EVAL"]);
    driver.says(b, "+OK\r\n:1\r\n");
    assert_eq!(driver.outcomes(), [ran(call)]);
}
