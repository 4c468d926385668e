//! Owns the profiles that come with the program: those of gateways, those of earlier builds, and
//! the templates for the profile of a new partner.

/// The profile of a gateway that comes with the program.
#[derive(Clone, Copy, Debug)]
pub struct ShippedProfile {
    /// The name in `profile = "…"`.
    pub name: &'static str,
    /// The profile as TOML.
    pub profile: &'static str,
    /// Its test vectors, with published test keys.
    pub vectors: &'static str,
}

/// Every shipped profile of a gateway. `default` and `sandbox` are not among them.
pub const SHIPPED: [ShippedProfile; 5] = [
    ShippedProfile {
        name: "momo",
        profile: include_str!("../../profiles/momo.toml"),
        vectors: include_str!("../../profiles/vectors/momo.json"),
    },
    ShippedProfile {
        name: "zalopay",
        profile: include_str!("../../profiles/zalopay.toml"),
        vectors: include_str!("../../profiles/vectors/zalopay.json"),
    },
    ShippedProfile {
        name: "midtrans",
        profile: include_str!("../../profiles/midtrans.toml"),
        vectors: include_str!("../../profiles/vectors/midtrans.json"),
    },
    ShippedProfile {
        name: "square",
        profile: include_str!("../../profiles/square.toml"),
        vectors: include_str!("../../profiles/vectors/square.json"),
    },
    ShippedProfile {
        name: "razorpay",
        profile: include_str!("../../profiles/razorpay.toml"),
        vectors: include_str!("../../profiles/vectors/razorpay.json"),
    },
];

/// The texts of shipped profiles as an earlier build had them, for the notices that it recorded.
pub const EARLIER: [&str; 7] = [
    include_str!("../../profiles/earlier/default-0.1.0.toml"),
    include_str!("../../profiles/earlier/sandbox-0.1.0.toml"),
    include_str!("../../profiles/earlier/momo-0.1.0.toml"),
    include_str!("../../profiles/earlier/zalopay-0.1.0.toml"),
    include_str!("../../profiles/earlier/midtrans-0.1.0.toml"),
    include_str!("../../profiles/earlier/square-0.1.0.toml"),
    include_str!("../../profiles/earlier/razorpay-0.1.0.toml"),
];

impl ShippedProfile {
    /// The shipped profile of this name.
    pub fn of(name: &str) -> Option<Self> {
        SHIPPED.into_iter().find(|shipped| shipped.name == name)
    }
}

/// A commented template for the profile of a new partner.
#[derive(Clone, Copy, Debug)]
pub struct StarterProfile {
    /// The template's name.
    pub name: &'static str,
    /// The profile as TOML.
    pub profile: &'static str,
    /// A test vector that fits it, with a published test key.
    pub vectors: &'static str,
}

/// Every template for a custom scheme.
pub const STARTERS: [StarterProfile; 5] = [
    StarterProfile {
        name: "hmac-body",
        profile: include_str!("../../profiles/templates/hmac-body.toml"),
        vectors: include_str!("../../profiles/templates/hmac-body.vectors.json"),
    },
    StarterProfile {
        name: "hmac-fields",
        profile: include_str!("../../profiles/templates/hmac-fields.toml"),
        vectors: include_str!("../../profiles/templates/hmac-fields.vectors.json"),
    },
    StarterProfile {
        name: "sorted-pairs",
        profile: include_str!("../../profiles/templates/sorted-pairs.toml"),
        vectors: include_str!("../../profiles/templates/sorted-pairs.vectors.json"),
    },
    StarterProfile {
        name: "structured-header",
        profile: include_str!("../../profiles/templates/structured-header.toml"),
        vectors: include_str!("../../profiles/templates/structured-header.vectors.json"),
    },
    StarterProfile {
        name: "rsa",
        profile: include_str!("../../profiles/templates/rsa.toml"),
        vectors: include_str!("../../profiles/templates/rsa.vectors.json"),
    },
];

impl StarterProfile {
    /// The template of this name.
    pub fn of(name: &str) -> Option<Self> {
        STARTERS.into_iter().find(|starter| starter.name == name)
    }
}
