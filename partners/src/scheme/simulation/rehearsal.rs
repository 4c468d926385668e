//! Rehearses a profile before it is played: a sample of each message is written and read back.

use payfold_schemas::ids::{OrderId, ProviderRef};
use payfold_schemas::ipn::Status;
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::time::Time;

use super::answer::SimulatedOffer;
use super::error::SimulationError;
use super::notice::{NoticeValues, PaymentValues};
use crate::create::CreateRequest;
use crate::directory::account::Account;
use crate::query::PaymentQuery;
use crate::scheme::call::rule::CallRule;
use crate::scheme::call::{CallBuildError, CallRequest, RequestBuilder};
use crate::scheme::create::rule::SchemeCreate;
use crate::scheme::request::NoticeRequest;

/// The order of the sample. Its id is of the kind that `checkout` makes.
const ORDER: &str = "ord-019c137e-c100-7abc-8000-00000000000f";
/// A whole number of every currency's unit.
const AMOUNT: i64 = 1_000_000;

impl Account {
    /// Checks whether a simulated partner at `url` can play this account at `now`. Errors: what it
    /// can't do, or what the account lacks.
    pub fn check_simulation(&self, url: &str, now: Time) -> Result<(), SimulationError> {
        let scheme = self.profile().scheme();
        let refused = SimulationError::unplayable;
        let create = scheme.create.as_ref().filter(|create| create.offer.is_some());
        let Some(create) = create else {
            return Err(refused("[create]", "the profile makes no call to create a payment"));
        };
        if scheme.oauth.is_some() {
            return Err(refused("[oauth]", "a simulated partner issues no access tokens"));
        }
        if let Some(rule) = scheme.documents.iter().find(|rule| rule.decrypt.is_some()) {
            let part = format!("[[document]] {}", rule.name);
            return Err(refused(&part, "a simulated partner encrypts nothing"));
        }
        let currency = create.currencies.keys().next().map_or("VND", String::as_str);
        let sample = Sample {
            account: self,
            url,
            now,
            amount: Amount::from_minor(AMOUNT).expect("a sample amount"),
            currency: Currency::parse(currency)
                .map_err(|_| refused("create.currencies", "no currency of ISO 4217"))?,
        };
        sample.rehearse_create(create)?;
        sample.rehearse_notice()?;
        sample.rehearse_query()
    }
}

/// A sample payment of an account.
struct Sample<'a> {
    account: &'a Account,
    /// Where the simulated partner is.
    url: &'a str,
    now: Time,
    amount: Amount,
    currency: Currency,
}

impl Sample<'_> {
    fn order_id(&self) -> OrderId {
        OrderId::parse(ORDER).expect("a sample id")
    }

    /// A name of a transaction that the partner's notices take.
    fn provider_ref(&self) -> &'static str {
        let usual = "sbx-019c137e-c100-7abc-8000-00000000000f";
        if self.account.takes_ref(usual) { usual } else { "1" }
    }

    fn build(&self, rule: &CallRule, values: Vec<String>) -> Result<CallRequest, CallBuildError> {
        let builder = RequestBuilder::of(
            self.account,
            (rule, None),
            self.account.scheme_keys().call_keys(rule, self.now),
            self.url,
        );
        builder.build(values)
    }

    /// Checks that a call comes here.
    fn check_base(&self, section: &str, call: &CallRequest) -> Result<(), SimulationError> {
        if call.base == self.url {
            return Ok(());
        }
        let (base, url) = (&call.base, self.url);
        let why = format!(
            "it leads to {base} and not to the simulated partner at {url}; give the account that \
             address in the constant that base names"
        );
        Err(SimulationError::unplayable(format!("{section} base"), why))
    }

    fn rehearse_create(&self, create: &SchemeCreate) -> Result<(), SimulationError> {
        let refused = |why: &dyn std::fmt::Display| SimulationError::unplayable("[create]", why);
        let request = CreateRequest {
            merchant_code: self.account.merchant_code().clone(),
            order_id: self.order_id(),
            amount: self.amount,
            currency: self.currency,
            description: "Sample".to_owned(),
            return_url: format!("{}/shop/result", self.url),
            ipn_url: format!("{}/shop/result", self.url),
            expires_at: None,
            presentation: None,
            reference: None,
            payer_ip: Some(std::net::Ipv4Addr::LOCALHOST.into()),
        };
        let values = create.values(self.account.profile().scheme(), &request, self.now);
        let (values, asked) = values.map_err(|why| refused(&why))?;
        let call = self.build(&create.rule, values).map_err(|why| refused(&why))?;
        self.check_base("[create]", &call)?;
        let read = self.account.read_create(&received(&call), self.now);
        let read = read.map_err(|why| refused(&why))?;
        if read.order_id != request.order_id || read.amount != request.amount {
            return Err(refused(&"the order or the amount can't be read from its call"));
        }
        let page = "https://pay.example/sample";
        let offer = SimulatedOffer {
            provider_ref: Some(self.provider_ref()),
            redirect_url: Some(page).filter(|_| !is_only_qr(create)),
            qr_payload: Some("sample").filter(|_| is_only_qr(create)),
            expires_at: Some(asked.expires_at),
        };
        let body = self.account.write_offer(&offer, self.now)?;
        match self.account.judge_offer(&asked, &body, self.now) {
            Ok(_) => Ok(()),
            Err(_) => Err(refused(&"an answer that offers a session can't be written")),
        }
    }

    fn payment(&self) -> PaymentValues<'_> {
        PaymentValues {
            merchant_code: self.account.merchant_code().as_str(),
            order_id: ORDER,
            provider_ref: self.provider_ref(),
            amount: self.amount,
            currency: self.currency,
            paid_at: Some(self.now),
        }
    }

    fn rehearse_notice(&self) -> Result<(), SimulationError> {
        let (payment, status) = (self.payment(), Status::Success);
        let values = NoticeValues { payment, status, at: self.now, nonce: Some("sample") };
        self.account.write_notice(self.url, &values, None, self.now).map(drop)
    }

    fn rehearse_query(&self) -> Result<(), SimulationError> {
        let Some(query) = &self.account.profile().scheme().query else { return Ok(()) };
        let refused = |why: &dyn std::fmt::Display| SimulationError::unplayable("[query]", why);
        let question = PaymentQuery {
            merchant_code: self.account.merchant_code().clone(),
            order_id: self.order_id(),
            provider_ref: ProviderRef::parse(self.provider_ref()).ok(),
        };
        let values = query.values(&question, self.now).map_err(|why| refused(&why))?;
        let call = self.build(&query.question, values).map_err(|why| refused(&why))?;
        self.check_base("[query]", &call)?;
        let read = self.account.read_query(&received(&call), self.now);
        let read = read.map_err(|why| refused(&why))?;
        if read.order_id != ORDER && read.provider_ref != self.provider_ref() {
            return Err(refused(&"neither order nor transaction can be read from its call"));
        }
        Ok(())
    }
}

/// Whether the offer is a QR code and never a page.
fn is_only_qr(create: &SchemeCreate) -> bool {
    create.offer.as_ref().is_some_and(|offer| offer.redirect.is_none())
}

fn received(call: &CallRequest) -> NoticeRequest<'_> {
    let (path, query) = call.target.split_once('?').unwrap_or((&call.target, ""));
    NoticeRequest {
        method: call.method.name(),
        base_url: &call.base,
        path,
        query,
        headers: call.headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect(),
        body: &call.body,
    }
}
