//! Owns as much reading of a page's markup as finding its buttons and links takes: values of attributes. Pure; a page
//! that is drawn by script has none, and a person is asked instead.

/// The values of attributes of this name, in their order, character references of URLs resolved.
pub(super) fn attributes(html: &str, name: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = html;
    while let Some(at) = rest.find(name) {
        let before = rest[..at].chars().next_back();
        rest = &rest[at + name.len()..];
        // `formaction=` is no `action=`.
        let Some(value) =
            rest.strip_prefix('=').filter(|_| before.is_some_and(char::is_whitespace))
        else {
            continue;
        };
        let value = match value.chars().next() {
            Some(quote @ ('"' | '\'')) => value[1..].split(quote).next(),
            _ => value.split([' ', '>', '\n', '\t']).next(),
        };
        found.extend(value.map(unescaped));
    }
    found
}

fn unescaped(text: &str) -> String {
    let pairs = [("&#38;", "&"), ("&#x26;", "&"), ("&quot;", "\""), ("&#39;", "'"), ("&lt;", "<")];
    let text = pairs.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to));
    text.replace("&gt;", ">").replace("&amp;", "&")
}

/// Where a form or button leads whose last word is this one.
pub(super) fn button(html: &str, word: &str) -> Option<String> {
    let actions = ["formaction", "action"].into_iter().flat_map(|name| attributes(html, name));
    let last_word = |action: &String| {
        let path = action.split(['?', '#']).next().unwrap_or_default();
        path.rsplit('/').next() == Some(word)
    };
    actions.into_iter().find(last_word)
}

/// A link or form that leads to an address.
pub(super) fn link_to(html: &str, address: &str) -> Option<String> {
    attributes(html, "href").into_iter().find(|href| leads_to(href, address))
}

/// Whether a URL is the address, whatever its query.
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
        assert_eq!(button(PAGE, "pay").as_deref(), Some("sbx-1/pay"));
        assert_eq!(button(PAGE, "cancel").as_deref(), Some("sbx-1/cancel?a=1"));
        assert_eq!(button(PAGE, "fail"), None);
        assert_eq!(button("", "pay"), None);
        let back = "http://127.0.0.1/back";
        assert_eq!(link_to(PAGE, back).as_deref(), Some("http://127.0.0.1/back?a=1&b=2"));
        assert_eq!(link_to(PAGE, "http://127.0.0.1/bac"), None);
        assert!(leads_to(back, back) && !leads_to("http://127.0.0.1/backup", back));
    }
}
