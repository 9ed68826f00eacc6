//! Loads, stores, atomics, fences (PTX ISA 9.7.9, 9.7.13).

use super::super::error::PtxResult;
use super::super::instruction::{Fill, Instruction, NO_SLOT, Own, Slot};
use super::super::parse::operand::Operand;
use super::super::types::Type;
use super::Decoder;
use crate::sim::interface::{AtomicOp, Fence, MemoryAccess, Order, Scope, Space};

/// Decodes an instruction of this family; false if it is of another.
pub(super) fn decode(decoder: &mut Decoder<'_, '_>) -> PtxResult<bool> {
    match decoder.mnemonic.opcode {
        "ld" => load(decoder),
        "st" => store(decoder),
        "atom" | "red" => atomic(decoder),
        "fence" => fence(decoder),
        "membar" => membar(decoder),
        "prefetch" | "prefetchu" | "applypriority" | "discard" => without_effect(decoder),
        _ => Ok(false),
    }
}

/// State space of an instruction, with those that the interpreter serves itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Machine(Space),
    Own(Own),
}

/// Without a space the address is generic: global, outside the windows of shared and local memory.
const PLACES: [(&str, Place); 7] = [
    ("global", Place::Machine(Space::Global)),
    ("const", Place::Machine(Space::Global)),
    ("shared", Place::Machine(Space::Shared)),
    ("shared::cta", Place::Machine(Space::Shared)),
    ("local", Place::Own(Own::Local)),
    ("param", Place::Own(Own::Parameter)),
    ("param::entry", Place::Own(Own::Parameter)),
];

pub(super) const SCOPES: [(&str, Scope); 4] =
    [("cta", Scope::Cta), ("cluster", Scope::Cluster), ("gpu", Scope::Gpu), ("sys", Scope::Sys)];

fn take_place(decoder: &mut Decoder<'_, '_>) -> Place {
    decoder.mnemonic.take_any(&PLACES).unwrap_or(Place::Machine(Space::Global))
}

/// Caching hints change nothing that a thread may rely on.
fn take_cache_hints(decoder: &mut Decoder<'_, '_>, operators: &[&str]) {
    decoder.mnemonic.take_where(|part| operators.contains(&part));
    while decoder.mnemonic.take_where(|part| {
        matches!(
            part,
            "L1::evict_normal"
                | "L1::evict_unchanged"
                | "L1::evict_first"
                | "L1::evict_last"
                | "L1::no_allocate"
                | "L2::evict_normal"
                | "L2::evict_first"
                | "L2::evict_last"
                | "L2::64B"
                | "L2::128B"
                | "L2::256B"
        )
    }) {}
}

/// Order and scope; `strong` are the orders that the instruction has with a scope.
fn take_order(decoder: &mut Decoder<'_, '_>, strong: &[(&str, Order)]) -> PtxResult<(Order, Scope)> {
    if decoder.mnemonic.take("volatile") {
        return Ok((Order::Volatile, Scope::Sys));
    }
    let order = decoder.mnemonic.take_any(strong);
    match order {
        Some(order) => {
            let scope = decoder.mnemonic.take_any(&SCOPES);
            let scope = scope
                .ok_or_else(|| decoder.error("the order needs a scope: .cta, .cluster, .gpu or .sys"))?;
            Ok((order, scope))
        }
        None => {
            decoder.mnemonic.take("weak");
            Ok((Order::Weak, Scope::None))
        }
    }
}

/// Elements and their type.
fn take_shape(decoder: &mut Decoder<'_, '_>) -> PtxResult<(u8, Type)> {
    let lanes = decoder.mnemonic.take_any(&[("v2", 2), ("v4", 4)]).unwrap_or(1);
    let ty = decoder.mnemonic.take_type()?;
    let is_memory_type = ty != Type::Pred && !matches!(ty, Type::E4m3x2 | Type::E5m2x2 | Type::Tf32);
    if is_memory_type && lanes as u32 * ty.bits() <= 256 {
        Ok((lanes, ty))
    } else {
        Err(decoder.mnemonic.unknown())
    }
}

/// The slots of a vector or a single operand, one per 64-bit word of the access.
pub(super) fn words<'a>(
    decoder: &mut Decoder<'_, 'a>,
    index: usize,
    lanes: u8,
    ty: Type,
    element: impl Fn(&mut Decoder<'_, 'a>, &Operand<'a>, Type) -> PtxResult<Slot>,
) -> PtxResult<[Slot; 4]> {
    let elements = match decoder.operands[index].clone() {
        Operand::Vector(elements) => elements,
        single => vec![single],
    };
    if elements.len() != usize::from(lanes) {
        return Err(decoder.error(format!("{lanes} elements needed, {} given", elements.len())));
    }
    let mut slots = [0; 4];
    let mut at = 0;
    for operand in &elements {
        slots[at] = element(decoder, operand, ty)?;
        at += 1;
        if ty == Type::B128 {
            slots[at] = slots[at - 1] + 1;
            at += 1;
        }
    }
    Ok(slots)
}

