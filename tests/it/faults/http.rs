//! Owns the client: one keep-alive connection, one request at a time, nothing hidden by a library.
//! Invariant: an answer with first bytes that say 200 is a 200, even when the rest of it never
//! came.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Longer than the program may ever take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(15);

/// A connection that stays open from request to request.
pub struct Connection {
    stream: TcpStream,
    host: String,
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

impl Connection {
    /// Connects to `host:port`.
    pub fn open(address: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        Ok(Self { stream, host: address.to_owned() })
    }

    /// Posts a notice.
    pub fn notice(&mut self, body: &[u8]) -> io::Result<Answer> {
        self.post("/api/payment/ipn", "", body)
    }

    /// Posts JSON; `headers` are whole lines with their ends.
    pub fn post(&mut self, path: &str, headers: &str, body: &[u8]) -> io::Result<Answer> {
        let mut request = format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n{headers}\r\n",
            self.host,
            body.len()
        )
        .into_bytes();
        request.extend_from_slice(body);
        self.stream.write_all(&request)?;
        self.answer()
    }

    /// Asks for a path.
    pub fn get(&mut self, path: &str) -> io::Result<Answer> {
        write!(self.stream, "GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", self.host)?;
        self.answer()
    }

    fn answer(&mut self) -> io::Result<Answer> {
        let (mut bytes, mut chunk) = (Vec::new(), [0; 4096]);
        loop {
            let read = match self.stream.read(&mut chunk) {
                Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
                other => other,
            };
            match read {
                Ok(count) => bytes.extend_from_slice(&chunk[..count]),
                // A read with a time limit is not begun again by the kernel.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) if bytes.starts_with(b"HTTP/1.1 200 ") => {
                    return Ok(Answer { status: 200, head: String::new(), body: String::new() });
                }
                Err(error) => return Err(error),
            }
            if let Some(answer) = whole(&bytes) {
                return Ok(answer);
            }
        }
    }
}

/// The answer, once its head and all of its body are there.
fn whole(bytes: &[u8]) -> Option<Answer> {
    let text = String::from_utf8_lossy(bytes);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().expect("a status line has a number");
    let answer = Answer { status, head: head.to_owned(), body: body.to_owned() };
    let length = answer
        .header("content-length")
        .map_or(0, |length| length.parse::<usize>().expect("a length is a number"));
    (body.len() >= length).then_some(answer)
}
