//! `leasehold doctor`: examines the servers of a configuration.
//!
//! Invariant: a failed check is an outcome and no error. An error is a deployment that cannot be named.

use std::io::{self, Write};

use anyhow::Error;
use leasehold_proto::recipe::grants::{Names, PRIMITIVES};
use leasehold_store::redis::{ServerUrl, Tls};
use tokio::runtime;

use crate::acl;
use crate::address::Address;
use crate::arguments::Doctor;
use crate::doctor::checks;
use crate::doctor::gather::Target;
use crate::doctor::report::Examination;
use crate::exit::Failure;
use crate::report::{Report, cleaned};
use crate::settings;

/// Examines the servers, prints the findings and returns the exit code.
pub(crate) fn run(arguments: &Doctor) -> u8 {
    let report = Report::new(false);
    match examine(arguments) {
        Ok(examination) => {
            let text = if arguments.json { examination.json() } else { cleaned(&examination.text()) };
            // A reader that closes its end early is no error.
            let _ = io::stdout().write_all(text.as_bytes());
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
    let config = settings::servers(&arguments.config, arguments.url.as_ref())?;
    let mut tls = Tls::new();
    if let Some(file) = &arguments.ca_file {
        tls = tls.ca_file(file);
    }
    let names = acl::parse_prefix(&arguments.prefix).unwrap_or_else(|_| Names::all());
    let primitives = match arguments.primitives.as_slice() {
        [] => PRIMITIVES.iter().collect(),
        chosen => chosen.to_vec(),
    };
    let target = |text: &str| {
        let url: ServerUrl = text.parse().map_err(|error| Failure::usage(Error::new(error)))?;
        let secret: Address = text.parse().unwrap_or_else(|never| match never {});
        let (prefix, names) = (arguments.prefix.clone(), names.clone());
        Ok(Target::new((url, secret), (arguments.timeout, tls.clone()), (prefix, names), primitives.clone()))
    };
    config.expose_urls().map(target).collect()
}
