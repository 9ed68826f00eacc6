//! Vectors, second addresses, kernel boundaries.

use super::{Block, Device, Litmus, System, check_all};

const VECTOR: Litmus = Litmus {
    name: "an LL slot",
    threads: &[
        "st.relaxed.sys.global.v2.b64 [%x], {%one, %one}",
        "ld.relaxed.sys.global.v2.b64 {%d0, %d1}, [%x]; cvt.u32.u64 %r0, %d0; cvt.u32.u64 %r1, %d1",
    ],
    observed: "1:r0 1:r1",
    outcomes: &["0 0", "0 1", "1 0", "1 1"],
    uncovered: &[],
    unseen: &[],
    races: false,
};

/// A vector is torn into its elements, each of which is whole.
#[test]
fn vectors_tear() {
    let tests = [
        VECTOR,
        Litmus {
            name: "halves of one element",
            threads: &[
                "mov.u64 %d0, 0x100000001; st.relaxed.sys.global.b64 [%x], %d0",
                "ld.relaxed.sys.global.b64 %d0, [%x]; mov.b64 {%r0, %r1}, %d0",
            ],
            outcomes: &["0 0", "1 1"],
            ..VECTOR
        },
        Litmus {
            name: "four elements",
            threads: &[
                "mov.u32 %r0, 1; st.relaxed.sys.global.v4.b32 [%x], {%r0, %r0, %r0, %r0}",
                "ld.relaxed.sys.global.v4.b32 {%r0, %r1, %r2, %r3}, [%x]",
            ],
            observed: "1:r0 1:r1 1:r2 1:r3",
            outcomes: &[
                "0 0 0 0", "0 0 0 1", "0 0 1 0", "0 0 1 1", "0 1 0 0", "0 1 0 1", "0 1 1 0", "0 1 1 1",
                "1 0 0 0", "1 0 0 1", "1 0 1 0", "1 0 1 1", "1 1 0 0", "1 1 0 1", "1 1 1 0", "1 1 1 1",
            ],
            ..VECTOR
        },
        Litmus {
            name: "one element of 16 bytes",
            threads: &[
                "mov.b128 %q0, {%one, %one}; st.relaxed.sys.global.b128 [%x], %q0",
                "ld.relaxed.sys.global.b128 %q0, [%x]; mov.b128 {%d0, %d1}, %q0; cvt.u32.u64 %r0, %d0; \
                 cvt.u32.u64 %r1, %d1",
            ],
            outcomes: &["0 0", "1 1"],
            ..VECTOR
        },
    ];
    for test in tests {
        [Block, Device, System].into_iter().for_each(|placement| test.check("sys", true, placement));
    }
}

/// Elements of different width give no outcome that the model promises, and are a race.
#[test]
fn mixed_sizes_race() {
    let test = Litmus {
        name: "mixed sizes",
        threads: &["st.relaxed.sys.global.b64 [%x], %one", "ld.relaxed.sys.global.b32 %r0, [%x]"],
        observed: "1:r0",
        outcomes: &["0", "1"],
        races: true,
        ..VECTOR
    };
    test.check("sys", true, System);
}

#[test]
fn second_addresses() {
    const TEST: Litmus = Litmus {
        name: "an alias in one thread",
        threads: &["st.relaxed x 1; ld.relaxed r0 a"],
        observed: "0:r0",
        outcomes: &["0", "1"],
        uncovered: &[],
        unseen: &[],
        races: true,
    };
    const PASSED: Litmus = Litmus {
        name: "MP by an alias",
        threads: &["st.weak x 1; st.release y 1", "ld.acquire r0 y; if r0 1; ld.weak r1 a"],
        observed: "1:r0 1:r1",
        outcomes: &["0 -", "1 0", "1 1"],
        ..TEST
    };
    let fenced = ["fence.proxy.alias in the reader", "fence.proxy.alias in the writer"];
    let tests = [
        TEST,
        Litmus {
            name: "an alias in one thread, fenced",
            threads: &["st.relaxed x 1; fence.proxy.alias; ld.relaxed r0 a"],
            outcomes: &["1"],
            races: false,
            ..TEST
        },
        Litmus {
            name: "strong accesses by two addresses, behind an alias fence",
            threads: &["st.relaxed x 1", "fence.proxy.alias; ld.relaxed r0 a"],
            observed: "1:r0",
            races: false,
            ..TEST
        },
        Litmus {
            name: "a flag by another address, behind an alias fence",
            threads: &[
                "st.weak y 1; st.release x 1",
                "fence.proxy.alias; ld.acquire r0 a; if r0 1; ld.weak r1 y",
            ],
            observed: "1:r0 1:r1",
            outcomes: &["0 -", "1 1"],
            races: false,
            ..TEST
        },
        PASSED,
        Litmus {
            name: fenced[0],
            threads: &[
                "st.weak x 1; st.release y 1",
                "ld.acquire r0 y; if r0 1; fence.proxy.alias; ld.weak r1 a",
            ],
            outcomes: &["0 -", "1 1"],
            races: false,
            ..PASSED
        },
        Litmus {
            name: fenced[1],
            threads: &[
                "st.weak x 1; fence.proxy.alias; st.release y 1",
                "ld.acquire r0 y; if r0 1; ld.weak r1 a",
            ],
            outcomes: &["0 -", "1 1"],
            races: false,
            ..PASSED
        },
    ];
    for test in tests {
        [Block, Device, System].into_iter().for_each(|placement| test.check("sys", true, placement));
    }
}

/// H2: a kernel's stores are performed before any store of the next kernel on the stream. It orders nothing else: the
/// accesses of the reader stay unordered.
#[test]
fn kernel_boundaries() {
    const TEST: Litmus = Litmus {
        name: "MP across a kernel boundary",
        threads: &["st.relaxed x 1; kernel; st.relaxed y 1", "ld.relaxed r0 y; ld.relaxed r1 x"],
        observed: "1:r0 1:r1",
        outcomes: &["0 0", "0 1", "1 1"],
        uncovered: &[],
        unseen: &["1 0"],
        races: false,
    };
    for placement in [Device, System] {
        TEST.check("sys", true, placement);
        let weak = Litmus {
            name: "weak data across a kernel boundary",
            threads: &["st.weak x 1; kernel; st.relaxed y 1", "ld.relaxed r0 y; if r0 1; ld.weak r1 x"],
            outcomes: &["0 -", "1 1"],
            races: true,
            ..TEST
        };
        weak.check("sys", true, placement);
        let released = Litmus {
            name: "a release behind a kernel boundary",
            threads: &["st.weak x 1; kernel; st.release y 1", "ld.acquire r0 y; if r0 1; ld.weak r1 x"],
            outcomes: &["0 -", "1 1"],
            unseen: &[],
            races: false,
            ..TEST
        };
        released.check("sys", true, placement);
    }
}

/// What the threads of a block did before their barrier is known to all of them behind it.
#[test]
fn block_barriers() {
    let barrier = Litmus {
        name: "a block barrier",
        threads: &["st.weak x 1; bar.sync 0", "bar.sync 0; ld.weak r0 x"],
        observed: "1:r0",
        outcomes: &["1"],
        ..VECTOR
    };
    barrier.check("cta", true, Block);
    let none = Litmus {
        name: "no block barrier",
        threads: &["st.weak x 1", "ld.weak r0 x"],
        outcomes: &["0", "1"],
        races: true,
        ..barrier
    };
    none.check("cta", true, Block);
    check_all(&[]);
}
