//! Moves the bytes of the simulated network: dials, writes, reads and deliveries.
//!
//! Invariant: the server handles a request when its last byte has been read, and a segment that still travels when its
//! stream is cut is dropped on arrival.
//!
//! # How it works
//! Each direction of a stream is a queue of segments and a task that takes from it. The task waits until the head has
//! arrived and the other end can read.

use std::slice::Chunks;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::executor::{Home, spawn};
use super::net::{Net, State};
use super::stream::{Happened, Segment, Stream, StreamId, Way, Ways, What};
use super::windows::Impairment;

/// The bytes that a slow reader takes at once, and the bytes that wait for it at most.
const SIP: usize = 300;
const WAITING_MAX: usize = 700;
/// The time between two reads of a slow reader.
const SIP_EVERY: Duration = Duration::from_millis(1);
/// The most pieces of one write.
const PIECES_MAX: usize = 4;

impl Net {
    /// Dials the server for a process.
    pub(super) fn dial(&self, process: usize) -> StreamId {
        let mut state = self.state();
        let is_split = state.rng.u8(0..3) == 0;
        let id = state.add_stream(Stream::new(process, is_split));
        spawn(Home::World, self.clone().open(process, id));
        id
    }

    async fn open(self, process: usize, id: StreamId) {
        let there = self.travel_time(process);
        self.timeline.sleep(there).await;
        while let Some(through) = self.admitted_at(process, id) {
            if through <= self.timeline.now() {
                return self.finish_opening(process, id).await;
            }
            self.timeline.sleep_until(through).await;
        }
    }

    /// Returns the time at which the server's machine accepts a stream, or `None` if it refuses, or if the process has
    /// left.
    fn admitted_at(&self, process: usize, id: StreamId) -> Option<Duration> {
        let now = self.timeline.now();
        let through = self.windows.lets_through(process, Impairment::RepliesStall, now);
        let through = self.windows.lets_through(process, Impairment::RequestsStall, through);
        let mut state = self.state();
        let refused = self.windows.holds(process, Impairment::Refused) || now < state.outages.down_until;
        if refused || !state.streams.get(&id).is_some_and(Stream::is_open) {
            if state.streams.remove(&id).is_some_and(|stream| stream.is_open()) {
                state.tell(id, Happened::Refused);
            }
            return None;
        }
        Some(through)
    }

    async fn finish_opening(self, process: usize, id: StreamId) {
        self.accept(process, id);
        let back = self.travel_time(process);
        self.timeline.sleep(back).await;
        let mut state = self.state();
        if state.streams.get(&id).is_some_and(|stream| stream.is_open() && !stream.is_half) {
            state.tell(id, Happened::Connected);
        }
    }

    /// Begins a session. The server's machine does so even while the server is frozen.
    fn accept(&self, process: usize, id: StreamId) {
        let session = self.server.session(process, self.plan.wire.server_has_resp3);
        let (to_server, requests) = unbounded_channel();
        let (to_client, replies) = unbounded_channel();
        let ways = Ways { to_server, to_client, last_request: Duration::ZERO, last_reply: Duration::ZERO };
        if let Some(stream) = self.state().streams.get_mut(&id) {
            (stream.session, stream.ways) = (Some(session), Some(ways));
        }
        spawn(Home::World, self.clone().carry_requests(process, id, requests));
        spawn(Home::World, self.clone().carry_replies(process, id, replies));
    }

    /// Writes bytes to a stream, and returns the number of bytes that it took.
    pub(super) fn write(&self, id: StreamId, bytes: &[u8]) -> usize {
        let now = self.timeline.now();
        let mut state = self.state();
        // The process learns of the end by its inbox.
        let stream = state.streams.get_mut(&id).filter(|stream| stream.is_open());
        let Some(stream) = stream else { return bytes.len() };
        let trickles = self.windows.holds(stream.process, Impairment::Trickles);
        let room = if trickles { WAITING_MAX.saturating_sub(stream.unread) } else { usize::MAX };
        let count = bytes.len().min(room);
        if count > 0 {
            stream.unread += count;
            state.send(now, id, Way::ToServer, bytes[..count].to_vec());
        }
        count
    }

