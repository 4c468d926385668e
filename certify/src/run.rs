//! Owns a run: it creates all payments at the same time, visits their pages, waits until each
//! payment is finished, and builds the report.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::try_join_all;
use payfold_engines::clock::Clock;
use payfold_partners::create::{CreateRequest, PresentationKind};
use payfold_partners::directory::{Account, Directory};
use payfold_partners::outbound::Reach;
use payfold_partners::remote::{CreateError, CreateOutcome, PartnerClient};
use payfold_sandbox::trouble::Trouble;
use payfold_sandbox::troubles::Troubles;
use payfold_schemas::fact::Presentation;
use payfold_schemas::ids::{MerchantCode, OrderId, PartnerCode};
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::time::Time;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::sleep;
use url::Url;

use super::browser::{Browser, PayerIntent};
use super::judge;
use super::observations::{
    Attestation, ObservedPayment, PageAction, PaymentCase, RunObservations, RunParameters,
    VisitedPage,
};
use super::receiver::Receiver;
use super::report::{Report, ReportSubject};
use super::timeouts::{PaymentWait, ReturnExpected, RunTimeouts};

/// The settings of a run.
pub struct CertifySettings {
    /// Accounts and keys.
    pub directory: Arc<Directory>,
    /// The certified partner.
    pub partner: PartnerCode,
    /// The account at the partner.
    pub merchant_code: MerchantCode,
    /// The base URL of the partner's sandbox API.
    pub api_url: String,
    /// The HTTP clients for create calls and pages.
    pub remote: PartnerClient,
    /// The socket that receives IPNs and returns.
    pub socket: TcpListener,
    /// The base URL at which the partner reaches the socket, such as `https://certify.example.com`.
    pub public_url: String,
    /// The platforms that must be able to frame the hosted page. Empty: the receiver's own origin.
    pub platforms: Vec<Url>,
    /// The amount of every payment, in minor units.
    pub amount: Amount,
    /// The currency of every payment.
    pub currency: Currency,
    /// The faults that a simulated partner is asked to make.
    pub troubles: Option<Troubles>,
    /// Who operates the hosted page.
    pub operator: PageOperator,
    /// What people checked.
    pub attested: Vec<Attestation>,
    /// How long the run waits for IPNs and returns.
    pub timeouts: RunTimeouts,
}

/// Who operates the hosted page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageOperator {
    /// The certifier if the page has a known button, else a person.
    Certifier,
    /// A person. The certifier requests the page once, for its headers.
    Person,
}

/// An event of a run, for progress output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunEvent {
    /// The create call of a payment has ended, with or without success.
    Created(PaymentCase),
    /// A person must open this page or scan this QR code, and pay or cancel.
    PersonNeeded {
        /// The payment.
        case: PaymentCase,
        /// The page's address, or the content of the QR code.
        at: String,
    },
    /// A payment is finished.
    Finished(PaymentCase),
}

