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
        /// Every rank gets its part of the reduction of all inputs.
        ReduceScatter = "reduce_scatter",
        /// Every rank gets the root's input.
        Broadcast = "broadcast",
        /// Every rank gets its part of each rank's input, in rank order.
        AllToAll = "all_to_all",
    }

    /// How they do it.
    Algorithm {
        /// Push the data as LL packets; each rank reduces what it gets.
        Ll = "ll",
        /// As `ll`, with packets of 12 bytes in 16.
        Ll128 = "ll_128",
        /// Push parts to their owners as LL packets, and the results back.
        LlTwoShot = "ll_two_shot",
        /// As `ll`, with packets that are nothing but data.
        Sentinel = "sentinel",
        /// As `ll_two_shot`, with packets that are nothing but data.
        SentinelTwoShot = "sentinel_two_shot",
        /// Each owner loads, reduces and stores its part, between two barriers.
        TwoShotLdSt = "two_shot_ld_st",
        /// Store parts to their owners' scratch, reduce behind a barrier, store the results to all.
        TwoShotPush = "two_shot_push",
        /// Store to every rank what it gets, between two barriers.
        St = "st",
        /// Each owner loads and reduces its part, between two barriers.
        Ld = "ld",
        /// Store parts to their owners' scratch, reduce behind a barrier.
        Push = "push",
        /// The switch reduces what each owner loads and brings the result to all, between two multicast barriers.
        Mc = "mc",
        /// As `ll`, each packet sent to all at once by multicast.
        LlMc = "ll_mc",
        /// Store the share to all ranks at once by multicast, between two multicast barriers.
        StMc = "st_mc",
        /// The switch reduces what each owner loads, between two multicast barriers.
        LdMc = "ld_mc",
        /// Copy engines move the share to every rank, between two kernels of one block that are barriers. A copy does not
        /// know that a wait of the kernel before it ended in an error: it writes all the same.
        Ce = "ce",
    }

    /// Element type.
    Dtype {
        /// 64-bit float.
        F64 = "f64",
        /// 32-bit float.
        F32 = "f32",
        /// 16-bit float, accumulated in f32.
        F16 = "f16",
        /// Brain float, accumulated in f32.
        Bf16 = "bf16",
        /// 8-bit float with 4 bits of exponent, accumulated in f32, saturating.
        E4m3 = "e4m3",
        /// 8-bit float with 5 bits of exponent, accumulated in f32, saturating.
        E5m2 = "e5m2",
        /// Signed, 1 byte.
        I8 = "i8",
        /// Unsigned, 1 byte.
        U8 = "u8",
        /// Signed, 4 bytes.
        I32 = "i32",
        /// Unsigned, 4 bytes.
        U32 = "u32",
        /// Signed, 8 bytes.
        I64 = "i64",
        /// Unsigned, 8 bytes.
        U64 = "u64",
    }

    /// Reduction.
    Op {
        /// Sum in rank order; of integers, wrapping.
        Sum = "sum",
        /// Product in rank order; of integers, wrapping.
        Prod = "prod",
        /// Minimum; NaN if any is NaN; −0 is less than +0.
        Min = "min",
        /// Maximum; NaN if any is NaN; −0 is less than +0.
        Max = "max",
        /// Sum in rank order, divided by the number of ranks before it is rounded; of integers, toward zero.
        Avg = "avg",
    }
}

impl Collective {
    /// Whether it reduces: only then has a call an operation.
    pub const fn reduces(self) -> bool {
        matches!(self, Self::AllReduce | Self::ReduceScatter)
    }

    /// Parts, all equally long, that a rank's input and its output consist of.
    pub const fn parts(self, n_ranks: u32) -> (u32, u32) {
        match self {
            Self::AllReduce | Self::Broadcast => (1, 1),
            Self::AllGather => (1, n_ranks),
            Self::ReduceScatter => (n_ranks, 1),
            Self::AllToAll => (n_ranks, n_ranks),
        }
    }
}

/// Which memory of a call an algorithm reaches by multicast, beside that of the communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Multicast {
    /// The input.
    pub input: bool,
    /// The output.
    pub output: bool,
}

impl Algorithm {
    /// What it needs multicast for; `None` if for nothing.
    pub const fn multicast(self) -> Option<Multicast> {
        match self {
            Self::Mc => Some(Multicast { input: true, output: true }),
            Self::LlMc => Some(Multicast { input: false, output: false }),
            Self::StMc => Some(Multicast { input: false, output: true }),
            Self::LdMc => Some(Multicast { input: true, output: false }),
            _ => None,
        }
    }
}

impl Dtype {
    /// Bytes of one element.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::F64 | Self::I64 | Self::U64 => 8,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F16 | Self::Bf16 => 2,
            Self::E4m3 | Self::E5m2 | Self::I8 | Self::U8 => 1,
        }
    }

    /// The type whose kernels do `op` on this one: sums and products of signed integers are those of unsigned ones.
    pub const fn computed_as(self, op: Op) -> Self {
        match (self, op) {
            (Self::I8, Op::Sum | Op::Prod) => Self::U8,
            (Self::I32, Op::Sum | Op::Prod) => Self::U32,
            (Self::I64, Op::Sum | Op::Prod) => Self::U64,
            _ => self,
        }
    }

    /// Whether it is a float.
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F64 | Self::F32 | Self::F16 | Self::Bf16 | Self::E4m3 | Self::E5m2)
    }
}
