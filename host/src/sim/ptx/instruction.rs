//! Decoded instructions: what the interpreter's loop matches on.
//!
//! Operands are [`Slot`]s of the thread's register file. Immediates are slots too, filled in when a thread starts, so an
//! instruction reads every operand in the same way. A slot holds its value zero-extended from the register's width; a
//! predicate is 0 or 1. A 128-bit register takes two neighbouring slots, low word first.

use super::alu::convert::Conversion;
use super::alu::float::FloatOp;
use crate::sim::interface::{AtomicOp, BarrierReduction, Fence, MemoryAccess, MultimemOp, Special};

/// Index of a 64-bit slot in a thread's register file.
pub type Slot = u16;

/// Function of one operand.
pub type UnaryFn = fn(u64) -> u64;
/// Function of two operands.
pub type BinaryFn = fn(u64, u64) -> u64;
/// Function of three operands.
pub type TernaryFn = fn(u64, u64, u64) -> u64;
/// Comparison.
pub type CompareFn = fn(u64, u64) -> bool;

/// One decoded instruction. `d` is the destination; `a`, `b`, `c` the sources in PTX order.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub enum Instruction {
    /// `mov` and everything that only copies.
    Move { d: Slot, a: Slot },
    /// `add` of 32 bits.
    Add32 { d: Slot, a: Slot, b: Slot },
    /// `add` of 64 bits.
    Add64 { d: Slot, a: Slot, b: Slot },
    /// `d = f(a)`.
    Unary { f: UnaryFn, d: Slot, a: Slot },
    /// `d = f(a, b)`.
    Binary { f: BinaryFn, d: Slot, a: Slot, b: Slot },
    /// `d = f(a, b, c)`.
    Ternary { f: TernaryFn, d: Slot, a: Slot, b: Slot, c: Slot },
    /// `bfi`, `lop3`: four sources.
    Quaternary { f: fn([u64; 4]) -> u64, d: Slot, sources: [Slot; 4] },
    /// Addition or subtraction through the carry flag.
    Carry { op: CarryOp, d: Slot, flag: Slot, a: Slot, b: Slot },
    /// Floating-point arithmetic with a rounding mode and modifiers.
    Float { op: FloatOp, d: Slot, a: Slot, b: Slot, c: Slot },
    /// `cvt`; `b` is the second source of a packed conversion.
    Convert { conversion: Conversion, d: Slot, a: Slot, b: Slot },
    /// `setp` with one destination.
    Compare { f: CompareFn, d: Slot, a: Slot, b: Slot },
    /// `setp` in full: `d = f(a, b) op c`, `not_d = !f(a, b) op c`.
    CompareCombine { f: CompareFn, combine: Combine, d: Slot, not_d: Slot, a: Slot, b: Slot, c: Slot },
    /// `set`: `yes` where the comparison holds, else 0.
    CompareValue { f: CompareFn, yes: Slot, d: Slot, a: Slot, b: Slot },
    /// `selp`: `predicate ? a : b`.
    Select { d: Slot, a: Slot, b: Slot, predicate: Slot },
    /// `mov.b64 {d0, d1}, a` and its kin: `n` parts of `part_bits` each.
    Unpack { d: [Slot; 4], a: Slot, n: u8, part_bits: u8 },
    /// `mov.b64 d, {a0, a1}` and its kin.
    Pack { d: Slot, a: [Slot; 4], n: u8, part_bits: u8 },
    /// `mov` from a special register.
    Special { d: Slot, register: SpecialRead },
    /// `ld` from global or generic addresses.
    Load { access: MemoryAccess, fill: Fill, d: [Slot; 4], address: Slot, offset: i32 },
    /// `st` to global or generic addresses.
    Store { access: MemoryAccess, a: [Slot; 4], address: Slot, offset: i32 },
    /// `ld` from the thread's own memory or the launch's parameters.
    LoadOwn { own: Own, access: MemoryAccess, fill: Fill, d: [Slot; 4], address: Slot, offset: i32 },
    /// `st.local`.
    StoreOwn { access: MemoryAccess, a: [Slot; 4], address: Slot, offset: i32 },
    /// `atom` and `red`.
    Atomic { access: MemoryAccess, op: AtomicOp, d: Slot, address: Slot, offset: i32, a: Slot, b: Slot },
    /// `multimem`; `words` are the elements that it loads, stores or adds.
    Multimem { access: MemoryAccess, op: MultimemOp, words: [Slot; 4], address: Slot, offset: i32 },
    /// `fence`, `membar`.
    Fence { fence: Fence },
    /// `bar`, `barrier`. `n_threads` is [`NO_SLOT`] for the whole block.
    Barrier { kind: BarrierKind, d: Slot, barrier: Slot, n_threads: Slot, predicate: Slot, negate: bool },
    /// `bar.warp.sync` and the exchanges between lanes.
    Warp { kind: WarpKind, d: Slot, second: Slot, value: Slot, lane: Slot, clamp: Slot, mask: Slot },
    /// `nanosleep`.
    Sleep { duration: Slot },
    /// `bra`.
    Branch { target: u32 },
    /// `@p bra`: jumps where the predicate is not `negate`.
    BranchIf { predicate: Slot, negate: bool, target: u32 },
    /// `brx.idx`: index into [`super::Kernel::branch_tables`].
    BranchTable { index: Slot, table: u32 },
    /// The guard of the next instruction: steps over it where the predicate is `negate`.
    Guard { predicate: Slot, negate: bool },
    /// `ret`, `exit`.
    Exit,
    /// `trap`, `brkpt`.
    Trap,
    /// An instruction without effect here, e.g. `prefetch`.
    Nothing,
}

