//! A gateway partner on a socket of its own that answers as it is told, and remembers what it was asked.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What the partner does with a request.
#[derive(Clone, Debug)]
pub enum Does {
    /// Sends these bytes and closes.
    Sends(Vec<u8>),
    /// Sends them after a time.
    SendsAfter(Duration, Vec<u8>),
    /// Sends them when it is let go.
    Waits(Vec<u8>),
    /// Never answers.
    Nothing,
}

/// A partner that does one thing.
pub struct Partner {
    pub url: String,
    does: Arc<Mutex<Does>>,
    asked: Arc<Mutex<Vec<Value>>>,
    count: watch::Sender<usize>,
    gate: watch::Sender<bool>,
}

/// An answer with a status line and a JSON body.
pub fn http(status: &str, body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// A good answer as JSON, with some members put in its place; null takes one out.
pub fn offer(members: &Value) -> Vec<u8> {
    let mut offer = json!({
        "providerRef": "GW-1",
        "redirectUrl": "https://pay.partner.example/s/1",
        "expiresAt": "2099-01-31T10:00:00Z",
    });
    let object = offer.as_object_mut().unwrap();
    for (name, value) in members.as_object().unwrap() {
        match value {
            Value::Null => object.remove(name),
            value => object.insert(name.clone(), value.clone()),
        };
    }
    http("200 OK", &offer.to_string())
}

impl Partner {
    pub async fn start(does: Does) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (does, asked) = (Arc::new(Mutex::new(does)), Arc::new(Mutex::new(Vec::new())));
        let (count, gate) = (watch::Sender::new(0), watch::Sender::new(false));
        let partner = Self { url, does, asked, count, gate };
        let (does, asked) = (Arc::clone(&partner.does), Arc::clone(&partner.asked));
        let (count, gate) = (partner.count.clone(), partner.gate.clone());
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let does = does.lock().unwrap().clone();
                let (asked, count, gate) = (Arc::clone(&asked), count.clone(), gate.subscribe());
                tokio::spawn(async move {
                    let mut socket = socket;
                    let Some(request) = read(&mut socket).await else { return };
                    asked.lock().unwrap().push(request);
                    count.send_modify(|count| *count += 1);
                    answer(socket, does, gate).await;
                });
            }
        });
        partner
    }

    pub async fn opens() -> Self {
        Self::start(Does::Sends(offer(&json!({})))).await
    }

    pub fn does(&self, does: Does) {
        *self.does.lock().unwrap() = does;
    }

    /// Lets go of all that waits.
    pub fn let_go(&self) {
        self.gate.send_replace(true);
    }

    /// The bodies it was sent.
    pub fn asked(&self) -> Vec<Value> {
        self.asked.lock().unwrap().clone()
    }

    /// How often it was asked.
    pub fn count(&self) -> usize {
        *self.count.borrow()
    }

    /// Resolves when it was asked so often.
    pub async fn asked_times(&self, times: usize) {
        let mut count = self.count.subscribe();
        let _ = count.wait_for(|count| *count >= times).await;
    }
}

/// One request's body; none if it is no whole request.
async fn read(socket: &mut TcpStream) -> Option<Value> {
    let mut bytes = Vec::new();
    loop {
        let mut chunk = [0; 4096];
        let read = socket.read(&mut chunk).await.ok().filter(|read| *read > 0)?;
        bytes.extend_from_slice(&chunk[..read]);
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length")
                .then(|| value.trim().parse::<usize>().ok())?
        })?;
        if body.len() >= length {
            assert!(head.starts_with("POST /payments HTTP/1.1"), "{head}");
            return serde_json::from_str(body).ok();
        }
    }
}

async fn answer(mut socket: TcpStream, does: Does, mut gate: watch::Receiver<bool>) {
    let bytes = match does {
        Does::Sends(bytes) => bytes,
        Does::SendsAfter(time, bytes) => {
            tokio::time::sleep(time).await;
            bytes
        }
        Does::Waits(bytes) => {
            let _ = gate.wait_for(|open| *open).await;
            bytes
        }
        Does::Nothing => std::future::pending().await,
    };
    let _ = socket.write_all(&bytes).await;
    let _ = socket.shutdown().await;
}
