//! Owns the servers that a test plays for partners: each on a port of its own, until the test's
//! process ends.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use super::wire::find;

/// A request, with the lines of its head as they came.
#[derive(Clone, Debug)]
pub struct Request {
    pub head: String,
    pub body: String,
}

impl Request {
    /// A header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    /// The path with its query.
    pub fn target(&self) -> &str {
        self.head.split_whitespace().nth(1).unwrap_or_default()
    }
}

/// A free port's listener, and its URL.
pub fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let url = format!("http://{}", listener.local_addr().expect("it is bound"));
    (listener, url)
}

/// A port that is free now.
pub fn free_port() -> u16 {
    listen().0.local_addr().expect("it is bound").port()
}

/// Serves every connection in a thread of its own; the URL.
pub fn serve(each: impl Fn(TcpStream) + Clone + Send + 'static) -> String {
    let (listener, url) = listen();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let each = each.clone();
            thread::spawn(move || each(stream));
        }
    });
    url
}

/// The next request of a connection; `None` at its end.
pub fn read(stream: &mut impl Read) -> Option<Request> {
    let (mut bytes, mut chunk) = (Vec::new(), [0; 4_096]);
    loop {
        match stream.read(&mut chunk) {
            Ok(count @ 1..) => bytes.extend_from_slice(&chunk[..count]),
            Ok(0) | Err(_) => return None,
        }
        let Some(head_ends) = find(&bytes, b"\r\n\r\n") else { continue };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (head, body) = (text(&bytes[..head_ends]), &bytes[head_ends + 4..]);
        let request = Request { head, body: text(body) };
        let length = request.header("content-length").map(str::parse::<usize>);
        if body.len() >= length.map_or(0, |length| length.expect("a length")) {
            return Some(request);
        }
    }
}

/// Answers: `head` is the status line behind the version, and more headers behind it.
pub fn answer(stream: &mut impl Write, head: &str, body: &str) {
    let answer = format!("HTTP/1.1 {head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    // Who has hung up reads nothing.
    let _ = stream.write_all(answer.as_bytes());
}
