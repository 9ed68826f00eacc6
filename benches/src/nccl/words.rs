//! The values of nccl.h that stand for types and operations.

use std::ffi::c_int;
use symmem::{Dtype, Op};

/// `NCCL_WIN_COLL_SYMMETRIC`.
pub(super) const COLL_SYMMETRIC: c_int = 1;

/// `ncclDataType_t`. 8-bit floats came with NCCL 2.24; an older one refuses them.
pub(super) fn dtype(dtype: Dtype) -> c_int {
    match dtype {
        Dtype::I8 => 0,
        Dtype::U8 => 1,
        Dtype::I32 => 2,
        Dtype::U32 => 3,
        Dtype::I64 => 4,
        Dtype::U64 => 5,
        Dtype::F16 => 6,
        Dtype::F32 => 7,
        Dtype::F64 => 8,
        Dtype::Bf16 => 9,
        Dtype::E4m3 => 10,
        Dtype::E5m2 => 11,
    }
}

/// `ncclRedOp_t`.
pub(super) fn op(op: Op) -> c_int {
    match op {
        Op::Sum => 0,
        Op::Prod => 1,
        Op::Max => 2,
        Op::Min => 3,
        Op::Avg => 4,
    }
}
