//! Floating-point arithmetic.

use super::super::alu::float::{Clamp, Fast, FloatOp, Operation, fast};
use super::super::alu::format::Rounding;
use super::super::alu::sign;
use super::super::error::PtxResult;
use super::super::instruction::Instruction;
use super::super::types::Type;
use super::Decoder;
use super::arithmetic::{binary, unary};

/// The modifiers that name a rounding mode.
pub(super) const ROUNDINGS: [(&str, Rounding); 4] =
    [("rn", Rounding::Nearest), ("rz", Rounding::Zero), ("rm", Rounding::Down), ("rp", Rounding::Up)];

/// An instruction, how many sources it has, and what it must say of its rounding.
struct Form {
    operation: Operation,
    sources: usize,
    rounding: Says,
}

/// What an instruction says of its rounding.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Says {
    /// A mode, or nothing for `.rn`.
    Mode,
    /// A mode, or `.approx`, or `.full`.
    ModeOrApproximate,
    /// `.approx`.
    Approximate,
    /// Nothing: the result is exact.
    Exact,
}

fn form(opcode: &str) -> Option<Form> {
    let (operation, sources, rounding) = match opcode {
        "add" => (Operation::Add, 2, Says::Mode),
        "sub" => (Operation::Sub, 2, Says::Mode),
        "mul" => (Operation::Mul, 2, Says::Mode),
        "fma" | "mad" => (Operation::Fma, 3, Says::Mode),
        "div" => (Operation::Div, 2, Says::ModeOrApproximate),
        "rcp" => (Operation::Rcp, 1, Says::ModeOrApproximate),
        "sqrt" => (Operation::Sqrt, 1, Says::ModeOrApproximate),
        "rsqrt" => (Operation::Rsqrt, 1, Says::Approximate),
        "ex2" => (Operation::Ex2, 1, Says::Approximate),
        "lg2" => (Operation::Lg2, 1, Says::Approximate),
        "sin" => (Operation::Sin, 1, Says::Approximate),
        "cos" => (Operation::Cos, 1, Says::Approximate),
        "tanh" => (Operation::Tanh, 1, Says::Approximate),
        "neg" => (Operation::Neg, 1, Says::Exact),
        "abs" => (Operation::Abs, 1, Says::Exact),
        "min" => (Operation::Min, 2, Says::Exact),
        "max" => (Operation::Max, 2, Says::Exact),
        _ => return None,
    };
    Some(Form { operation, sources, rounding })
}

/// Decodes an instruction of this family; false if it is of another.
pub(super) fn decode(decoder: &mut Decoder<'_, '_>) -> PtxResult<bool> {
    match decoder.mnemonic.opcode {
        "copysign" => return copysign(decoder),
        "testp" => return test(decoder),
        _ => {}
    }
    let Some(form) = form(decoder.mnemonic.opcode) else { return Ok(false) };
    let op = modifiers(decoder, &form)?;
    decoder.expect_operands(form.sources + 1)?;
    let d = decoder.destination(0, op.ty)?;
    let zero = decoder.constant(0)?;
    let mut sources = [zero; 3];
    for (index, slot) in sources.iter_mut().enumerate().take(form.sources) {
        *slot = decoder.source(index + 1, op.ty)?;
    }
    let [a, b, c] = sources;
    decoder.push(match fast(op) {
        Some(Fast::Unary(f)) => Instruction::Unary { f, d, a },
        Some(Fast::Binary(f)) => Instruction::Binary { f, d, a, b },
        Some(Fast::Ternary(f)) => Instruction::Ternary { f, d, a, b, c },
        None => Instruction::Float { op, d, a, b, c },
    })
}

fn modifiers(decoder: &mut Decoder<'_, '_>, form: &Form) -> PtxResult<FloatOp> {
    let mnemonic = &mut decoder.mnemonic;
    let ty = mnemonic.take_type()?;
    let is_half = matches!(ty, Type::F16 | Type::F16x2 | Type::Bf16 | Type::Bf16x2);
    if !is_half && !ty.is_float() {
        return Err(mnemonic.unknown());
    }
    let is_extremum = matches!(form.operation, Operation::Min | Operation::Max);
    let rounding = match form.rounding {
        Says::Exact => None,
        _ => mnemonic.take_any(&ROUNDINGS),
    };
    let approximate = match form.rounding {
        Says::ModeOrApproximate if rounding.is_none() => {
            mnemonic.take("approx") || (form.operation == Operation::Div && mnemonic.take("full"))
        }
        Says::Approximate => mnemonic.take("approx"),
        _ => false,
    };
    let is_said = rounding.is_some() || approximate;
    let must_say = matches!(form.rounding, Says::ModeOrApproximate | Says::Approximate)
        || form.operation == Operation::Fma;
    if (must_say && !is_said) || (is_half && rounding.is_some_and(|mode| mode != Rounding::Nearest)) {
        return Err(mnemonic.unknown());
    }
    let clamp = if !is_extremum && ty != Type::F64 && mnemonic.take("sat") {
        Clamp::Unit
    } else if is_half && form.operation == Operation::Fma && mnemonic.take("relu") {
        Clamp::Relu
    } else {
        Clamp::None
    };
    Ok(FloatOp {
        operation: form.operation,
        ty,
        rounding: rounding.unwrap_or(Rounding::Nearest),
        flush: ty != Type::F64 && mnemonic.take("ftz"),
        clamp,
        propagate_nan: is_extremum && mnemonic.take("NaN"),
        xorsign: is_extremum && take_xorsign(decoder),
    })
}

/// `.xorsign.abs`: two modifiers that belong together.
fn take_xorsign(decoder: &mut Decoder<'_, '_>) -> bool {
    decoder.mnemonic.take("xorsign") && decoder.mnemonic.take("abs")
}

fn copysign(decoder: &mut Decoder<'_, '_>) -> PtxResult<bool> {
    let ty = decoder.mnemonic.take_type()?;
    let f = sign::copysign(ty).ok_or_else(|| decoder.mnemonic.unknown())?;
    binary(decoder, f, ty, [ty, ty])
}

fn test(decoder: &mut Decoder<'_, '_>) -> PtxResult<bool> {
    let class = decoder.mnemonic.take_any(&sign::CLASSES).ok_or_else(|| decoder.mnemonic.unknown())?;
    let ty = decoder.mnemonic.take_type()?;
    let f = sign::test(class, ty).ok_or_else(|| decoder.mnemonic.unknown())?;
    unary(decoder, f, Type::Pred, ty)
}
