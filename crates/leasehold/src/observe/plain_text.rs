//! The warning of a password in plain text.

use std::fmt::Display;

/// Warns that a password travels to this server in plain text.
pub(crate) fn warn(server: &impl Display) {
    tracing::warn!(
        target: "leasehold",
        %server,
        "the password travels in plain text to a host outside of private networks; use a URL that begins with `rediss`"
    );
}

#[cfg(test)]
mod tests {
    use std::fmt::{Debug, Write};
    use std::sync::{Arc, Mutex};

    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Level, Metadata, Subscriber};

    use super::*;

    /// A subscriber that keeps each event as a line.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<String>>>);

    struct Line(String);

    impl Visit for Line {
        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            write!(self.0, " {field}={value:?}").expect("a text takes all");
        }
    }

    impl Subscriber for Lines {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, event: &Event<'_>) {
            assert_eq!(*event.metadata().level(), Level::WARN);
            let mut line = Line(event.metadata().target().to_owned());
            event.record(&mut line);
            self.0.lock().unwrap().push(line.0);
        }

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn the_warning_names_the_server_and_the_remedy() {
        let lines = Lines::default();
        tracing::subscriber::with_default(lines.clone(), || warn(&"redis.example.org:6379"));
        let lines = lines.0.lock().unwrap();
        let [line] = &lines[..] else { panic!("{lines:?}") };
        assert!(line.starts_with("leasehold ") && line.contains("server=redis.example.org:6379"), "{line}");
        assert!(line.contains("plain text") && line.contains("`rediss`"), "{line}");
    }
}
