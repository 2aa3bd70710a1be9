//! A wire with an open connection, and the calls that are submitted next.
//!
//! Invariant: the inputs are fixed, and the buffers have room, so each run executes the same instructions.

use std::time::Duration;

use leasehold_proto::engine::Subject;
use leasehold_proto::recipe::reentrant::REENTRANT;
use leasehold_proto::{Call, CallArgs, ClientId, Lease, Moment, Name, WireOwner};
use leasehold_store::redis::ConnectOptions;
use leasehold_store::redis::wire::{CallId, ConnId, Input, Output, Wire};
use leasehold_store::url::ServerUrl;

/// The answers of a server to the first commands of a connection, in RESP2.
const GREETING: &[u8] = b"+PONG\r\n-ERR unknown command 'HELLO'\r\n:0\r\n:1\r\n";
/// The answer to an acquire of a free lock.
const FREE: &[u8] = b"$-1\r\n";
/// The answer to the question which server is behind the connection, and the number of questions after the first.
const RUN_ID: &[u8] = b"$2\r\nid\r\n";
const QUESTIONS: usize = 32;
const TIMEOUT: Duration = Duration::from_secs(3);
/// The rounds before the operation. They send the scripts, and bring the wire and the allocator their memory.
const WARM_UP_ROUNDS: usize = 20;

pub(crate) struct Scene {
    wire: Wire,
    now: Moment,
    outputs: Vec<Output>,
    connection: Option<ConnId>,
    calls: Vec<Call>,
    submitted: u64,
    /// The good replies since the warm-up, and the number that the operation must have.
    replies: usize,
    expected: usize,
    /// The answer to a batch of all calls but one.
    answers: Vec<u8>,
}

impl Scene {
    /// Creates a scene whose operation submits this number of calls.
    pub(crate) fn with_calls(calls: usize) -> Self {
        let url = ServerUrl::parse("redis://localhost").expect("a URL");
        // One command in flight suffices to let the next calls gather.
        let options = ConnectOptions::default().at_once(1);
        let answers = [format!("*{}\r\n", calls - 1).as_bytes(), &FREE.repeat(calls - 1)].concat();
        let mut scene = Self {
            wire: Wire::new(url, options, 7),
            now: Moment::from_millis(1_000_000),
            outputs: Vec::with_capacity(2 * calls + 16),
            connection: None,
            calls: Vec::with_capacity(calls),
            submitted: 0,
            replies: 0,
            expected: calls,
            answers,
        };
        scene.input(Input::Open);
        let id = scene.connection.expect("the wire dials");
        scene.input(Input::Connected(id));
        scene.input(Input::Bytes(id, GREETING));
        if calls > 1 {
            scene.prove();
        }
        for _ in 0..WARM_UP_ROUNDS {
            scene.calls.extend((0..calls).map(acquire));
            scene.submit();
            scene.says(FREE);
            if calls > 1 {
                scene.calls.push(acquire(0));
                scene.batch();
            }
        }
        scene.calls.extend((0..calls).map(acquire));
        scene.replies = 0;
        scene
    }

    /// Lets the connection learn that one server is behind it, so that calls on several names share a command.
    fn prove(&mut self) {
        self.calls.extend((0..3).map(acquire));
        (0..3).for_each(|_| self.submit());
        self.says(FREE);
        self.says(RUN_ID);
        self.says(&FREE.repeat(2));
        self.says(&RUN_ID.repeat(QUESTIONS));
    }

    /// Checks that each call has its reply.
    pub(crate) fn check(self) {
        assert_eq!((self.replies, self.calls.len()), (self.expected, 0), "replies, and calls that are left");
    }

    /// Submits the next call.
    pub(crate) fn submit(&mut self) {
        let call = self.calls.pop().expect("the scene has a call");
        self.submitted += 1;
        self.input(Input::Submit(CallId(self.submitted), call, TIMEOUT));
    }

    /// Submits one call and then the others, and answers the one and then the others.
    pub(crate) fn batch(&mut self) {
        while !self.calls.is_empty() {
            self.submit();
        }
        self.says(FREE);
        let answers = std::mem::take(&mut self.answers);
        self.says(&answers);
        self.answers = answers;
    }

    /// Brings bytes of the server.
    pub(crate) fn says(&mut self, bytes: &[u8]) {
        let id = self.connection.expect("the connection is open");
        self.input(Input::Bytes(id, bytes));
    }

    fn input(&mut self, input: Input<'_>) {
        let mut outputs = std::mem::take(&mut self.outputs);
        self.wire.step(self.now, input, &mut outputs);
        for output in outputs.drain(..) {
            match output {
                Output::Dial(id, ..) => self.connection = Some(id),
                Output::Write(id) => {
                    let count = self.wire.unwritten(id).len();
                    self.input(Input::Wrote(id, count));
                }
                Output::Opened(Ok(())) | Output::Serves(..) => {}
                Output::Reply(_, Ok(_)) => self.replies += 1,
                other => panic!("{other:?}"),
            }
        }
        self.outputs = outputs;
    }
}

fn acquire(number: usize) -> Call {
    let name = Name::new(&format!("lock:{number}")).expect("a name");
    let subject = Subject::new(&name, &REENTRANT);
    let owner = WireOwner::new(ClientId::from_random([1; 16]), 1_000 + number as u64);
    let lease = Lease::new(Duration::from_secs(30)).expect("a lease");
    (REENTRANT.acquire)(&CallArgs::new(&subject, owner, lease)).woken_by(&subject, owner)
}
