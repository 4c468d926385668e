//! Owns the HTTP request of a notice, as far as a scheme may sign or read it. Nothing is decoded
//! here.

/// The HTTP request of a notice.
#[derive(Clone, Debug, Default)]
pub struct NoticeRequest<'r> {
    /// `POST` or `GET`.
    pub method: &'r str,
    /// Our address up to the path, as the partner knows it, such as `https://pay.example.com`.
    pub base_url: &'r str,
    /// As received.
    pub path: &'r str,
    /// The query as received, without its `?`. Empty if the request has no query.
    pub query: &'r str,
    /// Names and values as received; values that are not text are left out.
    pub headers: Vec<(&'r str, &'r str)>,
    /// The whole body.
    pub body: &'r [u8],
}

impl<'r> NoticeRequest<'r> {
    /// A request to a URL, or to a path with its query.
    pub fn of_url(url: &'r str) -> Self {
        let (base_url, path, query) = crate::scheme::request::base_of(url);
        Self { base_url, path, query, ..Self::default() }
    }

    /// The headers with values that are UTF-8 text, for `headers`. The others are left out.
    pub fn text_headers(all: impl Iterator<Item = (&'r str, &'r [u8])>) -> Vec<(&'r str, &'r str)> {
        all.filter_map(|(name, value)| Some((name, std::str::from_utf8(value).ok()?))).collect()
    }

    /// The values of a header, whatever the case of its name.
    pub(crate) fn header_values<'s>(&'s self, name: &'s str) -> impl Iterator<Item = &'r str> + 's {
        let named = self.headers.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
        named.map(|(_, value)| *value)
    }

    /// Path and query as received.
    pub fn target(&self) -> String {
        if self.query.is_empty() {
            self.path.to_owned()
        } else {
            format!("{}?{}", self.path, self.query)
        }
    }
}

/// Splits a URL or a request target into base address, path and query.
pub(crate) fn base_of(url: &str) -> (&str, &str, &str) {
    let authority = url.find("://").map_or(0, |at| at + 3);
    let path_at = if authority == 0 {
        0
    } else {
        url[authority..].find('/').map_or(url.len(), |at| authority + at)
    };
    let (base, target) = url.split_at(path_at);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    (base, path, query)
}
