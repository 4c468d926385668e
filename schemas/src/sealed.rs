//! Owns the sealed content of a notice: its request and its body, which may contain what a payer
//! wrote. They are encrypted with the key of the account's month, as `raw` of the envelope; the
//! envelope has the key's id. The record's parts, which the fold needs, are in the clear.
//!
//! Content, version 1: `u8 version = 1`, `u32 length` (little-endian) and the request as CBOR, then
//! the body.

use crate::ids::RequestId;
use crate::notice_source::RecordedRequest;

const VERSION: u8 = 1;
const HEADER_BYTES: usize = 5;

/// What a sealed notice is bound to: bytes that are moved to the record of another account or
/// request can't be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery<'a> {
    /// Our account's partner.
    pub partner: &'a str,
    /// Its merchantCode.
    pub merchant_code: &'a str,
    /// The request that brought it.
    pub request_id: RequestId,
}

/// Opened bytes that are not a content. A newer or a foreign program sealed them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("what was sealed is not understood: upgrade readers before writers")]
pub struct ContentError;

/// Appends the content to `into`.
pub fn write(request: &RecordedRequest, body: &[u8], into: &mut Vec<u8>) {
    let start = into.len();
    into.extend_from_slice(&[VERSION, 0, 0, 0, 0]);
    minicbor::encode(request, &mut *into).expect("encoding into memory can't fail");
    let (header, request) = into[start..].split_at_mut(HEADER_BYTES);
    let length = u32::try_from(request.len()).expect("a request's head is some KiB");
    header[1..].copy_from_slice(&length.to_le_bytes());
    into.extend_from_slice(body);
}

/// Reads the content: the request and the body. Errors: `ContentError`.
pub fn read(content: &[u8]) -> Result<(RecordedRequest, &[u8]), ContentError> {
    let (header, rest) = content.split_at_checked(HEADER_BYTES).ok_or(ContentError)?;
    if header[0] != VERSION {
        return Err(ContentError);
    }
    let length = u32::from_le_bytes([header[1], header[2], header[3], header[4]]);
    let length = usize::try_from(length).map_err(|_| ContentError)?;
    let (request, body) = rest.split_at_checked(length).ok_or(ContentError)?;
    Ok((minicbor::decode(request).map_err(|_| ContentError)?, body))
}

/// The part of a request that stays in the clear: path, method, item and sign block, without query
/// and headers.
pub fn in_the_clear(request: &RecordedRequest) -> RecordedRequest {
    let path = request.target.split_once('?').map_or(request.target.as_str(), |(path, _)| path);
    RecordedRequest {
        target: path.to_owned(),
        headers: Vec::new(),
        method: request.method.clone(),
        item: request.item,
        sign: request.sign.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> RecordedRequest {
        RecordedRequest {
            target: "/api/payment/ipn/acme?payer=An+Nguyen".to_owned(),
            headers: vec![("x-sign".to_owned(), "ab".to_owned())],
            method: Some("GET".to_owned()),
            item: Some(2),
            sign: Some("main".to_owned()),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        for body in [&b""[..], b"{\"name\":\"An\"}"] {
            let mut content = b"before".to_vec();
            write(&request(), body, &mut content);
            assert_eq!(read(&content[6..]), Ok((request(), body)));
        }
    }

    #[test]
    fn what_is_no_content_is_refused_without_a_panic() {
        let mut whole = Vec::new();
        write(&request(), b"body", &mut whole);
        for cut in 0..whole.len() - b"body".len() {
            assert!(read(&whole[..cut]).is_err(), "cut at {cut}");
        }
        whole[0] = 2;
        assert_eq!(read(&whole), Err(ContentError));
        assert!(read(&[1, 255, 255, 255, 255]).is_err());
    }

    #[test]
    fn neither_query_nor_headers_stay_in_the_clear() {
        let clear = in_the_clear(&request());
        assert_eq!((clear.target.as_str(), clear.headers.len()), ("/api/payment/ipn/acme", 0));
        assert_eq!((clear.method, clear.item), (request().method, Some(2)));
    }

    /// Sealed bytes are kept for years: the content may not change under its version.
    #[test]
    fn a_known_content_stays() {
        let mut content = Vec::new();
        write(&request(), b"body", &mut content);
        let known = "013e0000008578252f6170692f7061796d656e742f69706e2f61636d653f70617965723d41\
            6e2b4e677579656e818266782d7369676e6261626347455402646d61696e626f6479";
        assert_eq!(hex::encode(content), known);
    }
}
