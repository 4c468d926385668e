//! Owns the wire: a connection that sends bytes exactly as a test has them, and a strict reader of
//! answers. It knows nothing of the HTTP library the program uses.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// No answer takes longer; over it a test fails instead of hanging.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// One answer, whole.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    /// The value of a header that is there once.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.iter().filter(|(other, _)| other == name);
        let (_, value) = values.next()?;
        assert!(values.next().is_none(), "{name} is there twice");
        Some(value)
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("answers are UTF-8")
    }

    /// The body as JSON; null if it is empty.
    pub fn json(&self) -> serde_json::Value {
        if self.body.is_empty() {
            return serde_json::Value::Null;
        }
        serde_json::from_slice(&self.body).expect("the answer is JSON")
    }

    /// The `code` of a problem document; nothing if the body is empty.
    pub fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_default().to_owned()
    }
}

/// Whether an answer has a body beside its headers.
#[derive(Clone, Copy, PartialEq)]
pub enum Body {
    /// As its length says.
    Follows,
    /// Never, whatever its length says: the answer to HEAD.
    Absent,
}

/// A raw connection.
pub struct Connection {
    stream: TcpStream,
    read: Vec<u8>,
}

impl Connection {
    /// Connects.
    pub fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the listener takes connections");
        stream.set_read_timeout(Some(ANSWER_MAX)).expect("a timeout can be set");
        stream.set_nodelay(true).expect("no delay can be set");
        Self { stream, read: Vec::new() }
    }

    /// Sends bytes; that the other side has closed already is seen when the answer is read.
    pub fn send(&mut self, bytes: &[u8]) {
        // An early refusal may close before all is sent; the answer says so.
        let _ = self.stream.write_all(bytes);
    }

    /// Says that nothing more will be sent.
    pub fn end_sending(&self) {
        // The other side may have closed already.
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// The next answer; `None` if the connection is closed without one.
    pub fn answer(&mut self) -> Option<Answer> {
        self.answer_with(Body::Follows)
    }

    /// The next answer to a method with answers that may have no body.
    pub fn answer_with(&mut self, body: Body) -> Option<Answer> {
        let head_ends = loop {
            if let Some(at) = find(&self.read, b"\r\n\r\n") {
                break at;
            }
            if !self.fill() {
                assert!(self.read.is_empty(), "closed within a head: {:?}", self.read);
                return None;
            }
        };
        let head = String::from_utf8(self.read[..head_ends].to_vec()).expect("a head is text");
        self.read.drain(..head_ends + 4);
        let (status, headers) = read_head(&head);
        let mut answer = Answer { status, headers, body: Vec::new() };
        assert_eq!(answer.header("transfer-encoding"), None, "answers have a length");
        let has_body = body == Body::Follows && answer.status >= 200;
        let length = answer.header("content-length").filter(|_| has_body);
        let length: usize = length.map_or(0, |length| length.parse().expect("a length"));
        while self.read.len() < length {
            assert!(self.fill(), "closed within a body");
        }
        answer.body = self.read.drain(..length).collect();
        Some(answer)
    }

    /// Sends a byte at a time, that far apart, until an answer begins or all is sent; whether one
    /// began.
    pub fn trickle(&mut self, bytes: &[u8], apart: Duration) -> bool {
        let timeout = self.stream.set_read_timeout(Some(apart));
        timeout.expect("a timeout can be set");
        let begun = bytes.iter().any(|byte| {
            self.send(&[*byte]);
            let mut first = [0];
            matches!(self.stream.peek(&mut first), Ok(count) if count > 0)
        });
        self.stream.set_read_timeout(Some(ANSWER_MAX)).expect("a timeout can be set");
        begun
    }

    /// Whether the other side closes without another byte; waits for it.
    pub fn is_closed(&mut self) -> bool {
        self.read.is_empty() && !self.fill() && self.read.is_empty()
    }

    /// Reads more; false at the end.
    fn fill(&mut self) -> bool {
        let mut bytes = [0; 16_384];
        match self.stream.read(&mut bytes) {
            Ok(0) => false,
            Ok(count) => {
                self.read.extend_from_slice(&bytes[..count]);
                true
            }
            Err(error) if error.kind() == ErrorKind::ConnectionReset => false,
            Err(error) => panic!("[time] no answer within {ANSWER_MAX:?}: {error}"),
        }
    }
}

fn read_head(head: &str) -> (u16, Vec<(String, String)>) {
    let mut lines = head.split("\r\n");
    let first = lines.next().unwrap_or_default();
    let status = first.strip_prefix("HTTP/1.1 ").or(first.strip_prefix("HTTP/1.0 "));
    let status =
        status.and_then(|rest| rest.get(..3)).expect("a status").parse().expect("a status");
    let header = |line: &str| {
        let (name, value) = line.split_once(':').expect("a header has a colon");
        (name.to_ascii_lowercase(), value.trim().to_owned())
    };
    (status, lines.map(header).collect())
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

/// A `POST` of JSON, as a plain sender writes it.
pub fn post_request(path: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: payfold\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}
