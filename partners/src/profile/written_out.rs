//! Owns the default scheme written out as a custom scheme: `[signature]`, `[create]` and `[query]`
//! in the language of `[[sign]]` and `[map]`. The scheme of a default profile is compiled from this
//! text, so that one engine runs both kinds. Pure.

use std::fmt::{self, Write as _};

use payfold_schemas::ipn::Status;

use super::common::CommonRules;
use super::create::{CreateField, CreateRule};
use super::default_scheme::DefaultScheme;
use super::query::{QueryField, QueryRule, StatusMeaning};
use super::time::{TimeKind, TimeRule};
use crate::field::Field;
use crate::limits::BodyLimits;
use crate::mac::HexCase;

/// A custom scheme with the same signatures, calls and meanings. Its version, stage and nonce are
/// placeholders; those of the profile itself apply.
pub(super) fn written_out(common: &CommonRules, default: &DefaultScheme) -> String {
    let mut text = String::new();
    let writer = SchemeWriter { limits: common.limits, time: &common.time, default };
    write(&writer, &mut text).expect("writing to a String does not fail");
    text
}

/// The additional condition of SUCCESS: the notice has a time of payment.
const PAID: &str = ", { value = \"{f.paidAt}\", present = true }";

struct SchemeWriter<'p> {
    limits: BodyLimits,
    time: &'p TimeRule,
    default: &'p DefaultScheme,
}

fn write(writer: &SchemeWriter<'_>, to: &mut String) -> fmt::Result {
    let BodyLimits { body_bytes, depth, keys } = writer.limits;
    writeln!(
        to,
        "version = 1\nlanguage = 1\nstage = \"draft\"\nnonce = \"optional\"\n\
         [limits]\nbody_bytes = {body_bytes}\ndepth = {depth}\nkeys = {keys}\n\
         [notice]\ncontent = \"json\"\ncase = \"same\""
    )?;
    let signed =
        writer.joined(writer.default.signed_fields.iter().map(|field| format!("{{f.{field}}}")));
    let output = writer.output_name();
    writeln!(
        to,
        "[[sign]]\nname = \"contract\"\nalgorithm = \"hmac-sha256\"\noutput = \"{output}\"\n\
         signature = \"{{f.signature}}\"\ntext = {signed}"
    )?;
    writer.fields(to)?;
    to.push_str(
        r#"
[map]
merchant = "{f.merchantCode}"
order = "{f.orderId}"
ref = "{f.providerRef}"
amount = "{f.amount}"
currency = "{f.currency}"
paid_at = "{f.paidAt}"
paid_at_format = "rfc3339"
nonce = "{f.nonce}"
refunds = "each"
"#,
    );
    for status in Status::ALL {
        let name = status.as_str();
        let paid = if status == Status::Success { PAID } else { "" };
        writeln!(
            to,
            "[[event]]\nwhen = [{{ value = \"{{f.status}}\", is = \"{name}\" }}{paid}]\n\
             outcome = \"{name}\""
        )?;
    }
    writeln!(to, "[[event]]\noutcome = \"refuse\"")?;
    writer.time(to)?;
    if let Some(rule) = &writer.default.create {
        writer.create(rule, to)?;
    }
    if let Some(rule) = &writer.default.query {
        writer.query(rule, to)?;
    }
    Ok(())
}

