//! `leasehold acl`: prints the smallest rights of a server's user. It opens no connection.

use leasehold_proto::recipe::grants::{Names, Place, rules, rules_of_confirmed, rules_on_sentinels};

use crate::acl::chosen_or_all;
use crate::arguments::{Acl, Confirmation};
use crate::report::write_to_stdout;

/// The beginning of each line: a user with this one password, and nothing left of an earlier user of that name.
const USER: &str = "ACL SETUSER leasehold reset on >PASSWORD";

/// Runs the verb and returns the exit code.
pub(crate) fn run(arguments: &Acl) -> u8 {
    write_to_stdout(&lines(arguments));
    0
}

fn lines(arguments: &Acl) -> String {
    let names = if arguments.prefix.is_empty() { vec![Names::all()] } else { arguments.prefix.clone() };
    let primitives = chosen_or_all(&arguments.primitives);
    let place = match (arguments.cluster, arguments.sentinel) {
        (true, _) => Place::Cluster,
        (_, true) => Place::BehindSentinels,
        _ => Place::Standalone,
    };
    let select = if arguments.select { " +select" } else { "" };
    let Confirmation { confirmed, fsync } = arguments.confirmation;
    let confirmed = match rules_of_confirmed(confirmed, fsync) {
        "" => String::new(),
        rules => format!(" {rules}"),
    };
    let line = format!("{USER} {}{select}{confirmed}\n", rules(place, &names, &primitives));
    if !arguments.sentinel {
        return line;
    }
    format!("# on the master and its replicas\n{line}# on the sentinels\n{USER} {}\n", rules_on_sentinels())
}
