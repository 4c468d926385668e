//! Owns a small parser of documents for the tests: it checks that every element is closed where it
//! was opened, and lists elements, attributes and text.

/// An element, with its attributes and text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Element {
    pub(super) name: String,
    pub(super) attributes: Vec<(String, String)>,
    /// All text inside, unescaped.
    pub(super) text: String,
}

impl Element {
    pub(super) fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn has_class(&self, class: &str) -> bool {
        self.attribute("class").unwrap_or_default().split(' ').any(|known| known == class)
    }
}

const VOID: [&str; 3] = ["meta", "br", "hr"];

/// Parses a whole document. Panics if it is not well-formed.
pub(super) fn elements(page: &str) -> Vec<Element> {
    let mut rest = page.strip_prefix("<!DOCTYPE html>").expect("a document of today");
    let (mut found, mut open): (Vec<Element>, Vec<usize>) = (Vec::new(), Vec::new());
    while !rest.is_empty() {
        let (text, after) = rest.split_at(rest.find('<').unwrap_or(rest.len()));
        let text = unescaped(text);
        open.iter().for_each(|place| found[*place].text.push_str(&text));
        let Some(after) = after.strip_prefix('<') else { break };
        let (tag, after) = after.split_once('>').expect("a tag ends");
        rest = after;
        if let Some(name) = tag.strip_prefix('/') {
            let place = open.pop().expect("what is closed was opened");
            assert_eq!(found[place].name, name, "closed in its turn");
            continue;
        }
        let element = element(tag);
        if element.name == "style" {
            let (style, after) = rest.split_once("</style>").expect("a style ends");
            found.push(Element { text: style.to_owned(), ..element });
            rest = after;
            continue;
        }
        if !VOID.contains(&element.name.as_str()) {
            open.push(found.len());
        }
        found.push(element);
    }
    assert!(open.is_empty(), "everything is closed");
    found
}

fn element(tag: &str) -> Element {
    let (name, mut rest) = tag.split_once(' ').unwrap_or((tag, ""));
    assert!(name.bytes().all(|b| b.is_ascii_alphanumeric()), "<{tag}>");
    let mut attributes = Vec::new();
    while !rest.trim_start().is_empty() {
        let (name, after) = rest.trim_start().split_once("=\"").expect("a value in quotes");
        let (value, after) = after.split_once('"').expect("a quote ends");
        attributes.push((name.to_owned(), unescaped(value)));
        rest = after;
    }
    Element { name: name.to_owned(), attributes, text: String::new() }
}

fn unescaped(text: &str) -> String {
    assert!(!text.contains('<'), "{text}");
    for (place, _) in text.match_indices('&') {
        let known = ["&lt;", "&gt;", "&quot;", "&amp;"];
        assert!(known.iter().any(|known| text[place..].starts_with(known)), "{text}");
    }
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"");
    text.replace("&amp;", "&")
}
