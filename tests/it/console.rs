//! The console through HTTP: who gets in, what a page has, and what each attack is answered with.

pub mod apart;
mod builds;
mod days;
pub mod decisions;
mod hostile;
mod lists;
mod overview;
mod partners;
mod people;
mod quarantine;

use std::rc::Rc;
use std::time::Duration;

use crate::support::system::{Home, System};
use crate::support::waits::until;
use crate::support::wire::{Answer, Connection, request};

/// The host that `request` names, as a browser's `Origin`.
const ORIGIN: &str = "origin: http://payfold\r\n";
const SOON: Duration = Duration::from_secs(20);
/// A start that is refused ends within this time.
const START_MAX: Duration = Duration::from_secs(20);

/// A person's browser: it keeps the cookie of the console.
struct Visitor<'s> {
    system: &'s System,
    cookie: String,
    /// The header that names the console's address.
    origin: &'static str,
}

impl<'s> Visitor<'s> {
    /// Logs in with a token.
    fn log_in(system: &'s System, token: &str) -> Self {
        Self::log_in_from(system, token, ORIGIN)
    }

    /// Logs in at a console with an address of its own.
    fn log_in_from(system: &'s System, token: &str, origin: &'static str) -> Self {
        let answer = send(system, "/login", origin, &format!("token={token}"));
        assert_eq!((answer.status, answer.header("location")), (303, Some("/")));
        Self { system, cookie: cookie_of(&answer), origin }
    }

    /// The header with its cookie.
    fn header(&self) -> String {
        format!("cookie: {}\r\n", self.cookie)
    }

    fn get(&self, path: &str) -> Answer {
        open(self.system, path, &self.header())
    }

    /// A page as JSON.
    fn json(&self, path: &str) -> Answer {
        open(self.system, path, &format!("{}accept: application/json\r\n", self.header()))
    }

    /// Sends a form with these headers beside the cookie.
    fn send(&self, path: &str, headers: &str, fields: &str) -> Answer {
        send(self.system, path, &format!("{}{headers}", self.header()), fields)
    }

    /// The token of its forms.
    fn post_token(&self) -> String {
        let page = self.get("/orders").text();
        let (_, rest) = page.split_once("name=\"post_token\" value=\"").expect("a form");
        rest.split('"').next().expect("a value").to_owned()
    }
}

fn open(system: &System, path: &str, headers: &str) -> Answer {
    let request = request(&format!("GET {path}"), headers, None);
    Connection::open(system.console()).exchange(&request)
}

fn send(system: &System, path: &str, headers: &str, fields: &str) -> Answer {
    let of_form = format!(
        "{headers}content-type: application/x-www-form-urlencoded\r\ncontent-length: {}\r\n",
        fields.len()
    );
    let head = request(&format!("POST {path}"), &of_form, None);
    Connection::open(system.console()).exchange(&[&head, fields.as_bytes()].concat())
}

/// `name=value` of the cookie that an answer sets.
fn cookie_of(answer: &Answer) -> String {
    let cookie = answer.header("set-cookie").expect("a cookie");
    for attribute in ["HttpOnly; SameSite=Strict;", "Path=/"] {
        assert!(cookie.contains(attribute), "{cookie}");
    }
    assert_eq!(cookie.starts_with("__Host-"), cookie.contains("Secure;"), "{cookie}");
    cookie.split(';').next().expect("a value").to_owned()
}

/// The code of the demo's first log-in, which its banner prints.
fn first_code(home: &Rc<Home>) -> String {
    let printed = home.read("stdout") + &home.read("stderr");
    let (_, rest) = printed.split_once("/login?code=").expect("the banner has the link");
    rest.split_whitespace().next().expect("a code").to_owned()
}

/// Makes a token and waits until it is known.
fn token_of(system: &System, name: &str, role: &str) -> String {
    let token = system.payfold(&["token", "add", name, "--role", role]).ok().trim().to_owned();
    let header = format!("authorization: Bearer {token}\r\n");
    let known = || {
        let answer = system.ask_admin(&request("GET /v1/person", &header, None));
        (answer.status == 200).then(|| answer.json())
    };
    let person = until("the token is known", SOON, known);
    assert_eq!((person["name"].as_str(), person["role"].as_str()), (Some(name), Some(role)));
    token
}

