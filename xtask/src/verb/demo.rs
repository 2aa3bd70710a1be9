//! `cargo x demo`: two clients race for one lock, without any setup.
//!
//! Invariant: the demo needs nothing but cargo, unless `--server` is given. That server is private to the demo, listens
//! on loopback and stops when the demo returns.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::server::{self, Server};
use crate::shell::{cargo, run as run_command};

/// The time limit for a server to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// The line before a build, after which cargo shows its progress.
const BUILDING: &str = "building what is missing";
/// The default program. It runs long enough to show the second client waiting.
const WORK: &str = "echo \"  $LEASEHOLD_NAME is mine, as $LEASEHOLD_OWNER\"; sleep 2; echo '  done'";

/// Runs two clients in one process that race to charge one order. With `--server`, runs two programs and a server.
///
/// Arguments after `--server` are the program to run instead, as in `cargo x demo --server ./report.sh`.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    match arguments.split_first() {
        None => in_one_process(),
        Some((flag, program)) if flag == "--server" => with_a_server(program),
        Some((program, _)) => {
            bail!("programs exclude each other through a server: cargo x demo --server {program}")
        }
    }
}

/// Runs the two clients of `examples/demo` on an in-process server.
fn in_one_process() -> Result<()> {
    println!("{BUILDING}; the first build takes about a minute");
    run_command(&mut cargo(&["demo"])?)
}

/// Starts a private server, then two programs at once that need the lock `nightly-report`.
fn with_a_server(arguments: &[String]) -> Result<()> {
    let server = Private::start(&server::ensure_installed()?)?;
    println!("{BUILDING}; the first build takes a few minutes");
    run_command(&mut cargo(&["build", "-p", "leasehold-cli"])?)?;
    println!("two programs want the lock \"nightly-report\" at the same time:\n");
    let program = arguments.strip_prefix(&["--".to_owned()]).unwrap_or(arguments);
    let running = [server.locked(program)?, server.locked(program)?];
    // Both must end before a failure returns, because the return stops their server.
    let ended = running.map(|mut child| child.wait());
    for status in ended {
        let status = status.context("cannot wait for leasehold")?;
        ensure!(status.success(), "leasehold ended with {status}");
    }
    println!("\neach ran alone, and the lock is free again");
    Ok(())
}

/// A private server, stopped on drop.
struct Private {
    child: Child,
    port: u16,
}

impl Private {
    fn start(server: &Server) -> Result<Self> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let child = Command::new(server.path())
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {server}"))?;
        let started = Self { child, port };
        let deadline = Instant::now() + ANSWER_WITHIN;
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            if Instant::now() > deadline {
                bail!("{server} does not answer on port {port}");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(started)
    }

    /// Starts a program that runs under the lock.
    fn locked(&self, program: &[String]) -> Result<Child> {
        let default = ["sh", "-c", WORK].map(str::to_owned);
        let program = if program.is_empty() { &default[..] } else { program };
        // Cargo puts both programs into one directory, wherever the target directory is.
        let leasehold = std::env::current_exe()?.with_file_name("leasehold");
        Command::new(leasehold)
            .args(["run", "-v", "--url", &format!("redis://127.0.0.1:{}", self.port), "nightly-report", "--"])
            .args(program)
            // The variable configures the demo. The program would reject it as an unknown key.
            .env_remove(server::VARIABLE)
            .spawn()
            .context("cannot start leasehold")
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        // An error means that the server has ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
