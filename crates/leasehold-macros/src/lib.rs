//! The attribute [`locked`]: a function whose body runs under a distributed lock.
//!
//! Invariant: nothing is decided here at run time; what is written is calls of `leasehold`'s public methods.
//! Called by: the compiler; users take it from `leasehold::locked`.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod check;
mod expand;
mod function;
mod name;
mod nearest;
mod options;
mod problems;
mod value;

use proc_macro::TokenStream;

/// Runs a function's body under a lock: waits for it, renews it, stops the body when it is lost, and releases it.
///
/// The function is async, or with the feature `blocking` not; it returns a `Result` whose error can be made from
/// `leasehold::RunError`, which says that the body did not run, or that the lock was lost meanwhile.
///
/// | option | means | without it |
/// |---|---|---|
/// | `name = "order:{order_id}"` | the name, with values of arguments and of their fields; or an expression | required |
/// | `kind = fair` | `reentrant`, `fair`, `fenced`, `read`, `write`, `semaphore(n)` | `reentrant` |
/// | `wait = "5s"` | how long to wait for it; `"0s"` asks once | for ever |
/// | `lease = "10s"` | a fixed lease that nothing renews | the watchdog renews |
/// | `watchdog = "30s"` | the lease that the watchdog renews | the client's |
/// | `max_renewals = 360` | how often at most | no bound |
/// | `max_hold = "1h"` | for how long at most | no bound |
/// | `min_hold = "5m"` | for how long at least, even if the body ends before that | not at all |
/// | `on_finish = detach` | leave the lock to its lease when the body ends | `release` |
/// | `on_busy = skip` | what follows a wait in vain: `error`, `skip`, `fallback(path)` | `error` |
/// | `on_lost = finish` | let the body go on when the lock is lost, and return its value | `cancel` |
/// | `client = self.locks` | the client | the installed one |
/// | `fence = token` | the fencing token as a `u64` of the body, with `kind = fenced` | |
/// | `crate = ::locks` | the path of this library in the user's crate | `::leasehold` |
///
/// Durations are texts such as `"500ms"`, `"30s"`, `"1h30m"`, or expressions of type `Duration`. Values go into the name
/// as they are: a separator inside of one can make two names equal. A name that cannot be used at run time is the error
/// of the call.
///
/// `docs/attribute.md` in the repository says more about each of them.
///
/// # Examples
/// ```
/// use leasehold::{Client, RunError, locked};
///
/// #[locked(name = "order:{order_id}", wait = "5s", client = client)]
/// async fn charge(client: &Client, order_id: u64) -> Result<u64, RunError> {
///     // Nobody else charges this order meanwhile.
///     Ok(order_id)
/// }
/// ```
#[proc_macro_attribute]
pub fn locked(options: TokenStream, item: TokenStream) -> TokenStream {
    expand::locked(options.into(), item.into()).into()
}
