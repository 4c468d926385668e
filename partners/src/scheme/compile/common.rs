//! Owns what a partner's own scheme shares with the contract's: version, stage, limits, and how its time is judged.

use payfold_schemas::digest::Digest;
use payfold_schemas::ids::PartnerCode;
use payfold_schemas::record::ProfileStamp;
use toml::Spanned;

use super::{Compiler, LANGUAGE};
use crate::profile::{Common, Limits, NonceRule, TimeKind, TimeRule};
use crate::scheme::file::{HeadFile, SchemeFile, TimeFile};

impl Compiler {
    pub(super) fn common(
        &mut self,
        partner: &PartnerCode,
        text: &str,
        (head, file): (&HeadFile, &SchemeFile),
    ) -> Option<Common> {
        if *head.version.get_ref() == 0 {
            self.wrong(head.version.span(), "version starts at 1");
        }
        if let Some(language) = head.language.as_ref().filter(|l| *l.get_ref() != LANGUAGE) {
            self.wrong(language.span(), format!("this program reads language = {LANGUAGE}"));
        }
        let limits = file.limits.as_ref()?;
        let limits = Limits {
            body_bytes: self.within("limits.body_bytes", &limits.body_bytes, 64..=1_048_576),
            depth: self.within("limits.depth", &limits.depth, 1..=32),
            keys: self.within("limits.keys", &limits.keys, 1..=4_096),
        };
        let retry_horizon_ms = head.retry_horizon_s.as_ref().map_or(0, |seconds| {
            if !(0..=31_536_000).contains(seconds.get_ref()) {
                self.wrong(seconds.span(), "retry_horizon_s must be 0 to 31536000 seconds");
            }
            seconds.get_ref().saturating_mul(1_000)
        });
        let nonce = head.nonce.as_ref().map_or(NonceRule::Unused, |nonce| *nonce.get_ref());
        let digest = Digest::of_bytes(text.as_bytes());
        let version = *head.version.get_ref();
        Some(Common {
            stamp: ProfileStamp { partner: partner.clone(), version, digest },
            stage: head.stage,
            nonce,
            ref_is_session: head.ref_is_session,
            placeholder_refs: head.placeholder_refs.clone(),
            limits,
            time: self.time_rule(file.time.as_ref()?),
            retry_horizon_ms,
            client_certificate: head.client_certificate,
        })
    }

    pub(super) fn within(
        &mut self,
        name: &str,
        value: &Spanned<usize>,
        range: std::ops::RangeInclusive<usize>,
    ) -> usize {
        if !range.contains(value.get_ref()) {
            let problem = format!("{name} must be {} to {}", range.start(), range.end());
            self.wrong(value.span(), problem);
        }
        *value.get_ref()
    }

    fn time_rule(&mut self, time: &Spanned<TimeFile>) -> TimeRule {
        let TimeFile { kind, skew_s, max_age_s, value, .. } = time.get_ref();
        let (kind, span) = (*kind, time.span());
        let skew = skew_s.filter(|seconds| (1..=86_400).contains(seconds));
        let max_age = max_age_s.filter(|seconds| (1..=31_536_000).contains(seconds));
        match kind {
            TimeKind::None if value.is_some() || skew_s.is_some() || max_age_s.is_some() => {
                self.wrong(span, "time.kind = \"none\" takes nothing else; remove the other lines");
            }
            TimeKind::None => {}
            _ if value.is_none() => self.wrong(span, "time.value must say where the time stands"),
            _ if skew.is_none() => {
                self.wrong(span, "time.skew_s must be 1 to 86400 seconds; the contract says 300");
            }
            TimeKind::Event if max_age.is_none() => {
                self.wrong(span, "time.kind = \"event\" needs max_age_s, 1 to 31536000 seconds");
            }
            TimeKind::Delivery if max_age_s.is_some() => {
                self.wrong(span, "time.max_age_s is for kind = \"event\"; remove it");
            }
            TimeKind::Event | TimeKind::Delivery => {}
        }
        let skew_ms = skew.unwrap_or_default() * 1_000;
        TimeRule { kind, field: None, skew_ms, max_age_ms: max_age.map(|seconds| seconds * 1_000) }
    }
}