/// A register at least as wide as the element.
fn loaded(decoder: &mut Decoder<'_, '_>, operand: &Operand<'_>, ty: Type) -> PtxResult<Slot> {
    match operand {
        Operand::Register(register) if register.ty.bits() >= ty.bits() && register.ty.bits() <= 64 => {
            Ok(register.slot)
        }
        Operand::Register(register) => decoder.fitting(*register, ty),
        Operand::Sink => decoder.names.sink(decoder.mnemonic.line),
        _ => Err(decoder.error("the destination is not a register")),
    }
}

/// A register at least as wide as the element, or a number.
fn stored(decoder: &mut Decoder<'_, '_>, operand: &Operand<'_>, ty: Type) -> PtxResult<Slot> {
    match operand {
        Operand::Register(register) if register.ty.bits() >= ty.bits() && register.ty.bits() <= 64 => {
            Ok(register.slot)
        }
        Operand::Register(register) => decoder.fitting(*register, ty),
        Operand::Integer(bits) if ty.bits() <= 64 => decoder.constant(bits & ty.mask()),
        Operand::Float32(bits) if ty.bits() == 32 => decoder.constant((*bits).into()),
        Operand::Float64(bits) if ty.bits() == 64 => decoder.constant(*bits),
        Operand::Symbol(symbol, offset) if ty.bits() == 64 => decoder.symbol(*symbol, *offset),
        _ => Err(decoder.error("the source is neither a register nor a number of the type")),
    }
}

/// How the elements fill their registers. PTX sign-extends signed types to the register's width.
fn fill(decoder: &Decoder<'_, '_>, ty: Type) -> Fill {
    let first = match &decoder.operands[0] {
        Operand::Vector(elements) => elements.iter().find(|operand| matches!(operand, Operand::Register(_))),
        single => Some(single),
    };
    match first {
        Some(Operand::Register(register)) if ty.is_signed() && register.ty.bits() > ty.bits() => {
            Fill::Sign { register_bits: register.ty.bits() as u8 }
        }
        _ => Fill::Zero,
    }
}

fn access(space: Space, (order, scope): (Order, Scope), lanes: u8, ty: Type) -> MemoryAccess {
    MemoryAccess { space, order, scope, width_bytes: ty.bytes() as u8, lanes }
}

fn load(decoder: &mut Decoder<'_, '_>) -> PtxResult<bool> {
    let place = take_place(decoder);
    let order = take_order(decoder, &[("relaxed", Order::Relaxed), ("acquire", Order::Acquire)])?;
    decoder.mnemonic.take("nc");
    take_cache_hints(decoder, &["ca", "cg", "cs", "lu", "cv"]);
    let (lanes, ty) = take_shape(decoder)?;
    decoder.expect_operands(2)?;
    let fill = fill(decoder, ty);
    let d = words(decoder, 0, lanes, ty, loaded)?;
    let (address, offset) = decoder.address(1)?;
    decoder.push(match place {
        Place::Machine(space) => {
            Instruction::Load { access: access(space, order, lanes, ty), fill, d, address, offset }
        }
        Place::Own(own) => {
            let access = access(Space::Local, (Order::Weak, Scope::None), lanes, ty);
            Instruction::LoadOwn { own, access, fill, d, address, offset }
        }
    })
}

fn store(decoder: &mut Decoder<'_, '_>) -> PtxResult<bool> {
    let place = take_place(decoder);
    let order = take_order(decoder, &[("relaxed", Order::Relaxed), ("release", Order::Release)])?;
    take_cache_hints(decoder, &["wb", "cg", "cs", "wt"]);
    let (lanes, ty) = take_shape(decoder)?;
    decoder.expect_operands(2)?;
    let a = words(decoder, 1, lanes, ty, stored)?;
    let (address, offset) = decoder.address(0)?;
    match place {
        Place::Machine(space) => {
            decoder.push(Instruction::Store { access: access(space, order, lanes, ty), a, address, offset })
        }
        Place::Own(Own::Local) => {
            let access = access(Space::Local, (Order::Weak, Scope::None), lanes, ty);
            decoder.push(Instruction::StoreOwn { access, a, address, offset })
        }
        Place::Own(Own::Parameter) => Err(decoder.error("a kernel may not write its parameters")),
    }
}

