//! Owns a partner's API on its own socket: it gives the scripted answer and records every request.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use crate::support::stub;

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
        let says = Arc::new(Mutex::new(("200 OK".to_owned(), answer.to_string())));
        let asked = Arc::<Mutex<Vec<_>>>::default();
        let (scripted, received) = (Arc::clone(&says), Arc::clone(&asked));
        let url = stub::serve(move |mut stream| {
            let Some(request) = stub::read(&mut stream) else { return };
            let first = request.head.lines().next().unwrap_or_default().to_owned();
            lock(&received).push((first, request.body));
            let (head, body) = lock(&scripted).clone();
            stub::answer(&mut stream, &format!("{head}\r\nconnection: close"), &body);
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
