//! `leasehold acl`: prints the smallest rights of a server's user. It opens no connection.

use std::io::{self, Write};

use leasehold_proto::recipe::grants::{
    Names, PRIMITIVES, Place, Primitive, rules, rules_of_confirmed, rules_on_sentinels,
};

use crate::arguments::Acl;

/// The beginning of each line: a user with this one password, and nothing left of an earlier user of that name.
const USER: &str = "ACL SETUSER leasehold reset on >PASSWORD";

/// Runs the verb and returns the exit code.
pub(crate) fn run(arguments: &Acl) -> u8 {
    // A reader that closes its end early is no error.
    let _ = io::stdout().write_all(lines(arguments).as_bytes());
    0
}

fn lines(arguments: &Acl) -> String {
    let names = if arguments.prefix.is_empty() { vec![Names::all()] } else { arguments.prefix.clone() };
    let primitives: Vec<&Primitive> = match arguments.primitives.as_slice() {
        [] => PRIMITIVES.iter().collect(),
        chosen => chosen.to_vec(),
    };
    let place = match (arguments.cluster, arguments.sentinel) {
        (true, _) => Place::Cluster,
        (_, true) => Place::BehindSentinels,
        _ => Place::Standalone,
    };
    let select = if arguments.select { " +select" } else { "" };
    let confirmed = match arguments.confirmed {
        true => format!(" {}", rules_of_confirmed()),
        false => String::new(),
    };
    let line = format!("{USER} {}{select}{confirmed}\n", rules(place, &names, &primitives));
    if !arguments.sentinel {
        return line;
    }
    format!("# on the master and its replicas\n{line}# on the sentinels\n{USER} {}\n", rules_on_sentinels())
}
