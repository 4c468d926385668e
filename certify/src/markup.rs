//! Owns the search for buttons and links in a page's HTML, by the values of attributes. Pure. A
//! page that a script builds has none in its HTML; a person operates such a page.

/// The values of all attributes with this name, in document order, with the character references of
/// URLs decoded.
pub(super) fn attribute_values(html: &str, name: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = html;
    while let Some(at) = rest.find(name) {
        let before = rest[..at].chars().next_back();
        rest = &rest[at + name.len()..];
        // `formaction=` ends with `action=` and is another attribute.
        let Some(value) =
            rest.strip_prefix('=').filter(|_| before.is_some_and(char::is_whitespace))
        else {
            continue;
        };
        let value = match value.chars().next() {
            Some(quote @ ('"' | '\'')) => value[1..].split(quote).next(),
            _ => value.split([' ', '>', '\n', '\t']).next(),
        };
        found.extend(value.map(decode_references));
    }
    found
}

fn decode_references(text: &str) -> String {
    let pairs = [("&#38;", "&"), ("&#x26;", "&"), ("&quot;", "\""), ("&#39;", "'"), ("&lt;", "<")];
    let text = pairs.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to));
    text.replace("&gt;", ">").replace("&amp;", "&")
}

/// Finds the address of a form or button that ends in the path segment `name`.
pub(super) fn find_button(html: &str, name: &str) -> Option<String> {
    let actions =
        ["formaction", "action"].into_iter().flat_map(|name| attribute_values(html, name));
    let has_name = |action: &String| {
        let path = action.split(['?', '#']).next().unwrap_or_default();
        path.rsplit('/').next() == Some(name)
    };
    actions.into_iter().find(has_name)
}

/// Finds a link to an address.
pub(super) fn find_link(html: &str, address: &str) -> Option<String> {
    attribute_values(html, "href").into_iter().find(|href| leads_to(href, address))
}

/// Whether a URL is the address, with any query or fragment.
pub(super) fn leads_to(url: &str, address: &str) -> bool {
    url.strip_prefix(address).is_some_and(|rest| rest.is_empty() || rest.starts_with(['?', '#']))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = r#"<form method="post" action="sbx-1/pay"><button>Pay</button>
        <button formaction='sbx-1/cancel?a=1'>Cancel</button></form>
        <a class=x href=http://127.0.0.1/back?a=1&amp;b=2>Back</a> data-action="no/fail""#;

    #[test]
    fn buttons_and_links_are_found() {
        assert_eq!(find_button(PAGE, "pay").as_deref(), Some("sbx-1/pay"));
        assert_eq!(find_button(PAGE, "cancel").as_deref(), Some("sbx-1/cancel?a=1"));
        assert_eq!(find_button(PAGE, "fail"), None);
        assert_eq!(find_button("", "pay"), None);
        let back = "http://127.0.0.1/back";
        assert_eq!(find_link(PAGE, back).as_deref(), Some("http://127.0.0.1/back?a=1&b=2"));
        assert_eq!(find_link(PAGE, "http://127.0.0.1/bac"), None);
        assert!(leads_to(back, back) && !leads_to("http://127.0.0.1/backup", back));
    }
}
