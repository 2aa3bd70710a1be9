//! The supervision of the command from its start to its end: signals, the terminal, stops, and the loss of the lock.
//!
//! # How it works
//! One loop waits for the first of these events: the loss of the lock, a change of the command's first process, a
//! signal to the wrapper, the end of the grace. A loss wins over every other event of the same time. After a loss the
//! whole group must end, also when its first process has ended before the rest of it.
//!
//! A stopped wrapper cannot renew. It therefore stops only where the operator wants it to, when the command was
//! suspended from the terminal and there is a shell that can continue both. After that, the command goes on only if the
//! lock is still held. When another program stops the wrapper, the watcher ends the command at the deadline, in the
//! same way.
//!
//! Invariant: the command neither starts nor goes on after a stop unless the lock is held (or `--on-lost ignore`). The
//! one exception is the loss itself, after which `--on-lost term` continues a stopped command, so that it receives its
//! SIGTERM.

use std::future::{Future, pending};
use std::io;
use std::pin::pin;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::getpid;

use crate::child::{Change, Child, Ending};
use crate::clock::{Instant, after, now, reached};
use crate::deadline::Deadline;
use crate::duration;
use crate::exit;
use crate::on_lost::OnLost;
use crate::report::Report;
use crate::signals::Signals;
use crate::terminal::{Terminal, under_job_control};

/// The interval at which the supervisor checks whether a group without its first process is gone, since the system
/// reports no such event.
const CHECK_EVERY: Duration = Duration::from_millis(20);

/// The time that killed processes have at least to be gone.
const DEATH_MIN: Duration = Duration::from_secs(1);

/// The reason that the supervisor reports when the watcher ended the command.
const STOPPED_PAST_DEADLINE: &str = "this program was frozen until the deadline";

/// The part of the lock that the supervisor uses: a guard, or a substitute in tests.
pub(crate) trait Hold {
    /// Returns true if the lock is held at this instant.
    fn is_held(&self) -> bool;
    /// Returns the time for which it stays held without a renewal.
    fn remaining(&self) -> Duration;
    /// Resolves when the lock is lost, with the reason in words.
    fn lost(&self) -> impl Future<Output = String>;
    /// Resolves when the command should end although the lock is held, with the reason in words.
    fn asked(&self) -> impl Future<Output = String> {
        pending()
    }
}

/// The result of a supervision.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finished {
    pub(crate) ending: Ending,
    pub(crate) lost: bool,
}

/// The state of the loop.
#[derive(Debug)]
pub(crate) struct Supervisor<'a, H> {
    pub(crate) child: Child,
    pub(crate) hold: &'a H,
    pub(crate) signals: &'a mut Signals,
    pub(crate) terminal: Terminal,
    pub(crate) deadline: Deadline,
    pub(crate) on_lost: OnLost,
    pub(crate) grace: Duration,
    pub(crate) report: Report,
}

