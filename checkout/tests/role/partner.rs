//! A gateway partner on its own socket that behaves as a test sets it, and records its requests.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::world::soon;

/// What the partner does with a request.
#[derive(Clone, Debug)]
pub enum Behaviour {
    /// Sends these bytes and closes.
    Sends(Vec<u8>),
    /// Sends these bytes after a time, and closes.
    SendsAfter(Duration, Vec<u8>),
    /// Sends these bytes when it is released, and closes.
    Waits(Vec<u8>),
    /// Never answers.
    Nothing,
}

/// A partner with one behaviour at a time.
pub struct Partner {
    pub url: String,
    behaviour: Arc<Mutex<Behaviour>>,
    requests: Arc<Mutex<Vec<Value>>>,
    count: watch::Sender<usize>,
    gate: watch::Sender<bool>,
}

/// A response with this status line and a JSON body.
pub fn http(status: &str, body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// A good answer, with members replaced or removed (null).
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
    pub async fn start(behaviour: Behaviour) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (behaviour, requests) =
            (Arc::new(Mutex::new(behaviour)), Arc::new(Mutex::new(Vec::new())));
        let (count, gate) = (watch::Sender::new(0), watch::Sender::new(false));
        let partner = Self { url, behaviour, requests, count, gate };
        let (behaviour, requests) = (Arc::clone(&partner.behaviour), Arc::clone(&partner.requests));
        let (count, gate) = (partner.count.clone(), partner.gate.clone());
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let behaviour = behaviour.lock().unwrap().clone();
                let (requests, count, gate) =
                    (Arc::clone(&requests), count.clone(), gate.subscribe());
                tokio::spawn(async move {
                    let mut socket = socket;
                    let Some(request) = read_request(&mut socket).await else { return };
                    requests.lock().unwrap().push(request);
                    count.send_modify(|count| *count += 1);
                    answer(socket, behaviour, gate).await;
                });
            }
        });
        partner
    }

    /// A partner that opens a session for every request.
    pub async fn opens() -> Self {
        Self::start(Behaviour::Sends(offer(&json!({})))).await
    }

    pub fn set_behaviour(&self, behaviour: Behaviour) {
        *self.behaviour.lock().unwrap() = behaviour;
    }

    /// Releases all answers that wait.
    pub fn release(&self) {
        self.gate.send_replace(true);
    }

    /// The bodies of its requests.
    pub fn requests(&self) -> Vec<Value> {
        self.requests.lock().unwrap().clone()
    }

    /// How many requests it got.
    pub fn request_count(&self) -> usize {
        *self.count.borrow()
    }

    /// Resolves when it has this many requests.
    pub async fn wait_for_requests(&self, times: usize) {
        let mut count = self.count.subscribe();
        let _ = soon("the partner is called", count.wait_for(|count| *count >= times)).await;
    }
}

/// Reads the body of one request; `None` if the request is not whole.
async fn read_request(socket: &mut TcpStream) -> Option<Value> {
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

async fn answer(mut socket: TcpStream, behaviour: Behaviour, mut gate: watch::Receiver<bool>) {
    let bytes = match behaviour {
        Behaviour::Sends(bytes) => bytes,
        Behaviour::SendsAfter(time, bytes) => {
            tokio::time::sleep(time).await;
            bytes
        }
        Behaviour::Waits(bytes) => {
            let _ = gate.wait_for(|open| *open).await;
            bytes
        }
        Behaviour::Nothing => std::future::pending().await,
    };
    let _ = socket.write_all(&bytes).await;
    let _ = socket.shutdown().await;
}
