//! Owns a run: its payments side by side, each created, visited and watched until nothing more is to come, then judged.

use std::collections::HashMap;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use payfold_engines::clock::Clock;
use payfold_partners::create::{CreateRequest, Wish};
use payfold_partners::directory::{Account, Directory};
use payfold_partners::outbound::Reach;
use payfold_partners::remote::{CallError, Created, Remote};
use payfold_schemas::fact::Presentation;
use payfold_schemas::ids::{MerchantCode, OrderId, PartnerCode};
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::time::Time;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::sleep;
use url::Url;

use super::browser::{Browser, Intent};
use super::judge;
use super::patience::{ComesBack, Patience, Waiting};
use super::receiver::Receiver;
use super::report::{Report, Subject};
use super::seen::{Asked, Attestation, Case, Done, Page, Payment, Seen, SessionRef};
use crate::trouble::{Trouble, Troubles};

/// What a run is told.
pub struct Settings {
    /// Accounts and keys.
    pub directory: Arc<Directory>,
    /// Who is certified.
    pub partner: PartnerCode,
    /// Our account there.
    pub merchant_code: MerchantCode,
    /// The API address of the partner's sandbox.
    pub api_url: String,
    /// What calls it and visits its pages.
    pub remote: Remote,
    /// Where IPNs and returns come in.
    pub socket: TcpListener,
    /// How the partner reaches it, `https://certify.example.com`.
    pub public_url: String,
    /// Whose frames the hosted page must stand in; empty = the receiver's own origin.
    pub platforms: Vec<Url>,
    /// Of every payment, minor units.
    pub amount: Amount,
    /// Of every payment.
    pub currency: Currency,
    /// What a simulated partner is asked to do wrong.
    pub troubles: Option<Troubles>,
    /// Who acts at the hosted page.
    pub hands: Hands,
    /// What people have looked at.
    pub attested: Vec<Attestation>,
    /// How long it waits.
    pub patience: Patience,
}

/// Who acts at the hosted page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hands {
    /// The certifier, where the page has a button it knows; else a person.
    Ours,
    /// A person. The page is fetched once, for its headers.
    Person,
}

/// What happens during a run, for whoever watches it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// A payment is created, or could not be.
    Created(Case),
    /// A person is to open this page, or to scan this code, and to pay or to give up.
    Person {
        /// Which payment.
        case: Case,
        /// Its page, or what its code says.
        at: String,
    },
    /// A payment is over.
    Over(Case),
}

