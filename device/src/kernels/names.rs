//! Collectives, algorithms, types and operations, with the names that tables and command lines use.

macro_rules! named {
    ($($(#[$doc:meta])* $type:ident { $($(#[$variant_doc:meta])* $variant:ident = $name:literal,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $type {
            $($(#[$variant_doc])* $variant,)*
        }

        impl $type {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The name in tables and on command lines.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// The one of this name.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|one| one.name() == name)
            }
        }

        impl core::fmt::Display for $type {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.pad(self.name())
            }
        }
    )*};
}

named! {
    /// What the ranks do together.
    Collective {
        /// Every rank gets the reduction of all inputs.
        AllReduce = "all_reduce",
        /// Every rank gets all inputs, in rank order.
        AllGather = "all_gather",
    }

    /// How they do it.
    Algorithm {
        /// Push all data as LL packets.
        Ll = "ll",
        /// Each owner loads, reduces and stores its part, between two barriers.
        TwoShotLdSt = "two_shot_ld_st",
        /// Store the share to every rank, between two barriers.
        St = "st",
    }

    /// Element type.
    Dtype {
        /// 32-bit float.
        F32 = "f32",
        /// 16-bit float, accumulated in f32.
        F16 = "f16",
        /// Brain float, accumulated in f32.
        Bf16 = "bf16",
    }

    /// Reduction.
    Op {
        /// Sum in rank order.
        Sum = "sum",
        /// Product in rank order.
        Prod = "prod",
        /// Minimum; NaN if any is NaN; −0 is less than +0.
        Min = "min",
        /// Maximum; NaN if any is NaN; −0 is less than +0.
        Max = "max",
        /// Sum in rank order, divided by the number of ranks before it is rounded.
        Avg = "avg",
    }
}

impl Dtype {
    /// Bytes of one element.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
        }
    }
}
