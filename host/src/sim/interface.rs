//! What one simulated thread asks of the machine around it.
//!
//! [`crate::sim::ptx`] reads PTX and knows what an instruction computes; [`crate::sim::thread`] runs one thread until it
//! must [`Stop`]; the machine gives it an [`Environment`]: memory, special registers, parameters. Neither side knows
//! the other's inside.

/// State space of an access (PTX ISA 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// Memory of any device, by generic or global address.
    Global,
    /// Memory of the thread's block, addressed from 0.
    Shared,
    /// Memory of the thread, addressed from 0.
    Local,
}

/// Order of an access (PTX ISA 8.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// No qualifier.
    Weak,
    /// `.volatile`: relaxed at system scope.
    Volatile,
    /// `.relaxed`.
    Relaxed,
    /// `.acquire`.
    Acquire,
    /// `.release`.
    Release,
    /// `.acq_rel`.
    AcqRel,
    /// `.sc`, fences only.
    SeqCst,
}

/// Scope of an access (PTX ISA 8.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// None: weak.
    None,
    /// `.cta`.
    Cta,
    /// `.cluster`.
    Cluster,
    /// `.gpu`.
    Gpu,
    /// `.sys`.
    Sys,
}

/// How a load, store or atomic touches memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryAccess {
    /// State space.
    pub space: Space,
    /// Order.
    pub order: Order,
    /// Scope.
    pub scope: Scope,
    /// Bytes of one element: 1, 2, 4, 8 or 16 (`.b128`).
    pub width_bytes: u8,
    /// Elements: 1, 2 or 4.
    pub lanes: u8,
}

/// Elements of an access as raw bits, zero-extended. A `.b128` element takes two words, low word first.
pub type Lanes = [u64; 4];

/// Read-modify-write operation of `atom` and `red`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicOp {
    /// Integer addition.
    Add,
    /// f32 addition.
    AddF32,
    /// Exchange.
    Exchange,
    /// Compare and swap; the second operand is the new value.
    CompareSwap,
    /// Bitwise and.
    And,
    /// Bitwise or.
    Or,
    /// Bitwise exclusive or.
    Xor,
    /// Unsigned minimum.
    MinUnsigned,
    /// Unsigned maximum.
    MaxUnsigned,
    /// Signed minimum.
    MinSigned,
    /// Signed maximum.
    MaxSigned,
}

/// What a `multimem` instruction does with the memory behind its address (PTX ISA 9.7.9.14).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MultimemOp {
    /// `multimem.ld_reduce`: joins the values of all devices.
    LoadReduce(Reduction),
    /// `multimem.st`: stores to all devices.
    Store,
    /// `multimem.red`: joins a value with what each device has.
    Reduce(Reduction),
}

/// How values are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reduction {
    /// The operation.
    pub op: ReductionOp,
    /// What an element holds; one of 4 bytes holds two f16 or bf16.
    pub element: ElementKind,
    /// `.acc::f32`: f16 and bf16 are added in f32 and rounded once.
    pub is_wide: bool,
}

/// Operation of a reduction over devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ReductionOp {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
}

/// What an element of a reduction holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ElementKind {
    Unsigned,
    Signed,
    F16,
    Bf16,
    F32,
    F64,
}

/// Fence (PTX ISA 9.7.13.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fence {
    /// `fence.{acq_rel,sc}.SCOPE` and `membar`.
    Thread(Order, Scope),
    /// `fence.proxy.alias`.
    ProxyAlias,
    /// `griddepcontrol.wait`: the kernels before this one have ended, and their accesses are performed.
    GridDependency,
}

/// Special register (PTX ISA 10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// `%tid`, dimension 0..3.
    Tid(u8),
    /// `%ntid`.
    Ntid(u8),
    /// `%ctaid`.
    Ctaid(u8),
    /// `%nctaid`.
    Nctaid(u8),
    /// `%laneid`.
    Laneid,
    /// `%warpid`.
    Warpid,
    /// `%lanemask_lt` and its kin are computed from the lane by the interpreter; this is `%smid`.
    Smid,
    /// `%clock` and `%clock64`: steps of this thread's multiprocessor.
    Clock,
    /// `%globaltimer`: the virtual clock in nanoseconds.
    Globaltimer,
    /// `%dynamic_smem_size`.
    DynamicSharedBytes,
    /// `%total_smem_size`.
    TotalSharedBytes,
}

/// Why a thread cannot go on by itself.
#[derive(Clone, Debug, PartialEq)]
pub enum Stop {
    /// The budget of instructions is spent.
    Budget,
    /// `ret` or `exit`.
    Exit,
    /// `bar.sync`, `bar.red`, `barrier.cta.*`: resume when the block has arrived.
    BlockBarrier(BlockBarrier),
    /// `bar.warp.sync` and the warp-level instructions: resume when the lanes of the mask have arrived.
    Warp(WarpRequest),
    /// `nanosleep`: resume when the virtual clock has advanced by so many nanoseconds.
    Sleep {
        /// Nanoseconds.
        duration_ns: u32,
    },
    /// The thread did what the machine forbids. The program counter stays at the instruction.
    Fault(Fault),
}

