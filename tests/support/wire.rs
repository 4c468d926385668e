//! Owns the wire: a connection that sends bytes exactly as a test has them, and a strict reader of
//! answers. It knows nothing of the HTTP library the program uses.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::time::Duration;

use serde_json::Value;

/// No answer takes longer; over it a test fails instead of hanging.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// One answer, whole.
#[derive(Clone)]
pub struct Answer {
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { status, headers, body } = self;
        write!(f, "{status} {headers:?} {:?}", String::from_utf8_lossy(body))
    }
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
    pub fn json(&self) -> Value {
        if self.body.is_empty() {
            return Value::Null;
        }
        serde_json::from_slice(&self.body).expect("the answer is JSON")
    }

    /// The `code` of a problem document; nothing if the body is empty.
    pub fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_default().to_owned()
    }

    /// The value of a metric, by its name with all its labels.
    pub fn metric(&self, sample: &str) -> Option<f64> {
        let text = self.text();
        let value = text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '))?;
        Some(value.parse().expect("a metric is a number"))
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
    pub fn open(address: impl ToSocketAddrs) -> Self {
        Self::try_open(address).expect("the listener takes connections")
    }

    /// Connects to what may not listen.
    pub fn try_open(address: impl ToSocketAddrs) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, read: Vec::new() })
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

    /// Sends a request; its answer.
    pub fn exchange(&mut self, request: &[u8]) -> Answer {
        self.send(request);
        self.answer().expect("an answer")
    }

    /// The same with a program that may be killed at any moment. An answer with first bytes that
    /// say 200 is a 200, even when the rest of it never came. Errors: there was no answer.
    pub fn try_exchange(&mut self, request: &[u8]) -> io::Result<Answer> {
        self.stream.write_all(request)?;
        self.try_answer(Body::Follows).or_else(|error| {
            let begun = std::mem::take(&mut self.read);
            let answer = Answer { status: 200, headers: Vec::new(), body: Vec::new() };
            begun.starts_with(b"HTTP/1.1 200 ").then_some(answer).ok_or(error)
        })
    }

    /// The next answer; `None` if the connection is closed without one.
    pub fn answer(&mut self) -> Option<Answer> {
        self.answer_with(Body::Follows)
    }

    /// The next answer to a method with answers that may have no body.
    pub fn answer_with(&mut self, body: Body) -> Option<Answer> {
        let answer = self.try_answer(body).map_err(|error| assert_closed(&error)).ok();
        assert!(answer.is_some() || self.read.is_empty(), "closed within {:?}", self.read);
        answer
    }

    /// The next answer. Errors: it does not come whole; `read` keeps what came of it.
    fn try_answer(&mut self, body: Body) -> io::Result<Answer> {
        let head_ends = loop {
            match find(&self.read, b"\r\n\r\n") {
                Some(at) => break at,
                None => self.fill()?,
            }
        };
        let head = std::str::from_utf8(&self.read[..head_ends]).expect("a head is text");
        let (status, headers) = read_head(head);
        let mut answer = Answer { status, headers, body: Vec::new() };
        assert_eq!(answer.header("transfer-encoding"), None, "answers have a length");
        let has_body = body == Body::Follows && answer.status >= 200;
        let length = answer.header("content-length").filter(|_| has_body);
        let length: usize = length.map_or(0, |length| length.parse().expect("a length"));
        let body_begins = head_ends + 4;
        while self.read.len() < body_begins + length {
            self.fill()?;
        }
        answer.body = self.read.drain(..body_begins + length).skip(body_begins).collect();
        Ok(answer)
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
        while self.read.is_empty() {
            if let Err(error) = self.fill() {
                assert_closed(&error);
                return true;
            }
        }
        false
    }

    /// Reads more. Errors: nothing more comes.
    fn fill(&mut self) -> io::Result<()> {
        let mut bytes = [0; 16_384];
        match self.stream.read(&mut bytes) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => self.read.extend_from_slice(&bytes[..count]),
            Err(error) => match error.kind() {
                // A read with a time limit is not begun again by the kernel.
                ErrorKind::Interrupted => {}
                ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                    let late = format!("[time] no answer within {ANSWER_MAX:?}");
                    return Err(io::Error::new(ErrorKind::TimedOut, late));
                }
                _ => return Err(error),
            },
        }
        Ok(())
    }
}

/// Asserts that nothing more comes because the other side has closed.
fn assert_closed(error: &io::Error) {
    let closed = [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset];
    assert!(closed.contains(&error.kind()), "{error}");
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

/// Where these bytes begin.
pub fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

/// A request as a plain sender writes it: method and path, more headers as whole lines with their
/// ends, and JSON.
pub fn request(first: &str, headers: &str, json: Option<&[u8]>) -> Vec<u8> {
    let of_json = json.map_or_else(String::new, |json| {
        format!("content-type: application/json\r\ncontent-length: {}\r\n", json.len())
    });
    let head = format!("{first} HTTP/1.1\r\nhost: payfold\r\n{headers}{of_json}\r\n");
    [head.as_bytes(), json.unwrap_or_default()].concat()
}

/// A `GET`.
pub fn get_request(path: &str) -> Vec<u8> {
    request(&format!("GET {path}"), "", None)
}

/// A `POST` of JSON.
pub fn post_request(path: &str, body: &[u8]) -> Vec<u8> {
    request(&format!("POST {path}"), "", Some(body))
}

/// A notice, on the route that partners share.
pub fn notice_request(body: &[u8]) -> Vec<u8> {
    post_request("/api/payment/ipn", body)
}

/// What a shop asks for a payment with, under its Idempotency-Key.
pub fn payment_request(token: &str, key: &str, payment: &Value) -> Vec<u8> {
    let headers = format!("{}idempotency-key: {key}\r\n", bearer(token));
    request("POST /v1/payments", &headers, Some(payment.to_string().as_bytes()))
}

/// The header that shows a token.
pub fn bearer(token: &str) -> String {
    format!("authorization: Bearer {token}\r\n")
}
