//! Owns the format of a request in a file of the corpus: the line `METHOD target`, a line for each
//! header, an empty line, the body. `@SIG@` stands for the known key's signature over the rest.

use payfold_partners::directory::Directory;
use payfold_partners::scheme::NoticeRequest;

/// The mark that stands for the signature.
pub const MARK: &str = "@SIG@";

/// One request, owned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wire {
    /// `POST` or `GET`.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// Names and values.
    pub headers: Vec<(String, String)>,
    /// The whole body.
    pub body: Vec<u8>,
}

impl Wire {
    /// Reads any bytes as a request.
    pub fn read(bytes: &[u8]) -> Self {
        let end = bytes.windows(2).position(|pair| pair == b"\n\n");
        let (head, body) = match end {
            Some(at) => (&bytes[..at], &bytes[at + 2..]),
            None => (bytes, &[][..]),
        };
        let head = String::from_utf8_lossy(head);
        let mut lines = head.split('\n');
        let first = lines.next().unwrap_or_default();
        let (method, target) = first.split_once(' ').unwrap_or((first, ""));
        let header = |line: &str| {
            let (name, value) = line.split_once(':').unwrap_or((line, ""));
            (name.to_owned(), value.trim().to_owned())
        };
        Self {
            method: method.to_owned(),
            target: target.to_owned(),
            headers: lines.map(header).collect(),
            body: body.to_vec(),
        }
    }

    /// The request as a scheme gets it.
    pub fn request(&self) -> NoticeRequest<'_> {
        let headers = self.headers.iter();
        NoticeRequest {
            method: &self.method,
            base_url: "https://pay.example.com",
            headers: headers.map(|(name, value)| (name.as_str(), value.as_str())).collect(),
            body: &self.body,
            ..NoticeRequest::of_url(&self.target)
        }
    }

    /// The same request with this signature in place of the mark.
    pub fn with_signature(&self, signature: &str) -> Self {
        let put = |text: &str| text.replace(MARK, signature);
        Self {
            method: self.method.clone(),
            target: put(&self.target),
            headers: self.headers.iter().map(|(n, v)| (n.clone(), put(v))).collect(),
            body: replaced(&self.body, MARK.as_bytes(), signature.as_bytes()),
        }
    }

    /// Whether the request has the mark.
    pub fn has_mark(&self) -> bool {
        self.target.contains(MARK)
            || self.headers.iter().any(|(_, value)| value.contains(MARK))
            || self.body.windows(MARK.len()).any(|part| part == MARK.as_bytes())
    }

    /// The signature of the partner's key over this request; `None` if nothing can be signed.
    pub fn signature(&self, directory: &Directory, partner: &str) -> Option<String> {
        directory.expected_signature(partner, &self.request())
    }
}

fn replaced(bytes: &[u8], mark: &[u8], with: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = bytes;
    while let Some(at) = rest.windows(mark.len()).position(|part| part == mark) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(with);
        rest = &rest[at + mark.len()..];
    }
    out.extend_from_slice(rest);
    out
}