#[test]
fn an_order_is_found_by_what_a_person_has_of_it() {
    let system = System::demo();
    system.payfold(&["demo", "pay", "--count", "2"]).ok();
    let visitor = Visitor::log_in(&system, &first_code(system.home()));
    let page = visitor.json("/orders").json();
    let token = format!("authorization: Bearer {}\r\n", system.home().data_file("admin.token"));
    let listed = system
        .ask_admin(&request("GET /v1/orders?limit=100&newestFirst=true", &token, None))
        .json();
    assert_eq!(page, listed, "the page has what the admin listener answers");
    let order = &listed["orders"][0];
    let text = |name: &str| order[name].as_str().expect("a text");
    let path = format!("/orders/sandbox/DEMO/{}", text("orderId"));
    let key = format!("sandbox/DEMO/{}", text("orderId"));
    for what in [&key, text("orderId"), text("reference"), text("sessionRef")] {
        let found = visitor.get(&format!("/search?what={what}"));
        assert_eq!((found.status, found.header("location")), (303, Some(&*path)), "{what}");
    }
    let page = visitor.get(&path).text();
    let more = order["amount"].as_i64().expect("an amount") - 10_000;
    let paid = format!("Paid 10,{more:03} VND on 20");
    let for_payer = format!("We have received your payment of 10,{more:03} VND on 20");
    for said in [&*paid, ": deliver.", &for_payer] {
        assert!(page.contains(said), "{said}: {page}");
    }
    let content = visitor.json(&path).json();
    assert_eq!(content["order"]["orderId"], order["orderId"]);
    let kinds: Vec<_> = (content["facts"].as_array().expect("facts").iter())
        .map(|row| row["effect"].as_str().expect("an effect"))
        .collect();
    assert!(kinds.contains(&"PENDING → PAID"), "{kinds:?}");
    let none = visitor.get("/search?what=o-none");
    assert_eq!(none.status, 200);
    assert!(none.text().contains("There is none."), "{}", none.text());
    let expired = visitor.json("/orders?state=EXPIRED&flag=").json();
    assert_eq!(expired["orders"], serde_json::json!([]));
}

