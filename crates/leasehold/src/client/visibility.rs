//! What operators can see of a client: its name, labels and connection names.

use leasehold_proto::ClientId;
use leasehold_proto::operate::{Audience, Card, check_labels};
use leasehold_store::tokio_runtime::TokioRuntime;

use crate::runtime::identity::Identity;

/// The longest name of a client, in bytes. Servers repeat it in `CLIENT LIST` and in each card.
pub(super) const CLIENT_NAME_MAX: usize = 128;
/// The name and version of the library, as cards show it.
const LIBRARY: &str = concat!("leasehold ", env!("CARGO_PKG_VERSION"));
/// The bytes that a connection's name needs for the client's id, which has 36, and a separator.
#[cfg(feature = "redis")]
const ID_BYTES: usize = 37;

/// The settings of what operators see.
#[derive(Clone, Debug)]
pub(crate) struct Visibility {
    pub(crate) is_on: bool,
    pub(crate) labels: Vec<(String, String)>,
}

impl Default for Visibility {
    fn default() -> Self {
        Self { is_on: true, labels: Vec::new() }
    }
}

impl Visibility {
    /// Returns true if a card cannot have the labels.
    pub(super) fn are_labels_wrong(&self) -> bool {
        check_labels(&self.labels).is_err()
    }

    /// Returns who a client says that it is, unless it stays unseen.
    #[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "only a server has operators"))]
    pub(super) fn identity(
        &self,
        client: ClientId,
        name: Option<&str>,
        audience: Audience,
    ) -> Option<Identity> {
        if !self.is_on {
            return None;
        }
        let program = program();
        let name = name.unwrap_or(&program);
        let (host, pid) = process();
        let card = Card::new(client, name, (&*host, pid), (&program, LIBRARY)).labelled(&self.labels);
        Some(Identity { card, audience })
    }
}

#[cfg(feature = "redis")]
impl Identity {
    /// Returns the name of the client's connections in `CLIENT LIST`: 1 to 128 bytes of printable ASCII.
    pub(super) fn connection_name(&self) -> String {
        let of = |letter: char| if letter.is_ascii_graphic() { letter } else { '_' };
        let name: String = self.card.name.chars().take(CLIENT_NAME_MAX - ID_BYTES).map(of).collect();
        format!("{name}@{}", self.card.client)
    }
}

/// Returns this machine and process.
pub(super) fn process() -> (String, u32) {
    (TokioRuntime.host(), std::process::id())
}

/// Returns the name of the program.
fn program() -> String {
    let path = std::env::current_exe().ok();
    let name = path.as_deref().and_then(std::path::Path::file_name);
    name.map_or_else(|| "unknown".to_owned(), |name| name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "redis")]
    #[test]
    fn a_connection_has_the_name_and_the_id_of_its_client_in_128_bytes() {
        let client = ClientId::from_random([7; 16]);
        let named = |name: &str| {
            let identity = Visibility::default().identity(client, Some(name), Audience::new("", 0));
            identity.unwrap().connection_name()
        };
        assert_eq!(named("orders"), format!("orders@{client}"));
        let long = named(&"x".repeat(CLIENT_NAME_MAX));
        assert!(long.len() == CLIENT_NAME_MAX && long.ends_with(&format!("@{client}")));
        assert_eq!(named("two words"), format!("two_words@{client}"));
    }

    #[test]
    fn a_client_is_seen_by_program_and_host_unless_it_wants_not_to_be() {
        let client = ClientId::from_random([7; 16]);
        let card = Visibility::default().identity(client, None, Audience::new("", 0)).unwrap().card;
        assert_eq!((card.pid, &*card.library), (std::process::id(), LIBRARY));
        assert!(!card.host.is_empty() && card.name == card.program && !card.name.is_empty());
        let hidden = Visibility { is_on: false, ..Visibility::default() };
        assert!(hidden.identity(client, None, Audience::new("", 0)).is_none());
    }
}
