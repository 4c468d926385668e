//! Owns compiling what custom schemes share with the default scheme: version, stage, limits, and
//! how a notice's time is judged.

use payfold_schemas::digest::Digest;
use payfold_schemas::ids::PartnerCode;
use payfold_schemas::notice_source::ProfileStamp;

use crate::limits::BodyLimits;
use crate::profile::bounds::{self, Bounds, MAX_AGE_S, RETRY_HORIZON_S, SKEW_S};
use crate::profile::common::CommonRules;
use crate::profile::rules::NonceRule;
use crate::profile::spanned::Spanned;
use crate::profile::time::{TimeKind, TimeRule};
use crate::scheme::compile::compiler::ProfileCompiler;
use crate::scheme::file::scheme_file::SchemeFile;
use crate::scheme::file::tables::{HeadFile, LANGUAGE, TimeFile};

impl ProfileCompiler {
    pub(super) fn compile_common(
        &mut self,
        partner: &PartnerCode,
        text: &str,
        (head, file): (&HeadFile, &SchemeFile),
    ) -> Option<CommonRules> {
        if *head.version.get_ref() == 0 {
            self.report(head.version.span(), "version starts at 1");
        }
        if let Some(language) = head.language.as_ref().filter(|l| *l.get_ref() != LANGUAGE) {
            self.report(language.span(), format!("this program reads language = {LANGUAGE}"));
        }
        let limits = file.limits.as_ref()?;
        let limits = BodyLimits {
            body_bytes: self.check_bounds(
                "limits.body_bytes",
                &limits.body_bytes,
                bounds::BODY_BYTES,
            ),
            depth: self.check_bounds("limits.depth", &limits.depth, bounds::DEPTH),
            keys: self.check_bounds("limits.keys", &limits.keys, bounds::KEYS),
        };
        let retry_horizon_ms = head.retry_horizon_s.as_ref().map_or(0, |seconds| {
            if !RETRY_HORIZON_S.contain(*seconds.get_ref()) {
                let problem = format!("retry_horizon_s must be {RETRY_HORIZON_S} seconds");
                self.report(seconds.span(), problem);
            }
            seconds.get_ref().saturating_mul(1_000)
        });
        let nonce = head.nonce.as_ref().map_or(NonceRule::Unused, |nonce| *nonce.get_ref());
        let digest = Digest::of_bytes(text.as_bytes());
        let version = *head.version.get_ref();
        Some(CommonRules {
            stamp: ProfileStamp { partner: partner.clone(), version, digest },
            stage: head.stage,
            nonce,
            ref_is_session: head.ref_is_session,
            placeholder_refs: head.placeholder_refs.clone(),
            limits,
            time: self.compile_time_rule(file.time.as_ref()?),
            retry_horizon_ms,
            client_certificate: head.client_certificate,
        })
    }

    pub(super) fn check_bounds(
        &mut self,
        name: &str,
        value: &Spanned<usize>,
        bounds: Bounds,
    ) -> usize {
        if !bounds.contain(*value.get_ref()) {
            self.report(value.span(), format!("{name} must be {bounds}"));
        }
        *value.get_ref()
    }

    fn compile_time_rule(&mut self, time: &Spanned<TimeFile>) -> TimeRule {
        let TimeFile { kind, skew_s, max_age_s, value, .. } = time.get_ref();
        let (kind, span) = (*kind, time.span());
        let skew = skew_s.filter(|seconds| SKEW_S.contain(*seconds));
        let max_age = max_age_s.filter(|seconds| MAX_AGE_S.contain(*seconds));
        match kind {
            TimeKind::None if value.is_some() || skew_s.is_some() || max_age_s.is_some() => {
                self.report(
                    span,
                    "time.kind = \"none\" takes nothing else; remove the other lines",
                );
            }
            TimeKind::None => {}
            _ if value.is_none() => {
                self.report(span, "time.value is missing: the template of the time")
            }
            _ if skew.is_none() => {
                let problem =
                    format!("time.skew_s must be {SKEW_S} seconds; the contract says 300");
                self.report(span, problem);
            }
            TimeKind::Event if max_age.is_none() => {
                let problem = format!("time.kind = \"event\" needs max_age_s, {MAX_AGE_S} seconds");
                self.report(span, problem);
            }
            TimeKind::Delivery if max_age_s.is_some() => {
                self.report(span, "time.max_age_s is for kind = \"event\"; remove it");
            }
            TimeKind::Event | TimeKind::Delivery => {}
        }
        let skew_ms = skew.unwrap_or_default() * 1_000;
        TimeRule { kind, field: None, skew_ms, max_age_ms: max_age.map(|seconds| seconds * 1_000) }
    }
}
