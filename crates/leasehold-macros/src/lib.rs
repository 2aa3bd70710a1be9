//! The attribute [`locked`], for a function whose body runs under a distributed lock.
//!
//! Invariant: the attribute decides nothing at run time, and generates calls of `leasehold`'s public methods. Users
//! import it as `leasehold::locked`.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod check;
mod expand;
mod function;
mod name;
mod nearest;
mod options;
mod problems;
mod spans;
mod value;

use proc_macro::TokenStream;

/// Runs a function's body under a lock: waits for the lock, renews it, cancels the body if it is lost, and releases
/// it.
///
/// The function is async. With the feature `blocking` it can be a plain function too. It returns a `Result` whose error
/// type converts from `leasehold::RunError`, which says that the body did not run, or that the lock was lost meanwhile.
///
/// | option | means | without it |
/// |---|---|---|
/// | `name = "order:{order_id}"` | the name, with values of arguments and of their fields, or an expression | required |
/// | `name = ["account:{from}", "account:{to}"]` | several locks, all or none, as a `MultiLock` | |
/// | `kind = fair` | `reentrant`, `fair`, `fenced`, `plain`, `read`, `write`, `semaphore(n)` | `reentrant` |
/// | `wait = "5s"` | the longest wait for the lock, where `"0s"` tries once | no limit |
/// | `lease = "10s"` | a fixed lease that nothing renews | the watchdog renews |
/// | `watchdog = "30s"` | the lease that the watchdog renews | the client's |
/// | `max_renewals = 360` | the highest number of renewals | no limit |
/// | `max_hold = "1h"` | the longest hold | no limit |
/// | `min_hold = "5m"` | the minimum hold time, even if the body ends earlier | none |
/// | `margin = "2s"` | the body is stopped this long before the lease ends | none |
/// | `replicas = Confirm::all(2)` | the replicas that must acknowledge the acquire and each renewal | the client's |
/// | `on_finish = detach` | leaves the lock to its lease when the body ends | `release` |
/// | `on_busy = skip` | the reaction to a wait without a grant: `error`, `skip`, `fallback(path)` | `error` |
/// | `on_lost = finish` | lets the body continue when the lock is lost, and returns its value | `cancel` |
/// | `client = self.locks` | the client | the installed client |
/// | `redlock = self.redlock` | a `Redlock`, in place of a client | |
/// | `fence = token` | the fencing token as a `u64` of the body, with `kind = fenced` | |
/// | `crate = ::locks` | the path of this library in the user's crate | `::leasehold` |
///
/// A duration is a text such as `"500ms"`, `"30s"` or `"1h30m"`, or an expression of type `Duration`. A lease is 3 ms
/// to 365 days. Values go into the name unchanged, so a separator inside a value can make two names equal. A name that
/// cannot be used at run time is an error of the call.
///
/// The page `docs/attribute.md` of the repository describes each option.
///
/// # Examples
/// ```
/// use leasehold::{Client, RunError, locked};
///
/// #[locked(name = "order:{order_id}", wait = "5s", client = client)]
/// async fn charge(client: &Client, order_id: u64) -> Result<u64, RunError> {
///     // ... no other call charges this order now ...
///     Ok(order_id)
/// }
/// ```
#[proc_macro_attribute]
pub fn locked(options: TokenStream, item: TokenStream) -> TokenStream {
    expand::locked(options.into(), item.into()).into()
}