/// Why a run can't start. Faults of the partner are findings, not errors.
#[derive(Debug, thiserror::Error)]
pub enum CertifyError {
    /// The account is missing or disabled.
    #[error("there is no enabled account {0}/{1} in the vault")]
    NoAccount(PartnerCode, MerchantCode),
    /// The create call can't be prepared: profile, keys or address.
    #[error(transparent)]
    Call(#[from] CreateError),
    /// The receiver's socket can't be used.
    #[error("the receiver can't listen: {0}")]
    Receiver(#[from] std::io::Error),
    /// The public URL can't be parsed.
    #[error("the public URL can't be used: {0}")]
    PublicUrl(#[from] url::ParseError),
}

struct CertificationRun {
    settings: CertifySettings,
    account: Arc<Account>,
    receiver: Arc<Receiver>,
    clock: Arc<dyn Clock>,
    events: UnboundedSender<RunEvent>,
}

/// Certifies a partner. Must be called on an actix runtime. Errors: `CertifyError`, before the
/// first payment is finished.
pub async fn certify(
    mut settings: CertifySettings,
    clock: Arc<dyn Clock>,
    events: UnboundedSender<RunEvent>,
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
        account: Arc::clone(&account),
        public_url: settings.public_url.clone(),
        clock: Arc::clone(&clock),
        hang: Duration::from_millis(settings.timeouts.hang_ms.unsigned_abs()),
        received: Mutex::default(),
    });
    let server = receiver.serve(settings.socket.try_clone()?)?;
    let started_at = clock.now();
    let run = CertificationRun { settings, account, receiver, clock, events };
    let is_supported = |case: &PaymentCase| {
        *case != PaymentCase::Qr || profile.create_terms().is_some_and(|c| c.asks_presentation)
    };
    let cases = PaymentCase::ALL.into_iter().filter(is_supported);
    let payments = try_join_all(cases.map(|case| run.run_payment(case))).await;
    server.stop(false).await;
    let observed = run.collect_observations(payments?);
    let findings = judge::evaluate_rules(&observed);
    let subject = ReportSubject {
        profile: profile.stamp().clone(),
        stage: profile.stage(),
        merchant_code: run.settings.merchant_code.clone(),
        api_url: run.settings.api_url.clone(),
        started_at,
        finished_at: run.clock.now(),
    };
    Ok(Report::new(subject, &observed, findings))
}

impl CertificationRun {
    fn collect_observations(&self, payments: Vec<ObservedPayment>) -> RunObservations {
        let settings = &self.settings;
        let parameters = RunParameters {
            merchant_code: settings.merchant_code.clone(),
            amount: settings.amount,
            currency: settings.currency,
            profile: Arc::clone(self.account.profile()),
            platforms: settings.platforms.clone(),
        };
        let (attested, strangers) = (settings.attested.clone(), self.receiver.count_strangers());
        RunObservations { parameters, payments, strangers, attested }
    }

    /// Runs one payment from its create call until it is finished.
    async fn run_payment(&self, case: PaymentCase) -> Result<ObservedPayment, CertifyError> {
        // The same kind of id as checkout makes: a profile may send only a part of it.
        let id = format!("ord-{}", self.clock.request_id());
        let order_id = OrderId::parse(&id).expect("an order id may hold a UUID");
        self.receiver.register_order(&order_id, case);
        let request = self.build_request(case, &order_id);
        let (api_url, now) = (&self.settings.api_url, self.clock.now());
        let call = self.settings.remote.prepare_create(&self.account, api_url, &request, now)?;
        let created = call.make(|| self.clock.now()).await;
        let took_ms = self.clock.now().nanos_since(now) / 1_000_000;
        self.emit(RunEvent::Created(case));
        let page = match (&created, case) {
            (CreateOutcome::Opened(_), PaymentCase::Qr) | (CreateOutcome::Failed(_), _) => None,
            (CreateOutcome::Opened(offer), _) => match &offer.presentation {
                Presentation::RedirectUrl(url) => {
                    Some(self.complete_page(case, &request, (&order_id, url)).await)
                }
                Presentation::QrPayload(code) => {
                    self.emit(RunEvent::PersonNeeded { case, at: code.clone() });
                    self.await_payment_end(
                        &order_id,
                        (VisitedPage::default(), None),
                        &self.settings.timeouts,
                    )
                    .await;
                    None
                }
            },
            // The session may exist all the same. Its IPN would arrive soon, so wait only briefly.
            (CreateOutcome::Unknown(_), _) => {
                let all = &self.settings.timeouts;
                let timeouts = RunTimeouts { payer_ms: all.quiet_ms, ..*all };
                self.await_payment_end(&order_id, (VisitedPage::default(), None), &timeouts).await;
                None
            }
        };
        self.emit(RunEvent::Finished(case));
        let (deliveries, returns) = self.receiver.received_for(&order_id);
        Ok(ObservedPayment { case, order_id, created, took_ms, page, deliveries, returns })
    }

    fn emit(&self, events: RunEvent) {
        // The watcher may be gone.
        let _ = self.events.send(events);
    }

    fn build_request(&self, case: PaymentCase, order_id: &OrderId) -> CreateRequest {
        let settings = &self.settings;
        CreateRequest {
            merchant_code: settings.merchant_code.clone(),
            order_id: order_id.clone(),
            amount: settings.amount,
            currency: settings.currency,
            description: describe_payment(case, settings.troubles.as_ref()),
            return_url: self.receiver.return_url(order_id),
            ipn_url: self.receiver.ipn_url(order_id),
            expires_at: None,
            presentation: Some(if case == PaymentCase::Qr {
                PresentationKind::Qr
            } else {
                PresentationKind::Page
            }),
            reference: None,
            // Some partners want one. Where the payer will be is not known.
            payer_ip: Some(Ipv4Addr::LOCALHOST.into()),
        }
    }

