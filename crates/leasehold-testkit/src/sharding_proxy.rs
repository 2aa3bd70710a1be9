//! A proxy of the Redis protocol in front of several servers, as twemproxy or a managed service is.
//!
//! Invariant: a command goes to one server, and its reply is passed on before the next command is read.
//!
//! # How it works
//! One thread accepts, and one thread carries each connection with a connection of its own to each server. A connection
//! that subscribes ends, because such proxies know no subscriptions.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;

use leasehold_proto::Channel;

/// What the proxy does with a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routing {
    /// Sends it to the server of its first key, whatever the other keys are.
    FirstKey,
    /// Sends it to the first server, and refuses one with keys of several slots.
    RefusesSlots,
}

/// A proxy on a port of 127.0.0.1. Its threads end with the process.
#[derive(Debug)]
pub struct ShardingProxy {
    port: u16,
}

impl ShardingProxy {
    /// Starts a proxy in front of the servers on these ports.
    ///
    /// # Panics
    /// Panics if no port is free.
    #[must_use]
    #[track_caller]
    pub fn start(servers: &[u16], routing: Routing) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free for the proxy");
        let port = listener.local_addr().expect("a listener has an address").port();
        let servers = servers.to_vec();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let servers = servers.clone();
                // A connection that ends in the middle of a command has an error, which its client notices.
                thread::spawn(move || drop(carry(client, &servers, routing)));
            }
        });
        Self { port }
    }

    /// Returns the address: `redis://127.0.0.1:port`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

fn carry(client: TcpStream, servers: &[u16], routing: Routing) -> io::Result<()> {
    client.set_nodelay(true)?;
    let mut servers: Vec<_> = servers.iter().map(|port| connect(*port)).collect::<io::Result<_>>()?;
    let mut commands = BufReader::new(client);
    loop {
        let mut bytes = Vec::new();
        let words = read_command(&mut commands, &mut bytes)?;
        let name = words[0].to_ascii_uppercase();
        let reply = match name.as_str() {
            "SUBSCRIBE" | "SSUBSCRIBE" => return Ok(()),
            "EVAL" | "EVALSHA" => {
                let count: usize = words[2].parse().unwrap_or_default();
                let slots: Vec<u16> =
                    words[3..3 + count].iter().map(|key| Channel::new(key).slot()).collect();
                match routing {
                    Routing::RefusesSlots if slots.iter().any(|slot| *slot != slots[0]) => {
                        b"-CROSSSLOT Keys in request don't hash to the same slot\r\n".to_vec()
                    }
                    Routing::RefusesSlots => ask(&mut servers[0], &bytes)?,
                    Routing::FirstKey => {
                        let server = slots.first().map_or(0, |slot| usize::from(*slot)) % servers.len();
                        ask(&mut servers[server], &bytes)?
                    }
                }
            }
            _ => ask(&mut servers[0], &bytes)?,
        };
        commands.get_mut().write_all(&reply)?;
    }
}

fn connect(port: u16) -> io::Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_nodelay(true)?;
    Ok(BufReader::new(stream))
}

/// Reads a command, and adds its bytes.
fn read_command(from: &mut impl BufRead, bytes: &mut Vec<u8>) -> io::Result<Vec<String>> {
    let count = read_number(from, bytes)?;
    (0..count)
        .map(|_| {
            let length = read_number(from, bytes)?;
            Ok(String::from_utf8_lossy(&read_bulk(from, bytes, length)?).into_owned())
        })
        .collect()
}

/// Passes a command on, and returns its reply.
fn ask(server: &mut BufReader<TcpStream>, command: &[u8]) -> io::Result<Vec<u8>> {
    server.get_mut().write_all(command)?;
    let mut reply = Vec::new();
    // The items that are still to come.
    let mut items = 1;
    while items > 0 {
        items -= 1;
        let begin = reply.len();
        read_line(server, &mut reply)?;
        let number =
            || std::str::from_utf8(&reply[begin + 1..]).unwrap_or_default().trim().parse().unwrap_or(-1);
        match reply[begin] {
            b'$' | b'=' | b'!' => {
                let length: i64 = number();
                if let Ok(length) = usize::try_from(length) {
                    read_bulk(server, &mut reply, length)?;
                }
            }
            b'*' | b'~' | b'>' => items += number().max(0),
            b'%' => items += 2 * number().max(0),
            _ => {}
        }
    }
    Ok(reply)
}

fn read_line(from: &mut impl BufRead, bytes: &mut Vec<u8>) -> io::Result<()> {
    match from.read_until(b'\n', bytes)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

fn read_number(from: &mut impl BufRead, bytes: &mut Vec<u8>) -> io::Result<usize> {
    let begin = bytes.len();
    read_line(from, bytes)?;
    let number = std::str::from_utf8(&bytes[begin + 1..]).unwrap_or_default().trim().parse();
    number.map_err(|_| io::ErrorKind::InvalidData.into())
}

fn read_bulk(from: &mut impl Read, bytes: &mut Vec<u8>, length: usize) -> io::Result<Vec<u8>> {
    let mut bulk = vec![0; length + 2];
    from.read_exact(&mut bulk)?;
    bytes.extend_from_slice(&bulk);
    bulk.truncate(length);
    Ok(bulk)
}
