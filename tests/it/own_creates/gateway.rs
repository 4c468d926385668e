//! Owns a partner's API on its own socket: it gives the scripted answer and records every request.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use serde_json::Value;

/// A gateway that gives the same answer to every request, until the test scripts another.
pub(super) struct Gateway {
    pub(super) url: String,
    says: Arc<Mutex<(String, String)>>,
    /// First line and body of each request.
    asked: Arc<Mutex<Vec<(String, String)>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Gateway {
    pub(super) fn start(answer: &Value) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let says = Arc::new(Mutex::new(("200 OK".to_owned(), answer.to_string())));
        let asked = Arc::<Mutex<Vec<_>>>::default();
        let (scripted, received) = (Arc::clone(&says), Arc::clone(&asked));
        // It ends with the test's process.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                serve(stream, &scripted, &received);
            }
        });
        Self { url, says, asked }
    }

    pub(super) fn script_answer(&self, head: &str, answer: &Value) {
        *lock(&self.says) = (head.to_owned(), answer.to_string());
    }

    pub(super) fn asked(&self) -> Vec<(String, String)> {
        lock(&self.asked).clone()
    }
}

fn serve(
    mut stream: TcpStream,
    says: &Mutex<(String, String)>,
    asked: &Mutex<Vec<(String, String)>>,
) {
    let (mut read, mut chunk) = (String::new(), [0; 4_096]);
    let (head, body) = loop {
        match stream.read(&mut chunk) {
            Ok(count @ 1..) => read.push_str(&String::from_utf8_lossy(&chunk[..count])),
            Ok(0) | Err(_) => return,
        }
        let Some((head, body)) = read.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if body.len() >= length.map_or(0, |length| length.parse().expect("a length")) {
            break (head, body);
        }
    };
    let first = head.lines().next().unwrap_or_default().to_owned();
    lock(asked).push((first, body.to_owned()));
    let (head, body) = lock(says).clone();
    let answer = format!(
        "HTTP/1.1 {head}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    // Who has hung up reads nothing.
    let _ = stream.write_all(answer.as_bytes());
}