    /// Visits a page, asks a person if the certifier can't operate it, and waits until the payment
    /// is finished.
    async fn complete_page(
        &self,
        case: PaymentCase,
        request: &CreateRequest,
        (order_id, url): (&OrderId, &str),
    ) -> VisitedPage {
        let intent =
            if case == PaymentCase::Cancel { PayerIntent::Cancel } else { PayerIntent::Pay };
        let reach = Reach::of(self.account.profile());
        let browser = Browser::new(&self.settings.remote, reach, &request.return_url, intent);
        let mut page = VisitedPage::default();
        match self.settings.operator {
            PageOperator::Certifier => browser.visit(url, &mut page).await,
            PageOperator::Person => browser.fetch_once(url, &mut page).await,
        }
        // A simulated partner with troubles may change its page by itself, so the page is visited
        // again. A real page is not requested repeatedly.
        let again = self.settings.troubles.as_ref().map(|_| (&browser, url));
        if again.is_none() && page.is_shown() && page.action == PageAction::Nothing {
            page.action = PageAction::LeftToPerson;
            self.emit(RunEvent::PersonNeeded { case, at: url.to_owned() });
        }
        self.await_payment_end(order_id, (page, again), &self.settings.timeouts).await
    }

    /// Waits until a payment is finished. With `again`, visits its page repeatedly until an action
    /// succeeds.
    async fn await_payment_end(
        &self,
        order_id: &OrderId,
        (mut page, again): (VisitedPage, Option<(&Browser, &str)>),
        timeouts: &RunTimeouts,
    ) -> VisitedPage {
        let (since, mut acted_at): (Time, Option<Time>) = (self.clock.now(), None);
        loop {
            if acted_at.is_none()
                && page.action != PageAction::Nothing
                && page.action != PageAction::LeftToPerson
            {
                acted_at = Some(self.clock.now());
            }
            let (deliveries, returns) = self.receiver.received_for(order_id);
            let return_expected =
                if page.is_shown() { ReturnExpected::Yes } else { ReturnExpected::No };
            let wait = PaymentWait {
                since,
                acted_at,
                return_expected,
                deliveries: &deliveries,
                returns: &returns,
            };
            if wait.is_finished(self.clock.now(), timeouts) {
                return page;
            }
            if let Some((browser, url)) = again.filter(|_| page.is_shown())
                && page.action == PageAction::Nothing
            {
                browser.visit(url, &mut page).await;
            }
            sleep(Duration::from_millis(timeouts.poll_ms)).await;
        }
    }
}

/// The description of a payment: its case, and the keywords of its troubles after `#`. The
/// cancelled payment gets only troubles that combine with cancelling; the QR payment gets none.
fn describe_payment(case: PaymentCase, troubles: Option<&Troubles>) -> String {
    let keywords = match (case, troubles) {
        (PaymentCase::Qr, _) | (_, None) => None,
        (PaymentCase::Cancel, Some(troubles)) if troubles.answer().is_none() => {
            Troubles::new(troubles.keywords().chain([Trouble::Cancel])).ok()
        }
        (PaymentCase::Cancel, Some(_)) => None,
        (_, Some(troubles)) => Some(troubles.clone()),
    };
    let what = format!("Certification {case}");
    keywords.map_or(what.clone(), |keywords| format!("{what} #{keywords}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_has_the_keywords_of_its_case() {
        let described =
            |case, keywords| describe_payment(case, Some(&Troubles::parse(keywords).unwrap()));
        assert_eq!(describe_payment(PaymentCase::Pay, None), "Certification pay");
        assert_eq!(described(PaymentCase::Busy, "stale"), "Certification pay-503 #stale");
        assert_eq!(described(PaymentCase::Cancel, "stale"), "Certification cancel #cancel+stale");
        assert_eq!(described(PaymentCase::Cancel, "wrong-amount"), "Certification cancel");
        assert_eq!(described(PaymentCase::Cancel, "create-500"), "Certification cancel");
        assert_eq!(described(PaymentCase::Qr, "stale"), "Certification qr");
    }
}
