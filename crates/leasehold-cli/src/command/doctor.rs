//! `leasehold doctor`: examines the servers of a configuration.
//!
//! Invariant: a failed check is an outcome, not an error. The only error is a deployment that cannot be named.

use leasehold::config::Server;
use leasehold_proto::recipe::grants::Names;
use tokio::runtime;

use crate::acl;
use crate::arguments::{Confirmation, Doctor};
use crate::doctor::checks;
use crate::doctor::gather::{Access, Target};
use crate::doctor::report::Examination;
use crate::exit::Failure;
use crate::report::{Report, cleaned, write_to_stdout};
use crate::settings;

/// Examines the servers, prints the findings and returns the exit code.
pub(crate) fn run(arguments: &Doctor) -> u8 {
    let report = Report::new(false);
    match examine(arguments) {
        Ok(examination) => {
            let text = if arguments.json { examination.json() } else { cleaned(&examination.text()) };
            write_to_stdout(&text);
            examination.code()
        }
        Err(failure) => {
            report.warn(format_args!("{:#}", failure.reason));
            failure.code
        }
    }
}

fn examine(arguments: &Doctor) -> Result<Examination, Failure> {
    let targets = targets(arguments)?;
    let runtime = runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::system)?;
    let (mut urls, mut findings) = (Vec::new(), Vec::new());
    for target in targets {
        let fleet = runtime.block_on(target.examine());
        findings.extend(checks::all(&fleet));
        urls.push(fleet.url);
    }
    Ok(Examination::new(urls, findings))
}

/// Returns the deployments to examine: one, or the servers of a quorum.
fn targets(arguments: &Doctor) -> Result<Vec<Target>, Failure> {
    let config = settings::servers(&arguments.sources)?;
    let access = Access {
        login: config.credentials_file(),
        sentinel_login: config.sentinel_credentials_file(),
        tls: config.tls(),
        sentinel_tls: config.sentinel_tls(),
        timeout: arguments.timeout,
    };
    let prefix = arguments.prefix.as_deref().unwrap_or(config.key_prefix());
    let Confirmation { confirmed, fsync } = arguments.confirmation;
    let confirmation =
        Confirmation { confirmed: confirmed || config.is_confirmed(), fsync: fsync || config.fsync() };
    let names = acl::parse_prefix(prefix).unwrap_or_else(|_| Names::all());
    let primitives = acl::chosen_or_all(&arguments.primitives);
    let target = |server: &Server| {
        let Server::Redis(url) = server else { return None };
        let rights = (primitives.clone(), confirmation, arguments.operator.clone());
        Some(Target::new(url.clone(), access.clone(), (prefix.to_owned(), names.clone()), rights))
    };
    Ok(config.servers().iter().filter_map(target).collect())
}