    /// Closes a stream from the process's end, by a reset.
    pub(super) fn hang_up(&self, id: StreamId) {
        let mut state = self.state();
        state.close_inbox(id);
        state.reset_stream(self.timeline.now(), id);
    }

    async fn carry_requests(self, process: usize, id: StreamId, mut requests: UnboundedReceiver<Segment>) {
        while let Some(Segment { arrives, what }) = requests.recv().await {
            self.timeline.sleep_until(arrives).await;
            let received = self.windows.lets_through(process, Impairment::RequestsStall, arrives);
            self.timeline.sleep_until(received).await;
            let What::Bytes(bytes) = what else { break };
            {
                let mut state = self.state();
                let Some(stream) = state.streams.get_mut(&id) else { return };
                if stream.is_half {
                    continue;
                }
                // A cut withdraws the bytes only before the server's machine has received them.
                if stream.was_cut_before(received) {
                    continue;
                }
            }
            self.thawed().await;
            for sip in self.sips(process, &bytes) {
                if sip.len() < bytes.len() {
                    self.timeline.sleep(SIP_EVERY).await;
                    self.thawed().await;
                }
                if !self.read(id, sip) {
                    return;
                }
            }
        }
        let mut state = self.state();
        if state.streams.get(&id).is_some_and(|stream| stream.is_half) {
            return;
        }
        state.end_session(id);
    }

    /// Waits until the server is not frozen.
    async fn thawed(&self) {
        loop {
            let thaws = self.state().outages.frozen_until;
            if thaws <= self.timeline.now() {
                return;
            }
            self.timeline.sleep_until(thaws).await;
        }
    }

    /// Cuts bytes as their reader takes them.
    fn sips<'a>(&self, process: usize, bytes: &'a [u8]) -> Chunks<'a, u8> {
        let trickles = self.windows.holds(process, Impairment::Trickles);
        bytes.chunks(if trickles { SIP } else { usize::MAX })
    }

    /// Lets the server read bytes, and execute the requests that they complete. Returns false if the session is gone.
    fn read(&self, id: StreamId, bytes: &[u8]) -> bool {
        let session = {
            let mut state = self.state();
            let session = state.streams.get_mut(&id).and_then(|stream| {
                stream.unread = stream.unread.saturating_sub(bytes.len());
                stream.session.take()
            });
            state.wake(id);
            session
        };
        let Some(mut session) = session else { return false };
        session.feed(bytes);
        while session.handle_next() {}
        let has_ended = session.has_ended();
        if let Some(stream) = self.state().streams.get_mut(&id) {
            stream.session = Some(session);
        }
        self.ship();
        for (process, command) in self.server.take_repeats() {
            self.repeat_later(process, command);
        }
        if has_ended {
            self.state().end_stream(self.timeline.now(), id);
        }
        !has_ended
    }

    /// Sends the outputs of all sessions.
    pub(super) fn ship(&self) {
        let now = self.timeline.now();
        let mut state = self.state();
        let mut outputs = Vec::new();
        for (id, stream) in &mut state.streams {
            if let Some(session) = &mut stream.session {
                outputs.extend(std::iter::from_fn(|| session.next_output()).map(|output| (*id, output)));
            }
        }
        for (id, output) in outputs {
            state.send(now, id, Way::ToClient, output);
        }
    }

    async fn carry_replies(self, process: usize, id: StreamId, mut replies: UnboundedReceiver<Segment>) {
        while let Some(Segment { arrives, what }) = replies.recv().await {
            self.timeline.sleep_until(arrives).await;
            let through = self.windows.lets_through(process, Impairment::RepliesStall, arrives);
            self.timeline.sleep_until(through).await;
            let bytes = match what {
                What::Bytes(bytes) => bytes,
                What::End => Vec::new(),
            };
            let ends = bytes.is_empty();
            for sip in self.sips(process, &bytes) {
                if sip.len() < bytes.len() {
                    self.timeline.sleep(SIP_EVERY).await;
                }
                self.deliver(id, Happened::Bytes(sip.to_vec()));
            }
            if ends {
                self.deliver(id, Happened::Closed);
                return;
            }
        }
    }

    /// Delivers to the process's end, if it is there.
    fn deliver(&self, id: StreamId, happened: Happened) {
        let mut state = self.state();
        let Some(stream) = state.streams.get_mut(&id) else { return };
        if stream.cut_at.is_some() || stream.is_half {
            return;
        }
        if matches!(happened, Happened::Closed) {
            stream.cut_at = Some(self.timeline.now());
        }
        state.tell(id, happened);
        state.forget(id);
    }

    fn travel_time(&self, process: usize) -> Duration {
        self.state().travel_time(process)
    }
}