#[test]
fn each_attack_is_refused() {
    let system = System::demo();
    let code = first_code(system.home());
    let visitor = Visitor::log_in(&system, &code);
    let again = send(&system, "/login", ORIGIN, &format!("token={code}"));
    assert_eq!(again.status, 401, "the link works once");
    let form = format!("post_token={}", visitor.post_token());
    let sealed = visitor.cookie.clone();
    let changed = format!("cookie: {}A\r\n", &sealed[..sealed.len() - 1]);
    for (headers, status) in [("", 303), (&*changed, 303), ("cookie: console_8083=\r\n", 303)] {
        let answer = open(&system, "/orders?state=PAID", headers);
        assert_eq!(answer.status, status, "{headers}");
        assert_eq!(answer.header("location"), Some("/login?next=%2Forders%3Fstate%3DPAID"));
    }
    assert_eq!(open(&system, "/orders", "accept: application/json\r\n").status, 401);
    let led = open(&system, "/orders?state=PAID", "sec-fetch-site: cross-site\r\n");
    assert_eq!(
        led.status, 200,
        "a link in a chat: browsers send the cookie with the second request"
    );
    assert!(led.text().contains("content=\"0; url=/orders?state=PAID\""), "{}", led.text());
    for (headers, fields, status) in [
        ("", &*form, 403),
        ("origin: http://evil.test\r\n", &form, 403),
        ("origin: null\r\n", &form, 403),
        ("origin: https://payfold\r\n", &form, 403),
        (ORIGIN, "post_token=00", 403),
        (ORIGIN, "", 400),
        (ORIGIN, &*"x".repeat(40_000), 400),
    ] {
        let answer = visitor.send("/logout", headers, fields);
        assert_eq!(answer.status, status, "{headers}: {}", answer.text());
        assert!(answer.header("set-cookie").is_none(), "the session goes on");
    }
    for origin in ["", "origin: http://evil.test\r\n"] {
        assert_eq!(send(&system, "/login", origin, "token=x").status, 403, "{origin}");
    }
    let token = system.home().data_file("admin.token");
    for next in ["//evil.test", "https://evil.test", "%2F%5Cevil.test"] {
        let answer = send(&system, "/login", ORIGIN, &format!("token={token}&next={next}"));
        assert_eq!(answer.header("location"), Some("/"), "{next}");
    }
    let answer = visitor.get("/search?what=%3Cscript%3Ealert(1)%3C%2Fscript%3E");
    assert!(answer.text().contains("&lt;script&gt;alert(1)"), "{}", answer.text());
    for path in ["/orders", "/login", "/style.css", "/none", "/orders?state=PAIDD"] {
        let answer = visitor.get(path);
        let policy = answer.header("content-security-policy").expect("a policy");
        assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(answer.header("referrer-policy"), Some("same-origin"), "{path}");
        let kept = if path == "/style.css" { "max-age=300" } else { "no-store" };
        assert_eq!(answer.header("cache-control"), Some(kept), "{path}");
        assert!(!answer.text().contains(&*token), "no page shows a token");
    }
    for (path, said) in [
        ("/orders/..%2F..%2Fx/y/z", "There is no page at"),
        ("/orders/../acme/o-1", "There is no page at"),
        ("/orders/a/b/%2E%2E", "names nothing"),
        ("/comparisons/..%2F..%2Forders", "is not known any more"),
    ] {
        let answer = visitor.get(path);
        assert_eq!(answer.status, 404, "{path} is no other call's: {}", answer.text());
        assert!(answer.text().contains(said), "{path}: {}", answer.text());
    }
    assert!(!system.home().log().contains(&*token), "no log line shows a token");
    let left = visitor.send("/logout", ORIGIN, &form);
    assert_eq!((left.status, left.header("location")), (303, Some("/login")));
    assert!(left.header("set-cookie").is_some_and(|cookie| cookie.contains("Max-Age=0")));
}

#[test]
fn a_session_ends_with_its_token() {
    let system = System::demo();
    let token = token_of(&system, "ann", "viewer");
    let visitor = Visitor::log_in(&system, &token);
    assert!(visitor.get("/orders").text().contains("ann (viewer)"));
    system.payfold(&["token", "retire", "ann"]).ok();
    until("the token is retired", SOON, || (visitor.get("/orders").status == 303).then_some(()));
    let over = visitor.get("/orders/a/b/c");
    assert_eq!(over.header("location"), Some("/login?next=%2Forders%2Fa%2Fb%2Fc"));
    let refused = send(&system, "/login", ORIGIN, &format!("token={token}"));
    assert_eq!(refused.status, 401);
    assert!(refused.text().contains("This token is not known."), "{}", refused.text());
}

#[test]
fn what_a_person_typed_is_on_the_page_that_does_not_take_it() {
    let home = Home::configured("");
    let system = System::demo();
    let admin_urls = format!("http://{}", system.admin());
    let apart = home.boot_as("console", &[("PAYFOLD_CONSOLE__ADMIN_URLS", &admin_urls)]);
    let token = token_of(&system, "ann", "operator");
    let visitor = Visitor::log_in(&apart, &token);
    let form = "reason=ask+%3Cb%3E+first";
    let own = format!("{form}&post_token={}", visitor.post_token());
    let over = "Your session is over";
    let of_finding = "/login?next=%2Ffindings%2Fabc";
    let assert_typed = |answer: &Answer, status: u16, said: &[&str]| {
        let page = answer.text();
        assert_eq!(answer.status, status, "{page}");
        for said in said.iter().chain(&["ask &lt;b&gt; first"]) {
            assert!(page.contains(said), "{said}: {page}");
        }
    };
    let without = |path: &str, fields: &str| send(&apart, path, ORIGIN, fields);
    let answer = without("/decisions", &format!("{form}&back=/findings/abc"));
    assert_typed(&answer, 401, &[over, of_finding]);
    let answer = without("/bytes/intake/0-1", &format!("{form}&back=//evil.test"));
    assert_typed(&answer, 401, &[over, "href=\"/login?next=%2F\""]);
    assert_typed(&visitor.send("/bytes/intake/0-1", ORIGIN, form), 400, &["/bytes/intake/0-1"]);
    assert!(!visitor.send("/bytes/intake/0-1", "", &own).text().contains("first"));
    let huge = visitor.send("/decisions", ORIGIN, &"x".repeat(300_000));
    assert_eq!(huge.status, 400, "{}", huge.text());
    assert!(huge.header("content-security-policy").is_some(), "{}", huge.text());
    system.kill();
    let answer = visitor.send("/bytes/intake/0-1", ORIGIN, &own);
    assert_typed(&answer, 502, &["The system does not answer"]);
}