/// Stands for an operand that is not there.
pub const NO_SLOT: Slot = Slot::MAX;

/// Which carry instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CarryOp {
    /// Subtraction.
    pub subtract: bool,
    /// Adds the carry, or subtracts the borrow.
    pub carry_in: bool,
    /// Writes the flag.
    pub carry_out: bool,
    /// 64 bits; else 32.
    pub is_64: bool,
}

/// How `setp` joins the comparison with its third source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Combine {
    /// The operation.
    pub op: BoolOp,
    /// The third source is negated.
    pub negate_c: bool,
}

/// Boolean operation of `setp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoolOp {
    /// `.and`.
    And,
    /// `.or`.
    Or,
    /// `.xor`.
    Xor,
}

/// How a loaded element fills its register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// Zero-extended.
    Zero,
    /// Sign-extended from the element to a register of so many bits.
    Sign {
        /// Width of the register.
        register_bits: u8,
    },
}

/// Memory that the interpreter itself provides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Own {
    /// `.param`.
    Parameter,
    /// `.local`.
    Local,
}

/// What a `mov` from a special register reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecialRead {
    /// All 64 bits of what the machine says.
    Whole(Special),
    /// The low 32 bits.
    Low(Special),
    /// The high 32 bits.
    High(Special),
    /// `%nwarpid`: warps of the block.
    WarpCount,
    /// `%lanemask_eq`.
    LanesEqual,
    /// `%lanemask_lt`.
    LanesBelow,
    /// `%lanemask_le`.
    LanesUpTo,
    /// `%lanemask_gt`.
    LanesAbove,
    /// `%lanemask_ge`.
    LanesFrom,
    /// `activemask`: the lanes that the block's size gives this warp, whether they are converged or have ended.
    LanesOfWarp,
}

/// What a thread does at a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BarrierKind {
    /// Waits.
    Sync,
    /// Arrives and goes on.
    Arrive,
    /// Waits and gets a reduction.
    Reduce(BarrierReduction),
}

/// What the lanes of a warp exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarpKind {
    /// `bar.warp.sync`.
    Sync,
    /// `shfl.sync`, mode as in [`crate::sim::interface::WarpOp::Shuffle`].
    Shuffle(u8),
    /// `vote.sync`, mode as in [`crate::sim::interface::WarpOp::Vote`]; the predicate is negated where so said.
    Vote(u8, bool),
    /// `redux.sync`.
    Reduce(AtomicOp),
    /// `match.any.sync`.
    MatchAny,
}

const _: () = assert!(size_of::<Instruction>() <= 32);
