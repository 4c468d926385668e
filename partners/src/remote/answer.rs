//! Owns the reading of an answer's body up to a limit, and the description of a failed request
//! without secrets.

use futures_util::StreamExt;
use reqwest::Response;

use crate::reason::Reason;

/// Reads a whole body. Errors: it is longer than `bytes_max`, or the connection failed.
pub(crate) async fn read_body(response: Response, bytes_max: usize) -> Result<Vec<u8>, Reason> {
    let mut body = Vec::new();
    let mut chunks = response.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| Reason(reason(&error)))?;
        if body.len().saturating_add(chunk.len()) > bytes_max {
            return Reason::err(format!("the answer is over {bytes_max} bytes"));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// The causes of an error, without its URL: the URL's query may hold a secret of the partner.
pub(crate) fn reason(error: &reqwest::Error) -> String {
    let mut text = if error.is_timeout() { "timed out".to_owned() } else { String::new() };
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = if text.is_empty() { cause.to_string() } else { format!("{text}: {cause}") };
        source = cause.source();
    }
    if text.is_empty() { "the connection ended".to_owned() } else { text }
}
