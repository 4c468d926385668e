//! Owns the limits on the body of a notice. They hold before its signature is verified.

/// The limits on the body of a notice. They hold before its signature is verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyLimits {
    /// The longest body, in bytes. The HTTP server enforces it while it reads the body.
    pub body_bytes: usize,
    /// The most levels of nesting; the outermost object is level 1.
    pub depth: usize,
    /// The most keys in all, nested and unknown ones included.
    pub keys: usize,
}
