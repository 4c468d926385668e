//! Owns a person's session: their token, sealed in a cookie that only the console can open. It ends
//! after 12 hours, or after 30 minutes without a request of the person.

use std::fmt;

use actix_web::cookie::time::Duration as CookieAge;
use actix_web::cookie::{Cookie, CookieJar, Key, SameSite};
use payfold_api::call::Call;
use payfold_api::reads::Person;
use payfold_schemas::time::Time;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

/// How long a session lasts at most: 12 h.
const LENGTH_MS: i64 = 12 * 3_600_000;
/// How long a session lasts without a request: 30 min.
const IDLE_MS: i64 = 30 * 60_000;
/// How far the clocks of two processes may differ: 30 s.
const SKEW_MS: i64 = 30_000;
/// After this time a cookie is renewed, so that not every answer sets one: 1 min.
const RENEW_MS: i64 = 60_000;

/// A person's session.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Session {
    /// The person's admin token.
    pub(crate) token: Zeroizing<String>,
    /// Who they are.
    pub(crate) person: Person,
    /// The token that each of their forms carries: another site doesn't know it.
    pub(crate) post_token: String,
    since: Time,
    used: Time,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("person", &self.person).finish_non_exhaustive()
    }
}

/// How the cookie of a session is sealed and sent.
#[derive(Clone, Copy)]
pub(crate) struct SessionCookie<'k> {
    /// Seals it.
    pub(crate) key: &'k Key,
    /// Whether browsers reach the console over TLS.
    pub(crate) is_secure: bool,
    pub(crate) name: &'k str,
}

impl Session {
    /// A session that begins now.
    pub(crate) fn new(token: Zeroizing<String>, person: Person, now: Time) -> Self {
        let mut random = [0; 16];
        getrandom::fill(&mut random).expect("the system has given randomness since the start");
        let post_token = hex::encode(random);
        Self { token, person, post_token, since: now, used: now }
    }

    /// Whether the person may make a call: what they may not, their pages don't offer.
    pub(crate) fn may<Q, A>(&self, call: &Call<Q, A>) -> bool {
        call.permission.is_of(self.person.role)
    }

    /// Whether it has not ended.
    fn is_open(&self, now: Time) -> bool {
        let age = now.unix_ms() - self.since.unix_ms();
        let idle = now.unix_ms() - self.used.unix_ms();
        (-SKEW_MS..LENGTH_MS).contains(&age) && (-SKEW_MS..IDLE_MS).contains(&idle)
    }

    /// The session with its last use now; `None` while its cookie is new enough.
    pub(crate) fn renewed(&self, now: Time) -> Option<Self> {
        let is_old = now.unix_ms() - self.used.unix_ms() >= RENEW_MS;
        is_old.then(|| Self { used: now, ..self.clone() })
    }
}

impl SessionCookie<'_> {
    /// Seals a session.
    pub(crate) fn seal(self, session: &Session) -> Cookie<'static> {
        let content = serde_json::to_string(session).expect("a session has only texts");
        let mut jar = CookieJar::new();
        jar.private_mut(self.key).add(self.cookie(content));
        jar.get(self.name).expect("it was added just now").clone()
    }

    /// Opens a sealed session; `None` if it was not sealed with this key, or has ended.
    pub(crate) fn open(self, cookie: Cookie<'static>, now: Time) -> Option<Session> {
        let mut jar = CookieJar::new();
        jar.add_original(cookie);
        let opened = jar.private(self.key).get(self.name)?;
        let session: Session = serde_json::from_str(opened.value()).ok()?;
        session.is_open(now).then_some(session)
    }

    /// A cookie that ends the session in the browser.
    pub(crate) fn removal(self) -> Cookie<'static> {
        let mut cookie = self.cookie(String::new());
        cookie.set_max_age(CookieAge::ZERO);
        cookie
    }

    fn cookie(self, content: String) -> Cookie<'static> {
        Cookie::build(self.name.to_owned(), content)
            .path("/")
            .http_only(true)
            .same_site(SameSite::Strict)
            .secure(self.is_secure)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use payfold_schemas::ids::Author;
    use payfold_schemas::token::TokenRole;

    use super::*;

    const TOKEN: &str = "a token of a test";

    fn session(at: Time) -> Session {
        let person = Person { name: Author::parse("ann").unwrap(), role: TokenRole::Viewer };
        Session::new(Zeroizing::new(TOKEN.to_owned()), person, at)
    }

    fn at(minutes: i64) -> Time {
        Time::from_unix_ms(minutes * 60_000)
    }

    #[test]
    fn a_session_ends_after_a_time_and_unused() {
        let key = Key::generate();
        let cookie = SessionCookie { key: &key, is_secure: true, name: "session" };
        let begun = session(at(0));
        let opens = |session: &Session, now| cookie.open(cookie.seal(session), now).is_some();
        for (minute, is_open) in [(0, true), (29, true), (30, false), (-1, false)] {
            assert_eq!(opens(&begun, at(minute)), is_open, "{minute}");
        }
        assert!(begun.renewed(Time::from_unix_ms(59_999)).is_none());
        let used = begun.renewed(at(12 * 60 - 1)).unwrap();
        assert!(opens(&used, at(12 * 60 - 1)));
        assert!(!opens(&used, at(12 * 60)), "used, and yet too old");
        assert_eq!(used.post_token, begun.post_token);
    }

    #[test]
    fn a_cookie_shows_no_token_and_only_its_key_opens_it() {
        let (key, another) = (Key::generate(), Key::generate());
        let cookie = SessionCookie { key: &key, is_secure: true, name: "session" };
        let sealed = cookie.seal(&session(at(0)));
        assert!(!sealed.value().contains(TOKEN));
        let opened = cookie.open(sealed.clone(), at(0)).unwrap();
        assert_eq!(&**opened.token, TOKEN);
        let other = SessionCookie { key: &another, ..cookie };
        assert!(other.open(sealed.clone(), at(0)).is_none());
        let mut changed = sealed.clone();
        changed.set_value(format!("{}A", sealed.value()));
        assert!(cookie.open(changed, at(0)).is_none());
        assert!(!format!("{opened:?}").contains(TOKEN));
    }

    #[test]
    fn browsers_get_the_strictest_cookie_that_they_take() {
        let key = Key::generate();
        for is_secure in [true, false] {
            let cookie = SessionCookie { key: &key, is_secure, name: "session" };
            for sent in [cookie.seal(&session(at(0))), cookie.removal()] {
                assert_eq!((sent.name(), sent.path()), ("session", Some("/")));
                assert_eq!(sent.http_only(), Some(true));
                assert_eq!(sent.same_site(), Some(SameSite::Strict));
                assert_eq!((sent.secure(), sent.domain()), (Some(is_secure), None));
            }
            assert_eq!(cookie.removal().max_age(), Some(CookieAge::ZERO));
        }
    }
}
