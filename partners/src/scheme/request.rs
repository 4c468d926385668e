//! Owns the request a notice came in, as far as a scheme may sign or read it. Nothing is decoded here.

/// One request.
#[derive(Clone, Debug, Default)]
pub struct Request<'r> {
    /// `POST` or `GET`.
    pub method: &'r str,
    /// Our address up to the path, as the partner knows it, such as `https://pay.example.com`.
    pub base_url: &'r str,
    /// As received.
    pub path: &'r str,
    /// What stands behind `?`, as received; empty if nothing does.
    pub query: &'r str,
    /// Names as received, values that are text.
    pub headers: Vec<(&'r str, &'r str)>,
    /// The whole body.
    pub body: &'r [u8],
}

impl<'r> Request<'r> {
    /// A request to a URL, or to a path with its query.
    pub fn of_url(url: &'r str) -> Self {
        let (base_url, path, query) = super::explain::base_of(url);
        Self { base_url, path, query, ..Self::default() }
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
