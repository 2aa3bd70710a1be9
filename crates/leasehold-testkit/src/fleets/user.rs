//! The login of the clients under test, separate from the kit's own.

/// A user that every data node of a fleet knows. The nodes themselves use the default user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub name: String,
    /// The password, in letters and digits, because URLs contain it unescaped.
    pub password: String,
    /// The rules of ACL SETUSER, such as `~* &* +@all`.
    pub rules: String,
}

impl User {
    /// Returns a user with all rights.
    #[must_use]
    pub fn unlimited(name: &str, password: &str) -> Self {
        Self { name: name.into(), password: password.into(), rules: "~* &* +@all".into() }
    }

    /// Returns the arguments that give the user to a server.
    #[must_use]
    pub fn arguments(&self) -> Vec<String> {
        let mut words =
            vec!["--user".to_owned(), self.name.clone(), "on".into(), format!(">{}", self.password)];
        words.extend(self.rules.split_whitespace().map(str::to_owned));
        words
    }
}

/// Returns the arguments for the logins of a data node.
pub(super) fn login_arguments(password: Option<&str>, user: Option<&User>) -> Vec<String> {
    let mut words = Vec::new();
    if let Some(password) = password {
        words.extend(["--requirepass", password, "--masterauth", password].map(str::to_owned));
    }
    words.extend(user.into_iter().flat_map(User::arguments));
    words
}

/// Returns the part of a URL before the hosts: `user:password@`, or nothing.
pub(super) fn login_of_url(password: Option<&str>, user: Option<&User>) -> String {
    match (user, password) {
        (Some(user), _) => format!("{}:{}@", user.name, user.password),
        (None, Some(password)) => format!(":{password}@"),
        (None, None) => String::new(),
    }
}