impl<H: Hold> Supervisor<'_, H> {
    /// Lets the command begin, returns when it has ended, and then dismisses the watcher.
    pub(crate) async fn run(mut self) -> io::Result<Finished> {
        let finished = self.watched().await?;
        self.deadline.dismiss();
        Ok(finished)
    }

    async fn watched(&mut self) -> io::Result<Finished> {
        if !self.hold.is_held() {
            return self.never_started().await;
        }
        self.terminal.give(self.child.group());
        self.child.go();
        let (hold, acted) = (self.hold, self.deadline.acted());
        let mut loss = pin!(async move {
            tokio::select! {
                biased;
                reason = hold.lost() => reason,
                () = acted => STOPPED_PAST_DEADLINE.to_owned(),
            }
        });
        let mut request = pin!(hold.asked());
        let (mut lost, mut asked, mut killed) = (false, false, false);
        let mut kill_at = None;
        let ending = loop {
            tokio::select! {
                biased;
                reason = &mut loss, if !lost => {
                    lost = true;
                    kill_at = self.lose(&reason);
                }
                reason = &mut request, if !lost && !asked => {
                    asked = true;
                    kill_at = Some(self.ask(&reason));
                }
                change = self.child.change() => match change? {
                    Change::Ended(ending) => {
                        // The watcher's signal may have ended the command before the deadline thread reports it.
                        if !lost && self.deadline.has_acted() {
                            lost = true;
                            kill_at = self.lose(STOPPED_PAST_DEADLINE);
                        }
                        break ending;
                    }
                    Change::Stopped(signal) => self.stopped(signal),
                },
                signal = self.signals.next() => self.forward(signal),
                () = reached(kill_at) => {
                    self.kill_after_grace();
                    (kill_at, killed) = (None, true);
                }
            }
        };
        self.terminal.take_back();
        if killed || kill_at.is_some() {
            self.drain(kill_at).await;
        }
        Ok(Finished { ending, lost })
    }

    /// Ends a command whose lock was lost during its preparation. No instruction of it has run, and none will,
    /// regardless of `--on-lost`, so the exit code is not the code of a killed command either.
    async fn never_started(&mut self) -> io::Result<Finished> {
        self.send(Signal::SIGKILL);
        let message = "the lock was lost before the command was started; it was not run";
        self.report.warn(format_args!("{message}"));
        loop {
            if let Change::Ended(_) = self.child.change().await? {
                return Ok(Finished { ending: Ending::Code(exit::LOST), lost: true });
            }
        }
    }

    /// Acts on the loss, and then reports it. Returns the end of the grace.
    fn lose(&self, reason: &str) -> Option<Instant> {
        let (consequence, kill_at) = match self.on_lost {
            OnLost::Term => {
                let grace = self.deadline.lose().unwrap_or_else(|| {
                    self.send(Signal::SIGTERM);
                    // A stopped process receives it only when it goes on.
                    self.child.go();
                    self.grace
                });
                let left = duration::shown(grace);
                (format!("got SIGTERM and gets SIGKILL in {left}"), Some(after(grace)))
            }
            OnLost::Kill => {
                self.send(Signal::SIGKILL);
                ("is killed".to_owned(), None)
            }
            OnLost::Ignore => ("continues without it".to_owned(), None),
        };
        self.report.warn(format_args!("the lock was lost: {reason}; the command {consequence}"));
        kill_at
    }

    /// Asks the command to end while the lock is held. Returns the end of the grace.
    fn ask(&self, reason: &str) -> Instant {
        self.send(Signal::SIGTERM);
        // A stopped process receives it only when it goes on.
        self.child.go();
        let left = duration::shown(self.grace);
        self.report.verbose(format_args!("{reason}; the command got SIGTERM and gets SIGKILL in {left}"));
        after(self.grace)
    }

    /// Sends a signal to the whole group, and reports a forbidden signal, as when the command runs as another user.
    fn send(&self, signal: Signal) {
        if let Err(error) = self.child.signal(signal) {
            self.report.warn(format_args!("{signal} cannot be sent to the command: {error}"));
        }
    }

    fn forward(&mut self, signal: Signal) {
        if signal == Signal::SIGCONT {
            self.resume();
        } else {
            self.send(signal);
            self.report.verbose(format_args!("{signal} forwarded to the command"));
        }
    }

    /// Handles a stop of the command, in three cases: the command wants the terminal, the operator wants both of us
    /// stopped, or the stop does not concern the wrapper.
    fn stopped(&mut self, signal: i32) {
        let wants_terminal = [Signal::SIGTTIN, Signal::SIGTTOU].iter().any(|&s| s as i32 == signal);
        if wants_terminal && self.terminal.give_on_request(self.child.group()) {
            return self.go_on();
        }
        let from_terminal = wants_terminal || signal == Signal::SIGTSTP as i32 || self.terminal.is_given();
        if !self.terminal.exists() || !from_terminal {
            return;
        }
        if under_job_control() {
            self.suspend();
        } else if !wants_terminal {
            // A stop would be final, because no process could continue the wrapper.
            self.go_on();
        }
    }

    /// Gives the terminal back to the shell and stops. SIGCONT leads to [`resume`](Self::resume).
    fn suspend(&mut self) {
        self.terminal.take_back();
        let left = duration::shown(self.hold.remaining());
        self.report.warn(format_args!(
            "suspended; nothing renews the lock meanwhile, so in {left} it is lost and the command ends"
        ));
        self.deadline.suspend();
        let _ = kill(getpid(), Signal::SIGSTOP);
    }

    /// Resumes the wrapper and the command, with the terminal if the wrapper has it to give.
    fn resume(&mut self) {
        self.deadline.resume();
        self.terminal.give(self.child.group());
        self.go_on();
    }

    /// Continues a stopped command if the lock is held at this instant. After a loss, also a loss that the loop has not
    /// seen yet, [`lose`](Self::lose) decides about the command.
    fn go_on(&self) {
        if self.hold.is_held() || self.on_lost == OnLost::Ignore {
            self.child.go();
        }
    }

    fn kill_after_grace(&self) {
        self.send(Signal::SIGKILL);
        self.report.warn(format_args!("the grace period is over; the command is killed"));
    }

    /// Waits until the rest of the group has ended too, and kills it when the grace is over, unless it is killed already. The
    /// lock is released after that. A process that the kernel holds on a device may take its time to die, and gets as much
    /// time as the grace.
    async fn drain(&mut self, mut kill_at: Option<Instant>) {
        let mut give_up_at = kill_at.is_none().then(|| after(self.grace.max(DEATH_MIN)));
        while self.child.group_is_alive() {
            if kill_at.is_some_and(|at| now() >= at) {
                self.kill_after_grace();
                (kill_at, give_up_at) = (None, Some(after(self.grace.max(DEATH_MIN))));
            }
            if give_up_at.is_some_and(|at| now() >= at) {
                let message = "a process of the command does not die; the lock is released beside it";
                return self.report.warn(format_args!("{message}"));
            }
            tokio::select! {
                signal = self.signals.next() => self.send(signal),
                () = reached(Some(after(CHECK_EVERY))) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::fs;
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    use tokio::runtime;
    use tokio::sync::Notify;

    use super::*;

    /// A lock that the test can lose.
    struct FakeHold {
        held: Cell<bool>,
        gone: Notify,
    }

    impl Hold for FakeHold {
        fn is_held(&self) -> bool {
            self.held.get()
        }

        fn remaining(&self) -> Duration {
            Duration::from_secs(30)
        }

        async fn lost(&self) -> String {
            self.gone.notified().await;
            "the test took it".to_owned()
        }
    }

    impl FakeHold {
        fn held() -> Self {
            Self { held: Cell::new(true), gone: Notify::new() }
        }

        fn lose(&self) {
            self.held.set(false);
            self.gone.notify_one();
        }
    }

    /// Starts a shell script as [`crate::exec`] does. Unit tests cannot use `exec`, because they are not this program.
    async fn started(script: &str) -> Child {
        let mut starter = Command::new("sh");
        starter.args(["-c", "kill -STOP $$; exec sh -c \"$1\"", "sh", script]);
        Child::start(starter.process_group(0).stdin(Stdio::null())).await.unwrap()
    }

    fn supervisor<'a>(
        child: Child,
        hold: &'a FakeHold,
        signals: &'a mut Signals,
        on_lost: OnLost,
    ) -> Supervisor<'a, FakeHold> {
        let (terminal, grace) = (Terminal::none(), Duration::from_millis(100));
        let deadline = Deadline::none();
        Supervisor { child, hold, signals, terminal, deadline, on_lost, grace, report: Report::new(false) }
    }

    fn block_on<T>(work: impl Future<Output = T>) -> T {
        runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
    }

    /// Runs a script that signals READY, and then loses the lock. The script may wait for GONE.
    fn lose_while_running(script: &str, on_lost: OnLost) -> Finished {
        let folder = tempfile::tempdir().unwrap();
        let ready = folder.path().join("ready");
        let gone = folder.path().join("gone");
        let script = script.replace("READY", &format!("touch {}", ready.display()));
        let script =
            script.replace("GONE", &format!("while [ ! -e {} ]; do sleep 0.01; done", gone.display()));
        let (hold, mut signals) = (FakeHold::held(), Signals::none());
        block_on(async {
            let child = started(&script).await;
            let finished = supervisor(child, &hold, &mut signals, on_lost).run();
            let loser = async {
                while !ready.exists() {
                    tokio::task::yield_now().await;
                }
                hold.lose();
                // The script sees the file only after the supervisor, which is polled first, has seen the loss.
                tokio::task::yield_now().await;
                fs::write(&gone, "").unwrap();
            };
            tokio::join!(finished, loser).0.unwrap()
        })
    }

    /// Returns the letter that the kernel gives to the state of the process.
    fn state(child: &Child) -> char {
        let stat = fs::read_to_string(format!("/proc/{}/stat", child.group())).unwrap();
        stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
    }

    #[test]
    fn the_exit_code_of_the_command_is_returned() {
        let (hold, mut signals) = (FakeHold::held(), Signals::none());
        let finished = block_on(async {
            let child = started("exit 7").await;
            supervisor(child, &hold, &mut signals, OnLost::Term).run().await.unwrap()
        });
        assert_eq!(finished, Finished { ending: Ending::Code(7), lost: false });
    }

    #[test]
    fn a_lost_lock_ends_the_command_as_configured() {
        let patient = "READY; while :; do sleep 0.01; done";
        let stubborn = "trap '' TERM; READY; while :; do sleep 0.01; done";
        let (term, kill) = (Ending::Signal(15), Ending::Signal(9));
        let of = |script, on_lost| lose_while_running(script, on_lost);
        assert_eq!(of(patient, OnLost::Term), Finished { ending: term, lost: true });
        assert_eq!(of(stubborn, OnLost::Term), Finished { ending: kill, lost: true });
        assert_eq!(of(patient, OnLost::Kill), Finished { ending: kill, lost: true });
        let own = of("READY; GONE; exit 3", OnLost::Ignore);
        assert_eq!(own, Finished { ending: Ending::Code(3), lost: true });
    }

    #[test]
    fn a_command_can_clean_up_during_the_grace_period() {
        let tidy = "trap 'exit 4' TERM; READY; while :; do sleep 0.01; done";
        assert_eq!(lose_while_running(tidy, OnLost::Term), Finished { ending: Ending::Code(4), lost: true });
    }

    #[test]
    fn remaining_processes_are_killed_after_the_grace_period_of_a_loss() {
        let (hold, mut signals) = (FakeHold::held(), Signals::none());
        let group = block_on(async {
            let child = started("trap '' TERM; sleep 1000 & trap - TERM; kill -STOP $$; wait").await;
            let group = child.group();
            child.go();
            let mut supervisor = supervisor(child, &hold, &mut signals, OnLost::Term);
            // The stop shows that the second process exists and ignores the signals.
            assert!(matches!(supervisor.child.change().await.unwrap(), Change::Stopped(_)));
            hold.lose();
            let finished = supervisor.run().await.unwrap();
            assert!(finished.lost);
            group
        });
        leasehold_testkit::wait::eventually(Duration::from_secs(10), "the end of the group", || {
            nix::sys::signal::killpg(group, None).is_err()
        });
    }

    #[test]
    fn a_lock_lost_before_the_start_prevents_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("trace");
        let (hold, mut signals) = (FakeHold::held(), Signals::none());
        hold.lose();
        let finished = block_on(async {
            let child = started(&format!("touch {}", trace.display())).await;
            supervisor(child, &hold, &mut signals, OnLost::Ignore).run().await.unwrap()
        });
        assert_eq!(finished, Finished { ending: Ending::Code(exit::LOST), lost: true });
        assert!(!trace.exists());
    }

    #[test]
    fn a_stopped_command_continues_only_while_the_lock_is_held() {
        let (hold, mut signals) = (FakeHold::held(), Signals::none());
        block_on(async {
            let child = started("kill -STOP $$").await;
            child.go();
            let mut supervisor = supervisor(child, &hold, &mut signals, OnLost::Term);
            assert!(matches!(supervisor.child.change().await.unwrap(), Change::Stopped(_)));
            hold.held.set(false);
            supervisor.forward(Signal::SIGCONT);
            assert_eq!(state(&supervisor.child), 'T');
            hold.held.set(true);
            supervisor.forward(Signal::SIGCONT);
            assert_eq!(supervisor.child.change().await.unwrap(), Change::Ended(Ending::Code(0)));
        });
    }
}