/// A process that serves nothing but the console, beside the system it shows.
#[test]
fn a_console_apart_reports_that_the_system_does_not_answer() {
    let system = System::demo();
    let token = token_of(&system, "ann", "viewer");
    let admin_urls = format!("http://127.0.0.1:1,http://{}", system.admin());
    let home = Home::configured("");
    let apart = home.boot_as("console", &[("PAYFOLD_CONSOLE__ADMIN_URLS", &admin_urls)]);
    let visitor = Visitor::log_in(&apart, &token);
    assert_eq!(visitor.get("/orders").status, 200, "the second listener answers");
    let missing = visitor.get("/orders/sandbox/DEMO/none");
    assert_eq!(missing.status, 404);
    assert!(
        missing.text().contains("order sandbox/DEMO/none does not exist"),
        "{}",
        missing.text()
    );
    system.kill();
    let away = visitor.get("/orders");
    assert_eq!(away.status, 502);
    assert!(away.text().contains("The system does not answer"), "{}", away.text());
    let away = visitor.json("/orders");
    assert_eq!((away.status, away.json()["status"].as_u64()), (502, Some(502)));
}

#[test]
fn a_console_that_would_show_tokens_or_nothing_does_not_start() {
    const LISTEN: &str = "PAYFOLD_LISTEN_CONSOLE";
    const URL: &str = "PAYFOLD_CONSOLE__URL";
    const ADMIN: (&str, &str) = ("PAYFOLD_CONSOLE__ADMIN_URLS", "http://127.0.0.1:1");
    const EVERYWHERE: (&str, &str) = (LISTEN, "0.0.0.0:0");
    const DEV: (&str, &str) = ("PAYFOLD_DEV", "true");
    for (environment, words) in [
        (&[ADMIN, EVERYWHERE][..], ["people's tokens need TLS", "console.url"]),
        (&[ADMIN, EVERYWHERE, (URL, "http://localhost")], ["people's tokens need TLS", "TLS"]),
        (
            &[ADMIN, EVERYWHERE, DEV, (URL, "http://pay.example.com")],
            ["people's tokens need TLS", "console.url"],
        ),
        (&[ADMIN, (URL, "http://pay.example.com")], ["is no https address", "console.url"]),
        (&[ADMIN, (URL, "pay.example.com")], ["is no https address", "console.url"]),
        (&[(ADMIN.0, "10.0.0.5:9464")], ["no http or https address", "http://HOST"]),
        (
            &[ADMIN, ("PAYFOLD_CONSOLE__SESSION_KEY_FILE", "payfold.toml")],
            ["is no key of 64 bytes", "openssl"],
        ),
        (&[], ["console.admin_urls is empty", "reconciler and projector"]),
    ] {
        let toml = "listen_admin = \"127.0.0.1:0\"";
        let home = Home::configured(toml);
        let listen = (LISTEN, "127.0.0.1:0");
        let environment = [&[listen], environment].concat();
        home.ends(&["run", "--roles", "console"], &environment, START_MAX).fails(&words);
    }
    // The port of a container that somebody tries is published on their machine.
    let home = Home::configured("listen_admin = \"127.0.0.1:0\"");
    home.boot_as("console", &[ADMIN, EVERYWHERE, DEV, (URL, "http://127.0.0.1:8083")]);
}