/// A block-wide barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockBarrier {
    /// Number of the barrier, 0..16.
    pub barrier: u32,
    /// Threads that take part; `None` is the whole block.
    pub n_threads: Option<u32>,
    /// `bar.red`: the reduction and this thread's predicate. The machine calls `thread::resume_with` with the result.
    pub reduction: Option<(BarrierReduction, bool)>,
    /// `bar.arrive`: the thread itself goes on.
    pub arrive_only: bool,
}

/// Reduction of `bar.red`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BarrierReduction {
    /// `.popc`.
    Count,
    /// `.and`.
    And,
    /// `.or`.
    Or,
}

/// A warp-wide exchange among the lanes of `mask`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WarpRequest {
    /// Lanes that take part.
    pub mask: u32,
    /// What they do.
    pub op: WarpOp,
}

/// What the lanes of a warp exchange. The machine calls `thread::resume_with` with each lane's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarpOp {
    /// `bar.warp.sync`.
    Sync,
    /// `shfl.sync.MODE.b32`; the second result is the predicate.
    Shuffle {
        /// `.up`, `.down`, `.bfly`, `.idx` as 0, 1, 2, 3.
        mode: u8,
        /// This lane's value.
        value: u32,
        /// Operand b.
        lane: u32,
        /// Operand c.
        clamp: u32,
    },
    /// `vote.sync`: `.all`, `.any`, `.uni`, `.ballot` as 0, 1, 2, 3.
    Vote {
        /// Mode.
        mode: u8,
        /// This lane's predicate.
        predicate: bool,
    },
    /// `redux.sync`, on 32-bit values.
    Reduce {
        /// The reduction.
        op: AtomicOp,
        /// This lane's value.
        value: u32,
    },
    /// `match.any.sync.b32` and `.b64`.
    MatchAny {
        /// This lane's value.
        value: u64,
    },
}

/// What a thread did wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing is mapped at the address.
    Unmapped {
        /// First byte of the access.
        address: u64,
    },
    /// A load, store or atomic by a multicast address, or a `multimem` instruction by another (PTX ISA 9.7.9.14).
    Multicast {
        /// First byte of the access.
        address: u64,
        /// It is a multicast address.
        is_multicast: bool,
    },
    /// A device of the team has nothing bound behind a multicast address.
    Unbound {
        /// First byte of the access.
        address: u64,
        /// The device.
        device: u32,
        /// It has, but by another process whose memory this one has not imported: a limit of the simulated machine.
        by_other_process: bool,
    },
    /// The device has no such right on the mapping.
    Rights {
        /// First byte of the access.
        address: u64,
        /// The access was a store or an atomic.
        write: bool,
    },
    /// The address is not a multiple of the access's size.
    Misaligned {
        /// First byte of the access.
        address: u64,
        /// Bytes of the whole access.
        required: u32,
    },
    /// An access runs past the end of shared, local or parameter memory.
    OutOfBounds {
        /// First byte of the access.
        address: u64,
        /// Bytes there are.
        len_bytes: u64,
    },
    /// The access races with an earlier one.
    Race(Box<Race>),
    /// `trap`, or `brkpt`.
    Trap,
    /// The machine cannot do what the instruction asks.
    Other(String),
}

/// Two accesses to the same bytes, at least one of them a write, that nothing orders and that are not both strong, of one
/// width and in each other's scope (PTX ISA 8.7.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Race {
    /// The bytes.
    pub bytes: String,
    /// The access that found the race.
    pub access: String,
    /// The earlier access: what, by whom, where.
    pub earlier: String,
    /// What would have ordered them.
    pub remedy: String,
}

/// What a running thread sees of the machine.
pub trait Environment {
    /// Loads `access.lanes` elements from `address`. `pc` names the load for poll detection and reports.
    ///
    /// # Errors
    ///
    /// The fault, where memory or its access rights forbid it.
    fn load(&mut self, pc: u32, access: MemoryAccess, address: u64) -> Result<Lanes, Fault>;
    /// Stores `access.lanes` elements to `address`.
    ///
    /// # Errors
    ///
    /// The fault, where memory or its access rights forbid it.
    fn store(&mut self, pc: u32, access: MemoryAccess, address: u64, values: &Lanes) -> Result<(), Fault>;
    /// Reads, modifies and writes one element; gives what was there before.
    ///
    /// # Errors
    ///
    /// The fault, where memory or its access rights forbid it.
    fn atomic(
        &mut self,
        pc: u32,
        access: MemoryAccess,
        op: AtomicOp,
        address: u64,
        operand: u64,
        second: u64,
    ) -> Result<u64, Fault>;
    /// Does what a `multimem` instruction does; gives what `ld_reduce` loads.
    ///
    /// # Errors
    ///
    /// The fault, where memory or its access rights forbid it.
    fn multimem(
        &mut self,
        pc: u32,
        access: MemoryAccess,
        op: MultimemOp,
        address: u64,
        values: &Lanes,
    ) -> Result<Lanes, Fault>;
    /// Orders accesses.
    fn fence(&mut self, pc: u32, fence: Fence);
    /// Bytes of the launch's parameters.
    fn parameters(&self) -> &[u8];
    /// Value of a special register.
    fn special(&mut self, register: Special) -> u64;
}
