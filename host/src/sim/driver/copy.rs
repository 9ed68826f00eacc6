//! Copies in streams. The copy engine is a kernel of the machine's own, so that a copy takes its time like other work, and
//! the checkers see each of its accesses.

use super::graph::Work;
use super::module::{Function, Launch};
use super::{Driver, find};
use crate::Result;
use crate::backend::{LaunchShape, ModuleHandle, StreamHandle};
use crate::sim::memory::Memory;
use crate::sim::ptx::{self, Kernel};
use std::sync::{Arc, LazyLock};

/// Moves words where both ends and the length allow it, else bytes.
const TEXT: &str = "
.version 7.8
.target sm_80
.address_size 64
.visible .entry copy_engine(.param .align 8 .b8 copy_engine_param_0[24])
{
    .reg .pred %p<3>;
    .reg .b16 %rs<2>;
    .reg .b32 %r<2>;
    .reg .b64 %rd<8>;
    ld.param.b64 %rd1, [copy_engine_param_0];
    ld.param.b64 %rd2, [copy_engine_param_0+8];
    ld.param.b64 %rd3, [copy_engine_param_0+16];
    mov.u32 %r1, %tid.x;
    cvt.u64.u32 %rd4, %r1;
    or.b64 %rd5, %rd1, %rd2;
    or.b64 %rd5, %rd5, %rd3;
    and.b64 %rd5, %rd5, 7;
    setp.ne.s64 %p1, %rd5, 0;
    @%p1 bra $BYTES;
    shl.b64 %rd4, %rd4, 3;
$WORDS:
    setp.ge.u64 %p2, %rd4, %rd3;
    @%p2 bra $END;
    add.s64 %rd6, %rd1, %rd4;
    ld.global.b64 %rd7, [%rd6];
    add.s64 %rd6, %rd2, %rd4;
    st.global.b64 [%rd6], %rd7;
    add.s64 %rd4, %rd4, 256;
    bra $WORDS;
$BYTES:
    setp.ge.u64 %p2, %rd4, %rd3;
    @%p2 bra $END;
    add.s64 %rd6, %rd1, %rd4;
    ld.global.b8 %rs1, [%rd6];
    add.s64 %rd6, %rd2, %rd4;
    st.global.b8 [%rd6], %rs1;
    add.s64 %rd4, %rd4, 32;
    bra $BYTES;
$END:
    ret;
}
";
const SHAPE: LaunchShape = LaunchShape { blocks: 1, threads: 32, shared_bytes: 0, waits_itself: false };
/// No module that the host has loaded.
const NO_MODULE: ModuleHandle = ModuleHandle(0);

static KERNEL: LazyLock<Arc<Kernel>> = LazyLock::new(|| {
    let module = ptx::parse(TEXT).expect("the machine knows its own text");
    module.kernels.into_iter().next().expect("it has a kernel")
});

impl Driver {
    /// `cuMemcpyDtoDAsync`, or a copy node when the stream is being captured.
    pub(crate) fn stream_copy(
        &mut self,
        memory: &Memory,
        handle: StreamHandle,
        from: u64,
        to: u64,
        len_bytes: u64,
    ) -> Result<()> {
        const CALL: &str = "cuMemcpyDtoDAsync";
        let stream = find(&self.streams, handle, CALL)?;
        memory.check_copy(CALL, stream.device, from, to, len_bytes)?;
        let function =
            Arc::new(Function { device: stream.device, module: NO_MODULE, kernel: KERNEL.clone() });
        let argument = [from, to, len_bytes].map(u64::to_le_bytes).concat();
        let launch = Arc::new(Launch::new(function, SHAPE, &argument)?);
        if stream.capture.is_some() {
            return self.capture_node(handle, Work::Copy(launch), CALL);
        }
        self.enqueue(handle, Some(launch), &[], CALL)
    }
}