/// `atom` and `red` are relaxed at `.gpu` scope where they do not say otherwise.
fn atomic(decoder: &mut Decoder<'_, '_>) -> PtxResult<bool> {
    let orders = [
        ("relaxed", Order::Relaxed),
        ("acquire", Order::Acquire),
        ("release", Order::Release),
        ("acq_rel", Order::AcqRel),
    ];
    let Place::Machine(space) = take_place(decoder) else { return Err(decoder.mnemonic.unknown()) };
    let order = decoder.mnemonic.take_any(&orders).unwrap_or(Order::Relaxed);
    let scope = decoder.mnemonic.take_any(&SCOPES).unwrap_or(Scope::Gpu);
    let (op, ty) = atomic_op(decoder)?;
    let is_red = decoder.mnemonic.opcode == "red";
    let n_sources = if op == AtomicOp::CompareSwap { 2 } else { 1 };
    let first = if is_red { 0 } else { 1 };
    decoder.expect_operands(first + 1 + n_sources)?;
    let d = if is_red { NO_SLOT } else { decoder.destination(0, ty)? };
    let (address, offset) = decoder.address(first)?;
    let a = decoder.source(first + 1, ty)?;
    let b = if n_sources == 2 { decoder.source(first + 2, ty)? } else { a };
    decoder.push(Instruction::Atomic {
        access: access(space, (order, scope), 1, ty),
        op,
        d,
        address,
        offset,
        a,
        b,
    })
}

fn atomic_op(decoder: &mut Decoder<'_, '_>) -> PtxResult<(AtomicOp, Type)> {
    let is_red = decoder.mnemonic.opcode == "red";
    let names = ["add", "exch", "cas", "and", "or", "xor", "min", "max"].map(|name| (name, name));
    let name = decoder.mnemonic.take_any(&names).ok_or_else(|| decoder.mnemonic.unknown())?;
    let ty = decoder.mnemonic.take_type()?;
    let is_bits = matches!(ty, Type::B32 | Type::B64);
    let op = match (name, ty) {
        ("add", Type::U32 | Type::S32 | Type::U64) => AtomicOp::Add,
        ("add", Type::F32) => AtomicOp::AddF32,
        ("exch", _) if is_bits && !is_red => AtomicOp::Exchange,
        ("cas", _) if (is_bits || ty == Type::B16) && !is_red => AtomicOp::CompareSwap,
        ("and", _) if is_bits => AtomicOp::And,
        ("or", _) if is_bits => AtomicOp::Or,
        ("xor", _) if is_bits => AtomicOp::Xor,
        ("min", Type::U32 | Type::U64) => AtomicOp::MinUnsigned,
        ("max", Type::U32 | Type::U64) => AtomicOp::MaxUnsigned,
        ("min", Type::S32 | Type::S64) => AtomicOp::MinSigned,
        ("max", Type::S32 | Type::S64) => AtomicOp::MaxSigned,
        _ => return Err(decoder.mnemonic.unknown()),
    };
    Ok((op, ty))
}

fn fence(decoder: &mut Decoder<'_, '_>) -> PtxResult<bool> {
    if decoder.mnemonic.take("proxy") {
        if !decoder.mnemonic.take("alias") {
            return Err(decoder.mnemonic.unknown());
        }
        decoder.expect_operands(0)?;
        return decoder.push(Instruction::Fence { fence: Fence::ProxyAlias });
    }
    let order = decoder.mnemonic.take_any(&[("sc", Order::SeqCst), ("acq_rel", Order::AcqRel)]);
    let scope = decoder.mnemonic.take_any(&SCOPES).ok_or_else(|| decoder.mnemonic.unknown())?;
    decoder.expect_operands(0)?;
    let fence = Fence::Thread(order.unwrap_or(Order::AcqRel), scope);
    decoder.push(Instruction::Fence { fence })
}

/// From sm_70 on `membar` is `fence.sc`.
fn membar(decoder: &mut Decoder<'_, '_>) -> PtxResult<bool> {
    let scopes = [("cta", Scope::Cta), ("gl", Scope::Gpu), ("sys", Scope::Sys)];
    let scope = decoder.mnemonic.take_any(&scopes).ok_or_else(|| decoder.mnemonic.unknown())?;
    decoder.expect_operands(0)?;
    decoder.push(Instruction::Fence { fence: Fence::Thread(Order::SeqCst, scope) })
}

/// Instructions that only touch caches. `discard` leaves the bytes undefined, so they may stay as they are.
fn without_effect(decoder: &mut Decoder<'_, '_>) -> PtxResult<bool> {
    while decoder
        .mnemonic
        .take_where(|part| matches!(part, "global" | "L1" | "L2" | "L2::evict_last" | "L2::evict_normal"))
    {
    }
    let n = if matches!(decoder.mnemonic.opcode, "applypriority" | "discard") { 2 } else { 1 };
    decoder.expect_operands(n)?;
    decoder.address(0)?;
    decoder.push(Instruction::Nothing)
}