impl SchemeWriter<'_> {
    fn separator(&self) -> char {
        char::from(self.default.separator)
    }

    fn output_name(&self) -> &'static str {
        match self.default.output {
            HexCase::Lower => "hex-lower",
            HexCase::Upper => "hex-upper",
        }
    }

    /// Tokens with the separator between them, as a TOML string.
    fn joined(&self, tokens: impl Iterator<Item = String>) -> String {
        let separator = template(&self.separator().to_string());
        quoted(&tokens.collect::<Vec<_>>().join(&separator))
    }

    /// The patterns of the signed values. No value matches the separator, so that the signed text
    /// can be read in one way only.
    fn fields(&self, to: &mut String) -> fmt::Result {
        let mark = regex::escape(&self.separator().to_string());
        let (no_mark, no_mark_or_nothing) = (format!("[^{mark}]+"), format!("[^{mark}]*"));
        for field in &self.default.signed_fields {
            let (kind, pattern) = match field {
                Field::Signature => continue,
                Field::MerchantCode | Field::OrderId | Field::ProviderRef | Field::Timestamp => {
                    ("string", &*no_mark)
                }
                Field::PaidAt | Field::Nonce => ("string", &*no_mark_or_nothing),
                Field::Status => ("string", "[A-Z]+"),
                Field::Amount => ("number", &*no_mark),
                Field::Currency => ("string", "[A-Z]{3}"),
            };
            let pattern = quoted(pattern);
            writeln!(
                to,
                "[[field]]\nat = \"{{f.{field}}}\"\ntype = \"{kind}\"\npattern = {pattern}\n\
                 refuse_empty = true"
            )?;
        }
        Ok(())
    }

    fn time(&self, to: &mut String) -> fmt::Result {
        let TimeRule { kind, field, skew_ms, max_age_ms } = self.time;
        let kind = match kind {
            TimeKind::None => "none",
            TimeKind::Event => "event",
            TimeKind::Delivery => "delivery",
        };
        writeln!(to, "[time]\nkind = \"{kind}\"")?;
        if let Some(field) = field {
            let skew_s = skew_ms / 1_000;
            writeln!(to, "value = \"{{f.{field}}}\"\nformat = \"rfc3339\"\nskew_s = {skew_s}")?;
        }
        if let Some(max_age_ms) = max_age_ms {
            writeln!(to, "max_age_s = {}", max_age_ms / 1_000)?;
        }
        Ok(())
    }

    fn create(&self, rule: &CreateRule, to: &mut String) -> fmt::Result {
        let path = quoted(&template(&rule.path));
        let (timeout_s, bytes) = (rule.timeout_ms / 1_000, rule.answer_bytes_max);
        let (grace_s, session_s) = (rule.grace_ms / 1_000, rule.max_session_ms / 1_000);
        let body = quoted(&create_body(rule));
        writeln!(
            to,
            "[create]\nkind = \"call\"\nmethod = \"POST\"\npath = {path}\ncontent = \"json\"\n\
             body = {body}\n\
             amount_unit = \"minor\"\nexpiry = \"response\"\nttl_s = {}\ntimeout_s = {timeout_s}\n\
             answer_bytes = {bytes}\ngrace_s = {grace_s}\nmax_session_s = {session_s}",
            session_s.max(60)
        )?;
        let signed = rule.signed_fields.iter().map(|field| format!("{{{}}}", create_value(*field)));
        self.sign("create", self.joined(signed), to)?;
        to.push_str(
            r#"
[create.answer]
strict = true
ref = "{a.providerRef}"
redirect = "{a.redirectUrl}"
qr = "{a.qrPayload}"
expires = "{a.expiresAt}"
expires_format = "rfc3339"
"#,
        );
        Ok(())
    }

    fn query(&self, rule: &QueryRule, to: &mut String) -> fmt::Result {
        let path = quoted(&format!(
            "{}[/{{ref}}]?merchantCode={{merchant}}[&orderId={{order_without_ref}}]&\
             timestamp={{now}}&signature={{sign}}",
            template(&rule.path)
        ));
        let (timeout_s, bytes) = (rule.timeout_ms / 1_000, rule.answer_bytes_max);
        writeln!(
            to,
            "[query]\nmethod = \"GET\"\npath = {path}\nstrict = true\ntimeout_s = {timeout_s}\n\
             answer_bytes = {bytes}\n\
             at_once = {}\nper_s = {}",
            rule.pace.at_once, rule.pace.per_s
        )?;
        let value = |field: &QueryField| match field {
            QueryField::MerchantCode => "{merchant}",
            QueryField::ProviderRef => "{ref}",
            QueryField::OrderId => "{order_without_ref}",
            QueryField::Timestamp => "{now}",
        };
        let signed = rule.signed_fields.iter().map(|field| value(field).to_owned());
        self.sign("query", self.joined(signed), to)?;
        to.push_str(
            r#"
[query.map]
merchant = "{a.merchantCode}"
order = "{a.orderId}"
ref = "{a.providerRef}"
amount = "{a.amount}"
currency = "{a.currency}"
"#,
        );
        for (code, meaning) in &rule.statuses {
            let code = quoted(code);
            let outcome = match meaning {
                StatusMeaning::Pending => "pending",
                StatusMeaning::Unknown => "unknown",
                StatusMeaning::Terminal(status) => status.as_str(),
            };
            writeln!(
                to,
                "[[query.event]]\nwhen = [{{ value = \"{{a.status}}\", is = {code} }}]\n\
                 outcome = \"{outcome}\""
            )?;
        }
        Ok(())
    }

    fn sign(&self, section: &str, text: String, to: &mut String) -> fmt::Result {
        let (output, separator) = (self.output_name(), quoted(&self.separator().to_string()));
        writeln!(
            to,
            "[{section}.sign]\nalgorithm = \"hmac-sha256\"\noutput = \"{output}\"\n\
             separator = {separator}\ntext = {text}"
        )
    }
}

/// The JSON body of the create call, in the order of the contract's table (2.1). An absent field is
/// left out.
fn create_body(rule: &CreateRule) -> String {
    let member = |field: CreateField| {
        let (name, value) = (field.name(), create_value(field));
        match field {
            CreateField::MerchantCode => format!("\"{name}\":\"{{{value}}}\""),
            CreateField::Amount => format!(",\"{name}\":{{{value}}}"),
            CreateField::ExpiresAt => format!("[,\"{name}\":\"{{{value}}}\"]"),
            _ => format!(",\"{name}\":\"{{{value}}}\""),
        }
    };
    let members: String = CreateField::ALL.map(member).concat();
    let name = rule.presentation_field.as_ref();
    let presentation =
        name.map(|name| format!("[,\"{name}\":\"{{presentation}}\"]")).unwrap_or_default();
    format!("{{{{{members}{presentation},\"signature\":\"{{sign}}\"}}}}")
}

/// The value of a field in the language of `[create]`.
fn create_value(field: CreateField) -> &'static str {
    match field {
        CreateField::MerchantCode => "merchant",
        CreateField::OrderId => "order",
        CreateField::Amount => "amount",
        CreateField::Currency => "currency",
        CreateField::Description => "description",
        CreateField::ReturnUrl => "return_url",
        CreateField::IpnUrl => "ipn_url",
        CreateField::ExpiresAt => "expires_asked",
    }
}

/// Escapes a text for a template.
fn template(text: &str) -> String {
    let double = |c| match c {
        '{' | '}' | '[' | ']' => format!("{c}{c}"),
        c => c.to_string(),
    };
    text.chars().map(double).collect()
}

/// A text as a TOML string.
fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}