/// Why a run can't be made; what the partner does wrong is none of it.
#[derive(Debug, thiserror::Error)]
pub enum CertifyError {
    /// No such account, or it is disabled.
    #[error("there is no enabled account {0}/{1} in the vault")]
    NoAccount(PartnerCode, MerchantCode),
    /// The profile, the keys or the address.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The receiver.
    #[error("the receiver can't listen: {0}")]
    Receiver(#[from] std::io::Error),
    /// The receiver's public address.
    #[error("the public address can't be used: {0}")]
    PublicUrl(#[from] url::ParseError),
}

struct Run {
    settings: Settings,
    account: Arc<Account>,
    receiver: Arc<Receiver>,
    clock: Arc<dyn Clock>,
    news: UnboundedSender<News>,
}

/// Certifies a partner. Must be called on a runtime of actix. Errors: what keeps it from being tried.
pub async fn certify(
    mut settings: Settings,
    clock: Arc<dyn Clock>,
    news: UnboundedSender<News>,
) -> Result<Report, CertifyError> {
    let (partner, merchant) = (&settings.partner, &settings.merchant_code);
    let account = settings.directory.account(partner, merchant).cloned();
    let account =
        account.ok_or_else(|| CertifyError::NoAccount(partner.clone(), merchant.clone()))?;
    let profile = Arc::clone(account.profile());
    settings.public_url = settings.public_url.trim_end_matches('/').to_owned();
    if settings.platforms.is_empty() {
        settings.platforms.push(Url::parse(&settings.public_url)?);
    }
    let receiver = Arc::new(Receiver {
        directory: Arc::clone(&settings.directory),
        partner: settings.partner.clone(),
        profile: Arc::clone(&profile),
        clock: Arc::clone(&clock),
        hang: Duration::from_millis(settings.patience.hang_ms.unsigned_abs()),
        orders: std::sync::Mutex::new(HashMap::new()),
    });
    let server = receiver.serve(settings.socket.try_clone()?)?;
    let started_at = clock.now();
    let run = Run { settings, account, receiver, clock, news };
    let asks_qr = |case: &Case| {
        *case != Case::Qr || profile.create().is_some_and(|c| c.presentation_field.is_some())
    };
    let cases = Case::ALL.into_iter().filter(asks_qr);
    let payments = try_join_all(cases.map(|case| run.play(case))).await;
    server.stop(false).await;
    let seen = run.seen(payments?);
    let findings = judge::judge(&seen);
    let subject = Subject {
        profile: profile.stamp().clone(),
        stage: profile.stage(),
        merchant_code: run.settings.merchant_code.clone(),
        api_url: run.settings.api_url.clone(),
        started_at,
        finished_at: run.clock.now(),
    };
    Ok(Report::new(subject, &seen, findings))
}

impl Run {
    fn seen(&self, payments: Vec<Payment>) -> Seen {
        let profile = self.account.profile();
        let settings = &self.settings;
        let session_ref =
            if profile.policy("").ref_is_session { SessionRef::Same } else { SessionRef::Any };
        let asked = Asked {
            merchant_code: settings.merchant_code.clone(),
            amount: settings.amount,
            currency: settings.currency,
            time: *profile.time(),
            session_ref,
            reach: Reach::of(profile),
            platforms: settings.platforms.clone(),
        };
        Seen { asked, payments, attested: settings.attested.clone() }
    }

    /// One payment from its create call until nothing more is to come.
    async fn play(&self, case: Case) -> Result<Payment, CertifyError> {
        let id = format!("cert-{}", self.clock.request_id());
        let order_id = OrderId::parse(&id).expect("an order id may hold a UUID");
        self.receiver.expect(&order_id, case);
        let request = self.request(case, &order_id);
        let (api_url, now) = (&self.settings.api_url, self.clock.now());
        let call = self.settings.remote.prepare(&self.account, api_url, &request, now)?;
        let created = call.make(|| self.clock.now()).await;
        let took_ms = self.clock.now().nanos_since(now) / 1_000_000;
        self.tell(News::Created(case));
        let page = match (&created, case) {
            (Created::Opened(_), Case::Qr) | (Created::Failed(_), _) => None,
            (Created::Opened(offer), _) => match &offer.presentation {
                Presentation::RedirectUrl(url) => {
                    Some(self.see_through(case, &request, (&order_id, url)).await)
                }
                Presentation::QrPayload(code) => {
                    self.tell(News::Person { case, at: code.clone() });
                    self.wait_for(&order_id, (Page::default(), None), &self.settings.patience)
                        .await;
                    None
                }
            },
            // It may have been made all the same: if nothing comes of it soon, nothing will.
            (Created::Unknown(_), _) => {
                let all = &self.settings.patience;
                let patience = Patience { payer_ms: all.quiet_ms, ..*all };
                self.wait_for(&order_id, (Page::default(), None), &patience).await;
                None
            }
        };
        self.tell(News::Over(case));
        let (deliveries, returns) = self.receiver.of(&order_id);
        Ok(Payment { case, order_id, created, took_ms, page, deliveries, returns })
    }

    fn tell(&self, news: News) {
        // Nobody has to watch.
        let _ = self.news.send(news);
    }

    fn request(&self, case: Case, order_id: &OrderId) -> CreateRequest {
        let (settings, public) = (&self.settings, &self.settings.public_url);
        CreateRequest {
            merchant_code: settings.merchant_code.clone(),
            order_id: order_id.clone(),
            amount: settings.amount,
            currency: settings.currency,
            description: description(case, settings.troubles.as_ref()),
            return_url: format!("{public}/api/payment/result/{order_id}"),
            ipn_url: format!("{public}/api/payment/ipn/{order_id}"),
            expires_at: None,
            wish: Some(if case == Case::Qr { Wish::Qr } else { Wish::Page }),
            reference: None,
            payer_ip: None,
        }
    }

    /// Visits a page, leaves it to a person if nothing can be done there, and waits for what comes of it.
    async fn see_through(
        &self,
        case: Case,
        request: &CreateRequest,
        (order_id, url): (&OrderId, &str),
    ) -> Page {
        let intent = if case == Case::Cancel { Intent::Cancel } else { Intent::Pay };
        let reach = Reach::of(self.account.profile());
        let browser = Browser::new(&self.settings.remote, reach, &request.return_url, intent);
        let mut page = Page::default();
        match self.settings.hands {
            Hands::Ours => browser.visit(url, &mut page).await,
            Hands::Person => browser.look(url, &mut page).await,
        }
        // Only a partner that was asked for trouble acts by itself; a real page is not asked again and again.
        let again = self.settings.troubles.as_ref().map(|_| (&browser, url));
        if again.is_none() && page.is_shown() && page.done == Done::Nothing {
            page.done = Done::LeftToPerson;
            self.tell(News::Person { case, at: url.to_owned() });
        }
        self.wait_for(order_id, (page, again), &self.settings.patience).await
    }

    /// Waits until nothing more is to come of a payment; visits its page again until something could be done there,
    /// if that is asked for.
    async fn wait_for(
        &self,
        order_id: &OrderId,
        (mut page, again): (Page, Option<(&Browser, &str)>),
        patience: &Patience,
    ) -> Page {
        let (since, mut acted_at): (Time, Option<Time>) = (self.clock.now(), None);
        loop {
            if acted_at.is_none() && page.done != Done::Nothing && page.done != Done::LeftToPerson {
                acted_at = Some(self.clock.now());
            }
            let (deliveries, returns) = self.receiver.of(order_id);
            let comes_back = if page.is_shown() { ComesBack::Yes } else { ComesBack::No };
            let waiting =
                Waiting { since, acted_at, comes_back, deliveries: &deliveries, returns: &returns };
            if waiting.is_over(self.clock.now(), patience) {
                return page;
            }
            if let Some((browser, url)) = again.filter(|_| page.is_shown())
                && page.done == Done::Nothing
            {
                browser.visit(url, &mut page).await;
            }
            sleep(Duration::from_millis(patience.look_ms)).await;
        }
    }
}

/// What a payment is for, and the words of trouble behind it. The payment that is given up has those that go with
/// that; the one with a code has none.
fn description(case: Case, troubles: Option<&Troubles>) -> String {
    let words = match (case, troubles) {
        (Case::Qr, _) | (_, None) => None,
        (Case::Cancel, Some(troubles)) if troubles.answer().is_none() => {
            Troubles::new(troubles.words().chain([Trouble::Cancel])).ok()
        }
        (Case::Cancel, Some(_)) => None,
        (_, Some(troubles)) => Some(troubles.clone()),
    };
    let what = format!("Certification {case}");
    words.map_or(what.clone(), |words| format!("{what} #{words}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_where_they_belong() {
        let described = |case, words| description(case, Some(&Troubles::parse(words).unwrap()));
        assert_eq!(description(Case::Pay, None), "Certification pay");
        assert_eq!(described(Case::Busy, "stale"), "Certification pay-503 #stale");
        assert_eq!(described(Case::Cancel, "stale"), "Certification cancel #cancel+stale");
        assert_eq!(described(Case::Cancel, "wrong-amount"), "Certification cancel");
        assert_eq!(described(Case::Cancel, "create-500"), "Certification cancel");
        assert_eq!(described(Case::Qr, "stale"), "Certification qr");
    }
}