impl State {
    /// Sends bytes one way, in pieces if the stream splits them. A torn stream ends within them.
    fn send(&mut self, now: Duration, id: StreamId, way: Way, mut bytes: Vec<u8>) {
        let Some(stream) = self.streams.get(&id) else { return };
        // The outputs for an end that is gone are lost.
        if stream.is_ending || stream.cut_at.is_some() {
            return;
        }
        let (process, is_split) = (stream.process, stream.is_split);
        let tears = self.windows.holds(process, Impairment::Torn) && self.rng.u8(0..4) == 0;
        if tears {
            bytes.truncate(self.rng.usize(0..bytes.len()));
        }
        let pieces = if is_split { self.rng.usize(1..=PIECES_MAX) } else { 1 };
        for piece in (1..=pieces).rev() {
            let length = if piece == 1 { bytes.len() } else { self.rng.usize(0..=bytes.len()) };
            let rest = bytes.split_off(length);
            if !bytes.is_empty() {
                self.put(now, id, way, What::Bytes(bytes));
            }
            bytes = rest;
        }
        if tears {
            self.end_stream(now, id);
        }
    }

    /// Puts a segment on a way, behind earlier segments.
    fn put(&mut self, now: Duration, id: StreamId, way: Way, what: What) {
        let Some(process) = self.streams.get(&id).map(|stream| stream.process) else { return };
        let takes = self.travel_time(process);
        let Some(ways) = self.streams.get_mut(&id).and_then(|stream| stream.ways.as_mut()) else { return };
        let (last, queue) = match way {
            Way::ToServer => (&mut ways.last_request, &ways.to_server),
            Way::ToClient => (&mut ways.last_reply, &ways.to_client),
        };
        *last = (now + takes).max(*last);
        // The send fails only if the task of this way has ended, with the session or with the world.
        let _ = queue.send(Segment { arrives: *last, what });
    }

    /// Ends a stream behind the bytes that are on their way.
    fn end_stream(&mut self, now: Duration, id: StreamId) {
        self.put(now, id, Way::ToServer, What::End);
        self.put(now, id, Way::ToClient, What::End);
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.is_ending = true;
        }
    }

    /// Cuts a stream at both ends.
    pub(super) fn break_stream(&mut self, now: Duration, id: StreamId) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        if stream.cut_at.is_none() {
            stream.cut_at = Some(now);
            self.tell(id, Happened::Closed);
        }
        self.withdraw(now, id);
    }

    /// Cuts a stream at the process's end. The server's end learns of it when the reset arrives.
    pub(super) fn reset_stream(&mut self, now: Duration, id: StreamId) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        if stream.cut_at.is_none() {
            stream.cut_at = Some(now);
            self.put(now, id, Way::ToServer, What::End);
        }
        self.forget(id);
    }

    /// Lets the server's end learn of a cut, behind the bytes that its machine has received.
    fn withdraw(&mut self, now: Duration, id: StreamId) {
        if let Some(ways) = self.streams.get_mut(&id).and_then(|stream| stream.ways.as_mut()) {
            let _ = ways.to_server.send(Segment { arrives: now, what: What::End });
        }
        self.forget(id);
    }

    /// Ends the session of a stream.
    pub(super) fn end_session(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.session = None;
            stream.has_no_session = true;
        }
        self.forget(id);
    }

    /// Forgets a stream that is gone at both ends.
    fn forget(&mut self, id: StreamId) {
        let gone =
            |stream: &Stream| stream.cut_at.is_some() && (stream.has_no_session || stream.ways.is_none());
        if self.streams.get(&id).is_some_and(gone) {
            self.streams.remove(&id);
        }
    }
}
