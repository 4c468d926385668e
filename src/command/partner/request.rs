//! Owns reading a request from a file: JSON as in test vectors, or the HTTP message as received.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use anyhow::Context;
use serde::Deserialize;

use crate::error::Fixable;

/// A request from a file.
pub(super) struct StoredRequest {
    pub(super) method: String,
    /// A path with its query, or an absolute URL.
    pub(super) url: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

#[derive(Deserialize)]
struct RequestJson {
    #[serde(default)]
    method: Option<String>,
    #[serde(default, alias = "target")]
    url: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    body: String,
}

/// Reads a request. Errors: the file is neither JSON nor an HTTP message.
pub(super) fn read(file: &Path) -> anyhow::Result<StoredRequest> {
    let mut bytes = Vec::new();
    if file == Path::new("-") {
        std::io::stdin().read_to_end(&mut bytes).context("standard input")?;
    } else {
        bytes = std::fs::read(file).with_context(|| format!("{} can't be read", file.display()))?;
    }
    let is_json = bytes.trim_ascii_start().first() == Some(&b'{');
    let stored = if is_json { of_json(&bytes) } else { of_message(&bytes) };
    stored.ok_or_else(|| {
        Fixable::error(
            "the file is no request",
            "write \
             {\"method\":\"POST\",\"url\":\"/api/payment/ipn/…\",\"headers\":{…},\"body\":\"…\"}, \
             or the HTTP message with its head, a blank line and the body",
        )
    })
}

fn of_json(bytes: &[u8]) -> Option<StoredRequest> {
    // Any other JSON is the body of a POST.
    let Ok(json) = serde_json::from_slice::<RequestJson>(bytes) else {
        return Some(of_body(bytes));
    };
    if json.body.is_empty() && json.url.is_empty() && json.headers.is_empty() {
        return Some(of_body(bytes));
    }
    Some(StoredRequest {
        method: json.method.unwrap_or_else(|| "POST".to_owned()),
        url: json.url,
        headers: json.headers.into_iter().collect(),
        body: json.body.into_bytes(),
    })
}

fn of_body(bytes: &[u8]) -> StoredRequest {
    let (method, url) = ("POST".to_owned(), String::new());
    StoredRequest { method, url, headers: Vec::new(), body: bytes.to_vec() }
}

fn of_message(bytes: &[u8]) -> Option<StoredRequest> {
    let crlf = bytes.windows(4).position(|window| window == b"\r\n\r\n").map(|at| (at, at + 4));
    let lf = bytes.windows(2).position(|window| window == b"\n\n").map(|at| (at, at + 2));
    let (head_end, body_at) = crlf.or(lf).unwrap_or((bytes.len(), bytes.len()));
    let head = std::str::from_utf8(&bytes[..head_end]).ok()?;
    let mut lines = head.lines();
    let mut first = lines.next()?.split(' ');
    let (method, url) = (first.next()?.to_owned(), first.next()?.to_owned());
    let is_http = matches!(method.as_str(), "GET" | "POST");
    let header = |line: &str| {
        let (name, value) = line.split_once(':')?;
        Some((name.trim().to_owned(), value.trim().to_owned()))
    };
    let headers = lines.map(header).collect::<Option<Vec<_>>>()?;
    is_http.then(|| StoredRequest { method, url, headers, body: bytes[body_at..].to_vec() })
}
