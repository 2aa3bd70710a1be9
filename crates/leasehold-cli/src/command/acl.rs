//! `leasehold acl`: prints the smallest rights of a server's user. It opens no connection.

use leasehold_proto::recipe::grants::{
    Names, Place, rules, rules_of_confirmed, rules_of_operator, rules_of_operator_on_sentinels,
    rules_on_sentinels,
};

use crate::acl::{chosen_or_all, rules_of_doctor};
use crate::arguments::{Acl, Confirmation};
use crate::report::write_to_stdout;

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
    let Confirmation { confirmed, fsync } = arguments.confirmation;
    let doctor = if arguments.doctor { rules_of_doctor(arguments.cluster) } else { "" };
    let select = if arguments.select { "+select" } else { "" };
    let mut line = match arguments.operator {
        true => rules_of_operator(place, &names, arguments.release),
        false => rules(place, &names, &primitives),
    };
    let native = arguments.native.as_ref().map(|command| format!("+{command}")).unwrap_or_default();
    let more = [native.as_str(), select, rules_of_confirmed(confirmed, fsync), doctor];
    for rule in more.iter().flat_map(|rules| rules.split_whitespace()) {
        if !line.split(' ').any(|known| known == rule) {
            line = format!("{line} {rule}");
        }
    }
    // A user with this one password, and nothing left of an earlier user of that name.
    let user = format!("ACL SETUSER {} reset on >PASSWORD", arguments.user);
    if !arguments.sentinel {
        return format!("{user} {line}\n");
    }
    let on_sentinels = match arguments.operator {
        true => rules_of_operator_on_sentinels(),
        false => rules_on_sentinels().to_owned(),
    };
    format!("# on the master and its replicas\n{user} {line}\n# on the sentinels\n{user} {on_sentinels}\n")
}
