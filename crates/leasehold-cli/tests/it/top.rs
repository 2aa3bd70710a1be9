//! `leasehold top` on a terminal.

use std::num::NonZeroU16;

use leasehold::Client;
use leasehold_testkit::servers::RedisServer;
use leasehold_testkit::wait::eventually;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::fixture::{LIMIT, leasehold};
use crate::pty::{CTRL_C, Session};

/// A lock that is held and waited for, for as long as the value lives.
struct Incident {
    server: RedisServer,
    _runtime: tokio::runtime::Runtime,
}

impl Incident {
    fn start() -> Self {
        let server = RedisServer::start();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        for name in ["orders", "billing"] {
            let (url, name) = (server.url(), name.to_owned());
            runtime.spawn(async move {
                let builder =
                    Client::builder().client_name(&name).watchdog(std::time::Duration::from_millis(900));
                let client = builder.connect(&url).await.unwrap();
                let _guard = client.lock("order:42").note("import of today").lock().await.unwrap();
                std::future::pending::<()>().await;
            });
        }
        Self { server, _runtime: runtime }
    }

    /// Starts the program in a terminal of 120 columns. The shell says the exit code at the end.
    fn top(&self, options: &str) -> Screen {
        let script = format!(
            "stty rows 24 cols 120; echo pid $$.; {} top --url {} {options}; echo code $?.",
            env!("CARGO_BIN_EXE_leasehold"),
            self.server.url()
        );
        let session = Session::start(&["sh", "-c", &script], &[("TERM", "xterm-256color")]);
        let [rows, columns] = [24, 120].map(|size| NonZeroU16::new(size).unwrap());
        Screen { session, screen: vt100::Parser::new(rows, columns, 0) }
    }
}

/// What the terminal shows.
struct Screen {
    session: Session,
    screen: vt100::Parser,
}

impl Screen {
    fn press(&mut self, keys: &str) {
        self.session.press(keys);
    }

    /// Waits until the text is on the screen.
    #[track_caller]
    fn until(&mut self, text: &str) -> String {
        self.until_shown(text, true)
    }

    #[track_caller]
    fn until_shown(&mut self, text: &str, is_there: bool) -> String {
        let mut shown = String::new();
        eventually(LIMIT, &format!("{text:?} on the screen: {is_there}"), || {
            self.screen.process(self.session.written().as_bytes());
            shown = self.screen.screen().contents();
            shown.contains(text) == is_there
        });
        shown
    }

    /// Returns true if the shell's screen is shown.
    fn is_restored(&self) -> bool {
        !self.screen.screen().alternate_screen() && !self.screen.screen().hide_cursor()
    }
}

#[test]
fn a_contended_lock_is_shown_with_its_report_and_the_keys_work() {
    let incident = Incident::start();
    let mut screen = incident.top("");
    // Once a client has renewed its hold, its name is known.
    let shown = screen.until("@");
    assert!(shown.contains("1 held, 1 waited for") && shown.contains("order:42"), "{shown}");
    screen.press("\r");
    let shown = screen.until("break it?");
    assert!(shown.contains("note: import of today"), "{shown}");
    screen.press("\u{1b}");
    screen.until_shown("break it?", false);
    screen.press("c");
    screen.until("CLIENT");
    screen.press("c/nothing");
    screen.until("filter: nothing");
    screen.press("\u{1b}");
    screen.until("order:42");
    screen.press("r");
    screen.until("read-only");
    screen.press("q");
    screen.until("code 0.");
    assert!(screen.is_restored());
}

#[test]
fn a_hold_is_released_after_its_name_was_typed() {
    let incident = Incident::start();
    let mut screen = incident.top("--allow-release");
    screen.until("@");
    let owner = || incident.server.cli(&["HKEYS", "order:42"]);
    let before = owner();
    screen.press("r");
    screen.until("Type the name");
    screen.press("order:42\r");
    eventually(LIMIT, "the next holder", || owner() != before);
    screen.press(CTRL_C);
    screen.until("code 0.");
}

#[test]
fn a_signal_leaves_the_terminal_as_it_was() {
    let incident = Incident::start();
    let mut screen = incident.top("");
    let shell = screen.session.until(".");
    let shell: i32 = shell.trim_end_matches('.').rsplit(' ').next().unwrap().parse().unwrap();
    screen.until("order:42");
    assert!(!screen.is_restored());
    let children = std::fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).unwrap();
    kill(Pid::from_raw(children.trim().parse().unwrap()), Signal::SIGTERM).unwrap();
    screen.until("code 0.");
    assert!(screen.is_restored());
}

#[test]
fn without_a_terminal_another_verb_is_named() {
    let server = RedisServer::start();
    let ended = leasehold().args(["top", "--url", &server.url()]).output().unwrap();
    assert_eq!(ended.status.code(), Some(64));
    assert!(String::from_utf8_lossy(&ended.stderr).contains("leasehold list"));
}
